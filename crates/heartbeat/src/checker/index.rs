//! The index of AddonInstances: a few fields of each in memory, rebuilt from a list after a restart. It determines which
//! instances need a reconcile and when they become stale. It makes no requests.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock as _, SteadyClock};
use bellwether_conditions::freshness::{Beat, Freshness, Judgement};
use bellwether_runtime::{DirtyKeys, ObjectName};
use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::decide::{CheckerReason, HealthyCondition, PendingPolicy, decide_reason};
use super::instance::Instance;
use super::metrics::CheckerMetrics;

/// How instances are judged.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// After how many periods without a heartbeat an instance is stale.
    pub timeout_multiplier: NonZeroU32,
    /// Whether instances that never had a heartbeat are marked as pending.
    pub pending_policy: PendingPolicy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            timeout_multiplier: NonZeroU32::MIN.saturating_add(2),
            pending_policy: PendingPolicy::default(),
        }
    }
}

/// Whether heartbeats of an instance arrive, as last judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Alive,
    Silent,
    Never,
}

impl State {
    pub(crate) const ALL: [State; 3] = [State::Alive, State::Silent, State::Never];

    pub(crate) fn label(self) -> &'static str {
        match self {
            State::Alive => "alive",
            State::Silent => "silent",
            State::Never => "never",
        }
    }

    fn of(judgement: Judgement) -> Self {
        match judgement {
            Judgement::Fresh { .. } => State::Alive,
            Judgement::Stale { .. } => State::Silent,
            Judgement::Never => State::Never,
        }
    }
}

/// The tracked fields of one instance.
struct Tracked {
    uid: Box<str>,
    version: Option<u64>,
    generation: i64,
    heartbeat: Option<Beat>,
    period: Duration,
    has_valid_period: bool,
    /// The last generation for which a Warning event about its invalid period was written.
    warned: Option<i64>,
    healthy: HealthyCondition,
    state: State,
}

/// The result of judging an instance.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The reason that must be written to `Healthy`, if any.
    pub(crate) reason: Option<CheckerReason>,
    /// Since when the instance is stale, if it is.
    pub(crate) stale_since: Option<Timestamp>,
    /// When the result changes unless a heartbeat arrives.
    pub(crate) deadline: Option<Timestamp>,
    /// Whether a Warning event about an invalid period is to be written.
    pub(crate) warn_invalid_period: bool,
    /// Whether heartbeats arrive again after a silence.
    pub(crate) recovered: bool,
}

impl Finding {
    fn needs_reconcile(&self) -> bool {
        self.reason.is_some() || self.warn_invalid_period
    }
}

/// The number of instances in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    states: [usize; 3],
    pub(crate) invalid_periods: usize,
}

impl Census {
    pub(crate) fn of(&self, state: State) -> usize {
        let [alive, silent, never] = self.states;
        match state {
            State::Alive => alive,
            State::Silent => silent,
            State::Never => never,
        }
    }

    fn count(&mut self, tracked: &Tracked, by: isize) {
        let [alive, silent, never] = &mut self.states;
        let state = match tracked.state {
            State::Alive => alive,
            State::Silent => silent,
            State::Never => never,
        };
        *state = state.saturating_add_signed(by);
        if !tracked.has_valid_period {
            self.invalid_periods = self.invalid_periods.saturating_add_signed(by);
        }
    }
}

/// The index of all instances.
pub(crate) struct Index {
    settings: Settings,
    clock: SteadyClock,
    tracked: HashMap<ObjectName, Tracked>,
    census: Census,
    metrics: Arc<CheckerMetrics>,
    dirty: DirtyKeys<ObjectName>,
    /// Recoveries are counted by the leader alone.
    pub(crate) is_leader: bool,
}

impl Index {
    pub(crate) fn new(settings: Settings, clock: SteadyClock, metrics: Arc<CheckerMetrics>) -> Self {
        Self {
            settings,
            clock,
            tracked: HashMap::new(),
            census: Census::default(),
            metrics,
            dirty: DirtyKeys::default(),
            is_leader: false,
        }
    }

    /// The watch delivered an instance.
    pub(crate) fn apply(&mut self, instance: &Instance) {
        let key = ObjectName::of(instance);
        match self.observe(&key, instance) {
            Some(finding) => self.schedule(key, &finding),
            None if instance.metadata.deletion_timestamp.is_some() => self.delete(&key),
            // The index has a newer version already.
            None => {}
        }
    }

    /// An instance was deleted.
    pub(crate) fn delete(&mut self, key: &ObjectName) {
        self.remove(key);
        self.dirty.cancel_deadline(key.clone());
        self.dirty.forget(key.clone());
    }

    /// Judges an instance again, as time has passed.
    pub(crate) fn review(&mut self, key: &ObjectName) {
        match self.judge_again(key) {
            Some(finding) => self.schedule(key.clone(), &finding),
            // It was deleted while its reconcile ran.
            None => self.dirty.forget(key.clone()),
        }
    }

    /// Judges every instance again and returns those that need a reconcile.
    pub(crate) fn review_all(&mut self) -> Vec<ObjectName> {
        let keys: Vec<ObjectName> = self.tracked.keys().cloned().collect();
        keys.into_iter()
            .filter(|key| {
                let Some(finding) = self.judge_again(key) else { return false };
                self.set_deadline(key.clone(), finding.deadline);
                finding.needs_reconcile()
            })
            .collect()
    }

    fn judge_again(&mut self, key: &ObjectName) -> Option<Finding> {
        let now = self.clock.now();
        let tracked = self.tracked.get_mut(key)?;
        self.census.count(tracked, -1);
        let finding = judge(&self.settings, tracked, now);
        self.census.count(tracked, 1);
        Some(finding)
    }

    fn schedule(&mut self, key: ObjectName, finding: &Finding) {
        if finding.recovered && self.is_leader {
            self.metrics.count_recovery();
        }
        if finding.needs_reconcile() {
            self.dirty.enqueue(key.clone());
        }
        self.set_deadline(key, finding.deadline);
    }

    fn set_deadline(&mut self, key: ObjectName, deadline: Option<Timestamp>) {
        match deadline {
            Some(deadline) => {
                let left = Duration::try_from(deadline.duration_since(self.clock.now())).unwrap_or_default();
                self.dirty.set_deadline(key, Instant::now() + left);
            }
            None => self.dirty.cancel_deadline(key),
        }
    }

    /// Updates the index with an instance. Returns `None` if there is nothing to judge: the instance is being deleted, or the
    /// index has a newer version.
    pub(crate) fn observe(&mut self, key: &ObjectName, instance: &Instance) -> Option<Finding> {
        if instance.metadata.deletion_timestamp.is_some() {
            self.remove(key);
            return None;
        }
        let now = self.clock.now();
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let version = version(instance);
        // An object with another UID is a new object with the same name; the state of the previous one does not apply.
        let before = self.tracked.get(key).filter(|before| *before.uid == *uid);
        if before.is_some_and(|before| version < before.version) {
            return None;
        }
        let heartbeat = instance.last_heartbeat_time().map(|time| match before {
            // The instance had no heartbeat before, so this one arrived just now, even if the add-on's clock is wrong.
            Some(Tracked { heartbeat: None, .. }) => Beat::arrived(time, now),
            before => Beat::observe(before.and_then(|before| before.heartbeat), time, now),
        });
        let period = instance.period();
        let mut tracked = Tracked {
            uid: uid.into(),
            version,
            generation: instance.generation(),
            heartbeat,
            period: period.effective(),
            has_valid_period: period.validation_error().is_none(),
            warned: before.and_then(|before| before.warned),
            healthy: instance.healthy_condition(),
            state: before.map_or(State::Never, |before| before.state),
        };
        let finding = judge(&self.settings, &mut tracked, now);
        self.remove(key);
        self.census.count(&tracked, 1);
        self.tracked.insert(key.clone(), tracked);
        Some(finding)
    }

    /// The resourceVersion of an instance in the index.
    pub(crate) fn version(&self, key: &ObjectName) -> Option<u64> {
        self.tracked.get(key)?.version
    }

    /// Updates the index with an instance that was read when `known` was its version in the index. A read never returns an
    /// older version, unless the server was restored from a backup; then the instance is removed from the index first.
    pub(crate) fn observe_read(
        &mut self,
        known: Option<u64>,
        key: &ObjectName,
        instance: &Instance,
    ) -> Option<Finding> {
        if version(instance) < known {
            self.remove(key);
        }
        self.observe(key, instance)
    }

    /// Notes that the Warning event about an invalid period was written for a generation.
    pub(crate) fn mark_warned(&mut self, key: &ObjectName, generation: i64) {
        if let Some(tracked) = self.tracked.get_mut(key) {
            tracked.warned = Some(generation);
        }
    }

    fn remove(&mut self, key: &ObjectName) {
        if let Some(tracked) = self.tracked.remove(key) {
            self.census.count(&tracked, -1);
        }
    }

    pub(crate) fn take_dirty(&mut self) -> DirtyKeys<ObjectName> {
        self.dirty.take()
    }

    pub(crate) fn census(&self) -> Census {
        self.census
    }
}

fn version(instance: &Instance) -> Option<u64> {
    instance.resource_version().and_then(|version| version.parse().ok())
}

fn judge(settings: &Settings, tracked: &mut Tracked, now: Timestamp) -> Finding {
    let freshness = Freshness::of_period(tracked.period, settings.timeout_multiplier.get());
    let judgement = freshness.judge(tracked.heartbeat.as_ref(), now);
    let state = State::of(judgement);
    let recovered = tracked.state == State::Silent && state == State::Alive;
    tracked.state = state;
    Finding {
        reason: decide_reason(judgement, tracked.healthy, settings.pending_policy),
        stale_since: match judgement {
            Judgement::Stale { since, .. } => Some(since),
            Judgement::Fresh { .. } | Judgement::Never => None,
        },
        deadline: judgement.next_change(),
        warn_invalid_period: !tracked.has_valid_period && tracked.warned != Some(tracked.generation),
        recovered,
    }
}
