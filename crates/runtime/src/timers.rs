//! Deadlines by key: at most one per key, the earliest first. Setting, cancelling and taking are logarithmic, so that ten
//! thousand deadlines which move every few seconds cost next to nothing.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// Deadlines by key, on tokio's clock.
#[derive(Debug)]
pub(crate) struct Timers<K> {
    entries: BTreeSet<(Instant, K)>,
    deadlines: HashMap<K, Instant>,
}

impl<K> Default for Timers<K> {
    fn default() -> Self {
        Self { entries: BTreeSet::new(), deadlines: HashMap::new() }
    }
}

impl<K: Clone + Ord + Hash> Timers<K> {
    /// Sets the deadline of a key, in place of the one it had.
    pub(crate) fn set(&mut self, key: K, at: Instant) {
        match self.deadlines.insert(key.clone(), at) {
            Some(before) if before == at => return,
            Some(before) => {
                self.entries.remove(&(before, key.clone()));
            }
            None => {}
        }
        self.entries.insert((at, key));
    }

    /// Sets the deadline of a key, unless the key has an earlier one.
    pub(crate) fn set_earlier(&mut self, key: K, at: Instant) {
        if self.deadlines.get(&key).is_none_or(|held| at < *held) {
            self.set(key, at);
        }
    }

    /// Removes the deadline of a key.
    pub(crate) fn cancel(&mut self, key: &K) {
        if let Some(at) = self.deadlines.remove(key) {
            self.entries.remove(&(at, key.clone()));
        }
    }

    /// Waits until a key is due and removes it; waits forever while there is none. Cancel-safe.
    pub(crate) async fn next(&mut self) -> K {
        match self.entries.first() {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
        match self.entries.pop_first() {
            Some((_, key)) => {
                self.deadlines.remove(&key);
                key
            }
            // Unreachable: the exclusive borrow keeps the entry in place.
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn key_is_returned_when_due_and_not_before() {
        let mut timers = Timers::default();
        let start = Instant::now();
        timers.set("key", start + Duration::from_secs(30));
        assert_eq!(timers.next().await, "key");
        assert_eq!(start.elapsed().as_secs(), 30);
        assert!(timers.entries.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_next_loses_no_key_and_cancelled_keys_are_not_returned() {
        let mut timers = Timers::default();
        let start = Instant::now();
        timers.set("cancelled", start + Duration::from_secs(1));
        timers.set("kept", start + Duration::from_secs(2));
        let early = tokio::time::timeout(Duration::from_millis(500), timers.next()).await;
        assert!(early.is_err(), "nothing is due");
        timers.cancel(&"cancelled");
        assert_eq!(timers.next().await, "kept");
    }

    #[tokio::test(start_paused = true)]
    async fn set_earlier_never_moves_a_deadline_back() {
        let mut timers = Timers::default();
        let start = Instant::now();
        timers.set_earlier("key", start + Duration::from_secs(5));
        timers.set_earlier("key", start + Duration::from_secs(9));
        timers.set_earlier("key", start + Duration::from_secs(2));
        assert_eq!(timers.next().await, "key");
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    proptest! {
        /// Compared with a plain map that is sorted at the end.
        #[test]
        fn keys_are_returned_in_the_order_of_their_last_deadline(sets in prop::collection::vec((0..20_u8, 0..1000_u64, prop::bool::weighted(0.2)), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.expect("a runtime").block_on(async {
                let start = Instant::now();
                let mut timers = Timers::default();
                let mut model: HashMap<u8, u64> = HashMap::new();
                for (key, at, cancel) in sets {
                    if cancel {
                        timers.cancel(&key);
                        model.remove(&key);
                    } else {
                        timers.set(key, start + Duration::from_millis(at));
                        model.insert(key, at);
                    }
                }
                assert_eq!(timers.entries.len(), model.len());
                let mut expected: Vec<(u64, u8)> = model.into_iter().map(|(key, at)| (at, key)).collect();
                expected.sort_unstable();
                for (_, key) in expected {
                    assert_eq!(timers.next().await, key);
                }
            });
        }
    }
}
