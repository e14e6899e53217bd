//! ReplicationController and ControllerRevision: stored, defaulted, checked and printed. Nothing is replicated.

use serde_json::Value;

use super::cells::{number, or_none, pairs, text_of};
use super::check::{Check, is_set};
use super::defaults::{Row, To, each, fill};
use super::workload::{TEMPLATE, containers, images, not_negative};
use super::{blank_status, keep_status_apart, pod_spec, scale};
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

pub(super) fn replication_controller(resource: Resource) -> Resource {
    Resource {
        selectable: vec![Selectable::number("status.replicas", &["status.replicas"])],
        columns: vec![
            name(),
            Column::integer("Desired", |object, _| number(object, "spec.replicas").into()),
            Column::integer("Current", |object, _| number(object, "status.replicas").into()),
            Column::integer("Ready", |object, _| number(object, "status.readyReplicas").into()),
            age(),
            containers(),
            images(),
            Column::wide("Selector", |object, _| or_none(pairs(lookup(object, "spec.selector")))),
        ],
        scale: scale(),
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| default_controller(object),
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_controller,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn revision(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Controller", |object, _| or_none(controller(object))),
            Column::text("Revision", |object, _| number(object, "revision").into()),
            age(),
        ],
        rules: Rules {
            validate: |object, change| {
                let mut check = Check::new(object, change);
                if number(object, "revision") < 0 {
                    let detail = "must be greater than or equal to 0";
                    check.add(FieldError::invalid("revision", number(object, "revision"), detail));
                }
                if change.old.is_none() {
                    match object.get("data") {
                        None | Some(Value::Null) => {
                            check.add(FieldError::required("data", "data is mandatory"));
                        }
                        Some(Value::Object(_)) => {}
                        Some(_) => {
                            check.add(FieldError::required("data", "data must be a valid JSON object"));
                        }
                    }
                }
                check.fixed("data");
                check.errors
            },
            ..Rules::default()
        },
        ..resource
    }
}

const CONTROLLER: &[Row] = &[("spec", "replicas", To::Number(1))];
/// The labels of the template select it, and name the controller, unless somebody said otherwise.
fn default_controller(object: &mut Object) {
    fill(object, CONTROLLER);
    each(object, "spec.template.spec", &mut pod_spec::default);
    let Some(labels) = lookup(object, "spec.template.metadata.labels").cloned() else { return };
    let missing = |map: Option<&Value>| map.and_then(Value::as_object).is_none_or(|map| map.is_empty());
    if missing(lookup(object, "spec.selector")) {
        each(object, "spec", &mut |spec| {
            spec.insert("selector".into(), labels.clone());
        });
    }
    if missing(object.meta().and_then(|meta| meta.get("labels"))) {
        object.meta_mut().insert("labels".into(), labels);
    }
}

fn validate_controller(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        return check.errors;
    }
    not_negative(object, &["spec.minReadySeconds", "spec.replicas"], &mut check.errors);
    let selector = lookup(object, "spec.selector").and_then(Value::as_object);
    if selector.is_none_or(|selector| selector.is_empty()) {
        check.add(FieldError::required("spec.selector", ""));
    }
    if !is_set(object, TEMPLATE) {
        check.add(FieldError::required(TEMPLATE, ""));
        return check.errors;
    }
    let labels = lookup(object, "spec.template.metadata.labels");
    let has = |(key, value): (&String, &Value)| labels.and_then(|labels| labels.get(key)) == Some(value);
    if !selector.into_iter().flatten().all(has) {
        let detail = "`selector` does not match template `labels`";
        let labels = labels.cloned().unwrap_or(Value::Null);
        check.add(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    const SPEC: &str = "spec.template.spec";
    check.errors.extend(pod_spec::validate(lookup(object, SPEC), SPEC));
    check.one_of("spec.template.spec.restartPolicy", &["Always"]);
    check.errors
}

/// The owner that controls a revision, as `statefulset.apps/name`.
fn controller(object: &Object) -> String {
    let owners = object.meta().and_then(|meta| meta.get("ownerReferences")).and_then(Value::as_array);
    let controls = |owner: &&Value| owner.get("controller") == Some(&Value::Bool(true));
    let Some(owner) = owners.into_iter().flatten().find(controls) else { return String::new() };
    let kind = text_of(owner, "kind").to_lowercase();
    match text_of(owner, "apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{group}/{}", text_of(owner, "name")),
        None => format!("{kind}/{}", text_of(owner, "name")),
    }
}
