//! The install controller: creates, updates and deletes ManagedClusterAddOns by what placements decided. Fields are
//! applied without force: what a user has set stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{FINALIZER, INSTALLED_BY, UNINSTALL_UNREACHABLE};
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::vocabulary::{AVAILABLE, JOINED, UNAVAILABLE_TAINT, UNREACHABLE_TAINT};
use bellwether_api::cluster::{ManagedCluster, Placement, PlacementDecision};
use bellwether_clock::Clock;
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Lane, Next, ObjectName, ReconcileError, Watch,
    Watches, run_indexed,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::decide::{Act, Choice, Cluster, Observed, Present, Wish, decide};
use super::{FIELD_MANAGER, Field, is_set_by_others, is_shared};
use crate::addon::world::Key;
use crate::placement::{Decided, KnownPlacements};

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = FIELD_MANAGER;
/// How long the plan of an add-on waits for more changes.
const PLAN_DEBOUNCE: Duration = Duration::from_millis(20);

/// Installs add-ons on the clusters of their placements until the shutdown. A standby watches too.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(Ground::default()));
    let client = &context.client;
    let managements = Watch::new(client, Api::<ClusterManagementAddOn>::all)
        .on_apply(Ground::apply_management)
        .on_delete(|index, deleted| index.delete_management(&deleted.name.name));
    let placements = Watch::new(client, Api::<Placement>::all)
        .on_apply(Ground::apply_placement)
        .on_delete(|index, deleted| index.delete_placement(&deleted.name));
    let decisions = Watch::new(client, Api::<PlacementDecision>::all)
        .on_apply(Ground::apply_decision)
        .on_delete(|index, deleted| index.delete_decision(&deleted.name));
    let clusters = Watch::new(client, Api::<ManagedCluster>::all)
        .on_apply(|index: &mut Ground, cluster| index.apply_cluster(&cluster))
        .on_delete(|index, deleted| index.delete_cluster(&deleted.name.name));
    let addons = Watch::new(client, Api::<ManagedClusterAddOn>::all)
        .on_apply(Ground::apply_addon)
        .on_delete(|index, deleted| index.delete_addon(&deleted.name));
    let watches = Watches::new(NAME, &context, index.clone())
        .with(managements)
        .with(placements)
        .with(decisions)
        .with(clusters)
        .with(addons);
    let installer = Installer { client: context.client.clone(), clock: context.clock.clone(), index };
    run_indexed(installer, watches, context)
}

/// What is reconciled.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum InstallKey {
    /// Which clusters an add-on is installed on.
    Plan(Arc<str>),
    /// An add-on on a cluster.
    Addon(Key),
}

impl fmt::Display for InstallKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plan(addon) => write!(formatter, "install plan of {addon}"),
            Self::Addon(key) => write!(formatter, "ManagedClusterAddOn {key}"),
        }
    }
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
struct InstallError {
    doing: String,
    source: Box<kube::Error>,
}

impl ReconcileError for InstallError {
    fn label(&self) -> &'static str {
        "api"
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
    dirty: DirtyKeys<InstallKey>,
}

struct Installer {
    client: Client,
    clock: Arc<dyn Clock>,
    index: Arc<Mutex<Ground>>,
}

impl IndexedReconciler for Installer {
    type Key = InstallKey;
    type Error = InstallError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 32;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };

    fn lane(key: &InstallKey) -> Lane {
        match key {
            InstallKey::Plan(_) => Lane::Batch,
            InstallKey::Addon(_) => Lane::Object,
        }
    }

    fn take_dirty(&self) -> DirtyKeys<InstallKey> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<InstallKey> {
        let addons = self.index.lock().all();
        addons.into_iter().map(|addon| InstallKey::Plan(addon.into())).collect()
    }

    async fn reconcile(&self, key: &InstallKey) -> Result<Next, InstallError> {
        match key {
            InstallKey::Plan(addon) => {
                let now = self.clock.now();
                let next = self.index.lock().plan(addon, now);
                return Ok(next.map_or(Next::OnChange, |next| {
                    Next::After(Duration::try_from(next.duration_since(now)).unwrap_or_default())
                }));
            }
            InstallKey::Addon(key) => carry_out(&self.client, &self.index, key).await?,
        }
        Ok(Next::OnChange)
    }
}

impl Ground {
    fn all(&self) -> BTreeSet<String> {
        self.managements.keys().chain(self.addons.keys()).cloned().collect()
    }

    fn plan_soon(&mut self, addons: BTreeSet<String>) {
        for addon in addons {
            self.dirty.enqueue_after(InstallKey::Plan(addon.into()), PLAN_DEBOUNCE);
        }
    }

    fn apply_management(&mut self, object: ClusterManagementAddOn) {
        let name = object.name_any();
        self.managements.insert(name.clone(), object);
        self.plan_soon([name].into());
    }

    fn delete_management(&mut self, name: &str) {
        self.managements.remove(name);
        self.plan_soon([name.to_owned()].into());
    }

    fn apply_placement(&mut self, placement: Placement) {
        let name = self.placements.place(placement);
        self.plan_soon(self.users_of(&name));
    }

    fn delete_placement(&mut self, name: &ObjectName) {
        self.placements.displace(name);
        self.plan_soon(self.users_of(name));
    }

    fn apply_decision(&mut self, decision: PlacementDecision) {
        let placement = self.placements.decide(decision);
        self.plan_soon(self.users_of(&placement));
    }

    fn delete_decision(&mut self, name: &ObjectName) {
        if let Some(placement) = self.placements.undecide(name) {
            self.plan_soon(self.users_of(&placement));
        }
    }

    fn apply_cluster(&mut self, cluster: &ManagedCluster) {
        let state = state(cluster);
        if self.clusters.insert(cluster.name_any(), state) != Some(state) {
            self.plan_soon(self.all());
        }
    }

    fn delete_cluster(&mut self, name: &str) {
        self.clusters.remove(name);
        self.plan_soon(self.all());
    }

    fn apply_addon(&mut self, object: ManagedClusterAddOn) {
        let addons = self.observe(object);
        self.plan_soon(addons);
    }

    fn delete_addon(&mut self, name: &ObjectName) {
        if let Some(clusters) = self.addons.get_mut(&*name.name) {
            clusters.remove(&*name.namespace);
        }
        self.plan_soon([name.name.to_string()].into());
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

    fn users_of(&self, placement: &ObjectName) -> BTreeSet<String> {
        let using = self.managements.iter().filter(|(_, management)| {
            let placements = &management.spec.install_strategy.placements;
            placements
                .iter()
                .any(|one| *one.namespace == *placement.namespace && *one.name == *placement.name)
        });
        using.map(|(addon, _)| addon.clone()).collect()
    }

    /// Plans an add-on: enqueues the clusters on which something is to be done, and returns when time alone changes that.
    fn plan(&mut self, addon: &str, now: Timestamp) -> Option<Timestamp> {
        let management = self.managements.get(addon).filter(|one| one.metadata.deletion_timestamp.is_none());
        let strategy = management.map(|management| &management.spec.install_strategy);
        let placements = strategy.map(|strategy| strategy.placements.as_slice()).unwrap_or_default();
        let choices: Vec<Choice> =
            placements.iter().map(|one| self.choice(&ObjectName::new(&*one.namespace, &*one.name))).collect();
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
        for (cluster, act) in due {
            let key = Key::new(&cluster, addon);
            self.dirty.enqueue(InstallKey::Addon(key.clone()));
            self.acts.insert(key, act);
        }
        self.absent.insert(addon.to_owned(), plan.absent);
        plan.next
    }

    fn choice(&self, placement: &ObjectName) -> Choice {
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
async fn carry_out(client: &Client, ground: &Mutex<Ground>, key: &Key) -> Result<(), InstallError> {
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
async fn is_out_of_reach(client: &Client, key: &Key) -> Result<bool, InstallError> {
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

fn failed(doing: &str, key: &Key, source: kube::Error) -> InstallError {
    InstallError { doing: format!("{doing} {key}"), source: Box::new(source) }
}
