//! The functions that expressions can call: how each is written, what it takes and gives, and what it costs.

use super::types::{Library, Type};

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    /// `f(x)`.
    Plain,
    /// `x.f()`; what stands before the dot is the first parameter.
    Member,
    /// `package.f(x)`.
    Packaged(&'static str),
}

/// What a parameter can be.
#[derive(Clone, Copy, Debug)]
pub(super) enum Takes {
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
    /// A list of things that can be compared with each other.
    Ordered,
    /// A list of things that can be added up.
    Summable,
    Map,
    Optional,
    Library(Library),
}

impl Takes {
    pub(super) fn fits(self, kind: &Type<'_>) -> bool {
        match (self, kind) {
            (_, Type::Dyn) | (Self::Anything, _) => true,
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
            (Self::Texts, Type::List(item, _)) => matches!(**item, Type::Dyn | Type::Text(_)),
            (Self::Ordered, Type::List(item, _)) => matches!(
                **item,
                Type::Dyn
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
                matches!(**item, Type::Dyn | Type::Int | Type::Uint | Type::Double | Type::Duration)
            }
            (Self::Library(wanted), Type::Library(found)) => wanted == *found,
            _ => false,
        }
    }
}

/// What a function gives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Gives {
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
    /// The same as the first parameter.
    First,
    /// An item of the first parameter.
    Item,
    /// An item of the first parameter, if there is one.
    PerhapsItem,
    /// The first parameter, or nothing.
    PerhapsFirst,
    /// What the first parameter may hold.
    Held,
    /// What is held by the items of the first parameter.
    HeldItems,
    /// The items of the items of the first parameter.
    Flat,
    PerhapsTexts,
    PerhapsFormat,
    Queries,
    Library(Library),
}

impl Gives {
    pub(super) fn of<'s>(self, parameters: &[Type<'s>]) -> Type<'s> {
        let first = parameters.first().cloned().unwrap_or(Type::Dyn);
        let optional = |kind| Type::Optional(Box::new(kind));
        let texts = |most| Type::List(Box::new(Type::Text(most)), most);
        let item = |list: &Type<'s>| match list {
            Type::List(item, _) => item.as_ref().clone(),
            _ => Type::Dyn,
        };
        match self {
            Self::Anything => Type::Dyn,
            Self::Bool => Type::Bool,
            Self::Int => Type::Int,
            Self::Uint => Type::Uint,
            Self::Double => Type::Double,
            // What is made of text is about as long as all that it is made of.
            Self::Text => Type::Text(parameters.iter().map(text_extent).fold(1, u64::saturating_add)),
            Self::Bytes => Type::Bytes(first.most()),
            Self::Timestamp => Type::Timestamp,
            Self::Duration => Type::Duration,
            Self::Texts => texts(first.most()),
            Self::Numbers => Type::List(Box::new(Type::Int), 1_000),
            Self::Type => Type::Kind,
            Self::First => first,
            Self::Item => item(&first),
            Self::PerhapsItem => optional(item(&first)),
            Self::PerhapsFirst => optional(first),
            Self::Held => match first {
                Type::Optional(held) => *held,
                _ => Type::Dyn,
            },
            Self::HeldItems => match first {
                Type::List(held, most) => match *held {
                    Type::Optional(held) => Type::List(held, most),
                    other => Type::List(Box::new(other), most),
                },
                _ => Type::Dyn,
            },
            Self::Flat => match first {
                Type::List(inner, most) => match *inner {
                    Type::List(item, each) => Type::List(item, most.saturating_mul(each)),
                    other => Type::List(Box::new(other), most),
                },
                other => other,
            },
            Self::PerhapsTexts => optional(texts(64)),
            Self::PerhapsFormat => optional(Type::Library(Library::Format)),
            Self::Queries => Type::Map(Box::new(Type::Text(64)), Box::new(texts(64)), 64),
            Self::Library(library) => Type::Library(library),
        }
    }
}

fn text_extent(kind: &Type<'_>) -> u64 {
    match kind {
        Type::List(item, most) => most.saturating_mul(item.most()),
        other => other.most(),
    }
}

/// One way to call a function.
pub(super) struct Signature {
    pub(super) name: &'static str,
    pub(super) style: Style,
    pub(super) takes: &'static [Takes],
    pub(super) gives: Gives,
}

macro_rules! signatures {
    ($($style:expr => { $($name:literal ($($takes:expr),*) $gives:expr;)* })*) => {
        &[$($(Signature {
            name: $name,
            style: $style,
            takes: {
                #[allow(unused_imports, reason = "some take nothing")]
                use Takes::*;
                &[$($takes),*]
            },
            gives: $gives,
        },)*)*]
    };
}

const QUANTITY: Takes = Takes::Library(Library::Quantity);
const SEMVER: Takes = Takes::Library(Library::Semver);
const URL: Takes = Takes::Library(Library::Url);
const IP: Takes = Takes::Library(Library::Ip);
const CIDR: Takes = Takes::Library(Library::Cidr);
const FORMAT: Takes = Takes::Library(Library::Format);

/// Every function there is. What Kubernetes has and this has not is refused like any unknown name.
pub(super) const SIGNATURES: &[Signature] = signatures! {
    Style::Plain => {
        "size"(Text) Gives::Int;
        "size"(Bytes) Gives::Int;
        "size"(List) Gives::Int;
        "size"(Map) Gives::Int;
        "matches"(Text, Text) Gives::Bool;
        "int"(Int) Gives::Int;
        "int"(Uint) Gives::Int;
        "int"(Double) Gives::Int;
        "int"(Text) Gives::Int;
        "int"(Timestamp) Gives::Int;
        "uint"(Int) Gives::Uint;
        "uint"(Uint) Gives::Uint;
        "uint"(Double) Gives::Uint;
        "uint"(Text) Gives::Uint;
        "double"(Int) Gives::Double;
        "double"(Uint) Gives::Double;
        "double"(Double) Gives::Double;
        "double"(Text) Gives::Double;
        "bool"(Bool) Gives::Bool;
        "bool"(Text) Gives::Bool;
        "string"(Bool) Gives::Text;
        "string"(Int) Gives::Text;
        "string"(Uint) Gives::Text;
        "string"(Double) Gives::Text;
        "string"(Text) Gives::Text;
        "string"(Bytes) Gives::Text;
        "string"(Timestamp) Gives::Text;
        "string"(Duration) Gives::Text;
        "string"(IP) Gives::Text;
        "string"(CIDR) Gives::Text;
        "bytes"(Text) Gives::Bytes;
        "bytes"(Bytes) Gives::Bytes;
        "timestamp"(Text) Gives::Timestamp;
        "timestamp"(Timestamp) Gives::Timestamp;
        "duration"(Text) Gives::Duration;
        "duration"(Duration) Gives::Duration;
        "dyn"(Anything) Gives::Anything;
        "type"(Anything) Gives::Type;
        "url"(Text) Gives::Library(Library::Url);
        "isURL"(Text) Gives::Bool;
        "quantity"(Text) Gives::Library(Library::Quantity);
        "isQuantity"(Text) Gives::Bool;
        "ip"(Text) Gives::Library(Library::Ip);
        "isIP"(Text) Gives::Bool;
        "cidr"(Text) Gives::Library(Library::Cidr);
        "isCIDR"(Text) Gives::Bool;
        "semver"(Text) Gives::Library(Library::Semver);
        "semver"(Text, Bool) Gives::Library(Library::Semver);
        "isSemver"(Text) Gives::Bool;
        "isSemver"(Text, Bool) Gives::Bool;
    }
    Style::Member => {
        "size"(Text) Gives::Int;
        "size"(Bytes) Gives::Int;
        "size"(List) Gives::Int;
        "size"(Map) Gives::Int;
        "contains"(Text, Text) Gives::Bool;
        "startsWith"(Text, Text) Gives::Bool;
        "endsWith"(Text, Text) Gives::Bool;
        "matches"(Text, Text) Gives::Bool;
        "find"(Text, Text) Gives::Text;
        "findAll"(Text, Text) Gives::Texts;
        "findAll"(Text, Text, Int) Gives::Texts;
        "charAt"(Text, Int) Gives::Text;
        "indexOf"(Text, Text) Gives::Int;
        "indexOf"(Text, Text, Int) Gives::Int;
        "indexOf"(List, Anything) Gives::Int;
        "lastIndexOf"(Text, Text) Gives::Int;
        "lastIndexOf"(Text, Text, Int) Gives::Int;
        "lastIndexOf"(List, Anything) Gives::Int;
        "join"(Texts) Gives::Text;
        "join"(Texts, Text) Gives::Text;
        "lowerAscii"(Text) Gives::First;
        "upperAscii"(Text) Gives::First;
        "replace"(Text, Text, Text) Gives::Text;
        "replace"(Text, Text, Text, Int) Gives::Text;
        "split"(Text, Text) Gives::Texts;
        "split"(Text, Text, Int) Gives::Texts;
        "substring"(Text, Int) Gives::First;
        "substring"(Text, Int, Int) Gives::First;
        "trim"(Text) Gives::First;
        "format"(Text, List) Gives::Text;
        "isSorted"(Ordered) Gives::Bool;
        "sum"(Summable) Gives::Item;
        "min"(Ordered) Gives::Item;
        "max"(Ordered) Gives::Item;
        "slice"(List, Int, Int) Gives::First;
        "flatten"(List) Gives::Flat;
        "flatten"(List, Int) Gives::Anything;
        "sort"(Ordered) Gives::First;
        "distinct"(List) Gives::First;
        "reverse"(List) Gives::First;
        "first"(List) Gives::PerhapsItem;
        "last"(List) Gives::PerhapsItem;
        "getFullYear"(Timestamp) Gives::Int;
        "getMonth"(Timestamp) Gives::Int;
        "getDayOfYear"(Timestamp) Gives::Int;
        "getDayOfMonth"(Timestamp) Gives::Int;
        "getDate"(Timestamp) Gives::Int;
        "getDayOfWeek"(Timestamp) Gives::Int;
        "getHours"(Timestamp) Gives::Int;
        "getHours"(Duration) Gives::Int;
        "getMinutes"(Timestamp) Gives::Int;
        "getMinutes"(Duration) Gives::Int;
        "getSeconds"(Timestamp) Gives::Int;
        "getSeconds"(Duration) Gives::Int;
        "getMilliseconds"(Timestamp) Gives::Int;
        "getMilliseconds"(Duration) Gives::Int;
        "hasValue"(Optional) Gives::Bool;
        "value"(Optional) Gives::Held;
        "or"(Optional, Optional) Gives::First;
        "orValue"(Optional, Anything) Gives::Held;
        "unwrapOpt"(List) Gives::HeldItems;
        "getScheme"(URL) Gives::Text;
        "getHost"(URL) Gives::Text;
        "getHostname"(URL) Gives::Text;
        "getPort"(URL) Gives::Text;
        "getEscapedPath"(URL) Gives::Text;
        "getQuery"(URL) Gives::Queries;
        "isInteger"(QUANTITY) Gives::Bool;
        "asInteger"(QUANTITY) Gives::Int;
        "asApproximateFloat"(QUANTITY) Gives::Double;
        "add"(QUANTITY, QUANTITY) Gives::First;
        "add"(QUANTITY, Int) Gives::First;
        "sub"(QUANTITY, QUANTITY) Gives::First;
        "sub"(QUANTITY, Int) Gives::First;
        "isLessThan"(QUANTITY, QUANTITY) Gives::Bool;
        "isGreaterThan"(QUANTITY, QUANTITY) Gives::Bool;
        "compareTo"(QUANTITY, QUANTITY) Gives::Int;
        "isLessThan"(SEMVER, SEMVER) Gives::Bool;
        "isGreaterThan"(SEMVER, SEMVER) Gives::Bool;
        "compareTo"(SEMVER, SEMVER) Gives::Int;
        "major"(SEMVER) Gives::Int;
        "minor"(SEMVER) Gives::Int;
        "patch"(SEMVER) Gives::Int;
        "family"(IP) Gives::Int;
        "isUnspecified"(IP) Gives::Bool;
        "isLoopback"(IP) Gives::Bool;
        "isLinkLocalMulticast"(IP) Gives::Bool;
        "isLinkLocalUnicast"(IP) Gives::Bool;
        "isGlobalUnicast"(IP) Gives::Bool;
        "containsIP"(CIDR, Text) Gives::Bool;
        "containsIP"(CIDR, IP) Gives::Bool;
        "containsCIDR"(CIDR, Text) Gives::Bool;
        "containsCIDR"(CIDR, CIDR) Gives::Bool;
        "ip"(CIDR) Gives::Library(Library::Ip);
        "masked"(CIDR) Gives::First;
        "prefixLength"(CIDR) Gives::Int;
        "validate"(FORMAT, Text) Gives::PerhapsTexts;
    }
    Style::Packaged("optional") => {
        "none"() Gives::Anything;
        "of"(Anything) Gives::PerhapsFirst;
        "ofNonZeroValue"(Anything) Gives::PerhapsFirst;
        "unwrap"(List) Gives::HeldItems;
    }
    Style::Packaged("strings") => {
        "quote"(Text) Gives::Text;
    }
    Style::Packaged("lists") => {
        "range"(Int) Gives::Numbers;
    }
    Style::Packaged("sets") => {
        "contains"(List, List) Gives::Bool;
        "equivalent"(List, List) Gives::Bool;
        "intersects"(List, List) Gives::Bool;
    }
    Style::Packaged("ip") => {
        "isCanonical"(Text) Gives::Bool;
    }
    Style::Packaged("format") => {
        "named"(Text) Gives::PerhapsFormat;
        "dns1123Label"() Gives::Library(Library::Format);
        "dns1123Subdomain"() Gives::Library(Library::Format);
        "dns1035Label"() Gives::Library(Library::Format);
        "dns1123LabelPrefix"() Gives::Library(Library::Format);
        "dns1123SubdomainPrefix"() Gives::Library(Library::Format);
        "dns1035LabelPrefix"() Gives::Library(Library::Format);
        "qualifiedName"() Gives::Library(Library::Format);
        "labelValue"() Gives::Library(Library::Format);
        "uri"() Gives::Library(Library::Format);
        "uuid"() Gives::Library(Library::Format);
        "byte"() Gives::Library(Library::Format);
        "date"() Gives::Library(Library::Format);
        "datetime"() Gives::Library(Library::Format);
    }
};

/// Whether a name is one that functions are packaged under.
pub(super) fn is_package(name: &str) -> bool {
    SIGNATURES.iter().any(|signature| signature.style == Style::Packaged(static_name(name)))
}

fn static_name(name: &str) -> &'static str {
    ["optional", "strings", "lists", "sets", "ip", "format"]
        .into_iter()
        .find(|known| *known == name)
        .unwrap_or_default()
}

/// What a call costs, by how much each parameter holds: the same for an estimate and for a value.
pub(super) fn cost(function: &str, extents: &[u64], of_list: bool) -> u64 {
    let at = |place: usize| extents.get(place).copied().unwrap_or(1);
    let traversal = |extent: u64| extent.div_ceil(10);
    let product = |a: u64, b: u64| a.saturating_mul(b).max(1);
    match function {
        "contains" | "equivalent" | "intersects" if of_list => product(at(0), at(1)),
        "contains" => product(traversal(at(0)), traversal(at(1))),
        "startsWith" | "endsWith" | "string" | "bytes" | "quote" | "format" => traversal(at(0)),
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
        // Expressions that sort or compare all with all pay for it.
        "distinct" => product(at(0), at(0)),
        "sort" | "sortBy" => product(at(0), u64::from(u64::BITS - at(0).leading_zeros())),
        "slice" | "flatten" | "reverse" | "unwrap" | "unwrapOpt" => at(0),
        "range" => 1_000,
        _ => 1,
    }
    .max(1)
}
