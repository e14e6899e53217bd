//! Pruning: what a schema does not know is dropped, and named.

use serde_json::{Map, Value};

use super::{Additional, Schema};

/// Drops the unknown fields of an object of a kind, and returns their paths, sorted. What every object has
/// (apiVersion, kind, metadata) is known at the root and in embedded resources.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { unknown: Vec::new(), path: String::new() };
    pruner.fields(object, schema, true, schema.extensions.preserve_unknown_fields);
    pruner.unknown.sort();
    pruner.unknown
}

struct Pruner {
    unknown: Vec<String>,
    path: String,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        let preserves = schema.is_some_and(|schema| schema.extensions.preserve_unknown_fields);
        match (value, schema) {
            (Value::Object(object), Some(schema)) => {
                self.fields(object, schema, schema.extensions.embedded_resource, preserves);
            }
            (Value::Object(object), None) => {
                for key in std::mem::take(object).into_iter().map(|(key, _)| key) {
                    self.record(&key);
                }
            }
            (Value::Array(items), schema) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                // Below a list that preserves what it does not know, nothing is unknown without a schema.
                if preserves && schema.is_none() {
                    return;
                }
                for (at, item) in items.iter_mut().enumerate() {
                    self.within(&format!("[{at}]"), |pruner| pruner.value(item, schema));
                }
            }
            _ => {}
        }
    }

    fn fields(&mut self, object: &mut Map<String, Value>, schema: &Schema, resource: bool, preserves: bool) {
        let mut dropped = Vec::new();
        for (key, value) in object.iter_mut() {
            if resource && matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
                continue;
            }
            let step = if self.path.is_empty() { key.clone() } else { format!(".{key}") };
            if let Some(property) = schema.properties.get(key) {
                self.within(&step, |pruner| pruner.value(value, Some(property)));
            } else if let Some(additional) = &schema.additional {
                // Anything goes where anything is allowed, but what is in it is unknown.
                let schema = match additional {
                    Additional::Anything => None,
                    Additional::Like(schema) => Some(schema.as_ref()),
                };
                self.within(&step, |pruner| pruner.value(value, schema));
            } else if !preserves {
                dropped.push(key.clone());
            }
        }
        for key in dropped {
            object.remove(&key);
            self.record(&key);
        }
    }

    fn within(&mut self, step: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        visit(self);
        self.path.truncate(length);
    }

    fn record(&mut self, key: &str) {
        self.unknown.push(if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pruned(schema: Value, object: Value) -> (Value, Vec<String>) {
        let schema = Schema::read(&schema, "").unwrap();
        let mut object = object.as_object().unwrap().clone();
        let unknown = prune(&mut object, &schema);
        (Value::Object(object), unknown)
    }

    #[test]
    fn unknown_fields_are_dropped_and_named() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
        }}}});
        let (object, unknown) = pruned(
            schema,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"any": 1}, "odd": 1, "spec": {
                "a": "1", "b": 2, "list": [{"x": "1", "y": 2}], "map": {"k": {"x": "1", "z": 3}},
            }}),
        );
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"any": 1}, "spec": {
                "a": "1", "list": [{"x": "1"}], "map": {"k": {"x": "1"}},
            }})
        );
        assert_eq!(unknown, ["odd", "spec.b", "spec.list[0].y", "spec.map.k.z"]);
    }

    #[test]
    fn what_is_preserved_stays_but_known_fields_below_are_still_pruned() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
        }}});
        let (object, unknown) =
            pruned(schema, json!({"spec": {"odd": {"deep": 1}, "known": {"a": "1", "b": 2}}}));
        assert_eq!(object, json!({"spec": {"odd": {"deep": 1}, "known": {"a": "1"}}}));
        assert_eq!(unknown, ["spec.known.b"]);
    }

    #[test]
    fn pruning_is_idempotent() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        let (once, _) = pruned(schema.clone(), json!({"a": {"x": 1}, "b": [1]}));
        let (twice, unknown) = pruned(schema, once.clone());
        assert_eq!(once, twice);
        assert!(unknown.is_empty());
    }
}
