//! From a message to an object, field by field, as the shapes of Kubernetes' types number them. What Go leaves out
//! of JSON when it is empty is left out here; behind a pointer, empty is a value.

use serde_json::{Map, Value};

use super::special;
use super::wire::{Reader, Tag, Wire, expect};
use crate::object::Object;
use crate::shape::{Field, Kind, Plain, Shapes, is_empty};

/// How deep an object may be: as deep as text that is read as JSON, because it will be stored as such.
const DEPTH_LIMIT: usize = 127;
/// How many values an object may have. In protobuf one can take two bytes, and in memory hundreds; what could be
/// stored has fewer.
const VALUE_LIMIT: usize = 250_000;

pub(super) struct Decoder<'s> {
    shapes: &'s Shapes,
    depth: usize,
    values: usize,
}

impl<'s> Decoder<'s> {
    pub(super) fn new(shapes: &'s Shapes) -> Self {
        Self { shapes, depth: 0, values: 0 }
    }

    pub(super) fn object(&mut self, type_name: &str, bytes: &[u8]) -> Result<Object, String> {
        let mut object = Map::new();
        self.merge(type_name, bytes, &mut object)?;
        Ok(object)
    }

    /// Reads a message into an object that may hold an earlier part of it.
    fn merge(&mut self, type_name: &str, bytes: &[u8], into: &mut Object) -> Result<(), String> {
        let fields: &'s [Field] = self.shapes.fields(type_name);
        let message = type_name.rsplit('.').next().unwrap_or_default();
        let mut reader = Reader::new(bytes);
        self.deeper(|decoder| {
            while let Some(tag) = reader.tag(message)? {
                decoder.count()?;
                match fields.iter().find(|field| field.proto == Some(tag.number)) {
                    Some(field) => decoder.field(field, tag, &mut reader, into)?,
                    None => reader.skip(tag.wire)?,
                }
            }
            Ok(())
        })
    }

    fn field(
        &mut self,
        field: &Field,
        tag: Tag,
        reader: &mut Reader<'_>,
        into: &mut Object,
    ) -> Result<(), String> {
        match field.kind.base() {
            Kind::Struct { r#struct } => {
                expect(tag.wire, Wire::BYTES, &field.go)?;
                let bytes = reader.bytes()?;
                if field.inline {
                    return self.merge(r#struct, bytes, into);
                }
                match object_at(into, &field.json) {
                    Some(below) => self.merge(r#struct, bytes, below),
                    None => Ok(()),
                }
            }
            Kind::List { list } => {
                let items = into.entry(&field.json).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(items) = items else { return Ok(()) };
                self.deeper(|decoder| decoder.items(list, &field.go, tag, reader, items))
            }
            Kind::Map { map } => {
                expect(tag.wire, Wire::BYTES, &field.go)?;
                let (key, value) = self.deeper(|decoder| decoder.entry(map, reader.bytes()?))?;
                if let Some(entries) = object_at(into, &field.json) {
                    entries.insert(key, value);
                }
                Ok(())
            }
            kind => {
                expect(tag.wire, wire_of(kind), &field.go)?;
                let value = self.value(kind, reader)?;
                if !field.pointer && field.omitempty && is_empty(&value) {
                    into.remove(&field.json);
                } else {
                    into.insert(field.json.clone(), value);
                }
                Ok(())
            }
        }
    }

    /// One item of a list, or several numbers in one piece.
    fn items(
        &mut self,
        kind: &Kind,
        field: &str,
        tag: Tag,
        reader: &mut Reader<'_>,
        items: &mut Vec<Value>,
    ) -> Result<(), String> {
        let wire = wire_of(kind);
        if wire == Wire::BYTES || tag.wire != Wire::BYTES {
            expect(tag.wire, wire, field)?;
            items.push(self.value(kind, reader)?);
            return Ok(());
        }
        let mut packed = Reader::new(reader.bytes()?);
        while !packed.is_empty() {
            self.count()?;
            items.push(self.value(kind, &mut packed)?);
        }
        Ok(())
    }

    /// An entry of a map: a message of key and value, each of which may be left out.
    fn entry(&mut self, kind: &Kind, bytes: &[u8]) -> Result<(String, Value), String> {
        let (mut key, mut value) = (String::new(), None);
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag("MapEntry")? {
            match tag.number {
                1 => key = special::text(reader.bytes()?),
                2 => value = Some(self.value(kind, &mut reader)?),
                _ => reader.skip(tag.wire)?,
            }
        }
        match value {
            Some(value) => Ok((key, value)),
            // Left out is zero, which is how zeros are read, whatever is read from them.
            None => Ok((key, self.value(kind, &mut Reader::new(&[0; 8]))?)),
        }
    }

    /// One value that is not merged with another.
    fn value(&mut self, kind: &Kind, reader: &mut Reader<'_>) -> Result<Value, String> {
        match kind.base() {
            Kind::Plain(plain) => self.plain(*plain, reader),
            Kind::Struct { r#struct } => self.object(r#struct, reader.bytes()?).map(Value::Object),
            // A list cannot stand in a map or a list: it is wrapped in a message that has nothing else.
            Kind::List { list } => {
                let mut wrapped = Reader::new(reader.bytes()?);
                let mut items = Vec::new();
                self.deeper(|decoder| {
                    while let Some(tag) = wrapped.tag("Items")? {
                        decoder.count()?;
                        match tag.number {
                            1 => decoder.items(list, "Items", tag, &mut wrapped, &mut items)?,
                            _ => wrapped.skip(tag.wire)?,
                        }
                    }
                    Ok(())
                })?;
                Ok(if items.is_empty() { Value::Null } else { Value::Array(items) })
            }
            Kind::Map { .. } | Kind::Named { .. } => Err("proto: a map must be a field of a message".into()),
        }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "as Kubernetes reads them"
    )]
    fn plain(&mut self, plain: Plain, reader: &mut Reader<'_>) -> Result<Value, String> {
        Ok(match plain {
            Plain::Bool => (reader.varint()? != 0).into(),
            Plain::Int32 => (reader.varint()? as i32).into(),
            Plain::Int64 => (reader.varint()? as i64).into(),
            Plain::Float64 => special::float(reader.fixed64()?)?,
            Plain::Text => special::text(reader.bytes()?).into(),
            Plain::Bytes => special::base64(reader.bytes()?).into(),
            Plain::Time => special::time(reader.bytes()?)?,
            Plain::MicroTime => special::micro_time(reader.bytes()?)?,
            Plain::Duration => special::duration(reader.bytes()?)?,
            Plain::Quantity => special::quantity(reader.bytes()?)?,
            Plain::IntOrString => special::int_or_string(reader.bytes()?)?,
            Plain::FieldsV1 | Plain::RawExtension | Plain::Json => {
                special::json(reader.bytes()?, DEPTH_LIMIT.saturating_sub(self.depth))?
            }
            Plain::SchemaOrBool => self.schema_or(reader.bytes()?, SchemaOr::Bool)?,
            Plain::SchemaOrList => self.schema_or(reader.bytes()?, SchemaOr::Schemas)?,
            Plain::SchemaOrTexts => self.schema_or(reader.bytes()?, SchemaOr::Texts)?,
        })
    }

    /// A schema, or what else may stand in its place. In JSON the two look different; here they are two fields.
    fn schema_or(&mut self, bytes: &[u8], other: SchemaOr) -> Result<Value, String> {
        const SCHEMA: &str = "apiextensions/v1.JSONSchemaProps";
        let (message, schema_number, other_number, other_field) = match other {
            SchemaOr::Bool => ("JSONSchemaPropsOrBool", 2, 1, "Allows"),
            SchemaOr::Schemas => ("JSONSchemaPropsOrArray", 1, 2, "JSONSchemas"),
            SchemaOr::Texts => ("JSONSchemaPropsOrStringArray", 1, 2, "Property"),
        };
        let (mut schema, mut allows, mut items) = (None, false, Vec::new());
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag(message)? {
            self.count()?;
            if tag.number == schema_number {
                expect(tag.wire, Wire::BYTES, "Schema")?;
                self.merge(SCHEMA, reader.bytes()?, schema.get_or_insert_default())?;
            } else if tag.number == other_number {
                expect(
                    tag.wire,
                    if other == SchemaOr::Bool { Wire::VARINT } else { Wire::BYTES },
                    other_field,
                )?;
                match other {
                    SchemaOr::Bool => allows = reader.varint()? != 0,
                    SchemaOr::Schemas => {
                        let schema = self.deeper(|decoder| decoder.object(SCHEMA, reader.bytes()?))?;
                        items.push(schema.into());
                    }
                    SchemaOr::Texts => items.push(special::text(reader.bytes()?).into()),
                }
            } else {
                reader.skip(tag.wire)?;
            }
        }
        Ok(match (other, schema) {
            (_, _) if !items.is_empty() => Value::Array(items),
            (_, Some(schema)) => Value::Object(schema),
            (SchemaOr::Bool, None) => allows.into(),
            (SchemaOr::Schemas | SchemaOr::Texts, None) => Value::Null,
        })
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, String>) -> Result<T, String> {
        if self.depth >= DEPTH_LIMIT {
            return Err("exceeded max depth".into());
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn count(&mut self) -> Result<(), String> {
        self.values += 1;
        if self.values > VALUE_LIMIT {
            return Err(format!("the object has more than {VALUE_LIMIT} values"));
        }
        Ok(())
    }
}

/// What may stand in the place of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaOr {
    Bool,
    Schemas,
    Texts,
}

/// How a value of a kind is written.
fn wire_of(kind: &Kind) -> Wire {
    match kind.base() {
        Kind::Plain(Plain::Bool | Plain::Int32 | Plain::Int64) => Wire::VARINT,
        Kind::Plain(Plain::Float64) => Wire::FIXED64,
        _ => Wire::BYTES,
    }
}

/// The object in a field, made if it is not there yet.
fn object_at<'a>(into: &'a mut Object, key: &str) -> Option<&'a mut Object> {
    into.entry(key).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}
