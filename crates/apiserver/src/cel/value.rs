//! Values as expressions see them. What an object holds is looked at in place, through its schema; only what an
//! expression makes anew is allocated.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value as Foreign;
use serde_json::{Map, Value as Json};

use super::library;
use super::names;
use crate::schema::{ListType, Schema, Type};

/// A value of the language.
#[derive(Clone, Debug)]
pub(super) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// Text of the object or of the expression.
    Text(&'a str),
    /// Text that an expression made.
    Made(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A list of the object.
    Items(&'a [Json], &'a Schema),
    /// A list that an expression made.
    List(Arc<Vec<Value<'a>>>),
    /// An object with named fields.
    Object(&'a Map<String, Json>, &'a Schema, Place),
    /// The metadata of a resource, of which names are all that is shown.
    Metadata(&'a Map<String, Json>),
    /// An object whose fields are all of one kind.
    Entries(&'a Map<String, Json>, &'a Schema),
    /// A map that an expression made.
    Map(Arc<BTreeMap<Key, Value<'a>>>),
    Optional(Option<Arc<Value<'a>>>),
    /// The name of a type.
    Type(Arc<str>),
    /// Times, durations and what the libraries have types of their own for.
    Foreign(Foreign),
}

/// Whether an object is a resource, with a kind and a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Resource,
    Within,
}

impl Place {
    /// Where a value of this schema is, if it is not the root.
    pub(crate) fn of(schema: &Schema) -> Self {
        if schema.extensions.embedded_resource { Self::Resource } else { Self::Within }
    }
}

/// What can be the key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Arc<str>),
}

impl Key {
    pub(super) fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            // One number is one key, whatever its type.
            Value::Uint(value) => Some(i64::try_from(*value).map_or(Self::Uint(*value), Self::Int)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some(Self::Int(*value as i64))
            }
            _ => value.as_str().map(|text| Self::Text(text.into())),
        }
    }

    pub(super) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Text(text) => Value::Made(text.clone()),
        }
    }
}

impl<'a> Value<'a> {
    /// A value of an object, seen through its schema. Nothing, where the schema hides it.
    pub(super) fn of(json: &'a Json, schema: &'a Schema, place: Place) -> Option<Self> {
        if schema.extensions.int_or_string {
            return match json {
                Json::String(text) => Some(Self::Text(text)),
                Json::Number(number) => number.as_i64().map(Self::Int),
                Json::Null => Some(Self::Null),
                _ => None,
            };
        }
        match (json, schema.kind?) {
            (Json::Null, _) => Some(Self::Null),
            (Json::Bool(value), Type::Boolean) => Some(Self::Bool(*value)),
            (Json::Number(number), Type::Integer) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64))
                .map(Self::Int),
            (Json::Number(number), Type::Number) => number.as_f64().map(Self::Double),
            (Json::String(text), Type::String) => Some(Self::formatted(text, &schema.rules.format)),
            (Json::Array(items), Type::Array) => Some(Self::Items(items, schema)),
            (Json::Object(object), Type::Object) => Self::of_object(object, schema, place),
            _ => None,
        }
    }

    /// An object that is given by its fields.
    pub(super) fn of_object(object: &'a Map<String, Json>, schema: &'a Schema, place: Place) -> Option<Self> {
        if schema.kind != Some(Type::Object) {
            return None;
        }
        let entries = schema.properties.is_empty() && schema.additional.is_some();
        Some(if entries && place == Place::Within {
            Self::Entries(object, schema)
        } else {
            Self::Object(object, schema, place)
        })
    }

    /// Text of some formats is a value of a type of its own.
    fn formatted(text: &'a str, format: &str) -> Self {
        let made = match format {
            "byte" => library::base64(text).map(Self::Bytes),
            "date-time" => library::timestamp(text),
            "date" => library::timestamp(&format!("{text}T00:00:00Z")),
            "duration" => library::duration(text),
            _ => None,
        };
        made.unwrap_or(Self::Text(text))
    }

    pub(super) fn made(text: impl Into<Arc<str>>) -> Self {
        Self::Made(text.into())
    }

    pub(super) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    pub(super) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Made(text) => Some(text),
            _ => None,
        }
    }

    /// How many elements it has; one, if it is no collection. This is what costs are reckoned by.
    pub(super) fn extent(&self) -> u64 {
        let count = match self {
            Self::Text(text) => text.len(),
            Self::Made(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Items(items, _) => items.len(),
            Self::List(items) => items.len(),
            Self::Entries(object, _) | Self::Object(object, _, _) | Self::Metadata(object) => object.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.extent(),
            _ => 1,
        };
        count as u64
    }

    /// How much there is to copy, as cost: every value, and text by its length. No more than `limit` is looked at.
    pub(super) fn bulk(&self, limit: u64) -> u64 {
        let mut sum = 1 + self.extent().div_ceil(10);
        let mut add = |value: Option<Self>| {
            if sum <= limit
                && let Some(value) = value
            {
                sum = sum.saturating_add(value.bulk(limit - sum));
            }
        };
        match self {
            Self::Items(..) | Self::List(_) => {
                (0..self.items().unwrap_or(0)).for_each(|at| add(self.item(at)));
            }
            Self::Entries(..) | Self::Map(_) => {
                self.keys().unwrap_or_default().iter().for_each(|key| add(self.entry(key)));
            }
            Self::Object(object, _, _) => object
                .keys()
                .filter_map(|field| names::escape(field))
                .for_each(|identifier| add(self.field(&identifier))),
            Self::Optional(Some(held)) => add(Some(held.as_ref().clone())),
            _ => {}
        }
        sum
    }

    /// `size()`.
    pub(super) fn size(&self) -> Option<i64> {
        let count = match self {
            Self::Text(text) => text.chars().count(),
            Self::Made(text) => text.chars().count(),
            Self::Bytes(_) | Self::Items(..) | Self::List(_) | Self::Entries(..) | Self::Map(_) => {
                usize::try_from(self.extent()).ok()?
            }
            _ => return None,
        };
        i64::try_from(count).ok()
    }

    /// A field by the name that an expression has for it.
    pub(super) fn field(&self, identifier: &str) -> Option<Self> {
        match self {
            Self::Object(object, schema, place) => {
                if *place == Place::Resource {
                    match identifier {
                        "apiVersion" | "kind" => {
                            return object.get(identifier).and_then(Json::as_str).map(Self::Text);
                        }
                        "metadata" => {
                            return object.get("metadata").and_then(Json::as_object).map(Self::Metadata);
                        }
                        _ => {}
                    }
                }
                let field = names::unescape(identifier)?;
                let schema = schema.properties.get(&field)?;
                Self::of(object.get(&field)?, schema, Place::of(schema))
            }
            Self::Metadata(object) => match identifier {
                "name" | "generateName" => object.get(identifier).and_then(Json::as_str).map(Self::Text),
                _ => None,
            },
            _ => self.entry(&Key::Text(identifier.into())),
        }
    }

    /// The value under a key of a map.
    pub(super) fn entry(&self, key: &Key) -> Option<Self> {
        match (self, key) {
            (Self::Entries(object, schema), Key::Text(text)) => {
                let json = object.get(text.as_ref())?;
                let schema = schema.additional.as_ref()?.schema()?;
                Self::of(json, schema, Place::of(schema))
            }
            (Self::Map(map), key) => map.get(key).cloned(),
            (Self::Object(..) | Self::Metadata(_), Key::Text(text)) => self.field(text),
            _ => None,
        }
    }

    /// The item at a place of a list.
    pub(super) fn item(&self, at: usize) -> Option<Self> {
        match self {
            Self::Items(items, schema) => {
                let schema = schema.items.as_ref()?;
                Self::of(items.get(at)?, schema, Place::of(schema))
            }
            Self::List(items) => items.get(at).cloned(),
            _ => None,
        }
    }

    /// How many items a list has; nothing, if it is no list.
    pub(super) fn items(&self) -> Option<usize> {
        match self {
            Self::Items(items, _) => Some(items.len()),
            Self::List(items) => Some(items.len()),
            _ => None,
        }
    }

    /// The keys of a map; nothing, if it is no map.
    pub(super) fn keys(&self) -> Option<Vec<Key>> {
        match self {
            Self::Entries(object, _) => {
                Some(object.keys().map(|key| Key::Text(key.as_str().into())).collect())
            }
            Self::Map(map) => Some(map.keys().cloned().collect()),
            _ => None,
        }
    }

    pub(super) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Text(_) | Self::Made(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Items(..) | Self::List(_) => "list",
            Self::Object(..) | Self::Metadata(_) => "object",
            Self::Entries(..) | Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Foreign(Foreign::Timestamp(_)) => "google.protobuf.Timestamp",
            Self::Foreign(Foreign::Duration(_)) => "google.protobuf.Duration",
            Self::Foreign(Foreign::Opaque(opaque)) => opaque.runtime_type_name(),
            Self::Foreign(_) => "dyn",
        }
    }

    /// Whether it is what its type has when nothing is said.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Optional(value) => value.is_none(),
            Self::Foreign(value) => value.is_zero(),
            Self::Type(_) => false,
            _ => self.extent() == 0,
        }
    }
}

/// How much of a comparison was done, and how much may be.
pub(super) struct Work {
    pub(super) done: u64,
    pub(super) limit: u64,
}

impl Work {
    fn goes_on(&mut self, steps: u64) -> bool {
        self.done = self.done.saturating_add(steps);
        self.done <= self.limit
    }
}

/// Whether two values are equal. Numbers are compared across types; lists that are sets or maps have no order. What
/// takes too much work is not equal, and the work tells.
pub(super) fn equal(a: &Value<'_>, b: &Value<'_>, work: &mut Work) -> bool {
    use Value::*;
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return work.goes_on(1 + a.len().min(b.len()) as u64) && a == b;
    }
    if !work.goes_on(1) {
        return false;
    }
    if let Some(order) = compare_numbers(a, b) {
        return order == Ordering::Equal;
    }
    match (a, b) {
        (Null, Null) => true,
        (Bool(a), Bool(b)) => a == b,
        (Bytes(a), Bytes(b)) => work.goes_on(a.len().min(b.len()) as u64) && a == b,
        (Type(a), Type(b)) => a == b,
        (Optional(None), Optional(None)) => true,
        (Optional(Some(a)), Optional(Some(b))) => equal(a, b, work),
        (Foreign(a), Foreign(b)) => a == b,
        (Metadata(a), Metadata(b)) => ["name", "generateName"].iter().all(|key| a.get(*key) == b.get(*key)),
        (Object(x, schema, _), Object(y, _, _)) => {
            x.len() == y.len()
                && x.iter().all(|(key, value)| match (y.get(key), schema.properties.get(key)) {
                    (Some(other), Some(schema)) => equal_json(value, other, schema, work),
                    (Some(other), None) => value == other,
                    (None, _) => false,
                })
        }
        _ => match (a.items(), b.items()) {
            (Some(x), Some(y)) => x == y && equal_lists(a, b, x, work),
            (None, None) => equal_maps(a, b, work),
            _ => false,
        },
    }
}

fn equal_json(a: &Json, b: &Json, schema: &Schema, work: &mut Work) -> bool {
    match (Value::of(a, schema, Place::of(schema)), Value::of(b, schema, Place::of(schema))) {
        (Some(a), Some(b)) => equal(&a, &b, work),
        _ => a == b,
    }
}

fn equal_lists(a: &Value<'_>, b: &Value<'_>, count: usize, work: &mut Work) -> bool {
    let mut same = |at: usize, other: usize| match (a.item(at), b.item(other)) {
        (Some(a), Some(b)) => equal(&a, &b, work),
        (None, None) => true,
        _ => false,
    };
    let unordered = [a, b].iter().any(|list| match list {
        Value::Items(_, schema) => {
            matches!(schema.extensions.list_type, Some(ListType::Set | ListType::Map))
        }
        _ => false,
    });
    (0..count).all(|at| same(at, at))
        || (unordered
            && (0..count).all(|at| (0..count).any(|other| same(at, other)))
            && (0..count).all(|other| (0..count).any(|at| same(at, other))))
}

fn equal_maps(a: &Value<'_>, b: &Value<'_>, work: &mut Work) -> bool {
    let (Some(keys), Some(others)) = (a.keys(), b.keys()) else { return false };
    keys.len() == others.len()
        && keys.iter().all(|key| match (a.entry(key), b.entry(key)) {
            (Some(a), Some(b)) => equal(&a, &b, work),
            _ => false,
        })
}

/// The order of two values, if they have one.
pub(super) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Some(a.cmp(b));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Foreign(a), Value::Foreign(b)) => a.partial_cmp(b),
        _ => compare_numbers(a, b),
    }
}

fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    use Value::{Double, Int, Uint};
    match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(b)),
        (Uint(a), Uint(b)) => Some(a.cmp(b)),
        (Int(a), Uint(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Uint(a), Int(b)) => Some(i128::from(*a).cmp(&i128::from(*b))),
        (Double(a), Double(b)) => a.partial_cmp(b),
        (Int(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Uint(a), Double(b)) => (*a as f64).partial_cmp(b),
        (Double(a), Int(b)) => a.partial_cmp(&(*b as f64)),
        (Double(a), Uint(b)) => a.partial_cmp(&(*b as f64)),
        _ => None,
    }
}
