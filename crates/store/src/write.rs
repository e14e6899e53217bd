//! What a caller asks to be written, and under which condition. Nothing here decides; the ledger does.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use crate::{Revision, Space};

/// The largest value that is stored, in bytes.
pub const VALUE_LIMIT: usize = 4 << 20;

/// A value whose own revision is spliced in, as decimal digits, when it is committed.
#[derive(Clone, Debug)]
pub struct Draft {
    value: Bytes,
    splice: Option<usize>,
}

impl Draft {
    /// A value that gets its revision at byte `offset`; an offset past the end means the end.
    pub fn new(value: impl Into<Bytes>, offset: usize) -> Self {
        Self { value: value.into(), splice: Some(offset) }
    }

    /// A value that is stored as it is.
    pub fn plain(value: impl Into<Bytes>) -> Self {
        Self { value: value.into(), splice: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.value.len()
    }

    pub(crate) fn stamp(&self, revision: Revision) -> Bytes {
        let Some(offset) = self.splice else { return self.value.clone() };
        let (before, after) = self.value.split_at(offset.min(self.value.len()));
        let digits = revision.to_string();
        let mut stamped = BytesMut::with_capacity(self.value.len() + digits.len());
        stamped.extend_from_slice(before);
        stamped.extend_from_slice(digits.as_bytes());
        stamped.extend_from_slice(after);
        stamped.freeze()
    }
}

/// What must hold for a write to happen.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is at the path.
    Absent,
    /// The entry at the path has this revision.
    At(Revision),
    /// Whatever is there.
    Any,
}

/// What a write does.
#[derive(Clone, Debug)]
pub enum Change {
    /// Creates or replaces the value.
    Put(Draft),
    /// Removes the value. The draft is its final state, stamped with the revision of the deletion: the entry
    /// of the delete event.
    Delete(Draft),
}

impl Change {
    pub(crate) fn draft(&self) -> &Draft {
        match self {
            Self::Put(draft) | Self::Delete(draft) => draft,
        }
    }
}

/// One conditional change of one path.
#[derive(Clone, Debug)]
pub struct Write {
    /// The keyspace.
    pub space: Space,
    /// The path in it.
    pub path: Arc<str>,
    /// What must hold.
    pub expect: Expect,
    /// What to do then.
    pub change: Change,
}

impl Write {
    /// What the write adds to a batch.
    pub(crate) fn size(&self) -> usize {
        self.path.len() + self.change.draft().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_takes_its_revision_at_the_offset() {
        for (draft, stamped) in [
            (Draft::new("ab", 0), "42ab"),
            (Draft::new("ab", 1), "a42b"),
            (Draft::new("ab", 2), "ab42"),
            (Draft::new("ab", 99), "ab42"),
            (Draft::plain("ab"), "ab"),
        ] {
            assert_eq!(draft.stamp(Revision(42)), stamped);
        }
    }
}
