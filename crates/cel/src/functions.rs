//! The functions that expressions can call: how each is called, its parameters, its result and its cost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::types::{LibraryType, Type};

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// `f(x)`.
    Plain,
    /// `x.f()`; `x` is the first parameter.
    Member,
    /// `namespace.f(x)`.
    Namespaced(&'static str),
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Parameter {
    Anything,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    List,
    Texts,
    /// A list whose items have an order.
    Ordered,
    /// A list whose items can be added.
    Summable,
    Map,
    Optional,
    Library(LibraryType),
}

impl Parameter {
    pub(crate) fn accepts(self, kind: &Type<'_>) -> bool {
        match (self, kind) {
            (_, Type::Dyn(_)) | (Self::Anything, _) => true,
            (Self::Bool, Type::Bool)
            | (Self::Int, Type::Int)
            | (Self::Uint, Type::Uint)
            | (Self::Double, Type::Double)
            | (Self::Text, Type::Text(_))
            | (Self::Bytes, Type::Bytes(_))
            | (Self::Timestamp, Type::Timestamp)
            | (Self::Duration, Type::Duration)
            | (Self::List, Type::List(..))
            | (Self::Map, Type::Map(..))
            | (Self::Optional, Type::Optional(_)) => true,
            (Self::Texts, Type::List(item, _)) => matches!(**item, Type::Dyn(_) | Type::Text(_)),
            (Self::Ordered, Type::List(item, _)) => matches!(
                **item,
                Type::Dyn(_)
                    | Type::Bool
                    | Type::Int
                    | Type::Uint
                    | Type::Double
                    | Type::Text(_)
                    | Type::Bytes(_)
                    | Type::Timestamp
                    | Type::Duration
            ),
            (Self::Summable, Type::List(item, _)) => {
                matches!(**item, Type::Dyn(_) | Type::Int | Type::Uint | Type::Double | Type::Duration)
            }
            (Self::Library(wanted), Type::Library(found)) => wanted == *found,
            _ => false,
        }
    }
}

/// The type of a result.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Returns {
    Anything,
    Bool,
    Int,
    Uint,
    Double,
    Text,
    Bytes,
    Timestamp,
    Duration,
    Texts,
    Numbers,
    Type,
    /// The type of the first parameter.
    First,
    /// An item of the first parameter.
    Item,
    /// An optional item of the first parameter.
    OptionalItem,
    /// An optional of the type of the first parameter.
    OptionalFirst,
    /// The value of the first parameter, which is optional.
    Unwrapped,
    /// The values of the items of the first parameter, which are optional.
    UnwrappedItems,
    /// The items of the items of the first parameter.
    Flat,
    OptionalTexts,
    OptionalFormat,
    Queries,
    Library(LibraryType),
}

impl Returns {
    /// The type of a result; what is not known of it is taken to have `dynamic_size` elements.
    pub(crate) fn resolve<'s>(self, parameters: &[Type<'s>], dynamic_size: u64) -> Type<'s> {
        let dynamic = || Type::Dyn(dynamic_size);
        let first = parameters.first().cloned().unwrap_or_else(dynamic);
        let optional = |kind| Type::Optional(Box::new(kind));
        let texts = |size| Type::List(Box::new(Type::Text(size)), size);
        let item = |list: &Type<'s>| match list {
            Type::List(item, _) => item.as_ref().clone(),
            _ => dynamic(),
        };
        match self {
            Self::Anything => dynamic(),
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            // Text that is built is about as long as all that it is built from.
            Self::Text => Type::Text(parameters.iter().map(text_size).fold(1, u64::saturating_add)),
            Self::Bytes => Type::Bytes(first.max_size()),
            Self::Timestamp => Type::Timestamp,
            Self::Duration => Type::Duration,
            Self::Texts => texts(first.max_size()),
            Self::Numbers => Type::List(Box::new(Type::Int), 1_000),
            Self::Type => Type::Meta,
            Self::First => first,
            Self::Item => item(&first),
            Self::OptionalItem => optional(item(&first)),
            Self::OptionalFirst => optional(first),
            Self::Unwrapped => match first {
                Type::Optional(value) => *value,
                _ => dynamic(),
            },
            Self::UnwrappedItems => match first {
                Type::List(value, most) => match *value {
                    Type::Optional(value) => Type::List(value, most),
                    other => Type::List(Box::new(other), most),
                },
                _ => dynamic(),
            },
            Self::Flat => match first {
                Type::List(inner, most) => match *inner {
                    Type::List(item, each) => Type::List(item, most.saturating_mul(each)),
                    other => Type::List(Box::new(other), most),
                },
                other => other,
            },
            Self::OptionalTexts => optional(texts(64)),
            Self::OptionalFormat => optional(Type::Library(LibraryType::Format)),
            Self::Queries => Type::Map(Box::new(Type::Text(64)), Box::new(texts(64)), 64),
            Self::Library(library) => Type::Library(library),
        }
    }
}

fn text_size(kind: &Type<'_>) -> u64 {
    match kind {
        Type::List(item, most) => most.saturating_mul(item.max_size()),
        other => other.max_size(),
    }
}

/// One way to call a function.
pub(crate) struct Signature {
    pub(crate) name: &'static str,
    pub(crate) style: Style,
    pub(crate) parameters: &'static [Parameter],
    pub(crate) returns: Returns,
}

macro_rules! signatures {
    ($($style:expr => { $($name:literal ($($parameter:expr),*) $returns:expr;)* })*) => {
        &[$($(Signature {
            name: $name,
            style: $style,
            parameters: {
                #[allow(unused_imports, reason = "some have no parameters")]
                use Parameter::*;
                &[$($parameter),*]
            },
            returns: $returns,
        },)*)*]
    };
}

const QUANTITY: Parameter = Parameter::Library(LibraryType::Quantity);
const SEMVER: Parameter = Parameter::Library(LibraryType::Semver);
const URL: Parameter = Parameter::Library(LibraryType::Url);
const IP: Parameter = Parameter::Library(LibraryType::Ip);
const CIDR: Parameter = Parameter::Library(LibraryType::Cidr);
const FORMAT: Parameter = Parameter::Library(LibraryType::Format);

/// Every function there is. One that only Kubernetes has is rejected like any undeclared name.
pub(crate) const SIGNATURES: &[Signature] = signatures! {
    Style::Plain => {
        "size"(Text) Returns::Int;
        "size"(Bytes) Returns::Int;
        "size"(List) Returns::Int;
        "size"(Map) Returns::Int;
        "matches"(Text, Text) Returns::Bool;
        "int"(Int) Returns::Int;
        "int"(Uint) Returns::Int;
        "int"(Double) Returns::Int;
        "int"(Text) Returns::Int;
        "int"(Timestamp) Returns::Int;
        "uint"(Int) Returns::Uint;
        "uint"(Uint) Returns::Uint;
        "uint"(Double) Returns::Uint;
        "uint"(Text) Returns::Uint;
        "double"(Int) Returns::Double;
        "double"(Uint) Returns::Double;
        "double"(Double) Returns::Double;
        "double"(Text) Returns::Double;
        "bool"(Bool) Returns::Bool;
        "bool"(Text) Returns::Bool;
        "string"(Bool) Returns::Text;
        "string"(Int) Returns::Text;
        "string"(Uint) Returns::Text;
        "string"(Double) Returns::Text;
        "string"(Text) Returns::Text;
        "string"(Bytes) Returns::Text;
        "string"(Timestamp) Returns::Text;
        "string"(Duration) Returns::Text;
        "string"(IP) Returns::Text;
        "string"(CIDR) Returns::Text;
        "bytes"(Text) Returns::Bytes;
        "bytes"(Bytes) Returns::Bytes;
        "timestamp"(Text) Returns::Timestamp;
        "timestamp"(Timestamp) Returns::Timestamp;
        "duration"(Text) Returns::Duration;
        "duration"(Duration) Returns::Duration;
        "dyn"(Anything) Returns::Anything;
        "type"(Anything) Returns::Type;
        "url"(Text) Returns::Library(LibraryType::Url);
        "isURL"(Text) Returns::Bool;
        "quantity"(Text) Returns::Library(LibraryType::Quantity);
        "isQuantity"(Text) Returns::Bool;
        "ip"(Text) Returns::Library(LibraryType::Ip);
        "isIP"(Text) Returns::Bool;
        "cidr"(Text) Returns::Library(LibraryType::Cidr);
        "isCIDR"(Text) Returns::Bool;
        "semver"(Text) Returns::Library(LibraryType::Semver);
        "semver"(Text, Bool) Returns::Library(LibraryType::Semver);
        "isSemver"(Text) Returns::Bool;
        "isSemver"(Text, Bool) Returns::Bool;
    }
    Style::Member => {
        "size"(Text) Returns::Int;
        "size"(Bytes) Returns::Int;
        "size"(List) Returns::Int;
        "size"(Map) Returns::Int;
        "contains"(Text, Text) Returns::Bool;
        "startsWith"(Text, Text) Returns::Bool;
        "endsWith"(Text, Text) Returns::Bool;
        "matches"(Text, Text) Returns::Bool;
        "find"(Text, Text) Returns::Text;
        "findAll"(Text, Text) Returns::Texts;
        "findAll"(Text, Text, Int) Returns::Texts;
        "charAt"(Text, Int) Returns::Text;
        "indexOf"(Text, Text) Returns::Int;
        "indexOf"(Text, Text, Int) Returns::Int;
        "indexOf"(List, Anything) Returns::Int;
        "lastIndexOf"(Text, Text) Returns::Int;
        "lastIndexOf"(Text, Text, Int) Returns::Int;
        "lastIndexOf"(List, Anything) Returns::Int;
        "join"(Texts) Returns::Text;
        "join"(Texts, Text) Returns::Text;
        "lowerAscii"(Text) Returns::First;
        "upperAscii"(Text) Returns::First;
        "replace"(Text, Text, Text) Returns::Text;
        "replace"(Text, Text, Text, Int) Returns::Text;
        "split"(Text, Text) Returns::Texts;
        "split"(Text, Text, Int) Returns::Texts;
        "substring"(Text, Int) Returns::First;
        "substring"(Text, Int, Int) Returns::First;
        "trim"(Text) Returns::First;
        "format"(Text, List) Returns::Text;
        "isSorted"(Ordered) Returns::Bool;
        "sum"(Summable) Returns::Item;
        "min"(Ordered) Returns::Item;
        "max"(Ordered) Returns::Item;
        "slice"(List, Int, Int) Returns::First;
        "flatten"(List) Returns::Flat;
        "flatten"(List, Int) Returns::Anything;
        "sort"(Ordered) Returns::First;
        "distinct"(List) Returns::First;
        "reverse"(List) Returns::First;
        "first"(List) Returns::OptionalItem;
        "last"(List) Returns::OptionalItem;
        "getFullYear"(Timestamp) Returns::Int;
        "getMonth"(Timestamp) Returns::Int;
        "getDayOfYear"(Timestamp) Returns::Int;
        "getDayOfMonth"(Timestamp) Returns::Int;
        "getDate"(Timestamp) Returns::Int;
        "getDayOfWeek"(Timestamp) Returns::Int;
        "getHours"(Timestamp) Returns::Int;
        "getHours"(Duration) Returns::Int;
        "getMinutes"(Timestamp) Returns::Int;
        "getMinutes"(Duration) Returns::Int;
        "getSeconds"(Timestamp) Returns::Int;
        "getSeconds"(Duration) Returns::Int;
        "getMilliseconds"(Timestamp) Returns::Int;
        "getMilliseconds"(Duration) Returns::Int;
        "hasValue"(Optional) Returns::Bool;
        "value"(Optional) Returns::Unwrapped;
        "or"(Optional, Optional) Returns::First;
        "orValue"(Optional, Anything) Returns::Unwrapped;
        "unwrapOpt"(List) Returns::UnwrappedItems;
        "getScheme"(URL) Returns::Text;
        "getHost"(URL) Returns::Text;
        "getHostname"(URL) Returns::Text;
        "getPort"(URL) Returns::Text;
        "getEscapedPath"(URL) Returns::Text;
        "getQuery"(URL) Returns::Queries;
        "isInteger"(QUANTITY) Returns::Bool;
        "asInteger"(QUANTITY) Returns::Int;
        "asApproximateFloat"(QUANTITY) Returns::Double;
        "add"(QUANTITY, QUANTITY) Returns::First;
        "add"(QUANTITY, Int) Returns::First;
        "sub"(QUANTITY, QUANTITY) Returns::First;
        "sub"(QUANTITY, Int) Returns::First;
        "isLessThan"(QUANTITY, QUANTITY) Returns::Bool;
        "isGreaterThan"(QUANTITY, QUANTITY) Returns::Bool;
        "compareTo"(QUANTITY, QUANTITY) Returns::Int;
        "isLessThan"(SEMVER, SEMVER) Returns::Bool;
        "isGreaterThan"(SEMVER, SEMVER) Returns::Bool;
        "compareTo"(SEMVER, SEMVER) Returns::Int;
        "major"(SEMVER) Returns::Int;
        "minor"(SEMVER) Returns::Int;
        "patch"(SEMVER) Returns::Int;
        "family"(IP) Returns::Int;
        "isUnspecified"(IP) Returns::Bool;
        "isLoopback"(IP) Returns::Bool;
        "isLinkLocalMulticast"(IP) Returns::Bool;
        "isLinkLocalUnicast"(IP) Returns::Bool;
        "isGlobalUnicast"(IP) Returns::Bool;
        "containsIP"(CIDR, Text) Returns::Bool;
        "containsIP"(CIDR, IP) Returns::Bool;
        "containsCIDR"(CIDR, Text) Returns::Bool;
        "containsCIDR"(CIDR, CIDR) Returns::Bool;
        "ip"(CIDR) Returns::Library(LibraryType::Ip);
        "masked"(CIDR) Returns::First;
        "prefixLength"(CIDR) Returns::Int;
        "validate"(FORMAT, Text) Returns::OptionalTexts;
    }
    Style::Namespaced("optional") => {
        "none"() Returns::Anything;
        "of"(Anything) Returns::OptionalFirst;
        "ofNonZeroValue"(Anything) Returns::OptionalFirst;
        "unwrap"(List) Returns::UnwrappedItems;
    }
    Style::Namespaced("strings") => {
        "quote"(Text) Returns::Text;
    }
    Style::Namespaced("lists") => {
        "range"(Int) Returns::Numbers;
    }
    Style::Namespaced("sets") => {
        "contains"(List, List) Returns::Bool;
        "equivalent"(List, List) Returns::Bool;
        "intersects"(List, List) Returns::Bool;
    }
    Style::Namespaced("ip") => {
        "isCanonical"(Text) Returns::Bool;
    }
    Style::Namespaced("format") => {
        "named"(Text) Returns::OptionalFormat;
        "dns1123Label"() Returns::Library(LibraryType::Format);
        "dns1123Subdomain"() Returns::Library(LibraryType::Format);
        "dns1035Label"() Returns::Library(LibraryType::Format);
        "dns1123LabelPrefix"() Returns::Library(LibraryType::Format);
        "dns1123SubdomainPrefix"() Returns::Library(LibraryType::Format);
        "dns1035LabelPrefix"() Returns::Library(LibraryType::Format);
        "qualifiedName"() Returns::Library(LibraryType::Format);
        "labelValue"() Returns::Library(LibraryType::Format);
        "uri"() Returns::Library(LibraryType::Format);
        "uuid"() Returns::Library(LibraryType::Format);
        "byte"() Returns::Library(LibraryType::Format);
        "date"() Returns::Library(LibraryType::Format);
        "datetime"() Returns::Library(LibraryType::Format);
    }
};

/// Whether functions are called with this name before the dot.
pub(crate) fn is_namespace(name: &str) -> bool {
    SIGNATURES.iter().any(|signature| signature.style == Style::Namespaced(static_name(name)))
}

fn static_name(name: &str) -> &'static str {
    ["optional", "strings", "lists", "sets", "ip", "format"]
        .into_iter()
        .find(|known| *known == name)
        .unwrap_or_default()
}

/// Functions on JSON, which an environment adds to those of Kubernetes.
const JSON_SIGNATURES: &[Signature] = signatures! {
    Style::Plain => {
        "toJson"(Anything) Returns::Text;
        "dig"(Anything, Text) Returns::Anything;
    }
};

/// What a function of an environment is called with.
#[derive(Debug)]
pub struct Call<'c> {
    pub(crate) arguments: Vec<Json>,
    pub(crate) inputs: &'c [(&'c str, &'c Json)],
}

impl Call<'_> {
    /// The arguments. There are as many as were declared.
    pub fn arguments(&self) -> &[Json] {
        &self.arguments
    }

    /// The value of a variable of the evaluation.
    pub fn variable(&self, name: &str) -> Option<&Json> {
        self.inputs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

type Implementation = Arc<dyn Fn(&Call<'_>) -> Result<Json, String> + Send + Sync>;

/// A function that an environment adds.
#[derive(Clone)]
pub(crate) struct CustomFunction {
    pub(crate) parameters: usize,
    pub(crate) implementation: Implementation,
}

impl fmt::Debug for CustomFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomFunction").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// The functions that an environment adds to those of Kubernetes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Functions {
    pub(crate) json: bool,
    pub(crate) custom: BTreeMap<String, CustomFunction>,
}

impl Functions {
    /// No added functions.
    pub(crate) const NONE: &'static Self = &Self { json: false, custom: BTreeMap::new() };

    /// How many parameters an added function has.
    pub(crate) fn custom_parameters(&self, name: &str) -> Option<usize> {
        self.custom.get(name).map(|function| function.parameters)
    }

    pub(crate) fn json_signatures(&self) -> &'static [Signature] {
        if self.json { JSON_SIGNATURES } else { &[] }
    }
}

/// The cost of a call, by the size of each parameter: the same for an estimate and for an evaluation.
pub(crate) fn cost(function: &str, sizes: &[u64], of_list: bool) -> u64 {
    let at = |index: usize| sizes.get(index).copied().unwrap_or(1);
    let traversal = |size: u64| size.div_ceil(10);
    let product = |a: u64, b: u64| a.saturating_mul(b).max(1);
    match function {
        "contains" | "equivalent" | "intersects" if of_list => product(at(0), at(1)),
        "contains" => product(traversal(at(0)), traversal(at(1))),
        "startsWith" | "endsWith" | "string" | "bytes" | "quote" | "format" | "toJson" => traversal(at(0)),
        "matches" | "find" | "findAll" => product(traversal(at(0) + 1), at(1).div_ceil(4)),
        "indexOf" | "lastIndexOf" | "isSorted" | "sum" | "min" | "max" if of_list => at(0),
        "indexOf" | "lastIndexOf" => product(traversal(at(0)), traversal(at(1))),
        "split" | "replace" | "join" | "isCanonical" => traversal(at(0).saturating_mul(2)),
        "_+_" => traversal(at(0).saturating_add(at(1))),
        "_==_" | "_!=_" | "_<_" | "_<=_" | "_>_" | "_>=_" => traversal(at(0).min(at(1))),
        "@in" if of_list => at(1),
        "lowerAscii" | "upperAscii" | "substring" | "charAt" | "trim" | "url" | "isURL" | "quantity"
        | "isQuantity" | "semver" | "isSemver" | "ip" | "isIP" | "cidr" | "isCIDR" | "containsIP"
        | "containsCIDR" => traversal(at(0)) + traversal(at(1)),
        "validate" => product(traversal(at(1) + 1), 32),
        // Sorting, and comparing every item with every other, costs accordingly.
        "distinct" => product(at(0), at(0)),
        "sort" | "sortBy" => product(at(0), u64::from(u64::BITS - at(0).leading_zeros())),
        "slice" | "flatten" | "reverse" | "unwrap" | "unwrapOpt" => at(0),
        "range" => 1_000,
        _ => 1,
    }
    .max(1)
}
