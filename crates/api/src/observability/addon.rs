//! `ObservabilityAddon`: whether and how a cluster forwards its metrics, and whether that works.

use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schemas;

/// `spec` is how the cluster forwards its metrics.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "observability.open-cluster-management.io",
    version = "v1beta1",
    kind = "ObservabilityAddon",
    plural = "observabilityaddons",
    shortname = "oba",
    namespaced,
    status = "ObservabilityAddonStatus",
    derive = "PartialEq",
    doc = "ObservabilityAddon is the metrics add-on of a cluster. On the hub, it is in the namespace of the cluster, and its \
           spec is set by users; on the cluster, the endpoint operator runs the metrics collectors that it describes. \
           The status is written on the cluster, and copied to the hub."
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct ObservabilityAddonSpec {
    /// `enableMetrics` says whether metrics are forwarded. Defaults to true.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::enabled_by_default")]
    pub enable_metrics: Option<bool>,

    /// `interval` is the number of seconds between two forwards. Defaults to 300; must be between 15 and 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::forward_interval")]
    pub interval: Option<i32>,

    /// `scrapeSizeLimitBytes` is the largest response that a metrics collector reads from Prometheus. Defaults to 1073741824.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::scrape_size_limit")]
    pub scrape_size_limit_bytes: Option<i64>,

    /// `workers` is the number of parallel requests among which a metrics collector divides its match rules. Defaults to 1;
    /// must be >= 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::collector_workers")]
    pub workers: Option<i32>,

    /// `resources` is the resource requests and limits of the metrics collectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
}

empty_if_missing!(ObservabilityAddonSpec);

/// `status` is whether metrics are forwarded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
#[schemars(!default)]
pub struct ObservabilityAddonStatus {
    /// `conditions` describe the add-on: Available, Progressing, Degraded, Disabled or NotSupported, of which one is True;
    /// and MetricsCollectorStatus and UwlMetricsCollectorStatus, whose reasons are the states of the two collectors.
    // The CRD requires it, so an empty list is serialized.
    pub conditions: Vec<AddonCondition>,
}

/// One aspect of the state of the add-on.
// Not metav1.Condition: the CRD has no observedGeneration, no list type, and accepts any text as status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddonCondition {
    /// `type` names the aspect, in CamelCase.
    #[serde(rename = "type")]
    pub type_: String,
    /// `status` is `True`, `False` or `Unknown`.
    pub status: String,
    /// `lastTransitionTime` is when the condition last changed from one status to another; for the conditions of a collector,
    /// from one reason to another.
    pub last_transition_time: Time,
    /// `reason` is a CamelCase word for programs that says why the condition has its status.
    pub reason: String,
    /// `message` explains the condition for people.
    pub message: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_list_of_conditions_is_written() {
        let status = serde_json::to_value(ObservabilityAddonStatus::default()).unwrap();
        assert_eq!(status, json!({"conditions": []}));
    }

    #[test]
    fn missing_spec_reads_as_an_empty_one() {
        for object in [json!({"metadata": {"name": "a"}}), json!({"metadata": {"name": "a"}, "spec": null})] {
            let addon: ObservabilityAddon = serde_json::from_value(object).unwrap();
            assert_eq!(addon.spec, ObservabilityAddonSpec::default());
        }
    }
}
