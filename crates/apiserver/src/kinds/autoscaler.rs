//! HorizontalPodAutoscaler: stored as `autoscaling/v2`, defaulted, checked and printed. Nothing is scaled. The first version
//! knows one metric, the use of CPU; the others are in annotations there, so that a client of it loses nothing.

use serde_json::{Map, Value, json};

use super::cells::{number, or_none, text_of};
use super::check::{Check, items};
use super::defaults::{Row, To, each, fill};
use super::workload::not_negative;
use super::{blank_status, keep_status_apart};
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Conversion, Resource, Rules, Storage, Subresource, Typing};
use crate::shape::BUILTINS;
use crate::table::{Column, age, name};

/// How many metrics its row shows.
const SHOWN_METRICS: usize = 2;

const FIRST_VERSION: Conversion = Conversion { to_stored: from_first, to_served: to_first };

/// What the first version has no field for: where it is, and the annotation that holds it.
const ANNOTATED: [(&str, &str, &str); 4] = [
    ("spec", "metrics", "autoscaling.alpha.kubernetes.io/metrics"),
    ("spec", "behavior", "autoscaling.alpha.kubernetes.io/behavior"),
    ("status", "currentMetrics", "autoscaling.alpha.kubernetes.io/current-metrics"),
    ("status", "conditions", "autoscaling.alpha.kubernetes.io/conditions"),
];

/// The use of CPU: the list of metrics, what each says, and the field of the first version.
const CPU: [(&str, &str, &str, &str); 2] = [
    ("spec", "metrics", "target", "targetCPUUtilizationPercentage"),
    ("status", "currentMetrics", "current", "currentCPUUtilizationPercentage"),
];

pub(super) fn own(resource: Resource) -> Resource {
    let old = resource.version == "v1";
    let typing = match BUILTINS.type_of("autoscaling", "v2", &resource.kind) {
        Some(shape) => Typing::Builtin(shape),
        None => resource.typing.clone(),
    };
    Resource {
        storage: Storage { api_version: "autoscaling/v2".into(), typing, ..resource.storage },
        conversion: old.then_some(&FIRST_VERSION),
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

const SCALES_UP: &[Row] =
    &[("", "stabilizationWindowSeconds", To::Number(0)), ("", "selectPolicy", To::Text("Max"))];
const SCALES_DOWN: &[Row] = &[("", "selectPolicy", To::Text("Max"))];

/// Whether a metric is the use of CPU, in percent.
fn cpu_use(metric: &Value, side: &str) -> Option<Value> {
    let resource = metric.get("resource").filter(|resource| text_of(resource, "name") == "cpu")?;
    resource.get(side)?.get("averageUtilization").cloned()
}

fn to_first(object: &mut Object) {
    for (part, list, side, field) in CPU {
        let mut found = None;
        each(object, part, &mut |part| {
            if let Some(Value::Array(metrics)) = part.get_mut(list) {
                let at = metrics.iter().position(|metric| cpu_use(metric, side).is_some());
                found = at.and_then(|at| cpu_use(&metrics.remove(at), side));
                if metrics.is_empty() {
                    part.remove(list);
                }
            }
            if let Some(found) = found.take() {
                part.insert(field.into(), found);
            }
        });
    }
    for (part, key, annotation) in ANNOTATED {
        let mut rest = None;
        each(object, part, &mut |part| rest = part.remove(key));
        if let Some(rest) = rest.filter(|rest| !rest.is_null()) {
            let annotations =
                object.meta_mut().entry("annotations").or_insert_with(|| Value::Object(Map::new()));
            crate::object::set(annotations, annotation, rest.to_string());
        }
    }
}

fn from_first(object: &mut Object) {
    for (part, key, annotation) in ANNOTATED {
        let Some(Value::Object(annotations)) = object.meta_mut().get_mut("annotations") else { break };
        let Some(rest) = annotations.remove(annotation) else { continue };
        if annotations.is_empty() {
            object.meta_mut().remove("annotations");
        }
        // What cannot be read was not written here, and is dropped as Kubernetes drops it.
        if let Some(Ok(rest)) = rest.as_str().map(serde_json::from_str::<Value>) {
            let part = object.entry(part).or_insert_with(|| Value::Object(Map::new()));
            crate::object::set(part, key, rest);
        }
    }
    for (part, list, side, field) in CPU {
        each(object, part, &mut |part| {
            let Some(percent) = part.remove(field).filter(|percent| !percent.is_null()) else { return };
            let mut said = json!({"averageUtilization": percent});
            if side == "target" {
                crate::object::set(&mut said, "type", "Utilization");
            }
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", side: said}});
            let metrics = part.entry(list).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(metrics) = metrics {
                metrics.insert(0, metric);
            }
        });
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
    let (kind, api) =
        (text(object, "spec.scaleTargetRef.kind"), text(object, "spec.scaleTargetRef.apiVersion"));
    let same = |old: &Object| {
        ["kind", "apiVersion"].iter().all(|key| {
            let path = format!("spec.scaleTargetRef.{key}");
            text(old, &path) == text(object, &path)
        })
    };
    if kind != "ReplicationController" && !api.contains('/') && !change.old.is_some_and(same) {
        let detail = "apiVersion must specify API group";
        check.add(FieldError::invalid("spec.scaleTargetRef.apiVersion", api, detail));
    }
    check.errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_version_keeps_what_it_has_no_fields_for() {
        let stored = json!({
            "metadata": {"name": "a"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleUp": {}}, "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}},
                {"type": "Pods", "pods": {"metric": {"name": "x"}}},
            ]},
        });
        let Value::Object(mut object) = stored.clone() else { panic!("it is an object") };
        to_first(&mut object);
        assert_eq!(lookup(&object, "spec.targetCPUUtilizationPercentage"), Some(&json!(80)));
        assert_eq!(lookup(&object, "spec.metrics"), None);
        from_first(&mut object);
        assert_eq!(Value::Object(object), stored);
    }
}
