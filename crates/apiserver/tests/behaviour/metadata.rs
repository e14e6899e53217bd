//! §1.7: what the server sets, what nobody may change, what is valid.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::{cases, config_map, config_maps};

cases! { "metadata":
    the_server_sets_uid_and_creation_time_whatever_the_client_says,
    a_generated_name_is_the_prefix_and_five_characters,
    a_long_prefix_is_cut_to_58_characters,
    what_identifies_an_object_cannot_be_changed,
    labels_annotations_and_names_follow_their_rules,
    annotations_are_limited_in_size,
    owner_references_are_complete_and_have_one_controller,
    finalizers_are_qualified_names,
    kinds_without_a_spec_of_their_own_have_no_generation,
    field_managers_are_short_and_printable,
}

async fn the_server_sets_uid_and_creation_time_whatever_the_client_says(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("a");
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    let meta = cluster.post(config_maps(&namespace), &object).await.expect(201)["metadata"].clone();
    let uid = meta["uid"].as_str().unwrap();
    assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'), "a random UUID");
    let time = meta["creationTimestamp"].as_str().unwrap();
    assert_eq!((time.len(), &time[19..]), (20, "Z"), "seconds in UTC");
    assert_ne!(time, "2020-01-01T00:00:00Z");
    assert!(meta["deletionTimestamp"].is_null());
    assert_eq!(meta["namespace"], namespace);
}

async fn a_generated_name_is_the_prefix_and_five_characters(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("");
    object["metadata"] = json!({"generateName": "some-"});
    let created = cluster.post(config_maps(&namespace), &object).await.expect(201);
    let name = created["metadata"]["name"].as_str().unwrap();
    let suffix = name.strip_prefix("some-").unwrap();
    assert_eq!(suffix.len(), 5);
    assert!(suffix.chars().all(|c| "bcdfghjklmnpqrstvwxz2456789".contains(c)), "{suffix}");
    assert_eq!(created["metadata"]["generateName"], "some-");
    object["metadata"] = json!({"generateName": "Bad_"});
    let refused = cluster.post(config_maps(&namespace), &object).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "metadata.generateName");
}

async fn a_long_prefix_is_cut_to_58_characters(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let mut object = config_map("");
    object["metadata"] = json!({"generateName": "a".repeat(80)});
    let created = cluster.post(config_maps(&namespace), &object).await.expect(201);
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 63);
}

async fn what_identifies_an_object_cannot_be_changed(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let created = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let mut changed = created.clone();
    changed["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let replaced = cluster.put(&at, &changed).await.expect(200);
    assert_eq!(replaced["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    changed["metadata"]["name"] = json!("b");
    cluster
        .put(&at, &changed)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("does not match the name on the URL");
    let timestamp = json!({"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}});
    let refused = cluster.merge(&at, &timestamp).await.expect_failure(422, "Invalid");
    refused
        .assert_cause("FieldValueInvalid", "metadata.deletionTimestamp")
        .assert_message("field is immutable");
}

/// Posts a ConfigMap with this metadata, which must be refused for these reasons.
async fn refuse(cluster: &Cluster, namespace: &str, metadata: Value, causes: &[(&str, &str)]) {
    let mut object = config_map("a");
    for (key, value) in metadata.as_object().unwrap() {
        object["metadata"][key] = value.clone();
    }
    let refused = cluster.post(config_maps(namespace), &object).await.expect_failure(422, "Invalid");
    for (reason, field) in causes {
        refused.assert_cause(reason, field);
    }
}

async fn labels_annotations_and_names_follow_their_rules(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    for (metadata, field) in [
        (json!({"name": "Upper"}), "metadata.name"),
        (json!({"name": "a".repeat(254)}), "metadata.name"),
        (json!({"name": "a/b"}), "metadata.name"),
        (json!({"labels": {"-bad": "x"}}), "metadata.labels"),
        (json!({"labels": {"a": "x".repeat(64)}}), "metadata.labels"),
        (json!({"annotations": {"bad key": "x"}}), "metadata.annotations"),
    ] {
        refuse(cluster, &namespace, metadata, &[("FieldValueInvalid", field)]).await;
    }
    refuse(cluster, &namespace, json!({"name": ""}), &[("FieldValueRequired", "metadata.name")]).await;
    let ns = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "a".repeat(64)}});
    cluster.post("/api/v1/namespaces", &ns).await.expect_failure(422, "Invalid");
}

async fn annotations_are_limited_in_size(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let too_long = json!({"annotations": {"big": "x".repeat(256 * 1024)}});
    refuse(cluster, &namespace, too_long, &[("FieldValueTooLong", "metadata.annotations")]).await;
}

async fn owner_references_are_complete_and_have_one_controller(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let owner =
        |kind: &str| json!({"apiVersion": "v1", "kind": kind, "name": "x", "uid": "u", "controller": true});
    let field = "metadata.ownerReferences";
    let two = json!({"ownerReferences": [owner("A"), owner("B")]});
    refuse(cluster, &namespace, two, &[("FieldValueInvalid", field)]).await;
    for (key, value) in [("apiVersion", ""), ("kind", ""), ("name", ""), ("uid", "")] {
        let mut incomplete = owner("A");
        incomplete[key] = value.into();
        let cause = format!("{field}.{key}");
        refuse(
            cluster,
            &namespace,
            json!({"ownerReferences": [incomplete]}),
            &[("FieldValueInvalid", &cause)],
        )
        .await;
    }
    refuse(
        cluster,
        &namespace,
        json!({"ownerReferences": [owner("Event")]}),
        &[("FieldValueInvalid", field)],
    )
    .await;
}

async fn finalizers_are_qualified_names(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let bad = json!({"finalizers": ["bad finalizer"]});
    refuse(cluster, &namespace, bad, &[("FieldValueInvalid", "metadata.finalizers")]).await;
    let bare = json!({"finalizers": ["unqualified"]});
    refuse(cluster, &namespace, bare, &[("FieldValueInvalid", "metadata.finalizers[0]")]).await;
    let both = json!({"finalizers": ["orphan", "foregroundDeletion"]});
    refuse(cluster, &namespace, both, &[("FieldValueInvalid", "metadata.finalizers")]).await;
}

async fn kinds_without_a_spec_of_their_own_have_no_generation(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let at = format!("{}/a", config_maps(&namespace));
    let changed = cluster.merge(&at, &json!({"data": {"x": "y"}})).await.expect(200);
    let own = cluster.get(format!("/api/v1/namespaces/{namespace}")).await.expect(200);
    for object in [changed, own] {
        assert!(object["metadata"]["generation"].is_null(), "{object}");
    }
}

async fn field_managers_are_short_and_printable(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    for manager in ["x".repeat(129), "a%07b".to_owned()] {
        let path = format!("{}?fieldManager={manager}", config_maps(&namespace));
        let refused = cluster.post(path, &config_map("a")).await.expect_failure(422, "Invalid");
        assert_eq!(refused.0["details"]["causes"][0]["field"], "fieldManager");
    }
}
