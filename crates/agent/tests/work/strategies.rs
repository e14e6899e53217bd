//! Objects are written as the updateStrategy of their ManifestWork says.

use bellwether_testkit::Call;
use serde_json::{Value, json};

use crate::fixture::{Fixture, condition, manifest_status, uid};

fn strategy(fixture: &Fixture<'_>, name: &str, strategy: Value) -> Value {
    json!({"manifestConfigs": [{
        "resourceIdentifier": {"group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": name},
        "updateStrategy": strategy,
    }]})
}

/// Applies an object as another field manager.
async fn apply(fixture: &Fixture<'_>, map: &Value, manager: &str) {
    let path = format!(
        "{}?fieldManager={manager}",
        fixture.config_map_path(map["metadata"]["name"].as_str().unwrap())
    );
    let call = Call::new(http::Method::PATCH, path).body("application/apply-patch+yaml", map.to_string());
    fixture.spoke.send(call).await.expect(201);
}

pub(crate) async fn apply_conflict_is_reported_and_resolved_by_force(fixture: &Fixture<'_>) {
    apply(fixture, &fixture.config_map("a", json!({"k": "theirs"})), "them").await;
    let _agent = fixture.start_agent();
    let unforced = strategy(fixture, "a", json!({"type": "ServerSideApply"}));
    let manifests =
        json!([fixture.config_map("a", json!({"k": "ours"})), fixture.config_map("b", json!({}))]);
    fixture.create_work_with("w", manifests, unforced).await;
    let work = fixture.wait_for_applied("w", "False").await;
    let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("conflict") && message.contains("them"), "{message}");
    assert_eq!(
        condition(&manifest_status(&work, 0), "Available")["status"],
        "True",
        "the object exists, although it was not applied"
    );
    assert_eq!(condition(&manifest_status(&work, 1), "Applied")["status"], "True");
    assert_eq!(fixture.get_config_map("a").await.expect(200)["data"]["k"], "theirs");
    fixture.wait_until_idle().await;
    assert_eq!(fixture.get_work("w").await, work, "the apply is not retried without a change");

    let forced =
        strategy(fixture, "a", json!({"type": "ServerSideApply", "serverSideApply": {"force": true}}));
    fixture.patch_work("w", json!({"spec": forced})).await;
    fixture.wait_until_available("w").await;
    assert_eq!(fixture.get_config_map("a").await.expect(200)["data"]["k"], "ours");
}

pub(crate) async fn create_only_object_is_not_updated(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let path = format!("/api/v1/namespaces/{}/configmaps", fixture.namespace);
    let theirs =
        fixture.spoke.post(&path, &fixture.config_map("theirs", json!({"k": "theirs"}))).await.expect(201);
    let any = strategy(fixture, "*", json!({"type": "CreateOnly"}));
    let manifests = |value: &str| {
        json!([
            fixture.config_map("ours", json!({"k": value})),
            fixture.config_map("theirs", json!({"k": value}))
        ])
    };
    fixture.create_work_with("w", manifests("1"), any).await;
    fixture.wait_until_available("w").await;
    assert_eq!(fixture.get_config_map("ours").await.expect(200)["data"]["k"], "1");
    fixture.set_manifests("w", manifests("2")).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    assert_eq!(fixture.get_config_map("ours").await.expect(200)["data"]["k"], "1");
    assert_eq!(fixture.get_config_map("theirs").await.expect(200), theirs);
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(fixture.config_map_names().await, ["theirs"]);
}

pub(crate) async fn read_only_object_is_not_written(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let any = strategy(fixture, "*", json!({"type": "ReadOnly"}));
    fixture.create_work_with("w", json!([fixture.config_map("a", json!({"k": "v"}))]), any).await;
    let work = fixture
        .wait_for_work("w", "reports the missing object", |work| {
            condition(work, "Available")["status"] == "False"
        })
        .await;
    assert_eq!(condition(&work, "Applied")["status"], "True");
    assert!(fixture.config_map_names().await.is_empty());
    let path = format!("/api/v1/namespaces/{}/configmaps", fixture.namespace);
    let theirs =
        fixture.spoke.post(&path, &fixture.config_map("a", json!({"k": "theirs"}))).await.expect(201);
    fixture.wait_until_available("w").await;
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(uid(&fixture.get_config_map("a").await.expect(200)), uid(&theirs));
}

pub(crate) async fn update_takes_over_fields_of_other_managers(fixture: &Fixture<'_>) {
    apply(fixture, &fixture.config_map("a", json!({"k": "theirs", "more": "theirs"})), "them").await;
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "ours"}))])).await;
    fixture.wait_until_available("w").await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(map["data"], json!({"k": "ours", "more": "theirs"}));
}
