//! Pruning: what a schema does not know is dropped, and named.

use serde_json::{Map, Value};

use super::Schema;

/// Drops the unknown fields of an object of a kind, and returns their paths, sorted. What every object has
/// (apiVersion, kind, metadata) is known at the root and in embedded resources.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner { unknown: Vec::new(), path: String::new() };
    pruner.fields(object, schema, Resource::Yes);
    pruner.unknown.sort();
    pruner.unknown
}

/// Whether a value has fields that its schema does not know. A resource at its root is one.
pub(crate) fn has_unknown(value: &Value, schema: &Schema) -> bool {
    let mut pruner = Pruner { unknown: Vec::new(), path: String::new() };
    pruner.value(&mut value.clone(), Some(schema));
    !pruner.unknown.is_empty()
}

/// Whether an object has the fields that every object has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resource {
    Yes,
    No,
}

struct Pruner {
    unknown: Vec<String>,
    path: String,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match (value, schema) {
            (Value::Object(object), Some(schema)) => {
                let embedded = schema.extensions.embedded_resource;
                self.fields(object, schema, if embedded { Resource::Yes } else { Resource::No });
            }
            (Value::Object(object), None) => {
                for key in std::mem::take(object).into_iter().map(|(key, _)| key) {
                    self.record(&key);
                }
            }
            (Value::Array(items), Some(schema)) if schema.extensions.preserve_unknown_fields => {
                self.preserved_items(items, schema);
            }
            (Value::Array(items), schema) => {
                let schema = schema.and_then(|schema| schema.items.as_deref());
                for (at, item) in items.iter_mut().enumerate() {
                    self.within(&format!("[{at}]"), |pruner| pruner.value(item, schema));
                }
            }
            _ => {}
        }
    }

    /// The items of a list that preserves what it does not know do so too, but for the fields that they name.
    fn preserved_items(&mut self, items: &mut [Value], schema: &Schema) {
        let Some(schema) = schema.items.as_deref() else { return };
        for (at, item) in items.iter_mut().enumerate() {
            self.within(&format!("[{at}]"), |pruner| match item {
                Value::Object(object) => pruner.known_fields(object, schema),
                Value::Array(items) => pruner.preserved_items(items, schema),
                _ => {}
            });
        }
    }

    fn fields(&mut self, object: &mut Map<String, Value>, schema: &Schema, resource: Resource) {
        if !schema.extensions.preserve_unknown_fields && schema.additional.is_none() {
            let common = |key: &str| resource == Resource::Yes && is_common(key);
            let unknown = |key: &&String| !schema.properties.contains_key(*key) && !common(key);
            let dropped: Vec<String> = object.keys().filter(unknown).cloned().collect();
            for key in dropped {
                object.remove(&key);
                self.record(&key);
            }
        }
        self.visit(object, schema, resource);
    }

    fn known_fields(&mut self, object: &mut Map<String, Value>, schema: &Schema) {
        let embedded = schema.extensions.embedded_resource;
        self.visit(object, schema, if embedded { Resource::Yes } else { Resource::No });
    }

    fn visit(&mut self, object: &mut Map<String, Value>, schema: &Schema, resource: Resource) {
        for (key, value) in object.iter_mut() {
            if resource == Resource::Yes && is_common(key) {
                continue;
            }
            let step = if self.path.is_empty() { key.clone() } else { format!(".{key}") };
            if let Some(property) = schema.properties.get(key) {
                self.within(&step, |pruner| pruner.value(value, Some(property)));
            } else if let Some(additional) = &schema.additional {
                // Anything goes where anything is allowed, but what is in it is unknown.
                self.within(&step, |pruner| pruner.value(value, additional.schema()));
            }
        }
    }

    fn within(&mut self, step: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        visit(self);
        self.path.truncate(length);
    }

    fn record(&mut self, key: &str) {
        if self.unknown.len() >= super::NAMED {
            return;
        }
        self.unknown.push(if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) });
    }
}

fn is_common(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
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
