//! FlowSchema and PriorityLevelConfiguration: how Kubernetes would share its attention. This server has limits of its own
//! and keeps these as records.

use serde_json::Value;

use super::cells::{number, or_none, text_of};
use super::check::{Check, is_set, items, items_of};
use super::defaults::{Row, To, each, fill};
use super::{blank_status, keep_status_and_metadata_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Meta, Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::table::{Column, age, name};

const PRECEDENCE: &str = "spec.matchingPrecedence";
const EXEMPT: &str = "exempt";
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn rules() -> Rules {
    Rules {
        generations: Generations::Content,
        prepare_create: blank_status,
        prepare_update: keep_status_and_metadata_apart,
        ..Rules::default()
    }
}

pub(super) fn schema(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("PriorityLevel", |object, _| {
                text(object, "spec.priorityLevelConfiguration.name").into()
            }),
            Column::text("MatchingPrecedence", |object, _| number(object, PRECEDENCE).into()),
            Column::text("DistinguisherMethod", |object, _| {
                or_none(text(object, "spec.distinguisherMethod.type"))
            }),
            age(),
            Column::text("MissingPL", |object, _| {
                let dangling = |condition: &&Value| text_of(condition, "type") == "Dangling";
                let conditions = lookup(object, "status.conditions").and_then(Value::as_array);
                match conditions.into_iter().flatten().find(dangling) {
                    Some(condition) => text_of(condition, "status").into(),
                    None => "?".into(),
                }
            }),
        ],
        rules: Rules { default: |object, _| default_schema(object), validate: validate_schema, ..rules() },
        ..resource
    }
}

pub(super) fn level(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Type", |object, _| text(object, "spec.type").into()),
            Column::text("NominalConcurrencyShares", |object, _| {
                shown(object, "spec.limited.nominalConcurrencyShares")
            }),
            Column::text("Queues", |object, _| shown(object, "spec.limited.limitResponse.queuing.queues")),
            Column::text("HandSize", |object, _| {
                shown(object, "spec.limited.limitResponse.queuing.handSize")
            }),
            Column::text("QueueLengthLimit", |object, _| {
                shown(object, "spec.limited.limitResponse.queuing.queueLengthLimit")
            }),
            age(),
        ],
        rules: Rules { default: |object, _| default_level(object), validate: validate_level, ..rules() },
        ..resource
    }
}

const LEVEL: &[Row] = &[
    ("spec.exempt", "nominalConcurrencyShares", To::Number(0)),
    ("spec.exempt", "lendablePercent", To::Number(0)),
    ("spec.limited", "nominalConcurrencyShares", To::Number(30)),
    ("spec.limited", "lendablePercent", To::Number(0)),
];

fn shown(object: &Object, path: &str) -> Value {
    lookup(object, path).filter(|value| !value.is_null()).cloned().unwrap_or_else(|| "<none>".into())
}

/// Fills in numbers that are left out, for which zero counts as well.
fn unless_zero(parent: &mut Object, rows: &[(&str, i64)]) {
    for (field, value) in rows {
        if parent.get(*field).and_then(Value::as_i64).unwrap_or(0) == 0 {
            parent.insert((*field).to_owned(), (*value).into());
        }
    }
}

fn default_schema(object: &mut Object) {
    each(object, "spec", &mut |spec| unless_zero(spec, &[("matchingPrecedence", 1000)]));
}

fn default_level(object: &mut Object) {
    fill(object, LEVEL);
    each(object, "spec.limited.limitResponse.queuing", &mut |queuing| {
        unless_zero(queuing, &[("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)]);
    });
}

fn validate_schema(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        check.unique("status.conditions", "type");
        return check.errors;
    }
    check.number(PRECEDENCE, |number| number > 0, "must be a positive value");
    check.number(PRECEDENCE, |number| number <= 10_000, "must not be greater than 10000");
    if object.name() != EXEMPT {
        let detail = "only the schema named 'exempt' may have matchingPrecedence 1";
        check.number(PRECEDENCE, |number| number != 1, detail);
    }
    check.one_of("spec.distinguisherMethod.type", &["ByNamespace", "ByUser"]);
    const LEVEL: &str = "spec.priorityLevelConfiguration.name";
    check.required_because(LEVEL, "must reference a priority level");
    check.named(LEVEL, names::subdomain);
    for (path, rule) in items(object, "spec.rules") {
        validate_rule(rule, &path, &mut check);
    }
    check.errors
}

fn validate_rule(rule: &Value, path: &str, check: &mut Check<'_>) {
    if items_of(rule, path, "subjects").count() == 0 {
        let detail = "subjects must contain at least one value";
        check.add(FieldError::required(format!("{path}.subjects"), detail));
    }
    for (path, subject) in items_of(rule, path, "subjects") {
        validate_subject(subject, &path, check);
    }
    let rules = |key| items_of(rule, path, key);
    if rules("resourceRules").chain(rules("nonResourceRules")).count() == 0 {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        check.add(FieldError::required(path, detail));
    }
    for (path, rule) in rules("resourceRules") {
        validate_verbs(rule, &path, check);
        for (key, what) in [("apiGroups", "api group"), ("resources", "resource")] {
            if items_of(rule, &path, key).count() == 0 {
                let detail = format!("resource rules must supply at least one {what}");
                check.add(FieldError::required(format!("{path}.{key}"), detail));
            }
        }
        let everywhere = rule.get("clusterScope") == Some(&Value::Bool(true));
        if !everywhere && items_of(rule, &path, "namespaces").count() == 0 {
            let detail = "resource rules that are not cluster scoped must supply at least one namespace";
            check.add(FieldError::required(format!("{path}.namespaces"), detail));
        }
    }
    for (path, rule) in rules("nonResourceRules") {
        validate_verbs(rule, &path, check);
        if items_of(rule, &path, "nonResourceURLs").count() == 0 {
            let detail = "nonResourceURLs must contain at least one value";
            check.add(FieldError::required(format!("{path}.nonResourceURLs"), detail));
        }
    }
}

fn validate_subject(subject: &Value, path: &str, check: &mut Check<'_>) {
    const KINDS: [(&str, &str); 3] =
        [("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = text_of(subject, "kind");
    if !KINDS.iter().any(|(known, _)| *known == kind) {
        let known = KINDS.map(|(known, _)| known);
        check.add(FieldError::not_supported(format!("{path}.kind"), kind, &known));
        return;
    }
    for (known, key) in KINDS {
        let field = format!("{path}.{key}");
        match (known == kind, subject.get(key).filter(|value| !value.is_null())) {
            (true, None) => {
                let detail = format!("{key} is required when subject kind is '{known}'");
                check.add(FieldError::required(field, detail));
            }
            (true, Some(value)) if text_of(value, "name").is_empty() => {
                check.add(FieldError::required(format!("{field}.name"), ""));
            }
            (false, Some(_)) => {
                let detail = format!("{key} is forbidden when subject kind is not '{known}'");
                check.add(FieldError::forbidden(field, detail));
            }
            _ => {}
        }
    }
}

fn validate_verbs(rule: &Value, path: &str, check: &mut Check<'_>) {
    let verbs: Vec<&str> = items_of(rule, path, "verbs").filter_map(|(_, verb)| verb.as_str()).collect();
    let field = format!("{path}.verbs");
    match verbs.as_slice() {
        [] => check.add(FieldError::required(field, "verbs must contain at least one value")),
        ["*"] => {}
        verbs if verbs.contains(&"*") => {
            let detail = "if '*' is present, must not specify other verbs";
            check.add(FieldError::invalid(field, verbs.to_vec(), detail));
        }
        verbs if verbs.iter().any(|verb| !VERBS.contains(verb)) => {
            check.add(FieldError::not_supported(field, verbs.to_vec(), &VERBS));
        }
        _ => {}
    }
}

fn validate_level(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut check = Check::new(object, change);
    if change.subresource == Some(Subresource::Status) {
        check.unique("status.conditions", "type");
        return check.errors;
    }
    let kind = text(object, "spec.type");
    if (object.name() == EXEMPT) != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        check.add(FieldError::invalid("spec.type", kind, detail));
    }
    check.required("spec.type");
    check.one_of("spec.type", &["Exempt", "Limited"]);
    match (kind, is_set(object, "spec.limited"), is_set(object, "spec.exempt")) {
        ("Exempt", true, _) => {
            check.add(FieldError::forbidden("spec.limited", "must be nil if the type is not Limited"));
        }
        ("Limited", _, true) => {
            check.add(FieldError::forbidden("spec.exempt", "must be nil if the type is Limited"));
        }
        ("Limited", false, _) => {
            check.add(FieldError::required("spec.limited", "must not be empty when type is Limited"));
        }
        ("Limited", true, _) => validate_limits(object, &mut check),
        _ => {}
    }
    check.errors
}

fn validate_limits(object: &Object, check: &mut Check<'_>) {
    let whole = "must be a non-negative integer";
    check.number("spec.limited.nominalConcurrencyShares", |number| number >= 0, whole);
    let percent = "must be between 0 and 100, inclusive";
    check.number("spec.limited.lendablePercent", |number| (0..=100).contains(&number), percent);
    const RESPONSE: &str = "spec.limited.limitResponse.type";
    check.required(RESPONSE);
    check.one_of(RESPONSE, &["Queue", "Reject"]);
    const QUEUING: &str = "spec.limited.limitResponse.queuing";
    match (text(object, RESPONSE), is_set(object, QUEUING)) {
        ("Queue", false) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            check.add(FieldError::required(QUEUING, detail));
        }
        ("Reject", true) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            check.add(FieldError::forbidden(QUEUING, detail));
        }
        _ => {}
    }
}
