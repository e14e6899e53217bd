//! ReplicationController, ControllerRevision and HorizontalPodAutoscaler: stored, defaulted, checked and printed. Nothing
//! is replicated or scaled.

use serde_json::{Value, json};

use super::cells::{number, or_none, pairs, text_of};
use super::check::{Check, is_set, items};
use super::defaults::{Row, To, each, fill};
use super::workload::{TEMPLATE, containers, images, not_negative};
use super::{blank_status, keep_status_apart, pod_spec};
use crate::crd::Scale;
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

/// How many metrics of an autoscaler its row shows.
const SHOWN_METRICS: usize = 2;

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
        scale: Scale::read(&json!({
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".spec.selector",
        })),
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

pub(super) fn autoscaler(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Reference", |object, _| {
                let target = |key: &str| text(object, &format!("spec.scaleTargetRef.{key}"));
                format!("{}/{}", target("kind"), target("name")).into()
            }),
            Column::text("Targets", |object, _| or_none(targets(object))),
            Column::text("MinPods", |object, _| match lookup(object, "spec.minReplicas") {
                Some(Value::Number(number)) => number.to_string().into(),
                _ => "<unset>".into(),
            }),
            Column::text("MaxPods", |object, _| number(object, "spec.maxReplicas").into()),
            Column::text("Replicas", |object, _| number(object, "status.currentReplicas").into()),
            age(),
        ],
        rules: Rules {
            default: |object, _| default_autoscaler(object),
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_autoscaler,
            ..Rules::default()
        },
        ..resource
    }
}

const CONTROLLER: &[Row] = &[("spec", "replicas", To::Number(1))];
const SCALES_UP: &[Row] =
    &[("", "stabilizationWindowSeconds", To::Number(0)), ("", "selectPolicy", To::Text("Max"))];
const SCALES_DOWN: &[Row] = &[("", "selectPolicy", To::Text("Max"))];

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

/// Without metrics, four fifths of the CPU; and where there is behavior, all of it.
fn default_autoscaler(object: &mut Object) {
    fill(object, &[("spec", "minReplicas", To::Number(1))]);
    each(object, "spec", &mut |spec| {
        if spec.get("metrics").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            let target = json!({"type": "Utilization", "averageUtilization": 80});
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
            spec.insert("metrics".into(), vec![metric].into());
        }
    });
    each(object, "spec.behavior", &mut |behavior| {
        let up = json!([
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ]);
        let down = json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]);
        for (key, rows, policies) in [("scaleUp", SCALES_UP, up), ("scaleDown", SCALES_DOWN, down)] {
            let rules = behavior.entry(key).or_insert_with(|| Value::Object(Object::new()));
            if let Value::Object(rules) = rules {
                fill(rules, rows);
                rules.entry("policies").or_insert(policies);
            }
        }
    });
}

/// The metrics and where they stand: `cpu: 10%/80%`.
fn targets(object: &Object) -> String {
    let current = lookup(object, "status.currentMetrics").and_then(Value::as_array);
    let mut shown: Vec<String> = items(object, "spec.metrics")
        .enumerate()
        .map(|(at, (_, metric))| target(metric, current.and_then(|current| current.get(at))))
        .collect();
    let more = shown.len().saturating_sub(SHOWN_METRICS);
    shown.truncate(SHOWN_METRICS);
    let shown = shown.join(", ");
    if more > 0 { format!("{shown} + {more} more...") } else { shown }
}

fn target(metric: &Value, status: Option<&Value>) -> String {
    let (key, named) = match text_of(metric, "type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".into(),
    };
    let source = metric.get(key).cloned().unwrap_or_default();
    let now = status.and_then(|status| status.get(key)).and_then(|status| status.get("current"));
    let wanted = |field: &str| source.get("target").and_then(|target| target.get(field));
    let figure = |value: Option<&Value>, unit: &str, otherwise: &str| match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => format!("{number}{unit}"),
        _ => otherwise.to_owned(),
    };
    let (field, unit, otherwise, average) = match (wanted("averageValue"), named) {
        (Some(_), true) => ("averageValue", "", "0", ""),
        (Some(_), false) if key == "pods" => ("averageValue", "", "0", ""),
        (Some(_), false) => ("averageValue", "", "0", " (avg)"),
        (None, true) => ("averageUtilization", "%", "<auto>", ""),
        (None, false) => ("value", "", "0", ""),
    };
    let current = figure(now.and_then(|now| now.get(field)), unit, "<unknown>");
    let wanted = figure(wanted(field), unit, otherwise);
    let name = if named { format!("{}: ", text_of(&source, "name")) } else { String::new() };
    format!("{name}{current}/{wanted}{average}")
}

fn validate_autoscaler(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        not_negative(object, &["status.currentReplicas", "status.desiredReplicas"], &mut check.errors);
        return check.errors;
    }
    const MAX: &str = "spec.maxReplicas";
    check.number("spec.minReplicas", |number| number >= 1, "must be greater than or equal to 1");
    let (min, max) = (number(object, "spec.minReplicas"), number(object, MAX));
    match max {
        0 => check.add(FieldError::required(MAX, "must be set and greater than 0")),
        max if max < 0 => {
            check.add(FieldError::invalid(MAX, max, "must be greater than or equal to 1"));
        }
        _ => {}
    }
    if max < min {
        check.add(FieldError::invalid(MAX, max, "must be greater than or equal to `minReplicas`"));
    }
    check.required("spec.scaleTargetRef.kind");
    check.required("spec.scaleTargetRef.name");
    check.errors
}
