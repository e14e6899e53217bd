//! An OpenAPI v2 document in protobuf, the only form in which kubectl asks for it. The messages are those of gnostic's
//! `openapi.v2`, as tables: which key of the JSON is which field, and how it is written.

use serde_json::{Map, Value};

/// How a value is written.
enum Form {
    Text,
    Texts,
    Flag,
    Whole,
    Real,
    /// Any JSON, as text.
    Any,
    Anys,
    One(&'static Message),
    Many(&'static Message),
    /// An object, as a list of its keys with their values.
    Named(&'static Message),
    /// A text, or a list of texts, inside a message of its own.
    TypeItem,
    /// A schema, inside a message that could hold several.
    ItemsItem,
    SchemaOrFlag,
    /// One of the kinds of parameters, by its place.
    Parameter,
    /// A schema, inside a message that could hold a file.
    SchemaItem,
    /// A response, inside a message that could hold a reference.
    ResponseValue,
}

/// The fields of a message, and the number under which keys that begin with `x-` go.
struct Message {
    fields: &'static [(&'static str, u32, Form)],
    extensions: Option<u32>,
}

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::One(&INFO)),
        ("paths", 8, Form::One(&PATHS)),
        ("definitions", 9, Form::One(&SCHEMAS)),
    ],
    extensions: None,
};
static INFO: Message =
    Message { fields: &[("title", 1, Form::Text), ("version", 2, Form::Text)], extensions: None };
/// Their keys are names, not fields.
static PATHS: Message = Message { fields: &[("", 2, Form::Named(&PATH_ITEM))], extensions: None };
static SCHEMAS: Message = Message { fields: &[("", 1, Form::Named(&SCHEMA))], extensions: None };
static RESPONSES: Message = Message { fields: &[("", 1, Form::Named(&RESPONSE_VALUE))], extensions: None };
static RESPONSE_VALUE: Message = Message { fields: &[("", 1, Form::ResponseValue)], extensions: None };
static PATH_ITEM: Message = Message {
    fields: &[
        ("get", 2, Form::One(&OPERATION)),
        ("put", 3, Form::One(&OPERATION)),
        ("post", 4, Form::One(&OPERATION)),
        ("delete", 5, Form::One(&OPERATION)),
        ("patch", 8, Form::One(&OPERATION)),
        ("parameters", 9, Form::Many(&PARAMETERS_ITEM)),
    ],
    extensions: Some(10),
};
static OPERATION: Message = Message {
    fields: &[
        ("description", 3, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
        ("parameters", 8, Form::Many(&PARAMETERS_ITEM)),
        ("responses", 9, Form::One(&RESPONSES)),
        ("schemes", 10, Form::Texts),
    ],
    extensions: Some(13),
};
static PARAMETERS_ITEM: Message = Message { fields: &[("", 1, Form::Parameter)], extensions: None };
static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Flag),
        ("schema", 5, Form::One(&SCHEMA)),
    ],
    extensions: Some(6),
};
static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 6, Form::Text),
        ("uniqueItems", 20, Form::Flag),
    ],
    extensions: Some(23),
};
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("uniqueItems", 19, Form::Flag),
    ],
    extensions: Some(22),
};
static RESPONSE: Message = Message {
    fields: &[("description", 1, Form::Text), ("schema", 2, Form::SchemaItem)],
    extensions: Some(5),
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Any),
        ("multipleOf", 6, Form::Real),
        ("maximum", 7, Form::Real),
        ("exclusiveMaximum", 8, Form::Flag),
        ("minimum", 9, Form::Real),
        ("exclusiveMinimum", 10, Form::Flag),
        ("maxLength", 11, Form::Whole),
        ("minLength", 12, Form::Whole),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Whole),
        ("minItems", 15, Form::Whole),
        ("uniqueItems", 16, Form::Flag),
        ("maxProperties", 17, Form::Whole),
        ("minProperties", 18, Form::Whole),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::Anys),
        ("additionalProperties", 21, Form::SchemaOrFlag),
        ("type", 22, Form::TypeItem),
        ("items", 23, Form::ItemsItem),
        ("properties", 25, Form::One(&SCHEMAS)),
    ],
    extensions: Some(31),
};

/// Writes a document.
pub(super) fn document(document: &Value) -> Vec<u8> {
    message(&DOCUMENT, document)
}

fn message(shape: &Message, value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let none = Map::new();
    let object = value.as_object().unwrap_or(&none);
    for (key, number, form) in shape.fields {
        let found = if key.is_empty() { Some(value) } else { object.get(*key) };
        if let Some(found) = found {
            field(&mut bytes, *number, form, found);
        }
    }
    if let Some(number) = shape.extensions {
        for (key, value) in object.iter().filter(|(key, _)| key.starts_with("x-")) {
            let mut named = text(1, key);
            put(&mut named, 2, &any(value));
            put(&mut bytes, number, &named);
        }
    }
    bytes
}

fn field(bytes: &mut Vec<u8>, number: u32, form: &Form, value: &Value) {
    let list = || value.as_array().map(Vec::as_slice).unwrap_or_default();
    match form {
        Form::Text => bytes.extend(text(number, value.as_str().unwrap_or_default())),
        Form::Texts => {
            for item in list() {
                bytes.extend(text(number, item.as_str().unwrap_or_default()));
            }
        }
        Form::Flag => whole(bytes, number, u64::from(value.as_bool().unwrap_or(false))),
        Form::Whole => whole(bytes, number, value.as_u64().unwrap_or(0)),
        Form::Real => {
            varint(bytes, u64::from(number) << 3 | 1);
            bytes.extend(value.as_f64().unwrap_or(0.0).to_le_bytes());
        }
        Form::Any => put(bytes, number, &any(value)),
        Form::Anys => list().iter().for_each(|item| put(bytes, number, &any(item))),
        Form::One(shape) => put(bytes, number, &message(shape, value)),
        Form::Many(shape) => list().iter().for_each(|item| put(bytes, number, &message(shape, item))),
        Form::Named(shape) => {
            for (key, value) in value.as_object().into_iter().flatten() {
                let mut named = text(1, key);
                put(&mut named, 2, &message(shape, value));
                put(bytes, number, &named);
            }
        }
        Form::TypeItem => put(bytes, number, &text(1, value.as_str().unwrap_or_default())),
        Form::ItemsItem | Form::SchemaItem => put(bytes, number, &nested(1, &message(&SCHEMA, value))),
        Form::SchemaOrFlag => {
            let item = match value {
                Value::Bool(flag) => {
                    let mut item = Vec::new();
                    whole(&mut item, 2, u64::from(*flag));
                    item
                }
                schema => nested(1, &message(&SCHEMA, schema)),
            };
            put(bytes, number, &item);
        }
        Form::Parameter => {
            let parameter = match value.get("in").and_then(Value::as_str) {
                Some("body") => nested(1, &message(&BODY_PARAMETER, value)),
                Some("path") => nested(2, &nested(4, &message(&PATH_PARAMETER, value))),
                _ => nested(2, &nested(3, &message(&QUERY_PARAMETER, value))),
            };
            put(bytes, number, &parameter);
        }
        Form::ResponseValue => put(bytes, number, &message(&RESPONSE, value)),
    }
}

/// JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    text(2, &format!("{value}\n"))
}

fn nested(number: u32, inner: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(inner.len() + 8);
    put(&mut bytes, number, inner);
    bytes
}

fn text(number: u32, text: &str) -> Vec<u8> {
    nested(number, text.as_bytes())
}

fn put(bytes: &mut Vec<u8>, number: u32, inner: &[u8]) {
    varint(bytes, u64::from(number) << 3 | 2);
    varint(bytes, inner.len() as u64);
    bytes.extend_from_slice(inner);
}

fn whole(bytes: &mut Vec<u8>, number: u32, value: u64) {
    varint(bytes, u64::from(number) << 3);
    varint(bytes, value);
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_document_is_written_field_by_field() {
        let bytes = document(&json!({
            "swagger": "2.0",
            "info": {"title": "t", "version": "v"},
            "definitions": {"A": {"type": "object", "x-y": true}},
        }));
        let expected: &[u8] = b"\x0a\x032.0\x12\x06\x0a\x01t\x12\x01v\x4a\x23\x0a\x21\x0a\x01A\x12\x1c\xb2\x01\x08\x0a\x06object\xfa\x01\x0e\x0a\x03x-y\x12\x07\x12\x05true\n";
        assert_eq!(bytes, expected);
    }

    #[test]
    fn large_numbers_take_several_bytes() {
        let mut bytes = Vec::new();
        varint(&mut bytes, 300);
        assert_eq!(bytes, [0xac, 0x02]);
    }
}
