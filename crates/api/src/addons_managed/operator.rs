//! `AddonOperator`: settings for all add-ons of this cluster. Only the object named `addon-operator` has an effect.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{is_default, schemas};

/// `spec` is the settings for all add-ons of this cluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "AddonOperator",
    plural = "addonoperators",
    status = "AddonOperatorStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "AddonOperator holds settings for all add-ons of this cluster. Only the object named `addon-operator` has an \
           effect. The addon-controller writes the status.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct AddonOperatorSpec {
    /// `pause` stops reconciliation of all Addons while it is true. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pause: bool,

    /// `featureFlags` lists enabled features, separated by commas. Bellwether does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feature_flags: Option<String>,

    /// `ocm` configures where the state of add-ons is reported. Bellwether does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocm: Option<AddonOperatorOcm>,
}

empty_if_missing!(AddonOperatorSpec);

/// Where the state of add-ons is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonOperatorOcm {
    /// `endpoint` is the URL that reports are sent to.
    pub endpoint: String,
    /// `secret` names the Secret with the credentials.
    pub secret: ClusterSecretReference,
}

/// The name and namespace of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterSecretReference {
    /// `name` is the name of the Secret.
    #[schemars(length(min = 1))]
    pub name: String,
    /// `namespace` is the namespace of the Secret.
    #[schemars(length(min = 1))]
    pub namespace: String,
}

/// `status` is whether the settings are in effect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonOperatorStatus {
    /// `observedGeneration` is the generation of the spec that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `conditions` describe the settings: Available and Paused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// `lastHeartbeatTime` is when the operator last sent a heartbeat. Bellwether does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,

    /// `phase` summarizes the conditions for tables: Ready or Error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
}
