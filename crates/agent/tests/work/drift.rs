//! Objects stay as they should be, and nothing is written without need.

use bellwether_runtime::Leadership;
use bellwether_testkit::{Tap, eventually};
use serde_json::json;

use crate::stage::{Stage, condition, uid};

pub(crate) async fn a_changed_object_is_changed_back(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "v"})), stage.deployment("d", 2)])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let begun = tokio::time::Instant::now();
    stage.spoke.merge(stage.map_path("a"), &json!({"data": {"k": "other"}})).await.expect(200);
    stage.map_until("a", "is changed back", |map| map["data"] == json!({"k": "v"})).await;
    if !stage.hub.is_kubernetes() {
        assert!(begun.elapsed() < std::time::Duration::from_secs(1), "{:?}", begun.elapsed());
    }
    stage.spoke.merge(stage.deployment_path("d"), &json!({"spec": {"replicas": 7}})).await.expect(200);
    eventually("the Deployment is changed back", || async {
        let deployment = stage.spoke.get(stage.deployment_path("d")).await.expect(200);
        (deployment["spec"]["replicas"] == 2).then_some(())
    })
    .await;
    let strip = json!({"metadata": {"ownerReferences": null}});
    stage.spoke.merge(stage.map_path("a"), &strip).await.expect(200);
    stage.map_until("a", "is ours again", |map| map["metadata"]["ownerReferences"].is_array()).await;
}

pub(crate) async fn a_deleted_object_is_made_again(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "v"}))])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let before = uid(&stage.map_now("a").await.expect(200));
    stage.spoke.delete(stage.map_path("a")).await.expect(200);
    let map = stage.map_until("a", "is there again", |map| uid(map) != before).await;
    eventually("the record knows it", || async {
        (stage.recorded("w").await == [("configmaps".into(), "a".into(), uid(&map))]).then_some(())
    })
    .await;
    stage.until_well("w").await;
}

pub(crate) async fn what_others_add_stays(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "v"}))])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let theirs = json!({"data": {"theirs": "1"}, "metadata": {"labels": {"theirs": "1"}}});
    let added = stage.spoke.merge(stage.map_path("a"), &theirs).await.expect(200);
    stage.pass(1300).await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(map["metadata"]["resourceVersion"], added["metadata"]["resourceVersion"]);
}

pub(crate) async fn nothing_is_written_in_a_quiet_minute(stage: &Stage<'_>) {
    let ((hub, on_hub), (spoke, on_spoke)) = (Tap::on(stage.hub.client()), Tap::on(stage.spoke.client()));
    let _agent = stage.run_by(hub, spoke);
    stage.ask("w", json!([stage.map("a", json!({"k": "v"})), stage.deployment("d", 2)])).await;
    stage.ask("x", json!([stage.map("x", json!({"k": "v"}))])).await;
    stage.until_well("w").await;
    stage.until_well("x").await;
    stage.calm().await;
    let (hub, spoke) = (on_hub.requests().len(), on_spoke.requests().len());
    stage.pass(60).await;
    assert_eq!(on_hub.requests()[hub..], []);
    assert_eq!(on_spoke.requests()[spoke..], []);
    let writes = (on_hub.writes().len(), on_spoke.writes().len());
    let works = (stage.read("w").await, stage.read("x").await);
    // Also when everything is looked at again.
    stage.pass(1300).await;
    assert_eq!((on_hub.writes().len(), on_spoke.writes().len()), writes);
    assert_eq!((stage.read("w").await, stage.read("x").await), works);
}

pub(crate) async fn a_new_agent_leaves_no_trace(stage: &Stage<'_>) {
    let agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "v"})), stage.deployment("d", 2)])).await;
    stage.until_well("w").await;
    stage.calm().await;
    drop(agent);
    let seen = || async {
        let record = stage.spoke.get(stage.record_path("w")).await.expect(200);
        let deployment = stage.spoke.get(stage.deployment_path("d")).await.expect(200);
        (stage.read("w").await, stage.map_now("a").await.expect(200), deployment, record)
    };
    let before = seen().await;
    let (hub, tap) = Tap::on(stage.hub.client());
    let _agent = stage.run_by(hub, stage.spoke.client());
    stage.calm().await;
    assert_eq!(seen().await, before);
    assert_eq!(tap.writes(), []);
}

pub(crate) async fn a_status_that_somebody_spoils_is_told_again(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let path = format!("{}/status", stage.work_path("w"));
    stage.hub.merge(path, &json!({"status": {"conditions": [], "resourceStatus": null}})).await.expect(200);
    let work = stage.until_well("w").await;
    assert_eq!(work["status"]["resourceStatus"]["manifests"].as_array().unwrap().len(), 1);
    // A finalizer that somebody takes comes back, as long as it can.
    stage.patch("w", json!({"metadata": {"finalizers": null}})).await;
    stage.until("w", "is held again", |work| work["metadata"]["finalizers"].is_array()).await;
}

pub(crate) async fn a_copy_that_stands_by_writes_nothing(stage: &Stage<'_>) {
    let ((hub, on_hub), (spoke, on_spoke)) = (Tap::on(stage.hub.client()), Tap::on(stage.spoke.client()));
    let (lead, leadership) = Leadership::manual();
    let _agent = stage.run_as(hub, spoke, leadership);
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    stage.calm().await;
    assert_eq!((on_hub.writes(), on_spoke.requests()), (vec![], vec![]));
    lead.send(true).unwrap();
    stage.until_well("w").await;
    stage.calm().await;
    lead.send(false).unwrap();
    stage.calm().await;
    let writes = on_spoke.writes().len();
    stage.spoke.merge(stage.map_path("a"), &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
    stage.calm().await;
    assert_eq!(on_spoke.writes().len(), writes);
    lead.send(true).unwrap();
    stage.map_until("a", "is ours again", |map| map["metadata"]["ownerReferences"].is_array()).await;
}

pub(crate) async fn a_fight_over_an_object_calms_down(stage: &Stage<'_>) {
    let (spoke, tap) = Tap::on(stage.spoke.client());
    let _agent = stage.run_by(stage.hub.client(), spoke);
    stage.ask("one", json!([stage.map("a", json!({"k": "one"}))])).await;
    stage.ask("two", json!([stage.map("a", json!({"k": "two"}))])).await;
    stage.ask("good", json!([stage.map("good", json!({}))])).await;
    stage.until_well("good").await;
    stage.pass(120).await;
    let path = stage.map_path("a");
    let count = || tap.writes().iter().filter(|write| write.path.contains(&path)).count();
    let before = count();
    stage.pass(600).await;
    assert!(count() - before <= 25, "{} writes in ten minutes", count() - before);
    assert_eq!(condition(&stage.read("good").await, "Applied")["status"], "True");
}
