//! From what was read of an Addon and around it to what is to be written. Pure.
//!
//! A plan has steps or it has none. As long as there are steps, the world is not as the Addon wants it, and its status
//! waits; with none left, the status is the truth about what was read.

mod deletion;
mod instance;
mod namespaces;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use bellwether_api::addons_managed::AddonSpec;
use bellwether_clock::whole_seconds;
use bellwether_conditions::{ConditionType, Desired, Reason, Status as Holds, TransitionKey, shorten};
use bellwether_runtime::Next;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use self::instance::Provision;
use super::subject::{Instance, Misconfigured, Status, Subject, target};
use crate::vocabulary::addon::{self, messages, reasons};

/// The longest message that a condition may have.
const LONGEST_MESSAGE: usize = 32_768;

/// Whether the silence of an add-on is also told on its Addon, as the condition `HeartbeatTimeout`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MirrorTimeouts {
    /// It is told on the instance alone.
    #[default]
    Off,
    /// It is told on both.
    On,
}

/// What was read.
pub(super) struct Observed<'a> {
    pub(super) subject: &'a Subject,
    /// Whether the AddonOperator pauses all Addons.
    pub(super) all_paused: bool,
    /// The namespaces that matter to the Addon, as far as they are there.
    pub(super) namespaces: BTreeMap<String, ObjectMeta>,
    /// The instance in the target namespace.
    pub(super) instance: Option<Instance>,
    /// What the API server refused just now, and why.
    pub(super) refused: &'a Refusals,
    pub(super) mirror: MirrorTimeouts,
    pub(super) now: Timestamp,
}

/// What the API server refused, and its words.
pub(super) type Refusals = BTreeMap<Piece, String>;

/// What a step is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Piece {
    Addon,
    Namespace(String),
    Instance { namespace: String },
}

/// What to do.
#[derive(Debug, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: Vec<Step>,
    /// The whole new status, to be written once there are no steps.
    pub(super) status: Status,
    pub(super) next: Next,
}

/// One write.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) piece: Piece,
    pub(super) change: Change,
}

/// How a piece is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Create(Value),
    /// A merge patch; it names the resourceVersion that it is meant for.
    Patch(Value),
}

pub(super) fn decide(observed: &Observed<'_>) -> Plan {
    let draft = Draft::of(observed);
    if observed.subject.is_being_deleted() {
        return terminate(observed.subject, draft);
    }
    match (pause(observed), &observed.subject.spec) {
        (Some(pause), _) => rest(draft, pause),
        (None, Err(misconfigured)) => misread(draft, misconfigured),
        (None, Ok(spec)) => provide(observed, spec, draft),
    }
}

/// The Addon is let go once its status says that it is being deleted. What it owns goes by its owner references.
fn terminate(subject: &Subject, mut draft: Draft) -> Plan {
    draft.conclude(
        Verdict::waiting(reasons::TERMINATING, "Addon is being deleted.").in_phase(Phase::Terminating),
    );
    let told = draft.status == subject.status;
    let steps = if told && subject.has_finalizer() { vec![drop_finalizer(subject)] } else { Vec::new() };
    draft.plan(steps)
}

fn pause(observed: &Observed<'_>) -> Option<(Reason, &'static str)> {
    if observed.all_paused {
        let message = "Nothing is done while .spec.pause of AddonOperator \"addon-operator\" is set.";
        return Some((reasons::ADDON_OPERATOR_PAUSED, message));
    }
    let paused = observed.subject.spec.as_ref().is_ok_and(|spec| spec.pause);
    paused.then_some((reasons::ADDON_PAUSED, "Nothing is done while .spec.pause is set."))
}

fn rest(mut draft: Draft, (reason, message): (Reason, &str)) -> Plan {
    draft.set(addon::PAUSED, Holds::True, reason, message);
    draft.plan(Vec::new())
}

fn misread(mut draft: Draft, misconfigured: &Misconfigured) -> Plan {
    draft.status.conditions.remove(&addon::PAUSED);
    draft.conclude(Verdict::wrong(misconfigured.to_string()));
    draft.plan(Vec::new())
}

/// Namespaces, then the instance in one of them; what the instance says decides the rest.
fn provide(observed: &Observed<'_>, spec: &AddonSpec, mut draft: Draft) -> Plan {
    let subject = observed.subject;
    draft.status.conditions.remove(&addon::PAUSED);
    let target = target(&spec.install);
    let namespaces = namespaces::provide(observed, spec, target.as_ref().ok().copied());
    let provision = match &target {
        Ok(target) => instance::provide(observed, spec, target),
        Err(_) => Provision::none(),
    };
    let found = provision.ours();
    draft.next = deletion::hand_shake(&mut draft, subject, spec, found);
    mirror(&mut draft, observed.mirror, found);
    draft.conclude(judge(spec, target.err(), &namespaces.unready, &provision));

    let mut steps = Vec::new();
    if !subject.has_finalizer() {
        steps.push(add_finalizer(subject));
    }
    steps.extend(namespaces.steps);
    steps.extend(provision.step);
    draft.plan(steps)
}

fn judge(
    spec: &AddonSpec,
    misconfigured: Option<Misconfigured>,
    unready_namespaces: &[String],
    provision: &Provision<'_>,
) -> Verdict {
    if let Some(misconfigured) = misconfigured {
        return Verdict::wrong(misconfigured.to_string());
    }
    if let instance::State::Foreign(words) = &provision.state {
        return Verdict::wrong(words.clone());
    }
    if !unready_namespaces.is_empty() {
        let message = format!("Waiting for namespaces: {}.", unready_namespaces.join("; "));
        return Verdict::waiting(reasons::UNREADY_NAMESPACES, message);
    }
    match &provision.state {
        instance::State::Waiting(words) => {
            Verdict::waiting(reasons::ADDON_INSTANCE_NOT_INSTALLED, words.clone())
        }
        instance::State::Ours(found)
            if spec.install_ack_required && !found.says(&crate::vocabulary::instance::INSTALLED) =>
        {
            Verdict::waiting(reasons::ADDON_INSTANCE_NOT_INSTALLED, messages::NOT_INSTALLED)
        }
        instance::State::Ours(_) | instance::State::Foreign(_) => Verdict::ready(),
    }
}

fn mirror(draft: &mut Draft, mirror: MirrorTimeouts, instance: Option<&Instance>) {
    let timeout = instance.and_then(Instance::timeout).filter(|_| mirror == MirrorTimeouts::On);
    match timeout {
        Some(timeout) => {
            let message = timeout.message.clone();
            draft.set(addon::HEARTBEAT_TIMEOUT, Holds::True, reasons::HEARTBEAT_TIMEOUT, message);
        }
        None => drop(draft.status.conditions.remove(&addon::HEARTBEAT_TIMEOUT)),
    }
}

/// The state of an Addon in one word.
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

/// What is said of an Addon as a whole.
struct Verdict {
    available: Holds,
    reason: Reason,
    message: String,
    phase: Phase,
}

impl Verdict {
    fn ready() -> Self {
        let message = "The namespaces and the instance of the add-on are there.".to_owned();
        Self { available: Holds::True, reason: reasons::FULLY_RECONCILED, message, phase: Phase::Ready }
    }

    fn waiting(reason: Reason, message: impl Into<String>) -> Self {
        Self { available: Holds::False, reason, message: message.into(), phase: Phase::Pending }
    }

    fn wrong(message: String) -> Self {
        Self::waiting(reasons::CONFIGURATION_ERROR, message).in_phase(Phase::Error)
    }

    fn in_phase(self, phase: Phase) -> Self {
        Self { phase, ..self }
    }
}

/// The status as it is being written.
struct Draft {
    status: Status,
    generation: Option<i64>,
    now: Timestamp,
    next: Next,
}

impl Draft {
    fn of(observed: &Observed<'_>) -> Self {
        let generation = observed.subject.metadata.generation;
        let mut status = observed.subject.status.clone();
        status.observed_generation = generation.or(status.observed_generation);
        Self { status, generation, now: whole_seconds(observed.now), next: Next::OnChange }
    }

    fn set(&mut self, type_: ConditionType, holds: Holds, reason: Reason, message: impl Into<String>) {
        let wish = Desired::new(type_, holds, reason, shorten(&message.into(), LONGEST_MESSAGE));
        let wish = match self.generation {
            Some(generation) => wish.observed_at(generation),
            None => wish,
        };
        // Whether anything changed is seen from the whole.
        let _ = self.status.conditions.upsert(wish, TransitionKey::Status, self.now);
    }

    fn conclude(&mut self, verdict: Verdict) {
        if verdict.available == Holds::True {
            self.set(addon::INSTALLED, Holds::True, reasons::ADDON_INSTALLED, "Addon has been available.");
        }
        self.set(addon::AVAILABLE, verdict.available, verdict.reason, verdict.message);
        self.status.phase = Some(verdict.phase.as_str().to_owned());
    }

    fn plan(self, steps: Vec<Step>) -> Plan {
        Plan { steps, status: self.status, next: self.next }
    }
}

fn add_finalizer(subject: &Subject) -> Step {
    let mut finalizers = subject.finalizers().to_vec();
    finalizers.push(addon::FINALIZER.to_owned());
    set_finalizers(subject, &finalizers)
}

fn drop_finalizer(subject: &Subject) -> Step {
    let others = subject.finalizers().iter().filter(|finalizer| *finalizer != addon::FINALIZER);
    set_finalizers(subject, &others.cloned().collect::<Vec<_>>())
}

fn set_finalizers(subject: &Subject, finalizers: &[String]) -> Step {
    let version = &subject.metadata.resource_version;
    let patch = json!({"metadata": {"resourceVersion": version, "finalizers": finalizers}});
    Step { piece: Piece::Addon, change: Change::Patch(patch) }
}
