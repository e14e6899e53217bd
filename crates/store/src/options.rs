//! How a store is opened, and how it says that it is well. Decisions that follow from them live in the writer.

use std::{sync::Arc, time::Duration};

use crate::{Clock, SystemClock};

/// When a write counts as durable.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Once the disk has confirmed it.
    #[default]
    Sync,
    /// Once the operating system has it: survives the process, not the machine. For tests.
    None,
}

/// How a store is opened.
#[derive(Clone)]
pub struct Options {
    /// How long events stay available for watches and for lists in the past.
    pub history: Duration,
    /// How many bytes of history are kept at most; this cap wins over `history`.
    pub history_bytes: usize,
    /// When a write counts as durable.
    pub durability: Durability,
    /// Where the store reads the time.
    pub clock: Arc<dyn Clock>,
    /// How much disk space to set aside, so that a full disk leaves room to recover. 0 sets none aside.
    pub reserve_bytes: u64,
    /// Makes every commit slower and opening after a crash faster.
    pub quick_repair: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            history: Duration::from_secs(5 * 60),
            history_bytes: 256 << 20,
            durability: Durability::Sync,
            clock: Arc::new(SystemClock),
            reserve_bytes: 8 << 20,
            quick_repair: false,
        }
    }
}

/// Whether a store takes writes. Reads are always served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// Reads and writes are served.
    Serving,
    /// The disk is full: writes are refused until there is room again.
    ReadOnly {
        /// What the disk said.
        reason: String,
    },
    /// The disk failed: what it holds is unknown, and the process must end.
    Failed {
        /// What the disk said.
        reason: String,
    },
}
