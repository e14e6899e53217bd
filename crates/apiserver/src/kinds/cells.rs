//! What the cells of several tables have in common.

use serde_json::Value;

use crate::object::{Object, lookup};
use crate::selector::LabelSelector;

/// A text, or the word that stands for its absence.
pub(super) fn or_none(text: impl Into<String>) -> Value {
    or(text, "<none>")
}

pub(super) fn or(text: impl Into<String>, otherwise: &str) -> Value {
    let text = text.into();
    if text.is_empty() { otherwise.into() } else { text.into() }
}

/// The items of a list, each as it is shown, with commas between them.
pub(super) fn joined(list: Option<&Value>, show: impl Fn(&Value) -> String) -> String {
    let items = list.and_then(Value::as_array);
    items.into_iter().flatten().map(show).collect::<Vec<_>>().join(",")
}

/// A map of texts as `key=value,…`.
pub(super) fn pairs(map: Option<&Value>) -> String {
    let pairs = map.and_then(Value::as_object).into_iter().flatten();
    pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect::<Vec<_>>()
        .join(",")
}

/// A number, which is 0 when it is left out.
pub(super) fn number(object: &Object, path: &str) -> i64 {
    lookup(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// A label selector as people write it.
pub(super) fn selector(object: &Object, path: &str) -> Value {
    or_none(lookup(object, path).map(|selector| LabelSelector::of(selector).to_string()).unwrap_or_default())
}

/// One text of every item of a list, such as the names of containers.
pub(super) fn each_text(object: &Object, path: &str, key: &str) -> Value {
    joined(lookup(object, path), |item| text_of(item, key).to_owned()).into()
}

/// At most three, and how many more there are.
pub(super) fn first_three(all: &[String]) -> String {
    const SHOWN: usize = 3;
    match all.get(..SHOWN) {
        Some(shown) if all.len() > SHOWN => format!("{} + {} more...", shown.join(","), all.len() - SHOWN),
        _ => all.join(","),
    }
}

/// A text of an item of a list, or nothing.
pub(super) fn text_of<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}
