//! Watches what placements have chosen, plans a moment later, and sends visits that make ManagedClusterAddOns or take them
//! away. Fields are applied without force: what a person has set stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{FINALIZER, INSTALLED_BY, UNINSTALL_UNREACHABLE};
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::vocabulary::{AVAILABLE, JOINED, UNAVAILABLE_TAINT, UNREACHABLE_TAINT};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_runtime::{Context, Growth, Part, Rounds, metrics};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::watcher;
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::decide::{Act, Choice, Cluster, Observed, Present, Wish, decide};
use super::{FIELD_MANAGER, Field, is_set_by_others, is_shared};
use crate::addon::world::Key;
use crate::placement::{Decided, KnownPlacements};
use crate::planning::Planning;
use crate::watching::{Change, Named, Watches};

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = FIELD_MANAGER;
/// How many visits are under way together.
const AT_ONCE: usize = 32;
/// How long to leave an object alone after a visit failed.
const RETRY: Growth = Growth { first: Duration::from_millis(100), most: Duration::from_secs(30) };
/// How long the API may take for one visit.
const PATIENCE: Duration = Duration::from_secs(30);

/// Brings add-ons to the clusters of their placements, until the shutdown. A copy that does not lead watches all the same.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(format!("{NAME} of {}", context.cluster)));
    async move {
        Installer::new(context, part).run().await;
    }
}

/// What the watches show.
enum Fact {
    Management(Change<ClusterManagementAddOn>),
    Placement(Change<Placement>),
    Decision(Change<PlacementDecision>),
    Cluster(Change<ManagedCluster>),
    Addon(Change<ManagedClusterAddOn>),
}

/// Why a visit came to nothing.
#[derive(Debug, thiserror::Error)]
enum VisitError {
    #[error("{doing}: {source}")]
    Api { doing: String, source: Box<kube::Error> },
    #[error("the API did not answer within {PATIENCE:?}")]
    Late,
}

impl VisitError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Late => "late",
        }
    }
}

/// What is known, and what is to be done about it.
#[derive(Default)]
struct Ground {
    managements: HashMap<String, ClusterManagementAddOn>,
    placements: KnownPlacements,
    clusters: HashMap<String, Cluster>,
    addons: HashMap<String, BTreeMap<String, Arc<ManagedClusterAddOn>>>,
    absent: HashMap<String, HashMap<String, Timestamp>>,
    /// What the last plans say, of what is not so yet.
    acts: HashMap<Key, Act>,
}

struct Installer {
    context: Context,
    ground: Arc<Mutex<Ground>>,
    watches: Watches<Fact>,
    rounds: Rounds<Key, Result<(), VisitError>>,
    plans: Planning<String>,
    counts: metrics::Counts,
    leads: bool,
    fails: bool,
}

impl Installer {
    fn new(context: Context, part: Arc<Part>) -> Self {
        let all = watcher::Config::default;
        let watches = Watches::of(&context, part)
            .with(all(), Fact::Management)
            .with(all(), Fact::Placement)
            .with(all(), Fact::Decision)
            .with(all(), Fact::Cluster)
            .with(all(), Fact::Addon);
        let counts = metrics::Counts::of(&context.metrics, &context.cluster, NAME);
        counts.leading(false);
        Self {
            context,
            ground: Arc::default(),
            watches,
            rounds: Rounds::new(AT_ONCE, RETRY),
            plans: Planning::default(),
            counts,
            leads: false,
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
                addon = self.plans.next() => self.plan(&addon),
                ended = self.rounds.next() => if let Some((key, outcome)) = ended { self.conclude(key, outcome) },
                () = leadership.held(), if !self.leads => self.lead(true),
                () = leadership.lost(), if self.leads => self.lead(false),
            }
            self.go();
        }
        self.rounds.finish().await;
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.counts.leading(leads);
        self.rounds.clear();
        if leads {
            self.plan_all();
        }
    }

    fn plan_all(&mut self) {
        let addons = self.ground.lock().all();
        addons.into_iter().for_each(|addon| self.plans.soon(addon));
    }

    fn take_in(&mut self, fact: Option<Fact>) {
        let Some(fact) = fact else { return self.plan_all() };
        let stirred = self.ground.lock().take_in(fact);
        stirred.into_iter().for_each(|addon| self.plans.soon(addon));
    }

    fn plan(&mut self, addon: &str) {
        if !self.leads || !self.watches.complete() {
            return;
        }
        let now = self.context.clock.now();
        let begun = Instant::now();
        let (keys, next) = self.ground.lock().plan(addon, now);
        self.plans.planned(begun);
        keys.into_iter().for_each(|key| self.rounds.visit(key));
        if let Some(next) = next {
            let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
            self.plans.at(addon.to_owned(), Instant::now() + left);
        }
    }

    fn go(&mut self) {
        if !self.leads {
            return;
        }
        let (client, ground, counts) = (&self.context.client, &self.ground, &self.counts);
        self.rounds.begin(|key| {
            let (client, ground, counts) = (client.clone(), ground.clone(), counts.clone());
            let begun = Instant::now();
            async move {
                let visit = visit(&client, &ground, &key);
                let outcome = tokio::time::timeout(PATIENCE, visit).await.unwrap_or(Err(VisitError::Late));
                counts.reconciled(begun.elapsed());
                outcome
            }
        });
    }

    fn conclude(&mut self, key: Key, outcome: Result<(), VisitError>) {
        match outcome {
            Ok(()) => {
                self.fails = false;
                self.rounds.succeeded(&key);
            }
            Err(error) => {
                self.counts.failed(error.label());
                let wait = self.rounds.failed(key.clone());
                if !std::mem::replace(&mut self.fails, true) {
                    let cluster = &self.context.cluster;
                    tracing::warn!("{NAME} of {cluster}: {key}: {error}; it is tried again until it works");
                }
                tracing::debug!("{key}: {error}; again in {wait:?}");
            }
        }
    }
}

impl Ground {
    fn all(&self) -> BTreeSet<String> {
        self.managements.keys().chain(self.addons.keys()).cloned().collect()
    }

    /// Takes in what a watch has shown, and says which add-ons that concerns.
    fn take_in(&mut self, fact: Fact) -> BTreeSet<String> {
        match fact {
            Fact::Management(Change::Here(object)) => {
                let name = object.name_any();
                self.managements.insert(name.clone(), object);
                [name].into()
            }
            Fact::Management(Change::Gone((_, name))) => {
                self.managements.remove(&name);
                [name].into()
            }
            Fact::Placement(Change::Here(object)) => {
                let name = self.placements.place(object);
                self.users_of(&name)
            }
            Fact::Placement(Change::Gone(name)) => {
                self.placements.displace(&name);
                self.users_of(&name)
            }
            Fact::Decision(Change::Here(object)) => {
                let placement = self.placements.decide(object);
                self.users_of(&placement)
            }
            Fact::Decision(Change::Gone(name)) => {
                let placement = self.placements.undecide(&name);
                placement.map(|placement| self.users_of(&placement)).unwrap_or_default()
            }
            Fact::Cluster(Change::Here(object)) => {
                let (name, state) = (object.name_any(), state(&object));
                if self.clusters.insert(name, state) == Some(state) { BTreeSet::new() } else { self.all() }
            }
            Fact::Cluster(Change::Gone((_, name))) => {
                self.clusters.remove(&name);
                self.all()
            }
            Fact::Addon(Change::Here(object)) => self.observe(object),
            Fact::Addon(Change::Gone((cluster, addon))) => {
                if let Some(clusters) = self.addons.get_mut(&addon) {
                    clusters.remove(&cluster);
                }
                [addon].into()
            }
        }
    }

    fn observe(&mut self, object: ManagedClusterAddOn) -> BTreeSet<String> {
        let (cluster, addon) = (object.namespace().unwrap_or_default(), object.name_any());
        let clusters = self.addons.entry(addon.clone()).or_default();
        let number = |object: &ManagedClusterAddOn| {
            object.resource_version().and_then(|text| text.parse::<u64>().ok())
        };
        if clusters
            .get(&cluster)
            .is_some_and(|held| held.uid() == object.uid() && number(held) > number(&object))
        {
            return BTreeSet::new();
        }
        // Its status is not what is looked at here.
        let same = |held: &Arc<ManagedClusterAddOn>| {
            held.metadata.generation == object.metadata.generation
                && held.metadata.deletion_timestamp == object.metadata.deletion_timestamp
                && held.annotations() == object.annotations()
                && held.finalizers() == object.finalizers()
                && held.uid() == object.uid()
        };
        let quiet = clusters.get(&cluster).is_some_and(same);
        clusters.insert(cluster, Arc::new(object));
        if quiet { BTreeSet::new() } else { [addon].into() }
    }

    fn users_of(&self, (namespace, name): &Named) -> BTreeSet<String> {
        let using = self.managements.iter().filter(|(_, management)| {
            let placements = &management.spec.install_strategy.placements;
            placements.iter().any(|one| one.namespace == *namespace && one.name == *name)
        });
        using.map(|(addon, _)| addon.clone()).collect()
    }

    /// Plans an add-on: what has to be visited, and when time alone changes that.
    fn plan(&mut self, addon: &str, now: Timestamp) -> (Vec<Key>, Option<Timestamp>) {
        let management = self.managements.get(addon).filter(|one| one.metadata.deletion_timestamp.is_none());
        let strategy = management.map(|management| &management.spec.install_strategy);
        let placements = strategy.map(|strategy| strategy.placements.as_slice()).unwrap_or_default();
        let choices: Vec<Choice> =
            placements.iter().map(|one| self.choice(&(one.namespace.clone(), one.name.clone()))).collect();
        let objects = self.addons.get(addon);
        let present =
            objects.into_iter().flatten().map(|(cluster, object)| (cluster.clone(), present(object)));
        let plan = decide(&Observed {
            strategy,
            choices: &choices,
            clusters: &self.clusters,
            present: &present.collect(),
            absent: self.absent.get(addon).unwrap_or(&HashMap::new()),
            now,
        });
        let due = plan.acts.into_iter().filter(|(cluster, act)| match act {
            Act::Remove => true,
            Act::Keep(wish) => objects
                .and_then(|objects| objects.get(cluster))
                .is_none_or(|object| !is_as_wished(object, wish, management)),
        });
        let due: BTreeMap<String, Act> = due.collect();
        self.acts.retain(|key, _| &*key.addon != addon);
        let keys: Vec<Key> = due.keys().map(|cluster| Key::new(cluster, addon)).collect();
        self.acts.extend(due.into_iter().map(|(cluster, act)| (Key::new(&cluster, addon), act)));
        self.absent.insert(addon.to_owned(), plan.absent);
        (keys, plan.next)
    }

    fn choice(&self, placement: &Named) -> Choice {
        match self.placements.decided(placement) {
            None => Choice::Missing,
            Some(Decided::Complete(clusters)) => {
                Choice::Complete(clusters.into_iter().map(|one| one.cluster).collect())
            }
            Some(Decided::Unknown(_)) => Choice::Unsettled,
        }
    }
}

fn state(cluster: &ManagedCluster) -> Cluster {
    let away = |key: &str| [UNREACHABLE_TAINT, UNAVAILABLE_TAINT].contains(&key);
    if cluster.metadata.deletion_timestamp.is_some() {
        Cluster::Leaving
    } else if cluster.spec.taints.iter().any(|taint| away(&taint.key)) {
        Cluster::OutOfReach
    } else {
        let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
        let since = |type_: &str| {
            let found = conditions.clone().find(|said| said.type_ == type_ && said.status == "True");
            found.map(|found| found.last_transition_time.0)
        };
        // An agent says both together when it is first heard of, and that it has joined is so ever after.
        match (since(JOINED), since(AVAILABLE)) {
            (Some(joined), Some(available)) if joined < available => Cluster::Back(available),
            _ => Cluster::Here,
        }
    }
}

fn present(object: &ManagedClusterAddOn) -> Present {
    let annotation = |name: &str| object.annotations().get(name).cloned();
    Present {
        made_for: annotation(INSTALLED_BY),
        deleting: object.metadata.deletion_timestamp.is_some(),
        goes_when_unreachable: annotation(UNINSTALL_UNREACHABLE).as_deref() == Some("true"),
    }
}

/// Whether an object asks for what it should, or for what a person has set.
fn is_as_wished(
    object: &ManagedClusterAddOn,
    wish: &Wish,
    management: Option<&ClusterManagementAddOn>,
) -> bool {
    let spec = &object.spec;
    let version = spec.install_version == wish.version || is_set_by_others(object, Field::InstallVersion);
    let configs = spec.configs == wish.configs || is_set_by_others(object, Field::Configs);
    let owner = management.and_then(|management| management.uid());
    let owned = object.owner_references().iter().any(|reference| Some(&reference.uid) == owner.as_ref());
    let held = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    version && configs && owned && held && object.annotations().get(INSTALLED_BY) == Some(&wish.placement)
}

/// Does what the last plan says, if it still says so.
async fn visit(client: &Client, ground: &Mutex<Ground>, key: &Key) -> Result<(), VisitError> {
    let (act, object, owner) = {
        let ground = ground.lock();
        let Some(act) = ground.acts.get(key).cloned() else { return Ok(()) };
        let object = ground.addons.get(&*key.addon).and_then(|clusters| clusters.get(&*key.cluster)).cloned();
        let owner = ground.managements.get(&*key.addon).and_then(|management| management.owner_ref(&()));
        (act, object, owner)
    };
    let api: Api<ManagedClusterAddOn> = Api::namespaced(client.clone(), &key.cluster);
    match (act, object) {
        (Act::Keep(wish), object) => {
            let theirs = |field: Field| {
                object.as_ref().is_some_and(|object| {
                    let differs = match field {
                        Field::InstallVersion => object.spec.install_version != wish.version,
                        Field::Configs => object.spec.configs != wish.configs,
                    };
                    is_set_by_others(object, field) || differs && is_shared(object, field)
                })
            };
            let body = wished(key, &wish, owner.as_ref(), theirs);
            let parameters = PatchParams::apply(FIELD_MANAGER);
            // Where somebody has set a field since it was last seen, this is refused, and tried again when it is known
            // which field is theirs: to leave out another one would take that away.
            let written = api.patch(&key.addon, &parameters, &Patch::Apply(&body)).await;
            match written {
                Ok(written) => drop(ground.lock().observe(written)),
                Err(source) => return Err(failed("applying", key, source)),
            }
        }
        (Act::Remove, Some(object)) => {
            if is_out_of_reach(client, key).await? && !present(&object).goes_when_unreachable {
                // The watch has not told yet; nothing is taken away for that (A17).
                return Ok(());
            }
            let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
            let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
            match api.delete(&key.addon, &parameters).await {
                Ok(_) => {}
                // It is gone, or another of that name: the watch will tell.
                Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {}
                Err(source) => return Err(failed("deleting", key, source)),
            }
        }
        (Act::Remove, None) => {}
    }
    ground.lock().acts.remove(key);
    Ok(())
}

/// Whether a cluster is out of reach, as of now.
async fn is_out_of_reach(client: &Client, key: &Key) -> Result<bool, VisitError> {
    let clusters: Api<ManagedCluster> = Api::all(client.clone());
    let found = clusters.get_opt(&key.cluster).await;
    let found = found.map_err(|source| failed("reading the cluster of", key, source))?;
    Ok(found.is_some_and(|cluster| state(&cluster) == Cluster::OutOfReach))
}

fn wished(key: &Key, wish: &Wish, owner: Option<&OwnerReference>, theirs: impl Fn(Field) -> bool) -> Value {
    let mut spec = json!({});
    if let Value::Object(spec) = &mut spec {
        if !wish.version.is_empty() && !theirs(Field::InstallVersion) {
            spec.insert("installVersion".to_owned(), json!(wish.version));
        }
        if !wish.configs.is_empty() && !theirs(Field::Configs) {
            spec.insert("configs".to_owned(), json!(wish.configs));
        }
    }
    json!({
        "apiVersion": ManagedClusterAddOn::api_version(&()),
        "kind": ManagedClusterAddOn::kind(&()),
        "metadata": {
            "name": &*key.addon,
            "namespace": &*key.cluster,
            "annotations": {INSTALLED_BY: wish.placement},
            "finalizers": [FINALIZER],
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": spec,
    })
}

fn failed(doing: &str, key: &Key, source: kube::Error) -> VisitError {
    VisitError::Api { doing: format!("{doing} {key}"), source: Box::new(source) }
}
