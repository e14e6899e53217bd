//! The install controller: creates, updates and deletes ManagedClusterAddOns by the selections of placements. Fields are
//! applied without force: what a user has set stays.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::{FINALIZER, INSTALLED_BY, UNINSTALL_UNREACHABLE};
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::ManagedCluster;
use bellwether_clock::Clock;
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Lane, Next, ReconcileError, run_indexed,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, Resource as _, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::NAME;
use super::decide::{Action, Observed, Present, decide};
use crate::assignment::AddonRequest;
use crate::clusters::ClusterState;
use crate::fields::{Field, installed_for, is_set_by_others, is_shared};
use crate::hub::{self, AddonKey, AddonTask, HubCache, User};
use crate::version::Version;

/// Installs add-ons on the clusters of their placements until the shutdown. A standby watches too.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(context: Context) -> impl Future<Output = ()> + Send {
    let cache = Arc::new(Mutex::new(HubCache::default()));
    cache.lock().add_user(User::Install);
    let watches = hub::watches(NAME, &context, cache.clone(), User::Install);
    run_indexed(Installer::new(&context, cache), watches, context)
}

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
#[error("{doing}: {source}")]
pub(crate) struct InstallError {
    doing: String,
    source: Box<kube::Error>,
}

impl ReconcileError for InstallError {
    fn label(&self) -> &'static str {
        "api"
    }
}

pub(crate) struct Installer {
    client: Client,
    clock: Arc<dyn Clock>,
    cache: Arc<Mutex<HubCache>>,
    planned: Mutex<Planned>,
}

/// What the last plans say.
#[derive(Default)]
struct Planned {
    /// Since when no placement has selected a cluster, by add-on.
    unselected: HashMap<Arc<str>, HashMap<String, Timestamp>>,
    /// What is still to be done.
    actions: HashMap<AddonKey, Action>,
    dirty: DirtyKeys<AddonTask>,
}

impl IndexedReconciler for Installer {
    type Key = AddonTask;
    type Error = InstallError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 32;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };

    fn lane(task: &AddonTask) -> Lane {
        task.lane()
    }

    fn take_dirty(&self) -> DirtyKeys<AddonTask> {
        let mut dirty = self.cache.lock().take_dirty(User::Install);
        dirty.append(self.planned.lock().dirty.take());
        dirty
    }

    fn initial_keys(&self) -> Vec<AddonTask> {
        self.cache.lock().all_addons().into_iter().map(AddonTask::Plan).collect()
    }

    async fn reconcile(&self, task: &AddonTask) -> Result<Next, InstallError> {
        match task {
            AddonTask::Plan(addon) => {
                let now = self.clock.now();
                let next = self.plan(addon, now);
                return Ok(next.map_or(Next::OnChange, |next| {
                    Next::After(Duration::try_from(next.duration_since(now)).unwrap_or_default())
                }));
            }
            AddonTask::Addon(key) => self.carry_out(key).await?,
            AddonTask::Summary(_) => {}
        }
        Ok(Next::OnChange)
    }
}

impl Installer {
    pub(crate) fn new(context: &Context, cache: Arc<Mutex<HubCache>>) -> Self {
        Self {
            client: context.client.clone(),
            clock: context.clock.clone(),
            cache,
            planned: Mutex::new(Planned::default()),
        }
    }

    /// Plans an add-on: enqueues the clusters on which something is to be done, and returns when time alone changes that.
    fn plan(&self, addon: &Arc<str>, now: Timestamp) -> Option<Timestamp> {
        let cache = self.cache.lock();
        let mut planned = self.planned.lock();
        let management = cache.management(addon).map(|management| &management.object);
        let management = management.filter(|one| one.metadata.deletion_timestamp.is_none());
        let strategy = management.map(|management| &management.spec.install_strategy);
        let placements = strategy.map(|strategy| strategy.placements.as_slice()).unwrap_or_default();
        let present: BTreeMap<String, Present> =
            cache.addons(addon).map(|(cluster, object)| (cluster.to_string(), present(object))).collect();
        let plan = decide(&Observed {
            strategy,
            selections: &cache.selections(addon, placements),
            clusters: &|cluster| cache.cluster(cluster),
            present: &present,
            unselected: planned.unselected.get(addon).unwrap_or(&HashMap::new()),
            now,
        });
        planned.actions.retain(|key, _| key.addon != *addon);
        for (cluster, action) in plan.actions {
            let key = AddonKey::new(&cluster, addon);
            let is_done = match &action {
                Action::Uninstall => false,
                Action::Install(request) => {
                    cache.addon(&key).is_some_and(|object| is_installed(object, request, management))
                }
            };
            if !is_done {
                planned.dirty.enqueue(AddonTask::Addon(key.clone()));
                planned.actions.insert(key, action);
            }
        }
        planned.unselected.insert(addon.clone(), plan.unselected);
        plan.next
    }

    /// Does what the last plan says, if it still says so.
    async fn carry_out(&self, key: &AddonKey) -> Result<(), InstallError> {
        let Some(action) = self.planned.lock().actions.get(key).cloned() else { return Ok(()) };
        let (object, owner) = {
            let cache = self.cache.lock();
            let management = cache.management(&key.addon);
            (cache.addon(key).cloned(), management.and_then(|management| management.object.owner_ref(&())))
        };
        match (action, object) {
            (Action::Install(request), object) => {
                self.install(key, &request, object.as_deref(), owner.as_ref()).await?;
            }
            (Action::Uninstall, Some(object)) => {
                if self.may_be_unreachable(key).await? && !present(&object).uninstalls_when_unreachable {
                    // The watch has not delivered it yet; nothing is uninstalled for that (A17).
                    return Ok(());
                }
                self.uninstall(key, &object).await?;
            }
            (Action::Uninstall, None) => {}
        }
        self.planned.lock().actions.remove(key);
        Ok(())
    }

    async fn install(
        &self,
        key: &AddonKey,
        request: &AddonRequest,
        object: Option<&ManagedClusterAddOn>,
        owner: Option<&OwnerReference>,
    ) -> Result<(), InstallError> {
        let belongs_to_user = |field: Field| {
            object.is_some_and(|object| {
                let differs = match field {
                    Field::InstallVersion => Version::new(&object.spec.install_version) != request.version,
                    Field::Configs => object.spec.configs != request.configs,
                };
                is_set_by_others(object, field) || differs && is_shared(object, field)
            })
        };
        let body = requested(key, request, owner, belongs_to_user);
        // Where a user has set a field since the watch delivered the object, this conflicts, and is tried again when it is
        // known which field it is: to leave out another one would remove that.
        let params = PatchParams::apply(NAME);
        let written = self.addons(key).patch(&key.addon, &params, &Patch::Apply(&body)).await;
        let written = written.map_err(|source| failed("applying", key, source))?;
        let mut cache = self.cache.lock();
        if !cache.was_deleted(&written) {
            cache.apply_addon(written);
        }
        Ok(())
    }

    async fn uninstall(&self, key: &AddonKey, object: &ManagedClusterAddOn) -> Result<(), InstallError> {
        let preconditions = Some(Preconditions { uid: object.uid(), resource_version: None });
        let params = DeleteParams { preconditions, ..DeleteParams::default() };
        match self.addons(key).delete(&key.addon, &params).await {
            Ok(_) => Ok(()),
            // It was deleted, or is another of that name: the watch delivers that.
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
            Err(source) => Err(failed("deleting", key, source)),
        }
    }

    /// Whether a cluster cannot be reached, by a fresh read.
    async fn may_be_unreachable(&self, key: &AddonKey) -> Result<bool, InstallError> {
        let clusters: Api<ManagedCluster> = Api::all(self.client.clone());
        let found = clusters.get_opt(&key.cluster).await;
        let found = found.map_err(|source| failed("reading the cluster of", key, source))?;
        Ok(found.is_some_and(|cluster| ClusterState::of(&cluster).may_be_unreachable()))
    }

    fn addons(&self, key: &AddonKey) -> Api<ManagedClusterAddOn> {
        Api::namespaced(self.client.clone(), &key.cluster)
    }
}

fn present(object: &ManagedClusterAddOn) -> Present {
    Present {
        created_for: installed_for(object).map(str::to_owned),
        is_deleting: object.metadata.deletion_timestamp.is_some(),
        uninstalls_when_unreachable: object
            .annotations()
            .get(UNINSTALL_UNREACHABLE)
            .is_some_and(|value| value == "true"),
    }
}

/// Whether a ManagedClusterAddOn asks for what it should, or for what a user has set.
fn is_installed(
    object: &ManagedClusterAddOn,
    request: &AddonRequest,
    management: Option<&ClusterManagementAddOn>,
) -> bool {
    let spec = &object.spec;
    let version = Version::new(&spec.install_version) == request.version
        || is_set_by_others(object, Field::InstallVersion);
    let configs = spec.configs == request.configs || is_set_by_others(object, Field::Configs);
    let owner = management.and_then(|management| management.uid());
    let is_owned = object.owner_references().iter().any(|reference| Some(&reference.uid) == owner.as_ref());
    let has_finalizer = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let is_placed = installed_for(object) == Some(request.placement.as_str());
    version && configs && is_owned && has_finalizer && is_placed
}

/// The ManagedClusterAddOn that is applied, without the fields that belong to a user.
fn requested(
    key: &AddonKey,
    request: &AddonRequest,
    owner: Option<&OwnerReference>,
    belongs_to_user: impl Fn(Field) -> bool,
) -> Value {
    let mut spec = serde_json::Map::new();
    if let Some(version) = request.version.as_ref().filter(|_| !belongs_to_user(Field::InstallVersion)) {
        spec.insert("installVersion".to_owned(), json!(version.as_str()));
    }
    if !request.configs.is_empty() && !belongs_to_user(Field::Configs) {
        spec.insert("configs".to_owned(), json!(request.configs));
    }
    json!({
        "apiVersion": ManagedClusterAddOn::api_version(&()),
        "kind": ManagedClusterAddOn::kind(&()),
        "metadata": {
            "name": &*key.addon,
            "namespace": &*key.cluster,
            "annotations": {INSTALLED_BY: request.placement},
            "finalizers": [FINALIZER],
            "ownerReferences": owner.into_iter().collect::<Vec<_>>(),
        },
        "spec": spec,
    })
}

fn failed(doing: &str, key: &AddonKey, source: kube::Error) -> InstallError {
    InstallError { doing: format!("{doing} ManagedClusterAddOn {key}"), source: Box::new(source) }
}
