//! What the checker knows of every instance: a few words each, in memory, made again from a list after a restart.
//! It decides what needs a look and when; it reads no clock and writes nothing.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bellwether_conditions::freshness::{Beat, Freshness, Judgement};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::decide::{NeverBeaten, Spoken, Verdict, verdict};
use super::instance::Instance;

/// How instances are judged.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many periods of silence are tolerated.
    pub timeout_multiplier: NonZeroU32,
    /// Whether instances that have never beaten are spoken of.
    pub never_beaten: NeverBeaten,
}

impl Default for Settings {
    fn default() -> Self {
        Self { timeout_multiplier: NonZeroU32::MIN.saturating_add(2), never_beaten: NeverBeaten::default() }
    }
}

/// The namespace and the name of an instance. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key(Arc<str>);

impl Key {
    pub(crate) fn of(instance: &Instance) -> Self {
        let namespace = instance.metadata.namespace.as_deref().unwrap_or_default();
        let name = instance.metadata.name.as_deref().unwrap_or_default();
        Self(format!("{namespace}/{name}").into())
    }

    pub(crate) fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    pub(crate) fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// How an instance was last judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Alive,
    Silent,
    Never,
}

impl State {
    pub(crate) const ALL: [State; 3] = [State::Alive, State::Silent, State::Never];

    pub(crate) fn word(self) -> &'static str {
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

/// What is known of one instance.
struct Tracked {
    uid: Box<str>,
    version: Option<u64>,
    generation: i64,
    beat: Option<Beat>,
    period: Duration,
    sensible_period: bool,
    /// The generation of which it was told that its period makes no sense.
    told: Option<i64>,
    spoken: Spoken,
    state: State,
}

/// What a look at an instance found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// What to say.
    pub(crate) verdict: Option<Verdict>,
    /// Since when it is so; only silence has a beginning.
    pub(crate) since: Option<Timestamp>,
    /// When to judge again unless it beats.
    pub(crate) deadline: Option<Timestamp>,
    /// Whether somebody has to be told of a period that makes no sense.
    pub(crate) untold: bool,
    /// Whether it was silent before, and beats.
    pub(crate) recovered: bool,
}

impl Finding {
    /// Whether there is something to write.
    pub(crate) fn wants_a_visit(&self) -> bool {
        self.verdict.is_some() || self.untold
    }
}

/// How many instances are how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    states: [usize; 3],
    pub(crate) senseless_periods: usize,
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
        if !tracked.sensible_period {
            self.senseless_periods = self.senseless_periods.saturating_add_signed(by);
        }
    }
}

/// What is known of all instances.
pub(crate) struct Index {
    settings: Settings,
    tracked: HashMap<Key, Tracked>,
    census: Census,
}

impl Index {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings, tracked: HashMap::new(), census: Census::default() }
    }

    /// Takes in an instance as it was seen at `now`. `None` where there is nothing to judge: it is being deleted, or
    /// newer is known of it.
    pub(crate) fn observe(&mut self, key: &Key, instance: &Instance, now: Timestamp) -> Option<Finding> {
        if instance.metadata.deletion_timestamp.is_some() {
            self.forget(key);
            return None;
        }
        let uid = instance.metadata.uid.as_deref().unwrap_or_default();
        let version = version(instance);
        // Another object of the same name has nothing to do with the one before.
        let before = self.tracked.get(key).filter(|before| *before.uid == *uid);
        if before.is_some_and(|before| version < before.version) {
            return None;
        }
        let beat = instance.stamp().map(|stamp| match before {
            // It was known to have none: whatever its clock says, this one came just now.
            Some(Tracked { beat: None, .. }) => Beat::arrived(stamp, now),
            before => Beat::observe(before.and_then(|before| before.beat), stamp, now),
        });
        let period = instance.period();
        let mut tracked = Tracked {
            uid: uid.into(),
            version,
            generation: instance.generation(),
            beat,
            period: period.effective(),
            sensible_period: period.shortcoming().is_none(),
            told: before.and_then(|before| before.told),
            spoken: instance.spoken(),
            state: before.map_or(State::Never, |before| before.state),
        };
        let finding = judge(&self.settings, &mut tracked, now);
        self.forget(key);
        self.census.count(&tracked, 1);
        self.tracked.insert(key.clone(), tracked);
        Some(finding)
    }

    /// The version that is known of an instance.
    pub(crate) fn version(&self, key: &Key) -> Option<u64> {
        self.tracked.get(key)?.version
    }

    /// Takes in an instance that was asked for when `known` was known of it. Answers do not go back in time: an older
    /// one comes from a server that was set back to a backup, and what was known of that is worth nothing any more.
    pub(crate) fn read_after(
        &mut self,
        known: Option<u64>,
        key: &Key,
        instance: &Instance,
        now: Timestamp,
    ) -> Option<Finding> {
        if version(instance) < known {
            self.forget(key);
        }
        self.observe(key, instance, now)
    }

    /// Judges an instance again, as its time has come.
    pub(crate) fn review(&mut self, key: &Key, now: Timestamp) -> Option<Finding> {
        let tracked = self.tracked.get_mut(key)?;
        self.census.count(tracked, -1);
        let finding = judge(&self.settings, tracked, now);
        self.census.count(tracked, 1);
        Some(finding)
    }

    /// Notes that somebody was told of a period that makes no sense.
    pub(crate) fn told(&mut self, key: &Key, generation: i64) {
        if let Some(tracked) = self.tracked.get_mut(key) {
            tracked.told = Some(generation);
        }
    }

    pub(crate) fn forget(&mut self, key: &Key) {
        if let Some(tracked) = self.tracked.remove(key) {
            self.census.count(&tracked, -1);
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.tracked.keys()
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
    let judgement = freshness.judge(tracked.beat.as_ref(), now);
    let state = State::of(judgement);
    let recovered = tracked.state == State::Silent && state == State::Alive;
    tracked.state = state;
    Finding {
        verdict: verdict(judgement, tracked.spoken, settings.never_beaten),
        since: match judgement {
            Judgement::Stale { since, .. } => Some(since),
            Judgement::Fresh { .. } | Judgement::Never => None,
        },
        deadline: judgement.next_change(),
        untold: !tracked.sensible_period && tracked.told != Some(tracked.generation),
        recovered,
    }
}
