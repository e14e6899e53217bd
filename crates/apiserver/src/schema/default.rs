//! Defaulting: what is left out gets the value that the schema names, in requests and in what is read from storage.

use serde_json::{Map, Value};

use super::Schema;

impl Schema {
    /// Drops nulls that may not be there and that no default replaces.
    pub(crate) fn drop_nulls(&self, object: &mut Map<String, Value>) {
        drop_nulls(object, self);
    }

    /// The object with its defaults, if it has nulls that may not be there and that no default replaces.
    pub(crate) fn with_misplaced_nulls(&self, object: &Map<String, Value>) -> Option<Map<String, Value>> {
        let mut filled = object.clone();
        fill_object(&mut filled, self);
        let mut clean = filled.clone();
        drop_nulls(&mut clean, self);
        (clean != filled).then_some(filled)
    }

    /// Drops nulls that may not be there and fills in defaults, all the way down.
    pub(crate) fn default_object(&self, object: &mut Map<String, Value>) {
        drop_nulls(object, self);
        fill_object(object, self);
    }
}

/// A null where none is allowed is as good as nothing; one with a default is replaced by it later.
fn drop_nulls(object: &mut Map<String, Value>, schema: &Schema) {
    object.retain(|key, value| match schema.field(key) {
        Some(field) => !(value.is_null() && !field.nullable && field.default.is_none()),
        None => true,
    });
    for (key, value) in object.iter_mut() {
        drop_nulls_below(value, schema.field(key));
    }
}

fn drop_nulls_below(value: &mut Value, schema: Option<&Schema>) {
    match (value, schema) {
        (Value::Object(object), Some(schema)) => drop_nulls(object, schema),
        (Value::Array(items), Some(schema)) => {
            for item in items {
                drop_nulls_below(item, schema.items.as_deref());
            }
        }
        _ => {}
    }
}

fn fill_object(object: &mut Map<String, Value>, schema: &Schema) {
    for (key, property) in &schema.properties {
        if let Some(default) = &property.default {
            match object.get(key) {
                Some(Value::Null) if !property.nullable => {}
                Some(_) => continue,
                None => {}
            }
            object.insert(key.clone(), default.clone());
        }
    }
    for (key, value) in object.iter_mut() {
        if let Some(field) = schema.field(key) {
            fill_null(value, field);
            fill(value, field);
        }
    }
}

fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(object) => fill_object(object, schema),
        Value::Array(items) => {
            for item in items {
                if let Some(schema) = &schema.items {
                    fill_null(item, schema);
                    fill(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, schema: &Schema) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn defaulted(schema: Value, object: Value) -> Value {
        let schema = Schema::read(&schema, "").unwrap();
        let mut object = object.as_object().unwrap().clone();
        schema.default_object(&mut object);
        Value::Object(object)
    }

    #[test]
    fn defaults_fill_what_is_left_out_all_the_way_down() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "default": "x"},
            "o": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 3}}},
            "l": {"type": "array", "items": {"type": "object", "properties": {"c": {"type": "boolean", "default": true}}}},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"d": {"type": "string", "default": "y"}}}},
            "n": {"type": "object", "properties": {"e": {"type": "string", "default": "z"}}},
        }});
        assert_eq!(
            defaulted(schema, json!({"l": [{}, {"c": false}], "m": {"k": {}}})),
            json!({"a": "x", "o": {"b": 3}, "l": [{"c": true}, {"c": false}], "m": {"k": {"d": "y"}}})
        );
    }

    #[test]
    fn nulls_are_kept_only_where_they_may_be() {
        let schema = json!({"type": "object", "properties": {
            "nullable": {"type": "string", "nullable": true, "default": "x"},
            "defaulted": {"type": "string", "default": "x"},
            "plain": {"type": "string"},
        }});
        assert_eq!(
            defaulted(schema, json!({"nullable": null, "defaulted": null, "plain": null, "odd": null})),
            json!({"nullable": null, "defaulted": "x", "odd": null})
        );
    }
}
