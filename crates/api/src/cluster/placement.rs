//! `Placement` and `PlacementDecision`: which clusters are wanted, and which they are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::TaintEffect;
use crate::{is_default, schemas};

/// Which clusters are wanted.
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
    doc = "Chooses clusters.",
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
#[schemars(!default, !remote, description = "Which clusters are wanted.")]
pub struct PlacementSpec {
    /// The sets to choose from, of those that are bound in this namespace; all of those, if none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cluster_sets: Vec<String>,

    /// How many clusters are wanted; all, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub number_of_clusters: Option<i32>,

    /// What a cluster must be like: as any one of these says. All are, if there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub predicates: Vec<ClusterPredicate>,

    /// Which clusters come first where not all can be chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prioritizer_policy: Option<PrioritizerPolicy>,

    /// Taints in spite of which clusters are chosen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,

    /// How the chosen clusters are grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_strategy: Option<DecisionStrategy>,
}

may_be_missing!(PlacementSpec);

/// What a cluster must be like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What a cluster must be like.")]
pub struct ClusterPredicate {
    /// Labels and claims, all of which must fit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub required_cluster_selector: RequiredClusterSelector,
}

/// Labels and claims of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Labels and claims of a cluster.")]
pub struct RequiredClusterSelector {
    /// Its labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_selector: LabelSelector,

    /// Its claims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim_selector: ClaimSelector,

    /// Expressions over the cluster. They are not evaluated: a placement that has any is misconfigured, and chooses none
    /// anew.
    // Kept, because a predicate that is dropped in silence would choose too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub cel_selector: Option<Value>,
}

/// Claims of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Claims of a cluster.")]
pub struct ClaimSelector {
    /// All of these must fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
}

/// Which clusters come first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Which clusters come first.")]
pub struct PrioritizerPolicy {
    /// Whether what is said here is all that counts.
    #[serde(default)]
    #[schemars(schema_with = "schemas::prioritizer_mode")]
    pub mode: PrioritizerMode,

    /// What counts, and how much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configurations: Vec<PrioritizerConfig>,
}

/// Whether a policy is all that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PrioritizerMode {
    /// Besides what is said, Balance and Steady count once each.
    #[default]
    Additive,
    /// What is not said does not count.
    Exact,
    /// One that is not known here.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// Something that counts, and how much.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Something that counts, and how much.")]
pub struct PrioritizerConfig {
    /// What counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score_coordinate: Option<ScoreCoordinate>,

    /// How much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::weight")]
    pub weight: Option<i32>,
}

/// What counts when clusters are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What counts when clusters are compared.")]
pub struct ScoreCoordinate {
    /// `BuiltIn`, or a score that an add-on gives.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::score_type")]
    pub type_: String,

    /// `Balance`, `Steady`, `ResourceAllocatableCPU` or `ResourceAllocatableMemory`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub built_in: Option<String>,

    /// The score of an add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub add_on: Option<AddOnScore>,
}

/// The score that an add-on gives to clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "The score that an add-on gives to clusters.")]
pub struct AddOnScore {
    /// The AddOnPlacementScore.
    pub resource_name: String,
    /// The score in it.
    pub score_name: String,
}

/// A taint in spite of which clusters are chosen.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A taint in spite of which clusters are chosen.")]
pub struct Toleration {
    /// The taint; any, if it is left out and the operator is `Exists`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 316))]
    pub key: String,

    /// How the value is compared.
    #[serde(default)]
    #[schemars(schema_with = "schemas::toleration_operator")]
    pub operator: TolerationOperator,

    /// The value of the taint.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub value: String,

    /// The effect of the taint; any, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<TaintEffect>,

    /// How long it is tolerated, from when the taint was added; for ever, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// How a toleration compares values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TolerationOperator {
    /// The values are the same.
    #[default]
    Equal,
    /// Any value will do.
    Exists,
    /// One that is not known here; it tolerates nothing.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How decisions are put.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How decisions are put.")]
pub struct DecisionStrategy {
    /// How the chosen clusters are grouped.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_strategy: GroupStrategy,
}

/// How chosen clusters are grouped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How chosen clusters are grouped.")]
pub struct GroupStrategy {
    /// Groups with names, in their order; a cluster is in the first that it fits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroup>,

    /// How many clusters a group has at most, as a number or a percentage; all, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub clusters_per_decision_group: Option<IntOrString>,
}

/// A group with a name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A group with a name.")]
pub struct DecisionGroup {
    /// Its name.
    #[schemars(length(min = 1, max = 63))]
    #[schemars(regex(pattern = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
    pub group_name: String,

    /// Which clusters it has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group_cluster_selector: GroupClusterSelector,
}

/// Which clusters a group has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Which clusters the group has.")]
pub struct GroupClusterSelector {
    /// By their labels.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_selector: LabelSelector,

    /// By their claims.
    #[serde(default, skip_serializing_if = "is_default")]
    pub claim_selector: ClaimSelector,
}

/// What came of a placement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What came of the placement.")]
pub struct PlacementStatus {
    /// How many clusters are chosen.
    #[serde(default)]
    pub number_of_selected_clusters: i32,

    /// The groups they are in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decision_groups: Vec<DecisionGroupStatus>,

    /// Whether there are as many as wanted, and why not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// A group of chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A group of chosen clusters.")]
pub struct DecisionGroupStatus {
    /// Its place, from 0.
    pub decision_group_index: i32,

    /// Its name, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decision_group_name: String,

    /// The PlacementDecisions that hold it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<String>,

    /// How many clusters it has.
    #[serde(rename = "clusterCount")]
    pub clusters_count: i32,
}

/// Nothing is asked of a decision.
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
    doc = "Some of the clusters that a placement chose, at most 100.",
    printcolumn(
        name = "Placement",
        type_ = "string",
        json_path = ".metadata.labels.cluster\\.open-cluster-management\\.io/placement"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "Nothing is asked of a decision.")]
pub struct PlacementDecisionSpec {}

may_be_missing!(PlacementDecisionSpec);

/// Chosen clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Chosen clusters.")]
pub struct PlacementDecisionStatus {
    /// The clusters.
    #[serde(default)]
    pub decisions: Vec<ClusterDecision>,
}

/// A cluster that was chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A cluster that was chosen.")]
pub struct ClusterDecision {
    /// Its name.
    pub cluster_name: String,

    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,

    /// How it compared with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<i64>,
}
