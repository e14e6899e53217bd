//! The keywords of a schema as a definition has them, before anything is made of them: which are not served, and which
//! do not go together.

use serde_json::{Map, Value};

use super::{Type, formats};
use crate::field::FieldError;
use crate::object::{list, text};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What a place in a schema allows.
#[derive(Clone, Default)]
struct Place {
    /// Why there may be no default, if so.
    no_defaults: Option<String>,
    /// Inside of the apiVersion, kind or metadata of a resource.
    in_meta: bool,
    root: bool,
}

/// What is wrong with the keywords of a schema and of all below it.
pub(crate) fn check(schema: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    visit(schema, path, &Place { root: true, ..Place::default() }, &mut errors);
    errors
}

/// Why no structural schema can be made of this: a keyword that has no place in one.
pub(crate) fn unreadable(schema: &Value) -> Option<String> {
    let Value::Object(map) = schema else { return None };
    let there = |key: &str| match map.get(key) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => key == "additionalItems" || !map.is_empty(),
        Some(_) => true,
    };
    let keys = [
        ("id", "id"),
        ("$schema", "schema"),
        ("$ref", "$ref"),
        ("patternProperties", "patternProperties"),
        ("dependencies", "dependencies"),
        ("additionalItems", "additionalItems"),
        ("definitions", "definitions"),
    ];
    if let Some((_, name)) = keys.iter().find(|(key, _)| there(key)) {
        return Some(format!("OpenAPIV3Schema '{name}' is not supported"));
    }
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let words = "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined";
        return Some(words.to_owned());
    }
    if map.get("items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
    }
    below(map).into_iter().find_map(|(_, schema)| unreadable(schema))
}

/// The formats that mean nothing for their type, wherever they stand.
pub(crate) fn unrecognised_formats(schema: &Value) -> Vec<String> {
    let Value::Object(map) = schema else { return Vec::new() };
    let format = text(map, "format");
    let kind = match text(map, "type") {
        "" => None,
        "string" => Some(Type::String),
        "integer" => Some(Type::Integer),
        "number" => Some(Type::Number),
        _ => Some(Type::Object),
    };
    let own = (!format.is_empty() && !formats::is_recognised(kind, format)).then(|| format.to_owned());
    own.into_iter()
        .chain(below(map).into_iter().flat_map(|(_, schema)| unrecognised_formats(schema)))
        .collect()
}

/// A default or an example that is null is none.
pub(crate) fn drop_nulls(schema: &mut Value) {
    let Value::Object(map) = schema else { return };
    map.retain(|key, value| !(matches!(key.as_str(), "default" | "example") && value.is_null()));
    for (key, value) in map {
        match (key.as_str(), value) {
            ("items" | "not" | "additionalProperties", schema) => drop_nulls(schema),
            ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => schemas.iter_mut().for_each(drop_nulls),
            ("properties", Value::Object(fields)) => fields.values_mut().for_each(drop_nulls),
            _ => {}
        }
    }
}

/// The schemas right below a schema, with the step that leads to each, in the order in which Kubernetes visits them.
fn below(map: &Map<String, Value>) -> Vec<(String, &Value)> {
    let mut found = Vec::new();
    if let Some(items) = map.get("items").filter(|items| items.is_object()) {
        found.push(("items".to_owned(), items));
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let list = map.get(key).and_then(Value::as_array);
        found.extend(
            list.into_iter().flatten().enumerate().map(|(at, schema)| (format!("{key}[{at}]"), schema)),
        );
    }
    found.extend(map.get("not").map(|not| ("not".to_owned(), not)));
    for key in ["properties", "definitions"] {
        let fields = map.get(key).and_then(Value::as_object);
        found.extend(fields.into_iter().flatten().map(|(name, schema)| (format!("{key}[{name}]"), schema)));
    }
    let additional = map.get("additionalProperties").filter(|additional| additional.is_object());
    found.extend(additional.map(|additional| ("additionalProperties".to_owned(), additional)));
    found
}

fn visit(schema: &Value, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let Value::Object(map) = schema else { return };
    check_served(map, path, place, errors);
    check_additional(map, path, errors);
    check_extensions(map, path, errors);
    check_list(map, path, errors);
    let resource = place.root || is_on(map, "x-kubernetes-embedded-resource");
    for (step, child) in below(map) {
        let mut inner = Place { root: false, ..place.clone() };
        let property = step.strip_prefix("properties[").and_then(|rest| rest.strip_suffix(']'));
        if let Some(name @ ("metadata" | "kind" | "apiVersion")) = property
            && resource
        {
            inner.in_meta = true;
            if place.root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        if step == "additionalProperties" && place.in_meta {
            inner.no_defaults = Some("inside additionalProperties applying to object metadata".to_owned());
        }
        visit(child, &format!("{path}.{step}"), &inner, errors);
    }
    for (at, child) in list(map, "items").iter().enumerate() {
        visit(child, &format!("{path}.items[{at}]"), &Place { root: false, ..place.clone() }, errors);
    }
}

fn check_served(map: &Map<String, Value>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let kind = text(map, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(format!("{path}.type"), kind, &TYPES));
    }
    let has_default = map.get("default").is_some_and(|default| !default.is_null());
    if let Some(reason) = place.no_defaults.as_ref().filter(|_| has_default) {
        errors.push(FieldError::forbidden(format!("{path}.default"), format!("must not be set {reason}")));
    }
    let mut refuse = |key: &str, there: bool| {
        if there {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
        }
    };
    let filled = |key: &str| map.get(key).and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    refuse("id", !text(map, "id").is_empty());
    refuse("additionalItems", map.get("additionalItems").is_some_and(|value| !value.is_null()));
    refuse("patternProperties", filled("patternProperties"));
    refuse("definitions", filled("definitions"));
    refuse("dependencies", map.get("dependencies").is_some_and(Value::is_object));
    refuse("$ref", map.get("$ref").is_some_and(Value::is_string));
    if kind == "null" {
        let words = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(format!("{path}.type"), words));
    }
    if !list(map, "items").is_empty() {
        let words = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(format!("{path}.items"), words));
    }
    if place.in_meta && is_on(map, "x-kubernetes-embedded-resource") {
        let words = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(format!("{path}.x-kubernetes-embedded-resource"), words));
    }
    if is_on(map, "uniqueItems") {
        let words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), words));
    }
}

fn check_additional(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.additionalProperties");
    let additional = map.get("additionalProperties").filter(|additional| !additional.is_null());
    let properties = map.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if properties && additional.is_some_and(|additional| *additional != Value::Bool(true)) {
        let words = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(field, words));
    }
}

fn check_extensions(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(field, false, "must be true or undefined"));
    }
    if let Some(map_type) = map.get("x-kubernetes-map-type").and_then(Value::as_str) {
        require_type(map, "object", "x-kubernetes-map-type", path, errors);
        if !matches!(map_type, "atomic" | "granular") {
            let field = format!("{path}.x-kubernetes-map-type");
            errors.push(FieldError::not_supported(field, map_type, &["atomic", "granular"]));
        }
    }
    if let Some(list_type) = map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        require_type(map, "array", "x-kubernetes-list-type", path, errors);
        if !matches!(list_type, "atomic" | "set" | "map") {
            let field = format!("{path}.x-kubernetes-list-type");
            errors.push(FieldError::not_supported(field, list_type, &["atomic", "set", "map"]));
        }
    }
}

fn require_type(
    map: &Map<String, Value>,
    kind: &str,
    because: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let field = format!("{path}.type");
    let words = format!("must be {kind} if {because} is specified");
    match text(map, "type") {
        "" => errors.push(FieldError::required(field, words)),
        found if found != kind => errors.push(FieldError::invalid(field, found, words)),
        _ => {}
    }
}

fn check_list(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let none = Map::new();
    let list_type = map.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys: Vec<&str> = list(map, "x-kubernetes-list-map-keys").iter().filter_map(Value::as_str).collect();
    let items = map.get("items").and_then(Value::as_object);
    if !keys.is_empty() && list_type != Some("map") {
        let field = format!("{path}.x-kubernetes-list-type");
        let words = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(field, words),
            Some(found) => FieldError::invalid(field, found, words),
        });
    }
    match (list_type, items) {
        (Some("set"), Some(items)) if text(map, "type") == "array" => check_set(items, path, errors),
        (Some("map"), items) => {
            if keys.is_empty() {
                let field = format!("{path}.x-kubernetes-list-map-keys");
                errors
                    .push(FieldError::required(field, "must not be empty if x-kubernetes-list-type is map"));
            }
            match items {
                None if map.contains_key("items") => {}
                None => {
                    let words = "must have a schema if x-kubernetes-list-type is map";
                    errors.push(FieldError::required(format!("{path}.items"), words));
                }
                Some(items) => check_map(items, &keys, path, errors),
            }
        }
        _ => {}
    }
    if let (Some(list_type @ ("set" | "map")), Some(items)) = (list_type, items) {
        if is_on(items, "nullable") {
            let words = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            errors.push(FieldError::forbidden(format!("{path}.items.nullable"), words));
        }
        if list_type == "map" {
            let properties = items.get("properties").and_then(Value::as_object).unwrap_or(&none);
            check_keys(items, properties, &keys, path, errors);
        }
    }
}

/// What is in a set is one value.
fn check_set(items: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let words = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let list_type = items.get("x-kubernetes-list-type").cloned().unwrap_or(Value::Null);
    match text(items, "type") {
        "array" if !list_type.is_null() && list_type != "atomic" => {
            errors.push(FieldError::invalid(
                format!("{path}.items.x-kubernetes-list-type"),
                list_type,
                words,
            ));
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
            errors.push(FieldError::invalid(format!("{path}.items.x-kubernetes-map-type"), list_type, words));
        }
        _ => {}
    }
}

fn check_map(items: &Map<String, Value>, keys: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(items, "type");
    if kind != "object" {
        let words = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(format!("{path}.items.type"), kind, words));
        return;
    }
    let field = format!("{path}.x-kubernetes-list-map-keys");
    for (at, key) in keys.iter().enumerate() {
        match items.get("properties").and_then(|properties| properties.get(*key)) {
            None => {
                let words = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&field, keys.to_vec(), words));
            }
            Some(property) if matches!(property["type"].as_str(), Some("array" | "object")) => {
                let field = format!("{path}.items.properties[{key}].type");
                let words = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(field, "object", words));
            }
            Some(_) => {}
        }
        if keys.iter().take(at).any(|earlier| earlier == key) {
            errors.push(FieldError::invalid(&field, keys.to_vec(), "must not contain duplicate entries"));
        }
    }
}

/// Every item of a list that is a map has all keys, one way or another.
fn check_keys(
    items: &Map<String, Value>,
    properties: &Map<String, Value>,
    keys: &[&str],
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for key in keys {
        let Some(Value::Object(property)) = properties.get(*key) else { continue };
        let required = list(items, "required").iter().any(|required| required == key);
        let field = format!("{path}.items.properties[{key}]");
        if !required && !property.contains_key("default") {
            let words = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(format!("{field}.default"), words));
        }
        if is_on(property, "nullable") {
            let words = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{field}.nullable"), words));
        }
    }
}

fn is_on(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}
