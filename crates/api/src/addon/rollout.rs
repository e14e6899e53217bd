//! At what pace the clusters of a placement change.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemas;

/// At what pace clusters change, and when one counts as changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "At what pace clusters change, and when one counts as changed.")]
pub struct RolloutStrategy {
    /// The way.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::rollout_type")]
    pub type_: RolloutType,

    /// When a cluster counts as changed.
    #[serde(default)]
    #[schemars(schema_with = "schemas::success_criteria")]
    pub success_criteria: SuccessCriteria,

    /// Of the type `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<RolloutAll>,

    /// Of the type `Progressive`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive: Option<RolloutProgressive>,

    /// Of the type `ProgressivePerGroup`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progressive_per_group: Option<RolloutProgressivePerGroup>,
}

/// The way a change goes from cluster to cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutType {
    /// To all at once.
    #[default]
    All,
    /// To so many at a time, by name.
    Progressive,
    /// To one group after the other.
    ProgressivePerGroup,
    /// One that is not known here; nobody changes by it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// When a cluster counts as changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SuccessCriteria {
    /// When the objects of the version are there.
    #[default]
    Applied,
    /// When its workloads are up as well.
    WorkloadAvailable,
    /// When the add-on itself also says that it is well.
    Healthy,
    /// One that is not known here; nobody meets it.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How long clusters may take, and how many may fail.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How long clusters may take, and how many may fail.")]
pub struct RolloutLimits {
    /// How long a cluster must have been well before it counts, as `30s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::soak")]
    pub min_success_time: Option<String>,

    /// How long a cluster may take, as `10m`; `None` is for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::deadline")]
    pub progress_deadline: Option<String>,

    /// How many clusters may fail, as a number or a percentage, before no others begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub max_failures: Option<IntOrString>,
}

/// All clusters at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "All clusters at once.")]
pub struct RolloutAll {
    /// How long they may take.
    #[serde(flatten)]
    pub limits: RolloutLimits,
}

/// So many clusters at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "So many clusters at a time.")]
pub struct RolloutProgressive {
    /// How long they may take, and how many may fail.
    #[serde(flatten)]
    pub limits: RolloutLimits,

    /// Groups that go first, and must not fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,

    /// How many clusters may change at a time, as a number or a percentage; as many as a decision group has, if it is
    /// left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::count_or_percentage")]
    pub max_concurrency: Option<IntOrString>,
}

/// One group after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "One group after the other.")]
pub struct RolloutProgressivePerGroup {
    /// How long they may take, and how many of a group may fail.
    #[serde(flatten)]
    pub limits: RolloutLimits,

    /// Groups that go first, and must not fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mandatory_decision_groups: Vec<MandatoryDecisionGroup>,
}

/// A group that goes first: by its name, or else by its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A group that goes first: by its name, or else by its place.")]
pub struct MandatoryDecisionGroup {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_name: String,
    /// Its place, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub group_index: Option<i32>,
}
