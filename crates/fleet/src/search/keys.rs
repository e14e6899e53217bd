//! The keys of a resource: what searches compare with one value. Both stores keep them in `resource_keys`, ordered as lists are, so that
//! a search for one value reads matching entries only. It is pure.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::decimal::Decimal;
use crate::resource::Resource;
use crate::vocabulary::{is_current, is_last_known};

/// The longest field and the longest value that are kept as they are, in bytes. Indexes limit the size of their entries.
const MAX_LENGTH: usize = 128;
/// The maximum number of values of a spec with keys.
const MAX_SPEC_VALUES: usize = 64;
/// The first character of a hash in place of a long text.
const HASHED: char = '\u{1}';

/// A field of a resource and its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    pub(crate) field: String,
    pub(crate) value: String,
}

impl Key {
    /// A label.
    pub(crate) fn label(key: &str, value: &str) -> Self {
        Self { field: label_field(key), value: short(value) }
    }

    /// The status of a condition.
    pub(crate) fn condition(type_: &str, status: &str) -> Self {
        Self { field: condition_field(type_), value: short(status) }
    }

    /// The text of a value in the spec.
    pub(crate) fn spec_text(path: &[impl AsRef<str>], text: &str) -> Self {
        Self { field: spec_field('t', path), value: short(text) }
    }

    /// A number in the spec. Equal numbers have the same key.
    pub(crate) fn spec_number(path: &[impl AsRef<str>], number: &Decimal) -> Self {
        Self { field: spec_field('n', path), value: short(&number.normalized()) }
    }

    /// A boolean in the spec.
    pub(crate) fn spec_boolean(path: &[impl AsRef<str>], value: bool) -> Self {
        Self { field: spec_field('b', path), value: value.to_string() }
    }

    /// Whether this is a value of the spec.
    pub(crate) fn is_of_spec(&self) -> bool {
        !self.field.starts_with(['l', 'c'])
    }

    /// The key of a resource whose spec has too many values: those beyond the limit have no keys.
    pub(crate) fn long_spec() -> Self {
        Self { field: "s".to_owned(), value: String::new() }
    }
}

/// The field of a label.
pub(crate) fn label_field(key: &str) -> String {
    short(&format!("l{key}"))
}

/// The field of a condition. The two names of a combined condition mean the same.
pub(crate) fn condition_field(type_: &str) -> String {
    let name = match type_ {
        type_ if is_current(type_) => "Ready",
        type_ if is_last_known(type_) => "Available",
        type_ => type_,
    };
    short(&format!("c{name}"))
}

/// The field of a path in the spec. JSON separates its names, which may have any characters.
fn spec_field(kind: char, path: &[impl AsRef<str>]) -> String {
    let names = path.iter().map(|name| Value::from(name.as_ref())).collect();
    short(&format!("{kind}{}", Value::Array(names)))
}

/// A text, or its hash if it is too long for an index.
fn short(text: &str) -> String {
    if text.len() <= MAX_LENGTH && !text.starts_with(HASHED) {
        return text.to_owned();
    }
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let digits = hash.as_ref().iter().map(|byte| format!("{byte:02x}"));
    std::iter::once(HASHED.to_string()).chain(digits).collect()
}

/// The keys of a resource.
pub(crate) fn keys(resource: &Resource) -> BTreeSet<Key> {
    let mut keys: BTreeSet<Key> = resource.labels.iter().map(|(key, value)| Key::label(key, value)).collect();
    keys.extend(condition_keys(resource));
    let mut left = MAX_SPEC_VALUES;
    if !add_spec_keys(&resource.spec, &mut Vec::new(), &mut left, &mut keys) {
        keys.insert(Key::long_spec());
    }
    keys
}

/// The keys of the conditions of a resource.
pub(crate) fn condition_keys(resource: &Resource) -> impl Iterator<Item = Key> {
    resource.status.conditions.iter().map(|is| Key::condition(&is.type_, is.status.as_str()))
}

/// Adds the keys of an object of the spec, and returns whether all fit.
fn add_spec_keys<'a>(
    object: &'a Map<String, Value>,
    path: &mut Vec<&'a str>,
    left: &mut usize,
    keys: &mut BTreeSet<Key>,
) -> bool {
    for (name, value) in object {
        path.push(name);
        let fits = match value {
            Value::Object(object) => add_spec_keys(object, path, left, keys),
            Value::Null | Value::Array(_) => true,
            _ if *left == 0 => false,
            value => {
                *left -= 1;
                add_value_keys(value, path, keys);
                true
            }
        };
        path.pop();
        if !fits {
            return false;
        }
    }
    true
}

fn add_value_keys(value: &Value, path: &[&str], keys: &mut BTreeSet<Key>) {
    let (text, number) = match value {
        Value::String(text) => (Some(text.clone()), Decimal::of_text(text)),
        Value::Number(number) => {
            let number = Decimal::of_json(&number.to_string());
            (number.as_ref().map(Decimal::to_string), number)
        }
        Value::Bool(value) => {
            keys.insert(Key::spec_boolean(path, *value));
            (Some(value.to_string()), None)
        }
        Value::Null | Value::Array(_) | Value::Object(_) => (None, None),
    };
    keys.extend(text.map(|text| Key::spec_text(path, &text)));
    keys.extend(number.map(|number| Key::spec_number(path, &number)));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::search::Filter;

    fn resource(labels: Value, spec: Value, conditions: &[(&str, &str)]) -> Resource {
        let time = "2026-05-01T00:00:00Z";
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(type_, status)| {
                json!({
                    "type": type_, "status": status, "observed_generation": 1, "created_time": time,
                    "last_updated_time": time, "last_transition_time": time,
                })
            })
            .collect();
        serde_json::from_value(json!({
            "id": "01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d", "kind": "Cluster", "name": "a", "href": "/a", "spec": spec,
            "labels": labels, "generation": 1, "created_time": time, "created_by": "c", "updated_time": time,
            "updated_by": "u", "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    #[test]
    fn search_for_one_value_has_a_key_of_the_resources_that_match() {
        let resource = resource(
            json!({"env": "prod"}),
            json!({
                "region": "eu", "replicas": 7, "size": 1.50, "quoted": "07.0", "on": true, "off": "true", "long": "x".repeat(5000),
                "release": {"version": "4.19"}, "none": null, "list": [1],
            }),
            &[("Reconciled", "True"), ("Available", "False"), ("DnsSuccessful", "Unknown")],
        );
        let keys = keys(&resource);
        let long = format!("spec.long = '{}'", "x".repeat(4000));
        let rows = [
            ("labels.env = 'prod'", true),
            ("labels.env = 'test'", false),
            ("labels.region = 'prod'", false),
            ("spec.region = 'eu'", true),
            ("spec.region = 'us'", false),
            ("spec.release.version = '4.19'", true),
            ("spec.release.version = 4.190", true),
            ("spec.release = '4.19'", false),
            ("spec.replicas = 7", true),
            ("spec.replicas = 7.0", true),
            ("spec.replicas = '7'", true),
            ("spec.replicas = '7.0'", false),
            ("spec.size = 1.5", true),
            ("spec.quoted = 7", true),
            ("spec.quoted = '07.0'", true),
            ("spec.quoted = '7'", false),
            ("spec.on = true", true),
            ("spec.on = 'true'", true),
            ("spec.on = false", false),
            ("spec.off = true", false),
            ("spec.off = 'true'", true),
            (&long, false),
            ("status.conditions.Ready = 'True'", true),
            ("status.conditions.Reconciled = 'True'", true),
            ("status.conditions.Ready = 'False'", false),
            ("status.conditions.LastKnownReconciled = 'False'", true),
            ("status.conditions.DnsSuccessful = 'Unknown'", true),
        ];
        for (search, expected) in rows {
            let key = Filter::parse(search).unwrap().key();
            assert_eq!(keys.contains(&key.expect(search)), expected, "{search}");
        }
        for search in [
            "name = 'a'",
            "not spec.on = true",
            "spec.a = 1 and spec.b = 2",
            "spec.a in ['x']",
            "labels.env != 'a'",
        ] {
            assert_eq!(Filter::parse(search).unwrap().key(), None, "{search}");
        }
    }

    #[test]
    fn long_text_is_hashed_and_never_equals_a_short_one() {
        let long = short(&"x".repeat(129));
        assert_eq!(long.len(), 65);
        assert_ne!(short(&long), long);
        assert_eq!(short("short"), "short");
    }

    #[test]
    fn spec_with_too_many_values_is_marked() {
        let values = |count: usize| -> Value {
            (0..count).map(|n| (format!("v{n}"), json!(n))).collect::<Map<_, _>>().into()
        };
        let keys = |count| keys(&resource(json!({}), json!({"deep": values(count)}), &[]));
        assert!(!keys(MAX_SPEC_VALUES).contains(&Key::long_spec()));
        assert!(keys(MAX_SPEC_VALUES + 1).contains(&Key::long_spec()));
    }
}
