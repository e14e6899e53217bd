//! §1.6, §1.11 and §1.13: the verbs, patches, dry runs.

use bellwether_testkit::{Call, Cluster};
use serde_json::json;

use super::{cases, config_map, config_maps, revision};

cases! { "crud":
    an_object_is_created_read_replaced_patched_listed_and_deleted,
    a_delete_answers_with_the_object_or_with_a_status_by_kind,
    delete_options_come_in_the_body_or_the_query,
    an_unknown_propagation_policy_is_422_and_lists_the_known,
    delete_preconditions_are_checked,
    deleting_a_collection_answers_with_what_was_deleted,
    a_replace_without_a_revision_overwrites_or_is_refused_by_kind,
    a_replace_of_what_is_absent_creates_by_kind,
    a_replace_with_another_uid_is_a_conflict,
    a_write_that_changes_nothing_leaves_no_trace,
    a_merge_patch_changes_only_what_it_names,
    a_merge_patch_with_a_stale_revision_is_a_conflict,
    a_json_patch_applies_wholly_or_not_at_all,
    a_patch_that_breaks_the_object_is_422,
    patches_that_are_none_are_400,
    a_dry_run_answers_as_if_and_keeps_nothing,
    names_in_paths_are_decoded,
}

async fn an_object_is_created_read_replaced_patched_listed_and_deleted(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let (maps, at) = (config_maps(&namespace), format!("{}/a", config_maps(&namespace)));
    let mut object = cluster.post(&maps, &config_map("a")).await.expect(201);
    assert_eq!(cluster.get(&at).await.expect(200), object);
    object["data"] = json!({"key": "replaced"});
    let replaced = cluster.put(&at, &object).await.expect(200);
    assert!(revision(&replaced) > revision(&object));
    let patched = cluster.merge(&at, &json!({"data": {"more": "x"}})).await.expect(200);
    assert_eq!(patched["data"], json!({"key": "replaced", "more": "x"}));
    let list = cluster.get(&maps).await.expect(200);
    assert!(list["items"].as_array().unwrap().iter().any(|item| item["metadata"] == patched["metadata"]));
    cluster.delete(&at).await.expect(200);
    cluster.get(&at).await.expect_failure(404, "NotFound");
}

async fn a_delete_answers_with_the_object_or_with_a_status_by_kind(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let created = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let status = cluster.delete(format!("{}/a", config_maps(&namespace))).await.expect(200);
    assert_eq!((&status["kind"], &status["status"]), (&json!("Status"), &json!("Success")));
    let uid = &created["metadata"]["uid"];
    assert_eq!(status["details"], json!({"name": "a", "kind": "configmaps", "uid": uid}));
    let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
    let account = json!({"kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "robot"}});
    let created = cluster.post(&accounts, &account).await.expect(201);
    let deleted = cluster.delete(format!("{accounts}/robot")).await.expect(200);
    assert_eq!(
        (&deleted["kind"], &deleted["metadata"]["uid"]),
        (&json!("ServiceAccount"), &created["metadata"]["uid"])
    );
}

async fn delete_options_come_in_the_body_or_the_query(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    cluster.delete(format!("{at}?dryRun=All")).await.expect(200);
    for options in [
        json!({"dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}),
        json!({"kind": "DeleteOptions", "apiVersion": "apps/v1", "dryRun": ["All"], "gracePeriodSeconds": 0}),
    ] {
        cluster.send(Call::delete(&at).json(&options)).await.expect(200);
    }
    let yaml =
        Call::delete(&at).body("application/yaml", "kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n");
    cluster.send(yaml).await.expect(200);
    cluster.get(&at).await.expect(200);
    for odd in
        [json!({"kind": "ConfigMap", "apiVersion": "v1"}), json!([]), json!({"gracePeriodSeconds": "x"})]
    {
        cluster.send(Call::delete(&at).json(&odd)).await.expect_failure(400, "BadRequest");
    }
}

async fn an_unknown_propagation_policy_is_422_and_lists_the_known(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let answer = cluster.delete(format!("{}/a?propagationPolicy=Odd", config_maps(&namespace))).await;
    answer
        .expect_failure(422, "Invalid")
        .assert_details("meta.k8s.io", "DeleteOptions", "")
        .assert_cause("FieldValueNotSupported", "propagationPolicy")
        .assert_message("supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"");
}

async fn delete_preconditions_are_checked(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let created = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    for wrong in [json!({"uid": "other"}), json!({"resourceVersion": "1"})] {
        let answer = cluster.send(Call::delete(&at).json(&json!({"preconditions": wrong}))).await;
        answer
            .expect_failure(409, "Conflict")
            .assert_details("", "ConfigMap", "a")
            .assert_message("in the precondition");
    }
    let right = json!({"preconditions": {
        "uid": created["metadata"]["uid"], "resourceVersion": created["metadata"]["resourceVersion"],
    }});
    cluster.send(Call::delete(&at).json(&right)).await.expect(200);
}

async fn deleting_a_collection_answers_with_what_was_deleted(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let maps = config_maps(&namespace);
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y")] {
        let mut object = config_map(name);
        object["metadata"]["labels"] = json!({"group": label});
        cluster.post(&maps, &object).await.expect(201);
    }
    let deleted = cluster.delete(format!("{maps}?labelSelector=group%3Dx")).await.expect(200);
    assert_eq!(deleted["kind"], "ConfigMapList");
    let names: Vec<_> =
        deleted["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
    cluster.get(format!("{maps}/a")).await.expect_failure(404, "NotFound");
    cluster.get(format!("{maps}/c")).await.expect(200);
}

async fn a_replace_without_a_revision_overwrites_or_is_refused_by_kind(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    cluster.put(format!("{}/a", config_maps(&namespace)), &config_map("a")).await.expect(200);
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "l"}});
    cluster.post(&leases, &lease).await.expect(201);
    let answer = cluster.put(format!("{leases}/l"), &lease).await;
    answer
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueInvalid", "metadata.resourceVersion")
        .assert_message("must be specified for an update");
}

async fn a_replace_of_what_is_absent_creates_by_kind(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let lease = json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "new"}});
    cluster.put(format!("{leases}/new"), &lease).await.expect(201);
    let answer = cluster.put(format!("{}/new", config_maps(&namespace)), &config_map("new")).await;
    answer.expect_failure(404, "NotFound").assert_details("", "configmaps", "new");
}

async fn a_replace_with_another_uid_is_a_conflict(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let mut other = config_map("a");
    other["metadata"]["uid"] = json!("other");
    let answer = cluster.put(&at, &other).await;
    answer.expect_failure(409, "Conflict").assert_message("UID in precondition: other");
    cluster
        .merge(&at, &json!({"metadata": {"uid": "other"}}))
        .await
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueInvalid", "metadata.uid");
}

async fn a_write_that_changes_nothing_leaves_no_trace(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let (maps, at) = (config_maps(&namespace), format!("{}/a", config_maps(&namespace)));
    let created = cluster.post(&maps, &config_map("a")).await.expect(201);
    let from = revision(&created);
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}")).await;
    for call in [
        Call::put(&at, &created),
        Call::merge(&at, &json!({})),
        Call::merge(&at, &json!({"data": {"key": "value"}})),
        Call::json_patch(&at, &json!([{"op": "replace", "path": "/data/key", "value": "value"}])),
    ] {
        assert_eq!(revision(&cluster.send(call).await.expect(200)), from);
    }
    cluster.post(&maps, &config_map("after")).await.expect(201);
    watch.expect("ADDED", "after").await;
}

async fn a_merge_patch_changes_only_what_it_names(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let mut object = config_map("a");
    object["data"] = json!({"keep": "1", "change": "2", "drop": "3"});
    cluster.post(config_maps(&namespace), &object).await.expect(201);
    let patched =
        cluster.merge(&at, &json!({"data": {"change": "x", "drop": null, "new": "y"}})).await.expect(200);
    assert_eq!(patched["data"], json!({"keep": "1", "change": "x", "new": "y"}));
}

async fn a_merge_patch_with_a_stale_revision_is_a_conflict(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    let old = cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    cluster.merge(&at, &json!({"data": {"x": "y"}})).await.expect(200);
    let stale =
        json!({"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {"x": "z"}});
    cluster
        .merge(&at, &stale)
        .await
        .expect_failure(409, "Conflict")
        .assert_message("the object has been modified");
}

async fn a_json_patch_applies_wholly_or_not_at_all(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let failing = json!([
        {"op": "add", "path": "/data/new", "value": "x"},
        {"op": "test", "path": "/data/key", "value": "other"},
    ]);
    let answer = cluster.send(Call::json_patch(&at, &failing)).await;
    answer
        .expect_failure(422, "Invalid")
        .assert_message("the server rejected our request due to an error in our request");
    let good = json!([
        {"op": "test", "path": "/data/key", "value": "value"},
        {"op": "move", "from": "/data/key", "path": "/data/moved"},
    ]);
    let patched = cluster.send(Call::json_patch(&at, &good)).await.expect(200);
    assert_eq!(patched["data"], json!({"moved": "value"}));
}

async fn a_patch_that_breaks_the_object_is_422(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    let answer = cluster.merge(&at, &json!({"data": {"number": 1}})).await;
    answer
        .expect_failure(422, "Invalid")
        .assert_cause("FieldValueInvalid", "patch")
        .assert_message("json: cannot unmarshal number into Go struct field ConfigMap.data of type string");
    for moved in [json!({"metadata": {"name": "b"}}), json!({"metadata": {"namespace": "default"}})] {
        cluster.merge(&at, &moved).await.expect_failure(400, "BadRequest").assert_message("does not match");
    }
}

async fn patches_that_are_none_are_400(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let at = format!("{}/a", config_maps(&namespace));
    cluster.post(config_maps(&namespace), &config_map("a")).await.expect(201);
    for (media, body) in [
        ("application/merge-patch+json", "{"),
        ("application/merge-patch+json", "[]"),
        ("application/json-patch+json", "{}"),
        ("application/json-patch+json", "[1]"),
    ] {
        let call = Call::new(http::Method::PATCH, &at).body(media, body);
        cluster.send(call).await.expect_failure(400, "BadRequest").assert_message("error decoding patch");
    }
    let untyped = Call::new(http::Method::PATCH, &at).body("application/json", "{}");
    cluster
        .send(untyped)
        .await
        .expect_failure(415, "UnsupportedMediaType")
        .assert_message("415: Unsupported Media Type");
}

async fn a_dry_run_answers_as_if_and_keeps_nothing(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let (maps, at) = (config_maps(&namespace), format!("{}/a", config_maps(&namespace)));
    let dry = cluster.post(format!("{maps}?dryRun=All"), &config_map("a")).await.expect(201);
    assert!(dry["metadata"]["resourceVersion"].is_null(), "what was never kept has no revision");
    assert!(dry["metadata"]["uid"].is_string());
    cluster.get(&at).await.expect_failure(404, "NotFound");
    let kept = cluster.post(&maps, &config_map("a")).await.expect(201);
    let answered = cluster.merge(format!("{at}?dryRun=All"), &json!({"data": {"x": "y"}})).await.expect(200);
    assert_eq!(answered["data"]["x"], "y");
    let mut replaced = kept.clone();
    replaced["data"] = json!({});
    cluster.put(format!("{at}?dryRun=All"), &replaced).await.expect(200);
    cluster.delete(format!("{at}?dryRun=All")).await.expect(200);
    assert_eq!(cluster.get(&at).await.expect(200), kept);
    let mut bad = config_map("Bad");
    bad["metadata"]["name"] = json!("Bad");
    cluster.post(format!("{maps}?dryRun=All"), &bad).await.expect_failure(422, "Invalid");
    cluster.post(format!("{maps}?dryRun=All"), &config_map("a")).await.expect_failure(409, "AlreadyExists");
}

async fn names_in_paths_are_decoded(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let event = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "odd name"},
        "involvedObject": {"namespace": namespace},
    });
    cluster.post(format!("/api/v1/namespaces/{namespace}/events"), &event).await.expect(201);
    let found = cluster.get(format!("/api/v1/namespaces/{namespace}/events/odd%20name")).await.expect(200);
    assert_eq!(found["metadata"]["name"], "odd name");
}
