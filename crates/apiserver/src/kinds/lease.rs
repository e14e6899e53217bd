//! Lease: who holds something, and until when.

use serde_json::Value;

use crate::field::FieldError;
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Resource, Rules};
use crate::table::{Column, age, name};

pub(super) fn own(resource: Resource) -> Resource {
    let rules = Rules {
        unconditional_update: false,
        create_on_update: true,
        qualified_finalizers: false,
        prepare_create: |object, _| drop_election(object, None),
        prepare_update: |object, change| drop_election(object, change.old),
        validate,
        ..Rules::default()
    };
    Resource {
        columns: vec![
            name(),
            Column::text("Holder", |object, _| text(object, "spec.holderIdentity").into()),
            age(),
        ],
        rules,
        ..resource
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
    errors
}

/// Coordinated leader election is off, as it is in Kubernetes by default: its fields are not kept.
fn drop_election(object: &mut Object, old: Option<&Object>) {
    for field in ["strategy", "preferredHolder"] {
        let known = old.and_then(|old| lookup(old, "spec")).is_some_and(|spec| spec.get(field).is_some());
        if let (false, Some(Value::Object(spec))) = (known, object.get_mut("spec")) {
            spec.remove(field);
        }
    }
}
