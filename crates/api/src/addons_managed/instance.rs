//! `AddonInstance`: where an add-on says that it is alive.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemas;

/// What an add-on instance is asked for.
///
/// An object may come without a `spec`; it reads as an empty one, so that one such object does not end a watch.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "AddonInstance",
    plural = "addoninstances",
    namespaced,
    status = "AddonInstanceStatus",
    derive = "PartialEq",
    doc = "The liveness of an add-on: the add-on beats here, and silence is noticed.",
    printcolumn(name = "Last Heartbeat", type_ = "date", json_path = ".status.lastHeartbeatTime"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", from = "Option<SentSpec>")]
#[schemars(!from, description = "What the add-on is asked for.")]
pub struct AddonInstanceSpec {
    /// Asks the add-on to clean up after itself, because it is about to be deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_for_deletion: Option<bool>,

    /// How often the add-on sends a heartbeat, as Go writes durations: `10s`, `1m30s`.
    // Text, because the server takes any: whoever needs the duration parses it, object by object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::heartbeat_update_period")]
    pub heartbeat_update_period: Option<String>,
}

/// A `spec` as it was sent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SentSpec {
    marked_for_deletion: Option<bool>,
    heartbeat_update_period: Option<String>,
}

impl From<Option<SentSpec>> for AddonInstanceSpec {
    fn from(sent: Option<SentSpec>) -> Self {
        let SentSpec { marked_for_deletion, heartbeat_update_period } = sent.unwrap_or_default();
        Self { marked_for_deletion, heartbeat_update_period }
    }
}

/// What an add-on says of itself, and what its silence says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(description = "What the add-on says of itself, and what its silence says.")]
pub struct AddonInstanceStatus {
    /// The generation of the spec that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the add-on, one condition of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// When the add-on last sent a heartbeat. Absent for an add-on that never sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(body: serde_json::Value) -> AddonInstance {
        serde_json::from_value(body).expect("the object is readable")
    }

    #[test]
    fn an_instance_without_a_spec_reads_as_one_with_an_empty_spec() {
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
    fn the_bytes_of_a_go_client_with_nothing_set_are_read() {
        let instance = read(json!({
            "metadata": {"name": "addon-instance", "creationTimestamp": null},
            "spec": {"markedForDeletion": false, "heartbeatUpdatePeriod": "0s"},
            "status": {"lastHeartbeatTime": null},
        }));
        assert_eq!(instance.spec.heartbeat_update_period.as_deref(), Some("0s"));
        assert_eq!(instance.status, Some(AddonInstanceStatus::default()));
    }

    #[test]
    fn any_text_is_a_period_to_the_type() {
        for period in ["banana", "-5s", ""] {
            let instance = read(json!({"metadata": {}, "spec": {"heartbeatUpdatePeriod": period}}));
            assert_eq!(instance.spec.heartbeat_update_period.as_deref(), Some(period));
        }
    }
}
