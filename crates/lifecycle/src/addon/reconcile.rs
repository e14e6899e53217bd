//! Reconciles add-ons: decides the changes from the hub cache, writes them, and decides again with the responses until there
//! is nothing to write. Every write is conditional on the resourceVersion or UID that the decision was based on.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::NAME_LABEL;
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnStatus};
use bellwether_api::work::{DeleteOption, ManifestWork};
use bellwether_clock::Clock;
use bellwether_conditions::shorten;
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, IndexedReconciler, Lane, Next, ReconcileError, Retry,
};
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::NAME;
use super::changes::{AddonChanges, WorkWrite};
use super::summary::changed_summary;
use crate::hub::{AddonKey, AddonTask, HubCache, User, Work};

/// The maximum number of decisions in one reconcile.
const MAX_DECISIONS: usize = 6;
/// The maximum length of the message about a rejected ManifestWork.
const MAX_REJECTION_BYTES: usize = 1024;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LifecycleError {
    #[error("{doing}: {source}")]
    Api { doing: String, source: Box<kube::Error> },
    /// The object is not the one that the decision was based on; the watch delivers the current one.
    #[error("{0} changed meanwhile")]
    Outdated(String),
    /// The object was written several times and still differs from what was written.
    #[error(
        "written fields do not persist: another controller writes the same fields, or the API server changes them"
    )]
    Undone,
}

impl ReconcileError for LifecycleError {
    fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Outdated(_) => "outdated",
            Self::Undone => "undone",
        }
    }

    fn retry(&self) -> Retry {
        match self {
            Self::Undone => Retry::HoldOff,
            Self::Api { .. } | Self::Outdated(_) => Retry::Backoff,
        }
    }
}

pub(crate) struct Lifecycle {
    client: Client,
    clock: Arc<dyn Clock>,
    cache: Arc<Mutex<HubCache>>,
}

impl IndexedReconciler for Lifecycle {
    type Key = AddonTask;
    type Error = LifecycleError;
    const NAME: &'static str = NAME;
    const CONCURRENCY: usize = 32;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_millis(100), max: Duration::from_secs(30) };

    fn lane(task: &AddonTask) -> Lane {
        task.lane()
    }

    fn take_dirty(&self) -> DirtyKeys<AddonTask> {
        self.cache.lock().take_dirty(User::Lifecycle)
    }

    fn initial_keys(&self) -> Vec<AddonTask> {
        let cache = self.cache.lock();
        let plans = cache.all_addons().into_iter().map(AddonTask::Plan);
        plans.chain(cache.all_keys().into_iter().map(AddonTask::Addon)).collect()
    }

    async fn reconcile(&self, key: &AddonTask) -> Result<Next, LifecycleError> {
        let next = match key {
            AddonTask::Plan(addon) => self.cache.lock().plan(addon, self.clock.now()),
            AddonTask::Addon(key) => self.reconcile_addon(key).await?,
            AddonTask::Summary(addon) => {
                self.write_summary(addon).await?;
                None
            }
        };
        Ok(next.map_or(Next::OnChange, |next| {
            let left = Duration::try_from(next.duration_since(self.clock.now()));
            Next::After(left.unwrap_or_default())
        }))
    }
}

/// Clears the mark that a change is starting, also if the reconcile is cancelled; the watch then delivers what was written.
struct StartingGuard<'a> {
    cache: &'a Mutex<HubCache>,
    key: &'a AddonKey,
}

impl Drop for StartingGuard<'_> {
    fn drop(&mut self) {
        self.cache.lock().clear_starting(self.key);
    }
}

impl Lifecycle {
    pub(crate) fn new(context: &Context, cache: Arc<Mutex<HubCache>>) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone(), cache }
    }

    /// Reconciles an add-on on a cluster, and returns when to reconcile it again even if no object changes.
    async fn reconcile_addon(&self, key: &AddonKey) -> Result<Option<Timestamp>, LifecycleError> {
        for _ in 0..MAX_DECISIONS {
            let now = self.clock.now();
            let changes = {
                let mut cache = self.cache.lock();
                let Some(changes) = cache.decide_changes(key, now) else { return Ok(None) };
                if changes.starts_change {
                    // From now on the cluster counts as changing, also for a plan that is made before the response.
                    cache.set_starting(key, now);
                }
                changes
            };
            if changes.is_empty() {
                return Ok(changes.recheck_at);
            }
            let _guard = StartingGuard { cache: &self.cache, key };
            self.write_changes(key, changes).await?;
        }
        Err(LifecycleError::Undone)
    }

    async fn write_changes(&self, key: &AddonKey, changes: AddonChanges) -> Result<(), LifecycleError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &key.cluster);
        let mut version = changes.object.resource_version();
        if let Some(finalizers) = &changes.finalizers {
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let written = addons.patch(&key.addon, &patch_params(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| api_error("writing the finalizers of", key, error))?;
            version = written.resource_version();
            self.apply_response(written, HubCache::apply_addon);
            if changes.object.metadata.deletion_timestamp.is_some() {
                return Ok(());
            }
        }
        if let Some(status) = &changes.status {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": with_nulls(status)});
            let written = addons.patch_status(&key.addon, &patch_params(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| api_error("writing the status of", key, error))?;
            self.apply_response(written, HubCache::apply_addon);
            if changes.starts_change {
                // The ManifestWorks are rendered from the new status, in the next decision.
                return Ok(());
            }
        }
        for write in changes.works {
            self.write_work(key, write).await?;
        }
        Ok(())
    }

    /// Applies the object of a response to the cache, unless it was deleted meanwhile.
    fn apply_response<K: Resource>(&self, written: K, apply: impl FnOnce(&mut HubCache, K)) {
        let mut cache = self.cache.lock();
        if !cache.was_deleted(&written) {
            apply(&mut cache, written);
        }
    }

    async fn write_work(&self, key: &AddonKey, write: WorkWrite) -> Result<(), LifecycleError> {
        let works: Api<ManifestWork> = Api::namespaced(self.client.clone(), &key.cluster);
        let name = write.name();
        let cached_uid = match &write {
            WorkWrite::Replace(work) => work.uid(),
            WorkWrite::Create(_) | WorkWrite::Delete { .. } => None,
        };
        let written = match write {
            WorkWrite::Create(work) => {
                works
                    .create(
                        &PostParams { field_manager: Some(NAME.to_owned()), ..PostParams::default() },
                        &work,
                    )
                    .await
            }
            WorkWrite::Replace(work) => {
                let patch = json!({
                    "metadata": {
                        "resourceVersion": work.metadata.resource_version,
                        "labels": work.metadata.labels,
                        "annotations": work.metadata.annotations,
                        "ownerReferences": work.metadata.owner_references,
                    },
                    "spec": {
                        "workload": work.spec.workload,
                        "manifestConfigs": work.spec.manifest_configs,
                        "deleteOption": delete_option_with_nulls(work.spec.delete_option.as_ref()),
                    },
                });
                works.patch(&work.name_any(), &patch_params(), &Patch::Merge(patch)).await
            }
            WorkWrite::Delete { name, uid } => {
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let deleted =
                    works.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
                // An object without finalizers is removed at once.
                let terminating = match deleted {
                    Ok(deleted) => deleted.left(),
                    Err(kube::Error::Api(status)) if status.is_not_found() => None,
                    Err(error) => return Err(api_error("deleting a ManifestWork of", key, error)),
                };
                match terminating {
                    Some(terminating) => self.cache_work(key, &name, terminating),
                    None => self.cache.lock().delete_work_with_uid(&key.cluster, &name, &uid),
                }
                return Ok(());
            }
        };
        let written = match written {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                return self.adopt_existing_work(key, &works, &name).await;
            }
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                if let Some(uid) = cached_uid {
                    self.refresh_work(key, &works, &name, &uid).await?;
                }
                return Err(api_error("writing a ManifestWork of", key, kube::Error::Api(status)));
            }
            Err(kube::Error::Api(status)) if is_rejection(status.code) => {
                let why = format!("work {name} was rejected: {}", status.message);
                self.cache.lock().set_rejected(key, Some(shorten(&why, MAX_REJECTION_BYTES)));
                return Err(api_error("writing a ManifestWork of", key, kube::Error::Api(status)));
            }
            written => written.map_err(|error| api_error("writing a ManifestWork of", key, error))?,
        };
        self.cache.lock().set_rejected(key, None);
        self.cache_work(key, &name, written);
        Ok(())
    }

    fn cache_work(&self, key: &AddonKey, name: &str, work: ManifestWork) {
        self.apply_response(work, |cache, work| cache.apply_work(&key.cluster, name, Work::of(&work)));
    }

    /// Handles a ManifestWork that already exists although it is not in the cache. If it has lost its label, the watch does
    /// not deliver it, so it is added to the cache here; otherwise the watch will deliver it. **A ManifestWork that is being
    /// deleted is never added**, because no watch event would remove it from the cache.
    async fn adopt_existing_work(
        &self,
        key: &AddonKey,
        works: &Api<ManifestWork>,
        name: &str,
    ) -> Result<(), LifecycleError> {
        let found =
            works.get(name).await.map_err(|error| api_error("reading a ManifestWork of", key, error))?;
        if found.labels().contains_key(NAME_LABEL) || found.metadata.deletion_timestamp.is_some() {
            return Err(LifecycleError::Outdated(format!("ManifestWork {name} of {key}")));
        }
        self.cache.lock().apply_work(&key.cluster, name, Work::of(&found));
        Ok(())
    }

    /// Reads a ManifestWork again after a conflict or "not found", because the watch does not deliver one without the label.
    async fn refresh_work(
        &self,
        key: &AddonKey,
        works: &Api<ManifestWork>,
        name: &str,
        uid: &str,
    ) -> Result<(), LifecycleError> {
        let found =
            works.get_opt(name).await.map_err(|error| api_error("reading a ManifestWork of", key, error))?;
        match found {
            Some(found) if found.metadata.uid.as_deref() == Some(uid) => self.cache_work(key, name, found),
            _ => self.cache.lock().delete_work_with_uid(&key.cluster, name, uid),
        }
        Ok(())
    }

    /// Writes the status of a ClusterManagementAddOn if it changed.
    async fn write_summary(&self, addon: &str) -> Result<(), LifecycleError> {
        let now = self.clock.now();
        let Some((version, status)) = changed_summary(&self.cache.lock(), addon, now) else { return Ok(()) };
        let managements: Api<ClusterManagementAddOn> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let written = managements.patch_status(addon, &patch_params(), &Patch::Merge(patch)).await;
        let written = written.map_err(|source| match source {
            kube::Error::Api(status) if status.is_conflict() || status.is_not_found() => {
                LifecycleError::Outdated(format!("ClusterManagementAddOn {addon}"))
            }
            source => LifecycleError::Api {
                doing: format!("writing the status of ClusterManagementAddOn {addon}"),
                source: Box::new(source),
            },
        })?;
        self.apply_response(written, HubCache::apply_management);
        Ok(())
    }
}

/// Whether the API server rejected the object itself, so that a retry with the same object would fail too.
fn is_rejection(code: u16) -> bool {
    matches!(code, 400 | 403 | 413 | 422)
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() }
}

/// A status with its empty fields as `null`, so that the merge patch removes their previous values.
fn with_nulls(status: &ManagedClusterAddOnStatus) -> Value {
    let mut value = json!({"installVersion": null, "currentVersion": null, "lastVersion": null, "failure": null, "configReferences": null});
    if let (Value::Object(value), Value::Object(set)) = (&mut value, json!(status)) {
        value.extend(set);
    }
    value
}

/// A delete option with its empty fields as `null`, for the same reason.
fn delete_option_with_nulls(option: Option<&DeleteOption>) -> Value {
    let Some(option) = option else { return Value::Null };
    let mut value = json!({"selectivelyOrphans": null});
    if let (Value::Object(value), Value::Object(set)) = (&mut value, json!(option)) {
        value.extend(set);
    }
    value
}

fn api_error(doing: &str, key: &AddonKey, source: kube::Error) -> LifecycleError {
    match source {
        kube::Error::Api(status)
            if status.is_conflict() || status.is_not_found() || status.is_already_exists() =>
        {
            LifecycleError::Outdated(format!("{key}"))
        }
        source => LifecycleError::Api { doing: format!("{doing} {key}"), source: Box::new(source) },
    }
}
