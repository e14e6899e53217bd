//! Objects in protobuf, as typed Go clients send them: an envelope that names the kind, and in it the fields of the
//! kind by their numbers. They become the JSON that the same client would have sent, so nothing behind this module
//! knows how an object came. Answers are not written in protobuf.

mod message;
mod special;
mod wire;

#[cfg(test)]
mod tests;

use crate::object::Object;
use crate::shape::Shapes;
use message::Decoder;
use wire::{Reader, Wire, expect};

/// What every body begins with.
const MAGIC: [u8; 4] = *b"k8s\0";

/// A body: what it claims to be, and the message itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Envelope<'a> {
    /// Empty if it is not said, or is none.
    pub(crate) api_version: String,
    /// Empty if it is not said.
    pub(crate) kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens the envelope; the error is the decoder's message.
    pub(crate) fn open(body: &'a [u8]) -> Result<Self, String> {
        if body.is_empty() {
            return Err("empty data".into());
        }
        let Some(content) = body.strip_prefix(&MAGIC) else {
            return Err(format!(
                "provided data does not appear to be a protobuf message, expected prefix [{}]",
                MAGIC.map(|byte| byte.to_string()).join(" ")
            ));
        };
        if content.is_empty() {
            return Err("empty body".into());
        }
        let mut envelope = Self::default();
        let mut reader = Reader::new(content);
        while let Some(tag) = reader.tag("Unknown")? {
            let field = match tag.number {
                1 => "TypeMeta",
                2 => "Raw",
                3 => "ContentEncoding",
                4 => "ContentType",
                _ => {
                    reader.skip(tag.wire)?;
                    continue;
                }
            };
            expect(tag.wire, Wire::BYTES, field)?;
            let bytes = reader.bytes()?;
            match tag.number {
                1 => envelope.read_claim(bytes)?,
                2 => envelope.raw = bytes,
                // The message is protobuf and not compressed, whatever these say.
                _ => {}
            }
        }
        Ok(envelope)
    }

    fn read_claim(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(bytes);
        while let Some(tag) = reader.tag("TypeMeta")? {
            let (field, into) = match tag.number {
                1 => ("APIVersion", &mut self.api_version),
                2 => ("Kind", &mut self.kind),
                _ => {
                    reader.skip(tag.wire)?;
                    continue;
                }
            };
            expect(tag.wire, Wire::BYTES, field)?;
            *into = special::text(reader.bytes()?);
        }
        // What cannot be read as group and version counts as not said.
        if self.api_version.matches('/').count() > 1 {
            self.api_version.clear();
        }
        Ok(())
    }

    /// The message as an object of the named type, without kind and version; the error is the decoder's message.
    pub(crate) fn object(&self, shapes: &Shapes, type_name: &str) -> Result<Object, String> {
        Decoder::new(shapes).object(type_name, self.raw)
    }
}
