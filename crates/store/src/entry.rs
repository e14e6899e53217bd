//! What is stored: a value under a path of a space, at a revision. Entries are immutable; a change is a new entry.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

/// The position of a write in the order of all writes of a store. Never reused.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A keyspace, for example `hub/configmaps`. Snapshots and watches are of one space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(Arc<str>);

impl Space {
    /// The space of this name.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(name.into())
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What the owner of the store derives from a value, once, on first use (labels, owner references, …).
pub trait Facts: Send + Sync + Sized + 'static {
    /// Derives the facts. A value that cannot be understood has empty facts.
    fn derive(value: &Bytes) -> Self;
}

impl Facts for () {
    fn derive(_: &Bytes) {}
}

/// A value at a revision.
pub struct Entry<F> {
    revision: Revision,
    created: Revision,
    path: Arc<str>,
    value: Bytes,
    // Boxed, so that an entry whose facts nobody asks for stays small.
    facts: OnceLock<Box<F>>,
}

impl<F> Entry<F> {
    pub(crate) fn new(revision: Revision, created: Revision, path: Arc<str>, value: Bytes) -> Self {
        Self { revision, created, path, value, facts: OnceLock::new() }
    }

    /// The revision that wrote this value.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision that created the object; an object deleted and created again is a new one.
    pub fn created(&self) -> Revision {
        self.created
    }

    /// Where in its space the value is.
    pub fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// The stored bytes.
    pub fn value(&self) -> &Bytes {
        &self.value
    }
}

impl<F: Facts> Entry<F> {
    /// What the owner derives from the value.
    pub fn facts(&self) -> &F {
        self.facts.get_or_init(|| Box::new(F::derive(&self.value)))
    }
}

impl<F> fmt::Debug for Entry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("path", &self.path)
            .field("revision", &self.revision)
            .field("created", &self.created)
            .field("bytes", &self.value.len())
            .finish()
    }
}
