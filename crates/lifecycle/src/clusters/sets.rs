//! Says of sets whether they are empty, and of bindings whether there is such a set.

use std::hash::{DefaultHasher, Hash as _};
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::cluster::{ManagedCluster, ManagedClusterSet, ManagedClusterSetBinding};
use bellwether_clock::Clock;
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey};
use bellwether_runtime::{Context, Next, Reconciler};
use futures::{StreamExt as _, stream};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::Controller;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::watcher::Event;
use kube::{Client, ResourceExt as _};
use serde_json::json;

use super::controller::is_outdated;
use super::error::ClusterError;
use super::members::Membership;
use super::mirror::{Mirror, Mirrored, gathered, that_matter};
use super::{CLUSTER_SET_BINDINGS, CLUSTER_SETS};
use bellwether_conditions::kubernetes::upsert;

/// How long changes of clusters are gathered before sets are counted again.
const PAUSE: Duration = Duration::from_secs(1);
/// How long to wait for the news of a change that was told by a refused write.
const SOON: Duration = Duration::from_secs(1);

/// Whether a set has no clusters.
const EMPTY: ConditionType = ConditionType::constant("ClusterSetEmpty");
/// Whether there is a set to choose from.
const BOUND: ConditionType = ConditionType::constant("Bound");

/// Says of ManagedClusterSets whether they are empty.
pub struct ClusterSets {
    client: Client,
    clock: Arc<dyn Clock>,
    clusters: Mirror<ManagedCluster>,
}

impl ClusterSets {
    /// For the hub of a context.
    pub fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            clusters: Mirror::new(&context.client),
        }
    }
}

impl Reconciler for ClusterSets {
    type Object = ManagedClusterSet;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTER_SETS;

    fn watch(&self, controller: Controller<ManagedClusterSet>) -> Controller<ManagedClusterSet> {
        let labels =
            |cluster: &ManagedCluster, hasher: &mut DefaultHasher| cluster.metadata.labels.hash(hasher);
        controller.reconcile_all_on(gathered(that_matter(self.clusters.watch(), labels), PAUSE))
    }

    async fn reconcile(&self, set: Arc<ManagedClusterSet>) -> Result<Next, ClusterError> {
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let membership = Membership::of(&set);
        let clusters = self.clusters.all().await?;
        let count = clusters.iter().filter(|cluster| membership.has(cluster)).count();
        let held = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let api = Api::all(self.client.clone());
        report(&api, set.as_ref(), held, emptiness(count), self.clock.as_ref()).await
    }
}

/// Says of ManagedClusterSetBindings whether there is such a set.
pub struct ClusterSetBindings {
    client: Client,
    clock: Arc<dyn Clock>,
    sets: Mirror<ManagedClusterSet>,
}

impl ClusterSetBindings {
    /// For the hub of a context.
    pub fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            sets: Mirror::new(&context.client),
        }
    }
}

impl Reconciler for ClusterSetBindings {
    type Object = ManagedClusterSetBinding;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTER_SET_BINDINGS;

    fn watch(
        &self,
        controller: Controller<ManagedClusterSetBinding>,
    ) -> Controller<ManagedClusterSetBinding> {
        let bindings = controller.store();
        let concerned = self.sets.watch().flat_map(move |event| {
            let bindings = match &event {
                Event::Init | Event::InitApply(_) => Vec::new(),
                Event::InitDone => bindings.state(),
                Event::Apply(set) | Event::Delete(set) => {
                    let set = set.name_any();
                    bindings.state_filter(|binding| binding.spec.cluster_set == set)
                }
            };
            stream::iter(bindings.into_iter().map(|binding| ObjectRef::from_obj(binding.as_ref())))
        });
        controller.reconcile_on(concerned)
    }

    async fn reconcile(&self, binding: Arc<ManagedClusterSetBinding>) -> Result<Next, ClusterError> {
        if binding.metadata.deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let set = &binding.spec.cluster_set;
        let there = self.sets.listed().await?.get(&ObjectRef::new(set)).is_some();
        let held = binding.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let api = Api::namespaced(self.client.clone(), &binding.namespace().unwrap_or_default());
        report(&api, binding.as_ref(), held, boundness(set, there), self.clock.as_ref()).await
    }
}

fn emptiness(count: usize) -> Desired {
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

fn boundness(set: &str, there: bool) -> Desired {
    if there {
        let message = format!("Placements of this namespace may choose from the set {set}.");
        Desired::new(BOUND, Status::True, Reason::constant("ClusterSetBound"), message)
    } else {
        let message = format!("There is no ManagedClusterSet {set}.");
        Desired::new(BOUND, Status::False, Reason::constant("ClusterSetNotFound"), message)
    }
}

/// Writes a condition where it says something new.
async fn report<K>(
    api: &Api<K>,
    object: &K,
    held: &[Condition],
    desired: Desired,
    clock: &dyn Clock,
) -> Result<Next, ClusterError>
where
    K: Mirrored,
{
    let mut conditions = held.to_vec();
    let _ = upsert(&mut conditions, desired, TransitionKey::Status, clock.now());
    if conditions == held {
        return Ok(Next::OnChange);
    }
    let name = object.name_any();
    let patch = json!({
        "metadata": {"resourceVersion": object.resource_version()}, "status": {"conditions": conditions},
    });
    match api.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(Next::OnChange),
        // What changed is on its way to us.
        Err(error) if is_outdated(&error) => Ok(Next::After(SOON)),
        Err(error) => Err(ClusterError::api(format!("writing the status of {} {name}", K::kind(&())))(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_and_a_binding_say_how_they_are() {
        let rows = [
            (emptiness(0), "ClusterSetEmpty=True/NoClusterMatched: No cluster is in the set."),
            (emptiness(1), "ClusterSetEmpty=False/ClustersSelected: One cluster is in the set."),
            (emptiness(7), "ClusterSetEmpty=False/ClustersSelected: 7 clusters are in the set."),
            (
                boundness("east", true),
                "Bound=True/ClusterSetBound: Placements of this namespace may choose from the set east.",
            ),
            (boundness("east", false), "Bound=False/ClusterSetNotFound: There is no ManagedClusterSet east."),
        ];
        for (desired, wanted) in rows {
            let Desired { type_, status, reason, message, .. } = desired;
            assert_eq!(format!("{type_}={status}/{reason}: {message}"), wanted);
        }
    }
}
