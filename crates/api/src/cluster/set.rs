//! `ManagedClusterSet` groups clusters; `ManagedClusterSetBinding` lets the placements of a namespace select from a set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schemas;

/// `spec` selects the clusters of the set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSet",
    plural = "managedclustersets",
    shortname = "mclset",
    shortname = "mclsets",
    status = "ManagedClusterSetStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClusterSet is a group of clusters. The hub writes the status.",
    printcolumn(
        name = "Empty",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct ManagedClusterSetSpec {
    /// `clusterSelector` selects the clusters of the set. Defaults to the type `ExclusiveClusterSetLabel`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::cluster_selector")]
    pub cluster_selector: ClusterSelector,
}

empty_if_missing!(ManagedClusterSetSpec);

/// How the clusters of the set are selected.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterSelector {
    /// `selectorType` is `ExclusiveClusterSetLabel` (clusters whose label
    /// `cluster.open-cluster-management.io/clusterset` is the name of the set) or `LabelSelector` (clusters that
    /// `labelSelector` matches). Defaults to `ExclusiveClusterSetLabel`.
    #[serde(default)]
    pub selector_type: SelectorType,

    /// `labelSelector` matches the labels of clusters, for the type `LabelSelector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// How the clusters of a set are selected: `ExclusiveClusterSetLabel` or `LabelSelector`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// Clusters whose label `cluster.open-cluster-management.io/clusterset` is the name of the set.
    #[default]
    ExclusiveClusterSetLabel,
    /// Clusters that a label selector matches.
    LabelSelector,
    /// Any other value. No cluster belongs to the set.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// `status` is the observed state of the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedClusterSetStatus {
    /// `conditions` describe the set. ClusterSetEmpty says whether the set has no clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// `spec` names the set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta2",
    kind = "ManagedClusterSetBinding",
    plural = "managedclustersetbindings",
    shortname = "mclsetbinding",
    shortname = "mclsetbindings",
    namespaced,
    status = "ManagedClusterSetBindingStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ManagedClusterSetBinding lets the placements of its namespace select clusters from a ManagedClusterSet. Its \
           name must be the name of the set. The hub writes the status.",
    printcolumn(name = "Set", type_ = "string", json_path = ".spec.clusterSet"),
    printcolumn(
        name = "Bound",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Bound\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct ManagedClusterSetBindingSpec {
    /// `clusterSet` is the name of the ManagedClusterSet. It must equal the name of the binding.
    #[schemars(length(min = 1))]
    pub cluster_set: String,
}

empty_if_missing!(ManagedClusterSetBindingSpec);

/// `status` is the observed state of the binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedClusterSetBindingStatus {
    /// `conditions` describe the binding. Bound says whether the set exists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}
