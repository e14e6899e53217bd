//! Structural schemas, made up at random from every keyword that is served.

use serde_json::{Map, Value, json};

use crate::rng::Rng;

/// Formats that Kubernetes checks, and some that it does not.
pub(crate) const FORMATS: [&str; 30] = [
    "date-time",
    "datetime",
    "date",
    "duration",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "hostname",
    "byte",
    "hexcolor",
    "rgbcolor",
    "uri",
    "email",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "bsonobjectid",
    "password",
    "k8s-short-name",
    "k8s-long-name",
    "int32",
    "binary",
    "made-up",
];
pub(crate) const PATTERNS: [&str; 6] =
    ["^a+$", "^[a-z]([-a-z0-9]*[a-z0-9])?$", "b", r"^\d{1,3}$", "^$", "^(x|yy)+z?$"];
/// The names that fields of objects have.
pub(crate) const FIELDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A schema for the value of a field.
pub(crate) fn schema(rng: &mut Rng, depth: usize) -> Value {
    let sorts = if depth == 0 { 6 } else { 14 };
    let mut schema = match rng.below(sorts) {
        0 | 1 => text(rng),
        2 => integer(rng),
        3 => number(rng),
        4 => json!({"type": "boolean"}),
        5 => int_or_string(rng),
        6..=8 => object(rng, depth),
        9 => map(rng, depth),
        10 | 11 => list(rng, depth),
        12 => preserving(rng, depth),
        _ => embedded(rng, depth),
    };
    if rng.percent(15) {
        schema["nullable"] = true.into();
    }
    if rng.percent(20) {
        junctors(rng, &mut schema);
    }
    if rng.percent(20) {
        schema["default"] = crate::objects::fitting(rng, &schema);
    }
    schema
}

fn text(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "string"});
    restrict_text(rng, &mut schema);
    if rng.percent(35) {
        schema["format"] = (*rng.pick(&FORMATS)).into();
    }
    if rng.percent(10) {
        schema["enum"] = rng.one_of(json!([["aa", "b", "12"], ["a"], ["aa", ""]]));
    }
    schema
}

fn restrict_text(rng: &mut Rng, schema: &mut Value) {
    if rng.percent(25) {
        schema["minLength"] = rng.below(4).into();
    }
    if rng.percent(25) {
        schema["maxLength"] = rng.below(5).into();
    }
    if rng.percent(25) {
        schema["pattern"] = (*rng.pick(&PATTERNS)).into();
    }
}

fn integer(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "integer"});
    restrict_number(rng, &mut schema);
    if rng.percent(30) {
        schema["format"] = rng.one_of(json!(["int32", "int64", "uint32"]));
    }
    if rng.percent(10) {
        schema["enum"] = json!([1, 2, 30]);
    }
    schema
}

fn number(rng: &mut Rng) -> Value {
    let mut schema = json!({"type": "number"});
    restrict_number(rng, &mut schema);
    if rng.percent(20) {
        schema["multipleOf"] = rng.one_of(json!([0.5, 0.1, 0.25, 1.5, 0.01]));
    }
    if rng.percent(30) {
        schema["format"] = rng.one_of(json!(["float", "double", "int32"]));
    }
    if rng.percent(10) {
        schema["enum"] = json!([1, 2.5, -3]);
    }
    schema
}

fn restrict_number(rng: &mut Rng, schema: &mut Value) {
    if rng.percent(30) {
        schema["minimum"] = rng.one_of(json!([0, -5, 1, 2.5, -0.5, 1000000]));
        if rng.percent(40) {
            schema["exclusiveMinimum"] = true.into();
        }
    }
    if rng.percent(30) {
        schema["maximum"] = rng.one_of(json!([10, 3, 7.5, 1e3, 2147483648u64, -1]));
        if rng.percent(40) {
            schema["exclusiveMaximum"] = true.into();
        }
    }
    if rng.percent(15) {
        schema["multipleOf"] = rng.one_of(json!([2, 3, 10, 1]));
    }
}

fn int_or_string(rng: &mut Rng) -> Value {
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let mut schema = json!({"x-kubernetes-int-or-string": true});
    match rng.below(4) {
        0 => schema["anyOf"] = either,
        1 => schema["allOf"] = json!([{"anyOf": either}, {"maxLength": 3}]),
        2 => schema["pattern"] = r"^\d+%$".into(),
        _ => {}
    }
    if rng.percent(20) {
        schema["maximum"] = 5.into();
    }
    schema
}

fn fields(rng: &mut Rng, depth: usize) -> Map<String, Value> {
    let count = 1 + rng.below(4);
    FIELDS[..count].iter().map(|name| ((*name).to_owned(), schema(rng, depth - 1))).collect()
}

fn object(rng: &mut Rng, depth: usize) -> Value {
    let fields = fields(rng, depth);
    let required: Vec<&String> = fields.keys().filter(|_| rng.percent(30)).collect();
    let mut schema = json!({"type": "object"});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema["properties"] = fields.into();
    if rng.percent(15) {
        schema["minProperties"] = rng.below(3).into();
    }
    if rng.percent(15) {
        schema["maxProperties"] = (1 + rng.below(2)).into();
    }
    if rng.percent(15) {
        schema["x-kubernetes-map-type"] = rng.one_of(json!(["atomic", "granular"]));
    }
    schema
}

fn map(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = json!({"type": "object"});
    schema["additionalProperties"] = if rng.percent(20) { true.into() } else { self::schema(rng, depth - 1) };
    if rng.percent(25) {
        schema["minProperties"] = (1 + rng.below(2)).into();
    }
    if rng.percent(25) {
        schema["maxProperties"] = rng.below(3).into();
    }
    if rng.percent(15) {
        schema["required"] = json!(["a"]);
    }
    schema
}

fn list(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = match rng.below(5) {
        0 => {
            let items = rng.one_of(json!([
                {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"},
                {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
                {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "integer"}},
            ]));
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": items})
        }
        1 => {
            let keys = rng.one_of(json!([["a"], ["a", "b"]]));
            let mut key = json!({"type": "string"});
            let mut second =
                rng.one_of(json!([{"type": "integer"}, {"type": "boolean"}, {"type": "string"}]));
            let required = if rng.percent(50) {
                second["default"] = match second["type"].as_str() {
                    Some("integer") => json!(1),
                    Some("boolean") => json!(true),
                    _ => json!("x"),
                };
                json!(["a"])
            } else {
                json!(["a", "b"])
            };
            if rng.percent(20) {
                key["minLength"] = 1.into();
            }
            let other = self::schema(rng, depth - 1);
            let items = json!({"type": "object", "required": required, "properties": {"a": key, "b": second, "c": other}});
            json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys, "items": items})
        }
        2 => {
            json!({"type": "array", "x-kubernetes-list-type": "atomic", "items": self::schema(rng, depth - 1)})
        }
        _ => json!({"type": "array", "items": self::schema(rng, depth - 1)}),
    };
    if rng.percent(25) {
        schema["minItems"] = rng.below(3).into();
    }
    if rng.percent(25) {
        schema["maxItems"] = rng.below(4).into();
    }
    schema
}

fn preserving(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = json!({"x-kubernetes-preserve-unknown-fields": true});
    match rng.below(4) {
        0 => schema["type"] = "object".into(),
        1 => {
            schema["type"] = "object".into();
            schema["properties"] = fields(rng, depth).into();
        }
        2 => {
            schema["type"] = "array".into();
            schema["items"] = self::schema(rng, depth - 1);
        }
        _ => {}
    }
    schema
}

fn embedded(rng: &mut Rng, depth: usize) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    match rng.below(3) {
        0 => schema["x-kubernetes-preserve-unknown-fields"] = true.into(),
        1 => {
            schema["properties"] = json!({"spec": self::schema(rng, depth - 1)});
            if rng.percent(30) {
                schema["x-kubernetes-preserve-unknown-fields"] = true.into();
            }
        }
        _ => {
            schema["properties"] = json!({
                "kind": {"type": "string", "enum": ["Pod", "Thing"]},
                "metadata": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 4}}},
                "spec": self::schema(rng, depth - 1),
            });
        }
    }
    schema
}

/// Alternatives that only restrict what the schema states.
fn junctors(rng: &mut Rng, schema: &mut Value) {
    let count = 1 + rng.below(3);
    match rng.below(4) {
        0 if schema.get("anyOf").is_none() => {
            schema["anyOf"] = (0..count).map(|_| restriction(rng, schema)).collect();
        }
        1 => schema["oneOf"] = (0..count).map(|_| restriction(rng, schema)).collect(),
        2 if schema.get("allOf").is_none() => {
            schema["allOf"] = (0..count).map(|_| restriction(rng, schema)).collect();
        }
        _ => schema["not"] = restriction(rng, schema),
    }
}

fn restriction(rng: &mut Rng, stated: &Value) -> Value {
    let mut restriction = json!({});
    if rng.percent(8) {
        restriction["not"] = self::restriction(rng, stated);
        return restriction;
    }
    match stated["type"].as_str() {
        Some("string") => {
            restrict_text(rng, &mut restriction);
            if rng.percent(20) {
                restriction["enum"] = json!(["a", "aa"]);
            }
            if rng.percent(20) {
                restriction["format"] = (*rng.pick(&FORMATS)).into();
            }
        }
        Some("integer" | "number") => restrict_number(rng, &mut restriction),
        Some("object") => {
            let fields = stated["properties"].as_object();
            let names: Vec<&String> =
                fields.into_iter().flat_map(Map::keys).filter(|name| *name != "metadata").collect();
            if !names.is_empty() {
                let name = rng.pick(&names).to_string();
                if rng.percent(50) {
                    restriction["required"] = json!([name]);
                } else {
                    restriction["properties"] =
                        json!({name.as_str(): self::restriction(rng, &stated["properties"][&name])});
                }
            }
            if rng.percent(20) {
                restriction["minProperties"] = rng.below(3).into();
            }
        }
        Some("array") => {
            restriction["maxItems"] = rng.below(3).into();
            if rng.percent(40) {
                restriction["items"] = self::restriction(rng, &stated["items"]);
            }
        }
        _ => restriction["maxLength"] = 2.into(),
    }
    restriction
}
