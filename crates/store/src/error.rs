//! What can go wrong, in words that a person can act on. The store itself never prints or ends the process.

use std::{fmt, io, path::PathBuf, sync::Arc};

use crate::{Entry, Revision};

/// Why a store could not be opened. Nothing on disk was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has the store open.
    #[error("{} is in use by another process: stop it, or choose another data directory", dir.display())]
    Locked {
        /// The data directory.
        dir: PathBuf,
    },
    /// The file is damaged.
    #[error("{} is damaged and was left as it is ({detail}): restore it from a backup, or move it away to start empty", path.display())]
    Corrupt {
        /// The damaged file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file was written by another version.
    #[error(
        "the store has format {found}, this program reads format {supported}: use the version that wrote it"
    )]
    Format {
        /// The format of the file.
        found: u64,
        /// The format that this program reads.
        supported: u64,
    },
    /// The operating system refused.
    #[error("cannot {attempt} {}: {source}", path.display())]
    Io {
        /// What was tried.
        attempt: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
}

/// Why a write was not acknowledged.
#[derive(thiserror::Error)]
pub enum CommitError<F> {
    /// The path is not in the expected state.
    #[error("the object is not at the expected revision")]
    Conflict {
        /// What is there instead.
        current: Option<Arc<Entry<F>>>,
    },
    /// The disk takes no writes. A write of the batch that met the failure may still come true later.
    #[error("the store takes no writes: {reason}")]
    ReadOnly {
        /// What the disk said.
        reason: String,
    },
    /// The value is too large.
    #[error("the value has {size} bytes, at most {limit} are stored")]
    TooLarge {
        /// Its size.
        size: usize,
        /// The largest that is stored.
        limit: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

// By hand, as neither needs anything of `F`.
impl<F> fmt::Debug for CommitError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { current } => f.debug_struct("Conflict").field("current", current).finish(),
            Self::ReadOnly { reason } => f.debug_struct("ReadOnly").field("reason", reason).finish(),
            Self::TooLarge { size, limit } => {
                f.debug_struct("TooLarge").field("size", size).field("limit", limit).finish()
            }
            Self::Closed => f.write_str("Closed"),
        }
    }
}

/// The events that were asked for are gone from the history: list again, and watch from there.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the history up to revision {compacted} is gone")]
pub struct Compacted {
    /// Events at or below are gone.
    pub compacted: Revision,
}

/// Why there is no snapshot at a revision.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is too old.
    #[error("the history up to revision {compacted} is gone")]
    Compacted {
        /// Events at or below are gone.
        compacted: Revision,
    },
    /// It has not happened yet.
    #[error("the store is at revision {current}, which is before the one asked for")]
    Future {
        /// The present revision.
        current: Revision,
    },
}
