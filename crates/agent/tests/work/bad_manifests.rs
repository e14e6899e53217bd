//! Manifests that cannot be applied are reported, and do not affect other manifests and ManifestWorks.

use serde_json::{Value, json};

use crate::fixture::{Fixture, condition, manifest_status};

pub(crate) async fn invalid_manifests_are_reported_and_others_applied(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let missing_namespace = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "no-such-place"}});
    let without_namespace = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let unknown_kind = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "x"}});
    let invalid = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": fixture.namespace},
        "spec": {"ports": [{"port": 0}]}});
    let good = fixture.config_map("good", json!({"k": "v"}));
    fixture
        .create_work("bad", json!([missing_namespace, without_namespace, unknown_kind, invalid, good, good]))
        .await;
    fixture.create_work("good", json!([fixture.config_map("other", json!({}))])).await;
    fixture.wait_until_available("good").await;
    let work = fixture.wait_for_applied("bad", "False").await;
    assert_eq!(fixture.get_config_map("good").await.expect(200)["data"], json!({"k": "v"}));

    let applied = condition(&work, "Applied");
    assert_eq!(applied["reason"], "AppliedManifestWorkFailed");
    let message = applied["message"].as_str().unwrap();
    for part in [
        "ConfigMap no-such-place/x: namespaces \"no-such-place\" not found",
        "ConfigMap x: metadata.namespace is missing; ConfigMap is a namespaced kind",
        "Gadget x: the cluster does not serve the kind Gadget of example.com/v1; install its CRD",
        "manifests 4 and 5 of the ManifestWork describe the same object; remove one of them",
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(message.contains(&format!("Service {}/x: ", fixture.namespace)), "{message}");
    let conditions = |ordinal: usize| {
        let status = manifest_status(&work, ordinal);
        let text = |type_: &str| {
            let found = condition(&status, type_);
            format!("{}/{}", found["status"].as_str().unwrap(), found["reason"].as_str().unwrap())
        };
        (text("Applied"), text("Available"))
    };
    let failed = |available: &str| ("False/AppliedManifestFailed".to_owned(), available.to_owned());
    assert_eq!(conditions(0), failed("False/ResourceNotAvailable"));
    assert_eq!(conditions(1), failed("Unknown/IncompleteResourceMeta"));
    assert_eq!(conditions(2), failed("Unknown/IncompleteResourceMeta"));
    assert_eq!(conditions(3), failed("False/ResourceNotAvailable"));
    assert_eq!(conditions(4), ("True/AppliedManifestComplete".into(), "True/ResourceAvailable".into()));
    assert_eq!(condition(&work, "Available")["status"], "False");

    fixture.set_manifests("bad", json!([good])).await;
    fixture.wait_until_available("bad").await;
}

pub(crate) async fn manifest_is_applied_once_its_namespace_exists(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let name = format!("{}-later", fixture.namespace);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": name}});
    fixture.create_work("w", json!([map])).await;
    fixture.wait_for_applied("w", "False").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    fixture.spoke.post("/api/v1/namespaces", &namespace).await.expect(201);
    fixture.wait_until_available("w").await;
}

pub(crate) async fn rejected_applied_manifest_work_is_reported(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    let name = "w".repeat(220);
    fixture.create_work(&name, json!([fixture.config_map("a", json!({}))])).await;
    let work = fixture.wait_for_applied(&name, "False").await;
    let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("creating the AppliedManifestWork failed"), "{message}");
    assert_eq!(fixture.get_config_map("a").await.status, 404);
    fixture.delete_work(&name).await;
    fixture.wait_until_deleted(&name).await;
}

pub(crate) async fn large_and_invalid_manifests_do_not_affect_other_works(fixture: &Fixture<'_>) {
    let _agent = fixture.start_agent();
    // The hub accepts this size; the cluster rejects the keys.
    let large: Vec<_> = (0..40).map(|n| (format!("key {n}"), json!("x".repeat(10_000)))).collect();
    fixture
        .create_work("garbage", json!([fixture.config_map("g", Value::Object(large.into_iter().collect()))]))
        .await;
    let nested = (0..60).fold(json!(1), |inner, _| json!({"x": [inner]}));
    fixture
        .create_work(
            "nested",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "data": nested,
        "metadata": {"name": "n", "namespace": fixture.namespace}}]),
        )
        .await;
    let many: Vec<_> = (0..300)
        .map(|n| json!({"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": format!("{n}")}}))
        .collect();
    fixture.create_work("many", json!(many)).await;
    fixture.create_work("good", json!([fixture.config_map("good", json!({}))])).await;
    fixture.wait_until_available("good").await;
    for bad in ["garbage", "nested", "many"] {
        let work = fixture.wait_for_applied(bad, "False").await;
        let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
        assert!(message.len() < 10_000, "{bad}: {}", message.len());
    }
    // Invalid ManifestWorks do not end the watch: the agent still handles their deletion.
    for bad in ["garbage", "nested", "many"] {
        fixture.delete_work(bad).await;
        fixture.wait_until_deleted(bad).await;
    }
    assert_eq!(fixture.config_map_names().await, ["good"]);
}
