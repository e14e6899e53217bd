//! From the JSON of a CustomResourceDefinition to a schema. Types were checked when the definition was decoded; what
//! is checked here is what the types cannot say.

use std::collections::BTreeMap;

use regex::RegexBuilder;
use serde_json::{Map, Value};

use super::{Additional, Extensions, ListType, MapType, Pattern, Rules, Schema, Type};
use crate::field::FieldError;

/// How deep schemas may nest, and how many of them one definition may hold.
const DEPTH: usize = 64;
const NODES: usize = 50_000;
/// What a compiled pattern may cost in memory.
const PATTERN_SIZE: usize = 1 << 20;

impl Schema {
    /// Reads a schema; the errors name what cannot be served.
    pub(crate) fn read(value: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { nodes: 0, errors: Vec::new() };
        let schema = reader.schema(value, path, 0);
        if reader.errors.is_empty() { Ok(schema) } else { Err(reader.errors) }
    }
}

struct Reader {
    nodes: usize,
    errors: Vec<FieldError>,
}

impl Reader {
    fn schema(&mut self, value: &Value, path: &str, depth: usize) -> Schema {
        self.nodes += 1;
        if depth > DEPTH || self.nodes > NODES {
            if self.nodes <= NODES + 1 {
                let limit = format!("a schema may nest {DEPTH} levels and hold {NODES} schemas");
                self.errors.push(FieldError::forbidden(path, limit));
                self.nodes = NODES + 2;
            }
            return Schema::default();
        }
        let Value::Object(map) = value else { return Schema::default() };
        self.refuse_unserved(map, path);
        let depth = depth + 1;
        Schema {
            kind: self.kind(map, path),
            nullable: is_on(map, "nullable"),
            default: map.get("default").cloned(),
            properties: self.named(map, "properties", path, depth),
            additional: self.additional(map, path, depth),
            items: map
                .get("items")
                .map(|items| Box::new(self.schema(items, &format!("{path}.items"), depth))),
            extensions: self.extensions(map, path),
            rules: self.rules(map, path, depth),
            documented: ["title", "description"].iter().any(|key| !text(map, key).is_empty()),
        }
    }

    fn refuse_unserved(&mut self, map: &Map<String, Value>, path: &str) {
        for key in ["$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems"] {
            if map.contains_key(key) {
                self.errors
                    .push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
            }
        }
        if is_on(map, "uniqueItems") {
            let field = format!("{path}.uniqueItems");
            let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.errors.push(FieldError::forbidden(field, detail));
        }
        if map.get("additionalProperties") == Some(&Value::Bool(false)) {
            let field = format!("{path}.additionalProperties");
            self.errors.push(FieldError::forbidden(field, "additionalProperties cannot be set to false"));
        }
        let properties = map.get("properties").and_then(Value::as_object).is_some_and(|map| !map.is_empty());
        if properties && map.contains_key("additionalProperties") {
            let field = format!("{path}.additionalProperties");
            let detail = "additionalProperties and properties are mutual exclusive";
            self.errors.push(FieldError::forbidden(field, detail));
        }
    }

    fn kind(&mut self, map: &Map<String, Value>, path: &str) -> Option<Type> {
        const NAMES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
        match text(map, "type") {
            "" => None,
            "object" => Some(Type::Object),
            "array" => Some(Type::Array),
            "string" => Some(Type::String),
            "integer" => Some(Type::Integer),
            "number" => Some(Type::Number),
            "boolean" => Some(Type::Boolean),
            "null" => {
                let field = format!("{path}.type");
                let detail = "type cannot be set to null, use nullable as an alternative";
                self.errors.push(FieldError::forbidden(field, detail));
                None
            }
            other => {
                self.errors.push(FieldError::not_supported(format!("{path}.type"), other, &NAMES));
                None
            }
        }
    }

    fn named(
        &mut self,
        map: &Map<String, Value>,
        key: &str,
        path: &str,
        depth: usize,
    ) -> BTreeMap<String, Schema> {
        let fields = map.get(key).and_then(Value::as_object);
        fields
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.clone(), self.schema(value, &format!("{path}.{key}[{name}]"), depth)))
            .collect()
    }

    fn additional(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Option<Additional> {
        match map.get("additionalProperties")? {
            Value::Bool(true) => Some(Additional::Anything),
            Value::Object(_) => {
                let path = format!("{path}.additionalProperties");
                let value = map.get("additionalProperties").unwrap_or(&Value::Null);
                Some(Additional::Like(Box::new(self.schema(value, &path, depth))))
            }
            _ => None,
        }
    }

    fn extensions(&mut self, map: &Map<String, Value>, path: &str) -> Extensions {
        let list_type = match text(map, "x-kubernetes-list-type") {
            "" => None,
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            other => {
                let field = format!("{path}.x-kubernetes-list-type");
                self.errors.push(FieldError::not_supported(field, other, &["atomic", "map", "set"]));
                None
            }
        };
        let map_type = match text(map, "x-kubernetes-map-type") {
            "" => None,
            "atomic" => Some(MapType::Atomic),
            "granular" => Some(MapType::Granular),
            other => {
                let field = format!("{path}.x-kubernetes-map-type");
                self.errors.push(FieldError::not_supported(field, other, &["atomic", "granular"]));
                None
            }
        };
        let preserve = map.get("x-kubernetes-preserve-unknown-fields");
        if preserve == Some(&Value::Bool(false)) {
            let field = format!("{path}.x-kubernetes-preserve-unknown-fields");
            self.errors.push(FieldError::invalid(field, false, "must be true or undefined"));
        }
        Extensions {
            preserve_unknown_fields: preserve == Some(&Value::Bool(true)),
            embedded_resource: is_on(map, "x-kubernetes-embedded-resource"),
            int_or_string: is_on(map, "x-kubernetes-int-or-string"),
            list_type,
            list_map_keys: texts(map, "x-kubernetes-list-map-keys"),
            map_type,
            validations: list(map, "x-kubernetes-validations").to_vec(),
        }
    }

    fn rules(&mut self, map: &Map<String, Value>, path: &str, depth: usize) -> Rules {
        let number = |key: &str| map.get(key).and_then(Value::as_number).cloned();
        let count = |key: &str| map.get(key).and_then(Value::as_u64);
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
        match RegexBuilder::new(text).size_limit(PATTERN_SIZE).build() {
            Ok(regex) => Some(Pattern { text: text.to_owned(), regex }),
            Err(error) => {
                let detail = format!("must be a valid regular expression, but isn't: {error}");
                self.errors.push(FieldError::invalid(format!("{path}.pattern"), text, detail));
                None
            }
        }
    }
}

fn is_on(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key) == Some(&Value::Bool(true))
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(map: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    map.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn texts(map: &Map<String, Value>, key: &str) -> Vec<String> {
    list(map, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
