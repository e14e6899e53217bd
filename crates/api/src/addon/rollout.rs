//! How a new version is rolled out to the clusters of a placement: types only. The plan is computed in
//! `bellwether-lifecycle`.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemas;

/// How many clusters change at a time, and when a cluster counts as successful.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutStrategy {
    /// `type` is `All` (all clusters at once), `Progressive` (at most `maxConcurrency` clusters at a time, in the order
    /// of their names) or `ProgressivePerGroup` (one decision group of the placement after the other). Defaults to
    /// `All`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::rollout_type")]
    pub type_: RolloutType,

    /// `successCriteria` defines when a cluster counts as successful: `Applied` (all manifests are applied),
    /// `WorkloadAvailable` (and all workloads are available) or `Healthy` (and the add-on sends heartbeats and is not
    /// degraded). Defaults to `Applied`.
    #[serde(default)]
    #[schemars(schema_with = "schemas::success_criteria")]
    pub success_criteria: SuccessCriteria,

    /// `all` configures the type `All`. Only `progressDeadline` has an effect, because no cluster waits for another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,

    /// `progressive` configures the type `Progressive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,

    /// `progressivePerGroup` configures the type `ProgressivePerGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
}

/// The order in which clusters change: `All`, `Progressive` or `ProgressivePerGroup`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutType {
    /// All clusters change at once.
    #[default]
    All,
    /// At most `maxConcurrency` clusters change at a time, in the order of their names.
    Progressive,
    /// One decision group of the placement changes after the other.
    ProgressivePerGroup,
    /// Any other value. No cluster starts to change.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// When a cluster counts as successful: `Applied`, `WorkloadAvailable` or `Healthy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SuccessCriteria {
    /// All manifests of the version are applied.
    #[default]
    Applied,
    /// All manifests are applied and all workloads are available.
    WorkloadAvailable,
    /// All workloads are available, the add-on sends heartbeats, and it is not degraded.
    Healthy,
    /// Any other value. No cluster starts to change.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// The soak time, the deadline and the number of tolerated failures of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutLimits {
    /// `minSuccessTime` is the soak time: how long a cluster must have been successful before others start, for
    /// example `30s`. It has no effect for the type `All`. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::soak_time")]
    pub min_success_time: Option<String>,

    /// `progressDeadline` is how long a cluster may take before it counts as timed out, which is a failure for
    /// `maxFailures`, for example `10m`. `None`, the default, means no deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::progress_deadline")]
    pub progress_deadline: Option<String>,

    /// `maxFailures` is how many clusters may fail before no further cluster starts, as a number or as a percentage of
    /// the clusters of the placement (for the type `ProgressivePerGroup`, of the decision group). It has no effect for
    /// the type `All`. Defaults to 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub max_failures: Option<IntOrString>,
}

/// The configuration of the rollout type `All`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutAll {
    /// The deadline of each cluster.
    #[serde(flatten)]
    pub limits: RolloutLimits,
}

/// The configuration of the rollout type `Progressive`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutProgressive {
    /// The soak time, the deadline and the number of tolerated failures, out of all clusters of the placement.
    #[serde(flatten)]
    pub limits: RolloutLimits,

    /// `mandatoryDecisionGroups` lists the decision groups that change first, in this order. If one of their clusters
    /// fails, no further cluster starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,

    /// `maxConcurrency` is how many clusters may be changing at a time, as a number or a percentage of all clusters of
    /// the placement. Defaults to the size of a decision group (`clustersPerDecisionGroup` of the Placement).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub max_concurrency: Option<IntOrString>,
}

/// The configuration of the rollout type `ProgressivePerGroup`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RolloutProgressivePerGroup {
    /// The soak time, the deadline and the number of tolerated failures, out of the clusters of each group.
    #[serde(flatten)]
    pub limits: RolloutLimits,

    /// `mandatoryDecisionGroups` lists the decision groups that change first, in this order. If one of their clusters
    /// fails, no further cluster starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// A decision group, identified by `groupName` or, if that is empty, by `groupIndex`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MandatoryDecisionGroup {
    /// `groupName` is the name of the decision group.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// `groupIndex` is the index of the decision group, counted from 0. It is used if `groupName` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub group_index: Option<i32>,
}
