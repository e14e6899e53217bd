//! Objects are applied, updated with their ManifestWork, and recorded in its AppliedManifestWork.

use bellwether_testkit::Tap;
use serde_json::json;

use crate::fixture::{FINALIZER, Fixture, condition, manifest_status, uid, unique};

pub(crate) async fn object_is_applied_and_recorded(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({"k": "v"}))])).await;
    let work = fixture.wait_until_available("w").await;
    let map = fixture.get_config_map("a").await.expect(200);
    assert_eq!(map["data"], json!({"k": "v"}));
    let applied_work = fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200);
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("AppliedManifestWork"), &applied_work["metadata"]["uid"])
    );
    assert_ne!(owner["controller"], true);
    assert_eq!(applied_work["spec"]["manifestWorkName"], "w");
    assert_eq!(applied_work["spec"]["agentID"], "agent");
    assert_eq!(
        applied_work["metadata"]["finalizers"],
        json!(["cluster.open-cluster-management.io/applied-manifest-work-cleanup"])
    );
    assert_eq!(fixture.applied_resources("w").await, [("configmaps".into(), "a".into(), uid(&map))]);

    assert_eq!(work["metadata"]["finalizers"], json!([FINALIZER]));
    let applied = condition(&work, "Applied");
    assert_eq!(applied["reason"], "AppliedManifestWorkComplete");
    assert_eq!(applied["message"], "Apply manifest work complete");
    assert_eq!(condition(&work, "Available")["reason"], "ResourcesAvailable");
    let status = manifest_status(&work, 0);
    let meta = json!({"ordinal": 0, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": "a",
        "namespace": fixture.namespace});
    assert_eq!(status["resourceMeta"], meta);
    assert_eq!(condition(&status, "Applied")["reason"], "AppliedManifestComplete");
    assert_eq!(condition(&status, "Applied")["observedGeneration"], 1);
    assert_eq!(condition(&status, "Available")["reason"], "ResourceAvailable");
    assert_eq!(condition(&status, "StatusFeedbackSynced")["reason"], "NoStatusFeedbackSynced");
}

pub(crate) async fn changed_manifests_are_applied_and_removed_objects_deleted(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let map = |name: &str, value: &str| fixture.config_map(name, json!({"k": value}));
    fixture.create_work("w", json!([map("a", "1"), map("b", "1"), map("c", "1")])).await;
    fixture.wait_until_available("w").await;
    assert_eq!(fixture.config_map_names().await, ["a", "b", "c"]);
    let a = uid(&fixture.get_config_map("a").await.expect(200));

    fixture.set_manifests("w", json!([map("a", "2"), map("c", "1"), map("d", "1")])).await;
    let work = fixture.wait_until_available("w").await;
    assert_eq!(condition(&work, "Applied")["observedGeneration"], 2);
    fixture.wait_until_config_map_deleted("b").await;
    assert_eq!(fixture.config_map_names().await, ["a", "c", "d"]);
    let changed = fixture.get_config_map("a").await.expect(200);
    assert_eq!((uid(&changed), &changed["data"]), (a, &json!({"k": "2"})));
    let recorded =
        bellwether_testkit::eventually("the deleted object is removed from the record", || async {
            let recorded = fixture.applied_resources("w").await;
            (recorded.len() == 3).then_some(recorded)
        })
        .await;
    assert_eq!(recorded.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "c", "d"]);
    assert!(recorded.iter().all(|(_, _, uid)| !uid.is_empty()));
    assert_eq!(work["status"]["resourceStatus"]["manifests"].as_array().unwrap().len(), 3);
}

pub(crate) async fn crd_and_custom_resource_can_be_in_the_same_work(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let group = format!("{}.example.com", unique("group"));
    let widget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "w", "namespace": fixture.namespace}, "spec": {"size": 3},
    });
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    fixture.create_work("w", json!([widget, crd])).await;
    let work = fixture.wait_until_available("w").await;
    assert_eq!(manifest_status(&work, 0)["resourceMeta"]["resource"], "widgets");
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets/w", fixture.namespace);
    assert_eq!(fixture.spoke.get(&path).await.expect(200)["spec"]["size"], 3);
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(fixture.spoke.get(&path).await.status, 404);
}

pub(crate) async fn workload_with_service_account_and_rbac_is_applied(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let metadata = json!({"name": "addon", "namespace": fixture.namespace});
    let rbac = "rbac.authorization.k8s.io";
    fixture
        .create_work(
            "w",
            json!([
                fixture.deployment("addon", 1),
                {"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
                    "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "addon"},
                    "subjects": [{"kind": "ServiceAccount", "name": "addon", "namespace": fixture.namespace}]},
                {"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
                    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]},
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            ]),
        )
        .await;
    let work = fixture.wait_until_available("w").await;
    let kinds: Vec<_> =
        (0..4).map(|ordinal| manifest_status(&work, ordinal)["resourceMeta"]["kind"].clone()).collect();
    assert_eq!(
        kinds,
        ["Deployment", "RoleBinding", "Role", "ServiceAccount"],
        "manifests are reported in the order of the spec"
    );
    assert_eq!(fixture.applied_resources("w").await.len(), 4);
}

pub(crate) async fn work_without_manifests_is_applied_and_available(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([])).await;
    fixture.wait_until_available("w").await;
    fixture.delete_work("w").await;
    fixture.wait_until_deleted("w").await;
    assert_eq!(fixture.spoke.get(fixture.applied_work_path("w")).await.status, 404);
}

pub(crate) async fn labels_are_copied_to_the_applied_manifest_work(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({}))])).await;
    fixture.wait_until_available("w").await;
    fixture.patch_work("w", json!({"metadata": {"labels": {"one": "1", "two": "2"}}})).await;
    let wait_for_labels = |wanted: serde_json::Value| async move {
        bellwether_testkit::eventually("the AppliedManifestWork has the labels", || async {
            let applied_work = fixture.spoke.get(fixture.applied_work_path("w")).await.expect(200);
            (applied_work["metadata"]["labels"] == wanted).then_some(())
        })
        .await;
    };
    wait_for_labels(json!({"one": "1", "two": "2"})).await;
    fixture.patch_work("w", json!({"metadata": {"labels": {"one": null, "two": "3"}}})).await;
    wait_for_labels(json!({"two": "3"})).await;
}

pub(crate) async fn installation_writes_only_finalizer_and_status_on_the_hub(fixture: &Fixture<'_>) {
    let (hub, tap) = Tap::on(fixture.hub.client());
    let _agent = fixture.start_agent_with(hub, fixture.spoke.client());
    fixture
        .create_work("w", json!([fixture.config_map("a", json!({})), fixture.config_map("b", json!({}))]))
        .await;
    fixture.wait_until_available("w").await;
    fixture.wait_until_idle().await;
    let writes = tap.writes();
    assert_eq!(writes.len(), 2, "the finalizer and the status: {writes:?}");
}

pub(crate) async fn field_removed_from_the_manifest_is_removed_from_the_object(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    fixture.create_work("w", json!([fixture.config_map("a", json!({"keep": "1", "drop": "1"}))])).await;
    fixture.wait_until_available("w").await;
    fixture.set_manifests("w", json!([fixture.config_map("a", json!({"keep": "1"}))])).await;
    fixture.wait_until_available("w").await;
    assert_eq!(fixture.get_config_map("a").await.expect(200)["data"], json!({"keep": "1"}));
}
