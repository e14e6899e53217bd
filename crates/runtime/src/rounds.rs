//! Visits to what has to be looked at: one key never twice at the same time, a bounded number together, and after a
//! failure again, each time later. For controllers that watch by themselves and keep what they see in memory.

use std::collections::{HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use crate::agenda::Agenda;
use crate::backoff::{Backoff, Growth};

/// Keys that have to be visited, and visits that are under way.
#[derive(Debug)]
pub struct Rounds<K, T> {
    queue: VecDeque<K>,
    queued: HashSet<K>,
    visited: HashSet<K>,
    /// Those that are not visited before their time.
    resting: HashSet<K>,
    visits: JoinSet<(K, T)>,
    agenda: Agenda<K>,
    backoff: Backoff<K>,
    at_once: usize,
}

impl<K, T> Rounds<K, T>
where
    K: Clone + Debug + Ord + Hash + Send + 'static,
    T: Send + 'static,
{
    /// At most so many visits together; after failures with such waits.
    pub fn new(at_once: usize, retry: Growth) -> Self {
        Self {
            queue: VecDeque::new(),
            queued: HashSet::new(),
            visited: HashSet::new(),
            resting: HashSet::new(),
            visits: JoinSet::new(),
            agenda: Agenda::default(),
            backoff: Backoff::new(retry),
            at_once,
        }
    }

    /// Visits a key as soon as may be.
    pub fn visit(&mut self, key: K) {
        if !self.resting.contains(&key) && self.queued.insert(key.clone()) {
            self.queue.push_back(key);
        }
    }

    /// Visits a key at an instant as well.
    pub fn visit_at(&mut self, key: K, at: Instant) {
        self.agenda.set(key, at);
    }

    /// Visits nobody any more who is not being visited.
    pub fn clear(&mut self) {
        self.queue.clear();
        self.queued.clear();
        self.resting.clear();
        self.agenda = Agenda::default();
    }

    /// Begins as many visits as may be under way.
    pub fn begin<F>(&mut self, mut visit: impl FnMut(K) -> F)
    where
        F: Future<Output = T> + Send + 'static,
    {
        // One that is being visited waits for the end of that, at the end of the queue.
        for _ in 0..self.queue.len() {
            if self.visits.len() >= self.at_once {
                return;
            }
            let Some(key) = self.queue.pop_front() else { return };
            if !self.queued.contains(&key) {
                continue;
            }
            if self.visited.contains(&key) {
                self.queue.push_back(key);
                continue;
            }
            self.queued.remove(&key);
            self.visited.insert(key.clone());
            let visit = visit(key.clone());
            self.visits.spawn(async move { (key, visit.await) });
        }
    }

    /// Waits for the end of a visit, or, with nothing to tell, for the time of a key. Nothing is lost when it is dropped.
    pub async fn next(&mut self) -> Option<(K, T)> {
        tokio::select! {
            Some(ended) = self.visits.join_next() => self.ended(ended),
            key = self.agenda.next() => {
                self.resting.remove(&key);
                self.visit(key);
                None
            }
        }
    }

    /// A visit went well.
    pub fn succeeded(&mut self, key: &K) {
        self.backoff.succeeded(key);
    }

    /// A visit failed: another one follows after a wait, which is handed back.
    pub fn failed(&mut self, key: K) -> std::time::Duration {
        let wait = self.backoff.failed(key.clone());
        self.agenda.set(key, Instant::now() + wait);
        wait
    }

    /// A visit came to no end, as somebody undoes what it does: another one follows after a wait, and none before, whatever
    /// happens to the key. The wait is handed back.
    pub fn rests(&mut self, key: K) -> std::time::Duration {
        self.queued.remove(&key);
        self.resting.insert(key.clone());
        self.failed(key)
    }

    /// A key is no more: it is visited only if somebody asks for that anew.
    pub fn forget(&mut self, key: &K) {
        self.backoff.succeeded(key);
        self.agenda.cancel(key);
        self.resting.remove(key);
        // Its place in the queue is passed over.
        self.queued.remove(key);
    }

    /// Waits for the end of all visits.
    pub async fn finish(mut self) {
        while self.visits.join_next().await.is_some() {}
    }

    fn ended(&mut self, ended: Result<(K, T), JoinError>) -> Option<(K, T)> {
        match ended {
            Ok((key, outcome)) => {
                self.visited.remove(&key);
                Some((key, outcome))
            }
            Err(error) => {
                // Whose it was is not known; two visits to one key do no harm.
                self.visited.clear();
                tracing::error!("a visit ended in a panic: {error}");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn rounds() -> Rounds<&'static str, ()> {
        Rounds::new(2, Growth { first: Duration::from_secs(1), most: Duration::from_secs(8) })
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_may_are_visited_together_and_none_twice() {
        let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut rounds = rounds();
        ["a", "b", "a", "c", "d"].into_iter().for_each(|key| rounds.visit(key));
        let mut seen = Vec::new();
        while seen.len() < 4 {
            let (busy, most) = (busy.clone(), most.clone());
            rounds.begin(move |_| {
                let (busy, most) = (busy.clone(), most.clone());
                async move {
                    most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    busy.fetch_sub(1, Ordering::SeqCst);
                }
            });
            seen.extend(rounds.next().await.map(|(key, ())| key));
        }
        seen.sort_unstable();
        assert_eq!(seen, ["a", "b", "c", "d"]);
        assert_eq!(most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_asked_for_during_a_visit_is_visited_after_it() {
        let mut rounds = rounds();
        rounds.visit("a");
        rounds.begin(|_| tokio::time::sleep(Duration::from_secs(1)));
        rounds.visit("a");
        rounds.begin(|_| tokio::time::sleep(Duration::from_secs(1)));
        assert_eq!(rounds.visits.len(), 1);
        assert_eq!(rounds.next().await, Some(("a", ())));
        rounds.begin(|_| tokio::time::sleep(Duration::from_secs(1)));
        assert_eq!(rounds.next().await, Some(("a", ())));
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_forgotten_is_visited_only_when_asked_for_anew() {
        let mut rounds = rounds();
        ["a", "b", "c"].into_iter().for_each(|key| rounds.visit(key));
        rounds.forget(&"a");
        rounds.failed("b");
        rounds.forget(&"b");
        rounds.visit("a");
        let mut seen = Vec::new();
        rounds.begin(|_| async {});
        while let Ok(Some((key, ()))) = tokio::time::timeout(Duration::from_secs(60), rounds.next()).await {
            seen.push(key);
            rounds.begin(|_| async {});
        }
        seen.sort_unstable();
        assert_eq!(seen, ["a", "c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn who_rests_is_not_visited_before_its_time_whoever_asks() {
        let mut rounds = rounds();
        let begun = Instant::now();
        rounds.visit("a");
        let wait = rounds.rests("a");
        assert!(wait > Duration::ZERO, "{wait:?}");
        for _ in 0..3 {
            rounds.visit("a");
            rounds.begin(|_| async {});
        }
        assert_eq!(rounds.visits.len(), 0);
        assert_eq!(rounds.next().await, None);
        assert!(begun.elapsed() >= wait, "{:?} of {wait:?}", begun.elapsed());
        rounds.begin(|_| async {});
        assert_eq!(rounds.next().await, Some(("a", ())));
        rounds.visit("a");
        rounds.begin(|_| async {});
        assert_eq!(rounds.next().await, Some(("a", ())));
    }

    #[tokio::test(start_paused = true)]
    async fn who_fails_is_visited_again_later_and_later() {
        let mut rounds = rounds();
        let begun = Instant::now();
        rounds.visit("a");
        for _ in 0..3 {
            rounds.begin(|_| async {});
            while let Some((key, ())) = rounds.next().await {
                rounds.failed(key);
            }
        }
        assert!(begun.elapsed() >= Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}
