//! The Placement reconciler: reads the caches, calls `decide`, and writes the PlacementDecisions in the order of `slices`; the
//! status of the Placement comes last.

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
use super::decide::{ClusterSelection, DecisionInput, PlacementResult, decide, is_of};
use super::slices::{self, GroupLabels, Slice, Write, plan};
use super::vocabulary::FINALIZER;
use crate::clusters::object_cache::{CachedResource, NotWatched, ObjectCache, debounce, relevant_changes};
use bellwether_conditions::kubernetes::upsert;

/// How long changes of clusters and sets are debounced before placements are decided again.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// The maximum number of attempts after write conflicts in one reconcile.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// Reconciles Placements.
pub struct Placements {
    client: Client,
    clock: Arc<dyn Clock>,
    clusters: ObjectCache<ManagedCluster>,
    sets: ObjectCache<ManagedClusterSet>,
    bindings: ObjectCache<ManagedClusterSetBinding>,
    decisions: ObjectCache<PlacementDecision>,
}

/// An error while reconciling a Placement.
#[derive(Debug, thiserror::Error)]
pub enum PlacementError {
    /// A request to the API server failed.
    #[error("{doing}: {source}")]
    Api {
        /// The operation that failed.
        doing: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// A watch that the decision depends on has ended.
    #[error("{0}")]
    NotWatched(String),
    /// Every attempt to write ended with a conflict.
    #[error("the placement was changed by others during every attempt to write it")]
    TooManyConflicts,
    /// The status cannot be serialized.
    #[error("the status cannot be written: {0}")]
    Status(#[from] serde_json::Error),
}

impl ReconcileError for PlacementError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::NotWatched(_) => "unwatched",
            Self::TooManyConflicts => "unsettled",
            Self::Status(_) => "status",
        }
    }
}

impl From<NotWatched> for PlacementError {
    fn from(error: NotWatched) -> Self {
        Self::NotWatched(error.to_string())
    }
}

impl Reconciler for Placements {
    type Object = Placement;
    type Error = PlacementError;
    const NAME: &'static str = NAME;

    fn watch(&self, controller: Controller<Placement>) -> Controller<Placement> {
        let placements = controller.store();
        let clusters = relevant_changes(self.clusters.watch(), hash_relevant_fields);
        let sets = relevant_changes(self.sets.watch(), |set, hasher| {
            // The selector does not implement Hash.
            format!("{:?}", set.spec.cluster_selector).hash(hasher);
        });
        let bindings =
            affected_placements(self.bindings.watch(), placements.clone(), |binding, placements| {
                let here = |placement: &Placement| placement.metadata.namespace == binding.metadata.namespace;
                placements
                    .state_filter(here)
                    .iter()
                    .map(|placement| ObjectRef::from_obj(placement.as_ref()))
                    .collect()
            });
        let decisions = affected_placements(self.decisions.watch(), placements, |decision, _| {
            let named = decision.labels().get(PLACEMENT_LABEL);
            let key = |name: &String| ObjectRef::new(name).within(&decision.namespace().unwrap_or_default());
            named.map(key).into_iter().collect()
        });
        controller
            .reconcile_all_on(debounce(stream::select(clusters, sets), DEBOUNCE))
            .reconcile_on(bindings)
            .reconcile_on(decisions)
    }

    async fn reconcile(&self, placement: Arc<Placement>) -> Result<Next, PlacementError> {
        let inputs = self.inputs().await?;
        let own = inputs.decisions.iter().filter(|decision| is_of(decision, &placement)).cloned().collect();
        let state = PlacementState { placement, own };
        // Decide from the caches first; read from the API server only if something must be written.
        if let PlacementAction::Nothing(next) = self.decide_action(&state, &inputs) {
            return Ok(next);
        }
        let (namespace, name) = (state.placement.namespace().unwrap_or_default(), state.placement.name_any());
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let Some(state) = self.read(&namespace, &name).await? else { return Ok(Next::OnChange) };
            let (written, next) = match self.decide_action(&state, &self.inputs().await?) {
                PlacementAction::Nothing(next) => (WriteResult::Done, next),
                PlacementAction::Write(changes) => {
                    (self.write_changes(&state, &changes).await?, changes.next)
                }
                PlacementAction::Delete(deletion) => {
                    (self.delete_decisions(&state, &deletion).await?, Next::OnChange)
                }
            };
            if written == WriteResult::Done {
                return Ok(next);
            }
        }
        Err(PlacementError::TooManyConflicts)
    }
}

/// The cached objects that a decision depends on.
struct PlacementInputs {
    clusters: Vec<Arc<ManagedCluster>>,
    sets: Vec<Arc<ManagedClusterSet>>,
    bindings: Vec<Arc<ManagedClusterSetBinding>>,
    decisions: Vec<Arc<PlacementDecision>>,
}

/// A placement with its decisions.
struct PlacementState {
    placement: Arc<Placement>,
    own: Vec<Arc<PlacementDecision>>,
}

/// What a reconcile has to do.
enum PlacementAction {
    /// There is nothing to write.
    Nothing(Next),
    /// Changes must be written.
    Write(PlacementChanges),
    /// The placement is being deleted; its decisions must be deleted first.
    Delete(Vec<Write>),
}

/// The changes to write, in this order.
struct PlacementChanges {
    /// Whether to add the finalizer first; no decision is created without it.
    add_finalizer: bool,
    writes: Vec<Write>,
    status: Option<PlacementStatus>,
    next: Next,
}

impl PlacementChanges {
    fn into_action(self) -> PlacementAction {
        match self {
            Self { add_finalizer: false, writes, status: None, next } if writes.is_empty() => {
                PlacementAction::Nothing(next)
            }
            changes => PlacementAction::Write(changes),
        }
    }
}

/// The result of a conditional write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteResult {
    Done,
    /// The object has changed since it was read.
    Conflict,
}

impl Placements {
    /// Creates the reconciler for the hub of a context.
    pub fn new(context: &Context) -> Self {
        let client = &context.client;
        Self {
            client: client.clone(),
            clock: context.clock.clone(),
            clusters: ObjectCache::new(client),
            sets: ObjectCache::new(client),
            bindings: ObjectCache::new(client),
            decisions: ObjectCache::new(client),
        }
    }

    async fn inputs(&self) -> Result<PlacementInputs, PlacementError> {
        Ok(PlacementInputs {
            clusters: self.clusters.all().await?,
            sets: self.sets.all().await?,
            bindings: self.bindings.all().await?,
            decisions: self.decisions.all().await?,
        })
    }

    /// Decides what to do for a placement, without requests.
    fn decide_action(&self, state: &PlacementState, inputs: &PlacementInputs) -> PlacementAction {
        let PlacementState { placement, own } = state;
        if placement.metadata.deletion_timestamp.is_some() {
            return deletion(state);
        }
        let now = self.clock.now();
        let input = DecisionInput {
            placement,
            clusters: &inputs.clusters,
            sets: &inputs.sets,
            bindings: &inputs.bindings,
            own,
            all: &inputs.decisions,
            now,
        };
        let changes = match decide(&input) {
            PlacementResult::Keep(conditions) => PlacementChanges {
                add_finalizer: false,
                writes: Vec::new(),
                status: status(placement, None, conditions, now),
                next: Next::OnChange,
            },
            PlacementResult::Select(ClusterSelection { groups, conditions, until }) => {
                let wanted = slices::desired_slices(&placement.name_any(), &groups);
                let present: Vec<Slice> =
                    own.iter().map(|decision| Slice::read(decision, placement)).collect();
                PlacementChanges {
                    add_finalizer: !has_finalizer(placement),
                    writes: plan(&placement.name_any(), &present, &wanted),
                    status: status(placement, Some(&wanted), conditions, now),
                    next: until.map_or(Next::OnChange, |until| {
                        Next::After(Duration::try_from(until.duration_since(now)).unwrap_or_default())
                    }),
                }
            }
        };
        changes.into_action()
    }

    /// Reads the placement and its decisions from the API server instead of the caches.
    async fn read(&self, namespace: &str, name: &str) -> Result<Option<PlacementState>, PlacementError> {
        let placement = self.placements(namespace).get_opt(name).await;
        let placement = placement.map_err(failed(|| format!("reading Placement {namespace}/{name}")))?;
        let Some(placement) = placement else { return Ok(None) };
        let labelled = ListParams::default().labels(&format!("{PLACEMENT_LABEL}={name}"));
        let own = self.decisions_in(namespace).list(&labelled).await;
        let own = own.map_err(failed(|| format!("reading the decisions of Placement {namespace}/{name}")))?;
        let own = own.items.into_iter().map(Arc::new).collect();
        Ok(Some(PlacementState { placement: Arc::new(placement), own }))
    }

    async fn write_changes(
        &self,
        state: &PlacementState,
        changes: &PlacementChanges,
    ) -> Result<WriteResult, PlacementError> {
        let placement = &state.placement;
        let mut version = placement.resource_version();
        if changes.add_finalizer {
            let finalizers = placement.finalizers().iter().map(String::as_str).chain([FINALIZER]);
            match self.set_finalizers(placement, finalizers.collect()).await? {
                Some(held) => version = held.resource_version(),
                None => return Ok(WriteResult::Conflict),
            }
        }
        match (self.write(state, &changes.writes).await?, &changes.status) {
            (WriteResult::Done, Some(status)) => self.report(placement, version, status).await,
            (written, _) => Ok(written),
        }
    }

    async fn delete_decisions(
        &self,
        state: &PlacementState,
        deletion: &[Write],
    ) -> Result<WriteResult, PlacementError> {
        if self.write(state, deletion).await? == WriteResult::Conflict {
            return Ok(WriteResult::Conflict);
        }
        let finalizers = state.placement.finalizers().iter().map(String::as_str);
        let others = finalizers.filter(|finalizer| *finalizer != FINALIZER).collect();
        let released = self.set_finalizers(&state.placement, others).await?;
        Ok(if released.is_some() { WriteResult::Done } else { WriteResult::Conflict })
    }

    /// Returns `None` if the placement has changed since it was read.
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
        conflict_as_none(written)
            .map_err(failed(|| format!("writing the finalizers of Placement {namespace}/{name}")))
    }

    async fn report(
        &self,
        placement: &Placement,
        version: Option<String>,
        status: &PlacementStatus,
    ) -> Result<WriteResult, PlacementError> {
        let (namespace, name) = (placement.namespace().unwrap_or_default(), placement.name_any());
        let change =
            json!({"metadata": {"resourceVersion": version}, "status": serde_json::to_value(status)?});
        let placements = self.placements(&namespace);
        let written = placements.patch_status(&name, &PatchParams::default(), &Patch::Merge(change)).await;
        let doing = || format!("writing the status of Placement {namespace}/{name}");
        let written = conflict_as_none(written).map_err(failed(doing))?;
        Ok(if written.is_some() { WriteResult::Done } else { WriteResult::Conflict })
    }

    /// Writes slices one after the other; the order ensures that no selected cluster is missing at any time.
    async fn write(&self, state: &PlacementState, writes: &[Write]) -> Result<WriteResult, PlacementError> {
        let namespace = state.placement.namespace().unwrap_or_default();
        let decisions = self.decisions_in(&namespace);
        let mut versions: HashMap<String, Option<String>> =
            state.own.iter().map(|decision| (decision.name_any(), decision.resource_version())).collect();
        for write in writes {
            let (Write::Create { name, .. }
            | Write::Label { name, .. }
            | Write::Fill { name, .. }
            | Write::Delete { name }) = write;
            let version = versions.get(name).cloned().flatten();
            let written = self.write_one(&decisions, &state.placement, write, version).await;
            match conflict_as_none(written)
                .map_err(failed(|| format!("writing PlacementDecision {namespace}/{name}")))?
            {
                Some(version) => versions.insert(name.clone(), version),
                None => return Ok(WriteResult::Conflict),
            };
        }
        Ok(WriteResult::Done)
    }

    /// Writes one slice and returns its new resourceVersion.
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
                let slice = new_decision(placement, name, group);
                decisions.create(&PostParams::default(), &slice).await.map(|slice| slice.resource_version())
            }
            Write::Label { name, group } => {
                let wanted = new_decision(placement, name, group).metadata;
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

fn new_decision(placement: &Placement, name: &str, group: &GroupLabels) -> PlacementDecision {
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

fn has_finalizer(placement: &Placement) -> bool {
    placement.finalizers().iter().any(|finalizer| finalizer == FINALIZER)
}

/// Deletes the decisions of a placement that is being deleted. Readers see its deletionTimestamp first and ignore it.
fn deletion(state: &PlacementState) -> PlacementAction {
    if !has_finalizer(&state.placement) {
        return PlacementAction::Nothing(Next::OnChange);
    }
    PlacementAction::Delete(
        state.own.iter().map(|decision| Write::Delete { name: decision.name_any() }).collect(),
    )
}

/// The new status, if it changed. Without slices, its decision groups stay unchanged.
fn status(
    placement: &Placement,
    slices: Option<&[Slice]>,
    conditions: Vec<Desired>,
    now: Timestamp,
) -> Option<PlacementStatus> {
    let held = placement.status.clone().unwrap_or_default();
    let mut status = held.clone();
    if let Some(slices) = slices {
        status.decision_groups = slices::group_statuses(slices);
        let counts = status.decision_groups.iter().map(|group| group.clusters_count);
        status.number_of_selected_clusters = counts.fold(0, i32::saturating_add);
    }
    for condition in conditions {
        let _ = upsert(&mut status.conditions, condition, TransitionKey::Status, now);
    }
    (status != held).then_some(status)
}

/// The written object; `None` if the object was changed or deleted since it was read.
fn conflict_as_none<T>(written: Result<T, kube::Error>) -> Result<Option<T>, kube::Error> {
    match written {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(None),
        Err(error) => Err(error),
    }
}

fn failed(doing: impl FnOnce() -> String) -> impl FnOnce(kube::Error) -> PlacementError {
    move |source| PlacementError::Api { doing: doing(), source: Box::new(source) }
}

/// Hashes the fields of a cluster that a selection depends on. Its reachability counts only through taints.
fn hash_relevant_fields(cluster: &ManagedCluster, hasher: &mut DefaultHasher) {
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

/// The placements that the events of a watch affect; all of them after a new list, because events may have been missed.
fn affected_placements<K: CachedResource>(
    events: impl Stream<Item = Event<K>> + Send + 'static,
    placements: Store<Placement>,
    affected_by: fn(&K, &Store<Placement>) -> Vec<ObjectRef<Placement>>,
) -> impl Stream<Item = ObjectRef<Placement>> + Send + 'static {
    events.flat_map(move |event| {
        let affected_placements = match event {
            Event::Init | Event::InitApply(_) => Vec::new(),
            Event::InitDone => {
                placements.state().iter().map(|known| ObjectRef::from_obj(known.as_ref())).collect()
            }
            Event::Apply(object) | Event::Delete(object) => affected_by(&object, &placements),
        };
        stream::iter(affected_placements)
    })
}
