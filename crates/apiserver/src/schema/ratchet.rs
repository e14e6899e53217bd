//! What did not change between two versions of an object. An update is not refused for what was already wrong and was
//! left alone; this says which old value a new one is to be compared with, and whether they are the same.
//!
//! Fields and the entries of maps go by name, the items of lists of type map by their keys. The items of other lists
//! have no old value of their own.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{ListType, Schema};

/// A value, of which objects may be given by their fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part<'a> {
    Object(&'a Map<String, Value>),
    Other(&'a Value),
}

impl<'a> From<&'a Value> for Part<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Object(object) => Self::Object(object),
            other => Self::Other(other),
        }
    }
}

impl<'a> Part<'a> {
    pub(crate) fn object(self) -> Option<&'a Map<String, Value>> {
        match self {
            Self::Object(object) => Some(object),
            Self::Other(_) => None,
        }
    }

    pub(crate) fn items(self) -> Option<&'a [Value]> {
        match self {
            Self::Other(Value::Array(items)) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn is_null(self) -> bool {
        matches!(self, Self::Other(Value::Null))
    }
}

/// A value together with the one that it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correlated<'a> {
    schema: &'a Schema,
    new: Part<'a>,
    old: Part<'a>,
    root: bool,
}

impl<'a> Correlated<'a> {
    pub(crate) fn root(schema: &'a Schema, new: &'a Map<String, Value>, old: &'a Map<String, Value>) -> Self {
        Self { schema, new: Part::Object(new), old: Part::Object(old), root: true }
    }

    /// A field of both, if both have it and the schema knows it.
    pub(crate) fn key(&self, name: &str) -> Option<Self> {
        // Both are converted to one version before they come here, so these say nothing.
        if self.root && matches!(name, "apiVersion" | "kind") {
            return None;
        }
        self.any_key(name)
    }

    fn any_key(&self, name: &str) -> Option<Self> {
        let (new, old) = (self.new.object()?.get(name)?, self.old.object()?.get(name)?);
        Some(Self { schema: self.schema.field(name)?, new: new.into(), old: old.into(), root: false })
    }

    /// The items of a list that can be told apart by their keys.
    pub(crate) fn items(&self) -> Option<CorrelatedItems<'a>> {
        let (new, old) = (self.new.items()?, self.old.items()?);
        let schema = self.schema.items.as_deref()?;
        (self.schema.extensions.list_type == Some(ListType::Map)).then(|| CorrelatedItems {
            schema,
            new,
            old: KeyedItems::of(self.schema, Some(old)),
        })
    }

    /// Whether it is as it was.
    pub(crate) fn unchanged(&self) -> bool {
        match (self.new, self.old) {
            (Part::Object(new), Part::Object(old)) => {
                new.len() == old.len()
                    && new.keys().all(|key| self.any_key(key).is_some_and(|field| field.unchanged()))
            }
            (Part::Other(Value::Array(new)), Part::Other(Value::Array(old))) => {
                new.len() == old.len()
                    && match self.items() {
                        Some(items) => {
                            (0..new.len()).all(|at| items.at(at).is_some_and(|item| item.unchanged()))
                        }
                        None => new == old,
                    }
            }
            (Part::Other(new), Part::Other(old)) => new == old,
            _ => false,
        }
    }
}

/// The items of a list of type map, and the ones that they were.
pub(crate) struct CorrelatedItems<'a> {
    schema: &'a Schema,
    new: &'a [Value],
    old: KeyedItems<'a>,
}

impl<'a> CorrelatedItems<'a> {
    pub(crate) fn at(&self, at: usize) -> Option<Correlated<'a>> {
        let new = self.new.get(at)?;
        let old = self.old.like(new)?;
        Some(Correlated { schema: self.schema, new: new.into(), old: old.into(), root: false })
    }
}

/// The items of a list by their keys; empty, if the list is not of type map.
#[derive(Default)]
pub(crate) struct KeyedItems<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> KeyedItems<'a> {
    pub(crate) fn of(schema: &'a Schema, items: Option<&'a [Value]>) -> Self {
        let keys = schema.extensions.list_map_keys.as_slice();
        if schema.extensions.list_type != Some(ListType::Map) || keys.is_empty() {
            return Self::default();
        }
        let mut keyed = HashMap::new();
        for item in items.unwrap_or_default() {
            if let Some(key) = key_of(keys, item) {
                keyed.entry(key).or_insert(item);
            }
        }
        Self { keys, items: keyed }
    }

    /// The item with the same keys.
    pub(crate) fn like(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&key_of(self.keys, item)?).copied()
    }
}

/// What tells an item apart; nothing, if a key is missing or is no scalar.
fn key_of(keys: &[String], item: &Value) -> Option<String> {
    let mut name = String::new();
    for key in keys {
        let value = item.get(key)?;
        if value.is_null() || value.is_object() || value.is_array() {
            return None;
        }
        name.push_str(&value.to_string());
        name.push('\0');
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        let text = json!({"type": "string"});
        let schema = json!({"type": "object", "properties": {
            "text": text,
            "kind": text,
            "map": {"type": "object", "additionalProperties": text},
            "atomic": {"type": "array", "items": {"type": "object", "properties": {"a": text}}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "keyed": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": text, "value": text}},
            },
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        }});
        Schema::read(&schema, "").unwrap()
    }

    fn unchanged(path: &[&str], new: Value, old: Value) -> Option<bool> {
        let schema = schema();
        let (new, old) = (new.as_object().unwrap(), old.as_object().unwrap());
        let mut at = Some(Correlated::root(&schema, new, old));
        for step in path {
            at = at.and_then(|at| match step.parse::<usize>() {
                Ok(index) => at.items()?.at(index),
                Err(_) => at.key(step),
            });
        }
        at.map(|at| at.unchanged())
    }

    #[test]
    fn what_is_the_same_as_it_was_is_known_by_its_path() {
        type Case = (&'static str, &'static [&'static str], Value, Value, Option<bool>);
        let cases: [Case; 14] = [
            ("equal objects", &[], json!({"text": "a"}), json!({"text": "a"}), Some(true)),
            (
                "a field that stayed",
                &["text"],
                json!({"text": "a", "set": []}),
                json!({"text": "a"}),
                Some(true),
            ),
            ("a field that changed", &["text"], json!({"text": "a"}), json!({"text": "b"}), Some(false)),
            ("a field that is new", &["text"], json!({"text": "a"}), json!({}), None),
            ("the kind is never compared", &["kind"], json!({"kind": "A"}), json!({"kind": "A"}), None),
            (
                "an entry of a map",
                &["map", "x"],
                json!({"map": {"x": "1", "y": "2"}}),
                json!({"map": {"x": "1"}}),
                Some(true),
            ),
            (
                "items of atomic lists have no past",
                &["atomic", "0"],
                json!({"atomic": [{"a": "x"}]}),
                json!({"atomic": [{"a": "x"}]}),
                None,
            ),
            (
                "atomic lists have",
                &["atomic"],
                json!({"atomic": [{"a": "x"}]}),
                json!({"atomic": [{"a": "x"}]}),
                Some(true),
            ),
            ("items of sets have no past", &["set", "0"], json!({"set": ["a"]}), json!({"set": ["a"]}), None),
            (
                "sets in another order changed",
                &["set"],
                json!({"set": ["a", "b"]}),
                json!({"set": ["b", "a"]}),
                Some(false),
            ),
            (
                "keyed items are found in any order",
                &["keyed", "1"],
                json!({"keyed": [{"name": "b"}, {"name": "a", "value": "x"}]}),
                json!({"keyed": [{"name": "a", "value": "x"}]}),
                Some(true),
            ),
            (
                "keyed lists are the same in any order",
                &["keyed"],
                json!({"keyed": [{"name": "b"}, {"name": "a"}]}),
                json!({"keyed": [{"name": "a"}, {"name": "b"}]}),
                Some(true),
            ),
            (
                "a keyed item that is new",
                &["keyed", "0"],
                json!({"keyed": [{"name": "c"}]}),
                json!({"keyed": [{"name": "a"}]}),
                None,
            ),
            (
                "what the schema does not know counts as changed",
                &["open"],
                json!({"open": {"x": 1}}),
                json!({"open": {"x": 1}}),
                Some(false),
            ),
        ];
        for (what, path, new, old, expected) in cases {
            assert_eq!(unchanged(path, new, old), expected, "{what}");
        }
    }
}
