//! The bytes of one write in the log. A record carries a checksum over itself and its revision, so that
//! damage is found when the log is read, never served. It does not know what is live or compacted.

use bytes::Bytes;

use crate::{Entry, Event, EventKind, Revision, Space};

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// One write as the log holds it. All numbers are little-endian:
///
/// `crc32 u32 | kind u8 | created u64 | previous u64 | millis i64 | space length u32 | path length u32 | space | path | value`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) kind: EventKind,
    pub(crate) created: Revision,
    /// The record that this one supersedes; 0 for none.
    pub(crate) previous: Revision,
    pub(crate) millis: i64,
    pub(crate) space: &'a str,
    pub(crate) path: &'a str,
    pub(crate) value: &'a [u8],
}

impl<'a> Record<'a> {
    pub(crate) fn of<F>(space: &'a Space, event: &'a Event<F>) -> Self {
        let entry: &Entry<F> = event.entry();
        Self {
            kind: event.kind(),
            created: entry.created(),
            previous: event.previous().map(|previous| previous.revision()).unwrap_or_default(),
            millis: event.millis(),
            space: space.as_str(),
            path: entry.path(),
            value: entry.value(),
        }
    }

    /// Writes the record over whatever `buffer` held.
    pub(crate) fn encode(&self, revision: Revision, buffer: &mut Vec<u8>) {
        buffer.clear();
        buffer.extend_from_slice(&[0; size_of::<u32>()]);
        buffer.push(match self.kind {
            EventKind::Put => PUT,
            EventKind::Delete => DELETE,
        });
        buffer.extend_from_slice(&self.created.0.to_le_bytes());
        buffer.extend_from_slice(&self.previous.0.to_le_bytes());
        buffer.extend_from_slice(&self.millis.to_le_bytes());
        buffer.extend_from_slice(&length(self.space).to_le_bytes());
        buffer.extend_from_slice(&length(self.path).to_le_bytes());
        buffer.extend_from_slice(self.space.as_bytes());
        buffer.extend_from_slice(self.path.as_bytes());
        buffer.extend_from_slice(self.value);
        if let Some((stored, body)) = buffer.split_first_chunk_mut() {
            *stored = checksum(revision, body).to_le_bytes();
        }
    }

    /// Reads the record back, or says why it cannot be one.
    pub(crate) fn decode(revision: Revision, bytes: &'a [u8]) -> Result<Self, &'static str> {
        const SHORT: &str = "is cut short";
        let (stored, body) = bytes.split_first_chunk().ok_or(SHORT)?;
        if u32::from_le_bytes(*stored) != checksum(revision, body) {
            return Err("does not match its checksum");
        }
        let (kind, rest) = body.split_first().ok_or(SHORT)?;
        let (created, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (previous, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (millis, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (space_length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (path_length, rest) = rest.split_first_chunk().ok_or(SHORT)?;
        let (space, rest) = rest.split_at_checked(u32::from_le_bytes(*space_length) as usize).ok_or(SHORT)?;
        let (path, value) = rest.split_at_checked(u32::from_le_bytes(*path_length) as usize).ok_or(SHORT)?;
        Ok(Self {
            kind: match *kind {
                PUT => EventKind::Put,
                DELETE => EventKind::Delete,
                _ => return Err("is of an unknown kind"),
            },
            created: Revision(u64::from_le_bytes(*created)),
            previous: Revision(u64::from_le_bytes(*previous)),
            millis: i64::from_le_bytes(*millis),
            space: str::from_utf8(space).map_err(|_| "has a space that is not text")?,
            path: str::from_utf8(path).map_err(|_| "has a path that is not text")?,
            value,
        })
    }

    pub(crate) fn entry<F>(&self, revision: Revision) -> Entry<F> {
        Entry::new(revision, self.created, self.path.into(), Bytes::copy_from_slice(self.value))
    }
}

/// Names are far below 4 GiB: the store refuses larger ones before they get here.
fn length(name: &str) -> u32 {
    u32::try_from(name.len()).unwrap_or(u32::MAX)
}

/// The revision is part of it, so that a record under a wrong key is found too.
fn checksum(revision: Revision, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&revision.0.to_le_bytes());
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            kind: EventKind::Delete,
            created: Revision(3),
            previous: Revision(7),
            millis: -5,
            space: "hub/configmaps",
            path: "default/colours",
            value: b"{}",
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was_written() {
        let mut bytes = vec![1, 2, 3];
        record().encode(Revision(9), &mut bytes);
        assert_eq!(Record::decode(Revision(9), &bytes), Ok(record()));
    }

    #[test]
    fn a_record_under_another_revision_is_refused() {
        let mut bytes = Vec::new();
        record().encode(Revision(9), &mut bytes);
        assert!(Record::decode(Revision(8), &bytes).is_err());
    }

    #[test]
    fn any_flipped_bit_and_any_cut_is_found() {
        let mut bytes = Vec::new();
        record().encode(Revision(9), &mut bytes);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Record::decode(Revision(9), &damaged).is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Record::decode(Revision(9), &bytes[..end]).is_err(), "cut at {end}");
        }
    }
}
