//! Pod and PodTemplate: stored, defaulted, checked and printed. A pod is Pending until somebody writes otherwise.

use serde_json::{Value, json};

use super::cells::{each_text, or_none, pairs};
use super::defaults::each;
use super::{keep_status_apart, pod_spec, pod_state};
use crate::field::FieldError;
use crate::object::{Object, lookup, text};
use crate::quantity::Quantity;
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::Selectable;
use crate::table::{Column, age, name};

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        selectable: vec![
            Selectable::at("spec.nodeName", &["spec.nodeName"]),
            Selectable::at("spec.restartPolicy", &["spec.restartPolicy"]),
            Selectable::at("spec.schedulerName", &["spec.schedulerName"]),
            Selectable::at("spec.serviceAccountName", &["spec.serviceAccountName"]),
            Selectable::flag("spec.hostNetwork", &["spec.hostNetwork"]),
            Selectable::at("status.phase", &["status.phase"]),
            Selectable::at("status.podIP", &["status.podIP"]),
            Selectable::at("status.podIPs", &["status.podIP"]),
            Selectable::at("status.nominatedNodeName", &["status.nominatedNodeName"]),
        ],
        columns: vec![
            name(),
            Column::text("Ready", |object, _| pod_state::of(object).ready().into()),
            Column::text("Status", |object, _| pod_state::of(object).reason.into()),
            Column::text("Restarts", |object, now| pod_state::of(object).restarted(now).into()),
            age(),
            Column::wide("IP", |object, _| or_none(text(object, "status.podIP"))),
            Column::wide("Node", |object, _| or_none(text(object, "spec.nodeName"))),
            Column::wide("Nominated Node", |object, _| or_none(text(object, "status.nominatedNodeName"))),
            Column::wide("Readiness Gates", |object, _| or_none(pod_state::gates(object))),
        ],
        rules: Rules {
            returns_deleted: true,
            generations: Generations::Content,
            default: |object, _| each(object, "spec", &mut pod_spec::default_pod),
            prepare_create: |object, _| {
                let class = quality(object);
                object.insert("status".into(), json!({"phase": "Pending", "qosClass": class}));
            },
            prepare_update: |object, change| {
                keep_status_apart(object, change);
                if change.subresource == Some(Subresource::Status) {
                    change.keep_meta(object, "ownerReferences");
                }
            },
            validate,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn template(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Containers", |object, _| each_text(object, "template.spec.containers", "name")),
            Column::text("Images", |object, _| each_text(object, "template.spec.containers", "image")),
            Column::text("Pod Labels", |object, _| {
                or_none(pairs(lookup(object, "template.metadata.labels")))
            }),
        ],
        rules: Rules {
            returns_deleted: true,
            generations: Generations::Content,
            default: |object, _| each(object, "template.spec", &mut pod_spec::default),
            validate: |object, _| pod_spec::validate(lookup(object, "template.spec"), "template.spec"),
            ..Rules::default()
        },
        ..resource
    }
}

/// How well a pod is provided for: fully, in part, or not at all.
fn quality(object: &Object) -> &'static str {
    let containers = ["spec.containers", "spec.initContainers"];
    let containers: Vec<&Value> = containers
        .iter()
        .filter_map(|path| lookup(object, path).and_then(Value::as_array))
        .flatten()
        .collect();
    let amount = |container: &Value, of: &str, name: &str| {
        let text = container.get("resources")?.get(of)?.get(name)?.as_str()?;
        Quantity::read(text).ok().filter(|quantity| !quantity.is_zero())
    };
    let mut wants = false;
    let mut guaranteed = true;
    for container in containers {
        for name in ["cpu", "memory"] {
            let (request, limit) = (amount(container, "requests", name), amount(container, "limits", name));
            wants |= request.is_some() || limit.is_some();
            guaranteed &= matches!((request, limit), (Some(request), Some(limit)) if request >= limit && limit >= request);
        }
    }
    match (wants, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let mut errors = pod_spec::validate(lookup(object, "spec"), "spec");
    if let Some(old) = change.old {
        errors.extend(validate_change(object, old));
    }
    errors
}

/// A pod that may be running can be given another image and little else.
fn validate_change(object: &Object, old: &Object) -> Option<FieldError> {
    let count = |object: &Object| lookup(object, "spec.containers").and_then(Value::as_array).map(Vec::len);
    if count(object) != count(old) {
        return Some(FieldError::forbidden(
            "spec.containers",
            "pod updates may not add or remove containers",
        ));
    }
    let fixed = |object: &Object| {
        let mut spec = lookup(object, "spec").and_then(Value::as_object).cloned().unwrap_or_default();
        for key in
            ["activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates"]
        {
            spec.remove(key);
        }
        for path in ["containers[]", "initContainers[]"] {
            each(&mut spec, path, &mut |container| {
                container.remove("image");
            });
        }
        spec
    };
    let detail = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    (fixed(object) != fixed(old)).then(|| FieldError::forbidden("spec", detail))
}
