//! The work agent: brings the objects of the cluster's ManifestWorks to it, repairs them when somebody changes them,
//! takes them away again, and tells the hub what is there.
//!
//! `decide` is pure; `visit` is one look at a work, with the order of its writes; `farewell` is how objects go. `hub`,
//! `spoke`, `kinds` and `ledger` are the wire. `index` keeps what watches say of applied objects, by which a change is
//! noticed at once and an object that has not changed is not read again. This module watches, and decides whom to visit
//! when. In steady state it neither reads nor writes.

mod decide;
mod farewell;
mod hub;
mod index;
mod kinds;
mod ledger;
mod piece;
mod spoke;
mod trouble;
mod visit;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::metrics::Counts;
use bellwether_runtime::{Agenda, Backoff, Context, Growth, Part, heard, in_words};
use futures::stream::{self, AbortHandle, BoxStream, SelectAll, StreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject};
use kube::runtime::{WatchStreamExt as _, watcher};
use parking_lot::Mutex;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use self::hub::{Hub, Work};
use self::index::{Glimpse, Index};
use self::kinds::Kinds;
use self::spoke::Spoke;
use self::trouble::Failure;
use self::visit::{Extent, Memory, Next, Outcome, Visitor};
use crate::Agent;

/// The name of the controller, in logs, metrics and health, and of what it owns in objects.
pub const NAME: &str = "work-agent";

/// How many works are visited at the same time.
const CONCURRENCY: usize = 16;
/// How many kinds are watched. Objects of others are looked at now and then.
const MOST_KINDS: usize = 64;
/// How long one visit may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often everything is looked at, whatever watches say; a fifth more or less.
const RESYNC: Duration = Duration::from_secs(600);
/// How often objects are looked at whose changes are not heard of.
const POLL: Duration = Duration::from_secs(15);
/// How long to wait for more changes of objects, and how long to leave a work alone after a visit.
const GATHER: Duration = Duration::from_millis(50);
const REST: Duration = Duration::from_millis(200);
/// How long to leave a work alone after something failed, while objects leave, and after a repair: whoever changes an
/// object back and forth with us does so ever more slowly.
const RETRY: Growth = Growth { first: Duration::from_millis(500), most: Duration::from_secs(60) };
const DEPARTURE: Growth = Growth { first: Duration::from_millis(500), most: Duration::from_secs(10) };
const REPAIR: Growth = Growth { first: Duration::from_millis(500), most: Duration::from_secs(60) };
/// After which time without a repair somebody counts as having given up.
const PEACE: Duration = Duration::from_secs(120);

/// Serves the works of a cluster until the shutdown. The context is that of the cluster.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(format!("{NAME} of {}", context.cluster)));
    async move { Works::new(agent, context, part).run().await }
}

/// What a watch on the cluster tells: of which kind, by which asking, and what.
type Sighting = (ApiResource, u64, watcher::Result<watcher::Event<Glimpse>>);

/// A work, what is remembered of it, and what the visit came to.
type Visit = (Arc<str>, Memory, Result<Outcome, Failure>);

struct Works {
    context: Context,
    part: Arc<Part>,
    visitor: Arc<Visitor>,
    index: Arc<Mutex<Index>>,
    works: HashMap<Arc<str>, Entry>,
    /// When to visit which work again.
    agenda: Agenda<Arc<str>>,
    queue: VecDeque<Arc<str>>,
    visits: JoinSet<Visit>,
    sightings: SelectAll<BoxStream<'static, Sighting>>,
    watches: HashMap<ApiResource, (u64, AbortHandle)>,
    retries: Backoff<Arc<str>>,
    departures: Backoff<Arc<str>>,
    repairs: Backoff<Arc<str>>,
    counts: Counts,
    /// What a list of works that is under way has not shown yet.
    unconfirmed: HashSet<Arc<str>>,
    leads: bool,
}

/// A work, and when it is looked at.
struct Entry {
    work: Arc<Work>,
    memory: Memory,
    state: State,
    /// When it is looked at next, if nothing happens.
    due: Option<Instant>,
    /// When everything of it is looked at.
    resync: Instant,
    /// Until when it is left alone, unless it asks for something else.
    rest: Instant,
    repaired: Option<Instant>,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Queued,
    Visited,
    /// It is visited, and something has changed since that began.
    VisitedAndChanged,
}

impl Works {
    fn new(agent: Agent, context: Context, part: Arc<Part>) -> Self {
        let index = Arc::new(Mutex::new(Index::default()));
        let hub = Hub::new(agent.hub.clone(), &agent.cluster);
        let counts = Counts::of(&context.metrics, &context.cluster, NAME);
        counts.leading(false);
        let visitor = Visitor {
            hub,
            spoke: Spoke { client: context.client.clone() },
            kinds: Kinds::new(context.client.clone()),
            index: index.clone(),
            clock: context.clock.clone(),
            agent,
        };
        Self {
            context,
            part,
            visitor: Arc::new(visitor),
            index,
            works: HashMap::new(),
            agenda: Agenda::default(),
            queue: VecDeque::new(),
            visits: JoinSet::new(),
            sightings: SelectAll::new(),
            watches: HashMap::new(),
            retries: Backoff::new(RETRY),
            departures: Backoff::new(DEPARTURE),
            repairs: Backoff::new(REPAIR),
            counts,
            unconfirmed: HashSet::new(),
            leads: false,
        }
    }

    async fn run(mut self) {
        let hub = heard(&self.visitor.agent.hub, self.part.clone());
        let works = Hub::new(hub, &self.visitor.agent.cluster).works();
        let works = watcher(works, watcher::Config::default())
            .default_backoff()
            .modify(|work| work.metadata.managed_fields = None);
        let mut works = std::pin::pin!(works);
        let end = self.context.shutdown.begun();
        let mut end = std::pin::pin!(end);
        let leadership = self.context.leadership.clone();
        loop {
            tokio::select! {
                () = &mut end => break,
                Some(event) = works.next() => self.take_in(event),
                Some(sighting) = self.sightings.next() => self.notice(sighting),
                name = self.agenda.next() => self.come_due(name),
                Some(done) = self.visits.join_next() => self.conclude(done),
                () = leadership.held(), if !self.leads => self.lead(true),
                () = leadership.lost(), if self.leads => self.lead(false),
            }
            self.visit();
        }
        // What was begun is finished.
        while self.visits.join_next().await.is_some() {}
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.counts.leading(leads);
        self.queue.clear();
        let now = Instant::now();
        let names: Vec<Arc<str>> = self.works.keys().cloned().collect();
        for name in names {
            if let Some(entry) = self.works.get_mut(&name) {
                entry.resync = now;
                entry.state = if entry.state == State::Queued { State::Idle } else { entry.state };
            }
            if leads {
                self.plan(&name, now);
            }
        }
        self.listen();
    }

    fn take_in(&mut self, event: watcher::Result<watcher::Event<DynamicObject>>) {
        match event {
            Ok(watcher::Event::Init) => self.unconfirmed = self.works.keys().cloned().collect(),
            // A list is what there is, also where a hub was set back to what it was before.
            Ok(watcher::Event::InitApply(work)) => self.observe(Work::of(work)),
            Ok(watcher::Event::Apply(work)) => {
                let work = Work::of(work);
                let known = self.works.get(work.name.as_str());
                if known.is_none_or(|known| !work.is_older_than(&known.work)) {
                    self.observe(work);
                }
            }
            Ok(watcher::Event::Delete(work)) => {
                let work = Work::of(work);
                if self.works.get(work.name.as_str()).is_some_and(|entry| entry.work.uid == work.uid) {
                    self.forget(&work.name);
                }
            }
            Ok(watcher::Event::InitDone) => {
                for name in std::mem::take(&mut self.unconfirmed) {
                    self.forget(&name);
                }
            }
            Err(error) => {
                // The watch begins again by itself, after a while.
                tracing::debug!("{NAME} of {}: {}", self.context.cluster, in_words(&error));
                self.part.trouble(in_words(&error));
            }
        }
    }

    fn observe(&mut self, work: Work) {
        let now = Instant::now();
        let name: Arc<str> = work.name.as_str().into();
        self.unconfirmed.remove(&name);
        let Some(entry) = self.works.get_mut(&name) else {
            self.index.lock().expect(&name);
            self.works.insert(name.clone(), Entry::new(work, now));
            return self.plan(&name, now);
        };
        if work.uid == entry.work.uid && work.revision == entry.work.revision {
            return;
        }
        let asks_for_more = !work.asks_for_the_same_as(&entry.work);
        if work.uid != entry.work.uid {
            entry.memory = Memory::default();
        }
        entry.work = Arc::new(work);
        let at = if asks_for_more {
            // A change may be just what was needed.
            self.index.lock().expect(&name);
            entry.failures = 0;
            entry.rest = now;
            self.retries.succeeded(&name);
            self.departures.succeeded(&name);
            self.repairs.succeeded(&name);
            now
        } else {
            now + GATHER
        };
        self.plan(&name, at);
    }

    fn forget(&mut self, name: &str) {
        if let Some((name, _)) = self.works.remove_entry(name) {
            self.agenda.cancel(&name);
            self.queue.retain(|queued| *queued != name);
            self.retries.succeeded(&name);
            self.departures.succeeded(&name);
            self.repairs.succeeded(&name);
        }
        self.index.lock().forget(name);
        self.listen();
    }

    /// Takes in what a watch on the cluster tells.
    fn notice(&mut self, (resource, serial, event): Sighting) {
        if self.watches.get(&resource).is_none_or(|(current, _)| *current != serial) {
            return;
        }
        let event = match event {
            Ok(event) => event,
            Err(error) => {
                let cluster = &self.context.cluster;
                return tracing::debug!("{NAME} of {cluster}: {}: {}", resource.plural, in_words(&error));
            }
        };
        let concerned = self.index.lock().note(&resource, &event);
        let now = Instant::now();
        for name in concerned {
            self.plan(&name, now + GATHER);
        }
    }

    /// Visits a work at an instant, or before where that was planned.
    fn plan(&mut self, name: &Arc<str>, at: Instant) {
        let Some(entry) = self.works.get_mut(name) else { return };
        if entry.due.is_none_or(|due| at < due) {
            entry.due = Some(at);
            self.agenda.set(name.clone(), at);
        }
    }

    fn come_due(&mut self, name: Arc<str>) {
        let Some(entry) = self.works.get_mut(&name) else { return };
        entry.due = None;
        let rest = entry.rest;
        if Instant::now() < rest {
            return self.plan(&name, rest);
        }
        match entry.state {
            // A copy that stands by looks at all when its time comes.
            State::Idle if self.leads => {
                entry.state = State::Queued;
                self.queue.push_back(name);
            }
            State::Idle | State::Queued => {}
            State::Visited | State::VisitedAndChanged => entry.state = State::VisitedAndChanged,
        }
    }

    /// Begins visits, as many as may be under way.
    fn visit(&mut self) {
        while self.visits.len() < CONCURRENCY {
            let Some(name) = self.queue.pop_front() else { return };
            let Some(entry) = self.works.get_mut(&name) else { continue };
            let now = Instant::now();
            entry.state = State::Visited;
            let extent = if entry.resync <= now { Extent::All } else { Extent::Changes };
            if extent == Extent::All {
                entry.resync = now + RESYNC.mul_f64(0.8 + 0.4 * rand::random::<f64>());
            }
            let (visitor, work, failures) = (self.visitor.clone(), entry.work.clone(), entry.failures);
            let (mut memory, counts) = (std::mem::take(&mut entry.memory), self.counts.clone());
            self.visits.spawn(async move {
                let visit = visitor.visit(&work, &mut memory, extent, failures);
                let done = tokio::time::timeout(PATIENCE, visit).await;
                counts.reconciled(now.elapsed());
                (name, memory, done.unwrap_or(Err(Failure::Late(PATIENCE))))
            });
        }
    }

    fn conclude(&mut self, done: Result<Visit, JoinError>) {
        let (name, memory, result) = match done {
            Ok(done) => done,
            Err(error) => {
                // Whose it was is not known; to look at a work twice does no harm.
                let now = Instant::now();
                let visited = self.works.iter_mut().filter(|(_, entry)| entry.is_visited());
                let names: Vec<Arc<str>> = visited
                    .map(|(name, entry)| {
                        entry.state = State::Idle;
                        name.clone()
                    })
                    .collect();
                names.iter().for_each(|name| self.plan(name, now + RETRY.most));
                return tracing::error!("a visit of {NAME} ended in a panic: {error}");
            }
        };
        let now = Instant::now();
        let Some(entry) = self.works.get_mut(&name) else {
            self.index.lock().forget(&name);
            return self.listen();
        };
        let changed = entry.state == State::VisitedAndChanged;
        if !changed {
            self.index.lock().has_been_brought(&name);
        }
        entry.state = State::Idle;
        entry.memory = memory;
        entry.rest = entry.rest.max(now + REST);
        let next = match result {
            Ok(outcome) => self.follow(&name, outcome, now),
            Err(failure) => self.stumble(&name, &failure, now),
        };
        if let Some(at) = if changed { Some(now + GATHER) } else { next } {
            self.plan(&name, at);
        }
        self.listen();
    }

    /// When to look again after a visit.
    fn follow(&mut self, name: &Arc<str>, outcome: Outcome, now: Instant) -> Option<Instant> {
        let entry = self.works.get_mut(name)?;
        if let Some(work) = outcome.work.filter(|work| !work.is_older_than(&entry.work)) {
            if work.uid != entry.work.uid {
                entry.memory = Memory::default();
            }
            entry.work = Arc::from(work);
        }
        if outcome.repaired {
            if entry.repaired.is_none_or(|before| now.duration_since(before) > PEACE) {
                self.repairs.succeeded(name);
            }
            entry.repaired = Some(now);
            entry.rest = now + self.repairs.failed(name.clone());
        }
        if outcome.next != Next::Retry {
            entry.failures = 0;
            self.retries.succeeded(name);
        }
        if outcome.next != Next::Wait {
            self.departures.succeeded(name);
        }
        match outcome.next {
            Next::Settled if self.index.lock().hears_of(name) => Some(entry.resync),
            Next::Settled => Some(entry.resync.min(now + POLL)),
            Next::Retry => Some(now + self.retries.failed(name.clone())),
            Next::Wait => Some(now + self.departures.failed(name.clone())),
            Next::Again => {
                entry.rest = now;
                Some(now)
            }
            // The watch says so too, and then it is forgotten. Where it does not, the answer was wrong.
            Next::Gone => Some(entry.resync),
        }
    }

    fn stumble(&mut self, name: &Arc<str>, failure: &Failure, now: Instant) -> Option<Instant> {
        let entry = self.works.get_mut(name)?;
        entry.failures = entry.failures.saturating_add(1);
        self.counts.failed(failure.label());
        let wait = self.retries.failed(name.clone());
        tracing::warn!(
            "{NAME} of {}: {name}: {failure}; again in {:.1} s",
            self.context.cluster,
            wait.as_secs_f64()
        );
        Some(now + wait)
    }

    /// Watches the kinds of which works want objects, and no others.
    fn listen(&mut self) {
        let wanted = if self.leads { self.index.lock().kinds() } else { HashMap::new() };
        self.watches.retain(|resource, (serial, watch)| {
            let stays = wanted.get(resource) == Some(serial);
            if !stays {
                watch.abort();
                self.index.lock().lose(resource);
            }
            stays
        });
        for (resource, serial) in wanted {
            if self.watches.len() >= MOST_KINDS {
                return;
            }
            if !self.watches.contains_key(&resource) {
                let (events, handle) = stream::abortable(self.events(resource.clone(), serial));
                self.sightings.push(events.boxed());
                self.watches.insert(resource, (serial, handle));
            }
        }
    }

    fn events(&self, resource: ApiResource, serial: u64) -> BoxStream<'static, Sighting> {
        let api: Api<Glimpse> = Api::all_with(self.context.client.clone(), &resource);
        let events = watcher(api, watcher::Config::default()).default_backoff();
        events.map(move |event| (resource.clone(), serial, event)).boxed()
    }
}

impl Entry {
    fn new(work: Work, now: Instant) -> Self {
        Self {
            work: Arc::new(work),
            memory: Memory::default(),
            state: State::Idle,
            due: None,
            resync: now,
            rest: now,
            repaired: None,
            failures: 0,
        }
    }

    fn is_visited(&self) -> bool {
        matches!(self.state, State::Visited | State::VisitedAndChanged)
    }
}
