//! Manifests that cannot be applied are told of, and harm nobody else.

use serde_json::{Value, json};

use crate::stage::{Stage, condition, manifest};

pub(crate) async fn bad_manifests_are_named_and_harm_nobody_else(stage: &Stage<'_>) {
    let _agent = stage.run();
    let nowhere = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "no-such-place"}});
    let homeless = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "x"}});
    let invalid = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x", "namespace": stage.namespace},
        "spec": {"ports": [{"port": 0}]}});
    let good = stage.map("good", json!({"k": "v"}));
    stage.ask("bad", json!([nowhere, homeless, unknown, invalid, good, good])).await;
    stage.ask("good", json!([stage.map("other", json!({}))])).await;
    stage.until_well("good").await;
    let work = stage.until_applied("bad", "False").await;
    assert_eq!(stage.map_now("good").await.expect(200)["data"], json!({"k": "v"}));

    let applied = condition(&work, "Applied");
    assert_eq!(applied["reason"], "AppliedManifestWorkFailed");
    let message = applied["message"].as_str().unwrap();
    for named in [
        "ConfigMap no-such-place/x: namespaces \"no-such-place\" not found",
        "ConfigMap x: ConfigMap x needs a namespace, and names none",
        "Gadget x: the cluster knows no kind Gadget in example.com/v1",
        "the work names it twice: manifests 4 and 5",
    ] {
        assert!(message.contains(named), "{named}: {message}");
    }
    assert!(message.contains(&format!("Service {}/x: ", stage.namespace)), "{message}");
    let of = |ordinal: usize| {
        let told = manifest(&work, ordinal);
        let text = |kind: &str| {
            let held = condition(&told, kind);
            format!("{}/{}", held["status"].as_str().unwrap(), held["reason"].as_str().unwrap())
        };
        (text("Applied"), text("Available"))
    };
    let failed = |available: &str| ("False/AppliedManifestFailed".to_owned(), available.to_owned());
    assert_eq!(of(0), failed("False/ResourceNotAvailable"));
    assert_eq!(of(1), failed("Unknown/IncompleteResourceMeta"));
    assert_eq!(of(2), failed("Unknown/IncompleteResourceMeta"));
    assert_eq!(of(3), failed("False/ResourceNotAvailable"));
    assert_eq!(of(4), ("True/AppliedManifestComplete".into(), "True/ResourceAvailable".into()));
    assert_eq!(condition(&work, "Available")["status"], "False");

    stage.change("bad", json!([good])).await;
    stage.until_well("bad").await;
}

pub(crate) async fn a_namespace_that_comes_later_heals_the_work(stage: &Stage<'_>) {
    let _agent = stage.run();
    let place = format!("{}-later", stage.namespace);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": place}});
    stage.ask("w", json!([map])).await;
    stage.until_applied("w", "False").await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": place}});
    stage.spoke.post("/api/v1/namespaces", &namespace).await.expect(201);
    stage.until_well("w").await;
}

pub(crate) async fn a_name_that_is_too_long_for_a_record_is_told(stage: &Stage<'_>) {
    let _agent = stage.run();
    let name = "w".repeat(220);
    stage.ask(&name, json!([stage.map("a", json!({}))])).await;
    let work = stage.until_applied(&name, "False").await;
    let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
    assert!(message.contains("making the AppliedManifestWork"), "{message}");
    assert_eq!(stage.map_now("a").await.status, 404);
    stage.delete(&name).await;
    stage.until_gone(&name).await;
}

pub(crate) async fn much_garbage_harms_only_its_work(stage: &Stage<'_>) {
    let _agent = stage.run();
    // As much as the hub takes, of what the cluster does not.
    let large: Vec<_> = (0..40).map(|n| (format!("key {n}"), json!("x".repeat(10_000)))).collect();
    stage.ask("garbage", json!([stage.map("g", Value::Object(large.into_iter().collect()))])).await;
    let nested = (0..60).fold(json!(1), |inner, _| json!({"x": [inner]}));
    stage
        .ask(
            "nested",
            json!([{"apiVersion": "v1", "kind": "ConfigMap", "data": nested,
        "metadata": {"name": "n", "namespace": stage.namespace}}]),
        )
        .await;
    let many: Vec<_> = (0..300)
        .map(|n| json!({"apiVersion": "x.io/v1", "kind": "Y", "metadata": {"name": format!("{n}")}}))
        .collect();
    stage.ask("many", json!(many)).await;
    stage.ask("good", json!([stage.map("good", json!({}))])).await;
    stage.until_well("good").await;
    for bad in ["garbage", "nested", "many"] {
        let work = stage.until_applied(bad, "False").await;
        let message = condition(&work, "Applied")["message"].as_str().unwrap().to_owned();
        assert!(message.len() < 10_000, "{bad}: {}", message.len());
    }
    // Objects that make no sense, beyond what their definition allows, do not end the watch of all others.
    for bad in ["garbage", "nested", "many"] {
        stage.delete(bad).await;
        stage.until_gone(bad).await;
    }
    assert_eq!(stage.maps().await, ["good"]);
}
