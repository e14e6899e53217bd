//! `Placement` selects clusters; `PlacementDecision` holds the result.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::TaintEffect;
use crate::{is_default, schemas};

/// `spec` is the criteria by which clusters are selected.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "Placement",
    plural = "placements",
    namespaced,
    status = "PlacementStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Placement selects clusters from the ManagedClusterSets that are bound to its namespace. The \
           placement-controller writes the selected clusters to PlacementDecisions, and the result to the status.",
    printcolumn(
        name = "Succeeded",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"PlacementSatisfied\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"PlacementSatisfied\")].reason"
    ),
    printcolumn(
        name = "SelectedClusters",
        type_ = "integer",
        json_path = ".status.numberOfSelectedClusters"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct PlacementSpec {
    /// `clusterSets` limits the selection to these ManagedClusterSets. Defaults to all sets that are bound to the
    /// namespace of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,

    /// `numberOfClusters` is how many clusters to select. Defaults to all that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,

    /// `predicates` are the requirements on clusters. A cluster matches if it satisfies at least one of them. If there
    /// are none, all clusters match.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,

    /// `prioritizerPolicy` ranks clusters if more match than `numberOfClusters`: each prioritizer gives every cluster a
    /// score, and the clusters with the highest sum are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritizer_policy: Option<PrioritizerPolicy>,

    /// `tolerations` lists the cluster taints that this placement tolerates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,

    /// `decisionStrategy` divides the selected clusters into groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_strategy: Option<DecisionStrategy>,
}

empty_if_missing!(PlacementSpec);

/// A requirement on clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterPredicate {
    /// `requiredClusterSelector` selects clusters by labels and claims. Both must match.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required_cluster_selector: RequiredClusterSelector,
}

/// A selector on the labels and claims of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RequiredClusterSelector {
    /// `labelSelector` matches the labels of the ManagedCluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_selector: LabelSelector,

    /// `claimSelector` matches `status.clusterClaims` of the ManagedCluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim_selector: ClaimSelector,

    /// `celSelector` is not supported. A placement that sets it gets the condition PlacementMisconfigured=True and
    /// keeps the clusters that it selected before.
    // The field is stored so that the placement can be reported as misconfigured. If it were pruned, the placement
    // would silently select too many clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::opaque_object")]
    pub cel_selector: Option<Value>,
}

/// A selector on the claims of clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClaimSelector {
    /// `matchExpressions` lists requirements on claims. All of them must be satisfied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// How clusters are ranked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PrioritizerPolicy {
    /// `mode` is `Additive` (the built-in prioritizers Balance and Steady have weight 1 unless configured otherwise) or
    /// `Exact` (only the configured prioritizers count). Defaults to `Additive`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::prioritizer_mode")]
    pub mode: PrioritizerMode,

    /// `configurations` lists prioritizers and their weights.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<PrioritizerConfig>,
}

/// Whether unconfigured prioritizers count: `Additive` or `Exact`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrioritizerMode {
    /// Balance and Steady have weight 1 unless configured otherwise.
    #[default]
    Additive,
    /// Only the configured prioritizers count.
    Exact,
    /// Any other value. The placement is misconfigured.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A prioritizer and its weight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PrioritizerConfig {
    /// `scoreCoordinate` identifies the prioritizer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,

    /// `weight` is the factor for the score of the prioritizer, from -10 to 10. Defaults to 1. The weight of Steady
    /// must not be negative.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::weight")]
    pub weight: Option<i32>,
}

/// The identity of a prioritizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ScoreCoordinate {
    /// `type` is `BuiltIn` or `AddOn`. Defaults to `BuiltIn`; `AddOn` is not supported and makes the placement
    /// misconfigured.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::score_type")]
    pub type_: String,

    /// `builtIn` is the name of a built-in prioritizer: `Balance` (prefers clusters that few other placements have
    /// selected), `Steady` (prefers clusters that are already selected), `ResourceAllocatableCPU` or
    /// `ResourceAllocatableMemory` (prefer clusters with much allocatable CPU or memory).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in: Option<String>,

    /// `addOn` identifies a score for the type `AddOn`, which is not supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
}

/// A score that an add-on publishes for clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddOnScore {
    /// `resourceName` is the name of the AddOnPlacementScore.
    pub resource_name: String,
    /// `scoreName` is the name of the score in the AddOnPlacementScore.
    pub score_name: String,
}

/// A cluster taint that the placement tolerates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Toleration {
    /// `key` is the key of the taint. If it is empty, `operator` must be `Exists`, and every key matches.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316))]
    pub key: String,

    /// `operator` is `Equal` (the value must be equal) or `Exists` (any value matches). Defaults to `Equal`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::toleration_operator")]
    pub operator: TolerationOperator,

    /// `value` is the value of the taint for the operator `Equal`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// `effect` is the effect of the taint: `NoSelect`, `PreferNoSelect` or `NoSelectIfNew`. If it is not set, every effect
    /// matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::taint_effect")]
    pub effect: Option<TaintEffect>,

    /// `tolerationSeconds` is how long the taint is tolerated, counted from its `timeAdded`. Defaults to no limit. It
    /// has no meaning for the effect `NoSelectIfNew`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration compares values: `Equal` or `Exists`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The value must be equal.
    #[default]
    Equal,
    /// Any value matches.
    Exists,
    /// Any other value. The placement is misconfigured.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How the selected clusters are divided.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DecisionStrategy {
    /// `groupStrategy` divides the selected clusters into decision groups.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_strategy: GroupStrategy,
}

/// How the selected clusters are divided into decision groups.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GroupStrategy {
    /// `decisionGroups` lists named groups. A cluster belongs to the first group that it matches; clusters that match
    /// none form unnamed groups after the named ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,

    /// `clustersPerDecisionGroup` is the maximum number of clusters in a group, as a number or a percentage of the
    /// selected clusters. Larger groups are split. Defaults to `100%`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub clusters_per_decision_group: Option<IntOrString>,
}

/// A named group of selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DecisionGroup {
    /// `groupName` is the name of the group.
    #[schemars(length(min = 1, max = 63))]
    #[schemars(regex(pattern = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
    pub group_name: String,

    /// `groupClusterSelector` selects the clusters of the group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_cluster_selector: GroupClusterSelector,
}

/// A selector for the clusters of a decision group. Labels and claims must both match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GroupClusterSelector {
    /// `labelSelector` matches the labels of the ManagedCluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_selector: LabelSelector,

    /// `claimSelector` matches `status.clusterClaims` of the ManagedCluster.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim_selector: ClaimSelector,
}

/// `status` is the result of the selection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PlacementStatus {
    /// `numberOfSelectedClusters` is how many clusters are selected.
    #[serde(default)]
    pub number_of_selected_clusters: i32,

    /// `decisionGroups` lists the groups of selected clusters, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroupStatus>,

    /// `conditions` describe the selection. PlacementSatisfied says whether as many clusters are selected as requested;
    /// PlacementMisconfigured says whether the spec is invalid.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// A group of selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DecisionGroupStatus {
    /// `decisionGroupIndex` is the index of the group, counted from 0.
    pub decision_group_index: i32,

    /// `decisionGroupName` is the name of the group. It is empty for an unnamed group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision_group_name: String,

    /// `decisions` lists the names of the PlacementDecisions that hold the clusters of the group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,

    /// `clusterCount` is the number of clusters in the group.
    #[serde(rename = "clusterCount")]
    pub clusters_count: i32,
}

/// `spec` is empty: a PlacementDecision has only a status.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "cluster.open-cluster-management.io",
    version = "v1beta1",
    kind = "PlacementDecision",
    plural = "placementdecisions",
    namespaced,
    status = "PlacementDecisionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "PlacementDecision lists at most 100 of the clusters that a Placement selected; a Placement with more \
           clusters has several of them. The placement-controller writes it. The label \
           `cluster.open-cluster-management.io/placement` names the Placement.",
    printcolumn(
        name = "Placement",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.open-cluster-management\\.io/placement"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct PlacementDecisionSpec {}

empty_if_missing!(PlacementDecisionSpec);

/// `status` is the selected clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PlacementDecisionStatus {
    /// `decisions` lists the selected clusters.
    #[serde(default)]
    pub decisions: Vec<ClusterDecision>,
}

/// A selected cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterDecision {
    /// `clusterName` is the name of the ManagedCluster.
    pub cluster_name: String,

    /// `reason` is why the cluster was selected.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// `score` is the sum of the weighted scores of the prioritizers; higher is better. It is set only if more clusters matched than were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
}
