//! The kinds of admissionregistration.k8s.io. They are kept and not enforced, and whoever writes one is told so: no
//! webhook is called and no policy is evaluated.

use serde_json::Value;

use super::cells::text_of;
use super::check::{Check, count, is_set, items, items_of};
use super::defaults::{Row, To, fill};
use super::{blank_status, keep_status_and_metadata_apart};
use crate::field::FieldError;
use crate::names;
use crate::object::{Object, lookup, text};
use crate::registry::{Change, Generations, Resource, Rules, Subresource};
use crate::selector::LabelSelector;
use crate::table::{Column, age, name};

fn rules() -> Rules {
    Rules {
        unconditional_update: false,
        generations: Generations::Content,
        warn: not_enforced,
        ..Rules::default()
    }
}

/// A policy that looks as if it held and does not is worse than none.
fn not_enforced(_: &Object, change: Change<'_>) -> Vec<String> {
    if change.subresource.is_some() {
        return Vec::new();
    }
    vec![format!("this server keeps a {} and does not enforce it", change.resource.kind)]
}

pub(super) fn webhooks(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Webhooks", |object, _| count(object, "webhooks").into()),
            age(),
        ],
        rules: Rules {
            default: |object, resource| {
                fill(object, WEBHOOK);
                if resource.kind == "MutatingWebhookConfiguration" {
                    fill(object, &[("webhooks[]", "reinvocationPolicy", To::Text("Never"))]);
                }
            },
            validate: validate_webhooks,
            ..rules()
        },
        ..resource
    }
}

pub(super) fn validating_policy(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Validations", |object, _| count(object, "spec.validations").into()),
            param_kind(),
            age(),
        ],
        rules: Rules {
            default: |object, _| fill(object, POLICY),
            prepare_create: blank_status,
            prepare_update: keep_status_and_metadata_apart,
            validate: |object, change| {
                let mut check = Check::new(object, change);
                if change.subresource == Some(Subresource::Status) {
                    return check.errors;
                }
                validate_policy(object, &mut check);
                let reasons = ["spec.validations", "spec.auditAnnotations"];
                if reasons.iter().all(|path| count(object, path) == 0) {
                    let detail = "validations or auditAnnotations must contain at least one item";
                    for path in reasons {
                        check.add(FieldError::required(path, detail));
                    }
                }
                for (path, item) in items(object, "spec.validations") {
                    expression(item, &path, &mut check);
                }
                check.errors
            },
            ..rules()
        },
        ..resource
    }
}

pub(super) fn mutating_policy(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::integer("Mutations", |object, _| count(object, "spec.mutations").into()),
            param_kind(),
            age(),
        ],
        rules: Rules {
            default: |object, _| fill(object, POLICY),
            validate: |object, change| {
                let mut check = Check::new(object, change);
                validate_policy(object, &mut check);
                if count(object, "spec.mutations") == 0 {
                    let detail = "mutations must contain at least one item";
                    check.add(FieldError::required("spec.mutations", detail));
                }
                for (path, item) in items(object, "spec.mutations") {
                    validate_mutation(item, &path, &mut check);
                }
                check.required("spec.reinvocationPolicy");
                check.one_of("spec.reinvocationPolicy", &["IfNeeded", "Never"]);
                check.errors
            },
            ..rules()
        },
        ..resource
    }
}

pub(super) fn binding(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("PolicyName", |object, _| text(object, "spec.policyName").into()),
            Column::text("ParamRef", |object, _| param(object).into()),
            age(),
        ],
        rules: Rules { default: |object, _| fill(object, BINDING), validate: validate_binding, ..rules() },
        ..resource
    }
}

const WEBHOOK: &[Row] = &[
    ("webhooks[]", "failurePolicy", To::Text("Fail")),
    ("webhooks[]", "matchPolicy", To::Text("Equivalent")),
    ("webhooks[]", "namespaceSelector", To::Empty),
    ("webhooks[]", "objectSelector", To::Empty),
    ("webhooks[]", "timeoutSeconds", To::Number(10)),
    ("webhooks[].rules[]", "scope", To::Text("*")),
    ("webhooks[].clientConfig.service", "port", To::Number(443)),
];
const POLICY: &[Row] = &[
    ("spec", "failurePolicy", To::Text("Fail")),
    ("spec.matchConstraints", "matchPolicy", To::Text("Equivalent")),
    ("spec.matchConstraints", "namespaceSelector", To::Empty),
    ("spec.matchConstraints", "objectSelector", To::Empty),
    ("spec.matchConstraints.resourceRules[]", "scope", To::Text("*")),
    ("spec.matchConstraints.excludeResourceRules[]", "scope", To::Text("*")),
];
const BINDING: &[Row] = &[
    ("spec.matchResources", "matchPolicy", To::Text("Equivalent")),
    ("spec.matchResources", "namespaceSelector", To::Empty),
    ("spec.matchResources", "objectSelector", To::Empty),
    ("spec.matchResources.resourceRules[]", "scope", To::Text("*")),
    ("spec.matchResources.excludeResourceRules[]", "scope", To::Text("*")),
];

fn param_kind() -> Column {
    Column::text("ParamKind", |object, _| {
        if !is_set(object, "spec.paramKind") {
            return "<unset>".into();
        }
        format!("{}/{}", text(object, "spec.paramKind.apiVersion"), text(object, "spec.paramKind.kind"))
            .into()
    })
}

fn param(object: &Object) -> String {
    let (namespace, name) = (text(object, "spec.paramRef.namespace"), text(object, "spec.paramRef.name"));
    match (namespace, name, lookup(object, "spec.paramRef.selector")) {
        ("", "", Some(selector)) | (_, "", Some(selector)) => LabelSelector::of(selector).to_string(),
        (_, "", None) => "<unset>".into(),
        ("", name, _) => format!("*/{name}"),
        (namespace, name, _) => format!("{namespace}/{name}"),
    }
}

fn validate_webhooks(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
    const EFFECTS: [&str; 2] = ["None", "NoneOnDryRun"];
    let mut check = Check::new(object, change);
    for (path, hook) in items(object, "webhooks") {
        let field = |key: &str| format!("{path}.{key}");
        let name = text_of(hook, "name");
        for problem in hook_name(name) {
            check.add(FieldError::invalid(field("name"), name, problem));
        }
        for (path, rule) in items_of(hook, &path, "rules") {
            validate_rule(rule, &path, &mut check);
        }
        for (key, known) in [
            ("failurePolicy", ["Fail", "Ignore"]),
            ("matchPolicy", ["Equivalent", "Exact"]),
            ("reinvocationPolicy", ["IfNeeded", "Never"]),
        ] {
            let value = text_of(hook, key);
            if !value.is_empty() && !known.contains(&value) {
                check.add(FieldError::not_supported(field(key), value, &known));
            }
        }
        match text_of(hook, "sideEffects") {
            "" => {
                let detail = "must specify one of None, NoneOnDryRun";
                check.add(FieldError::required(field("sideEffects"), detail));
            }
            known if EFFECTS.contains(&known) => {}
            other => check.add(FieldError::not_supported(field("sideEffects"), other, &EFFECTS)),
        }
        let seconds = hook.get("timeoutSeconds").and_then(Value::as_i64).unwrap_or(10);
        if !(1..=30).contains(&seconds) {
            let detail = "the timeout value must be between 1 and 30 seconds";
            check.add(FieldError::invalid(field("timeoutSeconds"), seconds, detail));
        }
        let client = hook.get("clientConfig").cloned().unwrap_or_default();
        if is_there(&client, "url") == is_there(&client, "service") {
            let detail = "exactly one of url or service is required";
            check.add(FieldError::required(field("clientConfig"), detail));
        }
        let versions = items_of(hook, &path, "admissionReviewVersions");
        let versions: Vec<&str> = versions.filter_map(|(_, version)| version.as_str()).collect();
        if versions.is_empty() {
            let detail = "must specify one of v1, v1beta1";
            check.add(FieldError::required(field("admissionReviewVersions"), detail));
        } else if !versions.iter().any(|version| VERSIONS.contains(version)) {
            let detail = "must include at least one of v1, v1beta1";
            check.add(FieldError::invalid(field("admissionReviewVersions"), versions, detail));
        }
    }
    check.unique("webhooks", "name");
    check.errors
}

fn is_there(value: &Value, key: &str) -> bool {
    value.get(key).is_some_and(|value| !value.is_null())
}

/// Webhooks are called like hosts, with at least three labels.
fn hook_name(name: &str) -> Vec<String> {
    let mut problems = names::subdomain(name);
    if problems.is_empty() && name.split('.').count() < 3 {
        problems.push("should be a domain with at least three segments separated by dots".into());
    }
    problems
}

fn validate_rule(rule: &Value, path: &str, check: &mut Check<'_>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    const SCOPES: [&str; 3] = ["*", "Cluster", "Namespaced"];
    for (path, operation) in items_of(rule, path, "operations") {
        let operation = operation.as_str().unwrap_or_default();
        if !OPERATIONS.contains(&operation) {
            check.add(FieldError::not_supported(path, operation, &OPERATIONS));
        }
    }
    for key in ["operations", "apiGroups", "apiVersions", "resources"] {
        if items_of(rule, path, key).count() == 0 {
            check.add(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let scope = text_of(rule, "scope");
    if !scope.is_empty() && !SCOPES.contains(&scope) {
        check.add(FieldError::not_supported(format!("{path}.scope"), scope, &SCOPES));
    }
}

fn validate_policy(object: &Object, check: &mut Check<'_>) {
    check.one_of("spec.failurePolicy", &["Fail", "Ignore"]);
    if is_set(object, "spec.paramKind") {
        check.required("spec.paramKind.apiVersion");
        check.required("spec.paramKind.kind");
    }
    if !is_set(object, "spec.matchConstraints") {
        check.add(FieldError::required("spec.matchConstraints", ""));
    } else if count(object, "spec.matchConstraints.resourceRules") == 0 {
        check.add(FieldError::required("spec.matchConstraints.resourceRules", ""));
    }
    for (path, rule) in items(object, "spec.matchConstraints.resourceRules") {
        validate_rule(rule, &path, check);
    }
    for (path, condition) in items(object, "spec.matchConditions") {
        for key in ["expression", "name"].iter().filter(|key| text_of(condition, key).is_empty()) {
            check.add(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    for (path, variable) in items(object, "spec.variables") {
        if text_of(variable, "name").is_empty() {
            check.add(FieldError::required(format!("{path}.name"), "name is not specified"));
        }
        expression(variable, &path, check);
    }
}

fn expression(item: &Value, path: &str, check: &mut Check<'_>) {
    if text_of(item, "expression").trim().is_empty() {
        check.add(FieldError::required(format!("{path}.expression"), "expression is not specified"));
    }
}

fn validate_mutation(mutation: &Value, path: &str, check: &mut Check<'_>) {
    const TYPES: [&str; 2] = ["ApplyConfiguration", "JSONPatch"];
    let key = match text_of(mutation, "patchType") {
        "" => {
            check.add(FieldError::required(format!("{path}.patchType"), ""));
            return;
        }
        "ApplyConfiguration" => "applyConfiguration",
        "JSONPatch" => "jsonPatch",
        other => {
            check.add(FieldError::not_supported(format!("{path}.patchType"), other, &TYPES));
            return;
        }
    };
    if !is_there(mutation, key) {
        let detail = format!("must be specified when patchType is {}", text_of(mutation, "patchType"));
        check.add(FieldError::required(format!("{path}.{key}"), detail));
    }
}

fn validate_binding(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];
    let mut check = Check::new(object, change);
    check.required_name("spec.policyName", names::subdomain);
    if is_set(object, "spec.paramRef") {
        match (is_set(object, "spec.paramRef.name"), is_set(object, "spec.paramRef.selector")) {
            (true, true) => {
                for path in ["spec.paramRef.name", "spec.paramRef.selector"] {
                    check.add(FieldError::forbidden(path, "name and selector are mutually exclusive"));
                }
            }
            (false, false) => {
                let detail = "one of name or selector must be specified";
                check.add(FieldError::required("spec.paramRef", detail));
            }
            _ => {}
        }
        check.required("spec.paramRef.parameterNotFoundAction");
        check.one_of("spec.paramRef.parameterNotFoundAction", &["Deny", "Allow"]);
    }
    if change.resource.kind != "ValidatingAdmissionPolicyBinding" {
        return check.errors;
    }
    const PATH: &str = "spec.validationActions";
    if count(object, PATH) == 0 {
        check.add(FieldError::required(PATH, "at least one validation action is required"));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (path, action) in items(object, PATH) {
        let action = action.as_str().unwrap_or_default();
        if !ACTIONS.contains(&action) {
            check.add(FieldError::not_supported(&path, action, &ACTIONS));
        }
        if seen.contains(&action) {
            check.add(FieldError::duplicate(path, action));
        }
        seen.push(action);
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        check.add(FieldError::invalid(PATH, seen, detail));
    }
    check.errors
}
