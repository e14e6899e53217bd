//! The ManagedCluster controller: creates the namespace of accepted clusters, and marks and taints unreachable ones. On
//! deletion it deletes the add-ons and then the ManifestWorks of the cluster; its namespace stays, with what users put there.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::{CLUSTER_LEASE, FINALIZER};
use bellwether_api::work::ManifestWork;
use bellwether_clock::{Clock, SteadyClock};
use bellwether_conditions::Status;
use bellwether_runtime::{Context, IndexOf, Next, ObjectName, Reconciler, Watch, Watches};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{NamespaceResourceScope, PartialObjectMeta};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::CLUSTERS;
use super::decide::{
    DesiredCluster, NamespaceState, Reach, RemainingObjects, availability, decide, decide_deletion,
};
use super::error::ClusterError;
use super::leases::LeaseTracker;

/// The label of a namespace that names its cluster.
const CLUSTER_NAME_LABEL: &str = "open-cluster-management.io/cluster-name";
/// The maximum number of attempts after write conflicts in one reconcile.
const MAX_WRITE_ATTEMPTS: usize = 5;
/// How often to check what remains of a cluster that is being deleted.
const DELETION_CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// The maximum number of objects of a kind that are listed and deleted in one reconcile.
const DELETION_BATCH_SIZE: u32 = 100;
/// The maximum duration of one reconcile.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(30);

/// Reconciles ManagedClusters.
pub struct Clusters {
    client: Client,
    clock: Arc<dyn Clock>,
    /// A monotonic clock for Lease ages, so that a step of the system clock makes no cluster unreachable.
    steady: SteadyClock,
}

/// What the reconciler keeps of other kinds.
#[derive(Default)]
pub struct NamespacesAndLeases {
    namespaces: HashSet<ObjectName>,
    leases: LeaseTracker,
}

/// Whether to delete the objects of a kind or only to count them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CleanupAction {
    Count,
    Delete,
}

/// The result of a conditional write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteResult {
    Done,
    /// The object has changed since it was read.
    Conflict,
}

impl Reconciler for Clusters {
    type Object = ManagedCluster;
    type Related = NamespacesAndLeases;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTERS;

    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        // A cluster and its namespace have the same name.
        let namespaces = Watch::new(&self.client, Api::<PartialObjectMeta<Namespace>>::all)
            .on_apply(|index: &mut IndexOf<Self>, namespace| {
                let name = ObjectName::of(&namespace);
                if index.related.namespaces.insert(name.clone()) {
                    index.enqueue(name);
                }
            })
            .on_delete(|index, deleted| {
                index.related.namespaces.remove(&deleted.name);
                index.enqueue(deleted.name);
            });
        let (steady, lease_name) = (self.steady, format!("metadata.name={CLUSTER_LEASE}"));
        // A renewal needs no reconcile; an expired Lease is detected by the timer of the cluster. A deleted Lease is not
        // renewed any more, so it expires.
        let leases = Watch::new(&self.client, Api::<Lease>::all)
            .config(watcher::Config::default().fields(&lease_name))
            .on_apply(move |index: &mut IndexOf<Self>, lease| {
                let (objects, leases) = (&index.objects, &mut index.related.leases);
                let cluster = lease.metadata.namespace.unwrap_or_default();
                let renew_time = lease.spec.and_then(|spec| spec.renew_time).map(|time| time.0);
                leases.record_renewal(&cluster, renew_time, steady.now());
                leases
                    .forget_deleted(objects.len(), |name| objects.get(&ObjectName::new("", name)).is_some());
            });
        watches.with(namespaces).with(leases)
    }

    fn on_leader(&self, index: &mut IndexOf<Self>) {
        // A standby makes no requests, so it has not noticed whether agents were unable to renew their Leases.
        index.related.leases = LeaseTracker::default();
    }

    async fn reconcile(
        &self,
        cluster: Arc<ManagedCluster>,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, ClusterError> {
        let result = tokio::time::timeout(RECONCILE_TIMEOUT, self.reconcile_cluster(cluster, index)).await;
        result.unwrap_or(Err(ClusterError::Timeout)).inspect_err(|error| {
            if error.is_server_error() {
                index.lock().related.leases.record_api_failure(self.steady.now());
            }
        })
    }
}

impl Clusters {
    /// Creates the reconciler for the hub of a context.
    pub fn new(context: &Context) -> Self {
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            steady: SteadyClock::starting_at(context.clock.now()),
        }
    }

    async fn reconcile_cluster(
        &self,
        cluster: Arc<ManagedCluster>,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<Next, ClusterError> {
        let name = cluster.name_any();
        let reach = |cluster: &ManagedCluster| index.lock().related.leases.reach(cluster, self.steady.now());
        let api = Api::<ManagedCluster>::all(self.client.clone());
        let mut cached = Some(cluster);
        for _ in 0..MAX_WRITE_ATTEMPTS {
            let cluster = match cached.take() {
                Some(cluster) => cluster,
                None => {
                    let read = api.get_opt(&name).await;
                    match read.map_err(ClusterError::api(format!("reading ManagedCluster {name}")))? {
                        Some(cluster) => Arc::new(cluster),
                        None => return Ok(Next::OnChange),
                    }
                }
            };
            if cluster.metadata.deletion_timestamp.is_some() {
                if !cluster.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
                    return Ok(Next::OnChange);
                }
                let remaining = self.delete_contents(&name).await?;
                let desired = decide_deletion(&cluster, reach(&cluster), remaining, self.clock.now());
                match self.write(&api, &cluster, &desired).await? {
                    WriteResult::Done if remaining.is_empty() => return Ok(Next::OnChange),
                    WriteResult::Done => return Ok(Next::After(DELETION_CHECK_INTERVAL)),
                    WriteResult::Conflict => continue,
                }
            }
            let namespace = self.ensure_namespace(&cluster, index).await?;
            let reach = reach(&cluster);
            let desired = decide(&cluster, reach, &namespace, self.clock.now());
            if self.write(&api, &cluster, &desired).await? == WriteResult::Done {
                return match namespace {
                    NamespaceState::Ready => Ok(self.next_reconcile(&desired, reach)),
                    NamespaceState::Rejected(message) => Err(ClusterError::Rejected(message)),
                };
            }
        }
        Err(ClusterError::TooManyConflicts)
    }

    /// When to reconcile again: when the Lease expires, if that would change the condition Available.
    fn next_reconcile(&self, desired: &DesiredCluster, reach: Reach) -> Next {
        match (reach, availability(&desired.conditions)) {
            (Reach::Reachable { until }, Some(Status::True | Status::False)) => {
                let left = until.duration_since(self.steady.now());
                Next::After(Duration::try_from(left).unwrap_or_default())
            }
            _ => Next::OnChange,
        }
    }

    /// Creates the namespace of an accepted cluster if it does not exist. A namespace that is being deleted is created again
    /// afterwards.
    async fn ensure_namespace(
        &self,
        cluster: &ManagedCluster,
        index: &Mutex<IndexOf<Self>>,
    ) -> Result<NamespaceState, ClusterError> {
        let name = cluster.name_any();
        let exists = index.lock().related.namespaces.contains(&ObjectName::of(cluster));
        if !cluster.spec.hub_accepts_client || exists {
            return Ok(NamespaceState::Ready);
        }
        let labels = [(CLUSTER_NAME_LABEL.to_owned(), name.clone())];
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                labels: Some(labels.into()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let created = Api::all(self.client.clone()).create(&PostParams::default(), &namespace).await;
        match created {
            Ok(_) => Ok(NamespaceState::Ready),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(NamespaceState::Ready),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                Ok(NamespaceState::Rejected(status.message.clone()))
            }
            Err(error) => Err(ClusterError::api(format!("creating namespace {name}"))(error)),
        }
    }

    /// Deletes the add-ons of a cluster, which deletes their ManifestWorks, and then all other ManifestWorks. Returns what
    /// remains.
    async fn delete_contents(&self, cluster: &str) -> Result<RemainingObjects, ClusterError> {
        let addons = self.delete_all::<ManagedClusterAddOn>(cluster, CleanupAction::Delete).await?;
        let action = if addons == 0 { CleanupAction::Delete } else { CleanupAction::Count };
        let works = self.delete_all::<ManifestWork>(cluster, action).await?;
        Ok(RemainingObjects { addons, works })
    }

    async fn delete_all<K>(&self, namespace: &str, action: CleanupAction) -> Result<usize, ClusterError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    {
        let kind = K::kind(&());
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default().limit(DELETION_BATCH_SIZE)).await;
        let list = match list {
            // Without the CRD there are no objects of the kind.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(0),
            list => list.map_err(ClusterError::api(format!("listing {kind}s of {namespace}")))?,
        };
        let more =
            usize::try_from(list.metadata.remaining_item_count.unwrap_or_default()).unwrap_or_default();
        let not_deleted = list.items.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
        for one in not_deleted.filter(|_| action == CleanupAction::Delete) {
            let preconditions = Some(Preconditions { uid: one.uid(), resource_version: None });
            let parameters = DeleteParams { preconditions, ..DeleteParams::default() };
            match api.delete(&one.name_any(), &parameters).await {
                Ok(_) => {}
                Err(error) if is_outdated(&error) => {}
                Err(error) => {
                    let doing = format!("deleting {kind} {namespace}/{}", one.name_any());
                    return Err(ClusterError::api(doing)(error));
                }
            }
        }
        Ok(list.items.len() + more)
    }

    /// Writes the differences: first the conditions, then the taints that follow from them and the finalizers.
    async fn write(
        &self,
        api: &Api<ManagedCluster>,
        cluster: &ManagedCluster,
        desired: &DesiredCluster,
    ) -> Result<WriteResult, ClusterError> {
        let name = cluster.name_any();
        let current = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut version = cluster.resource_version();
        let params = PatchParams::default();
        if current != desired.conditions {
            let patch = json!({
                "metadata": {"resourceVersion": version}, "status": {"conditions": desired.conditions},
            });
            match api.patch_status(&name, &params, &Patch::Merge(patch)).await {
                Ok(written) => version = written.resource_version(),
                Err(error) if is_outdated(&error) => return Ok(WriteResult::Conflict),
                Err(error) => {
                    return Err(ClusterError::api(format!("writing the status of ManagedCluster {name}"))(
                        error,
                    ));
                }
            }
        }
        let mut patch = json!({"metadata": {"resourceVersion": version}});
        let taints_differ = cluster.spec.taints != desired.taints;
        if taints_differ && let Some(patch) = patch.as_object_mut() {
            patch.insert("spec".to_owned(), json!({"taints": desired.taints}));
        }
        let finalizers_differ = cluster.finalizers() != desired.finalizers;
        if finalizers_differ && let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut)
        {
            metadata.insert("finalizers".to_owned(), json!(desired.finalizers));
        }
        if taints_differ || finalizers_differ {
            match api.patch(&name, &params, &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_outdated(&error) => return Ok(WriteResult::Conflict),
                Err(error) => {
                    return Err(ClusterError::api(format!("writing ManagedCluster {name}"))(error));
                }
            }
        }
        Ok(WriteResult::Done)
    }
}

/// Whether a write failed because the object was changed or deleted since it was read.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}
