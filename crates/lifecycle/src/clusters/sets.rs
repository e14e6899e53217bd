//! Sets the condition ClusterSetEmpty of ManagedClusterSets and the condition Bound of ManagedClusterSetBindings.
//! Which clusters are in a set is decided in `members`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding};
use bellwether_clock::Clock;
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey};
use bellwether_runtime::{Context, IndexOf, Next, ObjectName, Reconciler, Watch, Watches};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::controller::is_outdated;
use super::error::ClusterError;
use super::members::Membership;
use super::{CLUSTER_SET_BINDINGS, CLUSTER_SETS};
use bellwether_conditions::kubernetes::upsert;

/// How long changes of clusters are debounced before the sets are counted again.
const CLUSTER_DEBOUNCE: Duration = Duration::from_secs(1);
/// How long to wait for the watch event after a write conflict.
const CONFLICT_RETRY_DELAY: Duration = Duration::from_secs(1);

/// The condition that a set has no clusters.
const EMPTY: ConditionType = ConditionType::constant("ClusterSetEmpty");
/// The condition that the set of a binding exists.
const BOUND: ConditionType = ConditionType::constant("Bound");

/// Reconciles ManagedClusterSets: reports whether they are empty.
pub struct ClusterSets {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl ClusterSets {
    /// Creates the reconciler for the hub of a context.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone() }
    }
}

impl Reconciler for ClusterSets {
    type Object = ManagedClusterSet;
    /// The labels of all clusters.
    type Related = HashMap<ObjectName, BTreeMap<String, String>>;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTER_SETS;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        let clusters = Watch::new(&self.client, Api::<ManagedCluster>::all)
            .on_apply(|index: &mut IndexOf<Self>, cluster| {
                let before = index.related.insert(ObjectName::of(&cluster), cluster.labels().clone());
                if before.as_ref() != Some(cluster.labels()) {
                    index.enqueue_all_after(CLUSTER_DEBOUNCE);
                }
            })
            .on_delete(|index, deleted| {
                index.related.remove(&deleted.name);
                index.enqueue_all_after(CLUSTER_DEBOUNCE);
            });
        watches.with(clusters)
    }

    async fn reconcile(
        &self,
        set: Arc<ManagedClusterSet>,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, ClusterError> {
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let membership = Membership::of(&set);
        let count = index.lock().related.values().filter(|labels| membership.has(labels)).count();
        let current = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let api = Api::all(self.client.clone());
        write_condition(&api, set.as_ref(), current, empty_condition(count), self.clock.as_ref()).await
    }
}

/// Reconciles ManagedClusterSetBindings: reports whether their set exists.
pub struct ClusterSetBindings {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl ClusterSetBindings {
    /// Creates the reconciler for the hub of a context.
    pub fn new(context: &Context) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone() }
    }
}

impl Reconciler for ClusterSetBindings {
    type Object = ManagedClusterSetBinding;
    /// The names of all sets.
    type Related = HashSet<ObjectName>;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTER_SET_BINDINGS;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        let enqueue_bindings = |index: &mut IndexOf<Self>, set: &ObjectName| {
            index.enqueue_where(|binding| *binding.spec.cluster_set == *set.name);
        };
        let sets = Watch::new(&self.client, Api::<ManagedClusterSet>::all)
            .on_apply(move |index: &mut IndexOf<Self>, set| {
                let set = ObjectName::of(&set);
                if index.related.insert(set.clone()) {
                    enqueue_bindings(index, &set);
                }
            })
            .on_delete(move |index, deleted| {
                index.related.remove(&deleted.name);
                enqueue_bindings(index, &deleted.name);
            });
        watches.with(sets)
    }

    async fn reconcile(
        &self,
        binding: Arc<ManagedClusterSetBinding>,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, ClusterError> {
        if binding.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let set = &binding.spec.cluster_set;
        let exists = index.lock().related.contains(&ObjectName::new("", set.as_str()));
        let current = binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let api = Api::namespaced(self.client.clone(), &binding.namespace().unwrap_or_default());
        write_condition(&api, binding.as_ref(), current, bound_condition(set, exists), self.clock.as_ref())
            .await
    }
}

fn empty_condition(count: usize) -> Desired {
    match count {
        0 => Desired::new(
            EMPTY,
            Status::True,
            Reason::constant("NoClusterMatched"),
            "No cluster is in the set.",
        ),
        1 => Desired::new(
            EMPTY,
            Status::False,
            Reason::constant("ClustersSelected"),
            "One cluster is in the set.",
        ),
        _ => Desired::new(
            EMPTY,
            Status::False,
            Reason::constant("ClustersSelected"),
            format!("{count} clusters are in the set."),
        ),
    }
}

fn bound_condition(set: &str, exists: bool) -> Desired {
    if exists {
        let message =
            format!("Placements of this namespace may select clusters of the ManagedClusterSet {set}.");
        Desired::new(BOUND, Status::True, Reason::constant("ClusterSetBound"), message)
    } else {
        let message = format!("ManagedClusterSet {set} does not exist.");
        Desired::new(BOUND, Status::False, Reason::constant("ClusterSetNotFound"), message)
    }
}

/// Writes a condition if it changed.
async fn write_condition<K>(
    api: &Api<K>,
    object: &K,
    current: &[Condition],
    desired: Desired,
    clock: &dyn Clock,
) -> Result<Next, ClusterError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let mut conditions = current.to_vec();
    let _ = upsert(&mut conditions, desired, TransitionKey::Status, clock.now());
    if conditions == current {
        return Ok(Next::OnChange);
    }
    let name = object.name_any();
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()}, "status": {"conditions": conditions},
    });
    match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(Next::OnChange),
        // The watch delivers the changed object.
        Err(error) if is_outdated(&error) => Ok(Next::After(CONFLICT_RETRY_DELAY)),
        Err(error) => Err(ClusterError::api(format!("writing the status of {} {name}", K::kind(&())))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_sets_and_bindings() {
        let rows = [
            (empty_condition(0), "ClusterSetEmpty=True/NoClusterMatched: No cluster is in the set."),
            (empty_condition(1), "ClusterSetEmpty=False/ClustersSelected: One cluster is in the set."),
            (empty_condition(7), "ClusterSetEmpty=False/ClustersSelected: 7 clusters are in the set."),
            (
                bound_condition("east", true),
                "Bound=True/ClusterSetBound: Placements of this namespace may select clusters of the ManagedClusterSet east.",
            ),
            (
                bound_condition("east", false),
                "Bound=False/ClusterSetNotFound: ManagedClusterSet east does not exist.",
            ),
        ];
        for (desired, expected) in rows {
            let Desired { type_, status, reason, message, .. } = desired;
            assert_eq!(format!("{type_}={status}/{reason}: {message}"), expected);
        }
    }
}
