//! Plans the AddonInstance in the target namespace of an Addon: a missing one is created, one without a controlling owner is
//! adopted, one that the Addon owns is repaired, and one that belongs to another owner is not changed.

use bellwether_api::addons_managed::{AddonInstance, AddonSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource as _;
use serde_json::{Map, Value, json};

use super::deletion::DeletionMark;
use super::{Change, ManagedObject, Observed, Step};
use crate::Period;
use crate::addon::object::{AddonObject, InstanceObject, OwnerRole};
use crate::vocabulary::INSTANCE_NAME;

/// The write that the instance needs, if any, and its current state.
pub(super) struct InstancePlan<'a> {
    pub(super) step: Option<Step>,
    pub(super) state: InstanceState<'a>,
}

/// The state of the instance, for the condition `Available` of the Addon.
pub(super) enum InstanceState<'a> {
    /// It exists, and belongs to this Addon or is about to be adopted by it.
    Owned(&'a InstanceObject),
    /// It belongs to another owner; the message names it.
    OwnedByOther(String),
    /// It does not exist or could not be written; the message has the cause.
    NotReady(String),
}

impl<'a> InstancePlan<'a> {
    /// The plan for an Addon without a valid target namespace.
    pub(super) fn without_target() -> Self {
        Self::not_ready("The target namespace is unknown, because .spec.install is invalid.")
    }

    fn not_ready(message: impl Into<String>) -> Self {
        Self { step: None, state: InstanceState::NotReady(message.into()) }
    }

    pub(super) fn owned(&self) -> Option<&'a InstanceObject> {
        match self.state {
            InstanceState::Owned(owned) => Some(owned),
            InstanceState::OwnedByOther(_) | InstanceState::NotReady(_) => None,
        }
    }
}

pub(super) fn plan<'a>(observed: &'a Observed<'_>, spec: &AddonSpec, target: &str) -> InstancePlan<'a> {
    let Some(found) = &observed.instance else {
        return plan_creation(observed, spec, target);
    };
    if found.metadata.deletion_timestamp.is_some() {
        return InstancePlan::not_ready(format!(
            "AddonInstance {target}/{INSTANCE_NAME} is being deleted; it is created again afterwards."
        ));
    }
    if let Some(owner) = found.controller().filter(|owner| owner.uid != observed.addon.uid()) {
        return InstancePlan {
            step: None,
            state: InstanceState::OwnedByOther(other_owner_message(target, owner)),
        };
    }
    let object = ManagedObject::Instance { namespace: target.to_owned() };
    if let Some(message) = observed.rejections.get(&object) {
        return InstancePlan::not_ready(format!(
            "AddonInstance {target}/{INSTANCE_NAME} cannot be changed: {message}"
        ));
    }
    let patch = repair_patch(observed.addon, spec, found);
    let step = patch.map(|patch| Step { object, change: Change::Patch(patch) });
    InstancePlan { step, state: InstanceState::Owned(found) }
}

fn other_owner_message(target: &str, owner: &OwnerReference) -> String {
    let OwnerReference { kind, name, .. } = owner;
    format!(
        "AddonInstance {target}/{INSTANCE_NAME} belongs to {kind} {name:?}. A namespace has one AddonInstance: install \
         this Addon in another namespace, or delete {kind} {name:?}."
    )
}

fn plan_creation<'a>(observed: &Observed<'_>, spec: &AddonSpec, target: &str) -> InstancePlan<'a> {
    let namespace = observed.namespaces.get(target);
    if namespace.is_none_or(|namespace| namespace.deletion_timestamp.is_some()) {
        return InstancePlan::not_ready(format!(
            "AddonInstance {target}/{INSTANCE_NAME} cannot be created before its namespace is ready."
        ));
    }
    let object = ManagedObject::Instance { namespace: target.to_owned() };
    if let Some(message) = observed.rejections.get(&object) {
        return InstancePlan::not_ready(format!(
            "AddonInstance {target}/{INSTANCE_NAME} cannot be created: {message}"
        ));
    }
    let instance_spec = match DeletionMark::desired(observed.addon, spec, None) {
        DeletionMark::Set => {
            json!({"heartbeatUpdatePeriod": Period::DEFAULT_TEXT, "markedForDeletion": true})
        }
        DeletionMark::Clear | DeletionMark::Keep => json!({"heartbeatUpdatePeriod": Period::DEFAULT_TEXT}),
    };
    let change = Change::Create(json!({
        "apiVersion": AddonInstance::api_version(&()), "kind": AddonInstance::kind(&()),
        "metadata": {
            "name": INSTANCE_NAME, "namespace": target,
            "labels": spec.common_labels, "annotations": spec.common_annotations,
            "ownerReferences": [observed.addon.owner_reference(OwnerRole::Controller)],
        },
        "spec": instance_spec,
    }));
    let state =
        InstanceState::NotReady(format!("AddonInstance {target}/{INSTANCE_NAME} is not created yet."));
    InstancePlan { step: Some(Step { object, change }), state }
}

/// A merge patch that repairs the spec and the controlling owner of an instance; `None` if nothing has to change.
fn repair_patch(addon: &AddonObject, spec: &AddonSpec, found: &InstanceObject) -> Option<Value> {
    let changes = spec_changes(found, DeletionMark::desired(addon, spec, Some(found)));
    let version = &found.metadata.resource_version;
    let has_controller = found.controller().is_some();
    match (has_controller, changes.is_empty()) {
        (true, true) => None,
        (true, false) => Some(json!({"metadata": {"resourceVersion": version}, "spec": changes})),
        (false, _) => {
            let others = found.owners().iter().filter(|owner| owner.uid != addon.uid()).cloned();
            let owners: Vec<OwnerReference> =
                others.chain([addon.owner_reference(OwnerRole::Controller)]).collect();
            Some(
                json!({"metadata": {"resourceVersion": version, "ownerReferences": owners}, "spec": changes}),
            )
        }
    }
}

/// The fields of the instance's spec that must change. A valid period is not changed, because the add-on may set its own.
fn spec_changes(found: &InstanceObject, mark: DeletionMark) -> Map<String, Value> {
    let mut changes = Map::new();
    if Period::from_spec(found.period.as_deref()).validation_error().is_some() {
        changes.insert("heartbeatUpdatePeriod".into(), json!(Period::DEFAULT_TEXT));
    }
    match (mark, found.marked_for_deletion) {
        (DeletionMark::Set, false) => drop(changes.insert("markedForDeletion".into(), json!(true))),
        (DeletionMark::Clear, true) => drop(changes.insert("markedForDeletion".into(), json!(false))),
        (DeletionMark::Set, true) | (DeletionMark::Clear, false) | (DeletionMark::Keep, _) => {}
    }
    changes
}
