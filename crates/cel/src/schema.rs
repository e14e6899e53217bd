//! The interface to the schemas of objects: what an expression must know of a value before it is evaluated.
//! Reading a schema document, defaulting and validation are left to the implementor.

use std::fmt;

/// The type of a JSON value, as expressions see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// Any JSON value. Its type is known only at evaluation.
    Dynamic,
    /// An integer or a string (`x-kubernetes-int-or-string`).
    IntOrString,
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Int,
    /// Any number.
    Double,
    /// A string.
    String,
    /// A string in base64, which expressions see decoded.
    Bytes,
    /// A string in RFC 3339, which expressions see as a timestamp.
    Timestamp,
    /// A date without a time, which expressions see as the timestamp of its midnight in UTC.
    Date,
    /// A duration such as `1h30m`.
    Duration,
    /// A list. [`Schema::items`] describes its items.
    List,
    /// An object with keys of any name. [`Schema::values`] describes its values.
    Map,
    /// An object with declared fields. [`Schema::property`] describes each.
    Object,
}

/// Whether an object is a Kubernetes resource, of which expressions also see `apiVersion`, `kind` and the names in
/// `metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// A resource: the root of an object, or an embedded resource.
    Resource,
    /// Any other object.
    Plain,
}

/// How the items of a list are told apart when two lists are compared or concatenated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListIdentity<'s> {
    /// By their index.
    Index,
    /// By their whole value; the order has no meaning.
    Value,
    /// By these fields; the order has no meaning.
    Fields(&'s [String]),
}

/// The schema of a JSON value.
///
/// Every method but [`value_type`](Schema::value_type) has a default for values that have no such property.
pub trait Schema: fmt::Debug + Sync {
    /// The type of the value; `None` if expressions cannot see it.
    fn value_type(&self) -> Option<ValueType>;

    /// Whether the value is a Kubernetes resource.
    fn object_kind(&self) -> ObjectKind {
        ObjectKind::Plain
    }

    /// The schema of a field of an object.
    fn property(&self, _name: &str) -> Option<&dyn Schema> {
        None
    }

    /// The schema of the items of a list.
    fn items(&self) -> Option<&dyn Schema> {
        None
    }

    /// The schema of the values of a map.
    fn values(&self) -> Option<&dyn Schema> {
        None
    }

    /// How items of a list are told apart.
    fn list_identity(&self) -> ListIdentity<'_> {
        ListIdentity::Index
    }

    /// The most bytes of a string, items of a list or entries of a map, where the schema limits them.
    fn max_size(&self) -> Option<u64> {
        None
    }

    /// The fewest bytes that a value takes in a request: how many items a list without a limit can hold follows from it.
    fn min_bytes(&self) -> u64 {
        1
    }
}

/// The schema of JSON of which nothing is known.
#[derive(Debug)]
pub(crate) struct AnyJson;

pub(crate) static ANY_JSON: AnyJson = AnyJson;

impl Schema for AnyJson {
    fn value_type(&self) -> Option<ValueType> {
        Some(ValueType::Dynamic)
    }

    fn items(&self) -> Option<&dyn Schema> {
        Some(&ANY_JSON)
    }

    fn values(&self) -> Option<&dyn Schema> {
        Some(&ANY_JSON)
    }
}

/// The schema of a timestamp.
#[derive(Debug)]
pub(crate) struct AnyTimestamp;

impl Schema for AnyTimestamp {
    fn value_type(&self) -> Option<ValueType> {
        Some(ValueType::Timestamp)
    }
}
