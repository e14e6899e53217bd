//! Event: what happened to an object, in two groups over the same rows. `v1` is what is stored; `events.k8s.io/v1`
//! calls some fields differently and is stricter.

use jiff::Timestamp;
use serde_json::Value;

use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Rename, Resource, Rules, Storage, Typing};
use crate::selector::Selectable;
use crate::table::Column;
use crate::times;

const GROUP: &str = "events.k8s.io";

pub(super) fn core(resource: Resource) -> Resource {
    let rules = Rules { names: NameRule::PathSegment, create_on_update: true, validate, ..Rules::default() };
    Resource {
        selectable: vec![
            Selectable::at("involvedObject.kind", &["involvedObject.kind"]),
            Selectable::at("involvedObject.namespace", &["involvedObject.namespace"]),
            Selectable::at("involvedObject.name", &["involvedObject.name"]),
            Selectable::at("involvedObject.uid", &["involvedObject.uid"]),
            Selectable::at("involvedObject.apiVersion", &["involvedObject.apiVersion"]),
            Selectable::at("involvedObject.resourceVersion", &["involvedObject.resourceVersion"]),
            Selectable::at("involvedObject.fieldPath", &["involvedObject.fieldPath"]),
            Selectable::at("reason", &["reason"]),
            Selectable::at("reportingComponent", &["reportingComponent"]),
            Selectable::at("source", &["source.component", "reportingComponent"]),
            Selectable::at("type", &["type"]),
        ],
        columns: columns(),
        rules,
        ..resource
    }
}

pub(super) fn events(resource: Resource) -> Resource {
    let rules = Rules { names: NameRule::Subdomain, create_on_update: true, validate, ..Rules::default() };
    Resource {
        storage: Storage {
            space: "events".into(),
            api_version: "v1".into(),
            typing: Typing::Builtin("core/v1.Event"),
        },
        view: &[
            Rename { stored: "involvedObject", here: "regarding" },
            Rename { stored: "message", here: "note" },
            Rename { stored: "reportingComponent", here: "reportingController" },
            Rename { stored: "source", here: "deprecatedSource" },
            Rename { stored: "firstTimestamp", here: "deprecatedFirstTimestamp" },
            Rename { stored: "lastTimestamp", here: "deprecatedLastTimestamp" },
            Rename { stored: "count", here: "deprecatedCount" },
        ],
        selectable: vec![
            Selectable::at("regarding.kind", &["involvedObject.kind"]),
            Selectable::at("regarding.namespace", &["involvedObject.namespace"]),
            Selectable::at("regarding.name", &["involvedObject.name"]),
            Selectable::at("regarding.uid", &["involvedObject.uid"]),
            Selectable::at("regarding.apiVersion", &["involvedObject.apiVersion"]),
            Selectable::at("regarding.resourceVersion", &["involvedObject.resourceVersion"]),
            Selectable::at("regarding.fieldPath", &["involvedObject.fieldPath"]),
            Selectable::at("reason", &["reason"]),
            Selectable::at("reportingController", &["reportingComponent"]),
            Selectable::at("type", &["type"]),
        ],
        columns: columns(),
        rules,
        ..resource
    }
}

fn columns() -> Vec<Column> {
    vec![
        Column::text("Last Seen", |event, now| last_seen(event, now).into()),
        Column::text("Type", |event, _| text(event, "type").into()),
        Column::text("Reason", |event, _| text(event, "reason").into()),
        Column::text("Object", |event, _| target(event).into()),
        Column::wide("Subobject", |event, _| text(event, "involvedObject.fieldPath").into()),
        Column::wide("Source", |event, _| source(event).into()),
        Column::text("Message", |event, _| text(event, "message").trim().into()),
        Column::wide("First Seen", |event, now| first_seen(event, now).into()),
        Column::wide("Count", |event, _| count(event).into()),
        Column::wide("Name", |event, _| event.name().into()).named(),
    ]
}

fn first_seen(event: &Object, now: Timestamp) -> String {
    match text(event, "firstTimestamp") {
        "" => times::age(text(event, "eventTime"), now),
        first => times::age(first, now),
    }
}

fn last_seen(event: &Object, now: Timestamp) -> String {
    if lookup(event, "series").is_some_and(Value::is_object) {
        return times::age(text(event, "series.lastObservedTime"), now);
    }
    match text(event, "lastTimestamp") {
        "" => first_seen(event, now),
        last => times::age(last, now),
    }
}

fn count(event: &Object) -> i64 {
    let number = |path: &str| lookup(event, path).and_then(Value::as_i64);
    number("series.count").or(number("count")).filter(|count| *count != 0).unwrap_or(1)
}

fn target(event: &Object) -> String {
    let kind = text(event, "involvedObject.kind").to_lowercase();
    match text(event, "involvedObject.name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Object) -> String {
    let first = |a: &'static str, b: &'static str| match text(event, a) {
        "" => text(event, b),
        filled => filled,
    };
    let component = first("source.component", "reportingComponent");
    match first("source.host", "reportingInstance") {
        "" => component.into(),
        host => format!("{component}, {host}"),
    }
}

fn validate(event: &Object, change: Change<'_>) -> Vec<FieldError> {
    let strict = change.resource.group == GROUP;
    let mut errors = validate_legacy(event, strict);
    if strict {
        match change.old {
            None => validate_new(event, &mut errors),
            Some(old) => validate_changes(event, old, &mut errors),
        }
    }
    errors
}

/// What every event must hold to, in either group.
fn validate_legacy(event: &Object, strict: bool) -> Vec<FieldError> {
    const NAMESPACE: &str = "involvedObject.namespace";
    const LIMITS: [(&str, usize); 3] = [("reportingInstance", 128), ("action", 128), ("reason", 128)];
    let mut errors = Vec::new();
    let own = event.namespace();
    let involved = text(event, NAMESPACE);
    let mismatch = || FieldError::invalid(NAMESPACE, involved, "does not match event.namespace");
    if text(event, "eventTime").is_empty() {
        let agrees = if involved.is_empty() { matches!(own, "" | "default") } else { own == involved };
        if !agrees {
            errors.push(mismatch());
        }
        return errors;
    }
    if involved.is_empty() && !matches!(own, "default" | "kube-system") {
        errors.push(mismatch());
    }
    let reporter_field = if strict { "reportingController" } else { "reportingComponent" };
    let reporter = text(event, "reportingComponent");
    if reporter.is_empty() {
        errors.push(FieldError::required(reporter_field, ""));
    }
    for problem in names::qualified(reporter) {
        errors.push(FieldError::invalid(reporter_field, reporter, problem));
    }
    for (field, limit) in LIMITS {
        let value = text(event, field);
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
        if value.len() > limit {
            errors.push(FieldError::invalid(field, "", format!("can have at most {limit} characters")));
        }
    }
    if text(event, "message").len() > 1024 {
        errors.push(FieldError::invalid("message", "", "can have at most 1024 characters"));
    }
    errors
}

fn validate_series(event: &Object, errors: &mut Vec<FieldError>) {
    if !lookup(event, "series").is_some_and(Value::is_object) {
        return;
    }
    if lookup(event, "series.count").and_then(Value::as_i64).unwrap_or(0) < 2 {
        errors.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if text(event, "series.lastObservedTime").is_empty() {
        errors.push(FieldError::required("series.lastObservedTime", ""));
    }
}

fn validate_new(event: &Object, errors: &mut Vec<FieldError>) {
    validate_series(event, errors);
    if text(event, "eventTime").is_empty() {
        errors.push(FieldError::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let mut unset = |field: &str, is_set: bool| {
        if is_set {
            errors.push(FieldError::invalid(field, "", "needs to be unset"));
        }
    };
    unset("firstTimestamp", !text(event, "firstTimestamp").is_empty());
    unset("lastTimestamp", !text(event, "lastTimestamp").is_empty());
    unset("count", lookup(event, "count").and_then(Value::as_i64).unwrap_or(0) != 0);
    let source = ["source.component", "source.host"].iter().any(|path| !text(event, path).is_empty());
    unset("source", source);
}

fn validate_changes(event: &Object, old: &Object, errors: &mut Vec<FieldError>) {
    if event.get("series") != old.get("series") {
        validate_series(event, errors);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingInstance",
    ] {
        if event.get(field) != old.get(field) {
            let value = event.get(field).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
    if event.get("reportingComponent") != old.get("reportingComponent") {
        let value = text(event, "reportingComponent");
        errors.push(FieldError::invalid("reportingController", value, "field is immutable"));
    }
}
