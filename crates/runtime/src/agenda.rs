//! When to look at what again: at most one instant for each key, the nearest first. Setting, cancelling and taking are
//! logarithmic, so ten thousand deadlines that move every few seconds cost next to nothing.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use tokio::time::Instant;

/// Deadlines by key, on tokio's clock.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use bellwether_runtime::Agenda;
/// use tokio::time::Instant;
///
/// let mut agenda = Agenda::default();
/// let now = Instant::now();
/// agenda.set("late", now + Duration::from_millis(2));
/// agenda.set("early", now + Duration::from_secs(60));
/// agenda.set("early", now + Duration::from_millis(1)); // the last word counts
/// assert_eq!(agenda.next().await, "early");
/// assert_eq!(agenda.next().await, "late");
/// # });
/// ```
#[derive(Debug)]
pub struct Agenda<K> {
    entries: BTreeSet<(Instant, K)>,
    instants: HashMap<K, Instant>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { entries: BTreeSet::new(), instants: HashMap::new() }
    }
}

impl<K: Clone + Ord + Hash> Agenda<K> {
    /// Looks at a key at an instant, and no more when it was to be looked at before.
    pub fn set(&mut self, key: K, at: Instant) {
        match self.instants.insert(key.clone(), at) {
            Some(before) if before == at => return,
            Some(before) => {
                self.entries.remove(&(before, key.clone()));
            }
            None => {}
        }
        self.entries.insert((at, key));
    }

    /// Looks at a key at an instant, unless it is looked at earlier anyway.
    pub fn sooner(&mut self, key: K, at: Instant) {
        if self.instants.get(&key).is_none_or(|held| at < *held) {
            self.set(key, at);
        }
    }

    /// Does not look at a key any more.
    pub fn cancel(&mut self, key: &K) {
        if let Some(at) = self.instants.remove(key) {
            self.entries.remove(&(at, key.clone()));
        }
    }

    /// Waits until a key is due, and takes it; for ever while there is none. Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> K {
        match self.entries.first() {
            Some((at, _)) => tokio::time::sleep_until(*at).await,
            None => std::future::pending().await,
        }
        match self.entries.pop_first() {
            Some((_, key)) => {
                self.instants.remove(&key);
                key
            }
            // Nobody can have taken it: we hold the only reference.
            None => std::future::pending().await,
        }
    }

    /// Whether a key has an instant.
    pub fn contains(&self, key: &K) -> bool {
        self.instants.contains_key(key)
    }

    /// How many keys have an instant.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no key has one.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_key_is_taken_when_it_is_due_and_not_before() {
        let mut agenda = Agenda::default();
        let begun = Instant::now();
        agenda.set("key", begun + Duration::from_secs(30));
        assert_eq!(agenda.next().await, "key");
        assert_eq!(begun.elapsed().as_secs(), 30);
        assert!(agenda.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_cancelled_or_dropped_while_waiting_is_not_mixed_up() {
        let mut agenda = Agenda::default();
        let begun = Instant::now();
        agenda.set("cancelled", begun + Duration::from_secs(1));
        agenda.set("kept", begun + Duration::from_secs(2));
        let early = tokio::time::timeout(Duration::from_millis(500), agenda.next()).await;
        assert!(early.is_err(), "nothing is due");
        agenda.cancel(&"cancelled");
        assert_eq!(agenda.next().await, "kept");
    }

    proptest! {
        /// Compared with a map that is searched from end to end.
        #[test]
        fn the_nearest_of_the_last_words_comes_first(sets in prop::collection::vec((0..20_u8, 0..1000_u64, prop::bool::weighted(0.2)), 0..200)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.expect("a runtime").block_on(async {
                let begun = Instant::now();
                let mut agenda = Agenda::default();
                let mut model: HashMap<u8, u64> = HashMap::new();
                for (key, at, cancel) in sets {
                    if cancel {
                        agenda.cancel(&key);
                        model.remove(&key);
                    } else {
                        agenda.set(key, begun + Duration::from_millis(at));
                        model.insert(key, at);
                    }
                }
                assert_eq!(agenda.len(), model.len());
                let mut wanted: Vec<(u64, u8)> = model.into_iter().map(|(key, at)| (at, key)).collect();
                wanted.sort_unstable();
                for (_, key) in wanted {
                    assert_eq!(agenda.next().await, key);
                }
            });
        }
    }
}
