//! Values as expressions see them. A value of an object is read in place, through its schema; only what an expression
//! builds is allocated.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use kube_cel::cel::Value as LibraryValue;
use serde_json::{Map, Value as Json};

use crate::library;
use crate::names;
use crate::schema::{ANY_JSON, ListIdentity, ObjectKind, Schema, ValueType};

/// A value of the language.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    /// Text of an object or of the expression.
    Str(&'a str),
    /// Text that the expression built.
    String(Arc<str>),
    Bytes(Arc<[u8]>),
    /// A list of an object.
    Items(&'a [Json], &'a dyn Schema),
    /// A list that the expression built.
    List(Arc<Vec<Value<'a>>>),
    /// An object with declared fields.
    Object(&'a Map<String, Json>, &'a dyn Schema, ObjectKind),
    /// The metadata of a resource, of which expressions see only the names.
    Metadata(&'a Map<String, Json>),
    /// An object with keys of any name.
    Entries(&'a Map<String, Json>, &'a dyn Schema),
    /// A map that the expression built.
    Map(Arc<BTreeMap<Key, Value<'a>>>),
    Optional(Option<Arc<Value<'a>>>),
    /// The name of a type.
    Type(Arc<str>),
    /// Timestamps, durations and the types of the libraries.
    Library(LibraryValue),
}

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Bool(bool),
    Int(i64),
    Uint(u64),
    Text(Arc<str>),
}

impl Key {
    pub(crate) fn of(value: &Value<'_>) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Bool(*value)),
            Value::Int(value) => Some(Self::Int(*value)),
            // Equal numbers of different types are one key.
            Value::Uint(value) => Some(i64::try_from(*value).map_or(Self::Uint(*value), Self::Int)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 9e15 => {
                Some(Self::Int(*value as i64))
            }
            _ => value.as_str().map(|text| Self::Text(text.into())),
        }
    }

    pub(crate) fn value<'a>(&self) -> Value<'a> {
        match self {
            Self::Bool(value) => Value::Bool(*value),
            Self::Int(value) => Value::Int(*value),
            Self::Uint(value) => Value::Uint(*value),
            Self::Text(text) => Value::String(text.clone()),
        }
    }
}

impl<'a> Value<'a> {
    /// A value of an object, seen through its schema; `None` where the schema hides it.
    pub(crate) fn of(json: &'a Json, schema: &'a dyn Schema) -> Option<Self> {
        Self::of_kind(json, schema, schema.object_kind())
    }

    /// The same for a value that may be a resource although its schema does not say so.
    pub(crate) fn of_kind(json: &'a Json, schema: &'a dyn Schema, kind: ObjectKind) -> Option<Self> {
        match (json, schema.value_type()?) {
            (Json::Null, _) => Some(Self::Null),
            (json, ValueType::Dynamic) => Some(Self::dynamic(json)),
            (Json::String(text), ValueType::IntOrString) => Some(Self::Str(text)),
            (Json::Number(number), ValueType::IntOrString) => number.as_i64().map(Self::Int),
            (Json::Bool(value), ValueType::Bool) => Some(Self::Bool(*value)),
            (Json::Number(number), ValueType::Int) => number
                .as_i64()
                .or_else(|| number.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64))
                .map(Self::Int),
            (Json::Number(number), ValueType::Double) => number.as_f64().map(Self::Double),
            (Json::String(text), ValueType::String) => Some(Self::Str(text)),
            (
                Json::String(text),
                format @ (ValueType::Bytes | ValueType::Timestamp | ValueType::Date | ValueType::Duration),
            ) => Some(Self::formatted(text, format)),
            (Json::Array(items), ValueType::List) => Some(Self::Items(items, schema)),
            (Json::Object(object), ValueType::Map | ValueType::Object) => {
                Self::of_object(object, schema, kind)
            }
            _ => None,
        }
    }

    /// An object that is given by its fields.
    pub(crate) fn of_object(
        object: &'a Map<String, Json>,
        schema: &'a dyn Schema,
        kind: ObjectKind,
    ) -> Option<Self> {
        match schema.value_type()? {
            ValueType::Map if kind == ObjectKind::Plain => Some(Self::Entries(object, schema)),
            ValueType::Map | ValueType::Object => Some(Self::Object(object, schema, kind)),
            _ => None,
        }
    }

    /// JSON without a schema.
    pub(crate) fn dynamic(json: &'a Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(*value),
            Json::Number(number) => Self::number(number),
            Json::String(text) => Self::Str(text),
            Json::Array(items) => Self::Items(items, &ANY_JSON),
            Json::Object(object) => Self::Entries(object, &ANY_JSON),
        }
    }

    fn number(number: &serde_json::Number) -> Self {
        match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Self::Int(value),
            (None, Some(value)) => Self::Uint(value),
            (None, None) => Self::Double(number.as_f64().unwrap_or(f64::NAN)),
        }
    }

    /// JSON that nothing else owns.
    pub(crate) fn from_json(json: Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Number(number) => Self::number(&number),
            Json::String(text) => Self::string(text),
            Json::Array(items) => Self::list(items.into_iter().map(Self::from_json).collect()),
            Json::Object(object) => {
                let entries = object.into_iter();
                let entries = entries.map(|(key, value)| (Key::Text(key.into()), Self::from_json(value)));
                Self::Map(Arc::new(entries.collect()))
            }
        }
    }

    /// Text in a format that has a type of its own; plain text, if it is not in that format.
    fn formatted(text: &'a str, format: ValueType) -> Self {
        let value = match format {
            ValueType::Bytes => library::base64(text).map(Self::Bytes),
            ValueType::Timestamp => library::timestamp(text),
            ValueType::Date => library::timestamp(&format!("{text}T00:00:00Z")),
            ValueType::Duration => library::duration(text),
            _ => None,
        };
        value.unwrap_or(Self::Str(text))
    }

    pub(crate) fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    pub(crate) fn list(items: Vec<Self>) -> Self {
        Self::List(Arc::new(items))
    }

    pub(crate) fn some(value: Self) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// How many elements a collection has, or bytes a text; one for all other values. Costs are computed from it.
    pub(crate) fn element_count(&self) -> u64 {
        let count = match self {
            Self::Str(text) => text.len(),
            Self::String(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Items(items, _) => items.len(),
            Self::List(items) => items.len(),
            Self::Entries(object, _) | Self::Object(object, _, _) | Self::Metadata(object) => object.len(),
            Self::Map(map) => map.len(),
            Self::Optional(Some(value)) => return value.element_count(),
            _ => 1,
        };
        count as u64
    }

    /// The cost of a copy: one for every value, and text by its length. Stops soon after `limit`.
    pub(crate) fn copy_cost(&self, limit: u64) -> u64 {
        let mut sum = 1 + self.element_count().div_ceil(10);
        let mut add = |value: Option<Self>| {
            if sum <= limit
                && let Some(value) = value
            {
                sum = sum.saturating_add(value.copy_cost(limit - sum));
            }
        };
        match self {
            Self::Items(..) | Self::List(_) => {
                (0..self.items().unwrap_or(0)).for_each(|index| add(self.item(index)));
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
    pub(crate) fn size(&self) -> Option<i64> {
        let count = match self {
            Self::Str(text) => text.chars().count(),
            Self::String(text) => text.chars().count(),
            Self::Bytes(_) | Self::Items(..) | Self::List(_) | Self::Entries(..) | Self::Map(_) => {
                usize::try_from(self.element_count()).ok()?
            }
            _ => return None,
        };
        i64::try_from(count).ok()
    }

    /// A field by its identifier in expressions.
    pub(crate) fn field(&self, identifier: &str) -> Option<Self> {
        match self {
            Self::Object(object, schema, kind) => {
                if *kind == ObjectKind::Resource {
                    match identifier {
                        "apiVersion" | "kind" => {
                            return object.get(identifier).and_then(Json::as_str).map(Self::Str);
                        }
                        "metadata" => {
                            return object.get("metadata").and_then(Json::as_object).map(Self::Metadata);
                        }
                        _ => {}
                    }
                }
                let field = names::unescape(identifier)?;
                let schema = schema.property(&field)?;
                Self::of(object.get(&field)?, schema)
            }
            Self::Metadata(object) => match identifier {
                "name" | "generateName" => object.get(identifier).and_then(Json::as_str).map(Self::Str),
                _ => None,
            },
            _ => self.entry(&Key::Text(identifier.into())),
        }
    }

    /// The value under a key of a map.
    pub(crate) fn entry(&self, key: &Key) -> Option<Self> {
        match (self, key) {
            (Self::Entries(object, schema), Key::Text(text)) => {
                Self::of(object.get(text.as_ref())?, schema.values()?)
            }
            (Self::Map(map), key) => map.get(key).cloned(),
            (Self::Object(..) | Self::Metadata(_), Key::Text(text)) => self.field(text),
            _ => None,
        }
    }

    /// The item of a list at an index.
    pub(crate) fn item(&self, index: usize) -> Option<Self> {
        match self {
            Self::Items(items, schema) => Self::of(items.get(index)?, schema.items()?),
            Self::List(items) => items.get(index).cloned(),
            _ => None,
        }
    }

    /// How many items a list has; `None` if the value is not a list.
    pub(crate) fn items(&self) -> Option<usize> {
        match self {
            Self::Items(items, _) => Some(items.len()),
            Self::List(items) => Some(items.len()),
            _ => None,
        }
    }

    /// The keys of a map; `None` if the value is not a map.
    pub(crate) fn keys(&self) -> Option<Vec<Key>> {
        match self {
            Self::Entries(object, _) => {
                Some(object.keys().map(|key| Key::Text(key.as_str().into())).collect())
            }
            Self::Map(map) => Some(map.keys().cloned().collect()),
            _ => None,
        }
    }

    pub(crate) fn type_name(&self) -> &str {
        match self {
            Self::Null => "null_type",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Uint(_) => "uint",
            Self::Double(_) => "double",
            Self::Str(_) | Self::String(_) => "string",
            Self::Bytes(_) => "bytes",
            Self::Items(..) | Self::List(_) => "list",
            Self::Object(..) | Self::Metadata(_) => "object",
            Self::Entries(..) | Self::Map(_) => "map",
            Self::Optional(_) => "optional_type",
            Self::Type(_) => "type",
            Self::Library(LibraryValue::Timestamp(_)) => "google.protobuf.Timestamp",
            Self::Library(LibraryValue::Duration(_)) => "google.protobuf.Duration",
            Self::Library(LibraryValue::Opaque(opaque)) => opaque.runtime_type_name(),
            Self::Library(_) => "dyn",
        }
    }

    /// Whether it is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(value) => !value,
            Self::Int(value) => *value == 0,
            Self::Uint(value) => *value == 0,
            Self::Double(value) => *value == 0.0,
            Self::Optional(value) => value.is_none(),
            Self::Library(value) => value.is_zero(),
            Self::Type(_) => false,
            _ => self.element_count() == 0,
        }
    }
}

/// The work that a comparison has done, and its limit.
pub(crate) struct ComparisonWork {
    pub(crate) done: u64,
    pub(crate) limit: u64,
}

impl ComparisonWork {
    fn charge(&mut self, steps: u64) -> bool {
        self.done = self.done.saturating_add(steps);
        self.done <= self.limit
    }
}

/// Whether two values are equal. Numbers are compared across types; the order of lists that are sets or maps does not
/// matter. Beyond the limit of its work a comparison ends with `false`, and the caller sees that the limit was passed.
pub(crate) fn equal(a: &Value<'_>, b: &Value<'_>, work: &mut ComparisonWork) -> bool {
    use Value::*;
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return work.charge(1 + a.len().min(b.len()) as u64) && a == b;
    }
    if !work.charge(1) {
        return false;
    }
    if let Some(order) = compare_numbers(a, b) {
        return order == Ordering::Equal;
    }
    match (a, b) {
        (Null, Null) => true,
        (Bool(a), Bool(b)) => a == b,
        (Bytes(a), Bytes(b)) => work.charge(a.len().min(b.len()) as u64) && a == b,
        (Type(a), Type(b)) => a == b,
        (Optional(None), Optional(None)) => true,
        (Optional(Some(a)), Optional(Some(b))) => equal(a, b, work),
        (Library(a), Library(b)) => a == b,
        (Metadata(a), Metadata(b)) => ["name", "generateName"].iter().all(|key| a.get(*key) == b.get(*key)),
        (Object(x, schema, _), Object(y, _, _)) => {
            x.len() == y.len()
                && x.iter().all(|(key, value)| match (y.get(key), schema.property(key)) {
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

fn equal_json(a: &Json, b: &Json, schema: &dyn Schema, work: &mut ComparisonWork) -> bool {
    match (Value::of(a, schema), Value::of(b, schema)) {
        (Some(a), Some(b)) => equal(&a, &b, work),
        _ => a == b,
    }
}

fn equal_lists(a: &Value<'_>, b: &Value<'_>, count: usize, work: &mut ComparisonWork) -> bool {
    let mut same = |index: usize, other: usize| match (a.item(index), b.item(other)) {
        (Some(a), Some(b)) => equal(&a, &b, work),
        (None, None) => true,
        _ => false,
    };
    let unordered = [a, b].iter().any(|list| match list {
        Value::Items(_, schema) => schema.list_identity() != ListIdentity::Index,
        _ => false,
    });
    (0..count).all(|index| same(index, index))
        || (unordered
            && (0..count).all(|index| (0..count).any(|other| same(index, other)))
            && (0..count).all(|other| (0..count).any(|index| same(index, other))))
}

fn equal_maps(a: &Value<'_>, b: &Value<'_>, work: &mut ComparisonWork) -> bool {
    let (Some(keys), Some(others)) = (a.keys(), b.keys()) else { return false };
    keys.len() == others.len()
        && keys.iter().all(|key| match (a.entry(key), b.entry(key)) {
            (Some(a), Some(b)) => equal(&a, &b, work),
            _ => false,
        })
}

/// The order of two values, if they have one.
pub(crate) fn compare(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Some(a.cmp(b));
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Bytes(a), Value::Bytes(b)) => Some(a.cmp(b)),
        (Value::Library(a), Value::Library(b)) => a.partial_cmp(b),
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
