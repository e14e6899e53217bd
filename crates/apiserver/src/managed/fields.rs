//! FieldsV1: how sets of paths are written in managedFields. `f:` is a field, `k:` the key of an item, `v:` an item of
//! a set, `i:` a place in a list, and `.` the path itself, where paths below it are in the set as well.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::element::Element;
use super::set::{Node, Set};
use crate::numbers;

/// No object nests deeper; what a client says of one need not.
const DEEPEST: usize = 160;

/// Reads a set; the error says in words what is wrong with it.
pub(crate) fn read(fields: &Value) -> Result<Set<'_>, String> {
    let (set, _) = read_below(fields, 0)?;
    Ok(set)
}

/// What stands below an element, and whether the element itself is meant.
fn read_below(fields: &Value, depth: usize) -> Result<(Set<'_>, bool), String> {
    if depth > DEEPEST {
        return Err(format!("paths of more than {DEEPEST} elements"));
    }
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok((Set::default(), true)),
        _ => return Err("a set of fields must be an object".to_owned()),
    };
    let mut nodes = Vec::with_capacity(map.len());
    let mut member = false;
    for (key, below) in map {
        if key == "." {
            member = true;
            continue;
        }
        let Some(element) = read_element(key)? else { continue };
        let (below, member) = read_below(below, depth + 1)?;
        nodes.push(Node { element, member, below });
    }
    let alone = nodes.is_empty();
    Ok((Set::of_nodes(nodes), member || alone))
}

/// An element; nothing, if it is of a sort that nobody knows yet.
fn read_element(key: &str) -> Result<Option<Element<'_>>, String> {
    if key.len() < 2 {
        return Err("key must be 2 characters long:".to_owned());
    }
    let missing = || format!("missing colon: {key}");
    let (sort, rest) = key.split_once(':').filter(|(sort, _)| sort.len() == 1).ok_or_else(missing)?;
    Ok(Some(match sort {
        "f" => Element::field(rest),
        "v" => Element::Value(Cow::Owned(read_value(rest)?)),
        "k" => Element::Key(match read_value(rest)? {
            Value::Object(map) => {
                map.into_iter().map(|(name, value)| (Cow::Owned(name), Cow::Owned(value))).collect()
            }
            Value::Null => Vec::new(),
            _ => return Err(format!("the key of an item must be an object: {key}")),
        }),
        "i" => {
            Element::Index(rest.parse().map_err(|_| format!("a place in a list must be a number: {key}"))?)
        }
        _ => return Ok(None),
    }))
}

/// The first JSON value of a text.
fn read_value(text: &str) -> Result<Value, String> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter();
    match values.next() {
        Some(value) => value.map_err(|error| error.to_string()),
        None => Err("unexpected end of JSON input".to_owned()),
    }
}

/// Writes a set.
pub(crate) fn write(set: &Set<'_>) -> Value {
    let mut map = Map::new();
    for node in set.nodes() {
        map.insert(element_key(&node.element), write_node(node));
    }
    Value::Object(map)
}

fn write_node(node: &Node<'_>) -> Value {
    let mut below = write(&node.below);
    if let Value::Object(map) = &mut below
        && node.member
        && !map.is_empty()
    {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    below
}

/// An element as it is written.
pub(crate) fn element_key(element: &Element<'_>) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key(fields) => {
            let mut key = String::from("k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                if at > 0 {
                    key.push(',');
                }
                write_text(&mut key, name, Escapes::Plain);
                key.push(':');
                write_value(&mut key, value);
            }
            key.push('}');
            key
        }
        Element::Value(value) => {
            let mut key = String::from("v:");
            write_value(&mut key, value);
            key
        }
        Element::Index(index) => format!("i:{index}"),
    }
}

fn write_value(key: &mut String, value: &Value) {
    match value {
        Value::String(text) => write_text(key, text, Escapes::Html),
        other => key.push_str(&numbers::json_text(other)),
    }
}

/// Values are written so that they can stand in HTML, the names of fields are not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escapes {
    Plain,
    Html,
}

fn write_text(key: &mut String, text: &str, escapes: Escapes) {
    key.push('"');
    for c in text.chars() {
        match c {
            '"' => key.push_str("\\\""),
            '\\' => key.push_str("\\\\"),
            '\n' => key.push_str("\\n"),
            '\r' => key.push_str("\\r"),
            '\t' => key.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if escapes == Escapes::Html => {
                key.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c if u32::from(c) < 0x20 => key.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => key.push(c),
        }
    }
    key.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_are_read_and_written_the_same() {
        for fields in [
            json!({}),
            json!({"f:a": {}}),
            json!({"f:a": {".": {}, "f:b": {}}}),
            json!({"f:l": {"k:{\"name\":\"x\",\"port\":80}": {".": {}, "f:name": {}}, "v:\"s\"": {}, "v:5": {}, "i:3": {}}}),
            json!({"f:<b>": {"v:\"\\u003cb\\u003e\\\"\\u0001\"": {}}}),
        ] {
            assert_eq!(write(&read(&fields).unwrap()), fields);
        }
    }

    #[test]
    fn what_is_no_set_is_refused_and_unknown_sorts_are_left_out() {
        for fields in [
            json!([]),
            json!({"f": {}}),
            json!({"fa": {}}),
            json!({"v:{": {}}),
            json!({"i:x": {}}),
            json!({"f:a": 1}),
        ] {
            assert!(read(&fields).is_err(), "{fields}");
        }
        assert_eq!(write(&read(&json!({"x:future": {}, "f:a": null})).unwrap()), json!({"f:a": {}}));
        let mut deep = json!({});
        for _ in 0..1000 {
            deep = json!({"f:a": deep});
        }
        assert!(read(&deep).is_err());
    }
}
