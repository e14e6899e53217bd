//! What is read of an Addon and of its instance. Whatever is there can be read: what makes no sense is found to be so,
//! object by object.

use bellwether_api::addons_managed::{Addon, AddonInstall, AddonInstance, AddonSpec};
use bellwether_conditions::{Condition, ConditionSet, ConditionType};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::loose::{self, Loose};
use crate::vocabulary;

/// An Addon as it was read.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Result<AddonSpec, Misconfigured>,
    pub(super) status: Status,
}

/// The status of an Addon, with what others keep there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) observed_generation: Option<i64>,
    pub(super) conditions: ConditionSet,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) phase: Option<String>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

/// Why a spec cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Misconfigured {
    #[error(".spec cannot be read: {0}")]
    Unreadable(String),
    #[error(".spec.install.type is {0:?}, which is none of OLMOwnNamespace, OLMAllNamespaces and External")]
    UnknownType(String),
    #[error(".spec.install.{block} is required when .spec.install.type is {type_}")]
    MissingBlock { type_: &'static str, block: &'static str },
    #[error(".spec.install.{block}.namespace is empty")]
    NoNamespace { block: &'static str },
}

impl Subject {
    pub(super) fn of(addon: &Loose<Addon>) -> Self {
        let spec = loose::read(&addon.spec).map_err(|error| Misconfigured::Unreadable(error.to_string()));
        Self { metadata: addon.meta().clone(), spec, status: loose::read(&addon.status).unwrap_or_default() }
    }

    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    pub(super) fn is_being_deleted(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub(super) fn finalizers(&self) -> &[String] {
        self.metadata.finalizers.as_deref().unwrap_or_default()
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.finalizers().iter().any(|finalizer| finalizer == vocabulary::addon::FINALIZER)
    }

    /// What makes the Addon an owner.
    pub(super) fn as_owner(&self, role: Role) -> OwnerReference {
        OwnerReference {
            api_version: Addon::api_version(&()).into_owned(),
            kind: Addon::kind(&()).into_owned(),
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.uid().to_owned(),
            controller: Some(role == Role::Controller),
            block_owner_deletion: Some(true),
        }
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The names of the namespaces that matter to it.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let listed = self.spec.iter().flat_map(|spec| &spec.namespaces).map(|listed| listed.name.as_str());
        listed.chain(self.target())
    }

    /// The namespace that it is installed in, where it says so.
    pub(super) fn target(&self) -> Option<&str> {
        self.spec.as_ref().ok().and_then(|spec| target(&spec.install).ok())
    }
}

/// Whether an owner is the one that decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Controller,
    Member,
}

/// The namespace that an add-on is installed in.
pub(super) fn target(install: &AddonInstall) -> Result<&str, Misconfigured> {
    let (type_, block, namespace) = match install.type_.as_str() {
        "OLMOwnNamespace" => {
            let block = install.olm_own_namespace.as_ref();
            ("OLMOwnNamespace", "olmOwnNamespace", block.map(|block| &block.namespace))
        }
        "OLMAllNamespaces" => {
            let block = install.olm_all_namespaces.as_ref();
            ("OLMAllNamespaces", "olmAllNamespaces", block.map(|block| &block.namespace))
        }
        "External" => ("External", "external", install.external.as_ref().map(|block| &block.namespace)),
        other => return Err(Misconfigured::UnknownType(other.to_owned())),
    };
    match namespace {
        None => Err(Misconfigured::MissingBlock { type_, block }),
        Some(namespace) if namespace.is_empty() => Err(Misconfigured::NoNamespace { block }),
        Some(namespace) => Ok(namespace),
    }
}

/// An AddonInstance as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Instance {
    pub(super) metadata: ObjectMeta,
    pub(super) period: Option<String>,
    pub(super) marked_for_deletion: bool,
    pub(super) conditions: ConditionSet,
}

impl Instance {
    pub(super) fn of(instance: &Loose<AddonInstance>) -> Self {
        let (spec, status) = (&instance.spec, &instance.status);
        let member = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
        Self {
            metadata: instance.meta().clone(),
            period: member(spec, "heartbeatUpdatePeriod").as_str().map(str::to_owned),
            marked_for_deletion: member(spec, "markedForDeletion") == Value::Bool(true),
            conditions: serde_json::from_value(member(status, "conditions")).unwrap_or_default(),
        }
    }

    pub(super) fn says(&self, type_: &ConditionType) -> bool {
        self.conditions.is_true(type_)
    }

    /// What it says of its health, while it is silent.
    pub(super) fn timeout(&self) -> Option<&Condition> {
        let healthy = self.conditions.get(&vocabulary::instance::HEALTHY)?;
        (healthy.reason == vocabulary::reasons::HEARTBEAT_TIMEOUT).then_some(healthy)
    }

    pub(super) fn owners(&self) -> &[OwnerReference] {
        self.metadata.owner_references.as_deref().unwrap_or_default()
    }

    pub(super) fn controller(&self) -> Option<&OwnerReference> {
        self.owners().iter().find(|owner| owner.controller == Some(true))
    }
}

/// Whether an owner is an Addon, of whatever version.
pub(super) fn is_addon(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    group == Some(vocabulary::GROUP) && owner.kind == Addon::kind(&())
}
