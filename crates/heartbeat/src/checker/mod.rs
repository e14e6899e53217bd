//! The checker: notices when an add-on falls silent, and when it is back.
//!
//! `decide` is what to say, `index` what is known and when to look again, both pure; `instance` is the wire. This module
//! watches and writes. In steady state it does neither reads nor writes: a beat moves a deadline, and that is all.

mod decide;
mod index;
mod instance;
mod metrics;
mod visit;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock as _, SteadyClock};
use bellwether_runtime::{Agenda, Context, Growth, Part, Rounds, heard, in_words};
use futures::{Stream, StreamExt as _};
use jiff::Timestamp;
use kube::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use parking_lot::Mutex;
use tokio::time::Instant;

pub use decide::NeverBeaten;
pub use index::Settings;

use self::index::{Finding, Index, Key};
use self::instance::Instance;
use self::metrics::Counts;
use self::visit::{Outcome, Visitor};

/// The name of the controller, in logs, health and metrics.
pub const NAME: &str = "heartbeat-checker";
/// How many instances are visited at the same time.
const CONCURRENCY: usize = 32;
/// How long to leave an instance alone after a visit failed. Nothing tells that the API is back, as a watch then goes on
/// where it was; so the longest wait is how late silence may be marked after an outage.
const RETRY: Growth = Growth { first: Duration::from_millis(250), most: Duration::from_secs(10) };

/// Watches the AddonInstances of a cluster and judges them, until the shutdown. A copy that does not lead watches all
/// the same, so that it has seen who beats when its time comes.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(context: Context, settings: Settings) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(format!("{NAME} of {}", context.cluster)));
    async move {
        let api = Api::<Instance>::all(heard(&context.client, part.clone()));
        let instances = watcher(api, watcher::Config::default())
            .default_backoff()
            .modify(|instance| instance.metadata.managed_fields = None);
        Checker::new(context, settings, part).run(std::pin::pin!(instances)).await;
    }
}

struct Checker {
    context: Context,
    part: Arc<Part>,
    /// The time by which beats are judged: set when the checker starts, and then never stepped, whatever happens to the
    /// clock of the machine.
    steady: SteadyClock,
    index: Arc<Mutex<Index>>,
    /// When to judge which instance again.
    agenda: Agenda<Key>,
    rounds: Rounds<Key, Result<Outcome, visit::Error>>,
    visitor: Arc<Visitor>,
    counts: Arc<Counts>,
    of_controller: bellwether_runtime::metrics::Counts,
    /// What a list that is under way has not shown yet.
    unconfirmed: HashSet<Key>,
    leads: bool,
    /// Whether the last visit failed.
    fails: bool,
}

impl Checker {
    fn new(context: Context, settings: Settings, part: Arc<Part>) -> Self {
        let steady = SteadyClock::starting_at(context.clock.now());
        let index = Arc::new(Mutex::new(Index::new(settings)));
        let counts = Arc::new(Counts::of(&context.metrics, &context.cluster));
        let of_controller = bellwether_runtime::metrics::Counts::of(&context.metrics, &context.cluster, NAME);
        of_controller.leading(false);
        let visitor = Visitor::new(&context, index.clone(), steady, counts.clone());
        Self {
            context,
            part,
            steady,
            index,
            agenda: Agenda::default(),
            rounds: Rounds::new(CONCURRENCY, RETRY),
            visitor: Arc::new(visitor),
            counts,
            of_controller,
            unconfirmed: HashSet::new(),
            leads: false,
            fails: false,
        }
    }

    async fn run(
        mut self,
        mut instances: impl Stream<Item = watcher::Result<watcher::Event<Instance>>> + Unpin,
    ) {
        let end = self.context.shutdown.begun();
        let mut end = std::pin::pin!(end);
        let leadership = self.context.leadership.clone();
        loop {
            tokio::select! {
                () = &mut end => break,
                Some(event) = instances.next() => self.take_in(event),
                key = self.agenda.next() => self.review(key),
                ended = self.rounds.next() => if let Some((key, outcome)) = ended { self.conclude(key, outcome) },
                () = leadership.held(), if !self.leads => self.lead(true),
                () = leadership.lost(), if self.leads => self.lead(false),
            }
            self.visit();
        }
        // What was begun is finished.
        self.rounds.finish().await;
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.of_controller.leading(leads);
        self.rounds.clear();
        if leads {
            let keys: Vec<Key> = self.index.lock().keys().cloned().collect();
            keys.into_iter().for_each(|key| self.review(key));
        }
    }

    fn take_in(&mut self, event: watcher::Result<watcher::Event<Instance>>) {
        match event {
            Ok(event) => {
                self.handle(event);
                self.counts.census(&self.index.lock().census());
            }
            Err(error) => {
                // The watch begins again by itself, after a while.
                tracing::debug!("{NAME} of {}: {}", self.context.cluster, in_words(&error));
                self.part.trouble(in_words(&error));
            }
        }
    }

    fn handle(&mut self, event: watcher::Event<Instance>) {
        match event {
            watcher::Event::Init => self.unconfirmed = self.index.lock().keys().cloned().collect(),
            watcher::Event::InitApply(instance) => {
                let key = Key::of(&instance);
                self.unconfirmed.remove(&key);
                self.observe(key, &instance);
            }
            watcher::Event::Apply(instance) => self.observe(Key::of(&instance), &instance),
            watcher::Event::Delete(instance) => self.forget(&Key::of(&instance)),
            watcher::Event::InitDone => {
                for key in std::mem::take(&mut self.unconfirmed) {
                    self.forget(&key);
                }
            }
        }
    }

    fn observe(&mut self, key: Key, instance: &Instance) {
        let found = self.index.lock().observe(&key, instance, self.steady.now());
        match found {
            Some(finding) => self.act_on(key, &finding),
            None if instance.metadata.deletion_timestamp.is_some() => self.forget(&key),
            None => {}
        }
    }

    fn review(&mut self, key: Key) {
        let found = self.index.lock().review(&key, self.steady.now());
        match found {
            Some(finding) => {
                self.act_on(key, &finding);
                self.counts.census(&self.index.lock().census());
            }
            // It has gone while a visit failed.
            None => self.rounds.forget(&key),
        }
    }

    fn act_on(&mut self, key: Key, finding: &Finding) {
        if finding.recovered && self.leads {
            self.counts.recovered();
        }
        // A copy that stands by keeps no list, which would only grow; it looks at all when its time comes.
        if self.leads && finding.wants_a_visit() {
            self.rounds.visit(key.clone());
        }
        match finding.deadline {
            Some(deadline) => self.agenda.set(key, self.instant_of(deadline)),
            None => self.agenda.cancel(&key),
        }
    }

    fn instant_of(&self, deadline: Timestamp) -> Instant {
        let left = Duration::try_from(deadline.duration_since(self.steady.now())).unwrap_or_default();
        Instant::now() + left
    }

    fn forget(&mut self, key: &Key) {
        self.index.lock().forget(key);
        self.agenda.cancel(key);
        self.rounds.forget(key);
    }

    /// Begins visits, as many as may be under way, while this process leads.
    fn visit(&mut self) {
        if !self.leads {
            return;
        }
        let (visitor, counts) = (&self.visitor, &self.of_controller);
        self.rounds.begin(|key| {
            let (visitor, counts, begun) = (visitor.clone(), counts.clone(), Instant::now());
            async move {
                let outcome = visitor.visit(&key).await;
                counts.reconciled(begun.elapsed());
                outcome
            }
        });
    }

    fn conclude(&mut self, key: Key, outcome: Result<Outcome, visit::Error>) {
        match outcome {
            Ok(Outcome::Settled) => {
                self.fails = false;
                self.rounds.succeeded(&key);
                self.review(key);
            }
            // The watch says so too, and knows whether there is another of that name by now.
            Ok(Outcome::Gone) => self.rounds.forget(&key),
            Err(error) => {
                self.of_controller.failed(error.label());
                let wait = self.rounds.failed(key.clone());
                // In an outage every instance would have a line of its own, again and again.
                if !std::mem::replace(&mut self.fails, true) {
                    let cluster = &self.context.cluster;
                    tracing::warn!(
                        "{NAME} of {cluster}: {key}: {error}; it and others are tried again until it works"
                    );
                }
                tracing::debug!("{key}: {error}; again in {wait:?}");
            }
        }
    }
}
