//! The one place that decides: whether a write's expectation holds, which revision it gets, and which history
//! ends. A ledger plans a batch, has it made durable by its caller, and then applies it; it does no I/O.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::{
    Change, Clock, CommitError, Entry, Event, EventKind, Expect, Options, Revision, Space, Write,
    keyspace::Keyspace, record::Record, shared::Shared,
};

/// What a batch of writes does, once it is durable.
pub(crate) struct Plan<F> {
    /// The accepted writes, in revision order.
    pub(crate) events: Vec<Happening<F>>,
    /// The answers, one for each write of the batch.
    pub(crate) outcomes: Vec<Result<Arc<Entry<F>>, CommitError<F>>>,
    /// The history that ends: so many of the oldest events, those of this plan included.
    ended: usize,
    ended_weight: usize,
    /// Where the history then begins; unchanged when none ends.
    pub(crate) compacted: Revision,
}

/// An event, and where it happened.
pub(crate) struct Happening<F> {
    pub(crate) keyspace: Arc<Keyspace<F>>,
    pub(crate) event: Arc<Event<F>>,
}

impl<F> Clone for Happening<F> {
    fn clone(&self) -> Self {
        Self { keyspace: self.keyspace.clone(), event: self.event.clone() }
    }
}

pub(crate) struct Ledger<F> {
    shared: Arc<Shared<F>>,
    clock: Arc<dyn Clock>,
    history_age: Duration,
    history_bytes: usize,
    /// All events after the compacted revision, of all spaces, oldest first.
    history: VecDeque<Happening<F>>,
    weight: usize,
    /// The newest revision that was ever given out.
    high_water: Revision,
}

impl<F> Ledger<F> {
    pub(crate) fn new(shared: Arc<Shared<F>>, options: &Options) -> Self {
        Self {
            shared,
            clock: options.clock.clone(),
            history_age: options.history,
            history_bytes: options.history_bytes,
            history: VecDeque::new(),
            weight: 0,
            high_water: Revision(0),
        }
    }

    /// Decides a batch. Later writes of it see the earlier ones; nobody else does, until it is applied.
    ///
    /// History up to `goal` ends, but at most `limit` events of it in this plan.
    pub(crate) fn plan<'a>(
        &self,
        writes: impl IntoIterator<Item = &'a Write>,
        goal: Revision,
        limit: usize,
    ) -> Plan<F> {
        let mut draft = Drafting { ledger: self, pending: HashMap::new(), events: Vec::new() };
        let millis = self.clock.now().as_millisecond();
        let outcomes = writes.into_iter().map(|write| draft.decide(write, millis)).collect();
        let events = draft.events;

        let mut weight = self.weight + events.iter().map(|happening| happening.event.weight()).sum::<usize>();
        let (mut ended, mut ended_weight, mut compacted) = (0, 0, self.shared.compacted());
        let mut goal_reached = true;
        for Happening { event, .. } in self.history.iter().chain(&events) {
            let asked = event.revision() <= goal;
            if weight <= self.history_bytes && (!asked || ended >= limit) {
                goal_reached = !asked;
                break;
            }
            ended += 1;
            weight -= event.weight();
            ended_weight += event.weight();
            compacted = event.revision();
        }
        if goal_reached {
            compacted = compacted.max(goal);
        }
        Plan { events, outcomes, ended, ended_weight, compacted }
    }

    /// The records that a plan makes useless: what an ended event superseded, and an ended deletion itself.
    pub(crate) fn useless<'a>(&'a self, plan: &'a Plan<F>) -> impl Iterator<Item = Revision> + 'a {
        self.history.iter().chain(&plan.events).take(plan.ended).flat_map(|Happening { event, .. }| {
            let superseded = event.previous().map(|previous| previous.revision());
            let tombstone = (event.kind() == EventKind::Delete).then_some(event.revision());
            superseded.into_iter().chain(tombstone)
        })
    }

    /// The newest revision that was ever given out.
    pub(crate) fn known(&self) -> Revision {
        self.high_water
    }

    /// Whether a plan moves the start of the history.
    pub(crate) fn compacts(&self, plan: &Plan<F>) -> bool {
        plan.compacted > self.shared.compacted()
    }

    /// The newest revision that was given out once the plan is applied.
    pub(crate) fn high_water(&self, plan: &Plan<F>) -> Revision {
        plan.events.last().map_or(self.high_water, |happening| happening.event.revision())
    }

    /// Publishes a plan that is durable.
    pub(crate) fn apply(&mut self, plan: &Plan<F>) {
        self.high_water = self.high_water(plan);
        self.weight += plan.events.iter().map(|happening| happening.event.weight()).sum::<usize>();
        self.history.extend(plan.events.iter().cloned());
        let touched = by_keyspace(&plan.events);
        for (keyspace, events) in &touched {
            keyspace.apply(events.iter().cloned());
        }
        self.shared.publish(self.high_water.max(self.shared.published()));
        for (keyspace, _) in &touched {
            keyspace.wake();
        }
        self.forget(plan.ended, plan.ended_weight, plan.compacted);
    }

    fn forget(&mut self, ended: usize, ended_weight: usize, compacted: Revision) {
        if compacted <= self.shared.compacted() {
            return;
        }
        self.shared.set_compacted(compacted);
        self.weight = self.weight.saturating_sub(ended_weight);
        let ended: Vec<_> = self.history.drain(..ended.min(self.history.len())).collect();
        for (keyspace, _) in by_keyspace(&ended) {
            keyspace.forget(compacted);
        }
    }

    /// The newest event that is older than the history should reach.
    pub(crate) fn aged(&self) -> Revision {
        let age = i64::try_from(self.history_age.as_millis()).unwrap_or(i64::MAX);
        let horizon = self.clock.now().as_millisecond().saturating_sub(age);
        self.history
            .iter()
            .take_while(|happening| happening.event.millis() <= horizon)
            .last()
            .map(|happening| happening.event.revision())
            .unwrap_or_default()
    }

    /// Takes over a record of the log, in revision order; one at or below `compacted` is older than all history.
    pub(crate) fn replay(
        &mut self,
        revision: Revision,
        record: &Record<'_>,
        compacted: Revision,
    ) -> Result<(), String> {
        let keyspace = self.shared.find_or_create(&Space::new(record.space));
        let current = keyspace.get(record.path);
        let head = current.as_ref().map(|entry| entry.revision()).unwrap_or_default();
        let mut entry = record.entry(revision);

        if revision <= compacted {
            if record.kind == EventKind::Delete || current.is_some() {
                return Err(format!("record {revision} should have been compacted away"));
            }
            keyspace.restore(Arc::new(entry));
        } else {
            if record.previous != head {
                return Err(format!(
                    "record {revision} follows record {}, but the log has {head} before it",
                    record.previous
                ));
            }
            if let Some(current) = &current {
                entry = Entry::new(revision, record.created, current.path().clone(), entry.value().clone());
            }
            let event = Arc::new(Event::new(record.kind, record.millis, Arc::new(entry), current));
            self.weight += event.weight();
            keyspace.apply([event.clone()]);
            self.history.push_back(Happening { keyspace, event });
        }
        self.high_water = revision;
        Ok(())
    }

    /// Publishes what was replayed, of a log whose history begins after `compacted`.
    pub(crate) fn finish_replay(&mut self, compacted: Revision) {
        // A record only goes once it is compacted, so one of the two is the newest that was given out.
        self.high_water = self.high_water.max(compacted);
        let ended = self.history.partition_point(|happening| happening.event.revision() <= compacted);
        let ended_weight = self.history.iter().take(ended).map(|happening| happening.event.weight()).sum();
        self.forget(ended, ended_weight, compacted);
        self.shared.publish(self.high_water);
        for keyspace in self.shared.all() {
            keyspace.wake();
        }
    }
}

type Key = (Space, Arc<str>);

/// A plan in the making.
struct Drafting<'a, F> {
    ledger: &'a Ledger<F>,
    /// What the earlier writes of the batch left at a path.
    pending: HashMap<Key, Option<Arc<Entry<F>>>>,
    events: Vec<Happening<F>>,
}

impl<F> Drafting<'_, F> {
    fn decide(&mut self, write: &Write, millis: i64) -> Result<Arc<Entry<F>>, CommitError<F>> {
        let key = (write.space.clone(), write.path.clone());
        let current = match self.pending.get(&key) {
            Some(pending) => pending.clone(),
            None => self.ledger.shared.find(&write.space).and_then(|keyspace| keyspace.get(&write.path)),
        };
        let (kind, draft) = match &write.change {
            Change::Put(draft) => (EventKind::Put, draft),
            Change::Delete(draft) => (EventKind::Delete, draft),
        };
        let expected = match (write.expect, &current) {
            (Expect::Absent, current) => current.is_none() && kind == EventKind::Put,
            (Expect::At(revision), Some(current)) => current.revision() == revision,
            (Expect::At(_), None) => false,
            (Expect::Any, current) => current.is_some() || kind == EventKind::Put,
        };
        if !expected {
            return Err(CommitError::Conflict { current });
        }

        let given = self.events.last().map_or(self.ledger.high_water, |last| last.event.revision());
        let revision = Revision(given.0 + 1);
        // An object keeps its first path, so that its entries share one allocation.
        let (created, path) = match &current {
            Some(current) => (current.created(), current.path().clone()),
            None => (revision, write.path.clone()),
        };
        let entry = Arc::new(Entry::new(revision, created, path, draft.stamp(revision)));
        self.pending.insert(key, (kind == EventKind::Put).then(|| entry.clone()));
        self.events.push(Happening {
            keyspace: self.ledger.shared.find_or_create(&write.space),
            event: Arc::new(Event::new(kind, millis, entry.clone(), current)),
        });
        Ok(entry)
    }
}

type EventsByKeyspace<'a, F> = Vec<(&'a Arc<Keyspace<F>>, Vec<Arc<Event<F>>>)>;

/// Groups events by their space, so that each space is locked once.
fn by_keyspace<F>(happenings: &[Happening<F>]) -> EventsByKeyspace<'_, F> {
    let mut index: HashMap<*const Keyspace<F>, usize> = HashMap::new();
    let mut groups: EventsByKeyspace<'_, F> = Vec::new();
    for Happening { keyspace, event } in happenings {
        let next = groups.len();
        let group = *index.entry(Arc::as_ptr(keyspace)).or_insert(next);
        match groups.get_mut(group) {
            Some((_, events)) => events.push(event.clone()),
            None => groups.push((keyspace, vec![event.clone()])),
        }
    }
    groups
}
