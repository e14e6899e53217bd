//! Structural schemas: what an object of a custom kind may hold. One representation, read once from a
//! CustomResourceDefinition, drives defaulting, pruning, validation and what clients are told of the kind.
//!
//! Everything here is pure: a schema and a value in, a value or errors out.

mod default;
mod formats;
mod prune;
mod ratchet;
mod read;
mod structural;
mod validate;

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Number, Value};

pub(crate) use prune::prune;
pub(crate) use ratchet::{Correlated, KeyedItems, Part};

/// The types of JSON values that a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// What a value may be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) extensions: Extensions,
    pub(crate) rules: Rules,
    /// Only that it is there matters: structural schemas forbid it in some places.
    pub(crate) documented: bool,
}

/// What fields beside the named ones may hold.
#[derive(Clone, Debug)]
pub(crate) enum Additional {
    Anything,
    Like(Box<Schema>),
}

impl Additional {
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Anything => None,
            Self::Like(schema) => Some(schema),
        }
    }
}

/// Kubernetes' own keywords.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extensions {
    pub(crate) preserve_unknown_fields: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_type: Option<ListType>,
    pub(crate) list_map_keys: Vec<String>,
    pub(crate) map_type: Option<MapType>,
    pub(crate) validations: Vec<Value>,
}

/// How the items of a list are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListType {
    Atomic,
    Set,
    Map,
}

/// Whether an object is one value or a value a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapType {
    Atomic,
    Granular,
}

/// A regular expression with the text it was made from.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) regex: Regex,
}

/// The keywords that restrict values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) format: String,
    pub(crate) maximum: Option<Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) max_length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<u64>,
    pub(crate) min_items: Option<u64>,
    pub(crate) max_properties: Option<u64>,
    pub(crate) min_properties: Option<u64>,
    pub(crate) required: Vec<String>,
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

impl Schema {
    /// The schema of a field, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional.as_ref().and_then(Additional::schema))
    }

    /// All schemas below this one that describe values, with the path that leads to each.
    pub(crate) fn children(&self) -> impl Iterator<Item = (String, &Schema)> {
        let named = self.properties.iter().map(|(name, schema)| (format!("properties[{name}]"), schema));
        let items = self.items.iter().map(|schema| ("items".to_owned(), schema.as_ref()));
        let others = self.additional.iter().filter_map(|additional| {
            additional.schema().map(|schema| ("additionalProperties".to_owned(), schema))
        });
        items.chain(named).chain(others)
    }
}
