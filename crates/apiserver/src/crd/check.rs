//! What is wrong with a CustomResourceDefinition, field by field. What its versions hold is looked at in `versions`.

use serde_json::{Map, Value};

use super::versions;
use crate::field::FieldError;
use crate::names;
use crate::object::text;

const APPROVED: &str = "api-approved.kubernetes.io";

/// A definition as far as it is checked.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'d> {
    pub(crate) name: &'d str,
    pub(crate) spec: &'d Map<String, Value>,
    pub(crate) annotations: Option<&'d Map<String, Value>>,
    pub(crate) status: Option<&'d Map<String, Value>>,
}

/// Checks a new definition that has its defaults.
pub(crate) fn check(candidate: Candidate<'_>) -> Vec<FieldError> {
    let mut errors = check_contents(candidate);
    check_approval(candidate, None, &mut errors);
    let plural = candidate.spec.get("names").and_then(|names| names.get("plural")).and_then(Value::as_str);
    let wanted = format!("{}.{}", plural.unwrap_or_default(), text(candidate.spec, "group"));
    if !candidate.name.is_empty() && candidate.name != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", candidate.name, detail));
    }
    errors
}

/// Checks a changed definition that has its defaults.
pub(crate) fn check_update(candidate: Candidate<'_>, old: Candidate<'_>) -> Vec<FieldError> {
    let mut errors = check_contents(candidate);
    check_approval(candidate, Some(old), &mut errors);
    let names = |spec: &Map<String, Value>, key: &str| {
        spec.get("names")
            .and_then(|names| names.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut keep = |field: &str, new: String, old: String| {
        if new != old {
            errors.push(FieldError::invalid(field, new, "field is immutable"));
        }
    };
    if is_established(old) {
        keep("spec.scope", text(candidate.spec, "scope").to_owned(), text(old.spec, "scope").to_owned());
        keep("spec.names.kind", names(candidate.spec, "kind"), names(old.spec, "kind"));
    }
    keep("spec.group", text(candidate.spec, "group").to_owned(), text(old.spec, "group").to_owned());
    keep("spec.names.plural", names(candidate.spec, "plural"), names(old.spec, "plural"));
    errors
}

/// Checks what the status of a definition says of names.
pub(crate) fn check_status(status: Option<&Map<String, Value>>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(Value::Object(names)) = status.and_then(|status| status.get("acceptedNames")) {
        check_names(names, "status.acceptedNames", &mut errors);
    }
    errors
}

fn is_established(candidate: Candidate<'_>) -> bool {
    let conditions = candidate.status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn check_contents(candidate: Candidate<'_>) -> Vec<FieldError> {
    let Candidate { spec, status, .. } = candidate;
    let mut errors = Vec::new();
    let names = spec.get("names").and_then(Value::as_object).cloned().unwrap_or_default();
    check_group(text(spec, "group"), &mut errors);
    one_of("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"], &mut errors);
    versions::check(spec, &mut errors);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(&names, key).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    check_names(&names, "spec.names", &mut errors);
    check_conversion(spec, &mut errors);
    errors.extend(check_status(status));
    check_stored_versions(spec, status, &mut errors);
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

fn one_of(field: &str, value: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(field, value, accepted));
    }
}

fn check_group(group: &str, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.group";
    let problems = names::subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(FIELD, ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid(FIELD, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(FIELD, group, "should be a domain with at least one dot"));
    }
}

/// What the annotation of a protected group says.
#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    /// A URL, or why there is none.
    Given,
    Nonsense,
}

impl Approval {
    fn of(annotation: &str) -> Self {
        let has_host = |rest: &str| !rest.is_empty() && !rest.starts_with('/');
        match annotation.split_once("://") {
            _ if annotation.is_empty() => Self::Missing,
            _ if annotation.starts_with("unapproved") => Self::Given,
            Some((scheme, rest)) if !scheme.is_empty() && has_host(rest) => Self::Given,
            _ => Self::Nonsense,
        }
    }
}

/// Groups of the Kubernetes project are for those that it approved; what was said before may stay.
fn check_approval(candidate: Candidate<'_>, old: Option<Candidate<'_>>, errors: &mut Vec<FieldError>) {
    let group = text(candidate.spec, "group");
    let protected = [".k8s.io", ".kubernetes.io"].iter().any(|suffix| group.ends_with(suffix))
        || matches!(group, "k8s.io" | "kubernetes.io");
    let annotation = |candidate: Candidate<'_>| {
        let annotations = candidate.annotations.and_then(|annotations| annotations.get(APPROVED));
        annotations.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let said = annotation(candidate);
    let approval = Approval::of(&said);
    if !protected || old.is_some_and(|old| Approval::of(&annotation(old)) == approval) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let lead = format!("protected groups must have approval annotation {APPROVED:?}");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Given => {}
        Approval::Missing => errors.push(FieldError::required(field, format!("{lead}, {see}"))),
        Approval::Nonsense => {
            let detail = format!("{lead} with either a URL or a reason starting with \"unapproved\", {see}");
            errors.push(FieldError::invalid(field, said, detail));
        }
    }
}

fn check_names(names: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, key);
        let mixed = key == "kind" || key == "listKind";
        let problems = names::label_1035(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if !name.is_empty() && !problems.is_empty() {
            let lead = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            let detail = format!("{lead}{}", problems.join(","));
            errors.push(FieldError::invalid(format!("{path}.{key}"), name, detail));
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(format!("{path}.listKind"), list_kind, detail));
    }
    for key in ["shortNames", "categories"] {
        let list = names.get(key).and_then(Value::as_array);
        for (at, name) in list.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            let problems = names::label_1035(name);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(format!("{path}.{key}[{at}]"), name, problems.join(",")));
            }
        }
    }
}

fn check_conversion(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.conversion";
    let Some(Value::Object(conversion)) = spec.get("conversion") else { return };
    let strategy = text(conversion, "strategy");
    one_of(&format!("{FIELD}.strategy"), strategy, &["None", "Webhook"], errors);
    let webhook = conversion.get("webhook").and_then(Value::as_object);
    let client = webhook.and_then(|webhook| webhook.get("clientConfig")).and_then(Value::as_object);
    let reviews = webhook.and_then(|webhook| webhook.get("conversionReviewVersions"));
    let reviews: Vec<&str> =
        reviews.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let client_field = format!("{FIELD}.webhookClientConfig");
    let reviews_field = format!("{FIELD}.conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if client.is_some() {
            errors.push(FieldError::forbidden(client_field, detail));
        }
        if !reviews.is_empty() {
            errors.push(FieldError::forbidden(reviews_field, detail));
        }
        return;
    }
    let before = errors.len();
    match client {
        None => {
            errors.push(FieldError::required(client_field, "required when strategy is set to Webhook"));
        }
        Some(client) if client.contains_key("url") == client.contains_key("service") => {
            errors.push(FieldError::required(client_field, "exactly one of url or service is required"));
        }
        Some(_) => {}
    }
    if reviews.is_empty() {
        errors.push(FieldError::required(reviews_field, ""));
    } else if !reviews.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let detail = "must include at least one of v1, v1beta1";
        errors.push(FieldError::invalid(reviews_field, reviews, detail));
    }
    if errors.len() == before {
        let detail = "conversion by webhook is not served; only None is";
        errors.push(FieldError::invalid(format!("{FIELD}.strategy"), "Webhook", detail));
    }
}

/// Objects may still be stored in a version that was the storage version once: it must stay.
fn check_stored_versions(
    spec: &Map<String, Value>,
    status: Option<&Map<String, Value>>,
    errors: &mut Vec<FieldError>,
) {
    const FIELD: &str = "status.storedVersions";
    let stored = status.and_then(|status| status.get("storedVersions")).and_then(Value::as_array);
    let stored: Vec<&str> = stored.into_iter().flatten().filter_map(Value::as_str).collect();
    if stored.is_empty() {
        errors.push(FieldError::invalid(FIELD, Value::Null, "must have at least one stored version"));
        return;
    }
    let versions = spec.get("versions").and_then(Value::as_array);
    let versions: Vec<&Value> = versions.into_iter().flatten().collect();
    for version in &versions {
        let name = version["name"].as_str().unwrap_or_default();
        if version["storage"] == true && !stored.contains(&name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(FIELD, stored.clone(), detail));
        }
    }
    for (at, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| version["name"] == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(format!("{FIELD}[{at}]"), *name, detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn good() -> Value {
        json!({
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "colour": {"type": "string", "default": "red"},
                    "size": {"type": "object"},
                }}}}},
            }],
        })
    }

    fn errors(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut spec = good();
        change(&mut spec);
        let status = json!({"storedVersions": [spec["versions"][0]["name"]]});
        let candidate = Candidate {
            name: "widgets.example.com",
            spec: spec.as_object().unwrap(),
            annotations: None,
            status: status.as_object(),
        };
        check(candidate).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_good_definition_has_nothing_against_it() {
        assert_eq!(errors(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn what_is_wrong_is_named() {
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 14] = [
            (
                |spec| spec["group"] = "example".into(),
                "spec.group: Invalid value: \"example\": should be a domain",
            ),
            (
                |spec| spec["group"] = "x.k8s.io".into(),
                "metadata.annotations[api-approved.kubernetes.io]: Required value",
            ),
            (|spec| spec["scope"] = "World".into(), "spec.scope: Unsupported value: \"World\""),
            (
                |spec| spec["names"]["plural"] = "gadgets".into(),
                "metadata.name: Invalid value: \"widgets.example.com\": must be spec.names.plural",
            ),
            (
                |spec| spec["names"]["listKind"] = "Widget".into(),
                "spec.names.listKind: Invalid value: \"Widget\": kind and listKind",
            ),
            (|spec| spec["versions"][0]["storage"] = false.into(), "spec.versions: Invalid value"),
            (|spec| spec["versions"][0]["name"] = "1".into(), "spec.versions[0].name: Invalid value: \"1\""),
            (
                |spec| spec["versions"][0]["schema"] = Value::Null,
                "spec.versions[0].schema.openAPIV3Schema: Required value",
            ),
            (
                |spec| spec["versions"][0]["schema"]["openAPIV3Schema"]["type"] = "string".into(),
                "spec.validation.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
            ),
            (
                |spec| {
                    spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"]
                        ["default"] = 5.into()
                },
                "spec.validation.openAPIV3Schema.properties[spec].properties[colour].default: Invalid value: \"integer\"",
            ),
            (
                |spec| spec["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.size"}]),
                "spec.selectableFields[0].jsonPath: Invalid value: \".spec.size\": must point to a field of type",
            ),
            (
                |spec| {
                    spec["versions"][0]["subresources"] =
                        json!({"scale": {"specReplicasPath": ".x.y", "statusReplicasPath": ".status.r"}})
                },
                "spec.subresources.scale.specReplicasPath: Invalid value: \".x.y\": should be a json path under .spec",
            ),
            (
                |spec| {
                    spec["versions"][0]["additionalPrinterColumns"] =
                        json!([{"name": "X", "type": "colour", "jsonPath": ".spec.x"}])
                },
                "spec.additionalPrinterColumns[0].type: Invalid value: \"colour\": must be one of",
            ),
            (
                |spec| spec["conversion"] = json!({"strategy": "Webhook"}),
                "spec.conversion.webhookClientConfig: Required value: required when",
            ),
        ];
        for (change, expected) in cases {
            let found = errors(change);
            assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
        }
    }
}
