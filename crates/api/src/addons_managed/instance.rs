//! `AddonInstance`: where an add-on reports its heartbeats and its health.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemas;

/// `spec` is how often the add-on sends heartbeats, and whether it is about to be deleted.
// A missing `spec` reads as an empty one, so that one object without it does not end the watch of the kind.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "AddonInstance",
    plural = "addoninstances",
    namespaced,
    status = "AddonInstanceStatus",
    derive = "PartialEq",
    doc = "AddonInstance is where an add-on reports its heartbeats and its health. The addon-controller creates one for \
           each Addon. The add-on writes the status; the heartbeat-checker sets the condition Healthy to Unknown when \
           heartbeats stop.",
    printcolumn(name = "Last Heartbeat", type_ = "date", json_path = ".status.lastHeartbeatTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", from = "Option<WireSpec>")]
#[schemars(!from)]
pub struct AddonInstanceSpec {
    /// `markedForDeletion` asks the add-on to clean up, because it is about to be deleted. Defaults to false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_for_deletion: Option<bool>,

    /// `heartbeatUpdatePeriod` is how often the add-on sends a heartbeat, as a Go duration such as `10s` or `1m30s`.
    /// Defaults to `10s`. The add-on counts as silent after three periods without a heartbeat.
    // A string, because the API server accepts any text; the heartbeat crate parses it and handles invalid values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::heartbeat_update_period")]
    pub heartbeat_update_period: Option<String>,
}

/// A `spec` as it is on the wire, where every field may be missing.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WireSpec {
    marked_for_deletion: Option<bool>,
    heartbeat_update_period: Option<String>,
}

impl From<Option<WireSpec>> for AddonInstanceSpec {
    fn from(wire: Option<WireSpec>) -> Self {
        let WireSpec { marked_for_deletion, heartbeat_update_period } = wire.unwrap_or_default();
        Self { marked_for_deletion, heartbeat_update_period }
    }
}

/// `status` is the heartbeats and the health of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonInstanceStatus {
    /// `observedGeneration` is the generation of the spec that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `conditions` describe the add-on: Healthy, Degraded, Installed and ReadyToBeDeleted, each with the prefix
    /// `addons.managed.openshift.io/`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// `lastHeartbeatTime` is when the add-on last sent a heartbeat. It is not set until the first heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: serde_json::Value) -> AddonInstance {
        serde_json::from_value(body).expect("the AddonInstance deserializes")
    }

    #[test]
    fn instance_without_spec_deserializes_with_empty_spec() {
        let metadata = json!({"name": "addon-instance", "namespace": "reference-addon"});
        for body in [
            json!({"metadata": metadata}),
            json!({"metadata": metadata, "spec": null}),
            json!({"metadata": metadata, "spec": {}}),
            json!({"metadata": metadata, "spec": {"heartbeatUpdatePeriod": null}}),
        ] {
            assert_eq!(read(body.clone()).spec, AddonInstanceSpec::default(), "{body}");
        }
    }

    #[test]
    fn instance_from_go_client_with_zero_values_deserializes() {
        let instance = read(json!({
            "metadata": {"name": "addon-instance", "creationTimestamp": null},
            "spec": {"markedForDeletion": false, "heartbeatUpdatePeriod": "0s"},
            "status": {"lastHeartbeatTime": null},
        }));
        assert_eq!(instance.spec.heartbeat_update_period.as_deref(), Some("0s"));
        assert_eq!(instance.status, Some(AddonInstanceStatus::default()));
    }

    #[test]
    fn heartbeat_period_accepts_any_string() {
        for period in ["banana", "-5s", ""] {
            let instance = read(json!({"metadata": {}, "spec": {"heartbeatUpdatePeriod": period}}));
            assert_eq!(instance.spec.heartbeat_update_period.as_deref(), Some(period));
        }
    }
}
