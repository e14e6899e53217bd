//! What happened: one committed write, with the state before and after it, shared by all watchers.
//! An event does not know its wire format; it only keeps the frames that watchers render from it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;

use crate::{Entry, Revision};

/// How many kinds of frames an event keeps, for example one per encoding.
pub const FRAME_SLOTS: usize = 4;

/// What an event itself costs in memory, beside its value: measured roughly, to bound many small events.
const OVERHEAD: usize = 256;

/// What a write did.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// Created or replaced a value.
    Put,
    /// Removed it.
    Delete,
}

/// One committed write.
pub struct Event<F> {
    kind: EventKind,
    millis: i64,
    entry: Arc<Entry<F>>,
    previous: Option<Arc<Entry<F>>>,
    frames: OnceLock<Box<[OnceLock<Bytes>; FRAME_SLOTS]>>,
}

impl<F> Event<F> {
    pub(crate) fn new(
        kind: EventKind,
        millis: i64,
        entry: Arc<Entry<F>>,
        previous: Option<Arc<Entry<F>>>,
    ) -> Self {
        Self { kind, millis, entry, previous, frames: OnceLock::new() }
    }

    /// The revision of the write.
    pub fn revision(&self) -> Revision {
        self.entry.revision()
    }

    /// What the write did.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The new state; of a delete, the final state.
    pub fn entry(&self) -> &Arc<Entry<F>> {
        &self.entry
    }

    /// The state before; `None` when the write created the object.
    pub fn previous(&self) -> Option<&Arc<Entry<F>>> {
        self.previous.as_ref()
    }

    /// The frame of this event in `slot`, rendered by the first watcher and shared by all others.
    ///
    /// A slot beyond [`FRAME_SLOTS`] is rendered every time.
    pub fn frame(&self, slot: usize, render: impl FnOnce() -> Bytes) -> Bytes {
        if slot >= FRAME_SLOTS {
            return render();
        }
        match self.frames.get_or_init(Box::default).get(slot) {
            Some(frame) => frame.get_or_init(render).clone(),
            None => render(),
        }
    }

    /// When the write happened, by the wall clock.
    pub(crate) fn millis(&self) -> i64 {
        self.millis
    }

    /// The memory that the history spends on this event. The value counts twice: once itself, and once for
    /// the frame that watchers render from it.
    pub(crate) fn weight(&self) -> usize {
        OVERHEAD + self.entry.path().len() + 2 * self.entry.value().len()
    }
}

impl<F> fmt::Debug for Event<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("kind", &self.kind)
            .field("entry", &self.entry)
            .field("previous", &self.previous)
            .finish()
    }
}
