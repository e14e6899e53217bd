//! The status of objects is reported to the hub.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, condition, feedback_values, manifest_status};

fn rules(fixture: &Fixture<'_>, rules: Value) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": fixture.namespace, "name": "d"},
        "feedbackRules": rules,
    }]})
}

async fn set_status(fixture: &Fixture<'_>, status: Value) {
    let path = format!("{}/status", fixture.deployment_path("d"));
    fixture.spoke.merge(path, &json!({"status": status})).await.expect(200);
}

pub(crate) async fn well_known_status_of_workloads_is_reported(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let rules = rules(fixture, json!([{"type": "WellKnownStatus"}]));
    fixture
        .create_work_with("w", json!([fixture.config_map("a", json!({})), fixture.deployment("d", 3)]), rules)
        .await;
    let work = fixture.wait_until_available("w").await;
    assert_eq!(feedback_values(&work, 1), json!({}));
    set_status(fixture, json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1})).await;
    let wanted = json!({"Replicas": 3, "ReadyReplicas": 1, "AvailableReplicas": 1});
    let work =
        fixture.wait_for_work("w", "reports replicas", |work| feedback_values(work, 1) == wanted).await;
    assert_eq!(
        condition(&manifest_status(&work, 1), "StatusFeedbackSynced")["reason"],
        "StatusFeedbackSynced"
    );
    set_status(fixture, json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3})).await;
    let wanted = json!({"Replicas": 3, "ReadyReplicas": 3, "AvailableReplicas": 3});
    let work =
        fixture.wait_for_work("w", "reports replicas", |work| feedback_values(work, 1) == wanted).await;
    let deployment = fixture.spoke.get(fixture.deployment_path("d")).await.expect(200);
    assert_eq!(deployment["metadata"]["generation"], 1, "a change of the status does not cause an apply");
    assert_eq!(work["metadata"]["generation"], 1);
}

pub(crate) async fn stale_workload_status_is_not_reported(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let rules = rules(fixture, json!([{"type": "WellKnownStatus"}]));
    fixture.create_work_with("w", json!([fixture.deployment("d", 1)]), rules).await;
    fixture.wait_until_available("w").await;
    set_status(
        fixture,
        json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}),
    )
    .await;
    fixture.wait_for_work("w", "is ready", |work| feedback_values(work, 0)["ReadyReplicas"] == 1).await;
    let mut changed = fixture.deployment("d", 1);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example/main:2");
    fixture.set_manifests("w", json!([changed])).await;
    let work = fixture.wait_until_available("w").await;
    assert_eq!(
        feedback_values(&work, 0),
        json!({}),
        "the ready replicas are those of the previous generation"
    );
    set_status(
        fixture,
        json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}),
    )
    .await;
    fixture
        .wait_for_work("w", "is ready again", |work| feedback_values(work, 0)["UpdatedReplicas"] == 1)
        .await;
}

pub(crate) async fn values_at_json_paths_are_reported(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let paths = json!([
        {"name": "available", "path": ".conditions[?(@.type==\"Available\")].status"},
        {"name": "conditions", "path": ".conditions[*]"},
        {"name": "nothing", "path": ".nothing"},
    ]);
    let rules = rules(fixture, json!([{"type": "JSONPaths", "jsonPaths": paths}]));
    fixture.create_work_with("w", json!([fixture.deployment("d", 1)]), rules).await;
    fixture.wait_until_available("w").await;
    let available = json!({"type": "Available", "status": "True", "reason": "Up", "message": "m",
        "lastUpdateTime": "2024-05-01T10:00:00Z", "lastTransitionTime": "2024-05-01T10:00:00Z"});
    set_status(fixture, json!({"conditions": [available]})).await;
    let work = fixture
        .wait_for_work("w", "reports that it is available", |work| {
            feedback_values(work, 0)["available"] == "True"
        })
        .await;
    assert!(feedback_values(&work, 0)["conditions"].as_str().unwrap().contains("\"reason\":\"Up\""));
    let synced = condition(&manifest_status(&work, 0), "StatusFeedbackSynced");
    assert_eq!((&synced["status"], &synced["reason"]), (&json!("False"), &json!("StatusFeedbackSyncFailed")));
    assert_eq!(synced["message"], "nothing: the status has no value at .nothing");
}

pub(crate) async fn feedback_is_updated_within_a_second(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let rules = rules(fixture, json!([{"type": "WellKnownStatus"}]));
    fixture.create_work_with("w", json!([fixture.deployment("d", 9)]), rules).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    for ready in 1..6 {
        let started = tokio::time::Instant::now();
        set_status(fixture, json!({"replicas": 9, "readyReplicas": ready})).await;
        fixture
            .wait_for_work("w", "reports the ready replicas", |work| {
                feedback_values(work, 0)["ReadyReplicas"] == ready
            })
            .await;
        let limit = if fixture.hub.is_kubernetes() { 5 } else { 1 };
        assert!(started.elapsed() < Duration::from_secs(limit), "{:?}", started.elapsed());
    }
}
