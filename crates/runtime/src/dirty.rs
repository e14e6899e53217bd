//! What an index asks of the work queue after a change.

use std::time::Duration;

use tokio::time::Instant;

/// The keys whose result may have changed since the controller last asked.
///
/// An index keeps one, and adds to it in its `on_apply` and `on_delete` functions.
#[derive(Debug)]
pub struct DirtyKeys<K> {
    changes: Vec<QueueChange<K>>,
    deadlines: Vec<(K, Option<Instant>)>,
}

/// One request to the work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueChange<K> {
    Enqueue(K),
    EnqueueAfter(K, Duration),
    Restart(K),
    Forget(K),
    HoldOff(K, Duration),
}

impl<K> Default for DirtyKeys<K> {
    fn default() -> Self {
        Self { changes: Vec::new(), deadlines: Vec::new() }
    }
}

impl<K> DirtyKeys<K> {
    /// Reconciles a key as soon as possible.
    pub fn enqueue(&mut self, key: K) {
        self.changes.push(QueueChange::Enqueue(key));
    }

    /// Reconciles a key after a delay, unless it is due earlier: several changes together are one reconcile (debounce).
    pub fn enqueue_after(&mut self, key: K, delay: Duration) {
        self.changes.push(QueueChange::EnqueueAfter(key, delay));
    }

    /// Reconciles a key as soon as possible and forgets its failures and its hold-off: its object asks for something new.
    pub fn restart(&mut self, key: K) {
        self.changes.push(QueueChange::Restart(key));
    }

    /// Forgets a key, its timers and its failures: its object was deleted.
    pub fn forget(&mut self, key: K) {
        self.changes.push(QueueChange::Forget(key));
    }

    /// Reconciles a key not before this time, whatever changes, unless it is restarted: another writer undoes what the
    /// controller writes.
    pub fn hold_off(&mut self, key: K, time: Duration) {
        self.changes.push(QueueChange::HoldOff(key, time));
    }

    /// Calls [`on_deadline`](crate::IndexedReconciler::on_deadline) for a key at an instant, in place of the one set before,
    /// also while this process is standby.
    pub fn set_deadline(&mut self, key: K, at: Instant) {
        self.deadlines.push((key, Some(at)));
    }

    /// Removes the deadline of a key.
    pub fn cancel_deadline(&mut self, key: K) {
        self.deadlines.push((key, None));
    }

    /// Adds the requests of another.
    pub fn append(&mut self, mut other: Self) {
        self.changes.append(&mut other.changes);
        self.deadlines.append(&mut other.deadlines);
    }

    /// Takes all requests and leaves none.
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The keys that are to be reconciled, in the order of the requests; for tests of an index.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.changes.iter().filter_map(|change| match change {
            QueueChange::Enqueue(key) | QueueChange::EnqueueAfter(key, _) | QueueChange::Restart(key) => {
                Some(key)
            }
            QueueChange::Forget(_) | QueueChange::HoldOff(..) => None,
        })
    }

    pub(crate) fn into_changes(self) -> Vec<QueueChange<K>> {
        self.changes
    }

    pub(crate) fn take_deadlines(&mut self) -> Vec<(K, Option<Instant>)> {
        std::mem::take(&mut self.deadlines)
    }
}
