//! `ManagedCluster`: a cluster of the fleet. Its namespace on the hub has the same name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{is_default, schemas};

/// `spec` is whether the hub accepts the cluster, its lease duration and its taints.
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
    doc = "ManagedCluster is a cluster of the fleet. Everything that belongs to the cluster is in the namespace of the \
           same name on the hub. The cluster's agent and the cluster-controller of the hub write the status.",
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
#[schemars(!default, !remote)]
pub struct ManagedClusterSpec {
    /// `hubAcceptsClient` accepts the cluster into the fleet. When it becomes true, the hub creates the namespace of
    /// the cluster. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hub_accepts_client: bool,

    /// `leaseDurationSeconds` is the maximum number of seconds between two renewals of the Lease by the agent. After
    /// five times this duration without a renewal the cluster counts as unreachable. Defaults to 60.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::lease_duration")]
    pub lease_duration_seconds: Option<i32>,

    /// `taints` keep placements that do not tolerate them from selecting the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,

    /// `managedClusterClientConfigs` lists the addresses of the cluster's API server. Bellwether does not use them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_cluster_client_configs: Vec<ClientConfig>,
}

empty_if_missing!(ManagedClusterSpec);

/// A taint of the cluster. Placements that do not tolerate it do not select the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Taint {
    /// `key` is the name of the taint.
    #[schemars(length(max = 316))]
    #[schemars(regex(
        pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ))]
    pub key: String,

    /// `value` is the value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// `effect` is what the taint does to placements that do not tolerate it: `NoSelect` (the cluster is not selected,
    /// and deselected if it was), `PreferNoSelect` (the cluster is selected only if there are not enough others) or
    /// `NoSelectIfNew` (the cluster is not newly selected, but stays selected).
    pub effect: TaintEffect,

    /// `timeAdded` is when the taint was added. The hub sets it if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// The effect of a taint on placements that do not tolerate it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// The cluster is not selected, and deselected if it was.
    #[default]
    NoSelect,
    /// The cluster is selected only if there are not enough others.
    PreferNoSelect,
    /// The cluster is not newly selected, but stays selected.
    NoSelectIfNew,
    /// Any other value. The taint has no effect.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// The address of a cluster's API server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClientConfig {
    /// `url` is the URL of the API server.
    pub url: String,

    /// `caBundle` is the CA certificates for verifying the API server, as base64-encoded PEM.
    #[serde(rename = "caBundle", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::base64")]
    pub ca_bundle: Option<String>,
}

/// `status` is the observed state of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedClusterStatus {
    /// `conditions` describe the cluster: HubAcceptedManagedCluster, ManagedClusterJoined,
    /// ManagedClusterConditionAvailable and Deleting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// `capacity` is the total resources of the cluster's nodes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,

    /// `allocatable` is the resources of the cluster's nodes that are available to pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,

    /// `version` is the versions of the software on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<ManagedClusterVersion>,

    /// `clusterClaims` lists properties that the cluster reports about itself. Placements can select clusters by them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::cluster_claims")]
    pub cluster_claims: Vec<ClusterClaim>,
}

/// The versions of the software on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedClusterVersion {
    /// `kubernetes` is the Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
}

/// A property that the cluster reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterClaim {
    /// `name` is the name of the claim.
    pub name: String,
    /// `value` is the value of the claim.
    pub value: String,
}
