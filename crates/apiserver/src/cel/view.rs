//! A structural schema as expressions see it.

use bellwether_cel::{ListIdentity, ObjectKind, Schema as View, ValueType};

use crate::schema::{ListType, Schema, Type};

/// A limit of a schema, if it limits anything.
pub(crate) fn bound(limit: Option<i64>) -> Option<u64> {
    limit.and_then(|limit| u64::try_from(limit).ok())
}

impl View for Schema {
    fn value_type(&self) -> Option<ValueType> {
        if self.extensions.int_or_string {
            return Some(ValueType::IntOrString);
        }
        Some(match self.kind? {
            Type::Boolean => ValueType::Bool,
            Type::Integer => ValueType::Int,
            Type::Number => ValueType::Double,
            Type::String => match self.rules.format.as_str() {
                "byte" => ValueType::Bytes,
                "duration" => ValueType::Duration,
                "date" => ValueType::Date,
                "date-time" => ValueType::Timestamp,
                _ => ValueType::String,
            },
            Type::Array => ValueType::List,
            Type::Object if self.values().is_some() => ValueType::Map,
            Type::Object => ValueType::Object,
        })
    }

    fn object_kind(&self) -> ObjectKind {
        if self.extensions.embedded_resource { ObjectKind::Resource } else { ObjectKind::Plain }
    }

    fn property(&self, name: &str) -> Option<&dyn View> {
        self.properties.get(name).map(|schema| schema.as_ref() as &dyn View)
    }

    fn items(&self) -> Option<&dyn View> {
        self.items.as_deref().map(|schema| schema as &dyn View)
    }

    fn values(&self) -> Option<&dyn View> {
        self.additional.as_ref()?.schema().map(|schema| schema as &dyn View)
    }

    fn list_identity(&self) -> ListIdentity<'_> {
        match self.extensions.list_type {
            Some(ListType::Set) => ListIdentity::Value,
            Some(ListType::Map) => ListIdentity::Fields(&self.extensions.list_map_keys),
            Some(ListType::Atomic) | None => ListIdentity::Index,
        }
    }

    fn max_size(&self) -> Option<u64> {
        match self.value_type()? {
            // A character has up to four bytes.
            ValueType::String => bound(self.rules.max_length)
                .map(|length| length.saturating_mul(4))
                .or_else(|| longest_value(self)),
            ValueType::Bytes => bound(self.rules.max_length),
            ValueType::List => bound(self.rules.max_items),
            ValueType::Map => bound(self.rules.max_properties),
            _ => None,
        }
    }

    fn min_bytes(&self) -> u64 {
        match self.value_type() {
            None | Some(ValueType::Dynamic | ValueType::IntOrString | ValueType::Int | ValueType::Double) => {
                1
            }
            Some(ValueType::Bool) => 4,
            Some(ValueType::Duration) => 3,
            Some(ValueType::Date) => 12,
            Some(ValueType::Timestamp) => 21,
            Some(ValueType::String | ValueType::Bytes | ValueType::List) => 2,
            Some(ValueType::Map | ValueType::Object) => {
                let required = self
                    .properties
                    .iter()
                    .filter(|(name, field)| field.default.is_none() && self.rules.required.contains(name));
                2 + required.map(|(name, field)| name.len() as u64 + field.min_bytes() + 4).sum::<u64>()
            }
        }
    }
}

/// The length of the longest value that a schema enumerates.
fn longest_value(schema: &Schema) -> Option<u64> {
    let values = schema.rules.one_of_values.as_ref()?;
    values.iter().filter_map(|value| value.as_str()).map(|text| text.len() as u64).max()
}
