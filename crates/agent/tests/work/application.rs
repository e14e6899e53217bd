//! Objects come, follow their work, and are recorded.

use bellwether_testkit::Tap;
use serde_json::json;

use crate::stage::{FINALIZER, Stage, condition, manifest, uid, unique};

pub(crate) async fn a_work_of_one_object_is_applied_and_recorded(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"k": "v"}))])).await;
    let work = stage.until_well("w").await;
    let map = stage.map_now("a").await.expect(200);
    assert_eq!(map["data"], json!({"k": "v"}));
    let record = stage.spoke.get(stage.record_path("w")).await.expect(200);
    let owner = &map["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["kind"], &owner["uid"]), (&json!("AppliedManifestWork"), &record["metadata"]["uid"]));
    assert_ne!(owner["controller"], true);
    assert_eq!(record["spec"]["manifestWorkName"], "w");
    assert_eq!(record["spec"]["agentID"], "agent");
    assert_eq!(
        record["metadata"]["finalizers"],
        json!(["cluster.open-cluster-management.io/applied-manifest-work-cleanup"])
    );
    assert_eq!(stage.recorded("w").await, [("configmaps".into(), "a".into(), uid(&map))]);

    assert_eq!(work["metadata"]["finalizers"], json!([FINALIZER]));
    let applied = condition(&work, "Applied");
    assert_eq!(applied["reason"], "AppliedManifestWorkComplete");
    assert_eq!(applied["message"], "Apply manifest work complete");
    assert_eq!(condition(&work, "Available")["reason"], "ResourcesAvailable");
    let told = manifest(&work, 0);
    let meta = json!({"ordinal": 0, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": "a",
        "namespace": stage.namespace});
    assert_eq!(told["resourceMeta"], meta);
    assert_eq!(condition(&told, "Applied")["reason"], "AppliedManifestComplete");
    assert_eq!(condition(&told, "Applied")["observedGeneration"], 1);
    assert_eq!(condition(&told, "Available")["reason"], "ResourceAvailable");
    assert_eq!(condition(&told, "StatusFeedbackSynced")["reason"], "NoStatusFeedbackSynced");
}

pub(crate) async fn a_work_of_three_objects_follows_its_changes(stage: &Stage<'_>) {
    let _agent = stage.run();
    let map = |name: &str, value: &str| stage.map(name, json!({"k": value}));
    stage.ask("w", json!([map("a", "1"), map("b", "1"), map("c", "1")])).await;
    stage.until_well("w").await;
    assert_eq!(stage.maps().await, ["a", "b", "c"]);
    let a = uid(&stage.map_now("a").await.expect(200));

    stage.change("w", json!([map("a", "2"), map("c", "1"), map("d", "1")])).await;
    let work = stage.until_well("w").await;
    assert_eq!(condition(&work, "Applied")["observedGeneration"], 2);
    stage.map_until_gone("b").await;
    assert_eq!(stage.maps().await, ["a", "c", "d"]);
    let changed = stage.map_now("a").await.expect(200);
    assert_eq!((uid(&changed), &changed["data"]), (a, &json!({"k": "2"})));
    let recorded = bellwether_testkit::eventually("the record forgets what is gone", || async {
        let recorded = stage.recorded("w").await;
        (recorded.len() == 3).then_some(recorded)
    })
    .await;
    assert_eq!(recorded.iter().map(|(_, name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "c", "d"]);
    assert!(recorded.iter().all(|(_, _, uid)| !uid.is_empty()));
    assert_eq!(work["status"]["resourceStatus"]["manifests"].as_array().unwrap().len(), 3);
}

pub(crate) async fn a_definition_and_its_object_come_in_one_work(stage: &Stage<'_>) {
    let _agent = stage.run();
    let group = format!("{}.example.com", unique("group"));
    let widget = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Widget",
        "metadata": {"name": "w", "namespace": stage.namespace}, "spec": {"size": 3},
    });
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    stage.ask("w", json!([widget, definition])).await;
    let work = stage.until_well("w").await;
    assert_eq!(manifest(&work, 0)["resourceMeta"]["resource"], "widgets");
    let path = format!("/apis/{group}/v1/namespaces/{}/widgets/w", stage.namespace);
    assert_eq!(stage.spoke.get(&path).await.expect(200)["spec"]["size"], 3);
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(stage.spoke.get(&path).await.status, 404);
}

pub(crate) async fn an_add_on_comes_with_its_account_and_its_rights(stage: &Stage<'_>) {
    let _agent = stage.run();
    let metadata = json!({"name": "addon", "namespace": stage.namespace});
    let rbac = "rbac.authorization.k8s.io";
    stage
        .ask(
            "w",
            json!([
                stage.deployment("addon", 1),
                {"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": metadata,
                    "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "addon"},
                    "subjects": [{"kind": "ServiceAccount", "name": "addon", "namespace": stage.namespace}]},
                {"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": metadata,
                    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]},
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
            ]),
        )
        .await;
    let work = stage.until_well("w").await;
    let kinds: Vec<_> =
        (0..4).map(|ordinal| manifest(&work, ordinal)["resourceMeta"]["kind"].clone()).collect();
    assert_eq!(kinds, ["Deployment", "RoleBinding", "Role", "ServiceAccount"], "in the order of the spec");
    assert_eq!(stage.recorded("w").await.len(), 4);
}

pub(crate) async fn a_work_of_nothing_is_well(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([])).await;
    stage.until_well("w").await;
    stage.delete("w").await;
    stage.until_gone("w").await;
    assert_eq!(stage.spoke.get(stage.record_path("w")).await.status, 404);
}

pub(crate) async fn labels_of_a_work_are_on_its_record(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({}))])).await;
    stage.until_well("w").await;
    stage.patch("w", json!({"metadata": {"labels": {"one": "1", "two": "2"}}})).await;
    let labelled = |wanted: serde_json::Value| async move {
        bellwether_testkit::eventually("the record has the labels", || async {
            let record = stage.spoke.get(stage.record_path("w")).await.expect(200);
            (record["metadata"]["labels"] == wanted).then_some(())
        })
        .await;
    };
    labelled(json!({"one": "1", "two": "2"})).await;
    stage.patch("w", json!({"metadata": {"labels": {"one": null, "two": "3"}}})).await;
    labelled(json!({"two": "3"})).await;
}

pub(crate) async fn an_install_takes_two_writes_on_the_hub(stage: &Stage<'_>) {
    let (hub, tap) = Tap::on(stage.hub.client());
    let _agent = stage.run_by(hub, stage.spoke.client());
    stage.ask("w", json!([stage.map("a", json!({})), stage.map("b", json!({}))])).await;
    stage.until_well("w").await;
    stage.calm().await;
    let writes = tap.writes();
    assert_eq!(writes.len(), 2, "the finalizer and the status: {writes:?}");
}

pub(crate) async fn a_field_that_is_no_longer_named_goes(stage: &Stage<'_>) {
    let _agent = stage.run();
    stage.ask("w", json!([stage.map("a", json!({"keep": "1", "drop": "1"}))])).await;
    stage.until_well("w").await;
    stage.change("w", json!([stage.map("a", json!({"keep": "1"}))])).await;
    stage.until_well("w").await;
    assert_eq!(stage.map_now("a").await.expect(200)["data"], json!({"keep": "1"}));
}
