//! Deployment, ReplicaSet, StatefulSet and DaemonSet: stored, defaulted, checked and printed. No pod follows from them.

use serde_json::Value;

use super::cells::{each_text, number, or_none, pairs, selector};
use super::defaults::{Row, To, each, fill};
use super::{blank_status, keep_status_apart, pod_spec, scale};
use crate::field::{FieldError, Wrong};
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::LabelSelector;
use crate::table::{Column, age, name};

pub(super) const TEMPLATE: &str = "spec.template";
/// Counts the changes of a DaemonSet's template.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn rules() -> Rules {
    Rules {
        generations: Generations::Content,
        prepare_create: blank_status,
        prepare_update: keep_status_apart,
        ..Rules::default()
    }
}

pub(super) fn deployment(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Ready", ready),
            Column::integer("Up-to-date", |object, _| number(object, "status.updatedReplicas").into()),
            Column::integer("Available", |object, _| number(object, "status.availableReplicas").into()),
            age(),
            containers(),
            images(),
            selects(),
        ],
        scale: scale(),
        rules: Rules {
            default: |object, _| default(object, DEPLOYMENT, "spec.strategy", DEPLOYMENT_ROLLS),
            generations: Generations::ContentAndAnnotations,
            prepare_update: |object, change| {
                keep_status_apart(object, change);
                if change.subresource == Some(Subresource::Status) {
                    change.keep_meta(object, "labels");
                }
            },
            validate: validate_deployment,
            ..rules()
        },
        ..resource
    }
}

pub(super) fn replica_set(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Desired", |object, _| number(object, "spec.replicas").into()),
            Column::integer("Current", |object, _| number(object, "status.replicas").into()),
            Column::integer("Ready", |object, _| number(object, "status.readyReplicas").into()),
            age(),
            containers(),
            images(),
            selects(),
        ],
        scale: scale(),
        rules: Rules {
            default: |object, _| default(object, REPLICA_SET, "", &[]),
            validate: |object, change| validate(object, change, "for replica set"),
            ..rules()
        },
        ..resource
    }
}

pub(super) fn stateful_set(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), Column::text("Ready", ready), age(), containers(), images()],
        scale: scale(),
        rules: Rules {
            default: |object, _| {
                // Who asks for rolling updates and says no more gets no more.
                let asked = text(object, "spec.updateStrategy.type") == "RollingUpdate"
                    && lookup(object, "spec.updateStrategy.rollingUpdate").is_none();
                let rolls = if asked { &[] } else { STATEFUL_SET_ROLLS };
                default(object, STATEFUL_SET, "spec.updateStrategy", rolls);
            },
            validate: validate_stateful_set,
            ..rules()
        },
        ..resource
    }
}

pub(super) fn daemon_set(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Desired", |object, _| number(object, "status.desiredNumberScheduled").into()),
            Column::integer("Current", |object, _| number(object, "status.currentNumberScheduled").into()),
            Column::integer("Ready", |object, _| number(object, "status.numberReady").into()),
            Column::integer("Up-to-date", |object, _| number(object, "status.updatedNumberScheduled").into()),
            Column::integer("Available", |object, _| number(object, "status.numberAvailable").into()),
            Column::text("Node Selector", |object, _| {
                or_none(pairs(lookup(object, "spec.template.spec.nodeSelector")))
            }),
            age(),
            containers(),
            images(),
            selects(),
        ],
        rules: Rules {
            default: |object, _| default(object, DAEMON_SET, "spec.updateStrategy", DAEMON_SET_ROLLS),
            prepare_create: |object, resource| {
                count_template(object, 1);
                blank_status(object, resource);
            },
            prepare_update: |object, change| {
                keep_status_apart(object, change);
                let old = change.old.map(template_generation).unwrap_or_default();
                let same = change.old.is_some_and(|old| lookup(old, TEMPLATE) == lookup(object, TEMPLATE));
                count_template(object, if same { old } else { old + 1 });
            },
            validate: |object, change| {
                let mut errors = validate(object, change, "for daemonset");
                // The missing match with the template says it already.
                errors.retain(|error| error.wrong != Wrong::Required || error.field != "spec.selector");
                errors
            },
            ..rules()
        },
        ..resource
    }
}

const DEPLOYMENT: &[Row] = &[
    ("spec", "replicas", To::Number(1)),
    ("spec", "progressDeadlineSeconds", To::Number(600)),
    ("spec", "revisionHistoryLimit", To::Number(10)),
    ("spec", "strategy", To::Empty),
    ("spec.strategy", "type", To::Text("RollingUpdate")),
];
const REPLICA_SET: &[Row] = &[("spec", "replicas", To::Number(1))];
const STATEFUL_SET: &[Row] = &[
    ("spec", "replicas", To::Number(1)),
    ("spec", "podManagementPolicy", To::Text("OrderedReady")),
    ("spec", "revisionHistoryLimit", To::Number(10)),
    ("spec", "persistentVolumeClaimRetentionPolicy", To::Empty),
    ("spec.persistentVolumeClaimRetentionPolicy", "whenDeleted", To::Text("Retain")),
    ("spec.persistentVolumeClaimRetentionPolicy", "whenScaled", To::Text("Retain")),
    ("spec", "updateStrategy", To::Empty),
    ("spec.updateStrategy", "type", To::Text("RollingUpdate")),
    ("spec.volumeClaimTemplates[]", "apiVersion", To::Text("v1")),
    ("spec.volumeClaimTemplates[]", "kind", To::Text("PersistentVolumeClaim")),
    ("spec.volumeClaimTemplates[].spec", "volumeMode", To::Text("Filesystem")),
    ("spec.volumeClaimTemplates[]", "status", To::Empty),
    ("spec.volumeClaimTemplates[].status", "phase", To::Text("Pending")),
];
const DAEMON_SET: &[Row] = &[
    ("spec", "revisionHistoryLimit", To::Number(10)),
    ("spec", "updateStrategy", To::Empty),
    ("spec.updateStrategy", "type", To::Text("RollingUpdate")),
];

/// How a rolling update goes, which is filled in only where there is one.
const DEPLOYMENT_ROLLS: &[Row] = &[
    ("", "rollingUpdate", To::Empty),
    ("rollingUpdate", "maxSurge", To::Text("25%")),
    ("rollingUpdate", "maxUnavailable", To::Text("25%")),
];
const STATEFUL_SET_ROLLS: &[Row] =
    &[("", "rollingUpdate", To::Empty), ("rollingUpdate", "partition", To::Number(0))];
const DAEMON_SET_ROLLS: &[Row] = &[
    ("", "rollingUpdate", To::Empty),
    ("rollingUpdate", "maxSurge", To::Number(0)),
    ("rollingUpdate", "maxUnavailable", To::Number(1)),
];

fn default(object: &mut Object, rows: &[Row], strategy: &str, rolling: &[Row]) {
    fill(object, rows);
    each(object, strategy, &mut |strategy| {
        if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
            fill(strategy, rolling);
        }
    });
    each(object, "spec.template.spec", &mut pod_spec::default);
}

fn template_generation(object: &Object) -> i64 {
    let annotations = object.meta().and_then(|meta| meta.get("annotations"));
    let count = annotations.and_then(|annotations| annotations.get(TEMPLATE_GENERATION));
    count.and_then(Value::as_str).and_then(|count| count.parse().ok()).unwrap_or(0)
}

fn count_template(object: &mut Object, generation: i64) {
    let annotations = object.meta_mut().entry("annotations").or_insert_with(|| Value::Object(Object::new()));
    if let Value::Object(annotations) = annotations {
        annotations.insert(TEMPLATE_GENERATION.into(), generation.to_string().into());
    }
}

fn ready(object: &Object, _: jiff::Timestamp) -> Value {
    format!("{}/{}", number(object, "status.readyReplicas"), number(object, "spec.replicas")).into()
}

pub(super) fn containers() -> Column {
    Column::wide("Containers", |object, _| each_text(object, "spec.template.spec.containers", "name"))
}

pub(super) fn images() -> Column {
    Column::wide("Images", |object, _| each_text(object, "spec.template.spec.containers", "image"))
}

pub(super) fn selects() -> Column {
    Column::wide("Selector", |object, _| selector(object, "spec.selector"))
}

fn validate_deployment(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = validate(object, change, "for deployment");
    const STRATEGIES: [&str; 2] = ["Recreate", "RollingUpdate"];
    let strategy = text(object, "spec.strategy.type");
    if !STRATEGIES.contains(&strategy) {
        errors.push(FieldError::not_supported("spec.strategy", strategy, &STRATEGIES));
    }
    if strategy == "Recreate" && lookup(object, "spec.strategy.rollingUpdate").is_some() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
    }
    errors
}

fn validate_stateful_set(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Object| {
        let mut spec = lookup(object, "spec").and_then(Value::as_object).cloned().unwrap_or_default();
        spec.retain(|key, _| !CHANGEABLE.contains(&key.as_str()));
        spec
    };
    let mut errors = validate(object, change, "for statefulset");
    if change.old.is_some_and(|old| fixed(old) != fixed(object)) {
        errors.retain(|error| error.field != "spec.selector" || matches!(error.wrong, Wrong::Required));
        let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden("spec", detail));
    }
    errors
}

/// The checks that all of them share.
fn validate(object: &Object, change: Change<'_>, what: &str) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    not_negative(
        object,
        &["spec.replicas", "spec.minReadySeconds", "spec.revisionHistoryLimit"],
        &mut errors,
    );
    let wanted = lookup(object, "spec.selector").filter(|selector| !selector.is_null());
    let labels = lookup(object, "spec.template.metadata.labels");
    match wanted {
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(selector) if LabelSelector::of(selector).is_empty() => {
            let detail = format!("empty selector is invalid {what}");
            errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
        }
        Some(selector) => validate_selector(selector, "spec.selector", &mut errors),
    }
    let matches = wanted.is_some_and(|selector| {
        LabelSelector::of(selector)
            .holds(|key| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str))
    });
    if !matches {
        let detail = "`selector` does not match template `labels`";
        let labels = labels.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
    errors.extend(pod_spec::validate(lookup(object, "spec.template.spec"), "spec.template.spec"));
    let policy = text(object, "spec.template.spec.restartPolicy");
    if matches!(policy, "OnFailure" | "Never") {
        let field = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(field, policy, &["Always"]));
    }
    if let Some(old) = change.old.and_then(|old| lookup(old, "spec.selector"))
        && Some(old) != wanted
    {
        let wanted = wanted.cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid("spec.selector", wanted, "field is immutable"));
    }
    errors
}

/// What is wrong with the expressions of a label selector.
pub(super) fn validate_selector(selector: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let expressions = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    for (at, expression) in expressions.enumerate() {
        let field = |key: &str| format!("{path}.matchExpressions[{at}].{key}");
        let given = expression.get("values").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
        match expression.get("operator").and_then(Value::as_str).unwrap_or_default() {
            "In" | "NotIn" if !given => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(field("values"), detail));
            }
            "Exists" | "DoesNotExist" if given => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(field("values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(field("operator"), other, "not a valid selector operator"));
            }
        }
    }
}

/// Numbers that cannot be below zero.
pub(super) fn not_negative(object: &Object, paths: &[&str], errors: &mut Vec<FieldError>) {
    for path in paths {
        if number(object, path) < 0 {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(*path, number(object, path), detail));
        }
    }
}
