//! The state of one space at one revision. A snapshot never changes, costs one clone of a tree root, and does
//! not keep the writer waiting; it keeps the entries it shows in memory for as long as it lives.

use std::{fmt, ops::Bound, sync::Arc};

use crate::{Entry, Revision, keyspace::Root};

/// The state of one space at one revision.
pub struct Snapshot<F> {
    revision: Revision,
    root: Root<F>,
}

impl<F> Snapshot<F> {
    pub(crate) fn new(revision: Revision, root: Root<F>) -> Self {
        Self { revision, root }
    }

    /// The revision: the snapshot holds exactly the events of its space up to here.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.root.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.root.is_empty()
    }

    /// The entry at a path.
    pub fn get(&self, path: &str) -> Option<&Arc<Entry<F>>> {
        self.root.get(path)
    }

    /// All entries, in the byte order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry<F>>> {
        self.root.values()
    }

    /// The entries from a path on, which is included.
    pub fn range(&self, from: &str) -> impl Iterator<Item = &Arc<Entry<F>>> {
        self.root.range::<_, str>((Bound::Included(from), Bound::Unbounded)).map(|(_, entry)| entry)
    }

    /// The entries whose path starts with `prefix`.
    pub fn prefix(&self, prefix: &str) -> impl Iterator<Item = &Arc<Entry<F>>> {
        self.range(prefix).take_while(move |entry| entry.path().starts_with(prefix))
    }
}

impl<F> Clone for Snapshot<F> {
    fn clone(&self) -> Self {
        Self { revision: self.revision, root: self.root.clone() }
    }
}

impl<F> fmt::Debug for Snapshot<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("revision", &self.revision).field("entries", &self.len()).finish()
    }
}
