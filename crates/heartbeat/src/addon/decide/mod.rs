//! Computes from an Addon and its objects which writes are needed and what the status must be. It is pure: `controller` reads
//! the objects and executes the plan.
//!
//! **Invariant:** the status of a plan may be written only if the plan has no steps. Then the status describes the objects
//! that were read; otherwise the objects are about to change.

mod deletion;
mod instance;
mod namespaces;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bellwether_api::addons_managed::AddonSpec;
use bellwether_clock::whole_seconds;
use bellwether_conditions::{
    ConditionType, Desired, Reason, Status as ConditionStatus, TransitionKey, shorten,
};
use bellwether_runtime::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use self::instance::{InstancePlan, InstanceState};
use super::object::{AddonObject, InstanceObject, InvalidSpec, Status, target_namespace};
use crate::vocabulary::addon::{self as names, messages, reasons};

/// The maximum length of a message in metav1.Condition, in bytes.
const MAX_MESSAGE_BYTES: usize = 32_768;

/// Whether a heartbeat timeout is also reported on the Addon, in the condition `HeartbeatTimeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorTimeouts {
    /// Only the AddonInstance reports it.
    #[default]
    Off,
    /// The Addon reports it too.
    On,
}

/// The inputs of a decision.
pub(super) struct Observed<'a> {
    pub(super) addon: &'a AddonObject,
    /// Whether the AddonOperator pauses all Addons.
    pub(super) all_paused: bool,
    /// The existing ones of the listed namespaces and the target namespace.
    pub(super) namespaces: BTreeMap<String, ObjectMeta>,
    /// The instance in the target namespace.
    pub(super) instance: Option<InstanceObject>,
    /// The writes that the API server rejected in this reconcile.
    pub(super) rejections: &'a Rejections,
    pub(super) mirror: MirrorTimeouts,
    pub(super) now: Timestamp,
}

/// The objects whose write the API server rejected, each with the message of the API server.
pub(super) type Rejections = BTreeMap<ManagedObject, String>;

/// An object that the controller writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ManagedObject {
    Addon,
    Namespace(String),
    Instance { namespace: String },
}

/// The writes that are needed, and the resulting status.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The complete new status, to be written if there are no steps.
    pub(super) status: Status,
    pub(super) next: Next,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) object: ManagedObject,
    pub(super) change: Change,
}

/// How an object is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Create(Value),
    /// A merge patch that contains the resourceVersion, so that it fails if the object has changed.
    Patch(Value),
}

pub(super) fn decide(observed: &Observed<'_>) -> Plan {
    let draft = StatusDraft::new(observed);
    if observed.addon.is_being_deleted() {
        return plan_deletion(observed.addon, draft);
    }
    match (pause_reason(observed), &observed.addon.spec) {
        (Some(pause), _) => plan_pause(draft, pause),
        (None, Err(invalid)) => plan_invalid_spec(draft, invalid),
        (None, Ok(spec)) => plan_objects(observed, spec, draft),
    }
}

/// The finalizer is removed after the status reports `Terminating`. Kubernetes then deletes the owned objects.
fn plan_deletion(addon: &AddonObject, mut draft: StatusDraft) -> Plan {
    draft.set_availability(
        Availability::pending(reasons::TERMINATING, "Addon is being deleted.").in_phase(Phase::Terminating),
    );
    let is_reported = draft.status == addon.status;
    let steps = if is_reported && addon.has_finalizer() { vec![remove_finalizer(addon)] } else { Vec::new() };
    draft.into_plan(steps)
}

fn pause_reason(observed: &Observed<'_>) -> Option<(Reason, &'static str)> {
    if observed.all_paused {
        let message =
            "Addon is not reconciled while .spec.pause of AddonOperator \"addon-operator\" is true.";
        return Some((reasons::ADDON_OPERATOR_PAUSED, message));
    }
    let paused = observed.addon.spec.as_ref().is_ok_and(|spec| spec.pause);
    paused.then_some((reasons::ADDON_PAUSED, "Addon is not reconciled while .spec.pause is true."))
}

fn plan_pause(mut draft: StatusDraft, (reason, message): (Reason, &str)) -> Plan {
    draft.set(names::PAUSED, ConditionStatus::True, reason, message);
    draft.into_plan(Vec::new())
}

fn plan_invalid_spec(mut draft: StatusDraft, invalid: &InvalidSpec) -> Plan {
    draft.status.conditions.remove(&names::PAUSED);
    draft.set_availability(Availability::configuration_error(invalid.to_string()));
    draft.into_plan(Vec::new())
}

/// Plans the finalizer, the namespaces and the instance, and derives the status from their state.
fn plan_objects(observed: &Observed<'_>, spec: &AddonSpec, mut draft: StatusDraft) -> Plan {
    let addon = observed.addon;
    draft.status.conditions.remove(&names::PAUSED);
    let target = target_namespace(&spec.install);
    let namespaces = namespaces::plan(observed, spec, target.as_ref().ok().copied());
    let instance = match &target {
        Ok(target) => instance::plan(observed, spec, target),
        Err(_) => InstancePlan::without_target(),
    };
    let owned = instance.owned();
    draft.next = deletion::update_conditions(&mut draft, addon, spec, owned);
    mirror_heartbeat_timeout(&mut draft, observed.mirror, owned);
    draft.set_availability(evaluate_availability(spec, target.err(), &namespaces.unready, &instance));

    let mut steps = Vec::new();
    if !addon.has_finalizer() {
        steps.push(add_finalizer(addon));
    }
    steps.extend(namespaces.steps);
    steps.extend(instance.step);
    draft.into_plan(steps)
}

fn evaluate_availability(
    spec: &AddonSpec,
    invalid: Option<InvalidSpec>,
    unready_namespaces: &[String],
    instance: &InstancePlan<'_>,
) -> Availability {
    if let Some(invalid) = invalid {
        return Availability::configuration_error(invalid.to_string());
    }
    if let InstanceState::OwnedByOther(message) = &instance.state {
        return Availability::configuration_error(message.clone());
    }
    if !unready_namespaces.is_empty() {
        let message = format!("Waiting for namespaces: {}.", unready_namespaces.join("; "));
        return Availability::pending(reasons::UNREADY_NAMESPACES, message);
    }
    match &instance.state {
        InstanceState::NotReady(message) => {
            Availability::pending(reasons::ADDON_INSTANCE_NOT_INSTALLED, message.clone())
        }
        InstanceState::Owned(owned)
            if spec.install_ack_required && !owned.is_true(&crate::vocabulary::instance::INSTALLED) =>
        {
            Availability::pending(reasons::ADDON_INSTANCE_NOT_INSTALLED, messages::NOT_INSTALLED)
        }
        InstanceState::Owned(_) | InstanceState::OwnedByOther(_) => Availability::ready(),
    }
}

fn mirror_heartbeat_timeout(
    draft: &mut StatusDraft,
    mirror: MirrorTimeouts,
    instance: Option<&InstanceObject>,
) {
    let timeout =
        instance.and_then(InstanceObject::heartbeat_timeout).filter(|_| mirror == MirrorTimeouts::On);
    match timeout {
        Some(timeout) => {
            let message = timeout.message.clone();
            draft.set(names::HEARTBEAT_TIMEOUT, ConditionStatus::True, reasons::HEARTBEAT_TIMEOUT, message);
        }
        None => drop(draft.status.conditions.remove(&names::HEARTBEAT_TIMEOUT)),
    }
}

/// `status.phase` of an Addon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Pending,
    Ready,
    Terminating,
    Error,
}

impl Phase {
    fn as_str(self) -> &'static str {
        match self {
            Phase::Pending => "Pending",
            Phase::Ready => "Ready",
            Phase::Terminating => "Terminating",
            Phase::Error => "Error",
        }
    }
}

/// The condition `Available` of an Addon, and its phase.
struct Availability {
    status: ConditionStatus,
    reason: Reason,
    message: String,
    phase: Phase,
}

impl Availability {
    fn ready() -> Self {
        let message = "All namespaces and the AddonInstance exist.".to_owned();
        Self {
            status: ConditionStatus::True,
            reason: reasons::FULLY_RECONCILED,
            message,
            phase: Phase::Ready,
        }
    }

    fn pending(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, reason, message: message.into(), phase: Phase::Pending }
    }

    fn configuration_error(message: String) -> Self {
        Self::pending(reasons::CONFIGURATION_ERROR, message).in_phase(Phase::Error)
    }

    fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }
}

/// The new status while it is computed.
struct StatusDraft {
    status: Status,
    generation: Option<i64>,
    now: Timestamp,
    next: Next,
}

impl StatusDraft {
    fn new(observed: &Observed<'_>) -> Self {
        let generation = observed.addon.metadata.generation;
        let mut status = observed.addon.status.clone();
        status.observed_generation = generation.or(status.observed_generation);
        Self { status, generation, now: whole_seconds(observed.now), next: Next::OnChange }
    }

    fn set(
        &mut self,
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) {
        let desired = Desired::new(type_, status, reason, shorten(&message.into(), MAX_MESSAGE_BYTES));
        let desired = match self.generation {
            Some(generation) => desired.observed_at(generation),
            None => desired,
        };
        // The outcome is not needed: the controller compares the complete status.
        let _ = self.status.conditions.upsert(desired, TransitionKey::Status, self.now);
    }

    fn set_availability(&mut self, availability: Availability) {
        if availability.status == ConditionStatus::True {
            let message = "Addon was available at least once.";
            self.set(names::INSTALLED, ConditionStatus::True, reasons::ADDON_INSTALLED, message);
        }
        self.set(names::AVAILABLE, availability.status, availability.reason, availability.message);
        self.status.phase = Some(availability.phase.as_str().to_owned());
    }

    fn into_plan(self, steps: Vec<Step>) -> Plan {
        Plan { steps, status: self.status, next: self.next }
    }
}

fn add_finalizer(addon: &AddonObject) -> Step {
    let mut finalizers = addon.finalizers().to_vec();
    finalizers.push(names::FINALIZER.to_owned());
    set_finalizers(addon, &finalizers)
}

fn remove_finalizer(addon: &AddonObject) -> Step {
    let others = addon.finalizers().iter().filter(|finalizer| *finalizer != names::FINALIZER);
    set_finalizers(addon, &others.cloned().collect::<Vec<_>>())
}

fn set_finalizers(addon: &AddonObject, finalizers: &[String]) -> Step {
    let version = &addon.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    Step { object: ManagedObject::Addon, change: Change::Patch(patch) }
}
