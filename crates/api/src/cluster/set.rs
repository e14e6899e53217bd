//! `ManagedClusterSet` and `ManagedClusterSetBinding`: clusters by what they are for, and the namespaces whose
//! placements may choose from them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schemas;

/// Which clusters are in a set.
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
    doc = "Clusters that belong together.",
    printcolumn(
        name = "Empty",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ClusterSetEmpty\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "Which clusters are in the set.")]
pub struct ManagedClusterSetSpec {
    /// By what they are in it.
    #[serde(default)]
    #[schemars(schema_with = "schemas::cluster_selector")]
    pub cluster_selector: ClusterSelector,
}

may_be_missing!(ManagedClusterSetSpec);

/// By what clusters are in a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "By what clusters are in the set.")]
pub struct ClusterSelector {
    /// The way.
    #[serde(default)]
    pub selector_type: SelectorType,

    /// Of clusters with these labels, by the type `LabelSelector`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
}

/// How clusters get into a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SelectorType {
    /// By the label `cluster.open-cluster-management.io/clusterset`, which names one set.
    #[default]
    ExclusiveClusterSetLabel,
    /// By any labels.
    LabelSelector,
    /// A way that is not known here; nobody gets in by it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How a set is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the set is.")]
pub struct ManagedClusterSetStatus {
    /// Whether it is empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// A set that placements of a namespace may choose from.
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
    doc = "Lets the placements of a namespace choose from a set. Its name is that of the set.",
    printcolumn(name = "Set", type_ = "string", json_path = ".spec.clusterSet"),
    printcolumn(
        name = "Bound",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Bound\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "The set that placements of this namespace may choose from.")]
pub struct ManagedClusterSetBindingSpec {
    /// Its name, which is also the name of the binding.
    #[schemars(length(min = 1))]
    pub cluster_set: String,
}

may_be_missing!(ManagedClusterSetBindingSpec);

/// How a binding is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the binding is.")]
pub struct ManagedClusterSetBindingStatus {
    /// Whether there is such a set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}
