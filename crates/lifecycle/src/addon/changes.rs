//! Decides from the hub cache which changes one add-on on one cluster needs: status, finalizer and ManifestWorks. Pure.
//! Making the requests is left to `reconcile`.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{
    CONFIGURED, DEGRADED, FINALIZER, HEARTBEAT, NAME_LABEL, PROGRESSING, RENDERED_HASH, VERSION_LABEL,
};
use bellwether_api::addon::{AppliedConfig, InstallType, ManagedClusterAddOn, ManagedClusterAddOnStatus};
use bellwether_api::work::ManifestWork;
use bellwether_conditions::{ConditionType, Desired, Reason, Status, TransitionKey, kubernetes};
use jiff::Timestamp;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use super::decide::available::{
    AvailabilityInput, available_condition, is_starting, manifest_applied_condition,
};
use super::decide::progress::{self, ProgressDecision, ProgressInput, Rendering, WorkAction};
use crate::clusters::Reachability;
use crate::fields::{is_overridden, is_placed};
use crate::hub::{AddonKey, Configs, HubCache, Management, Work, requests_same};
use crate::render::{RenderInput, Rendered, render};
use crate::rollout::{Turn, WaitReason};
use crate::standing::{ChangeState, Standing, requested_version};
use crate::version::Version;
use crate::works::{WorkState, WorkStates, Workload};

/// The reason of the condition Degraded when this controller sets it.
const VERSION_UNSUPPORTED: &str = "VersionUnsupported";
/// The type of the condition that an add-on is being deleted.
const DELETING: &str = "Deleting";

/// The changes to write, in this order.
#[derive(Debug)]
pub(crate) struct AddonChanges {
    /// The object that the changes were decided for.
    pub object: Arc<ManagedClusterAddOn>,
    /// Its new finalizers, if they change.
    pub finalizers: Option<Vec<String>>,
    /// Its new status, if it changes.
    pub status: Option<ManagedClusterAddOnStatus>,
    /// Whether the new status starts a change of version or configurations.
    pub starts_change: bool,
    /// The writes of ManifestWorks.
    pub works: Vec<WorkWrite>,
    /// When to decide again even if no object changes.
    pub recheck_at: Option<Timestamp>,
}

/// A write of a ManifestWork.
#[derive(Debug)]
pub(crate) enum WorkWrite {
    /// Create it.
    Create(Box<ManifestWork>),
    /// Update it, only if its resourceVersion is still the cached one.
    Replace(Box<ManifestWork>),
    /// Delete it, only if it still has this UID.
    Delete {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

impl WorkWrite {
    /// The name of the ManifestWork.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Create(work) | Self::Replace(work) => work.name_any(),
            Self::Delete { name, .. } => name.clone(),
        }
    }
}

impl AddonChanges {
    fn none(object: &Arc<ManagedClusterAddOn>) -> Self {
        let object = object.clone();
        Self {
            object,
            finalizers: None,
            status: None,
            starts_change: false,
            works: Vec::new(),
            recheck_at: None,
        }
    }

    /// Whether there is nothing to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.finalizers.is_none() && self.status.is_none() && self.works.is_empty()
    }
}

impl HubCache {
    /// Decides the changes of an add-on on a cluster; `None` if this controller does not manage it.
    pub(crate) fn decide_changes(&self, key: &AddonKey, now: Timestamp) -> Option<AddonChanges> {
        let object = self.addon(key)?;
        if object.metadata.deletion_timestamp.is_some() {
            return self.changes_of_deleted(key, object, now);
        }
        if self.cluster(&key.cluster).is_some_and(|cluster| cluster.is_deleting) {
            return None;
        }
        let management = self.management(&key.addon)?;
        Some(self.changes_of_managed(key, object, management, now))
    }

    fn changes_of_managed(
        &self,
        key: &AddonKey,
        object: &Arc<ManagedClusterAddOn>,
        management: &Management,
        now: Timestamp,
    ) -> AddonChanges {
        let before = object.status.clone().unwrap_or_default();
        let standing = Standing::read(&before);
        let configs = self.configs_of(management, object);
        let reconfigured = configs
            .as_ref()
            .is_ok_and(|configs| standing.begun.is_some() && !configs.are_same_as(&before.config_references));
        let requested = Version::new(&object.spec.install_version);
        let version = requested_version(object, &management.catalogue);
        let version = version.as_ref();
        let works: Vec<&Work> = self.works_of(key).collect();
        let rendered =
            version.and_then(|version| self.render_version(key, object, management, version, &configs));
        let work_states = rendered.as_ref().and_then(|rendered| rendered.as_ref().ok()).map(|rendered| {
            let desired: Vec<_> = rendered.iter().map(Rendered::desired_work).collect();
            let found: Vec<_> = works.iter().map(|work| work.observed.clone()).collect();
            WorkStates::compare(
                &desired,
                &found,
                &key.addon,
                version.map(Version::as_str).unwrap_or_default(),
            )
        });
        let foreign_works =
            self.works(&key.cluster).filter(|work| work.foreign_label.as_ref() == Some(&key.addon));
        let foreign_works: Vec<String> = foreign_works.map(|work| work.observed.name.clone()).collect();
        let running = works.iter().map(|work| work.observed.version.as_str());
        let running = running.filter(|running| Some(*running) != version.map(Version::as_str)).max();
        let rendering = match (&rendered, &work_states) {
            (Some(Err(why)), _) => Rendering::Failed(why.clone()),
            (_, work_states) => Rendering::Rendered(work_states.clone().unwrap_or_default()),
        };
        let starts_change =
            version.is_some_and(|version| standing.begun.as_ref() != Some(version)) || reconfigured;
        let turn = if starts_change { self.turn(key, object, management) } else { Some(Turn::MayStart) };
        let Some(turn) = turn.filter(|_| !self.awaits_plan(key, object, management, &standing)) else {
            // The rollout is about to be planned, and the add-on is reconciled again then.
            return AddonChanges::none(object);
        };
        let waits = matches!(turn, Turn::Waits(_));
        let workloads: Vec<Workload> = works.iter().flat_map(|work| work.workloads.clone()).collect();
        let decision = progress::decide(&ProgressInput {
            addon: &key.addon,
            generation: object.metadata.generation.unwrap_or_default(),
            is_deleting: false,
            requested: requested.as_ref(),
            standing: &standing,
            reconfigured,
            catalogue: &management.catalogue,
            turn,
            rendering,
            has_starting_workload: workloads.iter().any(is_starting),
            running,
            foreign_works: &foreign_works,
            // A rejection of earlier ManifestWorks does not apply to those of a change that starts now.
            rejection: self.rejection(key).filter(|_| !starts_change),
            deadline: management.deadline(&key.cluster),
            now,
        });
        let starts_change = starts_change && decision.begun != standing.begun
            || reconfigured && decision.work_action == WorkAction::Apply;
        let mut reported_states = match decision.work_action {
            WorkAction::Apply => work_states.clone().filter(|_| decision.begun.is_some()),
            // Existing ManifestWorks that are kept are reported as they are, whatever version is requested.
            WorkAction::Keep if works.is_empty() && decision.is_current() => Some(WorkStates::default()),
            WorkAction::Keep => WorkStates::of_observed(works.iter().map(|work| &work.observed)),
        };
        if decision.work_action == WorkAction::Apply && !decision.is_current() {
            // ManifestWorks that are written now are reported as pending in the same status write, so that no second write is
            // needed for that.
            reported_states.iter_mut().for_each(WorkStates::mark_pending);
        }
        let availability = AvailabilityInput {
            is_reachable: !self.is_unreachable(&key.cluster),
            work_states: reported_states.as_ref(),
            workloads: &workloads,
            heartbeat: None,
            degraded: None,
        };
        let work_writes = match (&rendered, &work_states, decision.work_action) {
            (Some(Ok(rendered)), Some(work_states), WorkAction::Apply) => {
                self.work_writes(key, object, rendered, work_states, &works)
            }
            _ => Vec::new(),
        };
        // The status records the configurations of the last change that started, even if rendering with them failed.
        let references = match (&configs, &rendered) {
            (Ok(configs), Some(_)) if !waits => Some(configs.references.as_slice()),
            _ => None,
        };
        let after = next_status(&before, &decision, &availability, references, now);
        let lacks_finalizer = !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let finalizers = lacks_finalizer
            .then(|| object.finalizers().iter().cloned().chain([FINALIZER.to_owned()]).collect());
        let needs_write = needs_status_write(&before, &after);
        AddonChanges {
            object: object.clone(),
            finalizers,
            status: needs_write.then_some(after),
            starts_change,
            works: work_writes,
            recheck_at: decision.recheck_at,
        }
    }

    /// The ManifestWorks of an add-on on a cluster.
    fn works_of(&self, key: &AddonKey) -> impl Iterator<Item = &Work> {
        self.works(&key.cluster).filter(move |work| work.addon.as_ref() == Some(&key.addon))
    }

    fn is_unreachable(&self, cluster: &str) -> bool {
        self.cluster(cluster).is_some_and(|cluster| cluster.reachability == Reachability::Unreachable)
    }

    /// Renders the ManifestWorks of a version; `None` if the version does not exist.
    fn render_version(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        management: &Management,
        version: &Version,
        configs: &Result<Configs, String>,
    ) -> Option<Result<Vec<Rendered>, String>> {
        let template = &self.template(management.catalogue.template(version)?)?.object;
        let configs = match configs {
            Ok(configs) => configs,
            Err(why) => return Some(Err(why.clone())),
        };
        let specs: Vec<_> = configs.objects.iter().map(|config| &config.spec).collect();
        let input = RenderInput {
            addon: &key.addon,
            cluster: &key.cluster,
            install_namespace: object.spec.install_namespace.as_deref(),
            template: &template.spec,
            configs: &specs,
        };
        Some(render(&input).map_err(|why| why.to_string()))
    }

    /// Whether an add-on may start to change: at once where a user created it or set its version, otherwise by its rollout;
    /// `None` while that is not planned.
    fn turn(&self, key: &AddonKey, object: &ManagedClusterAddOn, management: &Management) -> Option<Turn> {
        if !is_placed(object) || is_overridden(object) {
            return Some(Turn::MayStart);
        }
        if management.object.spec.install_strategy.type_ != InstallType::Placements {
            return Some(Turn::MayStart);
        }
        if !management.is_planned {
            return None;
        }
        match management.rollout(&key.cluster) {
            // The object does not have the request of its placement yet, or the watch has not delivered it. Starting now would
            // bypass the rollout.
            Some(rollout) if !requests_same(object, &rollout.request) => None,
            Some(rollout) => rollout.plan.turn(&key.cluster),
            None => Some(Turn::Waits(WaitReason::NotSelected)),
        }
    }

    /// Whether an add-on timed out and its rollout is not planned yet. Its deadline is unknown until then, and a restart of this
    /// process must not give it more time.
    fn awaits_plan(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        management: &Management,
        standing: &Standing,
    ) -> bool {
        matches!(standing.change, ChangeState::TimedOut(_))
            && !management.is_planned
            && management.rollout(&key.cluster).is_none()
            && management.object.spec.install_strategy.type_ == InstallType::Placements
            && is_placed(object)
            && !is_overridden(object)
    }

    /// The writes after which the ManifestWorks are what the version needs.
    fn work_writes(
        &self,
        key: &AddonKey,
        object: &ManagedClusterAddOn,
        rendered: &[Rendered],
        work_states: &WorkStates,
        works: &[&Work],
    ) -> Vec<WorkWrite> {
        let found = |name: &str| works.iter().find(|work| work.observed.name == name);
        let changes = rendered.iter().zip(&work_states.desired).filter_map(|(desired, (name, state))| {
            let work = || Box::new(build_work(key, object, desired));
            match (state, found(name)) {
                (WorkState::Missing, None) => Some(WorkWrite::Create(work())),
                // It is being deleted, and is created again afterwards.
                (WorkState::Missing, Some(_)) => None,
                (WorkState::Stale, Some(found)) => {
                    let mut work = work();
                    work.metadata.resource_version = Some(found.version.to_string());
                    work.metadata.uid = Some(found.uid.clone());
                    Some(WorkWrite::Replace(work))
                }
                _ => None,
            }
        });
        let surplus =
            work_states.surplus.iter().filter_map(|name| found(name)).filter(|work| !work.observed.deleting);
        changes.chain(surplus.map(|work| delete_write(work))).collect()
    }

    /// The changes of an add-on that is being deleted: its ManifestWorks are deleted first, then its finalizer is removed.
    fn changes_of_deleted(
        &self,
        key: &AddonKey,
        object: &Arc<ManagedClusterAddOn>,
        now: Timestamp,
    ) -> Option<AddonChanges> {
        let has_finalizer = object.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if !has_finalizer {
            return None;
        }
        let works: Vec<&Work> = self.works_of(key).collect();
        let is_cleaned_up = works.is_empty() || self.cluster(&key.cluster).is_none();
        let finalizers = is_cleaned_up.then(|| {
            let others = object.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER);
            others.cloned().collect()
        });
        let before = object.status.clone().unwrap_or_default();
        let mut after = before.clone();
        if !is_cleaned_up {
            let names: Vec<&str> = works.iter().map(|work| work.observed.name.as_str()).collect();
            let unreachable = if self.is_unreachable(&key.cluster) { ", which is unreachable," } else { "" };
            let message =
                format!("The agent of {}{unreachable} has to delete {}.", key.cluster, names.join(", "));
            let desired = Desired::new(
                ConditionType::constant(DELETING),
                Status::True,
                Reason::constant("WaitingForAgent"),
                message,
            );
            let _ = kubernetes::upsert(&mut after.conditions, desired, TransitionKey::Status, now);
        }
        let work_writes =
            works.into_iter().filter(|work| !work.observed.deleting).map(delete_write).collect();
        let status = (after != before).then_some(after);
        Some(AddonChanges {
            object: object.clone(),
            finalizers,
            status,
            starts_change: false,
            works: work_writes,
            recheck_at: None,
        })
    }
}

fn delete_write(work: &Work) -> WorkWrite {
    WorkWrite::Delete { name: work.observed.name.clone(), uid: work.uid.clone() }
}

fn build_work(key: &AddonKey, object: &ManagedClusterAddOn, rendered: &Rendered) -> ManifestWork {
    let version = object.status.as_ref().map(|status| status.install_version.clone()).unwrap_or_default();
    let mut work = ManifestWork::new(&rendered.name, rendered.spec.clone());
    work.metadata.namespace = Some(key.cluster.to_string());
    work.metadata.owner_references = object.owner_ref(&()).map(|owner| vec![owner]);
    work.labels_mut().insert(NAME_LABEL.to_owned(), key.addon.to_string());
    work.labels_mut().insert(VERSION_LABEL.to_owned(), version);
    work.annotations_mut().insert(RENDERED_HASH.to_owned(), rendered.digest.clone());
    work
}

/// Computes the next status from the previous one.
fn next_status(
    before: &ManagedClusterAddOnStatus,
    decision: &ProgressDecision,
    availability: &AvailabilityInput<'_>,
    references: Option<&[AppliedConfig]>,
    now: Timestamp,
) -> ManagedClusterAddOnStatus {
    let mut conditions = before.conditions.clone();
    // The target of a change is a version with its configurations. If either differs, a new change starts (A33), and the
    // condition Progressing gets a new lastTransitionTime.
    let target_name =
        |version: &str, references: &[AppliedConfig]| format!("{version} {}", json!(references));
    let begun = decision.begun.as_ref().map(ToString::to_string).unwrap_or_default();
    let (target_before, target_after) = (
        target_name(&before.install_version, &before.config_references),
        target_name(&begun, references.unwrap_or(&before.config_references)),
    );
    let target = TransitionKey::StatusReasonAndTarget { before: &target_before, after: &target_after };
    for (desired, key) in
        [(&decision.progressing, target), (&decision.configured, TransitionKey::StatusAndReason)]
    {
        if let Some(desired) = desired.clone() {
            let _ = kubernetes::upsert(&mut conditions, desired, key, now);
        }
    }
    // A condition Degraded with another reason belongs to another writer.
    let owns_degraded =
        kubernetes::find(&conditions, DEGRADED).is_none_or(|degraded| degraded.reason == VERSION_UNSUPPORTED);
    if owns_degraded && decision.is_unsupported {
        let message = format!("version {begun} is no longer supported: no AddOnTemplate provides it");
        let type_ = ConditionType::constant(DEGRADED);
        let degraded = Desired::new(type_, Status::True, Reason::constant(VERSION_UNSUPPORTED), message);
        let _ = kubernetes::upsert(&mut conditions, degraded, TransitionKey::Status, now);
    } else if owns_degraded {
        kubernetes::remove(&mut conditions, DEGRADED);
    }
    let (heartbeat, degraded) =
        (kubernetes::get(&conditions, HEARTBEAT), kubernetes::get(&conditions, DEGRADED));
    let available = available_condition(&AvailabilityInput {
        heartbeat: heartbeat.as_ref(),
        degraded: degraded.as_ref(),
        ..*availability
    });
    let _ = kubernetes::upsert(&mut conditions, available, TransitionKey::Status, now);
    if let Some(applied) = availability.work_states.and_then(manifest_applied_condition) {
        let _ = kubernetes::upsert(&mut conditions, applied, TransitionKey::Status, now);
    }
    if !decision.is_current() || begun != before.install_version {
        // The heartbeats so far came from the previous version; the agent confirms the new one by setting this field again.
        let heartbeat = conditions.iter_mut().find(|condition| condition.type_ == HEARTBEAT);
        heartbeat.into_iter().for_each(|condition| condition.observed_generation = None);
    }
    ManagedClusterAddOnStatus {
        install_version: begun,
        current_version: decision.current.to_string(),
        last_version: decision.last.to_string(),
        failure: decision.change.failure(),
        conditions,
        config_references: references.unwrap_or(&before.config_references).to_vec(),
    }
}

/// Whether a changed status must be written now. While a change is in progress, minor differences such as the condition
/// ManifestApplied wait for the next write.
fn needs_status_write(before: &ManagedClusterAddOnStatus, after: &ManagedClusterAddOnStatus) -> bool {
    if before == after {
        return false;
    }
    let without_conditions = |status: &ManagedClusterAddOnStatus| ManagedClusterAddOnStatus {
        conditions: Vec::new(),
        ..status.clone()
    };
    let in_progress =
        after.conditions.iter().any(|condition| condition.type_ == PROGRESSING && condition.status == "True");
    let compared = |status: &ManagedClusterAddOnStatus| -> Vec<(String, String, String)> {
        let compared_parts = |condition: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            let detail = match condition.type_.as_str() {
                PROGRESSING | CONFIGURED | DEGRADED => format!("{} {}", condition.reason, condition.message),
                _ if in_progress => String::new(),
                _ => condition.reason.clone(),
            };
            (condition.type_.clone(), condition.status.clone(), detail)
        };
        let all = status.conditions.iter();
        let is_relevant = |condition: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
            !in_progress || condition.type_ != bellwether_api::addon::vocabulary::MANIFEST_APPLIED
        };
        all.filter(is_relevant).map(compared_parts).collect()
    };
    without_conditions(before) != without_conditions(after) || compared(before) != compared(after)
}

#[cfg(test)]
mod tests;
