//! A controller over an index in memory: watches fill the index, the index says which keys are dirty, and each dirty key
//! is reconciled. For objects that change often and rarely need a write, and for decisions over many objects.
//!
//! A standby keeps its index up to date and reconciles nothing. A leader reconciles every key once when its index is
//! synced, and then the dirty ones.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;

use crate::backoff::BackoffPolicy;
use crate::context::Context;
use crate::dirty::DirtyKeys;
use crate::guard::{Failure, guarded};
use crate::metrics::ControllerMetrics;
use crate::reconciler::{Next, ReconcileError, Retry};
use crate::timers::Timers;
use crate::watches::IndexSource;
use crate::work_queue::{Lane, Outcome, WorkQueue};

/// How many failures are logged as warnings in a minute. In an outage every key would have a line, again and again.
const WARNINGS_PER_MINUTE: u32 = 20;

/// Reconciles what a key stands for with its desired state, by an index that watches fill.
///
/// `reconcile` decides by the index, reads what must be fresh, and writes what differs. It is called for every key when
/// this process becomes leader, and must be idempotent.
pub trait IndexedReconciler: Send + Sync + 'static {
    /// What is reconciled: usually the name of an object.
    type Key: Clone + Debug + Display + Ord + Hash + Send + Sync + 'static;
    /// Why a reconcile failed.
    type Error: ReconcileError;
    /// The name of the controller, in logs, metrics and health.
    const NAME: &'static str;
    /// How many keys are reconciled at the same time.
    const CONCURRENCY: usize = 16;
    /// How long one reconcile may take.
    const TIMEOUT: Duration = Duration::from_secs(30);
    /// How long a key waits after a failed reconcile.
    const RETRY: BackoffPolicy = BackoffPolicy::DEFAULT;
    /// How long a key is left alone after a reconcile, so that several changes are one reconcile.
    const MIN_INTERVAL: Duration = Duration::ZERO;

    /// Whether a key is one object or a computation over many.
    fn lane(_key: &Self::Key) -> Lane {
        Lane::Object
    }

    /// The keys that became dirty since this was last called.
    fn take_dirty(&self) -> DirtyKeys<Self::Key>;

    /// The keys to reconcile when this process becomes leader with a synced index: every key, or those of which the index
    /// can tell that something is to be done.
    fn initial_keys(&self) -> Vec<Self::Key>;

    /// The deadline of a key has passed. Also called on a standby.
    fn on_deadline(&self, _key: &Self::Key) {}

    /// This process became leader or standby.
    fn on_leader_change(&self, _leader: bool) {}

    /// Reconciles one key.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// Runs an indexed reconciler until the shutdown; a running reconcile is finished.
pub async fn run_indexed<R: IndexedReconciler>(reconciler: R, source: impl IndexSource, context: Context) {
    let metrics = ControllerMetrics::new(&context.metrics, &context.cluster, R::NAME);
    metrics.set_leader(false);
    let controller = Controller {
        reconciler: Arc::new(reconciler),
        queue: WorkQueue::new(R::CONCURRENCY, R::RETRY, R::MIN_INTERVAL, R::lane),
        deadlines: Timers::default(),
        tasks: JoinSet::new(),
        task_keys: HashMap::new(),
        metrics,
        warnings: WarningLimit::new(),
        is_leader: false,
        was_synced: false,
        context,
    };
    controller.run(source).await;
}

/// How a reconcile ended.
type Reconciled<E> = Result<Next, Failure<E>>;

struct Controller<R: IndexedReconciler> {
    context: Context,
    reconciler: Arc<R>,
    queue: WorkQueue<R::Key>,
    deadlines: Timers<R::Key>,
    tasks: JoinSet<Reconciled<R::Error>>,
    task_keys: HashMap<Id, R::Key>,
    metrics: ControllerMetrics,
    warnings: WarningLimit,
    is_leader: bool,
    was_synced: bool,
}

impl<R: IndexedReconciler> Controller<R> {
    async fn run(mut self, mut source: impl IndexSource) {
        let mut shutdown = std::pin::pin!(self.context.shutdown.requested());
        let leadership = self.context.leadership.clone();
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                () = source.changed() => {}
                key = self.deadlines.next() => self.reconciler.on_deadline(&key),
                () = self.queue.wait(), if self.is_leader => {}
                Some(ended) = self.tasks.join_next_with_id() => self.conclude(ended),
                () = leadership.acquired(), if !self.is_leader => self.set_leader(true),
                () = leadership.lost(), if self.is_leader => self.set_leader(false),
            }
            self.take_dirty();
            if source.is_synced() && !std::mem::replace(&mut self.was_synced, true) {
                self.enqueue_initial();
            }
            self.start();
        }
        while self.tasks.join_next().await.is_some() {}
    }

    fn set_leader(&mut self, is_leader: bool) {
        self.is_leader = is_leader;
        self.metrics.set_leader(is_leader);
        self.queue.clear();
        if !is_leader {
            // Another process may act from now on. A reconcile that is cut off is as one of a process that died.
            self.tasks.abort_all();
        }
        self.reconciler.on_leader_change(is_leader);
        self.enqueue_initial();
    }

    fn enqueue_initial(&mut self) {
        if self.is_leader && self.was_synced {
            self.reconciler.initial_keys().into_iter().for_each(|key| self.queue.enqueue(key));
        }
    }

    /// Takes over what the index asks for. A standby, or a leader whose index is not synced, drops the keys: it reconciles
    /// all of them when its time comes.
    fn take_dirty(&mut self) {
        let mut dirty = self.reconciler.take_dirty();
        for (key, deadline) in dirty.take_deadlines() {
            match deadline {
                Some(at) => self.deadlines.set(key, at),
                None => self.deadlines.cancel(&key),
            }
        }
        if self.is_leader && self.was_synced {
            self.queue.apply(dirty);
        }
    }

    fn start(&mut self) {
        if !self.is_leader || !self.was_synced {
            return;
        }
        while let Some(key) = self.queue.start() {
            let (reconciler, metrics, of) = (self.reconciler.clone(), self.metrics.clone(), key.clone());
            let task = self.tasks.spawn(async move {
                let start = Instant::now();
                let result = guarded(R::TIMEOUT, reconciler.reconcile(&of)).await;
                metrics.observe_reconcile(start.elapsed());
                result
            });
            self.task_keys.insert(task.id(), key);
        }
        self.metrics.set_queue_depth(self.queue.depth());
    }

    fn conclude(&mut self, ended: Result<(Id, Reconciled<R::Error>), JoinError>) {
        let (id, result) = match ended {
            Ok((id, result)) => (id, Some(result)),
            // Aborted: this process is no leader any more, and the queue was cleared.
            Err(error) => (error.id(), None),
        };
        let Some(key) = self.task_keys.remove(&id) else { return };
        match result {
            None => _ = self.queue.finish(key, Outcome::Succeeded(None)),
            Some(Ok(Next::OnChange)) => _ = self.queue.finish(key, Outcome::Succeeded(None)),
            Some(Ok(Next::After(delay))) => _ = self.queue.finish(key, Outcome::Succeeded(Some(delay))),
            Some(Ok(Next::Backoff)) => _ = self.queue.finish(key, Outcome::Failed),
            Some(Err(failure)) => self.fail(key, &failure),
        }
    }

    fn fail(&mut self, key: R::Key, failure: &Failure<R::Error>) {
        self.metrics.count_error(failure.label());
        let outcome = match failure.retry() {
            Retry::Backoff => Outcome::Failed,
            Retry::HoldOff => Outcome::FailedHoldOff,
        };
        let delay = self.queue.finish(key.clone(), outcome).unwrap_or_default().as_secs_f64();
        let (name, cluster) = (R::NAME, &self.context.cluster);
        match self.warnings.take(Instant::now()) {
            Warning::Log { suppressed: 0 } => {
                tracing::warn!("{name} of {cluster}: {key}: {failure}; retry in {delay:.1} s");
            }
            Warning::Log { suppressed } => tracing::warn!(
                "{name} of {cluster}: {key}: {failure}; retry in {delay:.1} s ({suppressed} more failures were not logged)"
            ),
            Warning::Suppress => {
                tracing::debug!("{name} of {cluster}: {key}: {failure}; retry in {delay:.1} s");
            }
        }
    }
}

/// Limits the warnings of a controller.
struct WarningLimit {
    minute: Instant,
    logged: u32,
    suppressed: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Warning {
    Log { suppressed: u32 },
    Suppress,
}

impl WarningLimit {
    fn new() -> Self {
        Self { minute: Instant::now(), logged: 0, suppressed: 0 }
    }

    fn take(&mut self, now: Instant) -> Warning {
        if now.duration_since(self.minute) >= Duration::from_secs(60) {
            (self.minute, self.logged) = (now, 0);
        }
        if self.logged >= WARNINGS_PER_MINUTE {
            self.suppressed += 1;
            return Warning::Suppress;
        }
        self.logged += 1;
        Warning::Log { suppressed: std::mem::take(&mut self.suppressed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn warnings_beyond_the_limit_are_counted_and_reported_later() {
        let (start, mut limit) = (Instant::now(), WarningLimit::new());
        for _ in 0..WARNINGS_PER_MINUTE {
            assert_eq!(limit.take(start), Warning::Log { suppressed: 0 });
        }
        for _ in 0..3 {
            assert_eq!(limit.take(start + Duration::from_secs(59)), Warning::Suppress);
        }
        assert_eq!(limit.take(start + Duration::from_secs(60)), Warning::Log { suppressed: 3 });
        assert_eq!(limit.take(start + Duration::from_secs(61)), Warning::Log { suppressed: 0 });
    }
}
