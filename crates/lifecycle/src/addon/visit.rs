//! One visit: has the world judge, writes what differs, and judges again with the answers, until nothing is left to do.
//! What was judged is written only if it is still what was judged.

use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::vocabulary::NAME_LABEL;
use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn, ManagedClusterAddOnStatus};
use bellwether_api::work::{DeleteOption, ManifestWork};
use bellwether_clock::Clock;
use bellwether_conditions::shorten;
use bellwether_runtime::Context;
use jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::controller::{Errand, NAME};
use super::summary::summary;
use super::world::{Judgement, Key, Work, WorkWrite, World};

/// How often the world is asked in one visit.
const ROUNDS: usize = 6;
/// How long the API may take for one visit.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the words may be with which a work is refused.
const LONGEST: usize = 1024;

/// Why a visit came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum VisitError {
    #[error("{doing}: {source}")]
    Api { doing: String, source: Box<kube::Error> },
    /// It is not what was judged; the watch will tell what it is.
    #[error("{0} has changed meanwhile")]
    Outdated(String),
    #[error("the API did not answer within {PATIENCE:?}")]
    Late,
    /// It was written again and again, and is never as it should be.
    #[error("what is written does not stay: somebody else writes the same fields, or the API changes them")]
    Undone,
}

impl VisitError {
    /// The kind of error in a word, for metrics.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::Api { .. } => "api",
            Self::Outdated(_) => "outdated",
            Self::Late => "late",
            Self::Undone => "undone",
        }
    }
}

pub(super) struct Visitor {
    client: Client,
    clock: Arc<dyn Clock>,
    world: Arc<Mutex<World>>,
}

impl Visitor {
    pub(super) fn new(context: &Context, world: Arc<Mutex<World>>) -> Self {
        Self { client: context.client.clone(), clock: context.clock.clone(), world }
    }

    /// Visits, and says when time alone calls for another visit.
    pub(super) async fn visit(&self, errand: &Errand) -> Result<Option<Timestamp>, VisitError> {
        let visit = async {
            match errand {
                Errand::Addon(key) => self.visit_addon(key).await,
                Errand::Summary(addon) => self.summarise(addon).await,
            }
        };
        let visited = tokio::time::timeout(PATIENCE, visit).await;
        if let (Err(_), Errand::Addon(key)) = (&visited, errand) {
            // What was begun is not known; the watch will tell.
            self.world.lock().began(key);
        }
        visited.unwrap_or(Err(VisitError::Late))
    }

    async fn visit_addon(&self, key: &Key) -> Result<Option<Timestamp>, VisitError> {
        for _ in 0..ROUNDS {
            let now = self.clock.now();
            let judgement = {
                let mut world = self.world.lock();
                let Some(judgement) = world.judge(key, now) else { return Ok(None) };
                if judgement.begins {
                    // From here on it counts as one that changes, whoever plans before the answer is there.
                    world.begins(key, now);
                }
                judgement
            };
            if judgement.is_settled() {
                return Ok(judgement.next);
            }
            let carried_out = self.carry_out(key, judgement).await;
            self.world.lock().began(key);
            carried_out?;
        }
        Err(VisitError::Undone)
    }

    async fn carry_out(&self, key: &Key, judgement: Judgement) -> Result<(), VisitError> {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.client.clone(), &key.cluster);
        let mut version = judgement.object.resource_version();
        if let Some(finalizers) = &judgement.finalizers {
            let patch = json!({"metadata": {"finalizers": finalizers, "resourceVersion": version}});
            let written = addons.patch(&key.addon, &by_us(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| failed("writing the finalizers of", key, error))?;
            version = written.resource_version();
            self.take_in(written, World::observe);
            if judgement.object.metadata.deletion_timestamp.is_some() {
                return Ok(());
            }
        }
        if let Some(status) = &judgement.status {
            let patch = json!({"metadata": {"resourceVersion": version}, "status": whole(status)});
            let written = addons.patch_status(&key.addon, &by_us(), &Patch::Merge(patch)).await;
            let written = written.map_err(|error| failed("writing the status of", key, error))?;
            self.take_in(written, World::observe);
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

    /// What a write was answered with. Where it is gone by now, it stays gone.
    fn take_in<K: Resource>(&self, written: K, take_in: impl FnOnce(&mut World, K)) {
        let mut world = self.world.lock();
        if !world.is_gone(&written) {
            take_in(&mut world, written);
        }
    }

    async fn write(&self, key: &Key, write: WorkWrite) -> Result<(), VisitError> {
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
                    None => self.world.lock().vanish(&key.cluster, &name, &uid),
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
                self.world.lock().refuse(key, Some(shorten(&why, LONGEST)));
                return Err(failed("writing a work of", key, kube::Error::Api(status)));
            }
            written => written.map_err(|error| failed("writing a work of", key, error))?,
        };
        self.world.lock().refuse(key, None);
        self.deployed(key, &name, written);
        Ok(())
    }

    fn deployed(&self, key: &Key, name: &str, work: ManifestWork) {
        self.take_in(work, |world, work| world.deploy(&key.cluster, name, Work::of(&work)));
    }

    /// A work that was to be made is there, and was not known. One that has lost its label is not watched, and has to be
    /// taken in by hand; of all others the watch tells. **One that goes is never taken in**, as nobody would say that it is
    /// gone.
    async fn came_upon(&self, key: &Key, works: &Api<ManifestWork>, name: &str) -> Result<(), VisitError> {
        let found = works.get(name).await.map_err(|error| failed("reading a work of", key, error))?;
        if found.labels().contains_key(NAME_LABEL) || found.metadata.deletion_timestamp.is_some() {
            return Err(VisitError::Outdated(format!("work {name} of {key}")));
        }
        self.world.lock().deploy(&key.cluster, name, Work::of(&found));
        Ok(())
    }

    /// A work is another than the one that was judged, or gone; it may be one that is not watched.
    async fn look_again(
        &self,
        key: &Key,
        works: &Api<ManifestWork>,
        name: &str,
        uid: &str,
    ) -> Result<(), VisitError> {
        let found = works.get_opt(name).await.map_err(|error| failed("reading a work of", key, error))?;
        match found {
            Some(found) if found.metadata.uid.as_deref() == Some(uid) => self.deployed(key, name, found),
            _ => self.world.lock().vanish(&key.cluster, name, uid),
        }
        Ok(())
    }

    /// Writes the status of an add-on as a whole, where it says something new.
    async fn summarise(&self, addon: &str) -> Result<Option<Timestamp>, VisitError> {
        let now = self.clock.now();
        let Some((version, status)) = summary(&self.world.lock(), addon, now) else { return Ok(None) };
        let managements: Api<ClusterManagementAddOn> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"resourceVersion": version}, "status": status});
        let written = managements.patch_status(addon, &by_us(), &Patch::Merge(patch)).await;
        let written = written.map_err(|source| match source {
            kube::Error::Api(status) if status.is_conflict() || status.is_not_found() => {
                VisitError::Outdated(format!("ClusterManagementAddOn {addon}"))
            }
            source => VisitError::Api {
                doing: format!("writing the status of ClusterManagementAddOn {addon}"),
                source: Box::new(source),
            },
        })?;
        self.take_in(written, World::manage);
        Ok(None)
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
    let mut whole = json!({"installVersion": null, "currentVersion": null, "lastVersion": null, "configReferences": null});
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

fn failed(doing: &str, key: &Key, source: kube::Error) -> VisitError {
    match source {
        kube::Error::Api(status)
            if status.is_conflict() || status.is_not_found() || status.is_already_exists() =>
        {
            VisitError::Outdated(format!("{key}"))
        }
        source => VisitError::Api { doing: format!("{doing} {key}"), source: Box::new(source) },
    }
}
