//! Objects inside of objects (`x-kubernetes-embedded-resource`): their apiVersion, kind and metadata have the form and
//! follow the rules of any object's.

use serde_json::{Map, Value};

use super::{Additional, Schema};
use crate::field::FieldError;
use crate::meta;
use crate::names;
use crate::object::{Meta, Object};
use crate::shape::BUILTINS;

/// Brings the metadata of embedded resources into its shape and returns the paths of what it does not know, sorted.
pub(crate) fn coerce(object: &mut Object, schema: &Schema) -> Result<Vec<String>, FieldError> {
    let mut unknown = Vec::new();
    coerce_fields(object, schema, "", &mut unknown)?;
    unknown.sort();
    Ok(unknown)
}

/// As [`coerce`], for a value that may itself be a resource.
pub(crate) fn coerce_value(
    value: &mut Value,
    schema: &Schema,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    match value {
        Value::Object(object) => {
            if schema.extensions.embedded_resource {
                coerce_resource(object, path, unknown)?;
            }
            coerce_fields(object, schema, path, unknown)
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return Ok(()) };
            for (at, item) in items.iter_mut().enumerate() {
                coerce_value(item, schema, &format!("{path}[{at}]"), unknown)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn coerce_fields(
    object: &mut Object,
    schema: &Schema,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    for (key, value) in object.iter_mut() {
        if let Some((step, field)) = step(schema, path, key) {
            coerce_value(value, field, &step, unknown)?;
        }
    }
    Ok(())
}

/// The path and the schema of a field.
fn step<'s>(schema: &'s Schema, path: &str, key: &str) -> Option<(String, &'s Schema)> {
    match (schema.properties.get(key), &schema.additional) {
        (Some(property), _) => Some((child(path, key), property)),
        (None, Some(Additional::Like(additional))) => Some((format!("{path}[{key}]"), additional)),
        _ => None,
    }
}

fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn coerce_resource(object: &mut Object, path: &str, unknown: &mut Vec<String>) -> Result<(), FieldError> {
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key).filter(|value| !value.is_string()) {
            return Err(FieldError::invalid(child(path, key), value.clone(), "must be a string"));
        }
    }
    let Some(metadata) = object.get("metadata").cloned() else { return Ok(()) };
    let place = child(path, "metadata");
    let refused = |why: String| FieldError::invalid(place.clone(), metadata.clone(), why);
    let shaped = match &metadata {
        Value::Object(fields) => match BUILTINS.conform("meta/v1.ObjectMeta", fields.clone()) {
            Ok(shaped) => shaped,
            Err(why) => return Err(refused(first_misfit(fields).unwrap_or(why))),
        },
        Value::Null => {
            object.insert("metadata".into(), Value::Object(Map::new()));
            return Ok(());
        }
        other => {
            let found = crate::shape::describe(other);
            let why = format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta");
            return Err(refused(why));
        }
    };
    unknown.extend(shaped.unknown.iter().map(|unknown| format!("{place}.{unknown}")));
    object.insert("metadata".into(), Value::Object(shaped.object));
    Ok(())
}

/// The first field, by name, that is not what it must be.
fn first_misfit(metadata: &Object) -> Option<String> {
    metadata.iter().find_map(|(key, value)| {
        let alone = Map::from_iter([(key.clone(), value.clone())]);
        BUILTINS.conform("meta/v1.ObjectMeta", alone).err()
    })
}

/// What is wrong with the resources inside of an object.
pub(super) fn validate_below(object: &Object, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_fields(object, schema, "", &mut errors);
    errors
}

/// What is wrong with a value that is or holds resources.
pub(super) fn validate_value(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => {
            if schema.extensions.embedded_resource {
                validate_resource(object, path, errors);
            }
            validate_fields(object, schema, path, errors);
        }
        Value::Array(items) => {
            let Some(schema) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                validate_value(item, schema, &format!("{path}[{at}]"), errors);
            }
        }
        _ => {}
    }
}

fn validate_fields(object: &Object, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in object {
        if let Some((step, field)) = step(schema, path, key) {
            validate_value(value, field, &step, errors);
        }
    }
}

fn validate_resource(object: &Object, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["apiVersion", "kind"] {
        let field = child(path, key);
        match object.get(key) {
            None => errors.push(FieldError::required(field, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(field, "", "must not be empty"));
            }
            Some(Value::String(text)) if key == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let words = format!("unexpected GroupVersion string: {text}");
                    errors.push(FieldError::invalid(field, text.as_str(), words));
                }
            }
            Some(Value::String(text)) => {
                let problems = names::label_1035(&text.to_lowercase());
                if !problems.is_empty() {
                    let words =
                        format!("may have mixed case, but should otherwise match: {}", problems.join(","));
                    errors.push(FieldError::invalid(field, text.as_str(), words));
                }
            }
            Some(other) => errors.push(FieldError::invalid(field, other.clone(), "must be a string")),
        }
    }
    if object.meta().is_some() {
        errors.extend(meta::validate_embedded(object, &child(path, "metadata")));
    }
}
