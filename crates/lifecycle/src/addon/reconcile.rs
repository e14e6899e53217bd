//! One reconcile: the world judges, what differs is written, and the world judges again with the responses, until nothing
//! is left to do. What was judged is written only if the object is still the one that was judged.

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
use super::judge::{Judgement, WorkWrite};
use super::summary::summary;
use crate::hub::{AddonKey, AddonTask, HubCache, User, Work};

/// How often the world judges in one reconcile.
const MAX_JUDGEMENTS: usize = 6;
/// How long the reason may be for which a ManifestWork was rejected.
const MAX_REJECTION_BYTES: usize = 1024;

/// Why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LifecycleError {
    #[error("{doing}: {source}")]
    Api { doing: String, source: Box<kube::Error> },
    /// It is not what was judged; the watch delivers what it is now.
    #[error("{0} changed meanwhile")]
    Outdated(String),
    /// It was written again and again, and is never as it should be.
    #[error(
        "what is written does not stay: another controller writes the same fields, or the API changes them"
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

/// Marks the beginning of a change as answered, also where the reconcile is cut off: what was written then is reported by
/// the watch.
struct Beginning<'a> {
    cache: &'a Mutex<HubCache>,
    key: &'a AddonKey,
}

impl Drop for Beginning<'_> {
    fn drop(&mut self) {
        self.cache.lock().clear_starting(self.key);
    }
}

impl Lifecycle {
    pub(crate) fn new(context: &Context, cache: Arc<Mutex<HubCache>>) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone(), cache }
    }

    /// Reconciles an add-on on a cluster, and returns when time alone changes the result.
    async fn reconcile_addon(&self, key: &AddonKey) -> Result<Option<Timestamp>, LifecycleError> {
        for _ in 0..MAX_JUDGEMENTS {
            let now = self.clock.now();
            let judgement = {
                let mut cache = self.cache.lock();
                let Some(judgement) = cache.judge(key, now) else { return Ok(None) };
                if judgement.begins {
                    // From here on it counts as one that changes, also for a plan before the response.
                    cache.set_starting(key, now);
                }
                judgement
            };
            if judgement.is_settled() {
                return Ok(judgement.next);
            }
            let _beginning = Beginning { cache: &self.cache, key };
            self.carry_out(key, judgement).await?;
        }
        Err(LifecycleError::Undone)
    }

    async fn carry_out(&self, key: &AddonKey, judgement: Judgement) -> Result<(), LifecycleError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &key.cluster);
        let mut version = judgement.object.resource_version();
        if let Some(finalizers) = &judgement.finalizers {
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let written = addons.patch(&key.addon, &by_us(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| failed("writing the finalizers of", key, error))?;
            version = written.resource_version();
            self.take_in(written, HubCache::apply_addon);
            if judgement.object.metadata.deletion_timestamp.is_some() {
                return Ok(());
            }
        }
        if let Some(status) = &judgement.status {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": whole(status)});
            let written = addons.patch_status(&key.addon, &by_us(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| failed("writing the status of", key, error))?;
            self.take_in(written, HubCache::apply_addon);
            if judgement.begins {
                // The works are made from what the status says now.
                return Ok(());
            }
        }
        for write in judgement.works {
            self.write(key, write).await?;
        }
        Ok(())
    }

    /// Applies the object of a response to the cache, unless it was deleted meanwhile.
    fn take_in<K: Resource>(&self, written: K, apply: impl FnOnce(&mut HubCache, K)) {
        let mut cache = self.cache.lock();
        if !cache.was_deleted(&written) {
            apply(&mut cache, written);
        }
    }

    async fn write(&self, key: &AddonKey, write: WorkWrite) -> Result<(), LifecycleError> {
        let works: Api<ManifestWork> = Api::namespaced(self.client.clone(), &key.cluster);
        let name = write.name();
        let known = match &write {
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
                        "deleteOption": whole_option(work.spec.delete_option.as_ref()),
                    },
                });
                works.patch(&work.name_any(), &by_us(), &Patch::Merge(patch)).await
            }
            WorkWrite::Delete { name, uid } => {
                let preconditions = Some(Preconditions { uid: Some(uid.clone()), resource_version: None });
                let gone =
                    works.delete(&name, &DeleteParams { preconditions, ..DeleteParams::default() }).await;
                // Where nobody holds it, it is gone at once.
                let going = match gone {
                    Ok(gone) => gone.left(),
                    Err(kube::Error::Api(status)) if status.is_not_found() => None,
                    Err(error) => return Err(failed("deleting a work of", key, error)),
                };
                match going {
                    Some(going) => self.deployed(key, &name, going),
                    None => self.cache.lock().delete_work_with_uid(&key.cluster, &name, &uid),
                }
                return Ok(());
            }
        };
        let written = match written {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                return self.came_upon(key, &works, &name).await;
            }
            Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => {
                if let Some(uid) = known {
                    self.look_again(key, &works, &name, &uid).await?;
                }
                return Err(failed("writing a work of", key, kube::Error::Api(status)));
            }
            Err(kube::Error::Api(status)) if is_refusal(status.code) => {
                let why = format!("work {name} was refused: {}", status.message);
                self.cache.lock().set_rejected(key, Some(shorten(&why, MAX_REJECTION_BYTES)));
                return Err(failed("writing a work of", key, kube::Error::Api(status)));
            }
            written => written.map_err(|error| failed("writing a work of", key, error))?,
        };
        self.cache.lock().set_rejected(key, None);
        self.deployed(key, &name, written);
        Ok(())
    }

    fn deployed(&self, key: &AddonKey, name: &str, work: ManifestWork) {
        self.take_in(work, |cache, work| cache.apply_work(&key.cluster, name, Work::of(&work)));
    }

    /// A work that was to be made is there, and was not known. One that has lost its label is not watched, and has to be
    /// taken in by hand; of all others the watch tells. **One that goes is never taken in**, as nobody would say that it is
    /// gone.
    async fn came_upon(
        &self,
        key: &AddonKey,
        works: &Api<ManifestWork>,
        name: &str,
    ) -> Result<(), LifecycleError> {
        let found = works.get(name).await.map_err(|error| failed("reading a work of", key, error))?;
        if found.labels().contains_key(NAME_LABEL) || found.metadata.deletion_timestamp.is_some() {
            return Err(LifecycleError::Outdated(format!("work {name} of {key}")));
        }
        self.cache.lock().apply_work(&key.cluster, name, Work::of(&found));
        Ok(())
    }

    /// A work is another than the one that was judged, or gone; it may be one that is not watched.
    async fn look_again(
        &self,
        key: &AddonKey,
        works: &Api<ManifestWork>,
        name: &str,
        uid: &str,
    ) -> Result<(), LifecycleError> {
        let found = works.get_opt(name).await.map_err(|error| failed("reading a work of", key, error))?;
        match found {
            Some(found) if found.metadata.uid.as_deref() == Some(uid) => self.deployed(key, name, found),
            _ => self.cache.lock().delete_work_with_uid(&key.cluster, name, uid),
        }
        Ok(())
    }

    /// Writes the status of a ClusterManagementAddOn, where it changed.
    async fn write_summary(&self, addon: &str) -> Result<(), LifecycleError> {
        let now = self.clock.now();
        let Some((version, status)) = summary(&self.cache.lock(), addon, now) else { return Ok(()) };
        let managements: Api<ClusterManagementAddOn> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let written = managements.patch_status(addon, &by_us(), &Patch::Merge(patch)).await;
        let written = written.map_err(|source| match source {
            kube::Error::Api(status) if status.is_conflict() || status.is_not_found() => {
                LifecycleError::Outdated(format!("ClusterManagementAddOn {addon}"))
            }
            source => LifecycleError::Api {
                doing: format!("writing the status of ClusterManagementAddOn {addon}"),
                source: Box::new(source),
            },
        })?;
        self.take_in(written, HubCache::apply_management);
        Ok(())
    }
}

/// Whether an answer says that what was sent is not taken, now or later.
fn is_refusal(code: u16) -> bool {
    matches!(code, 400 | 403 | 413 | 422)
}

fn by_us() -> PatchParams {
    PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() }
}

/// A status with its empty fields as `null`, so that a merge takes away what was there.
fn whole(status: &ManagedClusterAddOnStatus) -> Value {
    let mut whole = json!({"installVersion": null, "currentVersion": null, "lastVersion": null, "failure": null, "configReferences": null});
    if let (Value::Object(whole), Value::Object(said)) = (&mut whole, json!(status)) {
        whole.extend(said);
    }
    whole
}

/// The same of how a work is deleted.
fn whole_option(option: Option<&DeleteOption>) -> Value {
    let Some(option) = option else { return Value::Null };
    let mut whole = json!({"selectivelyOrphans": null});
    if let (Value::Object(whole), Value::Object(said)) = (&mut whole, json!(option)) {
        whole.extend(said);
    }
    whole
}

fn failed(doing: &str, key: &AddonKey, source: kube::Error) -> LifecycleError {
    match source {
        kube::Error::Api(status)
            if status.is_conflict() || status.is_not_found() || status.is_already_exists() =>
        {
            LifecycleError::Outdated(format!("{key}"))
        }
        source => LifecycleError::Api { doing: format!("{doing} {key}"), source: Box::new(source) },
    }
}
