//! Structural schemas: what an object of a custom kind may hold. One representation, read once from a
//! CustomResourceDefinition, drives defaulting, pruning, validation and what clients are told of the kind.
//!
//! Everything here is pure: a schema and a value in, a value or errors out.

mod default;
mod defaults;
mod email;
mod formats;
mod keywords;
mod lists;
mod pattern;
mod prune;
mod ranges;
mod ratchet;
mod read;
mod resources;
mod structural;
mod validate;
#[cfg(test)]
mod vectors;

use std::collections::BTreeMap;

use serde_json::{Number, Value};

pub(crate) use keywords::{check as check_keywords, drop_nulls, unreadable, unrecognised_formats};
pub(crate) use pattern::Pattern;
pub(crate) use prune::prune;
pub(crate) use ratchet::{Correlated, KeyedItems, Part};
pub(crate) use resources::coerce;

/// How many unknown fields of one object are named; all are dropped.
pub(crate) const NAMED: usize = 1_000;

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
    /// Boxed, because a map sets room aside for more than it holds.
    pub(crate) properties: BTreeMap<String, Box<Schema>>,
    pub(crate) additional: Option<Additional>,
    pub(crate) items: Option<Box<Schema>>,
    pub(crate) extensions: Extensions,
    pub(crate) rules: Rules,
    /// Only that they are there matters: structural schemas forbid them in some places.
    pub(crate) titled: bool,
    pub(crate) described: bool,
}

/// What fields beside the named ones may hold.
#[derive(Clone, Debug)]
pub(crate) enum Additional {
    Nothing,
    Anything,
    Like(Box<Schema>),
}

impl Additional {
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Nothing | Self::Anything => None,
            Self::Like(schema) => Some(schema),
        }
    }
}

/// Kubernetes' own keywords.
#[derive(Clone, Debug, Default, PartialEq)]
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

/// The keywords that restrict values.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) format: String,
    pub(crate) maximum: Option<Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) multiple_of: Option<Number>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Vec<String>,
    pub(crate) one_of_values: Option<Vec<Value>>,
    pub(crate) all_of: Vec<Schema>,
    pub(crate) any_of: Vec<Schema>,
    pub(crate) one_of: Vec<Schema>,
    pub(crate) not: Option<Box<Schema>>,
}

impl Rules {
    /// Whether nothing is restricted.
    fn are_empty(&self) -> bool {
        let numbers = [&self.maximum, &self.minimum, &self.multiple_of];
        let counts = [
            self.max_length,
            self.min_length,
            self.max_items,
            self.min_items,
            self.max_properties,
            self.min_properties,
        ];
        self.format.is_empty()
            && numbers.iter().all(|number| number.is_none())
            && counts.iter().all(Option::is_none)
            && !self.exclusive_maximum
            && !self.exclusive_minimum
            && self.pattern.is_none()
            && self.required.is_empty()
            && self.one_of_values.is_none()
            && [&self.all_of, &self.any_of, &self.one_of].iter().all(|schemas| schemas.is_empty())
            && self.not.is_none()
    }
}

impl Schema {
    /// The schema of a field, named or not.
    pub(crate) fn field(&self, name: &str) -> Option<&Schema> {
        self.properties
            .get(name)
            .map(AsRef::as_ref)
            .or_else(|| self.additional.as_ref().and_then(Additional::schema))
    }

    /// All schemas below this one that describe values, with the path that leads to each.
    pub(crate) fn children(&self) -> impl Iterator<Item = (String, &Schema)> {
        let named =
            self.properties.iter().map(|(name, schema)| (format!("properties[{name}]"), schema.as_ref()));
        let items = self.items.iter().map(|schema| ("items".to_owned(), schema.as_ref()));
        let others = self.additional.iter().filter_map(|additional| {
            additional.schema().map(|schema| ("additionalProperties".to_owned(), schema))
        });
        items.chain(named).chain(others)
    }
}
