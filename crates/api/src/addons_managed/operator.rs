//! `AddonOperator`: what holds for all add-ons of this cluster. There is one, and its name is `addon-operator`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{is_default, schemas};

/// What holds for all add-ons.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "AddonOperator",
    plural = "addonoperators",
    status = "AddonOperatorStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What holds for all add-ons of this cluster.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "What holds for all add-ons.")]
pub struct AddonOperatorSpec {
    /// Leaves every add-on as it is while set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pause: bool,

    /// Features that are switched on, with commas between them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_flags: Option<String>,

    /// Where the state of add-ons is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocm: Option<AddonOperatorOcm>,
}

may_be_missing!(AddonOperatorSpec);

/// Where the state of add-ons is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Where the state of add-ons is reported.")]
pub struct AddonOperatorOcm {
    /// The address.
    pub endpoint: String,
    /// What to show there.
    pub secret: ClusterSecretReference,
}

/// A secret in some namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A secret in some namespace.")]
pub struct ClusterSecretReference {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its namespace.
    #[schemars(length(min = 1))]
    pub namespace: String,
}

/// How the operator is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(description = "How the operator is.")]
pub struct AddonOperatorStatus {
    /// The generation of the spec that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the operator, one condition of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// When the operator last said that it is alive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,

    /// The state in one word, for tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
