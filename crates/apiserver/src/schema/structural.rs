//! What makes a schema structural: every value's type is stated outside of allOf, anyOf, oneOf and not, which may only
//! restrict what is stated. Only then can objects be pruned and defaulted by it.

use super::{Additional, Extensions, Schema, Type};
use crate::field::FieldError;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

impl Schema {
    /// What keeps this schema from being structural.
    pub(crate) fn structural_errors(&self, path: &str) -> Vec<FieldError> {
        let mut errors = Vec::new();
        check(self, Level::Root, path, &mut errors);
        check_complete(self, path, &mut errors);
        errors.sort_by_key(ToString::to_string);
        errors
    }
}

fn check(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    if schema.kind == Some(Type::Array) && schema.items.is_none() {
        errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
    }
    for (step, child) in schema.children() {
        let level = if step == "items" { Level::Item } else { Level::Field };
        check(child, level, &format!("{path}.{step}"), errors);
    }
    if schema.additional.is_some() && level == Level::Root {
        let field = format!("{path}.additionalProperties");
        errors.push(FieldError::forbidden(field, "must not be used at the root"));
    }
    check_extensions(schema, path, errors);
    check_type(schema, level, path, errors);
    check_metadata(schema, level, path, errors);
    let skip = if is_int_or_string(&schema.rules.any_of) { Skip::AnyOf } else { Skip::AllOfAnyOf };
    check_junctors(schema, skip, path, errors);
}

fn check_extensions(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let extensions = &schema.extensions;
    if extensions.int_or_string && extensions.preserve_unknown_fields {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        let detail = "must be false if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid(field, true, detail));
    }
    if extensions.int_or_string && extensions.embedded_resource {
        let field = format!("{path}.x-kubernetes-embedded-resource");
        let detail = "must be false if x-kubernetes-int-or-string is true";
        errors.push(FieldError::invalid(field, true, detail));
    }
    if extensions.embedded_resource && schema.additional.is_some() {
        let field = format!("{path}.additionalProperties");
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(field, detail));
    }
    if extensions.embedded_resource && !extensions.preserve_unknown_fields && schema.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

fn check_type(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.type");
    let extensions = &schema.extensions;
    if extensions.embedded_resource && schema.kind != Some(Type::Object) {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match schema.kind {
            None => FieldError::required(&field, detail),
            Some(kind) => FieldError::invalid(&field, kind.name(), detail),
        });
    } else if schema.kind.is_none() && !extensions.int_or_string && !extensions.preserve_unknown_fields {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&field, detail));
    }
    if let Some(kind) = schema.kind.filter(|kind| level == Level::Root && *kind != Type::Object) {
        errors.push(FieldError::invalid(field, kind.name(), "must be object at the root"));
    }
}

fn check_metadata(schema: &Schema, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let resource = level == Level::Root || schema.extensions.embedded_resource;
    if !resource {
        return;
    }
    for name in ["kind", "apiVersion"] {
        if let Some(found) = schema.properties.get(name).filter(|found| found.kind != Some(Type::String)) {
            let found = found.kind.map(Type::name).unwrap_or_default();
            errors.push(FieldError::invalid(
                format!("{path}.properties[{name}].type"),
                found,
                "must be string",
            ));
        }
    }
    let Some(metadata) = schema.properties.get("metadata") else { return };
    let field = format!("{path}.properties[metadata]");
    if metadata.kind != Some(Type::Object) {
        let found = metadata.kind.map(Type::name).unwrap_or_default();
        errors.push(FieldError::invalid(format!("{field}.type"), found, "must be object"));
    }
    let plain = metadata.properties.keys().all(|name| name == "name" || name == "generateName")
        && metadata.additional.is_none()
        && metadata.items.is_none()
        && !metadata.nullable
        && !metadata.titled
        && !metadata.described
        && metadata.extensions == Extensions::default()
        && metadata.rules.are_empty();
    if level == Level::Root && !plain {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// The schemas under allOf, anyOf, oneOf and not, each with the step that leads to it.
fn junctors(schema: &Schema) -> impl Iterator<Item = (String, &Schema)> {
    fn numbered<'a>(name: &'static str, list: &'a [Schema]) -> impl Iterator<Item = (String, &'a Schema)> {
        list.iter().enumerate().map(move |(at, schema)| (format!("{name}[{at}]"), schema))
    }
    let rules = &schema.rules;
    numbered("allOf", &rules.all_of)
        .chain(numbered("anyOf", &rules.any_of))
        .chain(numbered("oneOf", &rules.one_of))
        .chain(rules.not.iter().map(|not| ("not".to_owned(), not.as_ref())))
}

/// The one place of a schema where types may stand in anyOf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Skip {
    AnyOf,
    /// In the first of allOf.
    AllOfAnyOf,
    Nothing,
}

fn check_junctors(schema: &Schema, skip: Skip, path: &str, errors: &mut Vec<FieldError>) {
    for (step, nested) in junctors(schema) {
        if skip == Skip::AnyOf && step.starts_with("anyOf") {
            continue;
        }
        let first = skip == Skip::AllOfAnyOf && step == "allOf[0]" && is_int_or_string(&nested.rules.any_of);
        let inner = if first { Skip::AnyOf } else { Skip::Nothing };
        check_nested(nested, inner, &format!("{path}.{step}"), errors);
    }
}

/// The one way in which types may stand in anyOf: `[{type: integer}, {type: string}]`.
fn is_int_or_string(schemas: &[Schema]) -> bool {
    let only = |schema: &Schema, kind: Type| schema.kind == Some(kind) && schema.rules.are_empty();
    matches!(schemas, [a, b] if only(a, Type::Integer) && only(b, Type::String))
}

fn check_nested(schema: &Schema, skip: Skip, path: &str, errors: &mut Vec<FieldError>) {
    let mut forbid = |there: bool, key: &str, detail: &str| {
        if there {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    };
    let extensions = &schema.extensions;
    forbid(schema.kind.is_some(), "type", "must be empty to be structural");
    let additional = matches!(schema.additional, Some(Additional::Anything | Additional::Like(_)));
    forbid(additional, "additionalProperties", "must be undefined to be structural");
    forbid(schema.default.is_some(), "default", "must be undefined to be structural");
    forbid(schema.titled, "title", "must be empty to be structural");
    forbid(schema.described, "description", "must be empty to be structural");
    forbid(schema.nullable, "nullable", "must be false to be structural");
    forbid(
        extensions.preserve_unknown_fields,
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    );
    forbid(extensions.embedded_resource, "x-kubernetes-embedded-resource", "must be false to be structural");
    forbid(extensions.int_or_string, "x-kubernetes-int-or-string", "must be false to be structural");
    forbid(
        !extensions.list_map_keys.is_empty(),
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    );
    forbid(extensions.list_type.is_some(), "x-kubernetes-list-type", "must be undefined to be structural");
    forbid(extensions.map_type.is_some(), "x-kubernetes-map-type", "must be undefined to be structural");
    forbid(!extensions.validations.is_empty(), "x-kubernetes-validations", "must be empty to be structural");
    forbid(
        schema.properties.contains_key("metadata"),
        "properties[metadata]",
        "must not be specified in a nested context",
    );
    for (step, nested) in schema.children().filter(|(step, _)| step != "additionalProperties") {
        check_nested(nested, Skip::Nothing, &format!("{path}.{step}"), errors);
    }
    check_junctors(schema, skip, path, errors);
}

/// Every field that a junctor speaks of must be stated outside of it.
/// Only the junctors at the root are looked at, as in Kubernetes.
fn check_complete(schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    for (step, nested) in junctors(schema) {
        check_stated(nested, schema, &format!("{path}.{step}"), path, errors);
    }
}

fn check_stated(
    nested: &Schema,
    stated: &Schema,
    path: &str,
    stated_path: &str,
    errors: &mut Vec<FieldError>,
) {
    let because = |step: &str| format!("because it is defined in {path}.{step}");
    for (name, property) in &nested.properties {
        let step = format!("properties[{name}]");
        match stated.properties.get(name) {
            Some(found) => check_stated(
                property,
                found,
                &format!("{path}.{step}"),
                &format!("{stated_path}.{step}"),
                errors,
            ),
            None => errors.push(FieldError::required(format!("{stated_path}.{step}"), because(&step))),
        }
    }
    if let Some(items) = &nested.items {
        match &stated.items {
            Some(found) => {
                check_stated(items, found, &format!("{path}.items"), &format!("{stated_path}.items"), errors)
            }
            None => errors.push(FieldError::required(format!("{stated_path}.items"), because("items"))),
        }
    }
    for (step, deeper) in junctors(nested) {
        check_stated(deeper, stated, &format!("{path}.{step}"), stated_path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn errors(schema: Value) -> Vec<String> {
        match Schema::read_all(&schema, "schema") {
            Ok(read) => {
                let keywords = crate::schema::check_keywords(&schema, "schema");
                let structural = read.schema.structural_errors("schema");
                let all = structural.iter().chain(&read.errors).chain(&keywords);
                all.map(ToString::to_string).collect()
            }
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn structural_schemas_have_nothing_against_them() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true}}}),
            json!({"type": "object", "properties": {"a": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}}}),
            json!({"type": "object", "properties": {"a": {"x-kubernetes-preserve-unknown-fields": true}}}),
            json!({"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"properties": {"a": {"minLength": 1}}}]}),
            json!({"type": "object", "properties": {"l": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}}}}}),
        ] {
            assert_eq!(errors(schema.clone()), Vec::<String>::new(), "{schema}");
        }
    }

    #[test]
    fn what_is_not_structural_is_named() {
        for (schema, expected) in [
            (json!({}), "schema.type: Required value: must not be empty at the root"),
            (json!({"type": "string"}), "schema.type: Invalid value: \"string\": must be object at the root"),
            (
                json!({"type": "object", "properties": {"a": {}}}),
                "schema.properties[a].type: Required value: must not be empty for specified object fields",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                "schema.properties[a].items: Required value: must be specified",
            ),
            (
                json!({"type": "object", "anyOf": [{"type": "object"}]}),
                "schema.anyOf[0].type: Forbidden: must be empty to be structural",
            ),
            (
                json!({"type": "object", "anyOf": [{"properties": {"a": {"minLength": 1}}}]}),
                "schema.properties[a]: Required value: because it is defined in schema.anyOf[0].properties[a]",
            ),
            (
                json!({"type": "object", "additionalProperties": true}),
                "schema.additionalProperties: Forbidden: must not be used at the root",
            ),
            (
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
                "schema.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression",
            ),
            (
                json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "string"}, "uniqueItems": true}}}),
                "schema.properties[l].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
            ),
        ] {
            let found = errors(schema.clone());
            assert!(found.iter().any(|error| error.starts_with(expected)), "{schema}: {found:?}");
        }
    }

    #[test]
    fn a_schema_that_nests_too_deep_or_too_wide_is_refused_at_once() {
        let mut deep = json!({"type": "string"});
        for _ in 0..200 {
            deep = json!({"type": "object", "properties": {"a": deep}});
        }
        assert_eq!(errors(deep).len(), 1);
        let wide: serde_json::Map<String, Value> =
            (0..60_000).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
        assert_eq!(errors(json!({"type": "object", "properties": wide})).len(), 1);
    }
}
