//! The requests of Go clients byte for byte, and the answers that they count on: the table of §5.4.

use bellwether_testkit::{Answer, Call};
use http::Method;
use serde_json::{Value, json};

use crate::{Place, on_every_cluster};

on_every_cluster!(
    a_go_object_with_nothing_set_is_stored_with_a_period_of_0s,
    a_period_is_given_where_there_is_a_spec_without_one,
    a_status_is_put_without_the_null_and_without_the_spec,
    the_same_put_again_changes_nothing,
    a_put_with_an_old_version_is_a_conflict,
    a_put_without_a_version_is_invalid,
    a_merge_patch_of_the_stamp_keeps_the_conditions,
    any_time_is_stored_as_it_was_sent,
    what_is_no_time_is_refused,
    any_text_is_a_period,
    a_pulse_as_go_sends_it_is_taken,
);

const CONDITION: &str = r#"{"type":"addons.managed.openshift.io/Installed","status":"True","observedGeneration":1,"lastTransitionTime":"2021-10-28T06:07:03Z","reason":"SetupComplete","message":"All Components Available"}"#;

impl Place {
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

    /// What Go writes before the spec.
    fn head(&self, more: &str) -> String {
        format!(
            r#""kind":"AddonInstance","apiVersion":"addons.managed.openshift.io/v1alpha1","metadata":{{"name":"addon-instance","namespace":"{}"{more}}}"#,
            self.namespace
        )
    }

    /// What Go writes of an object that it has read.
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

async fn a_go_object_with_nothing_set_is_stored_with_a_period_of_0s(place: Place) {
    // Go's encoders of before and after v0.34.
    for more in ["", r#","creationTimestamp":null"#] {
        let body = format!(
            r#"{{{},"spec":{{"markedForDeletion":false,"heartbeatUpdatePeriod":"0s"}},"status":{{"lastHeartbeatTime":null}}}}"#,
            place.head(more)
        );
        let stored = place.post_bytes(body).await.expect(201);
        assert_eq!(stored["spec"], json!({"markedForDeletion": false, "heartbeatUpdatePeriod": "0s"}));
        assert_eq!(stored.get("status"), None);
        assert_eq!(stored["metadata"]["generation"], 1);
        place.cluster.delete(place.path()).await.expect(200);
    }
}

async fn a_period_is_given_where_there_is_a_spec_without_one(place: Place) {
    let rows = [
        ("", None),
        (r#","spec":{}"#, Some(json!({"heartbeatUpdatePeriod": "10s"}))),
        (r#","spec":{"heartbeatUpdatePeriod":null}"#, Some(json!({"heartbeatUpdatePeriod": "10s"}))),
    ];
    for (spec, wanted) in rows {
        let stored = place.post_bytes(format!("{{{}{spec}}}", place.head(""))).await.expect(201);
        assert_eq!(stored.get("spec"), wanted.as_ref(), "{spec}");
        place.cluster.delete(place.path()).await.expect(200);
    }
}

async fn a_status_is_put_without_the_null_and_without_the_spec(place: Place) {
    let stored = place.install(json!("10s")).await;
    let body = format!(
        r#"{{{},"spec":{{"markedForDeletion":true,"heartbeatUpdatePeriod":"1h0m0s"}},"status":{{"conditions":[{CONDITION}],"lastHeartbeatTime":null}}}}"#,
        place.head_of(&stored)
    );
    let answer = place.put_status(body).await.expect(200);
    let condition: Value = serde_json::from_str(CONDITION).unwrap();
    assert_eq!(answer["status"], json!({"conditions": [condition]}));
    assert_eq!(answer["spec"], json!({"heartbeatUpdatePeriod": "10s"}));
    assert_eq!(answer["metadata"]["generation"], 1);
}

/// The body of a pulse with one condition at a stamp.
fn pulse(place: &Place, read: &Value, stamp: &str) -> String {
    format!(
        r#"{{{},"spec":{{"markedForDeletion":false,"heartbeatUpdatePeriod":"10s"}},"status":{{"conditions":[{CONDITION}],"lastHeartbeatTime":"{stamp}"}}}}"#,
        place.head_of(read)
    )
}

async fn the_same_put_again_changes_nothing(place: Place) {
    let stored = place.install(json!("10s")).await;
    let first = place.put_status(pulse(&place, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let second = place.put_status(pulse(&place, &first, "2021-10-28T06:07:33Z")).await.expect(200);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_ne!(first["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
}

async fn a_put_with_an_old_version_is_a_conflict(place: Place) {
    let stored = place.install(json!("10s")).await;
    place.put_status(pulse(&place, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let answer = place.put_status(pulse(&place, &stored, "2021-10-28T06:07:43Z")).await;
    answer
        .refused(409, "Conflict")
        .says("the object has been modified; please apply your changes to the latest version and try again")
        .about("addons.managed.openshift.io", "addoninstances", "addon-instance");
}

async fn a_put_without_a_version_is_invalid(place: Place) {
    place.install(json!("10s")).await;
    let body = format!(
        r#"{{{},"spec":{{}},"status":{{"lastHeartbeatTime":"2021-10-28T06:07:33Z"}}}}"#,
        place.head("")
    );
    let answer = place.put_status(body).await;
    answer
        .refused(422, "Invalid")
        .says("metadata.resourceVersion: Invalid value: 0: must be specified for an update");
}

async fn a_merge_patch_of_the_stamp_keeps_the_conditions(place: Place) {
    let stored = place.install(json!("10s")).await;
    place.put_status(pulse(&place, &stored, "2021-10-28T06:07:33Z")).await.expect(200);
    let patch = r#"{"status":{"lastHeartbeatTime":"2021-10-28T06:07:43Z"}}"#;
    let answer = place.send_bytes(Method::PATCH, place.status_path(), patch.into()).await.expect(200);
    let condition: Value = serde_json::from_str(CONDITION).unwrap();
    assert_eq!(
        answer["status"],
        json!({"conditions": [condition], "lastHeartbeatTime": "2021-10-28T06:07:43Z"})
    );
}

async fn any_time_is_stored_as_it_was_sent(place: Place) {
    place.install(json!("10s")).await;
    for stamp in ["2099-01-01T00:00:00Z", "2021-10-28T06:07:33.123456Z", "2021-10-28T08:07:33+02:00"] {
        let read = place.stored().await;
        let answer = place.put_status(pulse(&place, &read, stamp)).await.expect(200);
        assert_eq!(answer["status"]["lastHeartbeatTime"], stamp);
        assert_eq!(place.stored().await["status"]["lastHeartbeatTime"], stamp);
    }
}

async fn what_is_no_time_is_refused(place: Place) {
    let stored = place.install(json!("10s")).await;
    let answer = place.put_status(pulse(&place, &stored, "banana")).await;
    answer.refused(422, "Invalid").says("status.lastHeartbeatTime");
}

async fn any_text_is_a_period(place: Place) {
    place.install(json!("10s")).await;
    for period in ["banana", "-5s", "", "1m30s"] {
        let patch = format!(r#"{{"spec":{{"heartbeatUpdatePeriod":"{period}"}}}}"#);
        let answer = place.send_bytes(Method::PATCH, place.path(), patch).await.expect(200);
        assert_eq!(answer["spec"]["heartbeatUpdatePeriod"], period);
    }
}

async fn a_pulse_as_go_sends_it_is_taken(place: Place) {
    let stored = place.install(json!("10s")).await;
    // Go sends the managedFields back that it has read, where the server keeps some.
    let mut whole = stored.clone();
    whole["status"] = json!({"lastHeartbeatTime": "2021-10-28T06:07:33Z"});
    let answer = place.put_status(whole.to_string()).await.expect(200);
    assert_eq!(answer["status"], json!({"lastHeartbeatTime": "2021-10-28T06:07:33Z"}));
}

/// Server-side apply: real Kubernetes only, until our server has it. With our definition the list is a map by type, so
/// that managers of different types do not meet (with upstream's atomic list, one replaces the other's).
#[cfg(feature = "real-kubernetes")]
mod server_side_apply {
    use bellwether_testkit::{on_real_time, real};

    use super::*;

    #[test]
    fn managers_of_different_types_do_not_meet_and_of_one_type_do() {
        on_real_time(async {
            let place = Place::in_cluster(real::cluster("heartbeat").await).await;
            place.install(json!("10s")).await;
            let apply = async |manager: &str, type_: &str, reason: &str, force: bool| {
                let path = format!("{}?fieldManager={manager}&force={force}", place.status_path());
                let body = format!(
                    r#"{{{},"status":{{"conditions":[{{"type":"{type_}","status":"True","reason":"{reason}","message":"","lastTransitionTime":"2021-10-28T06:07:03Z"}}]}}}}"#,
                    place.head("")
                );
                place
                    .cluster
                    .send(Call::new(Method::PATCH, path).body("application/apply-patch+yaml", body))
                    .await
            };
            apply("addon", "A", "Mine", false).await.expect(200);
            let both = apply("checker", "B", "Theirs", false).await.expect(200);
            assert_eq!(both["status"]["conditions"].as_array().unwrap().len(), 2);
            apply("checker", "A", "Theirs", false)
                .await
                .refused(409, "Conflict")
                .says("conflict with \"addon\"");
            let forced = apply("checker", "A", "Theirs", true).await.expect(200);
            assert_eq!(crate::condition(&forced, "A")["reason"], "Theirs");
        });
    }
}
