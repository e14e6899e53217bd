//! ResourceQuota, LimitRange, PodDisruptionBudget and PriorityClass: rules for pods, which nobody here enforces.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::cells::number;
use super::defaults::{To, each, fill};
use super::workload::validate_selector;
use super::{blank_status, keep_status_apart};
use crate::field::FieldError;
use crate::object::{Meta, Object, lookup, text};
use crate::quantity::Quantity;
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::table::{Column, age, created_at, name};

const HIGHEST_PRIORITY: i64 = 1_000_000_000;
/// The priorities that Kubernetes keeps for itself.
const SYSTEM_PRIORITIES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

pub(super) fn resource_quota(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Request", |object, _| used(object, false).into()),
            Column::text("Limit", |object, _| used(object, true).into()),
            age(),
        ],
        rules: Rules {
            returns_deleted: true,
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_quota,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn limit_range(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), created_at()],
        rules: Rules {
            create_on_update: true,
            default: |object, _| each(object, "spec.limits[]", &mut default_limits),
            validate: validate_limits,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn disruption_budget(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Min Available", |object, _| or_not_applicable(object, "spec.minAvailable")),
            Column::text("Max Unavailable", |object, _| or_not_applicable(object, "spec.maxUnavailable")),
            Column::integer("Allowed Disruptions", |object, _| {
                number(object, "status.disruptionsAllowed").into()
            }),
            age(),
        ],
        rules: Rules {
            unconditional_update: false,
            generations: Generations::Content,
            prepare_create: blank_status,
            prepare_update: keep_status_apart,
            validate: validate_budget,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn priority_class(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Value", |object, _| number(object, "value").into()),
            Column::boolean("Global-Default", |object, _| {
                lookup(object, "globalDefault").and_then(Value::as_bool).unwrap_or(false).into()
            }),
            age(),
            Column::wide("PreemptionPolicy", |object, _| text(object, "preemptionPolicy").into()),
        ],
        rules: Rules {
            generations: Generations::Content,
            default: |object, _| fill(object, &[("", "preemptionPolicy", To::Text("PreemptLowerPriority"))]),
            validate: validate_priority,
            ..Rules::default()
        },
        ..resource
    }
}

/// What is used of what is allowed, of requests or of limits.
fn used(object: &Object, limits: bool) -> String {
    let hard = lookup(object, "status.hard").and_then(Value::as_object).into_iter().flatten();
    let sorted: BTreeMap<&String, &Value> =
        hard.filter(|(name, _)| name.starts_with("limits.") == limits).collect();
    let shown = sorted.into_iter().map(|(name, hard)| {
        let used = lookup(object, "status.used").and_then(|used| used.get(name)).and_then(Value::as_str);
        format!("{name}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or_default())
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn or_not_applicable(object: &Object, path: &str) -> Value {
    match lookup(object, path) {
        None | Some(Value::Null) => "N/A".into(),
        Some(Value::String(text)) => text.clone().into(),
        Some(other) => other.to_string().into(),
    }
}

/// For containers a maximum is also the default, and the default or the minimum the default request.
fn default_limits(item: &mut Object) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(Value::Object(source)) = item.get(from).cloned() else { continue };
        let target = item.entry(to).or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(target) = target {
            for (name, value) in source {
                target.entry(name).or_insert(value);
            }
        }
    }
}

fn quantities(value: Option<&Value>) -> impl Iterator<Item = (&String, Quantity)> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name, Quantity::read(value.as_str()?).ok()?)))
}

fn validate_quota(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    if change.subresource == Some(Subresource::Status) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    for (name, quantity) in quantities(lookup(object, "spec.hard")) {
        let field = format!("spec.hard[{name}]");
        if quantity.is_negative() {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(&field, quantity.to_string(), detail));
        }
        let counted =
            matches!(name.as_str(), "pods" | "services" | "secrets" | "configmaps" | "resourcequotas")
                || name.starts_with("count/");
        if counted && !quantity.is_whole() {
            errors.push(FieldError::invalid(&field, quantity.to_string(), "must be an integer"));
        }
    }
    errors
}

fn validate_limits(object: &Object, _: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let limits = lookup(object, "spec.limits").and_then(Value::as_array).into_iter().flatten();
    for (at, item) in limits.enumerate() {
        let max: BTreeMap<&String, Quantity> = quantities(item.get("max")).collect();
        for (name, min) in quantities(item.get("min")) {
            if let Some(max) = max.get(name).filter(|max| min > **max) {
                let detail = format!("min value {min} is greater than max value {max}");
                let field = format!("spec.limits[{at}].min[{name}]");
                errors.push(FieldError::invalid(field, min.to_string(), detail));
            }
        }
    }
    errors
}

fn validate_budget(object: &Object, _: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let given = |field: &str| lookup(object, field).filter(|value| !value.is_null());
    let (min, max) = (given("spec.minAvailable"), given("spec.maxUnavailable"));
    if min.is_some() && max.is_some() {
        let spec = lookup(object, "spec").cloned().unwrap_or_default();
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", spec, detail));
    }
    for (field, value) in [("spec.minAvailable", min), ("spec.maxUnavailable", max)] {
        if let Some(value) = value.and_then(Value::as_i64).filter(|value| *value < 0) {
            errors.push(FieldError::invalid(field, value, "must be greater than or equal to 0"));
        }
    }
    if let Some(selector) = given("spec.selector") {
        validate_selector(selector, "spec.selector", &mut errors);
    }
    errors
}

fn validate_priority(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let (name, value) = (object.name(), number(object, "value"));
    let mut errors = Vec::new();
    let system = SYSTEM_PRIORITIES.contains(&(name, value));
    if name.starts_with("system-") && !system {
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a known system priority class"
        );
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if value > HIGHEST_PRIORITY && !system {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_PRIORITY}");
        errors.push(FieldError::forbidden("value", detail));
    }
    for field in ["value", "preemptionPolicy"] {
        if change.old.is_some_and(|old| lookup(old, field) != lookup(object, field)) {
            errors.push(FieldError::forbidden(field, "may not be changed in an update."));
        }
    }
    errors
}
