//! What is wrong with a CustomResourceDefinition, field by field.

use serde_json::{Map, Value};

use super::rules;
use crate::field::FieldError;
use crate::jsonpath::JsonPath;
use crate::names;
use crate::schema::{Schema, Type};

const SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "binary,bool,byte,date,date-time,double,float,int32,int64,password";

/// Checks a definition that has its defaults.
pub(crate) fn check(
    name: &str,
    spec: &Map<String, Value>,
    annotations: Option<&Map<String, Value>>,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let names = spec.get("names").and_then(Value::as_object).cloned().unwrap_or_default();
    let (plural, group) = (text(&names, "plural"), text(spec, "group"));
    let wanted = format!("{plural}.{group}");
    if name != wanted {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    check_group(group, annotations, &mut errors);
    let scope = text(spec, "scope");
    match scope {
        "Cluster" | "Namespaced" => {}
        "" => errors.push(FieldError::required("spec.scope", "")),
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
    if spec.get("preserveUnknownFields") == Some(&Value::Bool(true)) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    check_versions(spec, &mut errors);
    check_names(&names, &mut errors);
    check_conversion(spec, &mut errors);
    errors
}

fn check_group(group: &str, annotations: Option<&Map<String, Value>>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.group";
    if group.is_empty() {
        errors.push(FieldError::required(FIELD, ""));
        return;
    }
    let problems = names::subdomain(group);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(FIELD, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(FIELD, group, "should be a domain with at least one dot"));
    }
    const APPROVED: &str = "api-approved.kubernetes.io";
    let protected = [".k8s.io", ".kubernetes.io"].iter().any(|suffix| group.ends_with(suffix))
        || matches!(group, "k8s.io" | "kubernetes.io");
    let approval = annotations.and_then(|annotations| annotations.get(APPROVED)).and_then(Value::as_str);
    if protected && approval.unwrap_or_default().is_empty() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required(format!("metadata.annotations[{APPROVED}]"), detail));
    }
}

fn check_versions(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.versions";
    let none = Vec::new();
    let versions = spec.get("versions").and_then(Value::as_array).unwrap_or(&none);
    let mut seen = Vec::new();
    let mut storage = 0;
    for (at, version) in versions.iter().enumerate() {
        let Value::Object(version) = version else { continue };
        let path = format!("{FIELD}[{at}]");
        let name = text(version, "name");
        storage += usize::from(version.get("storage") == Some(&Value::Bool(true)));
        let problems = names::label_1035(name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, problems.join(",")));
        }
        if seen.contains(&name) {
            errors.push(FieldError::invalid(FIELD, versions.clone(), "must contain unique version names"));
        }
        seen.push(name);
        check_version(version, &path, errors);
    }
    if storage != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(FIELD, versions.clone(), detail));
    }
}

fn check_version(version: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let warning = version.get("deprecationWarning").and_then(Value::as_str);
    if let Some(warning) = warning {
        let deprecated = version.get("deprecated") == Some(&Value::Bool(true));
        let problem = match warning {
            _ if !deprecated => Some("can only be set for deprecated versions"),
            "" => Some("must not be an empty string"),
            long if long.len() > 256 => Some("must be <= 256 characters long"),
            odd if odd.chars().any(char::is_control) => Some("must only contain printable characters"),
            _ => None,
        };
        if let Some(problem) = problem {
            errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning, problem));
        }
    }
    let field = format!("{path}.schema.openAPIV3Schema");
    let schema = version.get("schema").and_then(|schema| schema.get("openAPIV3Schema"));
    let schema = match schema {
        None => {
            errors.push(FieldError::required(&field, "schemas are required"));
            None
        }
        Some(schema) => match Schema::read(schema, &field) {
            Err(found) => {
                errors.extend(found);
                None
            }
            Ok(schema) => {
                let before = errors.len();
                errors.extend(schema.structural_errors(&field));
                check_defaults(&schema, &field, true, errors);
                // Rules are about a schema that makes sense.
                if errors.len() == before {
                    errors.extend(rules::check(&schema, &field));
                }
                Some(schema)
            }
        },
    };
    check_scale(version, path, errors);
    check_columns(version, path, errors);
    check_selectable(version, schema.as_ref(), path, errors);
}

/// A default must be a value that its own schema accepts and knows.
fn check_defaults(schema: &Schema, path: &str, root: bool, errors: &mut Vec<FieldError>) {
    if let Some(default) = &schema.default {
        let field = format!("{path}.default");
        if root {
            errors.push(FieldError::forbidden(&field, "must not be set at the root"));
        } else {
            for error in schema.default_errors(default) {
                let detail = format!("must be a valid value: {error}");
                errors.push(FieldError::invalid(&field, default.clone(), detail));
            }
        }
    }
    for (step, child) in schema.children() {
        // What metadata may hold is not for a definition to say.
        if step != "properties[metadata]" || !root {
            check_defaults(child, &format!("{path}.{step}"), false, errors);
        }
    }
}

fn check_scale(version: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let scale = version.get("subresources").and_then(|subresources| subresources.get("scale"));
    let Some(Value::Object(scale)) = scale else { return };
    let mut check = |key: &str, required: bool, roots: &[&str], place: &str| {
        let field = format!("{path}.subresources.scale.{key}");
        match text(scale, key) {
            "" if required => errors.push(FieldError::required(field, "")),
            "" => {}
            path if !path.starts_with('.') => {
                errors.push(FieldError::invalid(field, path, "must be a simple json path starting with ."));
            }
            path if !roots.iter().any(|root| path.starts_with(root)) => {
                errors.push(FieldError::invalid(field, path, format!("should be a json path under {place}")));
            }
            _ => {}
        }
    };
    check("specReplicasPath", true, &[".spec."], ".spec");
    check("statusReplicasPath", true, &[".status."], ".status");
    check("labelSelectorPath", false, &[".spec.", ".status."], "either .spec or .status");
}

fn check_columns(version: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (at, column) in columns.into_iter().flatten().enumerate() {
        let Value::Object(column) = column else { continue };
        let path = format!("{path}.additionalPrinterColumns[{at}]");
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let among = |list: &str, word: &str| list.split(',').any(|known| known == word);
        match text(column, "type") {
            "" => errors
                .push(FieldError::required(format!("{path}.type"), format!("must be one of {COLUMN_TYPES}"))),
            kind if !among(COLUMN_TYPES, kind) => {
                let detail = format!("must be one of {COLUMN_TYPES}");
                errors.push(FieldError::invalid(format!("{path}.type"), kind, detail));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !among(COLUMN_FORMATS, format) {
            let detail = format!("must be one of {COLUMN_FORMATS}");
            errors.push(FieldError::invalid(format!("{path}.format"), format, detail));
        }
        let field = format!("{path}.jsonPath");
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(field, "")),
            path if !path.starts_with('.') => {
                errors.push(FieldError::invalid(field, path, "must be a simple json path starting with ."));
            }
            path => {
                if let Err(problem) = JsonPath::read(path) {
                    errors.push(FieldError::invalid(field, path, problem));
                }
            }
        }
    }
}

fn check_selectable(
    version: &Map<String, Value>,
    schema: Option<&Schema>,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.selectableFields");
    let fields = version.get("selectableFields").and_then(Value::as_array);
    let mut seen = Vec::new();
    for (at, selectable) in fields.into_iter().flatten().enumerate() {
        let field = format!("{field}[{at}].jsonPath");
        let path = selectable.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let parsed = JsonPath::read(path);
        let steps = parsed.as_ref().ok().and_then(JsonPath::fields).unwrap_or_default();
        let mut found = schema;
        for step in &steps {
            found = found.and_then(|schema| schema.properties.get(*step));
        }
        if steps.first() == Some(&"metadata") {
            errors.push(FieldError::invalid(&field, path, "must not point to fields in metadata"));
        }
        match found.filter(|_| !steps.is_empty()) {
            None if schema.is_some() => {
                errors.push(FieldError::invalid(
                    &field,
                    path,
                    "is an invalid path: does not refer to a valid field",
                ));
            }
            Some(found) if !matches!(found.kind, Some(Type::String | Type::Boolean | Type::Integer)) => {
                let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
                errors.push(FieldError::invalid(&field, path, detail));
            }
            _ => {}
        }
        if seen.contains(&path) {
            errors.push(FieldError::duplicate(field, path));
        }
        seen.push(path);
    }
    if seen.len() > SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(field, seen.len(), SELECTABLE_FIELDS as u64));
    }
}

fn check_names(names: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let field = format!("spec.names.{key}");
        let name = text(names, key);
        if name.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let mixed = key == "kind" || key == "listKind";
        let problems = names::label_1035(&if mixed { name.to_lowercase() } else { name.to_owned() });
        if !problems.is_empty() {
            let lead = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(field, name, format!("{lead}{}", problems.join(","))));
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid("spec.names.listKind", list_kind, detail));
    }
    for key in ["shortNames", "categories"] {
        let list = names.get(key).and_then(Value::as_array);
        for (at, name) in list.into_iter().flatten().filter_map(Value::as_str).enumerate() {
            let problems = names::label_1035(name);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(format!("spec.names.{key}[{at}]"), name, problems.join(",")));
            }
        }
    }
}

fn check_conversion(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let strategy = spec.get("conversion").and_then(|conversion| conversion.get("strategy"));
    match strategy.and_then(Value::as_str) {
        None | Some("None") => {}
        Some("Webhook") => {
            let detail = "conversion by webhook is not served; only None is";
            errors.push(FieldError::invalid("spec.conversion.strategy", "Webhook", detail));
        }
        Some(other) => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, &["None", "Webhook"]))
        }
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
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
        check("widgets.example.com", spec.as_object().unwrap(), None)
            .iter()
            .map(ToString::to_string)
            .collect()
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
                "spec.versions[0].schema.openAPIV3Schema.type: Invalid value: \"string\": must be object at the root",
            ),
            (
                |spec| {
                    spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["colour"]
                        ["default"] = 5.into()
                },
                "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[colour].default: Invalid value: 5: must be a valid value",
            ),
            (
                |spec| spec["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.size"}]),
                "spec.versions[0].selectableFields[0].jsonPath: Invalid value: \".spec.size\": must point to a field of type",
            ),
            (
                |spec| {
                    spec["versions"][0]["subresources"] =
                        json!({"scale": {"specReplicasPath": ".x.y", "statusReplicasPath": ".status.r"}})
                },
                "spec.versions[0].subresources.scale.specReplicasPath: Invalid value: \".x.y\": should be a json path under .spec",
            ),
            (
                |spec| {
                    spec["versions"][0]["additionalPrinterColumns"] =
                        json!([{"name": "X", "type": "colour", "jsonPath": ".spec.x"}])
                },
                "spec.versions[0].additionalPrinterColumns[0].type: Invalid value: \"colour\": must be one of",
            ),
            (
                |spec| spec["conversion"] = json!({"strategy": "Webhook"}),
                "spec.conversion.strategy: Invalid value: \"Webhook\"",
            ),
        ];
        for (change, expected) in cases {
            let found = errors(change);
            assert!(found.iter().any(|error| error.starts_with(expected)), "{expected}: {found:?}");
        }
    }
}
