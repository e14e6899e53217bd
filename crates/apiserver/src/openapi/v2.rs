//! OpenAPI v2: one document for everything, made from those of v3. It can say less: what it has no word for is left
//! out, and clients take what is left out as allowed.

use serde_json::{Map, Value, json};

use super::builtin::REF;
use crate::object::set;

const DEFINITIONS: &str = "#/definitions/";

/// One document from the documents of all groups and versions.
pub(super) fn document(versions: impl Iterator<Item = Value>) -> Value {
    let mut definitions = Map::new();
    let mut paths = Map::new();
    for mut version in versions {
        if let Some(Value::Object(schemas)) = version.pointer_mut("/components/schemas").map(Value::take) {
            definitions.extend(schemas.into_iter().map(|(name, schema)| (name, definition_of(schema))));
        }
        if let Some(Value::Object(items)) = version.get_mut("paths").map(Value::take) {
            paths.extend(items.into_iter().map(|(path, item)| (path, path_item(item))));
        }
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "definitions": definitions,
    })
}

/// A whole kind. Of one that keeps fields it does not know, nothing more is said: old clients would refuse them.
fn definition_of(schema: Value) -> Value {
    const KINDS: &str = "x-kubernetes-group-version-kind";
    match schema.get(KINDS) {
        Some(kinds) if is_free(&schema) => json!({"type": "object", KINDS: kinds}),
        _ => schema_of(schema),
    }
}

fn is_free(schema: &Value) -> bool {
    schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true))
}

fn schema_of(schema: Value) -> Value {
    let free = is_free(&schema);
    let Value::Object(mut schema) = schema else { return schema };
    if let Some(target) = single_reference(&schema) {
        let mut reference = json!({"$ref": target.replacen(REF, DEFINITIONS, 1)});
        if let Some(words) = schema.remove("description") {
            set(&mut reference, "description", words);
        }
        return reference;
    }
    let kind = schema.get("type").cloned();
    let nullable = schema.remove("nullable") == Some(Value::Bool(true));
    let texts = schema.get("oneOf").is_some() && kind.is_none();
    for key in ["oneOf", "anyOf", "allOf", "not"] {
        schema.remove(key);
    }
    if texts {
        schema.insert("type".into(), "string".into());
    }
    if nullable {
        schema.remove("type");
    }
    // Old clients refuse unknown fields where they see known ones.
    if nullable || free {
        for key in ["properties", "items", "additionalProperties"] {
            schema.remove(key);
        }
    }
    let kind = schema.get("type").and_then(Value::as_str).unwrap_or_default();
    if (free && kind == "object") || (kind == "array" && !schema.contains_key("items")) {
        schema.remove("type");
    }
    for key in ["items", "additionalProperties"] {
        if let Some(below) = schema.get_mut(key) {
            *below = schema_of(below.take());
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for below in properties.values_mut() {
            *below = schema_of(below.take());
        }
    }
    Value::Object(schema)
}

/// A reference, bare or as the only one of all that must hold.
fn single_reference(schema: &Map<String, Value>) -> Option<&str> {
    let bare = schema.get("$ref");
    let only = || match schema.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
        Some([one]) => one.get("$ref"),
        _ => None,
    };
    bare.or_else(only).and_then(Value::as_str)
}

fn path_item(item: Value) -> Value {
    let Value::Object(mut item) = item else { return item };
    for (key, operation) in &mut item {
        *operation = match key.as_str() {
            "parameters" => parameters(operation.take()),
            _ => self::operation(operation.take()),
        };
    }
    Value::Object(item)
}

/// Where v3 nests the schema of a parameter, v2 writes it out.
fn parameters(list: Value) -> Value {
    let Value::Array(list) = list else { return list };
    list.into_iter()
        .map(|parameter| {
            let Value::Object(mut parameter) = parameter else { return parameter };
            if let Some(Value::Object(schema)) = parameter.remove("schema") {
                parameter.extend(schema);
            }
            Value::Object(parameter)
        })
        .collect()
}

fn operation(operation: Value) -> Value {
    let Value::Object(mut operation) = operation else { return operation };
    let mut all = match operation.remove("parameters").map(parameters) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    if let Some(mut body) = operation.remove("requestBody") {
        let content = body.get_mut("content").map(Value::take);
        let Some(Value::Object(content)) = content else { return Value::Object(operation) };
        operation.insert("consumes".into(), content.keys().cloned().collect());
        let schema = content
            .into_iter()
            .next()
            .and_then(|(_, mut content)| content.get_mut("schema").map(Value::take));
        let mut parameter =
            json!({"name": "body", "in": "body", "schema": schema_of(schema.unwrap_or_default())});
        if let Some(required) = body.get("required") {
            set(&mut parameter, "required", required.clone());
        }
        all.push(parameter);
    }
    operation.insert("parameters".into(), all.into());
    operation.insert("produces".into(), json!(["application/json", "application/yaml"]));
    operation.insert("schemes".into(), json!(["https"]));
    if let Some(Value::Object(responses)) = operation.get_mut("responses") {
        for response in responses.values_mut() {
            let Value::Object(response) = response else { continue };
            let schema = response
                .remove("content")
                .and_then(|mut content| content.pointer_mut("/application~1json/schema").map(Value::take));
            if let Some(schema) = schema {
                response.insert("schema".into(), schema_of(schema));
            }
        }
    }
    Value::Object(operation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v2_has_no_word_for_is_left_out() {
        for (v3, v2) in [
            (
                json!({"allOf": [{"$ref": "#/components/schemas/a.B"}], "description": "it", "default": {}}),
                json!({"$ref": "#/definitions/a.B", "description": "it"}),
            ),
            (json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}), json!({})),
            (
                json!({"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "array", "items": {"$ref": "#/components/schemas/x"}}}}),
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"$ref": "#/definitions/x"}}}}),
            ),
            (
                json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
                json!({"type": "string", "format": "int-or-string"}),
            ),
            (
                json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
            (
                json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {}}),
                json!({"x-kubernetes-preserve-unknown-fields": true}),
            ),
        ] {
            assert_eq!(schema_of(v3.clone()), v2, "{v3}");
        }
    }
}
