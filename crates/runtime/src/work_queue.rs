//! The work queue of a controller: which key is reconciled next. A key is never reconciled twice at the same time, a
//! bounded number of keys at once, and a failed key again after its backoff. It starts no task by itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::{Backoff, BackoffPolicy};
use crate::dirty::{DirtyKeys, QueueChange};
use crate::timers::Timers;

/// After a batch reconcile, no other begins for this multiple of the time that it took.
const BATCH_PAUSE_FACTOR: u32 = 4;
/// The longest pause after a batch reconcile.
const MAX_BATCH_PAUSE: Duration = Duration::from_secs(2);

/// Which limit a key is reconciled under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// One object: as many at the same time as the controller's concurrency allows.
    Object,
    /// A computation over many objects, such as a rollout plan: one at a time, in the order of their enqueueing, and for at
    /// most a fifth of the time. Otherwise the work for a change of n objects would grow with n².
    Batch,
}

/// How a reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It succeeded; the key is reconciled again when something changes, or after this time.
    Succeeded(Option<Duration>),
    /// It failed; the key is reconciled again after its backoff, or earlier when something changes.
    Failed,
    /// It failed; the key is reconciled again after its backoff and not before, whatever changes.
    FailedHoldOff,
}

/// Keys that wait, and keys that are being reconciled.
#[derive(Debug)]
pub(crate) struct WorkQueue<K> {
    lane: fn(&K) -> Lane,
    concurrency: usize,
    min_interval: Duration,
    objects: VecDeque<K>,
    batches: VecDeque<K>,
    queued: HashSet<K>,
    running: HashMap<K, Running>,
    running_objects: usize,
    running_batch: Option<Instant>,
    /// No batch begins before.
    batch_pause: Instant,
    /// A key is not reconciled before this instant.
    not_before: HashMap<K, Instant>,
    timers: Timers<K>,
    backoff: Backoff<K>,
}

/// Whether a key changed while it was being reconciled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Running {
    Unchanged,
    Changed,
}

impl<K: Clone + Debug + Ord + Hash> WorkQueue<K> {
    pub(crate) fn new(
        concurrency: usize,
        retry: BackoffPolicy,
        min_interval: Duration,
        lane: fn(&K) -> Lane,
    ) -> Self {
        Self {
            lane,
            concurrency,
            min_interval,
            objects: VecDeque::new(),
            batches: VecDeque::new(),
            queued: HashSet::new(),
            running: HashMap::new(),
            running_objects: 0,
            running_batch: None,
            batch_pause: Instant::now(),
            not_before: HashMap::new(),
            timers: Timers::default(),
            backoff: Backoff::new(retry),
        }
    }

    /// Applies the requests of an index, in their order.
    pub(crate) fn apply(&mut self, dirty: DirtyKeys<K>) {
        for change in dirty.into_changes() {
            match change {
                QueueChange::Enqueue(key) => self.enqueue(key),
                QueueChange::EnqueueAfter(key, delay) => self.enqueue_at(key, Instant::now() + delay),
                QueueChange::Restart(key) => self.restart(key),
                QueueChange::Forget(key) => self.forget(&key),
                QueueChange::HoldOff(key, time) => self.hold_off(key, Instant::now() + time),
            }
        }
    }

    /// Reconciles a key as soon as possible.
    pub(crate) fn enqueue(&mut self, key: K) {
        let now = Instant::now();
        if let Some(at) = self.not_before.get(&key).copied().filter(|at| now < *at) {
            return self.timers.set_earlier(key, at);
        }
        if let Some(running) = self.running.get_mut(&key) {
            *running = Running::Changed;
        } else if self.queued.insert(key.clone()) {
            match (self.lane)(&key) {
                Lane::Object => self.objects.push_back(key),
                Lane::Batch => self.batches.push_back(key),
            }
        }
    }

    /// Reconciles a key at an instant, unless it is due earlier anyway.
    fn enqueue_at(&mut self, key: K, at: Instant) {
        let at = self.not_before.get(&key).map_or(at, |not_before| at.max(*not_before));
        self.timers.set_earlier(key, at);
    }

    /// Forgets the failures of a key and reconciles it as soon as possible.
    fn restart(&mut self, key: K) {
        self.backoff.reset(&key);
        self.not_before.remove(&key);
        self.timers.cancel(&key);
        self.enqueue(key);
    }

    /// Reconciles a key not before an instant; one that is queued waits until then.
    fn hold_off(&mut self, key: K, until: Instant) {
        let held = self.not_before.entry(key.clone()).or_insert(until);
        *held = until.max(*held);
        // Its entry in the queue is skipped when it is popped.
        if self.queued.remove(&key) {
            self.timers.set_earlier(key, until);
        }
    }

    /// Forgets a key: it is reconciled again only when it is enqueued anew.
    pub(crate) fn forget(&mut self, key: &K) {
        self.backoff.reset(key);
        self.not_before.remove(key);
        self.timers.cancel(key);
        // Its entry in the queue is skipped when it is popped.
        self.queued.remove(key);
        if let Some(running) = self.running.get_mut(key) {
            *running = Running::Unchanged;
        }
    }

    /// Forgets every key. Those that are being reconciled are not enqueued when they end.
    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.batches.clear();
        self.queued.clear();
        self.not_before.clear();
        self.timers = Timers::default();
        self.running.values_mut().for_each(|running| *running = Running::Unchanged);
    }

    /// The next key to reconcile, if one may begin now. The caller reports its end to [`finish`](Self::finish).
    pub(crate) fn start(&mut self) -> Option<K> {
        let batch_may_begin = self.running_batch.is_none() && self.batch_pause <= Instant::now();
        if batch_may_begin && let Some(key) = pop(&mut self.batches, &mut self.queued) {
            self.running_batch = Some(Instant::now());
            return Some(self.begin(key));
        }
        if self.running_objects < self.concurrency
            && let Some(key) = pop(&mut self.objects, &mut self.queued)
        {
            self.running_objects += 1;
            return Some(self.begin(key));
        }
        None
    }

    fn begin(&mut self, key: K) -> K {
        self.timers.cancel(&key);
        self.not_before.remove(&key);
        self.running.insert(key.clone(), Running::Unchanged);
        key
    }

    /// The reconcile of a key has ended. Returns the delay of the retry after a failure.
    pub(crate) fn finish(&mut self, key: K, outcome: Outcome) -> Option<Duration> {
        let changed = self.running.remove(&key) == Some(Running::Changed);
        let now = Instant::now();
        match (self.lane)(&key) {
            Lane::Object => self.running_objects = self.running_objects.saturating_sub(1),
            Lane::Batch => {
                let took = self.running_batch.take().map(|start| start.elapsed()).unwrap_or_default();
                self.batch_pause = now + (took * BATCH_PAUSE_FACTOR).min(MAX_BATCH_PAUSE);
            }
        }
        if !self.min_interval.is_zero() {
            let at = now + self.min_interval;
            let held = self.not_before.entry(key.clone()).or_insert(at);
            *held = at.max(*held);
        }
        let retry = match outcome {
            Outcome::Succeeded(after) => {
                self.backoff.reset(&key);
                if let Some(after) = after {
                    self.enqueue_at(key.clone(), now + after);
                }
                None
            }
            Outcome::Failed => {
                let delay = self.backoff.record_failure(key.clone());
                self.enqueue_at(key.clone(), now + delay);
                Some(delay)
            }
            Outcome::FailedHoldOff => {
                let delay = self.backoff.record_failure(key.clone());
                self.not_before.insert(key.clone(), now + delay);
                self.timers.set(key.clone(), now + delay);
                Some(delay)
            }
        };
        if changed {
            self.enqueue(key);
        }
        retry
    }

    /// Waits for a timer, or for the end of the pause between batches. Cancel-safe.
    pub(crate) async fn wait(&mut self) {
        let batch_waits = !self.batches.is_empty() && self.running_batch.is_none();
        let pause = self.batch_pause;
        let key = tokio::select! {
            key = self.timers.next() => key,
            () = tokio::time::sleep_until(pause), if batch_waits => return,
        };
        self.enqueue(key);
    }

    /// The number of keys that wait to be reconciled now.
    pub(crate) fn depth(&self) -> usize {
        self.queued.len()
    }
}

/// The first key that was not forgotten since it was enqueued.
fn pop<K: Hash + Eq>(queue: &mut VecDeque<K>, queued: &mut HashSet<K>) -> Option<K> {
    while let Some(key) = queue.pop_front() {
        if queued.remove(&key) {
            return Some(key);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(8) };

    fn queue() -> WorkQueue<&'static str> {
        WorkQueue::new(2, RETRY, Duration::ZERO, |key| {
            if key.starts_with("plan") { Lane::Batch } else { Lane::Object }
        })
    }

    fn started(queue: &mut WorkQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.start()).collect()
    }

    fn asked(ask: impl FnOnce(&mut DirtyKeys<&'static str>)) -> DirtyKeys<&'static str> {
        let mut dirty = DirtyKeys::default();
        ask(&mut dirty);
        dirty
    }

    const SUCCEEDED: Outcome = Outcome::Succeeded(None);

    #[tokio::test(start_paused = true)]
    async fn concurrency_is_bounded_and_a_key_is_queued_once() {
        let mut queue = queue();
        ["a", "b", "a", "c"].into_iter().for_each(|key| queue.enqueue(key));
        assert_eq!(queue.depth(), 3);
        assert_eq!(started(&mut queue), ["a", "b"]);
        queue.finish("a", SUCCEEDED);
        assert_eq!(started(&mut queue), ["c"]);
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_changes_while_it_is_reconciled_is_reconciled_again() {
        let mut queue = queue();
        queue.enqueue("a");
        assert_eq!(started(&mut queue), ["a"]);
        queue.enqueue("a");
        assert_eq!(started(&mut queue), [""; 0]);
        queue.finish("a", SUCCEEDED);
        assert_eq!(started(&mut queue), ["a"]);
        queue.finish("a", SUCCEEDED);
        assert_eq!(started(&mut queue), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn forgotten_key_is_reconciled_only_when_enqueued_anew() {
        let mut queue = queue();
        ["a", "b", "c"].into_iter().for_each(|key| queue.enqueue(key));
        assert_eq!(started(&mut queue), ["a", "b"]);
        queue.finish("a", Outcome::Failed);
        queue.forget(&"a");
        queue.enqueue("b");
        queue.forget(&"b");
        queue.finish("b", SUCCEEDED);
        queue.forget(&"c");
        queue.enqueue("c");
        assert_eq!(started(&mut queue), ["c"]);
        let idle = tokio::time::timeout(Duration::from_secs(60), queue.wait()).await;
        assert!(idle.is_err(), "no timer is left");
    }

    #[tokio::test(start_paused = true)]
    async fn failed_key_is_retried_later_each_time_and_at_once_when_it_changes() {
        let mut queue = queue();
        let start = Instant::now();
        queue.enqueue("a");
        for _ in 0..3 {
            assert_eq!(started(&mut queue), ["a"]);
            queue.finish("a", Outcome::Failed);
            assert_eq!(started(&mut queue), [""; 0]);
            queue.wait().await;
        }
        assert!(start.elapsed() >= Duration::from_secs(5), "{:?}", start.elapsed());
        assert_eq!((started(&mut queue), queue.backoff.failures(&"a")), (vec!["a"], 3));
        queue.finish("a", Outcome::Failed);
        queue.enqueue("a");
        assert_eq!(started(&mut queue), ["a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn held_off_key_is_not_reconciled_before_its_time_unless_restarted() {
        let mut queue = queue();
        let start = Instant::now();
        queue.enqueue("a");
        assert_eq!(started(&mut queue), ["a"]);
        queue.enqueue("a");
        let delay = queue.finish("a", Outcome::FailedHoldOff).expect("a retry");
        for _ in 0..3 {
            queue.enqueue("a");
            queue.apply(asked(|dirty| dirty.enqueue_after("a", Duration::from_millis(1))));
            assert_eq!(started(&mut queue), [""; 0]);
        }
        queue.wait().await;
        assert!(start.elapsed() >= delay, "{:?} of {delay:?}", start.elapsed());
        assert_eq!(started(&mut queue), ["a"]);
        queue.finish("a", Outcome::FailedHoldOff);
        queue.apply(asked(|dirty| dirty.restart("a")));
        assert_eq!((started(&mut queue), queue.backoff.failures(&"a")), (vec!["a"], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn index_can_hold_off_a_key_that_is_queued_already() {
        let mut queue = queue();
        let start = Instant::now();
        queue.enqueue("a");
        queue.apply(asked(|dirty| dirty.hold_off("a", Duration::from_secs(9))));
        assert_eq!(started(&mut queue), [""; 0]);
        queue.apply(asked(|dirty| dirty.enqueue_after("a", Duration::from_secs(1))));
        while queue.depth() == 0 {
            queue.wait().await;
        }
        assert_eq!((started(&mut queue), start.elapsed().as_secs()), (vec!["a"], 9));
    }

    #[tokio::test(start_paused = true)]
    async fn min_interval_delays_the_next_reconcile_of_the_same_key() {
        let mut queue = WorkQueue::new(2, RETRY, Duration::from_millis(200), |_: &&str| Lane::Object);
        let start = Instant::now();
        queue.enqueue("a");
        assert_eq!(started(&mut queue), ["a"]);
        queue.enqueue("a");
        queue.finish("a", SUCCEEDED);
        queue.enqueue("a");
        assert_eq!(started(&mut queue), [""; 0]);
        queue.wait().await;
        assert_eq!((started(&mut queue), start.elapsed().as_millis()), (vec!["a"], 200));
    }

    #[tokio::test(start_paused = true)]
    async fn requeue_after_is_replaced_by_an_earlier_change() {
        let mut queue = queue();
        let start = Instant::now();
        queue.enqueue("a");
        started(&mut queue);
        queue.finish("a", Outcome::Succeeded(Some(Duration::from_secs(60))));
        queue.apply(asked(|dirty| dirty.enqueue_after("a", Duration::from_millis(20))));
        queue.wait().await;
        assert_eq!((started(&mut queue), start.elapsed().as_millis()), (vec!["a"], 20));
        queue.finish("a", SUCCEEDED);
        let idle = tokio::time::timeout(Duration::from_secs(120), queue.wait()).await;
        assert!(idle.is_err(), "starting a key cancels its timer");
    }

    #[tokio::test(start_paused = true)]
    async fn batches_run_one_at_a_time_in_order_and_for_a_fifth_of_the_time() {
        let mut queue = queue();
        let start = Instant::now();
        let mut seen = Vec::new();
        ["plan z", "plan a"].into_iter().for_each(|key| queue.enqueue(key));
        while seen.len() < 6 {
            let Some(key) = queue.start() else {
                queue.wait().await;
                continue;
            };
            seen.push(key);
            assert_eq!(queue.start(), None, "one at a time");
            tokio::time::advance(Duration::from_millis(100)).await;
            queue.enqueue(key);
            queue.finish(key, SUCCEEDED);
        }
        assert_eq!(seen, ["plan z", "plan a", "plan z", "plan a", "plan z", "plan a"]);
        // Six computations of 100 ms and five pauses of 400 ms.
        assert_eq!(start.elapsed().as_millis() / 100, 26);
        queue.enqueue("object");
        assert_eq!(queue.start(), Some("object"), "objects do not wait for batches");
        queue.wait().await;
        let key = queue.start().expect("the next batch");
        tokio::time::advance(Duration::from_secs(60)).await;
        queue.finish(key, SUCCEEDED);
        let paused = Instant::now();
        queue.wait().await;
        assert_eq!(paused.elapsed(), MAX_BATCH_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn cleared_queue_starts_nothing() {
        let mut queue = queue();
        ["a", "b", "plan"].into_iter().for_each(|key| queue.enqueue(key));
        assert_eq!(queue.start(), Some("plan"));
        queue.enqueue("plan");
        queue.clear();
        queue.finish("plan", SUCCEEDED);
        assert_eq!((queue.start(), queue.depth()), (None, 0));
    }
}
