//! The schemas of built-in types, from Kubernetes' own types and words. The data is read for one document and let go:
//! few clients ever ask for it.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::object::set;

/// Where references lead.
pub(super) const REF: &str = "#/components/schemas/";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Field {
    #[serde(default)]
    json: String,
    r#type: Value,
    #[serde(default)]
    inline: bool,
    #[serde(default)]
    required: bool,
    default: Option<Value>,
    format: Option<String>,
    r#enum: Option<Value>,
    list_type: Option<String>,
    list_map_keys: Option<Value>,
    map_type: Option<String>,
    patch_strategy: Option<String>,
    patch_merge_key: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    openapi: String,
    map_type: Option<String>,
}

#[derive(Default, Deserialize)]
struct Data {
    types: HashMap<String, Vec<Field>>,
    schemas: HashMap<String, About>,
}

const TYPES: &str = include_str!("../../data/builtins.json");
const WORDS: &str = include_str!("../../data/builtin-docs.json");

/// What changes whenever the types or the words do.
pub(super) fn fingerprint() -> &'static [u8] {
    static FINGERPRINT: LazyLock<Vec<u8>> =
        LazyLock::new(|| Sha256::new().chain_update(TYPES).chain_update(WORDS).finalize().to_vec());
    &FINGERPRINT
}

/// The types of Kubernetes, for the time of one document.
pub(super) struct Schemas {
    data: Data,
    words: HashMap<String, HashMap<String, String>>,
}

impl Schemas {
    pub(super) fn read() -> Self {
        Self {
            data: serde_json::from_str(TYPES).unwrap_or_default(),
            words: serde_json::from_str(WORDS).unwrap_or_default(),
        }
    }

    /// The name of a type in documents.
    pub(super) fn name(&self, type_name: &str) -> String {
        self.data.schemas.get(type_name).map_or_else(|| type_name.to_owned(), |about| about.openapi.clone())
    }

    /// Adds a type, and all that it refers to.
    pub(super) fn add(&mut self, type_name: &str, schemas: &mut Map<String, Value>) {
        let mut waiting = vec![type_name.to_owned()];
        while let Some(type_name) = waiting.pop() {
            let name = self.name(&type_name);
            if schemas.contains_key(&name) {
                continue;
            }
            let schema = self.schema(&type_name, &mut waiting);
            schemas.insert(name, schema);
        }
    }

    fn schema(&self, type_name: &str, waiting: &mut Vec<String>) -> Value {
        let mut schema = match self.data.types.get(type_name) {
            None => special(type_name),
            Some(_) => {
                let mut properties = Map::new();
                let mut required = Vec::new();
                self.add_fields(type_name, &mut properties, &mut required, waiting);
                let mut schema = json!({"type": "object"});
                if !properties.is_empty() {
                    set(&mut schema, "properties", Value::Object(properties));
                }
                if !required.is_empty() {
                    set(&mut schema, "required", required);
                }
                schema
            }
        };
        if let Some(words) = self.words(type_name, "") {
            set(&mut schema, "description", words);
        }
        if let Some(map_type) = self.data.schemas.get(type_name).and_then(|about| about.map_type.as_deref()) {
            set(&mut schema, "x-kubernetes-map-type", map_type);
        }
        schema
    }

    /// What is said of a field of a type; of the type itself, for no field.
    pub(super) fn words(&self, type_name: &str, field: &str) -> Option<&str> {
        self.words.get(type_name)?.get(field).map(String::as_str)
    }

    fn add_fields(
        &self,
        type_name: &str,
        properties: &mut Map<String, Value>,
        required: &mut Vec<Value>,
        waiting: &mut Vec<String>,
    ) {
        for field in self.data.types.get(type_name).into_iter().flatten() {
            if let (true, Some(inner)) = (field.inline, field.r#type.get("struct").and_then(Value::as_str)) {
                self.add_fields(inner, properties, required, waiting);
                continue;
            }
            if field.required {
                required.push(field.json.clone().into());
            }
            let mut property = reference(&self.of_type(&field.r#type, waiting));
            describe(field, &mut property);
            if let Some(words) = self.words(type_name, &field.json) {
                set(&mut property, "description", words);
            }
            properties.insert(field.json.clone(), property);
        }
    }

    /// The schema of a type reference.
    fn of_type(&self, reference_to: &Value, waiting: &mut Vec<String>) -> Value {
        match reference_to {
            Value::String(plain) => match plain.as_str() {
                "string" => json!({"type": "string"}),
                "bool" => json!({"type": "boolean"}),
                "int32" | "int64" => json!({"type": "integer", "format": plain}),
                "float64" => json!({"type": "number", "format": "double"}),
                "bytes" => json!({"type": "string", "format": "byte"}),
                special => self.refer(special, waiting),
            },
            Value::Object(map) => {
                if let Some(Value::String(name)) = map.get("struct") {
                    self.refer(name, waiting)
                } else if let Some(item) = map.get("list") {
                    json!({"type": "array", "items": reference(&self.of_type(item, waiting))})
                } else if let Some(item) = map.get("map") {
                    json!({"type": "object", "additionalProperties": reference(&self.of_type(item, waiting))})
                } else {
                    let named = map.get("named").and_then(|named| named.get("is")).unwrap_or(&Value::Null);
                    self.of_type(named, waiting)
                }
            }
            _ => json!({}),
        }
    }

    fn refer(&self, type_name: &str, waiting: &mut Vec<String>) -> Value {
        waiting.push(type_name.to_owned());
        json!({"$ref": format!("{REF}{}", self.name(type_name))})
    }
}

/// A reference cannot have words beside it; one among all that must hold can.
fn reference(schema: &Value) -> Value {
    if schema.get("$ref").is_some() { json!({"allOf": [schema]}) } else { schema.clone() }
}

fn describe(field: &Field, property: &mut Value) {
    let mut set = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            property[key] = value;
        }
    };
    set("default", field.default.clone());
    set("x-kubernetes-list-type", field.list_type.clone().map(Value::from));
    set("x-kubernetes-list-map-keys", field.list_map_keys.clone());
    set("x-kubernetes-map-type", field.map_type.clone().map(Value::from));
    set("x-kubernetes-patch-strategy", field.patch_strategy.clone().map(Value::from));
    set("x-kubernetes-patch-merge-key", field.patch_merge_key.clone().map(Value::from));
    let elements = if property.get("items").is_some() { "items" } else { "" };
    let place = if elements.is_empty() { Some(&mut *property) } else { property.get_mut(elements) };
    if let Some(Value::Object(place)) = place {
        if let Some(format) = &field.format {
            place.insert("format".into(), format.as_str().into());
        }
        if let Some(values) = &field.r#enum {
            place.insert("enum".into(), values.clone());
        }
    }
}

fn special(type_name: &str) -> Value {
    match type_name {
        "Time" | "MicroTime" => json!({"type": "string", "format": "date-time"}),
        "Duration" => json!({"type": "string"}),
        "IntOrString" => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        "Quantity" => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        "FieldsV1" | "RawExtension" => json!({"type": "object"}),
        _ => json!({}),
    }
}
