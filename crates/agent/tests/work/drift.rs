//! Drift is repaired, and nothing is written without need.

use bellwether_runtime::Leadership;
use bellwether_testkit::{Tap, eventually};
use serde_json::json;

use crate::fixture::{Fixture, condition, uid};

pub(crate) async fn changed_object_is_reverted(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({"k": "v"})), fixture.deployment("d", 2)]))
        .await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let started = tokio::time::Instant::now();
    fixture.spoke.merge(fixture.config_map_path("a"), &json!({"data": {"k": "other"}})).await.expect(200);
    fixture.wait_for_config_map("a", "is reverted", |map| map["data"] == json!({"k": "v"})).await;
    if !fixture.hub.is_kubernetes() {
        assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
    }
    fixture.spoke.merge(fixture.deployment_path("d"), &json!({"spec": {"replicas": 7}})).await.expect(200);
    eventually("the Deployment is reverted", || async {
        let deployment = fixture.spoke.get(fixture.deployment_path("d")).await.expect(200);
        (deployment["spec"]["replicas"] == 2).then_some(())
    })
    .await;
    let without_owner = json!({"metadata": {"ownerReferences": null}});
    fixture.spoke.merge(fixture.config_map_path("a"), &without_owner).await.expect(200);
    fixture
        .wait_for_config_map("a", "has its owner again", |map| map["metadata"]["ownerReferences"].is_array())
        .await;
}

pub(crate) async fn deleted_object_is_created_again(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "v"}))])).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let before = uid(&fixture.get_config_map("a").await.expect(200));
    fixture.spoke.delete(fixture.config_map_path("a")).await.expect(200);
    let map = fixture.wait_for_config_map("a", "exists again", |map| uid(map) != before).await;
    eventually("the new object is recorded", || async {
        (fixture.applied_resources("w").await == [("configmaps".into(), "a".into(), uid(&map))]).then_some(())
    })
    .await;
    fixture.wait_until_available("w").await;
}

pub(crate) async fn fields_of_other_managers_are_kept(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "v"}))])).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let theirs = json!({"data": {"theirs": "1"}, "metadata": {"labels": {"theirs": "1"}}});
    let added = fixture.spoke.merge(fixture.config_map_path("a"), &theirs).await.expect(200);
    fixture.sleep(1300).await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(map["metadata"]["resourceVersion"], added["metadata"]["resourceVersion"]);
}

pub(crate) async fn no_requests_are_sent_while_nothing_changes(fixture: &Fixture<'_>) {
    let ((hub, on_hub), (spoke, on_spoke)) = (Tap::on(fixture.hub.client()), Tap::on(fixture.spoke.client()));
    let _agent = fixture.start_agent_with(hub, spoke);
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({"k": "v"})), fixture.deployment("d", 2)]))
        .await;
    fixture.create_work("x", json!([fixture.config_map("x", json!({"k": "v"}))])).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_available("x").await;
    fixture.wait_until_idle().await;
    let (hub, spoke) = (on_hub.requests().len(), on_spoke.requests().len());
    fixture.sleep(60).await;
    assert_eq!(on_hub.requests()[hub..], []);
    assert_eq!(on_spoke.requests()[spoke..], []);
    let writes = (on_hub.writes().len(), on_spoke.writes().len());
    let works = (fixture.get_work("w").await, fixture.get_work("x").await);
    // A resync reads all objects again, and writes nothing.
    fixture.sleep(1300).await;
    assert_eq!((on_hub.writes().len(), on_spoke.writes().len()), writes);
    assert_eq!((fixture.get_work("w").await, fixture.get_work("x").await), works);
}

pub(crate) async fn restarted_agent_writes_nothing(fixture: &Fixture<'_>) {
    let agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({"k": "v"})), fixture.deployment("d", 2)]))
        .await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    drop(agent);
    let snapshot = || async {
        let applied_work = fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200);
        let deployment = fixture.spoke.get(fixture.deployment_path("d")).await.expect(200);
        (fixture.get_work("w").await, fixture.get_config_map("a").await.expect(200), deployment, applied_work)
    };
    let before = snapshot().await;
    let (hub, tap) = Tap::on(fixture.hub.client());
    let _agent = fixture.start_agent_with(hub, fixture.spoke.client());
    fixture.wait_until_idle().await;
    assert_eq!(snapshot().await, before);
    assert_eq!(tap.writes(), []);
}

pub(crate) async fn cleared_status_and_finalizer_are_written_again(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let path = format!("{}/status", fixture.work_path("w"));
    fixture.hub.merge(path, &json!({"status": {"conditions": [], "resourceStatus": null}})).await.expect(200);
    let work = fixture.wait_until_available("w").await;
    assert_eq!(work["status"]["resourceStatus"]["manifests"].as_array().unwrap().len(), 1);
    // A finalizer that another client removed is added again.
    fixture.patch_work("w", json!({"metadata": {"finalizers": null}})).await;
    fixture
        .wait_for_work("w", "has its finalizer again", |work| work["metadata"]["finalizers"].is_array())
        .await;
}

pub(crate) async fn standby_writes_nothing(fixture: &Fixture<'_>) {
    let ((hub, on_hub), (spoke, on_spoke)) = (Tap::on(fixture.hub.client()), Tap::on(fixture.spoke.client()));
    let (leader, leadership) = Leadership::manual();
    let _agent = fixture.start_agent_as(hub, spoke, leadership);
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_idle().await;
    assert_eq!((on_hub.writes(), on_spoke.requests()), (vec![], vec![]));
    leader.send(true).unwrap();
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    leader.send(false).unwrap();
    fixture.wait_until_idle().await;
    let writes = on_spoke.writes().len();
    fixture
        .spoke
        .merge(fixture.config_map_path("a"), &json!({"metadata": {"ownerReferences": null}}))
        .await
        .expect(200);
    fixture.wait_until_idle().await;
    assert_eq!(on_spoke.writes().len(), writes);
    leader.send(true).unwrap();
    fixture
        .wait_for_config_map("a", "has its owner again", |map| map["metadata"]["ownerReferences"].is_array())
        .await;
}

pub(crate) async fn conflicting_works_are_repaired_with_backoff(fixture: &Fixture<'_>) {
    let (spoke, tap) = Tap::on(fixture.spoke.client());
    let _agent = fixture.start_agent_with(fixture.hub.client(), spoke);
    fixture.create_work("one", json!([fixture.config_map("a", json!({"k": "one"}))])).await;
    fixture.create_work("two", json!([fixture.config_map("a", json!({"k": "two"}))])).await;
    fixture.create_work("good", json!([fixture.config_map("good", json!({}))])).await;
    fixture.wait_until_available("good").await;
    fixture.sleep(120).await;
    let path = fixture.config_map_path("a");
    let count = || tap.writes().iter().filter(|write| write.path.contains(&path)).count();
    let before = count();
    fixture.sleep(600).await;
    assert!(count() - before <= 25, "{} writes in ten minutes", count() - before);
    assert_eq!(condition(&fixture.get_work("good").await, "Applied")["status"], "True");
}
