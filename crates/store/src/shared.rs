//! What readers and the ledger share: all spaces, how far they are published and compacted, and the health.
//! Readers never wait for the disk; nothing reaches this before it is durable.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::{
    Health, Revision, Snapshot, SnapshotError, Space,
    keyspace::{Gone, Keyspace, Root},
};

/// How many roots of the past are kept for lists that are read in pages.
const PAST_ROOTS: usize = 32;

pub(crate) struct Shared<F> {
    spaces: RwLock<HashMap<Space, Arc<Keyspace<F>>>>,
    published: watch::Sender<Revision>,
    compacted: AtomicU64,
    health: watch::Sender<Health>,
    past: Mutex<VecDeque<PastRoot<F>>>,
}

struct PastRoot<F> {
    space: Space,
    at: Revision,
    root: Root<F>,
}

impl<F> Shared<F> {
    pub(crate) fn new() -> Self {
        Self {
            spaces: RwLock::default(),
            published: watch::Sender::new(Revision(0)),
            compacted: AtomicU64::new(0),
            health: watch::Sender::new(Health::Serving),
            past: Mutex::default(),
        }
    }

    pub(crate) fn published(&self) -> Revision {
        *self.published.borrow()
    }

    pub(crate) fn publications(&self) -> watch::Receiver<Revision> {
        self.published.subscribe()
    }

    /// Call after the spaces hold everything up to `revision`.
    pub(crate) fn publish(&self, revision: Revision) {
        self.published.send_replace(revision);
    }

    pub(crate) fn compacted(&self) -> Revision {
        Revision(self.compacted.load(Ordering::Acquire))
    }

    /// Call before the spaces forget, so that nobody starts to read what is about to go.
    pub(crate) fn set_compacted(&self, compacted: Revision) {
        self.compacted.store(compacted.0, Ordering::Release);
        self.past.lock().retain(|past| past.at >= compacted);
    }

    pub(crate) fn health(&self) -> Health {
        self.health.borrow().clone()
    }

    pub(crate) fn health_changes(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(crate) fn set_health(&self, health: Health) {
        self.health.send_if_modified(|present| {
            let changed = *present != health;
            *present = health;
            changed
        });
    }

    pub(crate) fn find(&self, space: &Space) -> Option<Arc<Keyspace<F>>> {
        self.spaces.read().get(space).cloned()
    }

    pub(crate) fn find_or_create(&self, space: &Space) -> Arc<Keyspace<F>> {
        if let Some(keyspace) = self.find(space) {
            return keyspace;
        }
        let mut spaces = self.spaces.write();
        let create = || Arc::new(Keyspace::new(space.clone()));
        spaces.entry(space.clone()).or_insert_with(create).clone()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Keyspace<F>>> {
        self.spaces.read().values().cloned().collect()
    }

    pub(crate) fn snapshot(&self, space: &Space) -> Snapshot<F> {
        // Read before the space: it then holds at least all its events up to here.
        let published = self.published();
        let (root, last) = self.find(space).map(|keyspace| keyspace.head()).unwrap_or_default();
        Snapshot::new(published.max(last), root)
    }

    pub(crate) fn snapshot_at(&self, space: &Space, at: Revision) -> Result<Snapshot<F>, SnapshotError> {
        let published = self.published();
        let Some(keyspace) = self.find(space) else {
            self.check_past(at, published)?;
            return Ok(Snapshot::new(at, Root::new()));
        };
        let head = keyspace
            .head_and_events_after(at)
            .map_err(|Gone| SnapshotError::Compacted { compacted: self.compacted() })?;
        self.check_past(at, published.max(head.last))?;
        if head.is_unchanged() {
            return Ok(Snapshot::new(at, head.root));
        }
        if let Some(root) = self.remembered(space, at) {
            return Ok(Snapshot::new(at, root));
        }
        let root = head.rewound();
        self.remember(PastRoot { space: space.clone(), at, root: root.clone() });
        Ok(Snapshot::new(at, root))
    }

    fn check_past(&self, at: Revision, current: Revision) -> Result<(), SnapshotError> {
        let compacted = self.compacted();
        if at < compacted {
            return Err(SnapshotError::Compacted { compacted });
        }
        if at > current {
            return Err(SnapshotError::Future { current });
        }
        Ok(())
    }

    /// A root of the past, which then counts as the most recently used.
    fn remembered(&self, space: &Space, at: Revision) -> Option<Root<F>> {
        let mut past = self.past.lock();
        let found = past.iter().position(|past| past.at == at && past.space == *space)?;
        let used = past.remove(found)?;
        let root = used.root.clone();
        past.push_back(used);
        Some(root)
    }

    fn remember(&self, root: PastRoot<F>) {
        let mut past = self.past.lock();
        if past.len() >= PAST_ROOTS {
            past.pop_front();
        }
        past.push_back(root);
    }
}
