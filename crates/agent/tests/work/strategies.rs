//! How objects are written is for their work to say.

use bellwether_testkit::Call;
use serde_json::{Value, json};

use crate::stage::{Stage, condition, manifest, uid};

fn strategy(stage: &Stage<'_>, name: &str, strategy: Value) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": stage.namespace, "name": name},
        "updateStrategy": strategy,
    }]})
}

/// Somebody else applies an object.
async fn apply(stage: &Stage<'_>, map: &Value, manager: &str) {
    let path =
        format!("{}?fieldManager={manager}", stage.map_path(map["metadata"]["name"].as_str().unwrap()));
    let call = Call::new(http::Method::PATCH, path).body("application/apply-patch+yaml", map.to_string());
    stage.spoke.send(call).await.expect(201);
}

pub(crate) async fn a_conflict_is_told_and_force_ends_it(stage: &Stage<'_>) {
    apply(stage, &stage.map("a", json!({"k": "theirs"})), "them").await;
    let _agent = stage.run();
    let calm = strategy(stage, "a", json!({"type": "ServerSideApply"}));
    let manifests = json!([stage.map("a", json!({"k": "ours"})), stage.map("b", json!({}))]);
    stage.ask_with("w", manifests, calm).await;
    let work = stage.until_applied("w", "False").await;
    let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("conflict") && message.contains("them"), "{message}");
    assert_eq!(
        condition(&manifest(&work, 0), "Available")["status"],
        "True",
        "it is there, though not as wanted"
    );
    assert_eq!(condition(&manifest(&work, 1), "Applied")["status"], "True");
    assert_eq!(stage.map_now("a").await.expect(200)["data"]["k"], "theirs");
    stage.calm().await;
    assert_eq!(stage.read("w").await, work, "it is not tried again without a change");

    let forced = strategy(stage, "a", json!({"type": "ServerSideApply", "serverSideApply": {"force": true}}));
    stage.patch("w", json!({"spec": forced})).await;
    stage.until_well("w").await;
    assert_eq!(stage.map_now("a").await.expect(200)["data"]["k"], "ours");
}

pub(crate) async fn what_is_only_created_is_not_updated(stage: &Stage<'_>) {
    let _agent = stage.run();
    let path = format!("/api/v1/namespaces/{}/configmaps", stage.namespace);
    let theirs = stage.spoke.post(&path, &stage.map("theirs", json!({"k": "theirs"}))).await.expect(201);
    let any = strategy(stage, "*", json!({"type": "CreateOnly"}));
    let manifests = |value: &str| {
        json!([stage.map("ours", json!({"k": value})), stage.map("theirs", json!({"k": value}))])
    };
    stage.ask_with("w", manifests("1"), any).await;
    stage.until_well("w").await;
    assert_eq!(stage.map_now("ours").await.expect(200)["data"]["k"], "1");
    stage.change("w", manifests("2")).await;
    stage.until_well("w").await;
    stage.calm().await;
    assert_eq!(stage.map_now("ours").await.expect(200)["data"]["k"], "1");
    assert_eq!(stage.map_now("theirs").await.expect(200), theirs);
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(stage.maps().await, ["theirs"]);
}

pub(crate) async fn what_is_only_read_is_not_written(stage: &Stage<'_>) {
    let _agent = stage.run();
    let any = strategy(stage, "*", json!({"type": "ReadOnly"}));
    stage.ask_with("w", json!([stage.map("a", json!({"k": "v"}))]), any).await;
    let work = stage.until("w", "has looked", |work| condition(work, "Available")["status"] == "False").await;
    assert_eq!(condition(&work, "Applied")["status"], "True");
    assert!(stage.maps().await.is_empty());
    let path = format!("/api/v1/namespaces/{}/configmaps", stage.namespace);
    let theirs = stage.spoke.post(&path, &stage.map("a", json!({"k": "theirs"}))).await.expect(201);
    stage.until_well("w").await;
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(uid(&stage.map_now("a").await.expect(200)), uid(&theirs));
}

pub(crate) async fn an_update_takes_what_others_own(stage: &Stage<'_>) {
    apply(stage, &stage.map("a", json!({"k": "theirs", "more": "theirs"})), "them").await;
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "ours"}))])).await;
    stage.until_well("w").await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(map["data"], json!({"k": "ours", "more": "theirs"}));
}
