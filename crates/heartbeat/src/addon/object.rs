//! The fields of an Addon and of an AddonInstance that the controller reads. Malformed fields never fail the whole object:
//! an invalid spec becomes an [`InvalidSpec`], an invalid status counts as empty.

use bellwether_api::addons_managed::{Addon, AddonInstall, AddonInstance, AddonSpec};
use bellwether_conditions::{Condition, ConditionSet, ConditionType, kubernetes};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::lenient::{LenientObject, deserialize_or_default};
use crate::vocabulary;

/// An Addon, as read from the API server.
#[derive(Clone, Debug)]
pub(super) struct AddonObject {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Result<AddonSpec, InvalidSpec>,
    pub(super) status: Status,
}

/// The status of an Addon or AddonOperator; `others` has the fields that this controller does not use.
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

/// Why the spec of an Addon is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidSpec {
    #[error(".spec cannot be parsed: {0}")]
    Malformed(String),
    #[error(".spec.install.type is {0:?}, but must be OLMOwnNamespace, OLMAllNamespaces or External")]
    UnknownType(String),
    #[error(".spec.install.{block} is required when .spec.install.type is {type_}")]
    MissingBlock { type_: &'static str, block: &'static str },
    #[error(".spec.install.{block}.namespace must not be empty")]
    EmptyNamespace { block: &'static str },
}

impl AddonObject {
    pub(super) fn read(addon: &LenientObject<Addon>) -> Self {
        let spec =
            deserialize_or_default(&addon.spec).map_err(|error| InvalidSpec::Malformed(error.to_string()));
        let status = deserialize_or_default(&addon.status).unwrap_or_default();
        Self { metadata: addon.meta().clone(), spec, status }
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

    /// An owner reference to this Addon.
    pub(super) fn owner_reference(&self, role: OwnerRole) -> OwnerReference {
        OwnerReference {
            api_version: Addon::api_version(&()).into_owned(),
            kind: Addon::kind(&()).into_owned(),
            name: self.metadata.name.clone().unwrap_or_default(),
            uid: self.uid().to_owned(),
            controller: Some(role == OwnerRole::Controller),
            block_owner_deletion: Some(true),
        }
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The names of the listed namespaces and of the target namespace.
    pub(super) fn namespaces(&self) -> impl Iterator<Item = &str> {
        let listed = self.spec.iter().flat_map(|spec| &spec.namespaces).map(|listed| listed.name.as_str());
        listed.chain(self.target_namespace())
    }

    /// The namespace that the add-on is installed in, if the spec is valid.
    pub(super) fn target_namespace(&self) -> Option<&str> {
        self.spec.as_ref().ok().and_then(|spec| target_namespace(&spec.install).ok())
    }
}

/// Whether an owner reference has `controller: true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerRole {
    Controller,
    NonController,
}

/// The namespace that an add-on is installed in.
pub(super) fn target_namespace(install: &AddonInstall) -> Result<&str, InvalidSpec> {
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
        other => return Err(InvalidSpec::UnknownType(other.to_owned())),
    };
    match namespace {
        None => Err(InvalidSpec::MissingBlock { type_, block }),
        Some(namespace) if namespace.is_empty() => Err(InvalidSpec::EmptyNamespace { block }),
        Some(namespace) => Ok(namespace),
    }
}

/// An AddonInstance, as read from the API server.
#[derive(Clone, Debug, Default)]
pub(super) struct InstanceObject {
    pub(super) metadata: ObjectMeta,
    pub(super) period: Option<String>,
    pub(super) marked_for_deletion: bool,
    pub(super) conditions: ConditionSet,
}

impl InstanceObject {
    pub(super) fn read(instance: &LenientObject<AddonInstance>) -> Self {
        let (spec, status) = (&instance.spec, &instance.status);
        let field = |value: &Value, name: &str| value.get(name).cloned().unwrap_or_default();
        Self {
            metadata: instance.meta().clone(),
            period: field(spec, "heartbeatUpdatePeriod").as_str().map(str::to_owned),
            marked_for_deletion: field(spec, "markedForDeletion") == Value::Bool(true),
            conditions: kubernetes::parse_list(status.get("conditions")),
        }
    }

    pub(super) fn is_true(&self, type_: &ConditionType) -> bool {
        self.conditions.is_true(type_)
    }

    /// The condition `Healthy`, if the checker has marked the instance as silent.
    pub(super) fn heartbeat_timeout(&self) -> Option<&Condition> {
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

/// Whether an owner reference refers to an Addon, of any version of the API.
pub(super) fn is_addon(owner: &OwnerReference) -> bool {
    let group = owner.api_version.split_once('/').map(|(group, _)| group);
    group == Some(vocabulary::GROUP) && owner.kind == Addon::kind(&())
}
