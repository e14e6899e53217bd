//! The requests of Go clients byte for byte, and the responses that they rely on: the table of §5.4.

use bellwether_testkit::{Answer, Call};
use http::Method;
use serde_json::{Value, json};

use crate::{Fixture, on_every_cluster};

on_every_cluster!(
    empty_go_object_is_stored_with_a_period_of_0s,
    default_period_is_set_if_the_spec_exists,
    status_update_drops_nulls_and_ignores_the_spec,
    identical_update_does_not_change_the_resource_version,
    update_with_a_stale_resource_version_is_a_conflict,
    update_without_a_resource_version_is_invalid,
    merge_patch_of_the_heartbeat_time_keeps_the_conditions,
    heartbeat_times_are_stored_as_sent,
    invalid_heartbeat_time_is_rejected,
    any_string_is_accepted_as_a_period,
    heartbeat_with_managed_fields_is_accepted,
);

const CONDITION: &str = r#"{"type":"addons.managed.openshift.io/Installed","status":"True","observedGeneration":1,"lastTransitionTime":"2021-10-28T06:07:03Z","reason":"SetupComplete","message":"All Components Available"}"#;

impl Fixture {
    async fn send_bytes(&self, method: Method, path: String, body: String) -> Answer {
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        self.cluster.send(Call::new(method, path).body(media, body)).await
    }

    async fn post_bytes(&self, body: String) -> Answer {
        self.send_bytes(Method::POST, self.collection(), body).await
    }

    async fn put_status(&self, body: String) -> Answer {
        self.send_bytes(Method::PUT, self.status_path(), body).await
    }

    /// The part of an object that Go encodes before the spec.
    fn head(&self, more: &str) -> String {
        format!(
            r#""kind":"AddonInstance","apiVersion":"addons.managed.openshift.io/v1alpha1","metadata":{{"name":"addon-instance","namespace":"{}"{more}}}"#,
            self.namespace
        )
    }

    /// The same part of an object that Go has read.
    fn head_of(&self, stored: &Value) -> String {
        let text = |key: &str| stored["metadata"][key].as_str().unwrap().to_owned();
        self.head(&format!(
            r#","uid":"{}","resourceVersion":"{}","generation":{},"creationTimestamp":"{}""#,
            text("uid"),
            text("resourceVersion"),
            stored["metadata"]["generation"],
            text("creationTimestamp"),
        ))
    }
}

async fn empty_go_object_is_stored_with_a_period_of_0s(fixture: Fixture) {
    // Before v0.34, the encoders of Kubernetes' Go libraries wrote a null creationTimestamp.
    for more in ["", r#","creationTimestamp":null"#] {
        let body = format!(
            r#"{{{},"spec":{{"markedForDeletion":false,"heartbeatUpdatePeriod":"0s"}},"status":{{"lastHeartbeatTime":null}}}}"#,
            fixture.head(more)
        );
        let stored = fixture.post_bytes(body).await.expect(201);
        assert_eq!(stored["spec"], json!({"markedForDeletion": false, "heartbeatUpdatePeriod": "0s"}));
        assert_eq!(stored.get("status"), None);
        assert_eq!(stored["metadata"]["generation"], 1);
        fixture.cluster.delete(fixture.path()).await.expect(200);
    }
}

async fn default_period_is_set_if_the_spec_exists(fixture: Fixture) {
    let rows = [
        ("", None),
        (r#","spec":{}"#, Some(json!({"heartbeatUpdatePeriod": "10s"}))),
        (r#","spec":{"heartbeatUpdatePeriod":null}"#, Some(json!({"heartbeatUpdatePeriod": "10s"}))),
    ];
    for (spec, expected) in rows {
        let stored = fixture.post_bytes(format!("{{{}{spec}}}", fixture.head(""))).await.expect(201);
        assert_eq!(stored.get("spec"), expected.as_ref(), "{spec}");
        fixture.cluster.delete(fixture.path()).await.expect(200);
    }
}

async fn status_update_drops_nulls_and_ignores_the_spec(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    let body = format!(
        r#"{{{},"spec":{{"markedForDeletion":true,"heartbeatUpdatePeriod":"1h0m0s"}},"status":{{"conditions":[{CONDITION}],"lastHeartbeatTime":null}}}}"#,
        fixture.head_of(&stored)
    );
    let answer = fixture.put_status(body).await.expect(200);
    let condition: Value = serde_json::from_str(CONDITION).unwrap();
    assert_eq!(answer["status"], json!({"conditions": [condition]}));
    assert_eq!(answer["spec"], json!({"heartbeatUpdatePeriod": "10s"}));
    assert_eq!(answer["metadata"]["generation"], 1);
}

/// The body of a heartbeat with one condition.
fn heartbeat_body(fixture: &Fixture, read: &Value, time: &str) -> String {
    format!(
        r#"{{{},"spec":{{"markedForDeletion":false,"heartbeatUpdatePeriod":"10s"}},"status":{{"conditions":[{CONDITION}],"lastHeartbeatTime":"{time}"}}}}"#,
        fixture.head_of(read)
    )
}

async fn identical_update_does_not_change_the_resource_version(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    let first =
        fixture.put_status(heartbeat_body(&fixture, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let second =
        fixture.put_status(heartbeat_body(&fixture, &first, "2021-10-28T06:07:33Z")).await.expect(200);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_ne!(first["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
}

async fn update_with_a_stale_resource_version_is_a_conflict(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    fixture.put_status(heartbeat_body(&fixture, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let answer = fixture.put_status(heartbeat_body(&fixture, &stored, "2021-10-28T06:07:43Z")).await;
    answer
        .expect_failure(409, "Conflict")
        .assert_message(
            "the object has been modified; please apply your changes to the latest version and try again",
        )
        .assert_details("addons.managed.openshift.io", "addoninstances", "addon-instance");
}

async fn update_without_a_resource_version_is_invalid(fixture: Fixture) {
    fixture.create_instance(json!("10s")).await;
    let body = format!(
        r#"{{{},"spec":{{}},"status":{{"lastHeartbeatTime":"2021-10-28T06:07:33Z"}}}}"#,
        fixture.head("")
    );
    let answer = fixture.put_status(body).await;
    answer
        .expect_failure(422, "Invalid")
        .assert_message("metadata.resourceVersion: Invalid value: 0: must be specified for an update");
}

async fn merge_patch_of_the_heartbeat_time_keeps_the_conditions(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    fixture.put_status(heartbeat_body(&fixture, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let patch = r#"{"status":{"lastHeartbeatTime":"2021-10-28T06:07:43Z"}}"#;
    let answer = fixture.send_bytes(Method::PATCH, fixture.status_path(), patch.into()).await.expect(200);
    let condition: Value = serde_json::from_str(CONDITION).unwrap();
    assert_eq!(
        answer["status"],
        json!({"conditions": [condition], "lastHeartbeatTime": "2021-10-28T06:07:43Z"})
    );
}

async fn heartbeat_times_are_stored_as_sent(fixture: Fixture) {
    fixture.create_instance(json!("10s")).await;
    for time in ["2099-01-01T00:00:00Z", "2021-10-28T06:07:33.123456Z", "2021-10-28T08:07:33+02:00"] {
        let read = fixture.read_instance().await;
        let answer = fixture.put_status(heartbeat_body(&fixture, &read, time)).await.expect(200);
        assert_eq!(answer["status"]["lastHeartbeatTime"], time);
        assert_eq!(fixture.read_instance().await["status"]["lastHeartbeatTime"], time);
    }
}

async fn invalid_heartbeat_time_is_rejected(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    let answer = fixture.put_status(heartbeat_body(&fixture, &stored, "banana")).await;
    answer.expect_failure(422, "Invalid").assert_message("status.lastHeartbeatTime");
}

async fn any_string_is_accepted_as_a_period(fixture: Fixture) {
    fixture.create_instance(json!("10s")).await;
    for period in ["banana", "-5s", "", "1m30s"] {
        let patch = format!(r#"{{"spec":{{"heartbeatUpdatePeriod":"{period}"}}}}"#);
        let answer = fixture.send_bytes(Method::PATCH, fixture.path(), patch).await.expect(200);
        assert_eq!(answer["spec"]["heartbeatUpdatePeriod"], period);
    }
}

async fn heartbeat_with_managed_fields_is_accepted(fixture: Fixture) {
    let stored = fixture.create_instance(json!("10s")).await;
    // Go clients send back the managedFields that they have read.
    let mut updated = stored.clone();
    updated["status"] = json!({"lastHeartbeatTime": "2021-10-28T06:07:33Z"});
    let answer = fixture.put_status(updated.to_string()).await.expect(200);
    assert_eq!(answer["status"], json!({"lastHeartbeatTime": "2021-10-28T06:07:33Z"}));
}

/// Server-side apply, on real Kubernetes only, because the embedded API server does not support it yet. In our CRD the list is
/// a map by type, so that field managers of different types do not conflict. In upstream's CRD the list is atomic: one
/// manager would replace the conditions of the other.
#[cfg(feature = "real-kubernetes")]
mod server_side_apply {
    use bellwether_testkit::{on_real_time, real};

    use super::*;

    #[test]
    fn field_managers_conflict_only_on_the_same_condition_type() {
        on_real_time(async {
            let fixture = Fixture::in_cluster(real::cluster("heartbeat").await).await;
            fixture.create_instance(json!("10s")).await;
            let apply = async |manager: &str, type_: &str, reason: &str, force: bool| {
                let path = format!("{}?fieldManager={manager}&force={force}", fixture.status_path());
                let body = format!(
                    r#"{{{},"status":{{"conditions":[{{"type":"{type_}","status":"True","reason":"{reason}","message":"","lastTransitionTime":"2021-10-28T06:07:03Z"}}]}}}}"#,
                    fixture.head("")
                );
                fixture
                    .cluster
                    .send(Call::new(Method::PATCH, path).body("application/apply-patch+yaml", body))
                    .await
            };
            apply("addon", "A", "FromAddon", false).await.expect(200);
            let both = apply("checker", "B", "FromChecker", false).await.expect(200);
            assert_eq!(both["status"]["conditions"].as_array().unwrap().len(), 2);
            apply("checker", "A", "FromChecker", false)
                .await
                .expect_failure(409, "Conflict")
                .assert_message("conflict with \"addon\"");
            let forced = apply("checker", "A", "FromChecker", true).await.expect(200);
            assert_eq!(crate::condition(&forced, "A")["reason"], "FromChecker");
        });
    }
}
