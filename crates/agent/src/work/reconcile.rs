//! One reconcile of a ManifestWork: reads its objects on the cluster, decides, writes what differs, and writes the
//! status on the hub. When it runs is decided in `works`.
//!
//! **The order of writes** guarantees that no object is lost, and no object of others is deleted, wherever the agent
//! crashes:
//!
//! 1. The finalizer on the hub. From now on, the ManifestWork is not deleted before the objects that were applied for
//!    it.
//! 2. The AppliedManifestWork with its finalizer. It is not deleted before its objects either.
//! 3. The record, in the status of the AppliedManifestWork, lists the objects that are about to be created, without
//!    uids.
//! 4. The objects. Each has the AppliedManifestWork as owner from its creation on.
//! 5. Objects that were removed from the ManifestWork are deleted, but only after all its remaining objects were
//!    applied, so that their replacements exist.
//! 6. The record lists the objects that exist, with uids, and those that are still to be deleted.
//! 7. The status on the hub.
//!
//! After a crash before step 4, the record lists objects that do not exist, which is harmless. After a crash before
//! step 6, it lists objects without their uids; their owner reference shows that the agent created them. After a crash
//! before step 7, the hub keeps the last status. The next reconcile starts at step 1 and completes at each step what is
//! missing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bellwether_api::work::{AppliedResource, DeleteOption, ManifestWorkSpec, WorkPropagation, vocabulary};
use bellwether_clock::{Clock, whole_seconds};
use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use super::applied_work::{self, AppliedWork, AppliedWorks};
use super::decide::applied_resources::{self, HasObjectId as _};
use super::decide::manifest::ObjectId;
use super::decide::object_options;
use super::decide::order::ApplyStage;
use super::decide::status::{ManifestResult, WorkStatus};
use super::deletion::{DeletionResult, ObjectDeleter};
use super::discovery::{DiscoveryResponses, KindDiscovery};
use super::error::{ObjectError, RetryHint, WorkError};
use super::hub::{HubClient, Work, WriteResult};
use super::manifest_state::{
    ManifestState, ObservedObject, PlannedWrite, Target, TargetObject, manifest_states, ownerships,
};
use super::spoke::{Address, SpokeClient};
use super::works::WorkIndex;
use crate::Agent;

/// How many passes over the manifests one reconcile makes while CRDs that it has applied make further kinds available.
const MAX_PASSES: usize = 3;
/// How many objects of a ManifestWork are read or written at the same time.
const MAX_CONCURRENT_REQUESTS: usize = 8;
/// How often a status write is attempted while other clients change the ManifestWork.
const MAX_STATUS_ATTEMPTS: usize = 3;
/// How many reconciles in a row may fail because the cluster is unavailable before that is reported to the hub.
const MAX_UNREPORTED_FAILURES: u32 = 3;
/// How long a deletion may take before the objects it waits for are reported to the hub.
const DELETION_REPORT_DELAY: SignedDuration = SignedDuration::from_secs(5);

/// What is kept of a ManifestWork between reconciles, to avoid reads. All of it can be read again.
#[derive(Default)]
pub(crate) struct WorkCache {
    /// The generation that was last applied, and the uid of the AppliedManifestWork that owned its objects. For any
    /// other generation or owner, all objects are read again.
    generation: i64,
    owner_uid: String,
    applied_work: Option<AppliedWork>,
    objects: HashMap<ObjectId, ObservedObject>,
}

/// Which objects a reconcile reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadScope {
    /// Objects that may have changed since the last reconcile, according to watches.
    Changed,
    All,
}

/// The result of a reconcile.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) progress: Progress,
    /// Whether a change that another client made to an object was reverted.
    pub(crate) repaired: bool,
    /// The ManifestWork as it was last written or read.
    pub(crate) work: Option<Box<Work>>,
}

/// What a ManifestWork needs after a reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing until something changes: all objects are as specified, or only a change can help.
    Settled,
    /// A retry with backoff: something failed, and that was reported to the hub.
    Failed,
    /// Another reconcile soon, to see whether objects were deleted.
    Deleting,
    /// Another reconcile at once, because the ManifestWork changed meanwhile.
    Changed,
    /// Nothing: the ManifestWork no longer exists.
    Deleted,
}

pub(crate) struct WorkReconciler {
    pub(crate) agent: Agent,
    pub(crate) hub: HubClient,
    pub(crate) spoke: SpokeClient,
    pub(crate) discovery: KindDiscovery,
    pub(crate) index: Arc<Mutex<WorkIndex>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl WorkReconciler {
    /// Reconciles a ManifestWork. `failures` is the number of reconciles in a row that failed before.
    pub(crate) async fn reconcile(
        &self,
        work: &Work,
        cache: &mut WorkCache,
        scope: ReadScope,
        failures: u32,
    ) -> Result<Outcome, WorkError> {
        if work.deletion_timestamp.is_some() {
            return self.delete_objects(work, cache).await;
        }
        let work = match self.ensure_finalizer(work).await? {
            WriteResult::Written(work) => work,
            WriteResult::Conflict => return self.restart(&work.name).await,
            WriteResult::NotFound => return Ok(Outcome::without_work(Progress::Deleted)),
        };
        let spec = match &work.spec {
            Ok(spec) => spec.clone(),
            Err(error) => return self.report_failure(&work, &error.clone()).await,
        };
        let applied_work = match self.ensure_applied_work(&work, cache, scope).await {
            Ok(applied_work) => applied_work,
            Err(error) => match error.rejection_message() {
                Some(message) => return self.report_failure(&work, &message).await,
                None => return Err(error),
            },
        };
        if applied_work.is_being_deleted {
            return self.finish_record_deletion(&work, cache, &applied_work).await;
        }
        self.apply_objects(work, &spec, applied_work, cache, scope, failures).await
    }

    async fn ensure_finalizer(&self, work: &Work) -> Result<WriteResult, WorkError> {
        if work.has_finalizer() {
            return Ok(WriteResult::Written(Box::new(work.clone())));
        }
        let added = self.hub.add_finalizer(work).await;
        added.map_err(|error| WorkError::hub("adding the finalizer to the ManifestWork", error))
    }

    async fn ensure_applied_work(
        &self,
        work: &Work,
        cache: &mut WorkCache,
        scope: ReadScope,
    ) -> Result<AppliedWork, WorkError> {
        let cached = cache.applied_work.as_ref();
        if let Some(cached) = cached.filter(|cached| cached.is_current_for(work, &self.agent)) {
            let address = applied_work::address_of(&work.name, &self.agent);
            if scope == ReadScope::Changed
                && self.index.lock().objects.is_unchanged(&address, Some(&cached.resource_version))
            {
                return Ok(cached.clone());
            }
        }
        cache.applied_work = None;
        let applied_work = self.applied_works().ensure(work).await?;
        cache.applied_work = Some(applied_work.clone());
        Ok(applied_work)
    }

    /// Applies the objects of a ManifestWork, deletes those that were removed from it, and reports the result.
    async fn apply_objects(
        &self,
        work: Box<Work>,
        spec: &ManifestWorkSpec,
        mut applied_work: AppliedWork,
        cache: &mut WorkCache,
        scope: ReadScope,
        failures: u32,
    ) -> Result<Outcome, WorkError> {
        let is_new = cache.generation != work.generation || cache.owner_uid != applied_work.owner.uid;
        let scope = if is_new { ReadScope::All } else { scope };
        let mut states = manifest_states(spec);
        let mut repaired = false;
        for _ in 0..MAX_PASSES {
            self.resolve_targets(spec, &mut states).await?;
            self.set_watched_objects(&work.name, &states, &applied_work);
            self.read_objects(&mut states, &applied_work, cache, scope).await?;
            let planned: Vec<(ObjectId, String)> =
                states.iter().filter_map(ManifestState::planned_object).collect();
            if let Some(resources) = applied_resources::add_planned(&applied_work.resources, &planned) {
                applied_work = self.write_record(&work.name, applied_work, &resources, cache).await?;
            }
            let written = self.write_objects(&mut states, &applied_work).await?;
            repaired |= states.iter().any(|state| state.is_repair);
            let has_unserved = states.iter().any(|state| matches!(state.target, Target::KindNotServed(_)));
            if written == 0 || !has_unserved {
                break;
            }
        }
        cache.generation = work.generation;
        cache.owner_uid.clone_from(&applied_work.owner.uid);
        cache.objects = states
            .iter()
            .filter_map(|state| Some((state.target_object()?.address.id.clone(), state.observed.clone()?)))
            .collect();

        let pruned = self.prune(&work.name, &states, &applied_work, is_new).await?;
        let resources =
            applied_resources::update(&applied_work.resources, &ownerships(&states), &pruned.deleted);
        if resources != applied_work.resources {
            applied_work = self.write_record(&work.name, applied_work, &resources, cache).await?;
        }
        self.set_watched_objects(&work.name, &states, &applied_work);

        let errors: Vec<&ObjectError> =
            states.iter().filter_map(|state| state.applied.as_ref().err()).collect();
        let unavailable = errors.iter().find(|error| error.retry == RetryHint::Soon);
        if let Some(unavailable) = unavailable.filter(|_| failures < MAX_UNREPORTED_FAILURES) {
            return Err(WorkError::SpokeUnavailable(unavailable.message.clone()));
        }
        for error in &pruned.errors {
            tracing::warn!(
                "ManifestWork {}/{}: an object that was removed from it is not deleted: {}; the deletion is retried",
                self.agent.cluster,
                work.name,
                error.message,
            );
        }
        let can_retry = errors.iter().any(|error| error.retry != RetryHint::AfterChange);
        let progress = if can_retry || !pruned.errors.is_empty() {
            Progress::Failed
        } else if pruned.waiting.is_empty() {
            Progress::Settled
        } else {
            Progress::Deleting
        };
        let results: Vec<ManifestResult> = states.into_iter().map(ManifestState::into_result).collect();
        let outcome = self
            .write_status(work, |status, generation, now| status.with_results(&results, generation, now))
            .await?;
        Ok(Outcome { repaired, ..outcome.if_settled(progress) })
    }

    /// Resolves the manifests whose object is not known yet to objects of kinds that the cluster serves.
    async fn resolve_targets<'s>(
        &self,
        spec: &'s ManifestWorkSpec,
        states: &mut [ManifestState<'s>],
    ) -> Result<(), WorkError> {
        let mut responses = DiscoveryResponses::default();
        let mut ordinals: HashMap<ObjectId, usize> = states
            .iter()
            .filter_map(ManifestState::target_object)
            .map(|target| (target.address.id.clone(), target.manifest.ordinal))
            .collect();
        for state in states {
            let Target::KindNotServed(manifest) = &state.target else { continue };
            let manifest = manifest.clone();
            let found = match self.discovery.find(&manifest.kind, &mut responses).await {
                Ok(found) => found,
                Err(error) => {
                    state.applied = Err(ObjectError::from_request("API discovery", error)?);
                    continue;
                }
            };
            let Some(served) = found else {
                let message = format!(
                    "the cluster does not serve the kind {} of {}; install its CRD",
                    manifest.kind.kind,
                    manifest.kind.api_version()
                );
                state.applied = Err(ObjectError::with_backoff(message));
                continue;
            };
            state.meta = manifest.resource_meta(Some(&served));
            let id = match manifest.object_id(&served) {
                Ok(id) => id,
                Err(message) => {
                    state.applied = Err(ObjectError::until_change(message));
                    continue;
                }
            };
            if let Some(first) = ordinals.get(&id) {
                let message = format!(
                    "manifests {first} and {} of the ManifestWork describe the same object; remove one of them",
                    manifest.ordinal
                );
                state.applied = Err(ObjectError::until_change(message));
                state.target = Target::None;
                continue;
            }
            ordinals.insert(id.clone(), manifest.ordinal);
            state.stage = ApplyStage::of(&id.group, &id.resource);
            state.applied = Ok(());
            state.target = Target::Object(Box::new(TargetObject {
                address: Address::new(&id, &manifest.kind.version),
                strategy: object_options::write_strategy(&spec.manifest_configs, &id),
                policy: object_options::deletion_policy(spec.delete_option.as_ref(), &id),
                rules: object_options::feedback_rules(&spec.manifest_configs, &id),
                manifest,
                served,
            }));
        }
        Ok(())
    }

    /// Sets the objects whose changes trigger a reconcile of the ManifestWork: those of its manifests, those of its
    /// record, and its AppliedManifestWork.
    fn set_watched_objects(&self, work: &str, states: &[ManifestState<'_>], applied_work: &AppliedWork) {
        let mut objects: Vec<Address> = states
            .iter()
            .filter_map(ManifestState::target_object)
            .map(|target| target.address.clone())
            .collect();
        let wanted: BTreeSet<ObjectId> = objects.iter().map(|address| address.id.clone()).collect();
        let removed = applied_work.resources.iter().filter(|entry| !wanted.contains(&entry.object_id()));
        objects.extend(removed.map(|entry| Address::new(&entry.object_id(), &entry.version)));
        objects.push(applied_work::address_of(work, &self.agent));
        self.index.lock().objects.set_objects(&work.into(), objects);
    }

    /// Reads the objects that may have changed, and plans their writes.
    async fn read_objects(
        &self,
        states: &mut [ManifestState<'_>],
        applied_work: &AppliedWork,
        cache: &WorkCache,
        scope: ReadScope,
    ) -> Result<(), WorkError> {
        let mut unread = Vec::new();
        for (index, state) in states.iter_mut().enumerate() {
            let Target::Object(target) = &state.target else { continue };
            if state.observed.is_some() || state.applied.is_err() {
                continue;
            }
            let is_unchanged = |cached: &&ObservedObject| {
                let version = cached.resource_version.as_deref();
                scope == ReadScope::Changed
                    && cached.is_reusable()
                    && self.index.lock().objects.is_unchanged(&target.address, version)
            };
            match cache.objects.get(&target.address.id).filter(is_unchanged) {
                Some(cached) => state.reuse(cached),
                None => unread.push((index, target.address.clone())),
            }
        }
        let spoke = self.spoke.clone();
        let mut reads = stream::iter(unread)
            .map(move |(index, address)| {
                let spoke = spoke.clone();
                async move { (index, spoke.get_opt(&address).await, address.id) }
            })
            .buffer_unordered(MAX_CONCURRENT_REQUESTS);
        while let Some((index, response, id)) = reads.next().await {
            let Some(state) = states.get_mut(index) else { continue };
            let previous = cache.objects.get(&id);
            match response {
                Ok(live) => state.plan(live, &applied_work.owner, previous),
                Err(error) => {
                    state.set_read_error(ObjectError::from_request("reading objects", error)?, previous);
                }
            }
        }
        Ok(())
    }

    /// Executes the planned writes, stage by stage, and returns the number of those that succeeded.
    async fn write_objects(
        &self,
        states: &mut [ManifestState<'_>],
        applied_work: &AppliedWork,
    ) -> Result<usize, WorkError> {
        let mut stages: BTreeMap<ApplyStage, Vec<PlannedWrite>> = BTreeMap::new();
        for (index, state) in states.iter_mut().enumerate() {
            stages.entry(state.stage).or_default().extend(state.take_planned_write(index));
        }
        let mut written = 0;
        for planned in stages.into_values() {
            let spoke = self.spoke.clone();
            let mut writes = stream::iter(planned)
                .map(move |write| {
                    let spoke = spoke.clone();
                    async move { (write.index, write.request, write.execute(&spoke).await) }
                })
                .buffer_unordered(MAX_CONCURRENT_REQUESTS);
            while let Some((index, request, response)) = writes.next().await {
                let Some(state) = states.get_mut(index) else { continue };
                match response {
                    Ok(live) => {
                        written += 1;
                        state.set_written(live, request, &applied_work.owner);
                    }
                    Err(error) => {
                        let is_not_found = matches!(&error, kube::Error::Api(status) if status.code == 404);
                        if let Some(target) = state.target_object().filter(|_| is_not_found) {
                            self.discovery.invalidate(&target.served.name);
                        }
                        let is_conflict = matches!(&error, kube::Error::Api(status) if status.code == 409);
                        let error = ObjectError::from_request("writing objects", error)?;
                        state.set_write_error(error, is_conflict, &applied_work.owner);
                    }
                }
            }
        }
        Ok(written)
    }

    /// Deletes the objects that were removed from the ManifestWork, after all its remaining objects were applied and
    /// while no other ManifestWork can claim them. The first reconcile of a generation deletes nothing, because the
    /// ManifestWork to which an object moves may arrive a moment later.
    async fn prune(
        &self,
        work: &str,
        states: &[ManifestState<'_>],
        applied_work: &AppliedWork,
        is_new: bool,
    ) -> Result<DeletionResult, WorkError> {
        if states.iter().any(|state| state.applied.is_err()) {
            return Ok(DeletionResult::default());
        }
        let wanted = states.iter().filter_map(|state| Some(&state.target_object()?.address.id)).collect();
        let uids = states.iter().filter_map(ManifestState::owned_uid).collect();
        let removed = applied_resources::find_removed(&applied_work.resources, &wanted, &uids);
        if is_new || self.index.lock().objects.may_be_claimed_by_others(work) {
            return Ok(DeletionResult::postponed(&removed));
        }
        self.deleter(applied_work).prune(&removed).await
    }

    /// Writes the list of applied resources to the AppliedManifestWork.
    async fn write_record(
        &self,
        work: &str,
        applied_work: AppliedWork,
        resources: &[AppliedResource],
        cache: &mut WorkCache,
    ) -> Result<AppliedWork, WorkError> {
        cache.applied_work = None;
        let applied_work = self.applied_works().write_resources(work, &applied_work, resources).await?;
        cache.applied_work = Some(applied_work.clone());
        Ok(applied_work)
    }

    /// Deletes the objects of a ManifestWork that is being deleted, then its AppliedManifestWork, and removes its
    /// finalizer.
    async fn delete_objects(&self, work: &Work, cache: &mut WorkCache) -> Result<Outcome, WorkError> {
        if !work.has_finalizer() {
            return Ok(Outcome::without_work(Progress::Settled));
        }
        let outcome = self
            .write_status(Box::new(work.clone()), |status, generation, now| {
                let mut conditions = status.conditions.iter();
                let is_reported =
                    conditions.any(|held| held.type_.as_str() == vocabulary::DELETING && held.is_true());
                if is_reported { status.clone() } else { status.with_deleting(&[], generation, now) }
            })
            .await?;
        let work = match outcome {
            Outcome { progress: Progress::Settled, work: Some(work), .. } => work,
            other => return Ok(other),
        };
        cache.objects.clear();
        cache.applied_work = None;
        if let Some(applied_work) = self.applied_works().get(&work.name).await? {
            self.set_watched_objects(&work.name, &[], &applied_work);
            if self.index.lock().objects.may_be_claimed_by_others(&work.name) {
                return Ok(Outcome::new(Progress::Deleting, work));
            }
            let option = match &work.spec {
                Ok(spec) => spec.delete_option.clone(),
                // An invalid spec does not say which objects to orphan; to orphan too many is the safe choice.
                Err(_) => Some(DeleteOption {
                    propagation_policy: WorkPropagation::Orphan,
                    selectively_orphans: None,
                }),
            };
            let result =
                self.deleter(&applied_work).delete_all(&applied_work.resources, option.as_ref()).await?;
            if !result.is_complete() {
                return self.report_pending_deletion(work, result).await;
            }
            self.applied_works().delete(&work.name, &applied_work).await?;
        }
        let removed = self.hub.remove_finalizer(&work).await;
        match removed.map_err(|error| WorkError::hub("removing the finalizer of the ManifestWork", error))? {
            WriteResult::Written(_) | WriteResult::NotFound => Ok(Outcome::without_work(Progress::Deleted)),
            WriteResult::Conflict => self.restart(&work.name).await,
        }
    }

    /// Reports the objects that a deletion waits for to the hub, if it takes long.
    async fn report_pending_deletion(
        &self,
        work: Box<Work>,
        result: DeletionResult,
    ) -> Result<Outcome, WorkError> {
        let mut waiting = result.waiting;
        waiting.extend(result.errors.into_iter().map(|error| error.message));
        let since = work.deletion_timestamp.unwrap_or_default();
        if self.clock.now().duration_since(since) < DELETION_REPORT_DELAY {
            return Ok(Outcome::new(Progress::Deleting, work));
        }
        let outcome = self
            .write_status(work, |status, generation, now| status.with_deleting(&waiting, generation, now))
            .await?;
        Ok(outcome.if_settled(Progress::Deleting))
    }

    /// Completes the deletion of an AppliedManifestWork that somebody deleted although its ManifestWork still exists:
    /// its objects are deleted with it, and the next reconcile creates everything again.
    async fn finish_record_deletion(
        &self,
        work: &Work,
        cache: &mut WorkCache,
        applied_work: &AppliedWork,
    ) -> Result<Outcome, WorkError> {
        *cache = WorkCache::default();
        self.set_watched_objects(&work.name, &[], applied_work);
        let result = self.deleter(applied_work).delete_all(&applied_work.resources, None).await?;
        if !result.is_complete() {
            return Ok(Outcome::without_work(Progress::Deleting));
        }
        self.applied_works().delete(&work.name, applied_work).await?;
        Ok(Outcome::without_work(Progress::Changed))
    }

    /// Reports to the hub why no object of a ManifestWork can be applied.
    async fn report_failure(&self, work: &Work, message: &str) -> Result<Outcome, WorkError> {
        let outcome = self
            .write_status(Box::new(work.clone()), |status, generation, now| {
                status.with_failure(message, generation, now)
            })
            .await?;
        Ok(outcome.if_settled(Progress::Failed))
    }

    /// Writes the status of a ManifestWork if it differs. After a conflict, it is computed again from the current
    /// status, as long as the desired state of the ManifestWork is the same.
    async fn write_status(
        &self,
        mut work: Box<Work>,
        compute: impl Fn(&WorkStatus, i64, Timestamp) -> WorkStatus,
    ) -> Result<Outcome, WorkError> {
        for _ in 0..MAX_STATUS_ATTEMPTS {
            let status = compute(&work.status, work.generation, whole_seconds(self.clock.now()));
            if status == work.status {
                return Ok(Outcome::new(Progress::Settled, work));
            }
            let written = self.hub.write_status(&work, &status).await;
            match written.map_err(|error| WorkError::hub("writing the status of the ManifestWork", error))? {
                WriteResult::Written(work) => return Ok(Outcome::new(Progress::Settled, work)),
                WriteResult::NotFound => return Ok(Outcome::without_work(Progress::Deleted)),
                WriteResult::Conflict => {}
            }
            match self.get_work(&work.name).await? {
                None => return Ok(Outcome::without_work(Progress::Deleted)),
                Some(current) if current.has_same_desired_state_as(&work) => work = current,
                Some(current) => return Ok(Outcome::new(Progress::Changed, current)),
            }
        }
        Err(WorkError::Contended(MAX_STATUS_ATTEMPTS))
    }

    /// Reads a ManifestWork that has changed, so that the next reconcile uses its current state.
    async fn restart(&self, name: &str) -> Result<Outcome, WorkError> {
        Ok(match self.get_work(name).await? {
            Some(work) => Outcome::new(Progress::Changed, work),
            None => Outcome::without_work(Progress::Deleted),
        })
    }

    async fn get_work(&self, name: &str) -> Result<Option<Box<Work>>, WorkError> {
        let work = self.hub.get_opt(name).await;
        Ok(work.map_err(|error| WorkError::hub("reading the ManifestWork", error))?.map(Box::new))
    }

    fn applied_works(&self) -> AppliedWorks<'_> {
        AppliedWorks { spoke: &self.spoke, agent: &self.agent }
    }

    fn deleter<'a>(&'a self, applied_work: &'a AppliedWork) -> ObjectDeleter<'a> {
        ObjectDeleter { spoke: &self.spoke, discovery: &self.discovery, owner: &applied_work.owner }
    }
}

impl Outcome {
    fn new(progress: Progress, work: Box<Work>) -> Self {
        Self { progress, repaired: false, work: Some(work) }
    }

    fn without_work(progress: Progress) -> Self {
        Self { progress, repaired: false, work: None }
    }

    /// The outcome with another progress, unless the status write led to one of its own.
    fn if_settled(self, progress: Progress) -> Self {
        if self.progress == Progress::Settled { Self { progress, ..self } } else { self }
    }
}
