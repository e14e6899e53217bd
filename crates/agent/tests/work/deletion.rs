//! Objects go, and only those that should.

use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::stage::{FINALIZER, Stage, condition, uid};

/// Something that keeps an object.
const HOLD: &str = "example.com/hold";

async fn hold(stage: &Stage<'_>, map: &str) {
    let patch = json!({"metadata": {"finalizers": [HOLD]}});
    stage.spoke.merge(stage.map_path(map), &patch).await.expect(200);
}

async fn let_go(stage: &Stage<'_>, map: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    stage.spoke.merge(stage.map_path(map), &patch).await.expect(200);
}

pub(crate) async fn a_deleted_work_takes_its_objects_along(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({})), stage.deployment("d", 1)])).await;
    stage.until_well("w").await;
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(stage.map_now("a").await.status, 404);
    assert_eq!(stage.spoke.get(stage.deployment_path("d")).await.status, 404);
    assert_eq!(stage.spoke.get(stage.record_path("w")).await.status, 404);
}

pub(crate) async fn a_work_waits_for_the_finalizers_of_its_objects(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({})), stage.map("b", json!({}))])).await;
    stage.until_well("w").await;
    hold(stage, "a").await;
    stage.delete("w").await;
    stage.map_until_gone("b").await;
    let work =
        stage.until("w", "is being deleted", |work| condition(work, "Deleting")["status"] == "True").await;
    assert_eq!(condition(&work, "Deleting")["reason"], "WorkDeleting");
    assert_eq!(work["metadata"]["finalizers"], json!([FINALIZER]));
    stage
        .until("w", "says what it waits for", |work| {
            let message = condition(work, "Deleting")["message"].as_str().unwrap_or_default().to_owned();
            message == format!("ManifestWork is being deleted: it waits for configmaps {}/a", stage.namespace)
        })
        .await;
    stage.spoke.get(stage.record_path("w")).await.expect(200);
    let_go(stage, "a").await;
    stage.until_gone("w").await;
    assert!(stage.maps().await.is_empty());
}

pub(crate) async fn an_object_that_is_no_longer_named_goes_and_is_waited_for(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({})), stage.map("b", json!({}))])).await;
    stage.until_well("w").await;
    hold(stage, "b").await;
    stage.change("w", json!([stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    stage.map_until("b", "is being deleted", |map| map["metadata"]["deletionTimestamp"].is_string()).await;
    assert_eq!(stage.recorded("w").await.len(), 2, "what is not gone is not forgotten");
    let_go(stage, "b").await;
    eventually("the record forgets it", || async { (stage.recorded("w").await.len() == 1).then_some(()) })
        .await;
}

pub(crate) async fn what_needs_others_goes_before_them(stage: &Stage<'_>) {
    let _agent = stage.run();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": stage.namespace},
        "spec": {"ports": [{"port": 80}]}});
    let service_path = format!("/api/v1/namespaces/{}/services/s", stage.namespace);
    stage.ask("w", json!([stage.map("a", json!({})), service])).await;
    stage.until_well("w").await;
    let patch = json!({"metadata": {"finalizers": [HOLD]}});
    stage.spoke.merge(&service_path, &patch).await.expect(200);
    stage.delete("w").await;
    eventually("the Service leaves", || async {
        stage.spoke.get(&service_path).await.json()["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    stage.pass(30).await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(map["metadata"]["deletionTimestamp"], Value::Null, "what was made before stays until then");
    stage.spoke.merge(&service_path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    stage.until_gone("w").await;
    assert!(stage.maps().await.is_empty());
}

pub(crate) async fn orphans_stay(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    stage.patch("w", json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}})).await;
    stage.until_well("w").await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(map["metadata"].get("ownerReferences"), None, "{map}");
    assert!(stage.recorded("w").await.is_empty());
    stage.delete("w").await;
    stage.until_gone("w").await;
    stage.calm().await;
    assert_eq!(uid(&stage.map_now("a").await.expect(200)), uid(&map));
}

pub(crate) async fn chosen_orphans_stay(stage: &Stage<'_>) {
    let agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({})), stage.map("b", json!({}))])).await;
    stage.until_well("w").await;
    let rule = json!({"group": "", "resource": "configmaps", "namespace": stage.namespace, "name": "a"});
    let option =
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    // What is chosen last is first seen with the deletion.
    drop(agent);
    stage.patch("w", json!({"spec": {"deleteOption": option}})).await;
    stage.delete("w").await;
    let _agent = stage.run();
    stage.until_gone("w").await;
    stage.calm().await;
    assert_eq!(stage.maps().await, ["a"]);
    assert_eq!(stage.map_now("a").await.expect(200)["metadata"].get("ownerReferences"), None);
}

pub(crate) async fn an_object_of_two_works_goes_with_the_last(stage: &Stage<'_>) {
    let _agent = stage.run();
    let shared = || stage.map("shared", json!({"k": "v"}));
    stage.ask("one", json!([shared(), stage.map("a", json!({}))])).await;
    stage.ask("two", json!([shared()])).await;
    stage.until_well("one").await;
    stage.until_well("two").await;
    let owners = |map: &Value| map["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    let map = stage.map_until("shared", "has two owners", |map| owners(map) == 2).await;
    stage.calm().await;
    let still = stage.map_now("shared").await.expect(200);
    assert_eq!(still["metadata"]["resourceVersion"], map["metadata"]["resourceVersion"], "nobody fights");

    stage.delete("one").await;
    stage.until_gone("one").await;
    let left = stage.map_until("shared", "has one owner", |map| owners(map) == 1).await;
    assert_eq!(uid(&left), uid(&map));
    assert_eq!(stage.maps().await, ["shared"]);
    stage.change("two", json!([])).await;
    stage.until_well("two").await;
    stage.map_until_gone("shared").await;
}

pub(crate) async fn what_somebody_else_made_in_place_of_ours_stays(stage: &Stage<'_>) {
    let agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({})), stage.map("b", json!({}))])).await;
    stage.until_well("w").await;
    // While the agent looks away, somebody replaces an object, and the work no longer names it.
    drop(agent);
    stage.spoke.delete(stage.map_path("a")).await.expect(200);
    let path = format!("/api/v1/namespaces/{}/configmaps", stage.namespace);
    let theirs = stage.spoke.post(&path, &stage.map("a", json!({"mine": "yes"}))).await.expect(201);
    stage.change("w", json!([stage.map("b", json!({}))])).await;
    let _agent = stage.run();
    stage.until_well("w").await;
    eventually("the record forgets it", || async { (stage.recorded("w").await.len() == 1).then_some(()) })
        .await;
    assert_eq!(uid(&stage.map_now("a").await.expect(200)), uid(&theirs));
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(stage.maps().await, ["a"]);
}

pub(crate) async fn a_work_that_was_never_begun_goes_at_once(stage: &Stage<'_>) {
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/other"]}});
    stage.patch("w", patch).await;
    stage.delete("w").await;
    let _agent = stage.run();
    stage.calm().await;
    let work = stage.read("w").await;
    assert_eq!(work["metadata"]["finalizers"], json!(["example.com/other"]), "it is not ours to wait for");
    assert_eq!(stage.map_now("a").await.status, 404);
    stage.patch("w", json!({"metadata": {"finalizers": null}})).await;
    stage.until_gone("w").await;
}

pub(crate) async fn a_record_that_somebody_deletes_is_made_anew(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    let before = uid(&stage.spoke.get(stage.record_path("w")).await.expect(200));
    stage.spoke.delete(stage.record_path("w")).await.expect(200);
    eventually("there is another record", || async {
        let answer = stage.spoke.get(stage.record_path("w")).await;
        (answer.status == 200 && uid(&answer.json()) != before).then_some(())
    })
    .await;
    let record = stage.spoke.get(stage.record_path("w")).await.expect(200);
    stage
        .map_until("a", "belongs to the new record", |map| {
            map["metadata"]["ownerReferences"][0]["uid"] == record["metadata"]["uid"]
        })
        .await;
    stage.calm().await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(stage.recorded("w").await, [("configmaps".into(), "a".into(), uid(&map))]);
}

pub(crate) async fn an_object_that_moves_to_another_work_is_never_gone(stage: &Stage<'_>) {
    let _agent = stage.run();
    let moving = || stage.map("moving", json!({"k": "v"}));
    stage.ask("one", json!([stage.map("a", json!({})), moving()])).await;
    stage.ask("two", json!([stage.map("b", json!({})), stage.map("back", json!({}))])).await;
    stage.until_well("one").await;
    stage.until_well("two").await;
    let before =
        (uid(&stage.map_now("moving").await.expect(200)), uid(&stage.map_now("back").await.expect(200)));
    // First where it goes, then where it comes; and the other way with a work that is deleted.
    stage.change("one", json!([stage.map("a", json!({})), stage.map("back", json!({}))])).await;
    stage.change("two", json!([stage.map("b", json!({})), moving()])).await;
    stage.until_well("one").await;
    stage.until_well("two").await;
    stage.calm().await;
    stage.change("one", json!([stage.map("a", json!({})), stage.map("back", json!({})), moving()])).await;
    stage.delete("two").await;
    stage.until_gone("two").await;
    stage.until_well("one").await;
    let after =
        (uid(&stage.map_now("moving").await.expect(200)), uid(&stage.map_now("back").await.expect(200)));
    assert_eq!(after, before);
    assert_eq!(stage.maps().await, ["a", "back", "moving"]);
}

pub(crate) async fn a_namespace_that_was_there_before_stays(stage: &Stage<'_>) {
    let (theirs, ours) = (format!("{}-theirs", stage.namespace), format!("{}-ours", stage.namespace));
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let path = |name: &str| format!("/api/v1/namespaces/{name}");
    let made = stage.spoke.post("/api/v1/namespaces", &namespace(&theirs, json!({}))).await.expect(201);
    let wanted = |name: &str| namespace(name, json!({"by": "work"}));
    let agent = stage.run();
    stage.ask("one", json!([wanted(&theirs), stage.map("a", json!({}))])).await;
    stage.ask("two", json!([wanted(&theirs), wanted(&ours)])).await;
    stage.until_well("one").await;
    stage.until_well("two").await;
    stage.calm().await;
    // Nor does the next agent take it for its own.
    drop(agent);
    let _agent = stage.run();
    stage.calm().await;
    let is_left_alone = async || {
        let now = stage.spoke.get(path(&theirs)).await.expect(200);
        assert_eq!((uid(&now), &now["metadata"]["labels"]["by"]), (uid(&made), &json!("work")));
        let touched =
            ["ownerReferences", "deletionTimestamp"].map(|member| now["metadata"].get(member).cloned());
        assert_eq!(touched, [None, None]);
    };
    is_left_alone().await;
    let own = uid(&stage.spoke.get(path(&ours)).await.expect(200));
    assert_eq!(stage.recorded("two").await, [("namespaces".into(), ours.clone(), own)]);

    stage.delete("one").await;
    stage.until_gone("one").await;
    is_left_alone().await;
    stage.delete("two").await;
    // Nothing empties a namespace of Kubernetes alone, so that there it only begins to go.
    eventually("the namespace of the work leaves", || async {
        let now = stage.spoke.get(path(&ours)).await;
        (now.status == 404 || now.json()["metadata"]["deletionTimestamp"].is_string()).then_some(())
    })
    .await;
    stage.calm().await;
    let now = stage.spoke.get(path(&theirs)).await.expect(200);
    assert_eq!((uid(&now), now["metadata"].get("deletionTimestamp")), (uid(&made), None));
}
