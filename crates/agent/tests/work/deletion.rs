//! Which objects are deleted, in which order, and which are kept.

use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::fixture::{FINALIZER, Fixture, condition, uid};

/// A finalizer of another client, which delays the deletion of an object.
const OTHER_FINALIZER: &str = "example.com/hold";

async fn add_finalizer(fixture: &Fixture<'_>, map: &str) {
    let patch = json!({"metadata": {"finalizers": [OTHER_FINALIZER]}});
    fixture.spoke.merge(fixture.config_map_path(map), &patch).await.expect(200);
}

async fn remove_finalizer(fixture: &Fixture<'_>, map: &str) {
    let patch = json!({"metadata": {"finalizers": null}});
    fixture.spoke.merge(fixture.config_map_path(map), &patch).await.expect(200);
}

pub(crate) async fn objects_are_deleted_with_their_work(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({})), fixture.deployment("d", 1)])).await;
    fixture.wait_until_available("w").await;
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(fixture.get_config_map("a").await.status, 404);
    assert_eq!(fixture.spoke.get(fixture.deployment_path("d")).await.status, 404);
    assert_eq!(fixture.spoke.get(fixture.applied_work_path("w")).await.status, 404);
}

pub(crate) async fn deleted_work_waits_for_finalizers_of_its_objects(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({})), fixture.config_map("b", json!({}))]))
        .await;
    fixture.wait_until_available("w").await;
    add_finalizer(fixture, "a").await;
    fixture.delete_work("w").await;
    fixture.wait_until_config_map_deleted("b").await;
    let work = fixture
        .wait_for_work("w", "is being deleted", |work| condition(work, "Deleting")["status"] == "True")
        .await;
    assert_eq!(condition(&work, "Deleting")["reason"], "WorkDeleting");
    assert_eq!(work["metadata"]["finalizers"], json!([FINALIZER]));
    fixture
        .wait_for_work("w", "reports the remaining objects", |work| {
            let message = condition(work, "Deleting")["message"].as_str().unwrap_or_default().to_owned();
            message
                == format!("ManifestWork is being deleted: waiting for configmaps {}/a", fixture.namespace)
        })
        .await;
    fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200);
    remove_finalizer(fixture, "a").await;
    fixture.wait_until_deleted("w").await;
    assert!(fixture.config_map_names().await.is_empty());
}

pub(crate) async fn removed_object_stays_recorded_until_it_is_deleted(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({})), fixture.config_map("b", json!({}))]))
        .await;
    fixture.wait_until_available("w").await;
    add_finalizer(fixture, "b").await;
    fixture.set_manifests("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    fixture
        .wait_for_config_map("b", "is being deleted", |map| map["metadata"]["deletionTimestamp"].is_string())
        .await;
    assert_eq!(fixture.applied_resources("w").await.len(), 2, "an object stays recorded until it is deleted");
    remove_finalizer(fixture, "b").await;
    eventually("the object is removed from the record", || async {
        (fixture.applied_resources("w").await.len() == 1).then_some(())
    })
    .await;
}

pub(crate) async fn objects_are_deleted_in_reverse_order_of_creation(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": fixture.namespace},
        "spec": {"ports": [{"port": 80}]}});
    let service_path = format!("/api/v1/namespaces/{}/services/s", fixture.namespace);
    fixture.create_work("w", json!([fixture.config_map("a", json!({})), service])).await;
    fixture.wait_until_available("w").await;
    let patch = json!({"metadata": {"finalizers": [OTHER_FINALIZER]}});
    fixture.spoke.merge(&service_path, &patch).await.expect(200);
    fixture.delete_work("w").await;
    eventually("the Service is being deleted", || async {
        fixture.spoke.get(&service_path).await.json()["metadata"]["deletionTimestamp"]
            .is_string()
            .then_some(())
    })
    .await;
    fixture.sleep(30).await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(
        map["metadata"]["deletionTimestamp"],
        Value::Null,
        "the ConfigMap is deleted only after the Service"
    );
    fixture.spoke.merge(&service_path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    fixture.wait_until_deleted("w").await;
    assert!(fixture.config_map_names().await.is_empty());
}

pub(crate) async fn orphaned_objects_are_kept(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    fixture.patch_work("w", json!({"spec": {"deleteOption": {"propagationPolicy": "Orphan"}}})).await;
    fixture.wait_until_available("w").await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(map["metadata"].get("ownerReferences"), None, "{map}");
    assert!(fixture.applied_resources("w").await.is_empty());
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    fixture.wait_until_idle().await;
    assert_eq!(uid(&fixture.get_config_map("a").await.expect(200)), uid(&map));
}

pub(crate) async fn selectively_orphaned_objects_are_kept(fixture: &Fixture<'_>) {
    let agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({})), fixture.config_map("b", json!({}))]))
        .await;
    fixture.wait_until_available("w").await;
    let rule = json!({"group": "", "resource": "configmaps", "namespace": fixture.namespace, "name": "a"});
    let option =
        json!({"propagationPolicy": "SelectivelyOrphan", "selectivelyOrphans": {"orphaningRules": [rule]}});
    // The agent sees the option only together with the deletion.
    drop(agent);
    fixture.patch_work("w", json!({"spec": {"deleteOption": option}})).await;
    fixture.delete_work("w").await;
    let _agent = fixture.start_agent();
    fixture.wait_until_deleted("w").await;
    fixture.wait_until_idle().await;
    assert_eq!(fixture.config_map_names().await, ["a"]);
    assert_eq!(fixture.get_config_map("a").await.expect(200)["metadata"].get("ownerReferences"), None);
}

pub(crate) async fn object_of_two_works_is_deleted_with_the_last(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let shared = || fixture.config_map("shared", json!({"k": "v"}));
    fixture.create_work("one", json!([shared(), fixture.config_map("a", json!({}))])).await;
    fixture.create_work("two", json!([shared()])).await;
    fixture.wait_until_available("one").await;
    fixture.wait_until_available("two").await;
    let owners = |map: &Value| map["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len);
    let map = fixture.wait_for_config_map("shared", "has two owners", |map| owners(map) == 2).await;
    fixture.wait_until_idle().await;
    let unchanged = fixture.get_config_map("shared").await.expect(200);
    assert_eq!(
        unchanged["metadata"]["resourceVersion"], map["metadata"]["resourceVersion"],
        "the two ManifestWorks do not overwrite each other"
    );

    fixture.delete_work("one").await;
    fixture.wait_until_deleted("one").await;
    let remaining = fixture.wait_for_config_map("shared", "has one owner", |map| owners(map) == 1).await;
    assert_eq!(uid(&remaining), uid(&map));
    assert_eq!(fixture.config_map_names().await, ["shared"]);
    fixture.set_manifests("two", json!([])).await;
    fixture.wait_until_available("two").await;
    fixture.wait_until_config_map_deleted("shared").await;
}

pub(crate) async fn object_recreated_by_another_client_is_kept(fixture: &Fixture<'_>) {
    let agent = fixture.start_agent();
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({})), fixture.config_map("b", json!({}))]))
        .await;
    fixture.wait_until_available("w").await;
    // While no agent runs, another client replaces the object, and the object is removed from the ManifestWork.
    drop(agent);
    fixture.spoke.delete(fixture.config_map_path("a")).await.expect(200);
    let path = format!("/api/v1/namespaces/{}/configmaps", fixture.namespace);
    let theirs =
        fixture.spoke.post(&path, &fixture.config_map("a", json!({"theirs": "yes"}))).await.expect(201);
    fixture.set_manifests("w", json!([fixture.config_map("b", json!({}))])).await;
    let _agent = fixture.start_agent();
    fixture.wait_until_available("w").await;
    eventually("the object is removed from the record", || async {
        (fixture.applied_resources("w").await.len() == 1).then_some(())
    })
    .await;
    assert_eq!(uid(&fixture.get_config_map("a").await.expect(200)), uid(&theirs));
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(fixture.config_map_names().await, ["a"]);
}

pub(crate) async fn deleted_work_without_the_agents_finalizer_is_ignored(fixture: &Fixture<'_>) {
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/other"]}});
    fixture.patch_work("w", patch).await;
    fixture.delete_work("w").await;
    let _agent = fixture.start_agent();
    fixture.wait_until_idle().await;
    let work = fixture.get_work("w").await;
    assert_eq!(
        work["metadata"]["finalizers"],
        json!(["example.com/other"]),
        "the agent does not add its finalizer"
    );
    assert_eq!(fixture.get_config_map("a").await.status, 404);
    fixture.patch_work("w", json!({"metadata": {"finalizers": null}})).await;
    fixture.wait_until_deleted("w").await;
}

pub(crate) async fn deleted_applied_manifest_work_is_created_again(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    let before = uid(&fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200));
    fixture.spoke.delete(fixture.applied_work_path("w")).await.expect(200);
    eventually("the AppliedManifestWork is created again", || async {
        let answer = fixture.spoke.get(fixture.applied_work_path("w")).await;
        (answer.status == 200 && uid(&answer.json()) != before).then_some(())
    })
    .await;
    let applied_work = fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200);
    fixture
        .wait_for_config_map("a", "has the new owner", |map| {
            map["metadata"]["ownerReferences"][0]["uid"] == applied_work["metadata"]["uid"]
        })
        .await;
    fixture.wait_until_idle().await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(fixture.applied_resources("w").await, [("configmaps".into(), "a".into(), uid(&map))]);
}

pub(crate) async fn object_that_moves_to_another_work_is_never_deleted(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let moving = || fixture.config_map("moving", json!({"k": "v"}));
    fixture.create_work("one", json!([fixture.config_map("a", json!({})), moving()])).await;
    fixture
        .create_work(
            "two",
            json!([fixture.config_map("b", json!({})), fixture.config_map("back", json!({}))]),
        )
        .await;
    fixture.wait_until_available("one").await;
    fixture.wait_until_available("two").await;
    let before = (
        uid(&fixture.get_config_map("moving").await.expect(200)),
        uid(&fixture.get_config_map("back").await.expect(200)),
    );
    // An object is first removed from the old ManifestWork and then added to the new one. Later it is first added, and
    // then the old ManifestWork is deleted.
    fixture
        .set_manifests(
            "one",
            json!([fixture.config_map("a", json!({})), fixture.config_map("back", json!({}))]),
        )
        .await;
    fixture.set_manifests("two", json!([fixture.config_map("b", json!({})), moving()])).await;
    fixture.wait_until_available("one").await;
    fixture.wait_until_available("two").await;
    fixture.wait_until_idle().await;
    fixture
        .set_manifests(
            "one",
            json!([fixture.config_map("a", json!({})), fixture.config_map("back", json!({})), moving()]),
        )
        .await;
    fixture.delete_work("two").await;
    fixture.wait_until_deleted("two").await;
    fixture.wait_until_available("one").await;
    let after = (
        uid(&fixture.get_config_map("moving").await.expect(200)),
        uid(&fixture.get_config_map("back").await.expect(200)),
    );
    assert_eq!(after, before);
    assert_eq!(fixture.config_map_names().await, ["a", "back", "moving"]);
}

pub(crate) async fn namespace_that_existed_before_the_work_is_kept(fixture: &Fixture<'_>) {
    let (existing, created) =
        (format!("{}-existing", fixture.namespace), format!("{}-created", fixture.namespace));
    let namespace = |name: &str, labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
    let path = |name: &str| format!("/api/v1/namespaces/{name}");
    let original =
        fixture.spoke.post("/api/v1/namespaces", &namespace(&existing, json!({}))).await.expect(201);
    let wanted = |name: &str| namespace(name, json!({"by": "work"}));
    let agent = fixture.start_agent();
    fixture.create_work("one", json!([wanted(&existing), fixture.config_map("a", json!({}))])).await;
    fixture.create_work("two", json!([wanted(&existing), wanted(&created)])).await;
    fixture.wait_until_available("one").await;
    fixture.wait_until_available("two").await;
    fixture.wait_until_idle().await;
    // A restarted agent does not become the owner either.
    drop(agent);
    let _agent = fixture.start_agent();
    fixture.wait_until_idle().await;
    let assert_not_owned = async || {
        let now = fixture.spoke.get(path(&existing)).await.expect(200);
        assert_eq!((uid(&now), &now["metadata"]["labels"]["by"]), (uid(&original), &json!("work")));
        let touched =
            ["ownerReferences", "deletionTimestamp"].map(|field| now["metadata"].get(field).cloned());
        assert_eq!(touched, [None, None]);
    };
    assert_not_owned().await;
    let created_uid = uid(&fixture.spoke.get(path(&created)).await.expect(200));
    assert_eq!(fixture.applied_resources("two").await, [("namespaces".into(), created.clone(), created_uid)]);

    fixture.delete_work("one").await;
    fixture.wait_until_deleted("one").await;
    assert_not_owned().await;
    fixture.delete_work("two").await;
    // The test cluster of real Kubernetes does not delete namespaces completely, so the deletion timestamp suffices.
    eventually("the namespace that the agent created is deleted", || async {
        let now = fixture.spoke.get(path(&created)).await;
        (now.status == 404 || now.json()["metadata"]["deletionTimestamp"].is_string()).then_some(())
    })
    .await;
    fixture.wait_until_idle().await;
    let now = fixture.spoke.get(path(&existing)).await.expect(200);
    assert_eq!((uid(&now), now["metadata"].get("deletionTimestamp")), (uid(&original), None));
}
