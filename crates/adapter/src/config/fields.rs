//! Reads mappings strictly: every key must be known, and a value must have the expected type. Errors are collected, so that
//! one run reports all of them.

use std::str::FromStr;
use std::time::Duration;

use serde_json::Value as Json;

use super::error::ConfigError;
use super::node::{Content, Key, Node, Place, Source};

/// The longest duration that a configuration may name.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads one file, and collects its errors.
pub(super) struct Reader<'s> {
    pub(super) source: &'s Source,
    pub(super) errors: Vec<ConfigError>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(source: &'s Source) -> Self {
        Self { source, errors: Vec::new() }
    }

    pub(super) fn error(&mut self, at: Place, message: impl Into<String>) {
        self.errors.push(self.source.error(at, message));
    }

    /// The entries of a mapping; `None`, with an error, for anything else.
    pub(super) fn fields<'n>(&mut self, what: &'static str, node: &'n Node) -> Option<Fields<'n>> {
        match &node.content {
            Content::Map(entries) => {
                Some(Fields { what, at: node.at, entries: entries.iter().collect(), known: Vec::new() })
            }
            _ => {
                self.error(node.at, format!("{what} must be a mapping, and it is {}", node.type_name()));
                None
            }
        }
    }

    /// The items of a list; null is an empty list.
    pub(super) fn list<'n>(&mut self, what: &str, node: Option<&'n Node>) -> &'n [Node] {
        match node.map(|node| (&node.content, node)) {
            None | Some((Content::Scalar(Json::Null), _)) => &[],
            Some((Content::List(items), _)) => items,
            Some((_, node)) => {
                self.error(node.at, format!("{what} must be a list, and it is {}", node.type_name()));
                &[]
            }
        }
    }

    pub(super) fn string(&mut self, what: &str, node: &Node) -> Option<String> {
        match &node.content {
            Content::Scalar(Json::String(text)) => Some(text.clone()),
            // YAML reads an unquoted version or port as a number.
            Content::Scalar(Json::Number(number)) => Some(number.to_string()),
            _ => {
                self.error(node.at, format!("{what} must be a string, and it is {}", node.type_name()));
                None
            }
        }
    }

    pub(super) fn boolean(&mut self, what: &str, node: Option<&Node>) -> bool {
        match node.map(|node| (&node.content, node)) {
            None | Some((Content::Scalar(Json::Null), _)) => false,
            Some((Content::Scalar(Json::Bool(value)), _)) => *value,
            Some((_, node)) => {
                self.error(node.at, format!("{what} must be true or false, and it is {}", node.type_name()));
                false
            }
        }
    }

    pub(super) fn integer(&mut self, what: &str, node: &Node, max: u64) -> Option<u64> {
        let value = match &node.content {
            Content::Scalar(Json::Number(number)) => number.as_u64().filter(|value| *value <= max),
            _ => None,
        };
        if value.is_none() {
            self.error(node.at, format!("{what} must be an integer from 0 to {max}"));
        }
        value
    }

    /// A duration such as `500ms`, `10s`, `1m30s` or `2h`.
    pub(super) fn duration(&mut self, what: &str, node: &Node) -> Option<Duration> {
        let text = self.string(what, node)?;
        let parsed = parse_duration(&text);
        match parsed {
            Some(duration) if duration <= MAX_DURATION && !duration.is_zero() => Some(duration),
            _ => {
                let message = format!(
                    "{what} must be a duration from 1ms to 24h, such as 500ms, 10s or 1m30s; found {text:?}"
                );
                self.error(node.at, message);
                None
            }
        }
    }

    /// A value of a type that is parsed from a word.
    pub(super) fn word<T: FromStr>(&mut self, what: &str, node: &Node, valid: &str) -> Option<T> {
        let text = self.string(what, node)?;
        let parsed = text.parse().ok();
        if parsed.is_none() {
            self.error(node.at, format!("{what} must be one of {valid}; found {text:?}"));
        }
        parsed
    }
}

/// The entries of a mapping that have not been read yet.
pub(super) struct Fields<'n> {
    what: &'static str,
    pub(super) at: Place,
    entries: Vec<&'n (Key, Node)>,
    known: Vec<&'static str>,
}

impl<'n> Fields<'n> {
    /// Takes the value of a key. A null value counts as missing.
    pub(super) fn take(&mut self, name: &'static str) -> Option<&'n Node> {
        self.known.push(name);
        let index = self.entries.iter().position(|(key, _)| key.name == name)?;
        let (_, node) = self.entries.swap_remove(index);
        (!matches!(node.content, Content::Scalar(Json::Null))).then_some(node)
    }

    /// Takes a value that must exist.
    pub(super) fn require(&mut self, name: &'static str, reader: &mut Reader<'_>) -> Option<&'n Node> {
        let found = self.take(name);
        if found.is_none() {
            reader.error(self.at, format!("{} must have the field `{name}`", self.what));
        }
        found
    }

    pub(super) fn string(&mut self, name: &'static str, reader: &mut Reader<'_>) -> Option<String> {
        let node = self.take(name)?;
        reader.string(&format!("`{name}`"), node)
    }

    /// Takes a string that must exist and must not be empty.
    pub(super) fn required_string(&mut self, name: &'static str, reader: &mut Reader<'_>) -> Option<String> {
        let node = self.require(name, reader)?;
        let text = reader.string(&format!("`{name}`"), node)?;
        if text.is_empty() {
            reader.error(node.at, format!("`{name}` must not be empty"));
            return None;
        }
        Some(text)
    }

    /// Reports every key that is unknown.
    pub(super) fn finish(mut self, reader: &mut Reader<'_>) {
        self.known.sort_unstable();
        self.entries.sort_by_key(|(key, _)| (key.at.line, key.at.column));
        for (key, _) in self.entries {
            let known = self.known.join("`, `");
            reader.error(
                key.at,
                format!("unknown field `{}` in {}; expected one of `{known}`", key.name, self.what),
            );
        }
    }
}

/// Parses a duration of Go: numbers with units, without spaces.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest.get(..digits)?.parse().ok()?;
        let after = rest.get(digits..)?;
        let unit_length = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let seconds = match after.get(..unit_length)? {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = after.get(unit_length..)?;
    }
    Some(total)
}
