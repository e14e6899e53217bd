//! `ManagedCluster`: a cluster of the fleet. Its namespace on the hub has its name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{is_default, schemas};

/// What the hub knows of a cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1",
    kind = "ManagedCluster",
    plural = "managedclusters",
    shortname = "mcl",
    shortname = "mcls",
    status = "ManagedClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster of the fleet.",
    printcolumn(name = "Hub Accepted", type_ = "boolean", json_path = ".spec.hubAcceptsClient"),
    printcolumn(
        name = "Managed Cluster URLs",
        type_ = "string",
        json_path = ".spec.managedClusterClientConfigs[*].url"
    ),
    printcolumn(
        name = "Joined",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ManagedClusterJoined\")].status"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ManagedClusterConditionAvailable\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "What the hub knows of the cluster.")]
pub struct ManagedClusterSpec {
    /// Whether the cluster may be a part of the fleet. Accepting it gives it its namespace.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hub_accepts_client: bool,

    /// How long the lease of the cluster may go without being renewed, in seconds; after five times as long the cluster
    /// counts as out of reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::lease_duration")]
    pub lease_duration_seconds: Option<i32>,

    /// What keeps placements from choosing the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,

    /// How to reach the API of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
}

may_be_missing!(ManagedClusterSpec);

/// Something that keeps placements from choosing a cluster, unless they tolerate it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Something that keeps placements from choosing the cluster, unless they tolerate it.")]
pub struct Taint {
    /// Its name.
    #[schemars(length(max = 316))]
    #[schemars(regex(
        pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    pub key: String,

    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// What it does to placements that do not tolerate it.
    pub effect: TaintEffect,

    /// Since when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// The cluster is not chosen, and no longer chosen where it was.
    #[default]
    NoSelect,
    /// The cluster is chosen when there is no other.
    PreferNoSelect,
    /// The cluster is not chosen anew, and stays where it was.
    NoSelectIfNew,
    /// One that is not known here; it keeps nobody away.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How to reach the API of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How to reach the API of the cluster.")]
pub struct ClientConfig {
    /// The address.
    pub url: String,

    /// Whom to trust there, in base64.
    #[serde(rename = "caBundle", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::bytes")]
    pub ca_bundle: Option<String>,
}

/// What a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What the cluster says of itself.")]
pub struct ManagedClusterStatus {
    /// Whether it is accepted, has joined, and is in reach.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// What its nodes have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,

    /// What its nodes have for workloads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,

    /// What runs there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ManagedClusterVersion>,

    /// What the cluster claims of itself, for placements to choose by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::named_values")]
    pub cluster_claims: Vec<ClusterClaim>,
}

/// Versions of what runs on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Versions of what runs on the cluster.")]
pub struct ManagedClusterVersion {
    /// Of Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// Something that a cluster claims of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Something that the cluster claims of itself.")]
pub struct ClusterClaim {
    /// What it is about.
    pub name: String,
    /// What is claimed.
    pub value: String,
}
