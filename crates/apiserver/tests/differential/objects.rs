//! Values for a schema: some that fit, and many that nearly do.

use serde_json::{Map, Value, json};

use crate::rng::Rng;
use crate::schemas::FIELDS;

/// A value that fits, as far as that is easy to tell.
pub(crate) fn fitting(rng: &mut Rng, schema: &Value) -> Value {
    value(rng, schema, 0)
}

/// A value of which every part is odd with some probability.
pub(crate) fn near(rng: &mut Rng, schema: &Value) -> Value {
    let odd = *rng.pick(&[5, 15, 35]);
    value(rng, schema, odd)
}

fn value(rng: &mut Rng, schema: &Value, odd: usize) -> Value {
    if rng.percent(odd) {
        return anything(rng);
    }
    if schema["nullable"] == true && rng.percent(20) {
        return Value::Null;
    }
    if let Some(values) = schema["enum"].as_array()
        && rng.percent(80)
    {
        return rng.pick(values).clone();
    }
    match schema["type"].as_str() {
        Some("string") => text(rng, schema),
        Some("integer") => integer(rng, schema),
        Some("number") => number(rng, schema),
        Some("boolean") => rng.percent(50).into(),
        Some("array") => list(rng, schema, odd),
        Some("object") => object(rng, schema, odd),
        _ if schema["x-kubernetes-int-or-string"] == true => {
            rng.one_of(json!([1, "10%", "x", 5, 100, "longer", -3]))
        }
        _ => anything(rng),
    }
}

/// A value of any type, often at the edge of one.
fn anything(rng: &mut Rng) -> Value {
    rng.one_of(json!([
        null, true, false, 0, 1, -1, 2.0, 0.5, 1e10, 2147483647, 2147483648u64, -2147483649i64,
        9223372036854775807u64, 9007199254740993u64, 1e21, 1.5e300, "", "a", "aa", "12", "true", [], {},
        [null], [1, "a"], {"a": null}, {"a": 1, "zz": {"deep": [1, {"x": 2}]}}, ["a", "a"], [[]], "é", "日本", "a\nb",
    ]))
}

fn text(rng: &mut Rng, schema: &Value) -> Value {
    if let Some(format) = schema["format"].as_str()
        && rng.percent(85)
    {
        let examples: Vec<&str> = crate::formats::examples(format).collect();
        if !examples.is_empty() {
            return (*rng.pick(&examples)).into();
        }
    }
    rng.one_of(json!([
        "",
        "a",
        "aa",
        "aaa",
        "aaaa",
        "aaaaa",
        "ab",
        "b",
        "x",
        "yyz",
        "12",
        "999",
        "1234",
        "é",
        "日本語"
    ]))
}

fn integer(rng: &mut Rng, schema: &Value) -> Value {
    let edge = [&schema["minimum"], &schema["maximum"], &schema["multipleOf"]];
    let edges: Vec<i64> = edge.iter().filter_map(|edge| edge.as_f64()).map(|edge| edge as i64).collect();
    if !edges.is_empty() && rng.percent(70) {
        return (*rng.pick(&edges) + rng.below(3) as i64 - 1).into();
    }
    rng.one_of(json!([
        0,
        1,
        2,
        3,
        6,
        10,
        -1,
        30,
        3.0,
        1e2,
        2147483647,
        2147483648u64,
        -2147483648i64,
        9223372036854775807u64
    ]))
}

fn number(rng: &mut Rng, schema: &Value) -> Value {
    if rng.percent(50) {
        return integer(rng, schema);
    }
    rng.one_of(json!([0.5, 0.1, 0.3, 2.5, -0.5, 7.5, 1e3, 1e-7, 3.15, 1.0, 4.5, 0.75, 123456789.125]))
}

fn list(rng: &mut Rng, schema: &Value, odd: usize) -> Value {
    let most = schema["maxItems"].as_u64().unwrap_or(3) as usize;
    let least = schema["minItems"].as_u64().unwrap_or(0) as usize;
    let mut count = least.max(rng.below(most + 1));
    if rng.percent(odd) {
        count = rng.below(5);
    }
    let mut items: Vec<Value> = (0..count).map(|_| value(rng, &schema["items"], odd)).collect();
    if rng.percent(odd) && !items.is_empty() {
        let again = rng.pick(&items).clone();
        items.push(again);
    }
    items.into()
}

fn object(rng: &mut Rng, schema: &Value, odd: usize) -> Value {
    let mut object = Map::new();
    let none = Map::new();
    if schema["x-kubernetes-embedded-resource"] == true {
        resource(rng, &mut object, odd);
    }
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (name, field) in schema["properties"].as_object().unwrap_or(&none) {
        let wanted = required.iter().any(|required| required == name);
        if object.contains_key(name) || rng.percent(if wanted { odd } else { 40 }) {
            continue;
        }
        object.insert(name.clone(), value(rng, field, odd));
    }
    if let Some(additional) = schema.get("additionalProperties") {
        for name in &FIELDS[..rng.below(4)] {
            object.insert((*name).to_owned(), value(rng, additional, odd));
        }
    }
    if rng.percent(odd) {
        let unknown = *rng.pick(&["unknown", "A", "spec", "x.y", "metadata", ""]);
        object.insert(unknown.to_owned(), anything(rng));
    }
    object.into()
}

/// What every resource has, also one that is embedded.
fn resource(rng: &mut Rng, object: &mut Map<String, Value>, odd: usize) {
    object.insert("apiVersion".into(), "v1".into());
    object.insert("kind".into(), "Pod".into());
    object.insert("metadata".into(), json!({"name": "inner"}));
    if !rng.percent(odd * 2) {
        return;
    }
    match rng.below(8) {
        0 => drop(object.remove("apiVersion")),
        1 => drop(object.remove("kind")),
        2 => drop(object.remove("metadata")),
        3 => drop(object.insert("metadata".into(), json!({"name": "In Valid", "unknown": 1}))),
        4 => drop(object.insert("metadata".into(), json!({"name": "a", "labels": {"a b": "c d"}, "zz": {}}))),
        5 => drop(object.insert("kind".into(), rng.one_of(json!(["", "lower", 5, "Po d"])))),
        6 => drop(object.insert("apiVersion".into(), rng.one_of(json!(["", "a/b/c", 7, "x y/v1"])))),
        _ => drop(object.insert("metadata".into(), json!({"name": 5, "labels": []}))),
    }
}

/// The text of a document in which one key stands twice.
pub(crate) fn with_duplicate(rng: &mut Rng, document: &Value) -> String {
    let objects = count_objects(document);
    let mut left = rng.below(objects);
    let mut text = String::new();
    write(document, &mut left, &mut text);
    text
}

fn count_objects(value: &Value) -> usize {
    match value {
        Value::Object(map) => usize::from(!map.is_empty()) + map.values().map(count_objects).sum::<usize>(),
        Value::Array(items) => items.iter().map(count_objects).sum(),
        _ => 0,
    }
}

fn write(value: &Value, left: &mut usize, text: &mut String) {
    match value {
        Value::Object(map) => {
            let mut fields: Vec<(&String, &Value)> = map.iter().collect();
            if !map.is_empty() {
                if *left == 0 {
                    fields.extend(map.iter().next());
                }
                *left = left.wrapping_sub(1);
            }
            text.push('{');
            for (at, (key, value)) in fields.into_iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                text.push_str(&format!("{}:", Value::from(key.as_str())));
                write(value, left, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write(item, left, text);
            }
            text.push(']');
        }
        other => text.push_str(&other.to_string()),
    }
}
