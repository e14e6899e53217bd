//! One space in memory: its live entries and the ring of its recent events, published together under one lock.
//! It does not decide what may be written or when history ends; the ledger does.

use std::{collections::VecDeque, sync::Arc};

use imbl::OrdMap;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::{Entry, Event, EventKind, Revision, Space};

/// The live entries of a space, as a tree whose clone costs one reference.
pub(crate) type Root<F> = OrdMap<Arc<str>, Arc<Entry<F>>>;

/// One space: what readers, watchers and the ledger share of it.
pub(crate) struct Keyspace<F> {
    pub(crate) space: Space,
    state: RwLock<State<F>>,
    changed: watch::Sender<Revision>,
}

struct State<F> {
    root: Root<F>,
    /// The events after `floor`, oldest first.
    ring: VecDeque<Arc<Event<F>>>,
    /// The newest event that left the ring.
    floor: Revision,
    /// The newest event of the space.
    last: Revision,
}

/// Events of a space after some revision, and how far they reach.
pub(crate) struct Page<F> {
    pub(crate) events: Vec<Arc<Event<F>>>,
    pub(crate) reaches: Revision,
}

/// Events that were asked for have left the ring.
pub(crate) struct Gone;

impl<F> Keyspace<F> {
    pub(crate) fn new(space: Space) -> Self {
        let state = State {
            root: Root::new(),
            ring: VecDeque::new(),
            floor: Revision::default(),
            last: Revision::default(),
        };
        Self { space, state: RwLock::new(state), changed: watch::Sender::new(Revision(0)) }
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Entry<F>>> {
        self.state.read().root.get(path).cloned()
    }

    /// The newest event of the space.
    pub(crate) fn last(&self) -> Revision {
        self.state.read().last
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state.read().root.is_empty()
    }

    /// The live entries, and the newest event they contain.
    pub(crate) fn head(&self) -> (Root<F>, Revision) {
        let state = self.state.read();
        (state.root.clone(), state.last)
    }

    /// The live entries, the newest event they contain, and the events after `after`.
    /// Fails if one of them is gone.
    pub(crate) fn head_and_events_after(&self, after: Revision) -> Result<Head<F>, Gone> {
        let state = self.state.read();
        if after < state.floor {
            return Err(Gone);
        }
        let later = state.ring.range(state.position(after)..).cloned().collect();
        Ok(Head { root: state.root.clone(), last: state.last, later })
    }

    /// At most `limit` events after `after`, of a store that has published `published`.
    /// Fails if one of them is gone.
    pub(crate) fn page(&self, after: Revision, published: Revision, limit: usize) -> Result<Page<F>, Gone> {
        let state = self.state.read();
        if after < state.floor {
            return Err(Gone);
        }
        let events: Vec<_> = state.ring.range(state.position(after)..).take(limit).cloned().collect();
        let reaches = match events.last() {
            Some(last) if last.revision() < state.last => last.revision(),
            _ => after.max(published).max(state.last),
        };
        Ok(Page { events, reaches })
    }

    /// Wakes with every change of this space, and with no other.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Revision> {
        self.changed.subscribe()
    }

    /// Takes over an entry that is older than all history.
    pub(crate) fn restore(&self, entry: Arc<Entry<F>>) {
        let mut state = self.state.write();
        state.last = entry.revision();
        state.root.insert(entry.path().clone(), entry);
    }

    /// Applies events, oldest first.
    pub(crate) fn apply(&self, events: impl IntoIterator<Item = Arc<Event<F>>>) {
        let mut state = self.state.write();
        for event in events {
            let entry = event.entry();
            match event.kind() {
                EventKind::Put => state.root.insert(entry.path().clone(), entry.clone()),
                EventKind::Delete => state.root.remove(entry.path()),
            };
            state.last = event.revision();
            state.ring.push_back(event);
        }
    }

    /// Forgets events up to `compacted`.
    pub(crate) fn forget(&self, compacted: Revision) {
        let mut state = self.state.write();
        while let Some(event) = state.ring.pop_front_if(|event| event.revision() <= compacted) {
            state.floor = event.revision();
        }
        // A burst should not leave its capacity behind for good.
        if state.ring.capacity() > 64 && state.ring.len() < state.ring.capacity() / 4 {
            state.ring.shrink_to(64);
        }
    }

    pub(crate) fn wake(&self) {
        let last = self.state.read().last;
        self.changed.send_replace(last);
    }
}

impl<F> State<F> {
    /// Where in the ring the events after `after` start.
    fn position(&self, after: Revision) -> usize {
        self.ring.partition_point(|event| event.revision() <= after)
    }
}

/// The present of a space, with what leads back to a moment of its past.
pub(crate) struct Head<F> {
    pub(crate) root: Root<F>,
    pub(crate) last: Revision,
    later: Vec<Arc<Event<F>>>,
}

impl<F> Head<F> {
    /// Whether the past moment equals the present.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.later.is_empty()
    }

    /// The entries at the past moment: the later events undone, newest first.
    pub(crate) fn rewound(self) -> Root<F> {
        let mut root = self.root;
        for event in self.later.iter().rev() {
            let path = event.entry().path();
            match event.previous() {
                Some(previous) => root.insert(path.clone(), previous.clone()),
                None => root.remove(path),
            };
        }
        root
    }
}
