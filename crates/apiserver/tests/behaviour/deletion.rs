//! §1.14: finalizers, propagation, garbage collection; and what becomes of namespaces.

use bellwether_testkit::{Answer, Call, Cluster, eventually};
use serde_json::{Value, json};

use super::{cases, config_map, config_maps, revision};

cases! { "deletion":
    finalizers_hold_an_object_back_until_the_last_is_gone,
    no_finalizer_can_be_added_to_what_is_being_deleted,
    the_legacy_way_to_cascade_answers_202_while_the_object_stays,
    dependents_follow_their_owner_in_the_background,
    foreground_deletion_waits_for_dependents_that_block,
    orphaned_dependents_stay_and_lose_the_reference,
    a_dependent_with_another_owner_stays,
    an_object_whose_owner_never_was_is_collected,
    owners_in_a_circle_do_not_block_each_other,
    a_deleted_namespace_takes_everything_with_it,
    a_namespace_waits_for_finalizers_and_says_so,
    nothing_can_be_created_in_a_namespace_that_is_terminating,
    nothing_can_be_created_in_a_namespace_that_is_not_there,
    some_namespaces_cannot_be_deleted,
    every_namespace_has_its_service_account_and_root_certificate,
    a_new_namespace_has_phase_label_and_finalizer,
}

async fn finalizers_hold_an_object_back_until_the_last_is_gone(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let at = format!("{maps}/held");
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["example.com/a", "example.com/b"]);
    let from = revision(&cluster.post(&maps, &object).await.expect(201));
    let mut watch = cluster.watch(format!("{maps}?watch=1&resourceVersion={from}")).await;
    let held = cluster.delete(&at).await.expect(200);
    assert_eq!(held["kind"], "ConfigMap");
    assert!(held["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(held["metadata"]["deletionGracePeriodSeconds"], 0);
    let again = cluster.delete(&at).await.expect(200);
    assert_eq!(again["metadata"], held["metadata"], "a second delete changes nothing");
    cluster.merge(&at, &json!({"metadata": {"finalizers": ["example.com/b"]}})).await.expect(200);
    cluster.get(&at).await.expect(200);
    cluster.merge(&at, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    cluster.get(&at).await.expect_failure(404, "NotFound");
    watch.expect("MODIFIED", "held").await;
    watch.expect("MODIFIED", "held").await;
    let deleted = watch.expect("DELETED", "held").await;
    let last = json!(["example.com/b"]);
    assert_eq!(deleted.object["metadata"]["finalizers"], last, "the last state that was stored");
}

async fn no_finalizer_can_be_added_to_what_is_being_deleted(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    cluster.post(&maps, &object).await.expect(201);
    cluster.delete(format!("{maps}/held")).await.expect(200);
    let more = json!({"metadata": {"finalizers": ["example.com/a", "example.com/new"]}});
    let refused = cluster.merge(format!("{maps}/held"), &more).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueForbidden", "metadata.finalizers").assert_message(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{\"example.com/new\"}",
    );
    cluster.merge(format!("{maps}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
}

async fn the_legacy_way_to_cascade_answers_202_while_the_object_stays(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["example.com/a"]);
    cluster.post(&maps, &object).await.expect(201);
    let call = Call::delete(format!("{maps}/held")).json(&json!({"orphanDependents": false}));
    cluster.send(call).await.expect(202);
    cluster.merge(format!("{maps}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
}

/// A ConfigMap that is owned by others, the first of which it blocks.
async fn owned(cluster: &Cluster, maps: &str, name: &str, owners: &[&Value]) -> Value {
    let mut object = config_map(name);
    object["metadata"]["ownerReferences"] = owners
        .iter()
        .map(|owner| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true,
            })
        })
        .collect();
    cluster.post(maps, &object).await.expect(201)
}

async fn gone(cluster: &Cluster, path: &str) {
    eventually(&format!("{path} is gone"), || async {
        (cluster.get(path).await.status == 404).then_some(())
    })
    .await;
}

async fn delete_with(cluster: &Cluster, path: &str, policy: &str) -> Answer {
    cluster.send(Call::delete(path).json(&json!({"propagationPolicy": policy}))).await
}

async fn dependents_follow_their_owner_in_the_background(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let owner = cluster.post(&maps, &config_map("owner")).await.expect(201);
    let child = owned(cluster, &maps, "child", &[&owner]).await;
    owned(cluster, &maps, "grandchild", &[&child]).await;
    let status = delete_with(cluster, &format!("{maps}/owner"), "Background").await.expect(200);
    assert_eq!(status["status"], "Success");
    cluster.get(format!("{maps}/owner")).await.expect_failure(404, "NotFound");
    gone(cluster, &format!("{maps}/child")).await;
    gone(cluster, &format!("{maps}/grandchild")).await;
}

async fn foreground_deletion_waits_for_dependents_that_block(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let owner = cluster.post(&maps, &config_map("owner")).await.expect(201);
    let mut child = owned(cluster, &maps, "child", &[&owner]).await;
    child["metadata"]["finalizers"] = json!(["example.com/slow"]);
    cluster.put(format!("{maps}/child"), &child).await.expect(200);
    let pending = delete_with(cluster, &format!("{maps}/owner"), "Foreground").await.expect(200);
    assert_eq!(pending["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    eventually("the child is being deleted", || async {
        let child = cluster.get(format!("{maps}/child")).await.expect(200);
        child["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    cluster.get(format!("{maps}/owner")).await.expect(200);
    cluster.merge(format!("{maps}/child"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(cluster, &format!("{maps}/child")).await;
    gone(cluster, &format!("{maps}/owner")).await;
}

async fn orphaned_dependents_stay_and_lose_the_reference(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let owner = cluster.post(&maps, &config_map("owner")).await.expect(201);
    owned(cluster, &maps, "child", &[&owner]).await;
    delete_with(cluster, &format!("{maps}/owner"), "Orphan").await.expect(200);
    gone(cluster, &format!("{maps}/owner")).await;
    let child = cluster.get(format!("{maps}/child")).await.expect(200);
    assert!(child["metadata"]["ownerReferences"].is_null(), "{child}");
}

async fn a_dependent_with_another_owner_stays(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let first = cluster.post(&maps, &config_map("first")).await.expect(201);
    let second = cluster.post(&maps, &config_map("second")).await.expect(201);
    owned(cluster, &maps, "child", &[&first, &second]).await;
    cluster.delete(format!("{maps}/first")).await.expect(200);
    eventually("only the second owner is left", || async {
        let child = cluster.get(format!("{maps}/child")).await.expect(200);
        (child["metadata"]["ownerReferences"].as_array().map(Vec::len) == Some(1)).then_some(())
    })
    .await;
    cluster.delete(format!("{maps}/second")).await.expect(200);
    gone(cluster, &format!("{maps}/child")).await;
}

async fn an_object_whose_owner_never_was_is_collected(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let nobody = json!({"metadata": {"name": "nobody", "uid": "11111111-2222-4333-8444-555555555555"}});
    owned(cluster, &maps, "child", &[&nobody]).await;
    gone(cluster, &format!("{maps}/child")).await;
}

async fn owners_in_a_circle_do_not_block_each_other(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let one = cluster.post(&maps, &config_map("one")).await.expect(201);
    let two = owned(cluster, &maps, "two", &[&one]).await;
    let mut one = one;
    one["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "two", "uid": two["metadata"]["uid"], "blockOwnerDeletion": true,
    }]);
    cluster.put(format!("{maps}/one"), &one).await.expect(200);
    delete_with(cluster, &format!("{maps}/one"), "Foreground").await.expect(200);
    gone(cluster, &format!("{maps}/one")).await;
    gone(cluster, &format!("{maps}/two")).await;
}

async fn a_deleted_namespace_takes_everything_with_it(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let maps = config_maps(&namespace);
    cluster.post(&maps, &config_map("a")).await.expect(201);
    let deleted = cluster.delete(format!("/api/v1/namespaces/{namespace}")).await.expect(200);
    assert_eq!((&deleted["kind"], &deleted["status"]["phase"]), (&json!("Namespace"), &json!("Terminating")));
    gone(cluster, &format!("/api/v1/namespaces/{namespace}")).await;
    cluster.get(format!("{maps}/a")).await.expect_failure(404, "NotFound");
    assert_eq!(cluster.get(&maps).await.expect(200)["items"], json!([]));
}

async fn a_namespace_waits_for_finalizers_and_says_so(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let (maps, at) = (config_maps(&namespace), format!("/api/v1/namespaces/{namespace}"));
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(&maps, &object).await.expect(201);
    cluster.delete(&at).await.expect(200);
    let conditions = eventually("the namespace says what it waits for", || async {
        let conditions = cluster.get(&at).await.expect(200)["status"]["conditions"].clone();
        let waiting = conditions.as_array().into_iter().flatten().any(|condition| {
            condition["type"] == "NamespaceFinalizersRemaining" && condition["status"] == "True"
        });
        waiting.then_some(conditions)
    })
    .await;
    for (kind, status, reason, words) in [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            "True",
            "SomeResourcesRemain",
            "Some resources are remaining: configmaps. has 1 resource instances",
        ),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
        ),
    ] {
        let condition = conditions.as_array().unwrap().iter().find(|condition| condition["type"] == kind);
        let condition = condition.unwrap_or_else(|| panic!("{kind} is missing: {conditions}"));
        assert_eq!(
            (&condition["status"], &condition["reason"], &condition["message"]),
            (&json!(status), &json!(reason), &json!(words))
        );
    }
    cluster.merge(format!("{maps}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(cluster, &at).await;
}

async fn nothing_can_be_created_in_a_namespace_that_is_terminating(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let maps = config_maps(&namespace);
    let mut object = config_map("held");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    cluster.post(&maps, &object).await.expect(201);
    cluster.delete(format!("/api/v1/namespaces/{namespace}")).await.expect(200);
    let refused = cluster.post(&maps, &config_map("late")).await.expect_failure(403, "Forbidden");
    refused
        .assert_details("", "configmaps", "late")
        .assert_cause("NamespaceTerminating", "metadata.namespace");
    refused.assert_message(&format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    ));
    cluster.merge(format!("{maps}/held"), &json!({"data": {"still": "writable"}})).await.expect(200);
    cluster.merge(format!("{maps}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(cluster, &format!("/api/v1/namespaces/{namespace}")).await;
}

async fn nothing_can_be_created_in_a_namespace_that_is_not_there(cluster: &Cluster) {
    let refused =
        cluster.post(config_maps("nowhere"), &config_map("a")).await.expect_failure(404, "NotFound");
    refused.assert_details("", "namespaces", "nowhere");
}

async fn some_namespaces_cannot_be_deleted(cluster: &Cluster) {
    for namespace in ["default", "kube-system", "kube-public"] {
        let refused =
            cluster.delete(format!("/api/v1/namespaces/{namespace}")).await.expect_failure(403, "Forbidden");
        refused.assert_details("", "namespaces", namespace);
        refused.assert_message(&format!(
            "namespaces \"{namespace}\" is forbidden: this namespace may not be deleted"
        ));
    }
    for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        cluster.get(format!("/api/v1/namespaces/{namespace}")).await.expect(200);
    }
}

async fn every_namespace_has_its_service_account_and_root_certificate(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let certificate = format!("{}/kube-root-ca.crt", config_maps(&namespace));
    let account = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
    let whole = cluster.get(&certificate).await.expect(200);
    assert!(whole["data"]["ca.crt"].as_str().unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    cluster.merge(&certificate, &json!({"data": {"ca.crt": "tampered"}})).await.expect(200);
    eventually("the certificate is restored", || async {
        (cluster.get(&certificate).await.json()["data"] == whole["data"]).then_some(())
    })
    .await;
    for path in [&certificate, &account] {
        let uid = cluster.get(path).await.expect(200)["metadata"]["uid"].clone();
        cluster.delete(path).await.expect(200);
        eventually("it is made anew", || async {
            let answer = cluster.get(path).await;
            (answer.status == 200 && answer.json()["metadata"]["uid"] != uid).then_some(())
        })
        .await;
    }
}

async fn a_new_namespace_has_phase_label_and_finalizer(cluster: &Cluster) {
    let name = cluster.namespace().await;
    let namespace = cluster.get(format!("/api/v1/namespaces/{name}")).await.expect(200);
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": name}));
}
