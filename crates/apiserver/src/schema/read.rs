//! From the JSON of a CustomResourceDefinition to a schema. Types were checked when the definition was decoded; what
//! is checked here is what the types cannot say.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Additional, Extensions, ListType, MapType, Pattern, Rules, Schema, Type};
use crate::field::FieldError;
use crate::object::{list, text};

/// How deep schemas may nest, and how many of them one definition may hold.
const DEPTH: usize = 64;
const NODES: usize = 50_000;

/// A schema, and what is wrong with parts of it that could not be read.
pub(crate) struct Reading {
    pub(crate) schema: Schema,
    /// Patterns that are none.
    pub(crate) errors: Vec<FieldError>,
}

impl Schema {
    /// Reads a schema that was checked when it was stored; the error is a limit of ours.
    pub(crate) fn read(value: &Value, path: &str) -> Result<Self, FieldError> {
        Reader::read(value, path, Trust::Checked).map(|reading| reading.schema)
    }

    /// Reads what can be read; the error is a limit of ours.
    pub(crate) fn read_all(value: &Value, path: &str) -> Result<Reading, FieldError> {
        Reader::read(value, path, Trust::None)
    }
}

/// Whether a schema was looked at before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    None,
    Checked,
}

struct Reader {
    trust: Trust,
    nodes: usize,
    /// Where a limit was passed.
    beyond: Option<FieldError>,
    errors: Vec<FieldError>,
}

impl Reader {
    fn read(value: &Value, path: &str, trust: Trust) -> Result<Reading, FieldError> {
        let mut reader = Self { trust, nodes: 0, beyond: None, errors: Vec::new() };
        let schema = reader.schema(value, path, 0);
        match reader.beyond {
            Some(error) => Err(error),
            None => Ok(Reading { schema, errors: reader.errors }),
        }
    }

    fn schema(&mut self, value: &Value, path: &str, depth: usize) -> Schema {
        self.nodes += 1;
        if self.beyond.is_some() {
            return Schema::default();
        }
        if depth > DEPTH || self.nodes > NODES {
            let limit = format!("a schema may nest {DEPTH} levels and hold {NODES} schemas");
            self.beyond = Some(FieldError::forbidden(path, limit));
            return Schema::default();
        }
        let Value::Object(map) = value else { return Schema::default() };
        let depth = depth + 1;
        Schema {
            kind: kind(map),
            nullable: is_on(map, "nullable"),
            default: map.get("default").filter(|default| !default.is_null()).cloned(),
            properties: self.named(map, "properties", path, depth),
            additional: self.additional(map, path, depth),
            items: map
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(self.schema(items, &format!("{path}.items"), depth))),
            extensions: extensions(map),
            rules: self.rules(map, path, depth),
            titled: !text(map, "title").is_empty(),
            described: !text(map, "description").is_empty(),
        }
    }

    fn named(
        &mut self,
        map: &Map<String, Value>,
        key: &str,
        path: &str,
        depth: usize,
    ) -> BTreeMap<String, Box<Schema>> {
        let fields = map.get(key).and_then(Value::as_object);
        fields
            .into_iter()
            .flatten()
            .map(|(name, value)| {
                (name.clone(), Box::new(self.schema(value, &format!("{path}.{key}[{name}]"), depth)))
            })
            .collect()
    }

    fn additional(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Option<Additional> {
        match map.get("additionalProperties")? {
            Value::Bool(true) => Some(Additional::Anything),
            Value::Bool(false) => Some(Additional::Nothing),
            Value::Object(_) => {
                let path = format!("{path}.additionalProperties");
                let value = map.get("additionalProperties").unwrap_or(&Value::Null);
                Some(Additional::Like(Box::new(self.schema(value, &path, depth))))
            }
            _ => None,
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Rules {
        let number = |key: &str| map.get(key).and_then(Value::as_number).cloned();
        let count = |key: &str| map.get(key).and_then(Value::as_i64);
        Rules {
            format: text(map, "format").to_owned(),
            maximum: number("maximum"),
            exclusive_maximum: is_on(map, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: is_on(map, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: self.pattern(map, path),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            required: texts(map, "required"),
            one_of_values: map.get("enum").and_then(Value::as_array).cloned(),
            all_of: self.listed(map, "allOf", path, depth),
            any_of: self.listed(map, "anyOf", path, depth),
            one_of: self.listed(map, "oneOf", path, depth),
            not: map.get("not").map(|not| Box::new(self.schema(not, &format!("{path}.not"), depth))),
        }
    }

    fn listed(&mut self, map: &Map<String, Value>, key: &str, path: &str, depth: usize) -> Vec<Schema> {
        let schemas = list(map, key).iter().enumerate();
        schemas.map(|(at, value)| self.schema(value, &format!("{path}.{key}[{at}]"), depth)).collect()
    }

    fn pattern(&mut self, map: &Map<String, Value>, path: &str) -> Option<Pattern> {
        let text = text(map, "pattern");
        if text.is_empty() {
            return None;
        }
        if self.trust == Trust::Checked {
            return Some(Pattern::checked(text));
        }
        match Pattern::read(text) {
            Ok(pattern) => Some(pattern),
            Err(why) => {
                let words = format!("must be a valid regular expression, but isn't: {why}");
                self.errors.push(FieldError::invalid(format!("{path}.pattern"), text, words));
                None
            }
        }
    }
}

/// A type that is none was refused already, as was everything odd about the extensions.
fn kind(map: &Map<String, Value>) -> Option<Type> {
    match text(map, "type") {
        "object" => Some(Type::Object),
        "array" => Some(Type::Array),
        "string" => Some(Type::String),
        "integer" => Some(Type::Integer),
        "number" => Some(Type::Number),
        "boolean" => Some(Type::Boolean),
        _ => None,
    }
}

fn extensions(map: &Map<String, Value>) -> Extensions {
    Extensions {
        preserve_unknown_fields: is_on(map, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: is_on(map, "x-kubernetes-embedded-resource"),
        int_or_string: is_on(map, "x-kubernetes-int-or-string"),
        list_type: match text(map, "x-kubernetes-list-type") {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            _ => None,
        },
        list_map_keys: texts(map, "x-kubernetes-list-map-keys"),
        map_type: match text(map, "x-kubernetes-map-type") {
            "atomic" => Some(MapType::Atomic),
            "granular" => Some(MapType::Granular),
            _ => None,
        },
        validations: list(map, "x-kubernetes-validations").to_vec(),
    }
}

fn is_on(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    list(map, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
