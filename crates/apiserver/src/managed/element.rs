//! One step of a path: a field by its name, an item of a list by its key, its value or its place. Elements borrow from
//! the objects that they point into, and have the one order in which Kubernetes lists them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

use crate::numbers::Figure;

/// One step from a value to one inside of it.
#[derive(Clone, Debug)]
pub(crate) enum Element<'a> {
    Field(Cow<'a, str>),
    /// The fields that tell an item of a list apart, sorted by name.
    Key(Vec<(Cow<'a, str>, Cow<'a, Value>)>),
    /// An item of a set.
    Value(Cow<'a, Value>),
    Index(i64),
}

impl<'a> Element<'a> {
    pub(crate) fn field(name: &'a str) -> Self {
        Self::Field(Cow::Borrowed(name))
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Value(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Key(a), Self::Key(b)) => {
                let pairs = a.iter().zip(b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)));
                first_difference(pairs).then(a.len().cmp(&b.len()))
            }
            (Self::Value(a), Self::Value(b)) => compare(a, b),
            (Self::Index(a), Self::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

/// As messages show it.
impl fmt::Display for Element<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                let shown: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={}", shown(value))).collect();
                write!(f, "[{}]", shown.join(","))
            }
            Self::Value(value) => write!(f, "[={}]", shown(value)),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value as messages show it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => Figure::of(number).to_string(),
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => map.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect(),
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

/// The order of values: numbers by what they are worth, then texts, booleans, lists, objects, null.
pub(crate) fn compare(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => match (Figure::of(a), Figure::of(b)) {
            (Figure::Integer(a), Figure::Integer(b)) => a.cmp(&b),
            (a, b) => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
        },
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            first_difference(a.iter().zip(b).map(|(a, b)| compare(a, b))).then(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| a.0.cmp(b.0).then_with(|| compare(a.1, b.1)));
            first_difference(pairs).then(a.len().cmp(&b.len()))
        }
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Whether two values are worth the same: `1` and `1.0` are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || compare(a, b) == Ordering::Equal
}
