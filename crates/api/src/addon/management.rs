//! `ClusterManagementAddOn`: an add-on of the fleet, and where it goes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{ConfigReference, RolloutStrategy};
use crate::{is_default, schemas};

/// What an add-on is, and where it goes.
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
    doc = "An add-on of the fleet, and where it goes.",
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
#[schemars(!default, !remote, description = "What the add-on is, and where it goes.")]
pub struct ClusterManagementAddOnSpec {
    /// Names for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on_meta: Option<AddOnMeta>,

    /// Kinds of configurations that the add-on understands, each with a default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["group", "resource"]))]
    pub supported_configs: Vec<SupportedConfig>,

    /// The version where nobody asks for one; the highest that is no pre-release, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub default_version: Option<String>,

    /// Where the add-on goes.
    #[serde(default)]
    #[schemars(schema_with = "schemas::install_strategy")]
    pub install_strategy: InstallStrategy,
}

may_be_missing!(ClusterManagementAddOnSpec);

/// Names of an add-on for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Names for people.")]
pub struct AddOnMeta {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// What it does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// A kind of configurations that an add-on understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A kind of configurations that the add-on understands.")]
pub struct SupportedConfig {
    /// The group of the kind.
    #[serde(default)]
    #[schemars(schema_with = "schemas::text_or_none")]
    pub group: String,

    /// The plural of the kind.
    #[schemars(length(min = 1))]
    pub resource: String,

    /// The one that counts where nobody names another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_config: Option<ConfigReferent>,
}

/// A configuration of a kind that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A configuration.")]
pub struct ConfigReferent {
    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Where an add-on goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Where the add-on goes.")]
pub struct InstallStrategy {
    /// Who decides.
    #[serde(rename = "type")]
    pub type_: InstallType,

    /// The placements, by the type `Placements`. A cluster that several of them chose goes by the last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub placements: Vec<PlacementStrategy>,
}

/// Who decides where an add-on goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InstallType {
    /// Whoever makes ManagedClusterAddOns.
    #[default]
    Manual,
    /// Placements.
    Placements,
    /// One that is not known here; nothing is installed by it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// What goes to the clusters of a placement, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What goes to the clusters of the placement, and how.")]
pub struct PlacementStrategy {
    /// The namespace of the placement.
    #[schemars(length(min = 1))]
    pub namespace: String,

    /// The name of the placement.
    #[schemars(length(min = 1))]
    pub name: String,

    /// The version, and its configurations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub addon_template: Option<PlacedTemplate>,

    /// At what pace clusters change; all at once, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout_strategy: Option<RolloutStrategy>,

    /// While set, no cluster begins to change; those that have begun go on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
}

/// A version and its configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A version and its configurations.")]
pub struct PlacedTemplate {
    /// The version; the default of the add-on, if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::optional_version")]
    pub install_version: String,

    /// The configurations. One without a namespace is in that of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configs: Vec<ConfigReference>,
}

/// What became of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What became of the add-on.")]
pub struct ClusterManagementAddOnStatus {
    /// The versions that there are, the lowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub supported_versions: Vec<String>,

    /// The version where nobody asks for one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub default_version: String,

    /// How far each placement is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["namespace", "name"]))]
    pub install_progressions: Vec<InstallProgression>,

    /// The state of the add-on over all clusters.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// How far a placement is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How far a placement is.")]
pub struct InstallProgression {
    /// The namespace of the placement.
    pub namespace: String,

    /// The name of the placement.
    pub name: String,

    /// The version that its clusters are to have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// How many of its clusters are where.
    pub counts: ProgressionCounts,

    /// What clusters wait for that have not had their turn; some of them, where there are many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub waiting: Vec<WaitingClusters>,

    /// Whether there is still something to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// How many clusters of a placement are where. Those that a later placement has taken are in none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How many clusters are where.")]
pub struct ProgressionCounts {
    /// All of them.
    pub selected: u32,
    /// Those whose turn has not come.
    pub waiting: u32,
    /// Those that change.
    pub progressing: u32,
    /// Those that are where they should be.
    pub succeeded: u32,
    /// Those that could not be brought there.
    pub failed: u32,
    /// Those that took too long.
    pub timed_out: u32,
    /// Those whose version a person has set.
    pub overridden: u32,
}

/// Clusters that wait for the same thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Clusters that wait for the same thing.")]
pub struct WaitingClusters {
    /// What they wait for.
    #[serde(rename = "for")]
    pub for_: String,
    /// How many they are.
    pub count: u32,
    /// The first of them.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub clusters: Vec<String>,
}
