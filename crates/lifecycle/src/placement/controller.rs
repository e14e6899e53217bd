//! The Placement reconciler: reads the caches, calls `decide`, and writes the PlacementDecisions in the order of `slices`; the
//! status of the Placement comes last.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::vocabulary::PLACEMENT_LABEL;
use bellwether_api::cluster::{
    ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding, Placement, PlacementDecision,
    PlacementStatus,
};
use bellwether_clock::Clock;
use bellwether_conditions::{Desired, TransitionKey};
use bellwether_runtime::{
    Context, IndexOf, Next, ObjectName, Objects, ReconcileError, Reconciler, Watch, Watches,
};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::json;

use super::NAME;
use super::cache::placement_of;
use super::decide::{ClusterSelection, DecisionInput, PlacementResult, decide, is_of};
use super::slices::{self, GroupLabels, Slice, Write, plan};
use super::vocabulary::FINALIZER;
use bellwether_conditions::kubernetes::upsert;

/// How long changes of clusters and sets are debounced before placements are decided again.
const DEBOUNCE: Duration = Duration::from_millis(250);
/// The maximum number of attempts after write conflicts in one reconcile.
const MAX_WRITE_ATTEMPTS: usize = 5;

/// Reconciles Placements.
pub struct Placements {
    client: Client,
    clock: Arc<dyn Clock>,
}

/// The cached objects that decisions depend on.
#[derive(Default)]
pub struct PlacementCaches {
    clusters: Objects<ManagedCluster>,
    sets: Objects<ManagedClusterSet>,
    bindings: Objects<ManagedClusterSetBinding>,
    decisions: Objects<PlacementDecision>,
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
            Self::TooManyConflicts => "unsettled",
            Self::Status(_) => "status",
        }
    }
}

impl Reconciler for Placements {
    type Object = Placement;
    type Related = PlacementCaches;
    type Error = PlacementError;
    const NAME: &'static str = NAME;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        let clusters = Watch::new(&self.client, Api::<ManagedCluster>::all)
            .on_apply(|index: &mut IndexOf<Self>, cluster| {
                let (cluster, before) = index.related.clusters.apply(cluster);
                if before.as_deref().map(relevant_fields) != Some(relevant_fields(&cluster)) {
                    index.enqueue_all_after(DEBOUNCE);
                }
            })
            .on_delete(|index, deleted| {
                index.related.clusters.delete(&deleted.name);
                index.enqueue_all_after(DEBOUNCE);
            });
        let sets = Watch::new(&self.client, Api::<ManagedClusterSet>::all)
            .on_apply(|index: &mut IndexOf<Self>, set| {
                let (set, before) = index.related.sets.apply(set);
                if before.is_none_or(|before| before.spec.cluster_selector != set.spec.cluster_selector) {
                    index.enqueue_all_after(DEBOUNCE);
                }
            })
            .on_delete(|index, deleted| {
                index.related.sets.delete(&deleted.name);
                index.enqueue_all_after(DEBOUNCE);
            });
        let enqueue_namespace = |index: &mut IndexOf<Self>, name: &ObjectName| {
            index.enqueue_where(|placement| placement.metadata.namespace.as_deref() == Some(&name.namespace));
        };
        let bindings = Watch::new(&self.client, Api::<ManagedClusterSetBinding>::all)
            .on_apply(move |index: &mut IndexOf<Self>, binding| {
                let (binding, _) = index.related.bindings.apply(binding);
                enqueue_namespace(index, &ObjectName::of(binding.as_ref()));
            })
            .on_delete(move |index, deleted| {
                index.related.bindings.delete(&deleted.name);
                enqueue_namespace(index, &deleted.name);
            });
        let decisions = Watch::new(&self.client, Api::<PlacementDecision>::all)
            .on_apply(|index: &mut IndexOf<Self>, decision| {
                let (decision, before) = index.related.decisions.apply(decision);
                for decision in before.into_iter().chain([decision]) {
                    index.enqueue(placement_of(&decision));
                }
            })
            .on_delete(|index, deleted| {
                if let Some(decision) = index.related.decisions.delete(&deleted.name) {
                    index.enqueue(placement_of(&decision));
                }
            });
        watches.with(clusters).with(sets).with(bindings).with(decisions)
    }

    async fn reconcile(
        &self,
        placement: Arc<Placement>,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, PlacementError> {
        let inputs = PlacementInputs::of(index);
        let own = inputs.decisions.iter().filter(|decision| is_of(decision, &placement)).cloned().collect();
        let state = PlacementState { placement, own };
        // Decide from the caches first; read from the API server only if something must be written.
        if let PlacementAction::Nothing(next) = self.decide_action(&state, &inputs) {
            return Ok(next);
        }
        let (namespace, name) = (state.placement.namespace().unwrap_or_default(), state.placement.name_any());
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let Some(state) = self.read(&namespace, &name).await? else { return Ok(Next::OnChange) };
            let (written, next) = match self.decide_action(&state, &PlacementInputs::of(index)) {
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

/// The cached objects at the time of a decision.
struct PlacementInputs {
    clusters: Vec<Arc<ManagedCluster>>,
    sets: Vec<Arc<ManagedClusterSet>>,
    bindings: Vec<Arc<ManagedClusterSetBinding>>,
    decisions: Vec<Arc<PlacementDecision>>,
}

impl PlacementInputs {
    fn of(index: &Mutex<IndexOf<Placements>>) -> Self {
        let PlacementCaches { clusters, sets, bindings, decisions } = &index.lock().related;
        Self {
            clusters: clusters.all(),
            sets: sets.all(),
            bindings: bindings.all(),
            decisions: decisions.all(),
        }
    }
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
        Self { client: context.client.clone(), clock: context.clock.clone() }
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

/// The fields of a cluster that a selection depends on. Its reachability counts only through taints.
fn relevant_fields(cluster: &ManagedCluster) -> impl PartialEq {
    let ManagedCluster { metadata, spec, status } = cluster;
    let status = status.as_ref().map(|status| {
        (&status.cluster_claims, ["cpu", "memory"].map(|resource| status.allocatable.get(resource)))
    });
    (&metadata.uid, metadata.deletion_timestamp.is_some(), &metadata.labels, &spec.taints, status)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    type Change = fn(&mut Value);

    #[test]
    fn cluster_change_is_relevant_if_a_selection_depends_on_the_field() {
        let cluster = |change: Change| -> ManagedCluster {
            let mut cluster = json!({
                "metadata": {"name": "c", "uid": "1", "labels": {"a": "b"}, "annotations": {}},
                "spec": {"taints": [{"key": "t", "effect": "NoSelect", "timeAdded": "2024-05-01T10:00:00Z"}]},
                "status": {"clusterClaims": [{"name": "n", "value": "v"}], "conditions": [],
                    "allocatable": {"cpu": "4", "pods": "9"}, "capacity": {"cpu": "4"}},
            });
            change(&mut cluster);
            serde_json::from_value(cluster).unwrap()
        };
        let rows: [(&str, Change, bool); 11] = [
            ("none", |_| {}, false),
            ("annotation", |c| c["metadata"]["annotations"]["a"] = json!("b"), false),
            ("lease duration", |c| c["spec"]["leaseDurationSeconds"] = json!(5), false),
            ("capacity", |c| c["status"]["capacity"]["cpu"] = json!("8"), false),
            ("allocatable pods", |c| c["status"]["allocatable"]["pods"] = json!("8"), false),
            ("allocatable cpu", |c| c["status"]["allocatable"]["cpu"] = json!("8"), true),
            ("claim", |c| c["status"]["clusterClaims"][0]["value"] = json!("w"), true),
            ("label", |c| c["metadata"]["labels"]["a"] = json!("c"), true),
            (
                "time of a taint",
                |c| c["spec"]["taints"][0]["timeAdded"] = json!("2024-05-01T10:00:01Z"),
                true,
            ),
            ("uid", |c| c["metadata"]["uid"] = json!("2"), true),
            ("deletion", |c| c["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z"), true),
        ];
        let before = cluster(|_| {});
        for (field, change, is_relevant) in rows {
            let after = cluster(change);
            assert_eq!(relevant_fields(&before) != relevant_fields(&after), is_relevant, "{field}");
        }
    }
}
