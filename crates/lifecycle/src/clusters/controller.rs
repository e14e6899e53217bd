//! Gives accepted clusters their namespace, notes which are out of reach, and taints those. One that is deleted goes when
//! its add-ons and then its works are gone; its namespace stays, with what people have put there.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::{CLUSTER_LEASE, FINALIZER};
use bellwether_api::work::ManifestWork;
use bellwether_clock::{Clock, SteadyClock};
use bellwether_conditions::Status;
use bellwether_runtime::{Context, Next, Reconciler};
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::core::PartialObjectMeta;
use kube::runtime::Controller;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::CLUSTERS;
use super::decide::{Home, Reach, Remains, Wanted, availability, decide, farewell};
use super::error::ClusterError;
use super::leases::Leases;
use super::mirror::{Mirror, Mirrored};

/// The cluster that a namespace is of.
const CLUSTER_NAME_LABEL: &str = "open-cluster-management.io/cluster-name";
/// How often a cluster is read anew while others write it.
const ROUNDS: usize = 5;
/// How often to look at what is left of a cluster that is being deleted.
const FAREWELL: Duration = Duration::from_secs(2);
/// How many of what is left are looked at and deleted together; the rest in the next look.
const BATCH: u32 = 100;
/// How long the API may take for one look.
const PATIENCE: Duration = Duration::from_secs(30);

/// Looks after ManagedClusters.
pub struct Clusters {
    client: Client,
    clock: Arc<dyn Clock>,
    /// The time by which silence is measured, whatever happens to the clock of the machine.
    steady: SteadyClock,
    namespaces: Mirror<PartialObjectMeta<Namespace>>,
    renewals: Mirror<Lease>,
    leases: Arc<Mutex<Leases>>,
}

/// What is done with all objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Count,
    Delete,
}

/// Whether something could be written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Yes,
    /// It has changed since it was read.
    Conflict,
}

impl Reconciler for Clusters {
    type Object = ManagedCluster;
    type Error = ClusterError;
    const NAME: &'static str = CLUSTERS;

    fn watch(&self, controller: Controller<ManagedCluster>) -> Controller<ManagedCluster> {
        // Nobody was looked at while this copy stood by.
        *self.leases.lock() = Leases::default();
        let clusters = controller.store();
        let (leases, steady) = (self.leases.clone(), self.steady);
        // A renewal concerns nobody; silence is noticed when its time comes.
        let renewals = self.renewals.watch().filter_map(move |event| {
            note(&mut leases.lock(), event, &clusters, steady.now());
            std::future::ready(None)
        });
        let homes = self.namespaces.watch().filter_map(|event| {
            let concerned = match event {
                Event::Apply(namespace) | Event::Delete(namespace) => {
                    Some(ObjectRef::new(&namespace.name_any()))
                }
                Event::Init | Event::InitApply(_) | Event::InitDone => None,
            };
            std::future::ready(concerned)
        });
        controller.reconcile_on(renewals).reconcile_on(homes)
    }

    async fn reconcile(&self, cluster: Arc<ManagedCluster>) -> Result<Next, ClusterError> {
        let settled = tokio::time::timeout(PATIENCE, self.settle(cluster)).await;
        settled.unwrap_or(Err(ClusterError::Late)).inspect_err(|failure| {
            if failure.is_of_the_server() {
                self.leases.lock().troubled(self.steady.now());
            }
        })
    }
}

impl Clusters {
    /// For the hub of a context.
    pub fn new(context: &Context) -> Self {
        let named = watcher::Config::default().fields(&format!("metadata.name={CLUSTER_LEASE}"));
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            steady: SteadyClock::starting_at(context.clock.now()),
            namespaces: Mirror::new(&context.client),
            renewals: Mirror::with(&context.client, named),
            leases: Arc::default(),
        }
    }

    async fn settle(&self, cluster: Arc<ManagedCluster>) -> Result<Next, ClusterError> {
        let name = cluster.name_any();
        let api = Api::<ManagedCluster>::all(self.client.clone());
        let mut known = Some(cluster);
        for _ in 0..ROUNDS {
            let cluster = match known.take() {
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
                if !cluster.finalizers().iter().any(|held| held == FINALIZER) {
                    return Ok(Next::OnChange);
                }
                let remains = self.clear(&name).await?;
                let reach = self.leases.lock().judge(&cluster, self.steady.now());
                let wanted = farewell(&cluster, reach, remains, self.clock.now());
                match self.write(&api, &cluster, &wanted).await? {
                    Written::Yes if remains.is_nothing() => return Ok(Next::OnChange),
                    Written::Yes => return Ok(Next::After(FAREWELL)),
                    Written::Conflict => continue,
                }
            }
            let home = self.home(&cluster).await?;
            let reach = self.leases.lock().judge(&cluster, self.steady.now());
            let wanted = decide(&cluster, reach, &home, self.clock.now());
            if self.write(&api, &cluster, &wanted).await? == Written::Yes {
                return match home {
                    Home::Settled => Ok(self.next(&wanted, reach)),
                    Home::Refused(words) => Err(ClusterError::Refused(words)),
                };
            }
        }
        Err(ClusterError::Unsettled)
    }

    /// Silence is only waited for where it would change what is said.
    fn next(&self, wanted: &Wanted, reach: Reach) -> Next {
        match (reach, availability(&wanted.conditions)) {
            (Reach::Heard { until }, Some(Status::True | Status::False)) => {
                let left = until.duration_since(self.steady.now());
                Next::After(Duration::try_from(left).unwrap_or_default())
            }
            _ => Next::OnChange,
        }
    }

    /// Makes the namespace of an accepted cluster where there is none. One that is going is made again when it has gone.
    async fn home(&self, cluster: &ManagedCluster) -> Result<Home, ClusterError> {
        let name = cluster.name_any();
        let namespaces = self.namespaces.listed().await?;
        if !cluster.spec.hub_accepts_client || namespaces.get(&ObjectRef::new(&name)).is_some() {
            return Ok(Home::Settled);
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
            Ok(_) => Ok(Home::Settled),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(Home::Settled),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
                Ok(Home::Refused(status.message.clone()))
            }
            Err(error) => Err(ClusterError::api(format!("making namespace {name}"))(error)),
        }
    }

    /// Deletes what belongs to a cluster: its add-ons, which take their works along, then all other works. Counts what is
    /// left.
    async fn clear(&self, cluster: &str) -> Result<Remains, ClusterError> {
        let addons = self.delete_all::<ManagedClusterAddOn>(cluster, Deed::Delete).await?;
        let deed = if addons == 0 { Deed::Delete } else { Deed::Count };
        let works = self.delete_all::<ManifestWork>(cluster, deed).await?;
        Ok(Remains { addons, works })
    }

    async fn delete_all<K>(&self, namespace: &str, deed: Deed) -> Result<usize, ClusterError>
    where
        K: Mirrored + Resource<Scope = kube::core::NamespaceResourceScope>,
    {
        let kind = K::kind(&());
        let api = Api::<K>::namespaced(self.client.clone(), namespace);
        let list = api.list_metadata(&ListParams::default().limit(BATCH)).await;
        let list = match list {
            // A hub that does not know the kind has none of it.
            Err(kube::Error::Api(status)) if status.is_not_found() => return Ok(0),
            list => list.map_err(ClusterError::api(format!("listing {kind}s of {namespace}")))?,
        };
        let more =
            usize::try_from(list.metadata.remaining_item_count.unwrap_or_default()).unwrap_or_default();
        let staying = list.items.iter().filter(|one| one.metadata.deletion_timestamp.is_none());
        for one in staying.filter(|_| deed == Deed::Delete) {
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

    /// Writes what differs: first what is said of the cluster, then the taints that follow from it, and its finalizers.
    async fn write(
        &self,
        api: &Api<ManagedCluster>,
        cluster: &ManagedCluster,
        wanted: &Wanted,
    ) -> Result<Written, ClusterError> {
        let name = cluster.name_any();
        let held = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        let mut version = cluster.resource_version();
        let params = PatchParams::default();
        if held != wanted.conditions {
            let patch = json!({
                "metadata": {"resourceVersion": version}, "status": {"conditions": wanted.conditions},
            });
            match api.patch_status(&name, &params, &Patch::Merge(patch)).await {
                Ok(written) => version = written.resource_version(),
                Err(error) if is_outdated(&error) => return Ok(Written::Conflict),
                Err(error) => {
                    return Err(ClusterError::api(format!("writing the status of ManagedCluster {name}"))(
                        error,
                    ));
                }
            }
        }
        let mut patch = json!({"metadata": {"resourceVersion": version}});
        let tainted = cluster.spec.taints != wanted.taints;
        if tainted && let Some(patch) = patch.as_object_mut() {
            patch.insert("spec".to_owned(), json!({"taints": wanted.taints}));
        }
        let held = cluster.finalizers() != wanted.finalizers;
        if held && let Some(metadata) = patch.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("finalizers".to_owned(), json!(wanted.finalizers));
        }
        if tainted || held {
            match api.patch(&name, &params, &Patch::Merge(patch)).await {
                Ok(_) => {}
                Err(error) if is_outdated(&error) => return Ok(Written::Conflict),
                Err(error) => {
                    return Err(ClusterError::api(format!("writing ManagedCluster {name}"))(error));
                }
            }
        }
        Ok(Written::Yes)
    }
}

/// Whether something was written for a state that has passed.
pub(super) fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409))
}

fn note(leases: &mut Leases, event: Event<Lease>, clusters: &Store<ManagedCluster>, now: Timestamp) {
    match event {
        Event::Apply(lease) | Event::InitApply(lease) => {
            let stamp = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
            leases.seen(&lease.namespace().unwrap_or_default(), stamp, now);
            leases.forget(clusters.len(), |name| clusters.get(&ObjectRef::new(name)).is_some());
        }
        // A lease that is deleted is one that is not renewed.
        Event::Init | Event::InitDone | Event::Delete(_) => {}
    }
}
