//! `ClusterManagementAddOn`: an add-on of the fleet, its default version, and the placements that install it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ConfigReference, RolloutStrategy};
use crate::{is_default, schemas};

/// `spec` describes the add-on and the clusters it is installed on.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "ClusterManagementAddOn",
    plural = "clustermanagementaddons",
    shortname = "cma",
    shortname = "cmas",
    status = "ClusterManagementAddOnStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "ClusterManagementAddOn declares an add-on for the fleet: which versions it has, which clusters get it, and \
           how changes are rolled out. The addon-lifecycle-controller on the hub writes the status.",
    printcolumn(name = "Display Name", type_ = "string", json_path = ".spec.addOnMeta.displayName"),
    printcolumn(name = "Default", type_ = "string", json_path = ".status.defaultVersion"),
    printcolumn(
        name = "Progressing",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Progressing\")].status"
    ),
    printcolumn(
        name = "Why",
        type_ = "string",
        priority = 1,
        json_path = ".status.conditions[?(@.type==\"Progressing\")].message"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct ClusterManagementAddOnSpec {
    /// `addOnMeta` is a display name and a description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,

    /// `supportedConfigs` lists the resource types that the add-on accepts as configuration, each with an optional
    /// default object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<SupportedConfig>,

    /// `defaultVersion` is the version for clusters that do not request one. Defaults to the highest version that is
    /// not a pre-release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub default_version: Option<String>,

    /// `installStrategy` selects the clusters that the add-on is installed on. Defaults to type `Manual`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::install_strategy")]
    pub install_strategy: InstallStrategy,
}

empty_if_missing!(ClusterManagementAddOnSpec);

/// A display name and a description for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddOnMeta {
    /// `displayName` is the name of the add-on for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// `description` says what the add-on does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A resource type that the add-on accepts as configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SupportedConfig {
    /// `group` is the API group of the resource type. Defaults to the core group.
    #[serde(default)]
    #[schemars(schema_with = "schemas::optional_string")]
    pub group: String,

    /// `resource` is the plural resource name.
    #[schemars(length(min = 1))]
    pub resource: String,

    /// `defaultConfig` is the object that applies where neither the placement nor the ManagedClusterAddOn names another
    /// of this type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config: Option<ConfigReferent>,
}

/// The namespace and name of a configuration object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ConfigReferent {
    /// `namespace` is the namespace of the configuration object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `name` is the name of the configuration object.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// The clusters that the add-on is installed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InstallStrategy {
    /// `type` is `Manual` (users create ManagedClusterAddOns) or `Placements` (the addon-install-controller creates one
    /// for each cluster that a listed placement selects).
    #[serde(rename = "type")]
    pub type_: InstallType,

    /// `placements` lists the placements for the type `Placements`. If several of them select the same cluster, the
    /// last one in the list is the assigned placement of that cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub placements: Vec<PlacementStrategy>,
}

/// Who creates the ManagedClusterAddOns: `Manual` (users) or `Placements` (the install controller, for the clusters
/// that placements select).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallType {
    /// Users create the ManagedClusterAddOns.
    #[default]
    Manual,
    /// The install controller creates a ManagedClusterAddOn for each selected cluster.
    Placements,
    /// Any other value. The install controller neither creates nor deletes ManagedClusterAddOns for it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A placement, the version for its clusters, and how that version is rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PlacementStrategy {
    /// `namespace` is the namespace of the Placement.
    #[schemars(length(min = 1))]
    pub namespace: String,

    /// `name` is the name of the Placement.
    #[schemars(length(min = 1))]
    pub name: String,

    /// `addonTemplate` is the version and the configuration for the clusters of this placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addon_template: Option<PlacedTemplate>,

    /// `rolloutStrategy` controls how many clusters change at a time and when a cluster counts as successful. Defaults
    /// to type `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,

    /// `paused` stops the rollout: while it is true, no further cluster starts to change, and clusters that have
    /// started finish. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
}

/// The version and the configuration for the clusters of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PlacedTemplate {
    /// `installVersion` is the requested version. If it is empty, the default version of the add-on is used.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub install_version: String,

    /// `configs` lists the configuration objects. An entry without a namespace refers to the namespace of the
    /// placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<ConfigReference>,
}

/// `status` is the observed versions of the add-on and the progress of its rollouts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterManagementAddOnStatus {
    /// `supportedVersions` lists the versions for which there is an AddOnTemplate, in ascending order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub supported_versions: Vec<String>,

    /// `defaultVersion` is the version for clusters that do not request one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_version: String,

    /// `installProgressions` is the progress of the rollout for each placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub install_progressions: Vec<InstallProgression>,

    /// `conditions` describe the add-on over all clusters. Progressing is True while a cluster is changing or waiting
    /// to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// The progress of the rollout on the clusters of one placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InstallProgression {
    /// `namespace` is the namespace of the Placement.
    pub namespace: String,

    /// `name` is the name of the Placement.
    pub name: String,

    /// `version` is the version that is being rolled out to the clusters of this placement.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// `counts` is the number of clusters in each state.
    pub counts: ProgressionCounts,

    /// `waiting` lists what the clusters that have not started wait for. At most 20 entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting: Vec<WaitingClusters>,

    /// `unselected` lists clusters that have started the change and that the placement no longer selects, usually because
    /// they are unreachable. They are included in `counts`, in the decision group that they were last in. At most 1000
    /// entries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["cluster"]))]
    pub unselected: Vec<UnselectedCluster>,

    /// `conditions` describe the rollout of this placement. Progressing is True while a cluster is changing or waiting
    /// to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// The number of clusters of a placement in each state. A cluster that is assigned to a later placement in the list is
/// not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProgressionCounts {
    /// `selected` is the number of clusters that are assigned to this placement.
    pub selected: u32,
    /// `waiting` is the number of clusters that the rollout has not admitted yet.
    pub waiting: u32,
    /// `progressing` is the number of clusters that are changing.
    pub progressing: u32,
    /// `succeeded` is the number of clusters that meet the success criteria with the requested version.
    pub succeeded: u32,
    /// `failed` is the number of clusters on which applying the version failed.
    pub failed: u32,
    /// `timedOut` is the number of clusters that did not succeed within `progressDeadline`.
    pub timed_out: u32,
    /// `overridden` is the number of clusters whose version a user has set on the ManagedClusterAddOn.
    pub overridden: u32,
}

/// A cluster that a placement no longer selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct UnselectedCluster {
    /// `cluster` is the name of the cluster.
    pub cluster: String,
    /// `groupIndex` is the index of the decision group that the cluster was last in.
    pub group_index: u32,
    /// `groupName` is the name of that decision group, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
}

/// Clusters that wait for the same reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WaitingClusters {
    /// `reason` is the reason as a stable code: `Paused`, `InvalidStrategy`, `Stopped`, `EmptyMandatoryGroup`,
    /// `OverriddenMandatoryGroup`, `EarlierGroup`, `ConcurrencyLimit` or `PlacementUnsettled`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// `for` is the reason, for people.
    #[serde(rename = "for")]
    pub for_: String,
    /// `count` is the number of clusters that wait for this reason.
    pub count: u32,
    /// `clusters` lists the names of the first 10 of these clusters.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub clusters: Vec<String>,
}
