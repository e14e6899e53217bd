//! What objects say of themselves is told on the hub.

use std::time::Duration;

use serde_json::{Value, json};

use crate::stage::{Stage, condition, manifest, values};

fn rules(stage: &Stage<'_>, rules: Value) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "apps", "resource": "deployments", "namespace": stage.namespace, "name": "d"},
        "feedbackRules": rules,
    }]})
}

async fn set_status(stage: &Stage<'_>, status: Value) {
    let path = format!("{}/status", stage.deployment_path("d"));
    stage.spoke.merge(path, &json!({"status": status})).await.expect(200);
}

pub(crate) async fn the_status_of_workloads_is_reported(stage: &Stage<'_>) {
    let _agent = stage.run();
    let rules = rules(stage, json!([{"type": "WellKnownStatus"}]));
    stage.ask_with("w", json!([stage.map("a", json!({})), stage.deployment("d", 3)]), rules).await;
    let work = stage.until_well("w").await;
    assert_eq!(values(&work, 1), json!({}));
    set_status(stage, json!({"replicas": 3, "readyReplicas": 1, "availableReplicas": 1})).await;
    let wanted = json!({"Replicas": 3, "ReadyReplicas": 1, "AvailableReplicas": 1});
    let work = stage.until("w", "reports replicas", |work| values(work, 1) == wanted).await;
    assert_eq!(condition(&manifest(&work, 1), "StatusFeedbackSynced")["reason"], "StatusFeedbackSynced");
    set_status(stage, json!({"replicas": 3, "readyReplicas": 3, "availableReplicas": 3})).await;
    let wanted = json!({"Replicas": 3, "ReadyReplicas": 3, "AvailableReplicas": 3});
    let work = stage.until("w", "reports replicas", |work| values(work, 1) == wanted).await;
    let deployment = stage.spoke.get(stage.deployment_path("d")).await.expect(200);
    assert_eq!(deployment["metadata"]["generation"], 1, "a status is no reason to apply anything");
    assert_eq!(work["metadata"]["generation"], 1);
}

pub(crate) async fn what_was_said_before_a_change_is_not_told_after_it(stage: &Stage<'_>) {
    let _agent = stage.run();
    let rules = rules(stage, json!([{"type": "WellKnownStatus"}]));
    stage.ask_with("w", json!([stage.deployment("d", 1)]), rules).await;
    stage.until_well("w").await;
    set_status(
        stage,
        json!({"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}),
    )
    .await;
    stage.until("w", "is ready", |work| values(work, 0)["ReadyReplicas"] == 1).await;
    let mut changed = stage.deployment("d", 1);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("example/main:2");
    stage.change("w", json!([changed])).await;
    let work = stage.until_well("w").await;
    assert_eq!(values(&work, 0), json!({}), "the old pods are ready, and say nothing of the new");
    set_status(
        stage,
        json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1}),
    )
    .await;
    stage.until("w", "is ready again", |work| values(work, 0)["UpdatedReplicas"] == 1).await;
}

pub(crate) async fn what_paths_lead_to_is_reported(stage: &Stage<'_>) {
    let _agent = stage.run();
    let paths = json!([
        {"name": "available", "path": ".conditions[?(@.type==\"Available\")].status"},
        {"name": "conditions", "path": ".conditions[*]"},
        {"name": "nothing", "path": ".nothing"},
    ]);
    let rules = rules(stage, json!([{"type": "JSONPaths", "jsonPaths": paths}]));
    stage.ask_with("w", json!([stage.deployment("d", 1)]), rules).await;
    stage.until_well("w").await;
    let held = json!({"type": "Available", "status": "True", "reason": "Up", "message": "m",
        "lastUpdateTime": "2024-05-01T10:00:00Z", "lastTransitionTime": "2024-05-01T10:00:00Z"});
    set_status(stage, json!({"conditions": [held]})).await;
    let work =
        stage.until("w", "reports that it is available", |work| values(work, 0)["available"] == "True").await;
    assert!(values(&work, 0)["conditions"].as_str().unwrap().contains("\"reason\":\"Up\""));
    let synced = condition(&manifest(&work, 0), "StatusFeedbackSynced");
    assert_eq!((&synced["status"], &synced["reason"]), (&json!("False"), &json!("StatusFeedbackSyncFailed")));
    assert_eq!(synced["message"], "nothing: there is nothing at .nothing");
}

pub(crate) async fn feedback_follows_within_a_second(stage: &Stage<'_>) {
    let _agent = stage.run();
    let rules = rules(stage, json!([{"type": "WellKnownStatus"}]));
    stage.ask_with("w", json!([stage.deployment("d", 9)]), rules).await;
    stage.until_well("w").await;
    stage.calm().await;
    for ready in 1..6 {
        let begun = tokio::time::Instant::now();
        set_status(stage, json!({"replicas": 9, "readyReplicas": ready})).await;
        stage.until("w", "follows", |work| values(work, 0)["ReadyReplicas"] == ready).await;
        let limit = if stage.hub.is_kubernetes() { 5 } else { 1 };
        assert!(begun.elapsed() < Duration::from_secs(limit), "{:?}", begun.elapsed());
    }
}
