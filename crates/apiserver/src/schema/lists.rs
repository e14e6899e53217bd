//! Lists that are sets or maps hold nothing twice.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Additional, ListType, Schema};
use crate::field::FieldError;

/// What stands twice in the lists of an object.
pub(super) fn validate(object: &Map<String, Value>, schema: &Schema) -> Vec<FieldError> {
    let mut errors = Vec::new();
    fields(object, schema, "", &mut errors);
    errors
}

fn fields(object: &Map<String, Value>, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    for (key, field) in object {
        if let Some(property) = schema.properties.get(key) {
            let step = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            value(field, property, &step, errors);
        } else if let Some(Additional::Like(additional)) = &schema.additional {
            value(field, additional, &format!("{path}[{key}]"), errors);
        }
    }
}

fn value(value: &Value, schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    match value {
        Value::Object(object) => fields(object, schema, path, errors),
        Value::Array(items) => {
            match schema.extensions.list_type {
                Some(ListType::Set) => report(items, &repeated(items), path, errors),
                Some(ListType::Map) => list_map(items, schema, path, errors),
                Some(ListType::Atomic) | None => {}
            }
            if let Some(schema) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    self::value(item, schema, &format!("{path}[{at}]"), errors);
                }
            }
        }
        _ => {}
    }
}

fn list_map(items: &[Value], schema: &Schema, path: &str, errors: &mut Vec<FieldError>) {
    let odd = items.iter().enumerate().find(|(_, item)| !(item.is_object() || item.is_null()));
    if let Some((at, item)) = odd {
        let words = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(format!("{path}[{at}]"), item.clone(), words));
        return;
    }
    let key_of = |item: &Value| {
        let keys = schema.extensions.list_map_keys.iter();
        let found = keys.filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(found.collect())
    };
    let keys: Vec<Value> = items.iter().map(key_of).collect();
    report(&keys, &repeated(&keys), path, errors);
}

fn report(items: &[Value], repeated: &[usize], path: &str, errors: &mut Vec<FieldError>) {
    for at in repeated {
        if let Some(item) = items.get(*at) {
            errors.push(FieldError::duplicate(format!("{path}[{at}]"), item.clone()));
        }
    }
}

/// The position of the second appearance of everything that appears more than once.
fn repeated(items: &[Value]) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let times = seen.entry(item.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(at);
        }
    }
    repeated
}
