//! Lease: who holds something, and until when.

use serde_json::Value;

use super::{Names, describe};
use crate::field::FieldError;
use crate::names;
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Resource, Rules, Scope};
use crate::table::{Column, age, name};

pub(super) fn resource() -> Resource {
    let names = Names {
        group: "coordination.k8s.io",
        kind: "Lease",
        plural: "leases",
        singular: "lease",
        short: &[],
        shape: "coordination/v1.Lease",
    };
    let rules = Rules { unconditional_update: false, create_on_update: true, validate, ..Rules::default() };
    Resource {
        columns: vec![
            name(),
            Column::text("Holder", |object, _| text(object, "spec.holderIdentity").into()),
            age(),
        ],
        ..describe(names, Scope::Namespaced, rules)
    }
}

fn validate(object: &Object, _: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let number = |path: &str| lookup(object, path).and_then(Value::as_i64);
    if let Some(seconds) = number("spec.leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if let Some(transitions) = number("spec.leaseTransitions").filter(|transitions| *transitions < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("spec.leaseTransitions", transitions, detail));
    }
    let strategy = text(object, "spec.strategy");
    if lookup(object, "spec.strategy").is_some() {
        validate_strategy(strategy, &mut errors);
    }
    if strategy.is_empty() && !text(object, "spec.preferredHolder").is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.push(FieldError::forbidden("spec.preferredHolder", detail));
    }
    errors
}

fn validate_strategy(strategy: &str, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.strategy";
    if strategy.contains('/') {
        for problem in names::qualified(strategy) {
            errors.push(FieldError::invalid(FIELD, strategy, problem));
        }
    } else if strategy != "OldestEmulationVersion" {
        errors.push(FieldError::not_supported(FIELD, strategy, &["OldestEmulationVersion"]));
    }
}
