//! The schemas of custom kinds as clients are told them: the definition's own, with what every object has added.

use serde_json::{Map, Value, json};

use super::builtin::{REF, Schemas};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schema of a whole object.
pub(super) fn object(published: Value, words: &Schemas) -> Value {
    let mut schema = inside(published, words);
    if let Value::Object(schema) = &mut schema {
        add_object_fields(schema, words);
    }
    schema
}

/// Objects within objects have the fields of objects, too.
fn inside(mut schema: Value, words: &Schemas) -> Value {
    let Value::Object(map) = &mut schema else { return schema };
    for key in ["items", "additionalProperties"] {
        if let Some(below) = map.get_mut(key) {
            *below = inside(below.take(), words);
        }
    }
    if let Some(Value::Object(properties)) = map.get_mut("properties") {
        for below in properties.values_mut() {
            *below = inside(below.take(), words);
        }
    }
    if map.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        add_object_fields(map, words);
        let required = map.entry("required").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(required) = required {
            for key in ["apiVersion", "kind"] {
                if !required.iter().any(|known| known == key) {
                    required.push(key.into());
                }
            }
        }
    }
    schema
}

fn add_object_fields(schema: &mut Map<String, Value>, words: &Schemas) {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let Value::Object(properties) = properties else { return };
    for key in ["apiVersion", "kind"] {
        let description = words.words("meta/v1.TypeMeta", key).unwrap_or_default();
        properties.insert(key.into(), json!({"type": "string", "description": description}));
    }
    let metadata = json!({
        "description": words.words("core/v1.ConfigMap", "metadata").unwrap_or_default(),
        "allOf": [{"$ref": format!("{REF}{OBJECT_META}")}],
        "default": {},
    });
    properties.insert("metadata".into(), metadata);
}
