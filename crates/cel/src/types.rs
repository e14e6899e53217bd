//! The types that the checker computes with. Collections carry the most that they can hold, which is what costs are
//! estimated by.

use std::fmt;

use crate::names;
use crate::schema::{ObjectKind, Schema, ValueType};

/// The size limit of a request: no value in one holds more.
pub(crate) const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;
/// The most bytes of a string that no schema limits: a request without its quotes.
const MAX_TEXT_BYTES: u64 = MAX_REQUEST_BYTES - 2;

/// A type, with the most that a value of it can hold.
#[derive(Clone, Debug)]
pub(crate) enum Type<'s> {
    /// Any type, known only at evaluation.
    Dyn(u64),
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
    Object(&'s dyn Schema, ObjectKind),
    Metadata,
    Optional(Box<Type<'s>>),
    /// The type of types.
    Meta,
    Library(LibraryType),
}

/// The types that Kubernetes' libraries add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LibraryType {
    Quantity,
    Url,
    Ip,
    Cidr,
    Semver,
    Format,
}

impl LibraryType {
    pub(crate) fn name(self) -> &'static str {
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

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dyn(_) => f.write_str("dyn"),
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
            Self::Meta => f.write_str("type"),
            Self::Library(library) => f.write_str(library.name()),
        }
    }
}

impl<'s> Type<'s> {
    /// Text of unknown length.
    pub(crate) const TEXT: Self = Self::Text(MAX_TEXT_BYTES);
    /// A value of which nothing is known, not even its size.
    pub(crate) const DYN: Self = Self::Dyn(MAX_TEXT_BYTES);

    /// The type of values of a schema; `None` if expressions cannot see them.
    pub(crate) fn of(schema: &'s dyn Schema) -> Option<Self> {
        Self::of_object(schema, schema.object_kind())
    }

    /// The same for a value that may be a resource although its schema does not say so.
    pub(crate) fn of_object(schema: &'s dyn Schema, kind: ObjectKind) -> Option<Self> {
        Some(match schema.value_type()? {
            ValueType::Dynamic => Self::Dyn(schema.max_size().unwrap_or(MAX_TEXT_BYTES)),
            ValueType::IntOrString => Self::DYN,
            ValueType::Bool => Self::Bool,
            ValueType::Int => Self::Int,
            ValueType::Double => Self::Double,
            ValueType::String => Self::Text(schema.max_size().unwrap_or(MAX_TEXT_BYTES)),
            ValueType::Bytes => Self::Bytes(schema.max_size().unwrap_or(MAX_TEXT_BYTES)),
            ValueType::Timestamp | ValueType::Date => Self::Timestamp,
            ValueType::Duration => Self::Duration,
            ValueType::List => {
                let items = schema.items()?;
                let max_items =
                    schema.max_size().unwrap_or_else(|| MAX_REQUEST_BYTES / (items.min_bytes() + 1));
                Self::List(Box::new(Self::of(items)?), max_items)
            }
            ValueType::Map if kind == ObjectKind::Plain => {
                let values = schema.values()?;
                let max_entries =
                    schema.max_size().unwrap_or_else(|| MAX_REQUEST_BYTES / (values.min_bytes() + 6));
                // Kubernetes estimates nothing for the text of keys; it is charged when it is read.
                Self::Map(Box::new(Self::Text(0)), Box::new(Self::of(values)?), max_entries)
            }
            ValueType::Map | ValueType::Object => Self::Object(schema, kind),
        })
    }

    /// The type of a field; `None` if there is no such field.
    pub(crate) fn field(&self, identifier: &str) -> Option<Self> {
        match self {
            Self::Dyn(size) => Some(Self::Dyn(*size)),
            Self::Object(schema, kind) => {
                if *kind == ObjectKind::Resource {
                    match identifier {
                        "apiVersion" | "kind" => return Some(Self::TEXT),
                        "metadata" => return Some(Self::Metadata),
                        _ => {}
                    }
                }
                Self::of(schema.property(&names::unescape(identifier)?)?)
            }
            Self::Metadata => matches!(identifier, "name" | "generateName").then_some(Self::TEXT),
            Self::Map(_, value, _) => Some(value.as_ref().clone()),
            Self::Optional(value) => Some(Self::Optional(Box::new(value.field(identifier)?))),
            _ => None,
        }
    }

    /// The most elements of a collection or bytes of a text; one for all other types.
    pub(crate) fn max_size(&self) -> u64 {
        match self {
            Self::Dyn(size)
            | Self::Text(size)
            | Self::Bytes(size)
            | Self::List(_, size)
            | Self::Map(_, _, size) => *size,
            Self::Optional(value) => value.max_size(),
            _ => 1,
        }
    }

    /// Whether a value can be of both types.
    pub(crate) fn is_compatible_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Dyn(_), _) | (_, Self::Dyn(_)) => true,
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
            | (Self::Meta, Self::Meta) => true,
            (Self::Object(a, _), Self::Object(b, _)) => std::ptr::addr_eq(*a, *b),
            (Self::List(a, _), Self::List(b, _)) => a.is_compatible_with(b),
            (Self::Map(a, x, _), Self::Map(b, y, _)) => a.is_compatible_with(b) && x.is_compatible_with(y),
            (Self::Optional(a), Self::Optional(b)) => a.is_compatible_with(b),
            (Self::Library(a), Self::Library(b)) => a == b,
            _ => false,
        }
    }

    /// The type of a value that has one of two compatible types.
    pub(crate) fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => Self::Text(a.max(b)),
            (Self::Bytes(a), Self::Bytes(b)) => Self::Bytes(a.max(b)),
            (Self::List(a, x), Self::List(b, y)) => Self::List(Box::new(a.join(*b)), x.max(y)),
            (Self::Map(a, x, m), Self::Map(b, y, n)) => {
                Self::Map(Box::new(a.join(*b)), Box::new(x.join(*y)), m.max(n))
            }
            (Self::Optional(a), Self::Optional(b)) => Self::Optional(Box::new(a.join(*b))),
            (Self::Dyn(_) | Self::Null, other) => other,
            (this, _) => this,
        }
    }

    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::Dyn(_) | Self::Int | Self::Uint | Self::Double)
    }
}
