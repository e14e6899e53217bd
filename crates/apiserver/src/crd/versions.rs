//! What is wrong with the versions of a CustomResourceDefinition. Kubernetes lifts what all versions have in common to
//! the top of the spec before it looks, and names it there: so do we.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::rules;
use crate::field::FieldError;
use crate::names;
use crate::object::text;
use crate::schema::{self, Additional, Schema, Type};

const VERSIONS: &str = "spec.versions";
const SELECTABLE_FIELDS: usize = 8;
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
/// What may stand at the root of a schema beside a status endpoint, as messages name it.
const AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations]";
const NOT_AT_ROOT: [&str; 22] = [
    "id",
    "$schema",
    "$ref",
    "default",
    "nullable",
    "enum",
    "maxProperties",
    "minProperties",
    "allOf",
    "oneOf",
    "anyOf",
    "not",
    "additionalProperties",
    "patternProperties",
    "dependencies",
    "additionalItems",
    "definitions",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
];

/// A part of one version or of all, and where messages say that it is.
struct Part<'v> {
    path: String,
    value: Option<&'v Value>,
    /// The schema of the same version.
    schema: Option<&'v Value>,
    /// Whether status has an endpoint of its own there.
    status: bool,
}

pub(super) fn check(spec: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let list = spec.get("versions").unwrap_or(&Value::Null);
    let versions = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let versions: Vec<&Map<String, Value>> = versions.iter().filter_map(Value::as_object).collect();
    check_list(&versions, list, errors);
    for part in parts(&versions, "schema", "spec.validation") {
        check_schema(&part, errors);
    }
    for part in parts(&versions, "subresources", "spec.subresources") {
        check_scale(&part, errors);
    }
    for part in parts(&versions, "additionalPrinterColumns", "spec.additionalPrinterColumns") {
        check_columns(&part, errors);
    }
    for part in parts(&versions, "selectableFields", "spec.selectableFields") {
        check_selectable(&part, errors);
    }
}

fn parts<'v>(versions: &[&'v Map<String, Value>], key: &str, top: &str) -> Vec<Part<'v>> {
    let of = |version: &&'v Map<String, Value>| version.get(key).filter(|value| !is_nothing(value));
    let has_status = |version: &&Map<String, Value>| {
        version
            .get("subresources")
            .and_then(|subresources| subresources.get("status"))
            .is_some_and(Value::is_object)
    };
    let Some(first) = versions.first() else { return Vec::new() };
    if versions.iter().all(|version| of(version) == of(first)) {
        let status = versions.iter().any(has_status);
        return vec![Part { path: top.to_owned(), value: of(first), schema: first.get("schema"), status }];
    }
    let part = |(at, version): (usize, &&'v Map<String, Value>)| Part {
        path: format!("{VERSIONS}[{at}].{key}"),
        value: of(version),
        schema: version.get("schema"),
        status: has_status(version),
    };
    versions.iter().enumerate().map(part).collect()
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(Vec::is_empty)
}

fn check_list(versions: &[&Map<String, Value>], list: &Value, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    let mut unique = true;
    for (at, version) in versions.iter().enumerate() {
        let (path, name) = (format!("{VERSIONS}[{at}]"), text(version, "name"));
        unique &= seen.insert(name);
        let problems = names::label_1035(name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, problems.join(",")));
        }
        check_deprecation(version, &path, errors);
        if version.get("schema").and_then(|schema| schema.get("openAPIV3Schema")).is_none_or(Value::is_null) {
            errors.push(FieldError::required(format!("{path}.schema.openAPIV3Schema"), ""));
        }
    }
    if !unique {
        errors.push(FieldError::invalid(VERSIONS, list.clone(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid(VERSIONS, list.clone(), detail));
    }
    // The first version stands for all in Kubernetes' own form of a definition.
    if let Some(first) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty())
    {
        let problems = names::label_1035(first);
        if !problems.is_empty() {
            errors.push(FieldError::invalid("spec.version", first, problems.join(",")));
        }
    }
}

fn check_deprecation(version: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut problem = |words: String| {
        errors.push(FieldError::invalid(format!("{path}.deprecationWarning"), warning, words));
    };
    if version.get("deprecated") != Some(&Value::Bool(true)) {
        problem("can only be set for deprecated versions".into());
        return;
    }
    if warning.len() > 256 {
        problem("must be <= 256 characters long".into());
    }
    if warning.is_empty() {
        problem("must not be an empty string".into());
    }
    let odd = |(_, c): &(usize, char)| c.is_control() || (c.is_whitespace() && *c != ' ');
    if let Some((at, _)) = warning.char_indices().find(odd) {
        problem(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
}

fn check_schema(part: &Part<'_>, errors: &mut Vec<FieldError>) {
    let Some(schema) = part.value.and_then(|value| value.get("openAPIV3Schema")) else { return };
    let Value::Object(map) = schema else { return };
    let path = format!("{}.openAPIV3Schema", part.path);
    if part.status {
        check_root(map, &path, errors);
    }
    if map.get("nullable") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    // What is too deep or too wide is looked at no further.
    let reading = match Schema::read_all(schema, &path) {
        Ok(reading) => reading,
        Err(limit) => {
            errors.push(limit);
            return;
        }
    };
    let unreadable = schema::unreadable(schema);
    let before = errors.len();
    if unreadable.is_none() {
        let mut structural = reading.schema.structural_errors(&path);
        structural.extend(reading.errors);
        if structural.is_empty() {
            structural = reading.schema.default_errors(&path);
        }
        errors.extend(structural);
    }
    errors.extend(schema::check_keywords(schema, &path));
    // Rules are about a schema that makes sense.
    if errors.len() == before {
        errors.extend(rules::check(&reading.schema, &path));
    }
    if let Some(why) = unreadable.filter(|_| errors.len() == before) {
        errors.push(FieldError::invalid(path, "", why));
    }
}

fn check_root(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(map, "type");
    if !kind.is_empty() && kind != "object" {
        let words = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(format!("{path}.type"), kind, words));
        return;
    }
    let set = |key: &&&str| match map.get(**key) {
        None | Some(Value::Null) => false,
        Some(Value::Bool(false)) => **key == "additionalProperties",
        Some(Value::String(text)) => !text.is_empty(),
        Some(_) => true,
    };
    if NOT_AT_ROOT.iter().find(set).is_some() {
        let words = format!(
            "only {AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.push(FieldError::invalid(path, Value::Object(map.clone()), words));
    }
}

fn simple_path(field: &str, path: &str, errors: &mut Vec<FieldError>) -> bool {
    let simple = path.starts_with('.');
    if !simple {
        errors.push(FieldError::invalid(field, path, "must be a simple json path starting with ."));
    }
    simple
}

fn check_scale(part: &Part<'_>, errors: &mut Vec<FieldError>) {
    let Some(Value::Object(scale)) = part.value.and_then(|value| value.get("scale")) else { return };
    let mut check = |key: &str, required: bool, roots: &[&str], place: &str| {
        let field = format!("{}.scale.{key}", part.path);
        match text(scale, key) {
            "" if required => errors.push(FieldError::required(field, "")),
            "" => {}
            path => {
                let under = roots.iter().any(|root| path.starts_with(root));
                if simple_path(&field, path, errors) && !under {
                    let words = format!("should be a json path under {place}");
                    errors.push(FieldError::invalid(field, path, words));
                }
            }
        }
    };
    check("specReplicasPath", true, &[".spec."], ".spec");
    check("statusReplicasPath", true, &[".status."], ".status");
    check("labelSelectorPath", false, &[".spec.", ".status."], "either .spec or .status");
}

fn check_columns(part: &Part<'_>, errors: &mut Vec<FieldError>) {
    let columns = part.value.and_then(Value::as_array);
    for (at, column) in columns.into_iter().flatten().enumerate() {
        let Value::Object(column) = column else { continue };
        let path = format!("{}[{at}]", part.path);
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let among = |list: &str, word: &str| list.split(',').any(|known| known == word);
        let types = format!("must be one of {COLUMN_TYPES}");
        match text(column, "type") {
            "" => errors.push(FieldError::required(format!("{path}.type"), types)),
            kind if !among(COLUMN_TYPES, kind) => {
                errors.push(FieldError::invalid(format!("{path}.type"), kind, types));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !among(COLUMN_FORMATS, format) {
            let detail = format!("must be one of {COLUMN_FORMATS}");
            errors.push(FieldError::invalid(format!("{path}.format"), format, detail));
        }
        let field = format!("{path}.JSONPath");
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(field, "")),
            path => {
                simple_path(&field, path, errors);
            }
        }
    }
}

fn check_selectable(part: &Part<'_>, errors: &mut Vec<FieldError>) {
    let fields = part.value.and_then(Value::as_array);
    let fields: Vec<&Value> = fields.into_iter().flatten().collect();
    if fields.is_empty() {
        return;
    }
    let Some(schema) = part.schema.and_then(|schema| schema.get("openAPIV3Schema")) else {
        let words = "may only be set when validations.schema is included";
        errors.push(FieldError::invalid(&part.path, "", words));
        return;
    };
    // What cannot be read was refused with the schema.
    let Ok(reading) = Schema::read_all(schema, "") else { return };
    let mut seen = Vec::new();
    for (at, selectable) in fields.into_iter().enumerate() {
        let field = format!("{}[{at}].jsonPath", part.path);
        let path = selectable.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
        if path.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let (steps, found) = match follow(path, &reading.schema) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(field, path, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if steps.first() == Some(&"metadata") {
            errors.push(FieldError::invalid(&field, path, "must not point to fields in metadata"));
        }
        let kind = found.and_then(|schema| schema.kind);
        if !matches!(kind, Some(Type::String | Type::Boolean | Type::Integer)) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&field, path, detail));
        }
        if seen.contains(&steps) {
            errors.push(FieldError::duplicate(field, path));
        } else {
            seen.push(steps);
        }
    }
    if seen.len() > SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(&part.path, seen.len(), SELECTABLE_FIELDS as u64));
    }
}

type Followed<'p, 's> = (Vec<&'p str>, Option<&'s Schema>);

/// The names along a path and the schema that it leads to.
fn follow<'p, 's>(path: &'p str, schema: &'s Schema) -> Result<Followed<'p, 's>, String> {
    let mut steps = Vec::new();
    let mut found = Some(schema);
    let mut rest = path;
    while !rest.is_empty() {
        if rest.starts_with('[') {
            return Err("array notation is not allowed".into());
        }
        let Some(after) = rest.strip_prefix('.') else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(1);
            return Err(format!("expected [ or . but got: {}", rest.get(..end).unwrap_or(rest)));
        };
        if after.is_empty() {
            return Err("unexpected end of JSON path".into());
        }
        let end = after.find(['.', '[', ']']).unwrap_or(after.len()).max(1);
        let (name, next) = after.split_at_checked(end).unwrap_or((after, ""));
        let invalid = || "does not refer to a valid field".to_owned();
        let here = found.ok_or_else(invalid)?;
        found = match &here.additional {
            _ if !here.properties.is_empty() => Some(here.properties.get(name).ok_or_else(invalid)?),
            Some(Additional::Like(schema)) => Some(schema.as_ref()),
            Some(Additional::Anything | Additional::Nothing) => None,
            None => return Err(invalid()),
        };
        steps.push(name);
        rest = next;
    }
    Ok((steps, found))
}

/// The formats in a definition's schemas that mean nothing, in the order in which clients are told of them.
pub(crate) fn unrecognised_formats(spec: &Map<String, Value>) -> Vec<String> {
    let versions = spec.get("versions").and_then(Value::as_array);
    let versions: Vec<&Map<String, Value>> =
        versions.into_iter().flatten().filter_map(Value::as_object).collect();
    let schemas = parts(&versions, "schema", "").into_iter();
    schemas
        .filter_map(|part| part.value.and_then(|value| value.get("openAPIV3Schema")))
        .flat_map(schema::unrecognised_formats)
        .collect()
}
