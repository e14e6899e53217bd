//! Watches the hub, has the world judge what stirs, and sends visits that write. An add-on as a whole is planned a moment
//! after something stirred.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::NAME_LABEL;
use bellwether_api::addon::{
    AddOnDeploymentConfig, AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn,
};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_api::work::ManifestWork;
use bellwether_runtime::{Agenda, Context, Growth, Part, Rounds, metrics};
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::visit::{VisitError, Visitor};
use super::world::{Key, Work, World};
use crate::planning::Planning;
use crate::watching::{Change, Watches};

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = "addon-lifecycle-controller";
/// How many visits are under way together.
const AT_ONCE: usize = 32;
/// How long to leave an object alone after a visit failed.
const RETRY: Growth = Growth { first: Duration::from_millis(100), most: Duration::from_secs(30) };
/// How many works are read together: one may have hundreds of kilobytes.
const WORKS: u32 = 100;
/// How long the status of an add-on as a whole waits for more to say.
const SUMMARY: Duration = Duration::from_millis(250);

/// Brings versions of add-ons to clusters, until the shutdown. A copy that does not lead watches all the same.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(format!("{NAME} of {}", context.cluster)));
    async move {
        Lifecycle::new(context, part).run().await;
    }
}

/// What the watches show.
enum Fact {
    Management(Change<ClusterManagementAddOn>),
    Template(Change<AddOnTemplate>),
    Config(Change<AddOnDeploymentConfig>),
    Placement(Change<Placement>),
    Decision(Change<PlacementDecision>),
    Cluster(Change<ManagedCluster>),
    Addon(Change<ManagedClusterAddOn>),
    Work(Change<ManifestWork>),
}

/// What is visited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Errand {
    /// An add-on on a cluster.
    Addon(Key),
    /// An add-on as a whole.
    Summary(Arc<str>),
}

struct Lifecycle {
    context: Context,
    world: Arc<Mutex<World>>,
    watches: Watches<Fact>,
    visitor: Arc<Visitor>,
    rounds: Rounds<Errand, Result<Option<Timestamp>, VisitError>>,
    /// Add-ons as a whole that have to be planned, and those whose status has to be written.
    plans: Planning<Arc<str>>,
    summaries: Agenda<Arc<str>>,
    counts: metrics::Counts,
    leads: bool,
    /// Whether all kinds were known as a whole once.
    knows: bool,
    /// Whether the last visit failed.
    fails: bool,
}

impl Lifecycle {
    fn new(context: Context, part: Arc<Part>) -> Self {
        let works = watcher::Config::default().labels(NAME_LABEL).page_size(WORKS);
        let all = watcher::Config::default;
        let watches = Watches::of(&context, part)
            .with(all(), Fact::Management)
            .with(all(), Fact::Template)
            .with(all(), Fact::Config)
            .with(all(), Fact::Placement)
            .with(all(), Fact::Decision)
            .with(all(), Fact::Cluster)
            .with(all(), Fact::Addon)
            .with(works, Fact::Work);
        let world = Arc::new(Mutex::new(World::default()));
        let counts = metrics::Counts::of(&context.metrics, &context.cluster, NAME);
        counts.leading(false);
        Self {
            visitor: Arc::new(Visitor::new(&context, world.clone())),
            context,
            world,
            watches,
            rounds: Rounds::new(AT_ONCE, RETRY),
            plans: Planning::default(),
            summaries: Agenda::default(),
            counts,
            leads: false,
            knows: false,
            fails: false,
        }
    }

    async fn run(mut self) {
        let end = self.context.shutdown.begun();
        let mut end = std::pin::pin!(end);
        let leadership = self.context.leadership.clone();
        loop {
            tokio::select! {
                () = &mut end => break,
                fact = self.watches.next() => self.take_in(fact),
                addon = self.plans.next() => self.plan(addon),
                addon = self.summaries.next() => self.rounds.visit(Errand::Summary(addon)),
                ended = self.rounds.next() => if let Some((errand, outcome)) = ended { self.conclude(errand, outcome) },
                () = leadership.held(), if !self.leads => self.lead(true),
                () = leadership.lost(), if self.leads => self.lead(false),
            }
            self.go();
        }
        // What was begun is finished.
        self.rounds.finish().await;
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.counts.leading(leads);
        self.rounds.clear();
        if leads {
            self.look_at_all();
        }
    }

    fn look_at_all(&mut self) {
        let all = self.world.lock().all();
        all.addons.into_iter().for_each(|addon| self.plans.soon(addon));
        all.keys.into_iter().for_each(|key| self.rounds.visit(Errand::Addon(key)));
    }

    fn take_in(&mut self, fact: Option<Fact>) {
        let Some(fact) = fact else {
            // Nothing was done before all was known. What changed when a kind is listed anew stirs by itself.
            if self.watches.complete() && !std::mem::replace(&mut self.knows, true) {
                self.look_at_all();
            }
            return;
        };
        let mut world = self.world.lock();
        match fact {
            Fact::Management(Change::Here(object)) => world.manage(object),
            Fact::Management(Change::Gone((_, name))) => world.unmanage(&name),
            Fact::Template(Change::Here(object)) => world.publish(object),
            Fact::Template(Change::Gone((_, name))) => world.withdraw(&name),
            Fact::Config(Change::Here(object)) => world.configure(object),
            Fact::Config(Change::Gone(name)) => world.unconfigure(&name),
            Fact::Placement(Change::Here(object)) => world.place(object),
            Fact::Placement(Change::Gone(name)) => world.displace(&name),
            Fact::Decision(Change::Here(object)) => world.decide(object),
            Fact::Decision(Change::Gone(name)) => world.undecide(&name),
            Fact::Cluster(Change::Here(object)) => world.join(&object),
            Fact::Cluster(Change::Gone((_, name))) => world.leave(&name),
            Fact::Addon(Change::Here(object)) => world.observe(object),
            Fact::Addon(Change::Gone((cluster, addon))) => world.forget(&Key::new(&cluster, &addon)),
            Fact::Work(Change::Here(work)) => {
                world.deploy(&work.namespace().unwrap_or_default(), &work.name_any(), Work::of(&work));
            }
            Fact::Work(Change::Gone((cluster, name))) => world.undeploy(&cluster, &name),
        }
    }

    /// Sends visits to what stirred, while this process leads and knows all.
    fn go(&mut self) {
        let stir = self.world.lock().stirred();
        if !self.leads || !self.watches.complete() {
            return;
        }
        stir.keys.into_iter().for_each(|key| self.rounds.visit(Errand::Addon(key)));
        stir.addons.into_iter().for_each(|addon| self.plans.soon(addon));
        let (visitor, counts) = (&self.visitor, &self.counts);
        self.rounds.begin(|errand| {
            let (visitor, counts, begun) = (visitor.clone(), counts.clone(), Instant::now());
            async move {
                let outcome = visitor.visit(&errand).await;
                counts.reconciled(begun.elapsed());
                outcome
            }
        });
    }

    fn plan(&mut self, addon: Arc<str>) {
        if !self.leads || !self.watches.complete() {
            return;
        }
        let begun = Instant::now();
        let next = self.world.lock().plan(&addon, self.context.clock.now());
        self.plans.planned(begun);
        self.summaries.sooner(addon.clone(), Instant::now() + SUMMARY);
        if let Some(next) = next {
            self.plans.at(addon, self.instant_of(next));
        }
    }

    fn instant_of(&self, deadline: Timestamp) -> Instant {
        let left = Duration::try_from(deadline.duration_since(self.context.clock.now()));
        Instant::now() + left.unwrap_or_default()
    }

    fn conclude(&mut self, errand: Errand, outcome: Result<Option<Timestamp>, VisitError>) {
        match outcome {
            Ok(next) => {
                self.fails = false;
                self.rounds.succeeded(&errand);
                if let Some(next) = next {
                    let at = self.instant_of(next);
                    self.rounds.visit_at(errand, at);
                }
            }
            Err(error) => {
                self.counts.failed(error.label());
                let wait = match &error {
                    VisitError::Undone => self.rounds.rests(errand.clone()),
                    _ => self.rounds.failed(errand.clone()),
                };
                // In an outage every object would have a line of its own, again and again.
                if !std::mem::replace(&mut self.fails, true) {
                    tracing::warn!(
                        "{NAME} of {}: {errand:?}: {error}; it is tried again until it works",
                        self.context.cluster
                    );
                }
                tracing::debug!("{errand:?}: {error}; again in {wait:?}");
            }
        }
    }
}
