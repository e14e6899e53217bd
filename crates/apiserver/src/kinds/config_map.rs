//! ConfigMap: text and bytes under file-like keys, which can be frozen.

use serde_json::Value;

use crate::field::FieldError;
use crate::names;
use crate::object::Object;
use crate::registry::{Change, Resource, Rules};
use crate::table::{Column, age, name};

/// The most data that a ConfigMap or a Secret may hold.
pub(super) const DATA_LIMIT: usize = 1024 * 1024;

pub(super) fn own(resource: Resource) -> Resource {
    Resource {
        columns: vec![
            name(),
            Column::text("Data", |object, _| {
                (entries(object, "data").count() + entries(object, "binaryData").count()).into()
            }),
            age(),
        ],
        rules: Rules { validate, ..Rules::default() },
        ..resource
    }
}

pub(super) fn entries<'a>(object: &'a Object, key: &str) -> impl Iterator<Item = (&'a String, &'a str)> {
    let map = object.get(key).and_then(Value::as_object);
    map.into_iter().flatten().map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// The length of what base64 text stands for.
pub(super) fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}

/// Errors for a frozen object of which something changed.
pub(super) fn frozen(object: &Object, old: Option<&Object>, fields: &[&str]) -> Vec<FieldError> {
    let is_frozen = |object: &Object| object.get("immutable") == Some(&Value::Bool(true));
    let Some(old) = old.filter(|old| is_frozen(old)) else { return Vec::new() };
    let detail = "field is immutable when `immutable` is set";
    let mut errors = Vec::new();
    if !is_frozen(object) {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for field in fields {
        if object.get(*field) != old.get(*field) {
            errors.push(FieldError::forbidden(*field, detail));
        }
    }
    errors
}

fn validate(object: &Object, change: Change<'_>) -> Vec<FieldError> {
    let mut errors = frozen(object, change.old, &["data", "binaryData"]);
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        let field = format!("data[{key}]");
        for problem in names::data_key(key) {
            errors.push(FieldError::invalid(&field, key.as_str(), problem));
        }
        if entries(object, "binaryData").any(|(other, _)| other == key) {
            errors.push(FieldError::invalid(&field, key.as_str(), "duplicate of key present in binaryData"));
        }
        size += value.len();
    }
    for (key, value) in entries(object, "binaryData") {
        for problem in names::data_key(key) {
            errors.push(FieldError::invalid(format!("binaryData[{key}]"), key.as_str(), problem));
        }
        size += decoded_len(value);
    }
    if size > DATA_LIMIT {
        errors.push(FieldError::too_long("[]", DATA_LIMIT));
    }
    errors
}
