//! The wire format of protobuf: tags, varints, and bytes with their length. It knows no message; what is wrong with
//! bytes is said in the words of the decoder that Kubernetes generates.

/// What stands before each value: the number of its field, and how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: Wire,
}

/// How a value is written, as the three bits of a tag say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wire(u8);

impl Wire {
    pub(super) const VARINT: Self = Self(0);
    pub(super) const FIXED64: Self = Self(1);
    pub(super) const BYTES: Self = Self(2);
    const GROUP: Self = Self(3);
    const END_GROUP: Self = Self(4);
    const FIXED32: Self = Self(5);
}

const EOF: &str = "unexpected EOF";

/// Bytes on their way in. Nothing is copied, and nothing beyond the end is ever looked at.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next tag of a message, which is named in errors; `None` at its end.
    pub(super) fn tag(&mut self, message: &str) -> Result<Option<Tag>, String> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire) = self.raw_tag()?;
        if wire == Wire::END_GROUP {
            return Err(format!("proto: {message}: wiretype end group for non-group"));
        }
        match u32::try_from(number) {
            Ok(number @ 1..) => Ok(Some(Tag { number, wire })),
            _ => Err(format!("proto: {message}: illegal tag {number} (wire type {})", wire.0)),
        }
    }

    /// Field numbers have 32 bits with a sign, whatever else was sent.
    fn raw_tag(&mut self) -> Result<(i32, Wire), String> {
        let tag = self.varint()?;
        #[allow(clippy::cast_possible_truncation, reason = "as Kubernetes reads them")]
        Ok(((tag >> 3) as i32, Wire((tag & 7) as u8)))
    }

    pub(super) fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (first, rest) = self.rest.split_first().ok_or(EOF)?;
            self.rest = rest;
            value |= u64::from(first & 0x7f) << shift;
            if *first < 0x80 {
                return Ok(value);
            }
        }
        Err("proto: integer overflow".into())
    }

    pub(super) fn fixed64(&mut self) -> Result<[u8; 8], String> {
        let (value, rest) = self.rest.split_first_chunk().ok_or(EOF)?;
        self.rest = rest;
        Ok(*value)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], String> {
        let length = i64::try_from(self.varint()?)
            .map_err(|_| "proto: negative length found during unmarshaling".to_owned())?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(EOF)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Steps over the value of a field that nobody knows. Groups may hold groups; that costs a counter.
    pub(super) fn skip(&mut self, mut wire: Wire) -> Result<(), String> {
        let mut open = 0_usize;
        loop {
            match wire {
                Wire::VARINT => {
                    self.varint()?;
                }
                Wire::FIXED64 => {
                    self.take(8)?;
                }
                Wire::BYTES => {
                    self.bytes()?;
                }
                Wire::FIXED32 => {
                    self.take(4)?;
                }
                Wire::GROUP => open += 1,
                Wire::END_GROUP => {
                    open = open.checked_sub(1).ok_or("proto: unexpected end of group")?;
                }
                Wire(other) => return Err(format!("proto: illegal wireType {other}")),
            }
            if open == 0 {
                return Ok(());
            }
            wire = self.raw_tag()?.1;
        }
    }
}

/// Refuses a field that is written in another way than its type is.
pub(super) fn expect(found: Wire, wanted: Wire, field: &str) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    Err(format!("proto: wrong wireType = {} for field {field}", found.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_seven_bits_a_byte_and_end_within_ten() {
        for (bytes, value) in [
            (&[0x00][..], Ok(0)),
            (&[0x7f], Ok(127)),
            (&[0xac, 0x02], Ok(300)),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], Ok(u64::MAX)),
            (&[0xff; 11], Err("proto: integer overflow".to_owned())),
            (&[0x80], Err("unexpected EOF".to_owned())),
            (&[], Err("unexpected EOF".to_owned())),
        ] {
            assert_eq!(Reader::new(bytes).varint(), value, "{bytes:x?}");
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_refused_whatever_it_is() {
        for (bytes, why) in [
            (&[0x05, 1, 2][..], "unexpected EOF"),
            (&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f], "unexpected EOF"),
            (
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
                "proto: negative length found during unmarshaling",
            ),
        ] {
            assert_eq!(Reader::new(bytes).bytes().unwrap_err(), why, "{bytes:x?}");
        }
    }

    #[test]
    fn tags_must_name_a_field() {
        for (bytes, found) in [
            (&[][..], Ok(None)),
            (&[0x12], Ok(Some(Tag { number: 2, wire: Wire::BYTES }))),
            (&[0x02], Err("proto: ConfigMap: illegal tag 0 (wire type 2)".to_owned())),
            (&[0x0c], Err("proto: ConfigMap: wiretype end group for non-group".to_owned())),
        ] {
            assert_eq!(Reader::new(bytes).tag("ConfigMap"), found, "{bytes:x?}");
        }
    }

    #[test]
    fn unknown_values_are_stepped_over_groups_included() {
        for (wire, bytes, left) in [
            (Wire::VARINT, &[0x80, 0x01, 9][..], Ok(1)),
            (Wire::FIXED64, &[0; 9], Ok(1)),
            (Wire::FIXED32, &[0; 4], Ok(0)),
            (Wire::BYTES, &[2, 0, 0, 9], Ok(1)),
            (Wire::GROUP, &[0x0b, 0x08, 0x01, 0x0c, 0x0c, 9], Ok(1)),
            (Wire::GROUP, &[0x0b], Err("unexpected EOF".to_owned())),
            (Wire(6), &[], Err("proto: illegal wireType 6".to_owned())),
        ] {
            let mut reader = Reader::new(bytes);
            assert_eq!(reader.skip(wire).map(|()| reader.rest.len()), left, "{wire:?} {bytes:x?}");
        }
    }
}
