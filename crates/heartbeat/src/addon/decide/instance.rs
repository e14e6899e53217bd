//! The instance of an Addon, in its target namespace: made where it is missing, repaired where it is its own, left
//! alone where it is another's.

use bellwether_api::addons_managed::{AddonInstance, AddonSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use serde_json::{Map, Value, json};

use super::deletion::Mark;
use super::{Change, Observed, Piece, Step};
use crate::Period;
use crate::addon::subject::{Instance, Role, Subject};
use crate::vocabulary::INSTANCE;

/// What to do about the instance, and how it stands.
pub(super) struct Provision<'a> {
    pub(super) step: Option<Step>,
    pub(super) state: State<'a>,
}

/// How an instance stands.
pub(super) enum State<'a> {
    /// It is there, and this Addon's.
    Ours(&'a Instance),
    /// It is another's, as these words say.
    Foreign(String),
    /// It is not there, and these words say what there is to wait for.
    Waiting(String),
}

impl<'a> Provision<'a> {
    /// Nothing, because nobody knows where.
    pub(super) fn none() -> Self {
        Self::waiting("It is not known where the instance belongs.")
    }

    fn waiting(words: impl Into<String>) -> Self {
        Self { step: None, state: State::Waiting(words.into()) }
    }

    pub(super) fn ours(&self) -> Option<&'a Instance> {
        match self.state {
            State::Ours(found) => Some(found),
            State::Foreign(_) | State::Waiting(_) => None,
        }
    }
}

pub(super) fn provide<'a>(observed: &'a Observed<'_>, spec: &AddonSpec, target: &str) -> Provision<'a> {
    let Some(found) = &observed.instance else {
        return create(observed, spec, target);
    };
    if found.metadata.deletion_timestamp.is_some() {
        return Provision::waiting(format!(
            "AddonInstance {target}/{INSTANCE} is being deleted, and made again when it has gone."
        ));
    }
    if let Some(owner) = found.controller().filter(|owner| owner.uid != observed.subject.uid()) {
        return Provision { step: None, state: State::Foreign(foreign(target, owner)) };
    }
    let piece = Piece::Instance { namespace: target.to_owned() };
    if let Some(words) = observed.refused.get(&piece) {
        return Provision::waiting(format!("AddonInstance {target}/{INSTANCE} cannot be changed: {words}"));
    }
    let patch = repair(observed.subject, spec, found);
    let step = patch.map(|patch| Step { piece, change: Change::Patch(patch) });
    Provision { step, state: State::Ours(found) }
}

fn foreign(target: &str, owner: &OwnerReference) -> String {
    let OwnerReference { kind, name, .. } = owner;
    format!(
        "AddonInstance {target}/{INSTANCE} belongs to {kind} {name:?}. A namespace has one instance: install this \
         Addon in another namespace, or delete {kind} {name:?}."
    )
}

fn create<'a>(observed: &Observed<'_>, spec: &AddonSpec, target: &str) -> Provision<'a> {
    let namespace = observed.namespaces.get(target);
    if namespace.is_none_or(|namespace| namespace.deletion_timestamp.is_some()) {
        return Provision::waiting(format!("AddonInstance {target}/{INSTANCE} waits for its namespace."));
    }
    let piece = Piece::Instance { namespace: target.to_owned() };
    if let Some(words) = observed.refused.get(&piece) {
        return Provision::waiting(format!("AddonInstance {target}/{INSTANCE} cannot be created: {words}"));
    }
    let wanted = match Mark::wanted(observed.subject, spec, None) {
        Mark::Set => json!({"heartbeatUpdatePeriod": Period::DEFAULT_TEXT, "markedForDeletion": true}),
        Mark::Unset | Mark::AsFound => json!({"heartbeatUpdatePeriod": Period::DEFAULT_TEXT}),
    };
    let change = Change::Create(json!({
        "apiVersion": AddonInstance::api_version(&()), "kind": AddonInstance::kind(&()),
        "metadata": {
            "name": INSTANCE, "namespace": target,
            "labels": spec.common_labels, "annotations": spec.common_annotations,
            "ownerReferences": [observed.subject.as_owner(Role::Controller)],
        },
        "spec": wanted,
    }));
    let state = State::Waiting(format!("AddonInstance {target}/{INSTANCE} is not there yet."));
    Provision { step: Some(Step { piece, change }), state }
}

/// A merge patch for what an instance lacks.
fn repair(subject: &Subject, spec: &AddonSpec, found: &Instance) -> Option<Value> {
    let wishes = wishes(found, Mark::wanted(subject, spec, Some(found)));
    let version = &found.metadata.resource_version;
    let owned = found.controller().is_some();
    match (owned, wishes.is_empty()) {
        (true, true) => None,
        (true, false) => Some(json!({"metadata": {"resourceVersion": version}, "spec": wishes})),
        (false, _) => {
            let others = found.owners().iter().filter(|owner| owner.uid != subject.uid()).cloned();
            let owners: Vec<OwnerReference> = others.chain([subject.as_owner(Role::Controller)]).collect();
            Some(json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}, "spec": wishes}))
        }
    }
}

/// What the spec of an instance should say and does not. A period that makes sense is the add-on's own business.
fn wishes(found: &Instance, mark: Mark) -> Map<String, Value> {
    let mut wishes = Map::new();
    if Period::of(found.period.as_deref()).shortcoming().is_some() {
        wishes.insert("heartbeatUpdatePeriod".into(), json!(Period::DEFAULT_TEXT));
    }
    match (mark, found.marked_for_deletion) {
        (Mark::Set, false) => drop(wishes.insert("markedForDeletion".into(), json!(true))),
        (Mark::Unset, true) => drop(wishes.insert("markedForDeletion".into(), json!(false))),
        (Mark::Set, true) | (Mark::Unset, false) | (Mark::AsFound, _) => {}
    }
    wishes
}
