//! Reads what there is of a Placement, has it decided which clusters it chooses, and writes the decisions in an order in
//! which nobody vanishes; the status comes last.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _};
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::vocabulary::PLACEMENT_LABEL;
use bellwether_api::cluster::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
    PlacementStatus,
};
use bellwether_clock::Clock;
use bellwether_conditions::{Desired, TransitionKey};
use bellwether_runtime::{Context, Next, ReconcileError, Reconciler};
use futures::{Stream, StreamExt as _, stream};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::Controller;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::Event;
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::json;

use super::NAME;
use super::decide::{Answer, Choice, Question, decide, is_of};
use super::slices::{self, GroupLabels, Slice, Write, plan};
use super::vocabulary::FINALIZER;
use crate::clusters::mirror::{Mirror, Mirrored, Unwatched, gathered, that_matter};
use bellwether_conditions::kubernetes::upsert;

/// How long changes of clusters and sets are gathered before placements are decided again.
const PAUSE: Duration = Duration::from_millis(250);
/// How often the world is read anew while others write too.
const ROUNDS: usize = 5;

/// Decides which clusters Placements choose.
pub struct Placements {
    client: Client,
    clock: Arc<dyn Clock>,
    clusters: Mirror<ManagedCluster>,
    sets: Mirror<ManagedClusterSet>,
    bindings: Mirror<ManagedClusterSetBinding>,
    decisions: Mirror<PlacementDecision>,
}

/// Why a Placement could not be decided, or its decisions not be written.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// The API server did not answer as it should.
    #[error("{doing}: {source}")]
    Api {
        /// What was tried.
        doing: String,
        /// How it failed.
        source: Box<kube::Error>,
    },
    /// What there is to choose from is not known.
    #[error("{0}")]
    Unwatched(String),
    /// Somebody undoes or changes what is written, as fast as it is written.
    #[error("there is no end to what is to be done")]
    Unsettled,
    /// The status has no form on the wire.
    #[error("the status cannot be written: {0}")]
    Status(#[from] serde_json::Error),
}

impl ReconcileError for PlacementError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Unwatched(_) => "unwatched",
            Self::Unsettled => "unsettled",
            Self::Status(_) => "status",
        }
    }
}

impl From<Unwatched> for PlacementError {
    fn from(error: Unwatched) -> Self {
        Self::Unwatched(error.to_string())
    }
}

impl Reconciler for Placements {
    type Object = Placement;
    type Error = PlacementError;
    const NAME: &'static str = NAME;

    fn watch(&self, controller: Controller<Placement>) -> Controller<Placement> {
        let placements = controller.store();
        let clusters = that_matter(self.clusters.watch(), matters_of_a_cluster);
        let sets = that_matter(self.sets.watch(), |set, hasher| {
            // Its selector has no hash of its own.
            format!("{:?}", set.spec.cluster_selector).hash(hasher);
        });
        let bindings = concerned(self.bindings.watch(), placements.clone(), |binding, placements| {
            let here = |placement: &Placement| placement.metadata.namespace == binding.metadata.namespace;
            placements
                .state_filter(here)
                .iter()
                .map(|placement| ObjectRef::from_obj(placement.as_ref()))
                .collect()
        });
        let decisions = concerned(self.decisions.watch(), placements, |decision, _| {
            let named = decision.labels().get(PLACEMENT_LABEL);
            let key = |name: &String| ObjectRef::new(name).within(&decision.namespace().unwrap_or_default());
            named.map(key).into_iter().collect()
        });
        controller
            .reconcile_all_on(gathered(stream::select(clusters, sets), PAUSE))
            .reconcile_on(bindings)
            .reconcile_on(decisions)
    }

    async fn reconcile(&self, placement: Arc<Placement>) -> Result<Next, PlacementError> {
        let world = self.world().await?;
        let own = world.decisions.iter().filter(|decision| is_of(decision, &placement)).cloned().collect();
        let shown = Shown { placement, own };
        // What was shown says whether a closer look is worth it.
        if let Work::Nothing(next) = self.work(&shown, &world) {
            return Ok(next);
        }
        let (namespace, name) = (shown.placement.namespace().unwrap_or_default(), shown.placement.name_any());
        for _ in 0..ROUNDS {
            let Some(shown) = self.read(&namespace, &name).await? else { return Ok(Next::OnChange) };
            let (written, next) = match self.work(&shown, &self.world().await?) {
                Work::Nothing(next) => (Written::Yes, next),
                Work::Tell(news) => (self.tell(&shown, &news).await?, news.next),
                Work::LetGo(farewell) => (self.let_go(&shown, &farewell).await?, Next::OnChange),
            };
            if written == Written::Yes {
                return Ok(next);
            }
        }
        Err(PlacementError::Unsettled)
    }
}

/// What there is to choose from, as the watches show it.
struct World {
    clusters: Vec<Arc<ManagedCluster>>,
    sets: Vec<Arc<ManagedClusterSet>>,
    bindings: Vec<Arc<ManagedClusterSetBinding>>,
    decisions: Vec<Arc<PlacementDecision>>,
}

/// A placement with its decisions.
struct Shown {
    placement: Arc<Placement>,
    own: Vec<Arc<PlacementDecision>>,
}

/// What is to be done.
enum Work {
    /// All is as it should be.
    Nothing(Next),
    /// Something is to be written.
    Tell(News),
    /// The placement goes, and its decisions before it.
    LetGo(Vec<Write>),
}

/// What is to be written, in this order.
struct News {
    /// Whether the finalizer is to be put on first: no decision is there without it.
    hold: bool,
    writes: Vec<Write>,
    status: Option<PlacementStatus>,
    next: Next,
}

impl News {
    fn into_work(self) -> Work {
        match self {
            Self { hold: false, writes, status: None, next } if writes.is_empty() => Work::Nothing(next),
            news => Work::Tell(news),
        }
    }
}

/// Whether something could be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// It has changed since it was read.
    Conflict,
}

impl Placements {
    /// For the hub of a context.
    pub fn new(context: &Context) -> Self {
        let client = &context.client;
        Self {
            client: client.clone(),
            clock: context.clock.clone(),
            clusters: Mirror::new(client),
            sets: Mirror::new(client),
            bindings: Mirror::new(client),
            decisions: Mirror::new(client),
        }
    }

    async fn world(&self) -> Result<World, PlacementError> {
        Ok(World {
            clusters: self.clusters.all().await?,
            sets: self.sets.all().await?,
            bindings: self.bindings.all().await?,
            decisions: self.decisions.all().await?,
        })
    }

    /// What is to be done for a placement; nothing is asked of anybody.
    fn work(&self, shown: &Shown, world: &World) -> Work {
        let Shown { placement, own } = shown;
        if placement.metadata.deletion_timestamp.is_some() {
            return farewell(shown);
        }
        let now = self.clock.now();
        let question = Question {
            placement,
            clusters: &world.clusters,
            sets: &world.sets,
            bindings: &world.bindings,
            own,
            all: &world.decisions,
            now,
        };
        let news = match decide(&question) {
            Answer::Keep(conditions) => News {
                hold: false,
                writes: Vec::new(),
                status: status(placement, None, conditions, now),
                next: Next::OnChange,
            },
            Answer::Choose(Choice { groups, conditions, until }) => {
                let wanted = slices::wanted(&placement.name_any(), &groups);
                let present: Vec<Slice> =
                    own.iter().map(|decision| Slice::read(decision, placement)).collect();
                News {
                    hold: !is_held(placement),
                    writes: plan(&placement.name_any(), &present, &wanted),
                    status: status(placement, Some(&wanted), conditions, now),
                    next: until.map_or(Next::OnChange, |until| {
                        Next::After(Duration::try_from(until.duration_since(now)).unwrap_or_default())
                    }),
                }
            }
        };
        news.into_work()
    }

    /// The placement and its decisions as they are, not as they were shown.
    async fn read(&self, namespace: &str, name: &str) -> Result<Option<Shown>, PlacementError> {
        let placement = self.placements(namespace).get_opt(name).await;
        let placement = placement.map_err(failed(|| format!("reading Placement {namespace}/{name}")))?;
        let Some(placement) = placement else { return Ok(None) };
        let labelled = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={name}"));
        let own = self.decisions_in(namespace).list(&labelled).await;
        let own = own.map_err(failed(|| format!("reading the decisions of Placement {namespace}/{name}")))?;
        let own = own.items.into_iter().map(Arc::new).collect();
        Ok(Some(Shown { placement: Arc::new(placement), own }))
    }

    async fn tell(&self, shown: &Shown, news: &News) -> Result<Written, PlacementError> {
        let placement = &shown.placement;
        let mut version = placement.resource_version();
        if news.hold {
            let finalizers = placement.finalizers().iter().map(String::as_str).chain([FINALIZER]);
            match self.set_finalizers(placement, finalizers.collect()).await? {
                Some(held) => version = held.resource_version(),
                None => return Ok(Written::Conflict),
            }
        }
        match (self.write(shown, &news.writes).await?, &news.status) {
            (Written::Yes, Some(status)) => self.report(placement, version, status).await,
            (written, _) => Ok(written),
        }
    }

    async fn let_go(&self, shown: &Shown, farewell: &[Write]) -> Result<Written, PlacementError> {
        if self.write(shown, farewell).await? == Written::Conflict {
            return Ok(Written::Conflict);
        }
        let finalizers = shown.placement.finalizers().iter().map(String::as_str);
        let others = finalizers.filter(|finalizer| *finalizer != FINALIZER).collect();
        let released = self.set_finalizers(&shown.placement, others).await?;
        Ok(if released.is_some() { Written::Yes } else { Written::Conflict })
    }

    /// Nothing where the placement has changed since it was read.
    async fn set_finalizers(
        &self,
        placement: &Placement,
        finalizers: Vec<&str>,
    ) -> Result<Option<Placement>, PlacementError> {
        let (namespace, name) = (placement.namespace().unwrap_or_default(), placement.name_any());
        let change = json!({"metadata": {
            "resourceVersion": placement.resource_version(), "finalizers": finalizers,
        }});
        let placements = self.placements(&namespace);
        let written = placements.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await;
        settled(written).map_err(failed(|| format!("writing the finalizers of Placement {namespace}/{name}")))
    }

    async fn report(
        &self,
        placement: &Placement,
        version: Option<String>,
        status: &PlacementStatus,
    ) -> Result<Written, PlacementError> {
        let (namespace, name) = (placement.namespace().unwrap_or_default(), placement.name_any());
        let change =
            json!({"metadata": {"resourceVersion": version}, "status": serde_json::to_value(status)?});
        let placements = self.placements(&namespace);
        let written = placements.patch_status(&name, &PatchParams::default(), &Patch::Merge(change)).await;
        let doing = || format!("writing the status of Placement {namespace}/{name}");
        let written = settled(written).map_err(failed(doing))?;
        Ok(if written.is_some() { Written::Yes } else { Written::Conflict })
    }

    /// Writes slices, one after the other: the order is what keeps clusters from vanishing.
    async fn write(&self, shown: &Shown, writes: &[Write]) -> Result<Written, PlacementError> {
        let namespace = shown.placement.namespace().unwrap_or_default();
        let decisions = self.decisions_in(&namespace);
        let mut versions: HashMap<String, Option<String>> =
            shown.own.iter().map(|decision| (decision.name_any(), decision.resource_version())).collect();
        for write in writes {
            let (Write::Create { name, .. }
            | Write::Label { name, .. }
            | Write::Fill { name, .. }
            | Write::Delete { name }) = write;
            let version = versions.get(name).cloned().flatten();
            let written = self.write_one(&decisions, &shown.placement, write, version).await;
            match settled(written)
                .map_err(failed(|| format!("writing PlacementDecision {namespace}/{name}")))?
            {
                Some(version) => versions.insert(name.clone(), version),
                None => return Ok(Written::Conflict),
            };
        }
        Ok(Written::Yes)
    }

    /// Writes one slice as it was seen, and says as what it is known then.
    async fn write_one(
        &self,
        decisions: &Api<PlacementDecision>,
        placement: &Placement,
        write: &Write,
        version: Option<String>,
    ) -> Result<Option<String>, kube::Error> {
        let params = PatchParams::default();
        match write {
            Write::Create { name, group } => {
                let slice = created(placement, name, group);
                decisions.create(&PostParams::default(), &slice).await.map(|slice| slice.resource_version())
            }
            Write::Label { name, group } => {
                let wanted = created(placement, name, group).metadata;
                let change = json!({"metadata": {
                    "resourceVersion": version, "labels": wanted.labels, "ownerReferences": wanted.owner_references,
                }});
                let written = decisions.patch(name, &params, &Patch::Merge(change)).await;
                written.map(|slice| slice.resource_version())
            }
            Write::Fill { name, clusters } => {
                let change =
                    json!({"metadata": {"resourceVersion": version}, "status": {"decisions": clusters}});
                let written = decisions.patch_status(name, &params, &Patch::Merge(change)).await;
                written.map(|slice| slice.resource_version())
            }
            Write::Delete { name } => {
                let seen = Preconditions { resource_version: version, uid: None };
                let params = DeleteParams { preconditions: Some(seen), ..DeleteParams::default() };
                match decisions.delete(name, &params).await {
                    Ok(_) => Ok(None),
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn placements(&self, namespace: &str) -> Api<Placement> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn decisions_in(&self, namespace: &str) -> Api<PlacementDecision> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn created(placement: &Placement, name: &str, group: &GroupLabels) -> PlacementDecision {
    let mut slice = PlacementDecision::new(name, Default::default());
    slice.metadata = ObjectMeta {
        name: Some(name.to_owned()),
        namespace: placement.namespace(),
        labels: Some(group.labels(&placement.name_any())),
        owner_references: placement.controller_owner_ref(&()).map(|owner| vec![owner]),
        ..ObjectMeta::default()
    };
    slice
}

fn is_held(placement: &Placement) -> bool {
    placement.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// A placement that goes takes its decisions along. Readers know by then that it goes, and take it for no decision.
fn farewell(shown: &Shown) -> Work {
    if !is_held(&shown.placement) {
        return Work::Nothing(Next::OnChange);
    }
    Work::LetGo(shown.own.iter().map(|decision| Write::Delete { name: decision.name_any() }).collect())
}

/// The status, where it says something new. Without slices, those that it tells of stay.
fn status(
    placement: &Placement,
    slices: Option<&[Slice]>,
    conditions: Vec<Desired>,
    now: Timestamp,
) -> Option<PlacementStatus> {
    let held = placement.status.clone().unwrap_or_default();
    let mut status = held.clone();
    if let Some(slices) = slices {
        status.decision_groups = slices::told(slices);
        let counts = status.decision_groups.iter().map(|group| group.clusters_count);
        status.number_of_selected_clusters = counts.fold(0, i32::saturating_add);
    }
    for condition in conditions {
        let _ = upsert(&mut status.conditions, condition, TransitionKey::Status, now);
    }
    (status != held).then_some(status)
}

/// What was written; nothing where it was written for a state that has passed.
fn settled<T>(written: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(doing: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> PlacementError {
    move |source| PlacementError::Api { doing: doing(), source: Box::new(source) }
}

/// What a choice may depend on, of a cluster. That it is heard is none of it, unless a taint says that it is not.
fn matters_of_a_cluster(cluster: &ManagedCluster, hasher: &mut DefaultHasher) {
    cluster.metadata.labels.hash(hasher);
    for taint in &cluster.spec.taints {
        (&taint.key, &taint.value, format!("{:?}", taint.effect)).hash(hasher);
        taint.time_added.as_ref().map(|time| time.0).hash(hasher);
    }
    let Some(status) = &cluster.status else { return };
    for claim in &status.cluster_claims {
        (&claim.name, &claim.value).hash(hasher);
    }
    for resource in ["cpu", "memory"] {
        status.allocatable.get(resource).map(|quantity| &quantity.0).hash(hasher);
    }
}

/// The placements that the events of a watch concern; all of them when it begins anew, as nobody knows what was missed.
fn concerned<K: Mirrored>(
    events: impl Stream<Item = Event<K>> + Send + 'static,
    placements: Store<Placement>,
    whom: fn(&K, &Store<Placement>) -> Vec<ObjectRef<Placement>>,
) -> impl Stream<Item = ObjectRef<Placement>> + Send + 'static {
    events.flat_map(move |event| {
        let concerned = match event {
            Event::Init | Event::InitApply(_) => Vec::new(),
            Event::InitDone => {
                placements.state().iter().map(|known| ObjectRef::from_obj(known.as_ref())).collect()
            }
            Event::Apply(object) | Event::Delete(object) => whom(&object, &placements),
        };
        stream::iter(concerned)
    })
}
