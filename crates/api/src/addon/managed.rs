//! `ManagedClusterAddOn`: one add-on on one cluster, in the namespace of that cluster on the hub.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ConfigReference;
use crate::schemas;

/// `spec` is the version and the configuration that are requested for this cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ManagedClusterAddOn",
    plural = "managedclusteraddons",
    shortname = "mca",
    shortname = "mcas",
    namespaced,
    status = "ManagedClusterAddOnStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClusterAddOn is one add-on on one managed cluster, in the namespace of that cluster. The \
           addon-install-controller creates it for each cluster that a Placement selects, or a user does. The \
           addon-lifecycle-controller writes the status, except the condition Heartbeat, which the cluster's agent \
           writes. The addon-lifecycle-controller sets the condition Degraded with the reason VersionUnsupported, and \
           the add-on itself can set it with any other reason.",
    printcolumn(name = "Version", type_ = "string", json_path = ".status.currentVersion"),
    printcolumn(name = "Desired", type_ = "string", json_path = ".status.installVersion"),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(
        name = "Degraded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Degraded\")].status"
    ),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].reason"
    )
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct ManagedClusterAddOnSpec {
    /// `installNamespace` is the namespace of the add-on on the managed cluster; templates refer to it as
    /// `{{INSTALL_NAMESPACE}}`. Defaults to `open-cluster-management-agent-addon`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::install_namespace")]
    pub install_namespace: Option<String>,

    /// `installVersion` is the requested version. The addon-install-controller sets it to the version of the assigned
    /// placement, unless a user has set it. If it is empty, the default version of the add-on is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub install_version: String,

    /// `configs` lists the configuration objects for this add-on on this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<ConfigReference>,
}

empty_if_missing!(ManagedClusterAddOnSpec);

/// `status` is the observed state of the add-on on this cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedClusterAddOnStatus {
    /// `installVersion` is the version of the last change that started on the cluster. When the rollout admits the
    /// cluster, it is set to `spec.installVersion`, or to the default version if that is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub install_version: String,

    /// `currentVersion` is the version whose manifests are completely applied on the cluster. It is `unknown` during a
    /// change and after a failed change, and empty before the first installation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_version: String,

    /// `lastVersion` is the version that the cluster had before `installVersion`. It is `unknown` if that version did not
    /// exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_version: String,

    /// `failure` is set if the last change failed because the version did not exist or because the deadline was
    /// exceeded. It is absent during a change, after a success, and after any other failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<ChangeFailure>,

    /// `configReferences` lists the configuration objects that the applied manifests were rendered with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub config_references: Vec<AppliedConfig>,

    /// `conditions` describe the add-on on this cluster: Progressing, Configured, ManifestApplied, Available,
    /// Heartbeat, Degraded and Deleting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// How a change of the version failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeFailure {
    /// `code` is `InvalidVersion` if no such version existed when it was requested, or `TimedOut` if the change took
    /// longer than the `progressDeadline` of its rollout.
    pub code: ChangeFailureCode,
    /// `deadlineSeconds` is the deadline that a `TimedOut` change exceeded. If the `progressDeadline` of the rollout is
    /// changed afterwards, the time starts again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0), extend("format" = "int64"))]
    pub deadline_seconds: Option<u64>,
}

/// How a change of the version failed, as a stable code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ChangeFailureCode {
    /// No such version existed when it was requested.
    InvalidVersion,
    /// The change took longer than its deadline.
    TimedOut,
    /// Any other value.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A configuration object and the content it had when manifests were rendered with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppliedConfig {
    /// `group` is the API group of the configuration object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `resource` is the plural resource name of the configuration object.
    pub resource: String,
    /// `desiredConfig` identifies the configuration object and its content.
    pub desired_config: HashedConfig,
}

/// A configuration object and a hash of its spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HashedConfig {
    /// `namespace` is the namespace of the configuration object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `name` is the name of the configuration object.
    pub name: String,
    /// `specHash` is the SHA-256 hash of the spec, in hexadecimal.
    pub spec_hash: String,
}
