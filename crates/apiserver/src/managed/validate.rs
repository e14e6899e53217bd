//! Whether an applied object is of its type, in Kubernetes' words: fields that the type does not know, values of
//! another sort, items of lists that cannot be told apart.

use serde_json::Value;

use super::element::Element;
use super::types::{List, Map, Relation, Scalar, Sort, Type, item_element};

/// What is wrong with a value, with the path that leads to it.
pub(crate) fn validate(value: &Value, kind: Type<'_>) -> Result<(), String> {
    let mut errors = Vec::new();
    visit(value, kind, "", &mut errors);
    match errors.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => {
            let lines: Vec<String> = many.iter().map(|error| format!("  {error}")).collect();
            Err(format!("errors:\n{}", lines.join("\n")))
        }
    }
}

fn say(errors: &mut Vec<String>, path: &str, what: impl std::fmt::Display) {
    errors.push(if path.is_empty() { what.to_string() } else { format!("{path}: {what}") });
}

fn visit(value: &Value, kind: Type<'_>, path: &str, errors: &mut Vec<String>) {
    if value.is_null() {
        return;
    }
    let atom = kind.atom();
    match atom.settled(atom.sort_of(Some(value))) {
        Some(Sort::Map) => match (&atom.map, value) {
            (Some(map), Value::Object(fields)) => visit_fields(fields, map, path, errors),
            _ => say(errors, path, format_args!("expected map, got &{{{}}}", plain(value))),
        },
        Some(Sort::List) => match (&atom.list, value) {
            (Some(list), Value::Array(items)) => visit_items(items, list, path, errors),
            _ => say(errors, path, format_args!("expected list, got &{{{}}}", plain(value))),
        },
        Some(Sort::Scalar) => {
            if let Some(wrong) = atom.scalar.and_then(|scalar| misfit(scalar, value)) {
                say(errors, path, wrong);
            }
        }
        Some(Sort::Open) | None => say(errors, path, "schema error: invalid atom: inlined"),
    }
}

fn visit_fields(
    fields: &serde_json::Map<String, Value>,
    map: &Map<'_>,
    path: &str,
    errors: &mut Vec<String>,
) {
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match map.kind_of(name) {
            Some(kind) => visit(value, kind, &path, errors),
            None => {
                say(errors, &path, "field not declared in schema");
                return;
            }
        }
    }
}

fn visit_items(items: &[Value], list: &List<'_>, path: &str, errors: &mut Vec<String>) {
    let mut seen: Vec<Element<'_>> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let element = match list.relation {
            Relation::Whole => Element::Index(i64::try_from(at).unwrap_or(i64::MAX)),
            _ => match item_element(list, item) {
                Ok(element) => element,
                Err(why) => return say(errors, path, format_args!("element {at}: {why}")),
            },
        };
        visit(item, list.items, &format!("{path}{element}"), errors);
        seen.push(element);
    }
    seen.sort_unstable();
    for pair in seen.windows(2) {
        if let [element, next] = pair
            && element == next
        {
            say(errors, path, format_args!("duplicate entries for key {element}"));
        }
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Bool, Value::Bool(_))
        | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => None,
        (Scalar::Number, other) => Some(format!("expected numeric (int or float), got {}", go_type(other))),
        (Scalar::Text, other) => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", quoted(other)))
        }
        (Scalar::Bool, other) => Some(format!("expected boolean, got &{{{}}}", plain(other))),
        (Scalar::Any, other) => Some(format!("expected any scalar, got &{{{}}}", plain(other))),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// As Go shows a value.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
        other => crate::numbers::json_text(other),
    }
}

/// As Go shows a value with its types.
fn quoted(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(quoted).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{key:?}:{}", quoted(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => crate::numbers::json_text(other),
    }
}
