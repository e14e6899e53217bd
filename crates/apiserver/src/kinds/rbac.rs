//! Roles and who has them. What they allow is decided by `access`; here is what may be written.

use serde_json::Value;

use super::workload::validate_selector;
use crate::access;
use crate::field::FieldError;
use crate::names::{self, NameRule};
use crate::object::{Object, list, lookup, set, text};
use crate::registry::{Change, Resource, Rules};
use crate::table::{Column, age, created_at, name};

pub(super) fn role(resource: Resource) -> Resource {
    Resource {
        columns: vec![name(), created_at()],
        rules: Rules {
            names: NameRule::PathSegment,
            create_on_update: true,
            validate: validate_role,
            ..Rules::default()
        },
        ..resource
    }
}

pub(super) fn binding(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Role", |object, _| {
                format!("{}/{}", text(object, "roleRef.kind"), text(object, "roleRef.name")).into()
            }),
            age(),
            Column::wide("Users", |object, _| subjects_of(object, "User")),
            Column::wide("Groups", |object, _| subjects_of(object, "Group")),
            Column::wide("ServiceAccounts", |object, _| subjects_of(object, "ServiceAccount")),
        ],
        rules: Rules {
            names: NameRule::PathSegment,
            create_on_update: true,
            default: default_binding,
            validate: validate_binding,
            ..Rules::default()
        },
        ..resource
    }
}

fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_empty(rule: &Value, key: &str) -> bool {
    rule.get(key).and_then(Value::as_array).is_none_or(Vec::is_empty)
}

/// The subjects of one kind, for people.
fn subjects_of(binding: &Object, kind: &str) -> Value {
    let subjects = list(binding, "subjects").iter().filter(|subject| string(subject, "kind") == kind);
    let named = subjects.map(|subject| match string(subject, "namespace") {
        "" => string(subject, "name").to_owned(),
        namespace => format!("{namespace}/{}", string(subject, "name")),
    });
    named.collect::<Vec<_>>().join(", ").into()
}

fn validate_role(role: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (at, rule) in list(role, "rules").iter().enumerate() {
        validate_rule(rule, &format!("rules[{at}]"), change.resource.is_namespaced(), &mut errors);
    }
    let Some(Value::Object(_)) = role.get("aggregationRule") else { return errors };
    const SELECTORS: &str = "aggregationRule.clusterRoleSelectors";
    let selectors = list(role, SELECTORS);
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(SELECTORS, detail));
    }
    for (at, selector) in selectors.iter().enumerate() {
        validate_selector(selector, &format!("{SELECTORS}[{at}]"), &mut errors);
    }
    errors
}

fn validate_rule(rule: &Value, path: &str, namespaced: bool, errors: &mut Vec<FieldError>) {
    if is_empty(rule, "verbs") {
        errors.push(FieldError::required(format!("{path}.verbs"), "verbs must contain at least one value"));
    }
    if !is_empty(rule, "nonResourceURLs") {
        let mut wrong = |detail: &str| {
            let urls = rule.get("nonResourceURLs").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("{path}.nonResourceURLs"), urls, detail));
        };
        if namespaced {
            wrong("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|key| !is_empty(rule, key)) {
            wrong("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if is_empty(rule, "apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(format!("{path}.apiGroups"), detail));
    }
    if is_empty(rule, "resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(format!("{path}.resources"), detail));
    }
}

fn default_binding(binding: &mut Object, _: &Resource) {
    if let Some(role @ Value::Object(_)) = binding.get_mut("roleRef")
        && string(role, "apiGroup").is_empty()
    {
        set(role, "apiGroup", access::GROUP);
    }
    let Some(Value::Array(subjects)) = binding.get_mut("subjects") else { return };
    for subject in subjects {
        if matches!(string(subject, "kind"), "User" | "Group") && string(subject, "apiGroup").is_empty() {
            set(subject, "apiGroup", access::GROUP);
        }
    }
}

fn validate_binding(binding: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let namespaced = change.resource.is_namespaced();
    let (group, kind, name) =
        (text(binding, "roleRef.apiGroup"), text(binding, "roleRef.kind"), text(binding, "roleRef.name"));
    if group != access::GROUP {
        errors.push(FieldError::not_supported("roleRef.apiGroup", group, &[access::GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if name.is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    } else {
        let problems = NameRule::PathSegment.check(name).into_iter();
        errors.extend(problems.map(|problem| FieldError::invalid("roleRef.name", name, problem)));
    }
    for (at, subject) in list(binding, "subjects").iter().enumerate() {
        validate_subject(subject, &format!("subjects[{at}]"), namespaced, &mut errors);
    }
    let role = |binding| lookup(binding, "roleRef").cloned().unwrap_or_default();
    if change.old.is_some_and(|old| role(old) != role(binding)) {
        errors.push(FieldError::invalid("roleRef", role(binding), "cannot change roleRef"));
    }
    errors
}

fn validate_subject(subject: &Value, path: &str, namespaced: bool, errors: &mut Vec<FieldError>) {
    let (kind, name, group) = (string(subject, "kind"), string(subject, "name"), string(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            for problem in names::subdomain(name).into_iter().filter(|_| !name.is_empty()) {
                errors.push(FieldError::invalid(format!("{path}.name"), name, problem));
            }
            if !group.is_empty() {
                errors.push(FieldError::not_supported(format!("{path}.apiGroup"), group, &[""]));
            }
            if !namespaced && string(subject, "namespace").is_empty() {
                errors.push(FieldError::required(format!("{path}.namespace"), ""));
            }
        }
        "User" | "Group" if group != access::GROUP => {
            errors.push(FieldError::not_supported(format!("{path}.apiGroup"), group, &[access::GROUP]));
        }
        "User" | "Group" => {}
        _ => {
            let known = ["Group", "ServiceAccount", "User"];
            errors.push(FieldError::not_supported(format!("{path}.kind"), kind, &known));
        }
    }
}
