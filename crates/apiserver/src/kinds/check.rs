//! The checks that many kinds share, one line each: what must be there, what it may be, and what cannot change.

use serde_json::Value;

use super::cells::text_of;
use crate::field::FieldError;
use crate::object::{Object, lookup, text};
use crate::registry::Change;

/// What is found wrong with an object. Paths are those of the object; an empty text counts as left out.
pub(super) struct Check<'a> {
    object: &'a Object,
    old: Option<&'a Object>,
    pub(super) errors: Vec<FieldError>,
}

impl<'a> Check<'a> {
    pub(super) fn new(object: &'a Object, change: Change<'a>) -> Self {
        Self { object, old: change.old, errors: Vec::new() }
    }

    pub(super) fn add(&mut self, error: FieldError) {
        self.errors.push(error);
    }

    /// A text that must be there.
    pub(super) fn required(&mut self, path: &str) {
        self.required_because(path, "");
    }

    pub(super) fn required_because(&mut self, path: &str, why: &str) {
        if text(self.object, path).is_empty() {
            self.add(FieldError::required(path, why));
        }
    }

    /// A text that follows a rule of names, if it is there.
    pub(super) fn named(&mut self, path: &str, rule: fn(&str) -> Vec<String>) {
        let name = text(self.object, path);
        if !name.is_empty() {
            self.errors.extend(rule(name).into_iter().map(|why| FieldError::invalid(path, name, why)));
        }
    }

    /// A part of a text that follows a rule of names.
    pub(super) fn named_part(&mut self, path: &str, part: &str, rule: fn(&str) -> Vec<String>) {
        self.errors.extend(rule(part).into_iter().map(|why| FieldError::invalid(path, part, why)));
    }

    /// A text that must be there and follow a rule of names.
    pub(super) fn required_name(&mut self, path: &str, rule: fn(&str) -> Vec<String>) {
        self.required(path);
        self.named(path, rule);
    }

    /// A text that is one of a few, if it is there.
    pub(super) fn one_of(&mut self, path: &str, known: &[&str]) {
        let value = text(self.object, path);
        if !value.is_empty() && !known.contains(&value) {
            self.add(FieldError::not_supported(path, value, known));
        }
    }

    /// A number within limits, if it is there.
    pub(super) fn number(&mut self, path: &str, good: impl Fn(i64) -> bool, why: &str) {
        if let Some(number) =
            lookup(self.object, path).and_then(Value::as_i64).filter(|number| !good(*number))
        {
            self.add(FieldError::invalid(path, number, why));
        }
    }

    /// What cannot change once it is there.
    pub(super) fn fixed(&mut self, path: &str) {
        let now = lookup(self.object, path);
        if self.old.is_some_and(|old| lookup(old, path) != now) {
            let now = now.cloned().unwrap_or(Value::Null);
            self.add(FieldError::invalid(path, now, "field is immutable"));
        }
    }

    /// A list without two items of the same name.
    pub(super) fn unique(&mut self, path: &str, key: &str) {
        let mut seen: Vec<&str> = Vec::new();
        for (at, item) in items(self.object, path) {
            let name = text_of(item, key);
            if seen.contains(&name) {
                self.errors.push(FieldError::duplicate(format!("{at}.{key}"), name));
            }
            seen.push(name);
        }
    }
}

/// The items of a list, each with the path to it.
pub(super) fn items<'a>(
    object: &'a Object,
    path: &str,
) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let list = lookup(object, path).and_then(Value::as_array).into_iter().flatten();
    let path = path.to_owned();
    list.enumerate().map(move |(at, item)| (format!("{path}[{at}]"), item))
}

/// The items of a list within a value, each with the path to it.
pub(super) fn items_of<'a>(
    value: &'a Value,
    path: &str,
    key: &str,
) -> impl Iterator<Item = (String, &'a Value)> + use<'a> {
    let list = value.get(key).and_then(Value::as_array).into_iter().flatten();
    let path = format!("{path}.{key}");
    list.enumerate().map(move |(at, item)| (format!("{path}[{at}]"), item))
}

/// How many items a list has.
pub(super) fn count(object: &Object, path: &str) -> usize {
    lookup(object, path).and_then(Value::as_array).map_or(0, Vec::len)
}

/// Whether something is there.
pub(super) fn is_set(object: &Object, path: &str) -> bool {
    lookup(object, path).is_some_and(|value| !value.is_null())
}

pub(super) const PORT: &str = "must be between 1 and 65535, inclusive";

pub(super) fn is_port(number: i64) -> bool {
    (1..=65535).contains(&number)
}
