//! The types that expressions are checked with before they are kept. Collections carry how much they may hold, which is
//! what costs are estimated by.

use std::fmt;

use super::names;
use super::value::Place;
use crate::schema::{Schema, Type as SchemaType};

/// The largest request: nothing that is validated holds more.
const REQUEST: u64 = 3 * 1024 * 1024;

/// A type, with the most that a value of it can hold.
#[derive(Clone, Debug)]
pub(super) enum Type<'s> {
    /// Anything: known only when there is a value.
    Dyn,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    Text(u64),
    Bytes(u64),
    Timestamp,
    Duration,
    List(Box<Type<'s>>, u64),
    Map(Box<Type<'s>>, Box<Type<'s>>, u64),
    Object(&'s Schema, Place),
    Metadata,
    Optional(Box<Type<'s>>),
    /// A type as a value.
    Kind,
    Library(Library),
}

/// The types that libraries add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Library {
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
}

impl Library {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quantity => "kubernetes.Quantity",
            Self::Url => "kubernetes.URL",
            Self::Ip => "net.IP",
            Self::Cidr => "net.CIDR",
            Self::Semver => "kubernetes.Semver",
            Self::Format => "kubernetes.NamedFormat",
        }
    }
}

/// A limit of a schema, if it limits anything.
pub(crate) fn bound(limit: Option<i64>) -> Option<u64> {
    limit.and_then(|limit| u64::try_from(limit).ok())
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn => f.write_str("dyn"),
            Self::Null => f.write_str("null"),
            Self::Bool => f.write_str("bool"),
            Self::Int => f.write_str("int"),
            Self::Uint => f.write_str("uint"),
            Self::Double => f.write_str("double"),
            Self::Text(_) => f.write_str("string"),
            Self::Bytes(_) => f.write_str("bytes"),
            Self::Timestamp => f.write_str("timestamp"),
            Self::Duration => f.write_str("duration"),
            Self::List(item, _) => write!(f, "list({item})"),
            Self::Map(key, value, _) => write!(f, "map({key}, {value})"),
            Self::Object(..) | Self::Metadata => f.write_str("object"),
            Self::Optional(value) => write!(f, "optional_type({value})"),
            Self::Kind => f.write_str("type"),
            Self::Library(library) => f.write_str(library.name()),
        }
    }
}

impl<'s> Type<'s> {
    /// Text of unknown length.
    pub(super) const TEXT: Self = Self::Text(REQUEST - 2);

    /// The type of values of a schema; nothing, if expressions cannot see them.
    pub(super) fn of(schema: &'s Schema, place: Place) -> Option<Self> {
        let most = bound(schema.rules.max_length).map(|most| most.saturating_mul(4));
        if schema.extensions.int_or_string {
            return Some(Self::Dyn);
        }
        Some(match schema.kind? {
            SchemaType::Boolean => Self::Bool,
            SchemaType::Integer => Self::Int,
            SchemaType::Number => Self::Double,
            SchemaType::String => match schema.rules.format.as_str() {
                "byte" => Self::Bytes(bound(schema.rules.max_length).unwrap_or(REQUEST - 2)),
                "duration" => Self::Duration,
                "date" | "date-time" => Self::Timestamp,
                _ => Self::Text(most.or_else(|| longest(schema)).unwrap_or(REQUEST - 2)),
            },
            SchemaType::Array => {
                let items = schema.items.as_ref()?;
                let item = Self::of(items, Place::of(items))?;
                let most = bound(schema.rules.max_items);
                Self::List(Box::new(item), most.unwrap_or_else(|| REQUEST / (least(items) + 1)))
            }
            SchemaType::Object if place == Place::Resource || schema.additional.is_none() => {
                Self::Object(schema, place)
            }
            SchemaType::Object => match schema.additional.as_ref()?.schema() {
                None => Self::Object(schema, place),
                Some(values) => {
                    let value = Self::of(values, Place::of(values))?;
                    let most = bound(schema.rules.max_properties);
                    let most = most.unwrap_or_else(|| REQUEST / (least(values) + 6));
                    // Kubernetes estimates nothing for the text of keys; what it costs is paid when it is read.
                    Self::Map(Box::new(Self::Text(0)), Box::new(value), most)
                }
            },
        })
    }

    /// The type of a field; nothing, if there is no such field.
    pub(super) fn field(&self, identifier: &str) -> Option<Self> {
        match self {
            Self::Dyn => Some(Self::Dyn),
            Self::Object(schema, place) => {
                if *place == Place::Resource {
                    match identifier {
                        "apiVersion" | "kind" => return Some(Self::TEXT),
                        "metadata" => return Some(Self::Metadata),
                        _ => {}
                    }
                }
                let field = schema.properties.get(&names::unescape(identifier)?)?;
                Self::of(field, Place::of(field))
            }
            Self::Metadata => matches!(identifier, "name" | "generateName").then_some(Self::TEXT),
            Self::Map(_, value, _) => Some(value.as_ref().clone()),
            Self::Optional(value) => Some(Self::Optional(Box::new(value.field(identifier)?))),
            _ => None,
        }
    }

    /// The most that a value can hold; one, if it is no collection.
    pub(super) fn most(&self) -> u64 {
        match self {
            Self::Text(most) | Self::Bytes(most) | Self::List(_, most) | Self::Map(_, _, most) => *most,
            Self::Dyn => REQUEST - 2,
            Self::Optional(value) => value.most(),
            _ => 1,
        }
    }

    /// Whether a value can be of both types.
    pub(super) fn agrees(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn, _) | (_, Self::Dyn) => true,
            // Wrapped and message types can be null; what can be null in a schema is seen as null.
            (Self::Null, Self::Null | Self::Object(..) | Self::Optional(_)) => true,
            (Self::Object(..) | Self::Optional(_), Self::Null) => true,
            (Self::Bool, Self::Bool)
            | (Self::Int, Self::Int)
            | (Self::Uint, Self::Uint)
            | (Self::Double, Self::Double)
            | (Self::Text(_), Self::Text(_))
            | (Self::Bytes(_), Self::Bytes(_))
            | (Self::Timestamp | Self::Null, Self::Timestamp)
            | (Self::Timestamp, Self::Null)
            | (Self::Duration | Self::Null, Self::Duration)
            | (Self::Duration, Self::Null)
            | (Self::Metadata, Self::Metadata)
            | (Self::Kind, Self::Kind) => true,
            (Self::Object(a, _), Self::Object(b, _)) => std::ptr::eq(*a, *b),
            (Self::List(a, _), Self::List(b, _)) => a.agrees(b),
            (Self::Map(a, x, _), Self::Map(b, y, _)) => a.agrees(b) && x.agrees(y),
            (Self::Optional(a), Self::Optional(b)) => a.agrees(b),
            (Self::Library(a), Self::Library(b)) => a == b,
            _ => false,
        }
    }

    /// The type that holds what both hold.
    pub(super) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Self::Text(a.max(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Self::Bytes(a.max(b)),
            (Self::List(a, x), Self::List(b, y)) => Self::List(Box::new(a.join(*b)), x.max(y)),
            (Self::Map(a, x, m), Self::Map(b, y, n)) => {
                Self::Map(Box::new(a.join(*b)), Box::new(x.join(*y)), m.max(n))
            }
            (Self::Optional(a), Self::Optional(b)) => Self::Optional(Box::new(a.join(*b))),
            (Self::Dyn, other) | (Self::Null, other) => other,
            (this, _) => this,
        }
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Dyn | Self::Int | Self::Uint | Self::Double)
    }
}

/// The longest of the values that a schema names.
fn longest(schema: &Schema) -> Option<u64> {
    let values = schema.rules.one_of_values.as_ref()?;
    values.iter().filter_map(|value| value.as_str()).map(|text| text.len() as u64).max()
}

/// The fewest bytes that a value of a schema takes in a request.
pub(super) fn least(schema: &Schema) -> u64 {
    if schema.extensions.int_or_string {
        return 1;
    }
    match schema.kind {
        None | Some(SchemaType::Integer | SchemaType::Number) => 1,
        Some(SchemaType::Boolean) => 4,
        Some(SchemaType::String) => match schema.rules.format.as_str() {
            "duration" => 3,
            "date" => 12,
            "date-time" => 21,
            _ => 2,
        },
        Some(SchemaType::Array) => 2,
        Some(SchemaType::Object) => {
            let required = schema
                .properties
                .iter()
                .filter(|(name, field)| field.default.is_none() && schema.rules.required.contains(name));
            2 + required.map(|(name, field)| name.len() as u64 + least(field) + 4).sum::<u64>()
        }
    }
}
