//! `ManagedClusterAddOn`: an add-on on one cluster, in the namespace of that cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ConfigReference;
use crate::schemas;

/// What of an add-on a cluster is to have.
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
    doc = "An add-on on one cluster.",
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
#[schemars(!default, !remote, description = "What of the add-on the cluster is to have.")]
pub struct ManagedClusterAddOnSpec {
    /// The namespace of the add-on on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::install_namespace")]
    pub install_namespace: Option<String>,

    /// The version; the default of the add-on, if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub install_version: String,

    /// How it is deployed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub configs: Vec<ConfigReference>,
}

may_be_missing!(ManagedClusterAddOnSpec);

/// What of an add-on a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What of the add-on the cluster has.")]
pub struct ManagedClusterAddOnStatus {
    /// The version that is being, or has been, brought to the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub install_version: String,

    /// The version that is there; `unknown` while that changes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub current_version: String,

    /// The version that was asked for before; `unknown` if there was no such version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub last_version: String,

    /// The configurations that the deployed objects were made with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub config_references: Vec<AppliedConfig>,

    /// The state of the add-on on this cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// A configuration as it was when it was used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A configuration as it was when it was used.")]
pub struct AppliedConfig {
    /// The group of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural of its kind.
    pub resource: String,
    /// The object.
    pub desired_config: HashedConfig,
}

/// A configuration, and what its spec was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A configuration, and what its spec was.")]
pub struct HashedConfig {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The SHA-256 of its spec.
    pub spec_hash: String,
}
