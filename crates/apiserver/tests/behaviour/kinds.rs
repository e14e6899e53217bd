//! The rules of single kinds: ConfigMap, Secret, Lease, Event in both groups, ServiceAccount, Service.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::{cases, config_map, config_maps};

cases! { "kinds":
    a_config_map_has_file_like_keys_and_a_limit,
    an_immutable_config_map_cannot_be_changed_or_thawed,
    a_secret_takes_plain_text_and_gives_base64,
    typed_secrets_have_the_keys_of_their_type,
    an_immutable_secret_cannot_be_changed,
    a_lease_keeps_microseconds_and_refuses_nonsense,
    both_groups_of_events_show_the_same_rows,
    an_event_is_in_the_namespace_of_what_it_is_about,
    an_event_of_the_new_group_is_complete_and_cannot_be_changed,
    a_service_account_keeps_its_secrets,
    a_service_is_defaulted_and_its_ports_are_checked,
    the_api_has_a_service_of_its_own,
}

async fn a_config_map_has_file_like_keys_and_a_limit(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    for key in ["a b", "..", "..x", "a/b", ""] {
        let mut object = config_map("a");
        object["data"] = json!({key: "x"});
        let refused = cluster.post(&maps, &object).await.expect_failure(422, "Invalid");
        refused.assert_cause("FieldValueInvalid", &format!("data[{key}]"));
    }
    let mut object = config_map("a");
    object["binaryData"] = json!({"key": "AAEC"});
    cluster
        .post(&maps, &object)
        .await
        .expect_failure(422, "Invalid")
        .assert_message("duplicate of key present in");
    object = config_map("a");
    object["data"]["key"] = "x".repeat(1024 * 1024 + 1).into();
    let refused = cluster.post(&maps, &object).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueTooLong", "[]").assert_message("may not be more than 1048576 bytes");
}

async fn an_immutable_config_map_cannot_be_changed_or_thawed(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    let mut object = config_map("frozen");
    object["immutable"] = json!(true);
    cluster.post(&maps, &object).await.expect(201);
    for (patch, field) in [
        (json!({"data": {"key": "other"}}), "data"),
        (json!({"binaryData": {"b": "AAEC"}}), "binaryData"),
        (json!({"immutable": false}), "immutable"),
        (json!({"immutable": null}), "immutable"),
    ] {
        let refused = cluster.merge(format!("{maps}/frozen"), &patch).await.expect_failure(422, "Invalid");
        refused
            .assert_cause("FieldValueForbidden", field)
            .assert_message("field is immutable when `immutable` is set");
    }
    cluster.merge(format!("{maps}/frozen"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
}

fn secret(name: &str, rest: Value) -> Value {
    let mut secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}});
    for (key, value) in rest.as_object().unwrap() {
        secret[key] = value.clone();
    }
    secret
}

async fn a_secret_takes_plain_text_and_gives_base64(cluster: &Cluster) {
    let secrets = format!("/api/v1/namespaces/{}/secrets", cluster.namespace().await);
    let plain = json!({"stringData": {"a": "text", "b": "wins"}, "data": {"b": "AAEC", "c": "AAEC"}});
    let created = cluster.post(&secrets, &secret("s", plain)).await.expect(201);
    assert_eq!(created["type"], "Opaque");
    assert_eq!(created["data"], json!({"a": "dGV4dA==", "b": "d2lucw==", "c": "AAEC"}));
    assert!(created["stringData"].is_null());
    let bad = secret("bad", json!({"data": {"a": "no base64!"}}));
    cluster
        .post(&secrets, &bad)
        .await
        .expect_failure(400, "BadRequest")
        .assert_message("illegal base64 data at input byte");
    let retyped = json!({"type": "example.com/x"});
    let refused = cluster.merge(format!("{secrets}/s"), &retyped).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "type").assert_message("field is immutable");
}

async fn typed_secrets_have_the_keys_of_their_type(cluster: &Cluster) {
    let secrets = format!("/api/v1/namespaces/{}/secrets", cluster.namespace().await);
    for (kind, field) in [
        ("kubernetes.io/tls", "data[tls.crt]"),
        ("kubernetes.io/basic-auth", "data[username]"),
        ("kubernetes.io/ssh-auth", "data[ssh-privatekey]"),
        ("kubernetes.io/dockercfg", "data[.dockercfg]"),
        ("kubernetes.io/dockerconfigjson", "data[.dockerconfigjson]"),
        ("kubernetes.io/service-account-token", "metadata.annotations[kubernetes.io/service-account.name]"),
    ] {
        let refused =
            cluster.post(&secrets, &secret("s", json!({"type": kind}))).await.expect_failure(422, "Invalid");
        refused.assert_details("", "Secret", "s").assert_cause("FieldValueRequired", field);
    }
}

async fn an_immutable_secret_cannot_be_changed(cluster: &Cluster) {
    let secrets = format!("/api/v1/namespaces/{}/secrets", cluster.namespace().await);
    let frozen = secret("s", json!({"immutable": true, "stringData": {"a": "b"}}));
    cluster.post(&secrets, &frozen).await.expect(201);
    let refused = cluster
        .merge(format!("{secrets}/s"), &json!({"stringData": {"a": "c"}}))
        .await
        .expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueForbidden", "data");
}

async fn a_lease_keeps_microseconds_and_refuses_nonsense(cluster: &Cluster) {
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", cluster.namespace().await);
    let lease = |name: &str, spec: Value| json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": name}, "spec": spec});
    let spec = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T05:04:05.000006+02:00"});
    let created = cluster.post(&leases, &lease("l", spec)).await.expect(201);
    assert_eq!(created["spec"]["renewTime"], "2026-01-02T03:04:05.000006Z");
    for (spec, field) in [
        (json!({"leaseDurationSeconds": 0}), "spec.leaseDurationSeconds"),
        (json!({"leaseTransitions": -1}), "spec.leaseTransitions"),
    ] {
        let refused = cluster.post(&leases, &lease("bad", spec)).await.expect_failure(422, "Invalid");
        refused
            .assert_details("coordination.k8s.io", "Lease", "bad")
            .assert_cause("FieldValueInvalid", field);
    }
    let typed = cluster.post(&leases, &lease("bad", json!({"leaseDurationSeconds": "5"}))).await;
    typed.expect_failure(400, "BadRequest").assert_message(
        "cannot unmarshal string into Go struct field LeaseSpec.spec.leaseDurationSeconds of type int32",
    );
}

fn event(namespace: &str, rest: Value) -> Value {
    let mut event = json!({
        "kind": "Event", "apiVersion": "events.k8s.io/v1", "metadata": {"name": "e"},
        "regarding": {"kind": "ConfigMap", "namespace": namespace, "name": "x"}, "reason": "Happened", "note": "words",
        "type": "Normal", "eventTime": "2026-01-02T03:04:05.000006Z", "action": "Acting",
        "reportingController": "example.com/c", "reportingInstance": "i",
    });
    for (key, value) in rest.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

async fn both_groups_of_events_show_the_same_rows(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let new = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let old = format!("/api/v1/namespaces/{namespace}/events");
    let created = cluster.post(&new, &event(&namespace, json!({}))).await.expect(201);
    assert_eq!((&created["note"], &created["apiVersion"]), (&json!("words"), &json!("events.k8s.io/v1")));
    let legacy = cluster.get(format!("{old}/e")).await.expect(200);
    assert_eq!((&legacy["message"], &legacy["apiVersion"]), (&json!("words"), &json!("v1")));
    assert_eq!(legacy["involvedObject"], created["regarding"]);
    assert_eq!(legacy["reportingComponent"], "example.com/c");
    assert_eq!(legacy["metadata"]["uid"], created["metadata"]["uid"]);
    let from = legacy["metadata"]["resourceVersion"].as_str().unwrap();
    let mut watch = cluster.watch(format!("{new}?watch=1&resourceVersion={from}")).await;
    cluster.delete(format!("{old}/e")).await.expect(200);
    let deleted = watch.expect("DELETED", "e").await;
    assert_eq!(deleted.object["note"], "words");
}

async fn an_event_is_in_the_namespace_of_what_it_is_about(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let legacy = json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": {"namespace": "default"},
    });
    let refused = cluster
        .post(format!("/api/v1/namespaces/{namespace}/events"), &legacy)
        .await
        .expect_failure(422, "Invalid");
    refused
        .assert_cause("FieldValueInvalid", "involvedObject.namespace")
        .assert_message("does not match event.namespace");
}

async fn an_event_of_the_new_group_is_complete_and_cannot_be_changed(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    for (rest, reason, field) in [
        (json!({"eventTime": null}), "FieldValueRequired", "eventTime"),
        (json!({"reason": ""}), "FieldValueRequired", "reason"),
        (json!({"action": ""}), "FieldValueRequired", "action"),
        (json!({"type": "Odd"}), "FieldValueInvalid", "type"),
        (json!({"reportingController": ""}), "FieldValueRequired", "reportingController"),
        (json!({"note": "x".repeat(1025)}), "FieldValueInvalid", "message"),
        (json!({"deprecatedCount": 2}), "FieldValueInvalid", "count"),
    ] {
        let refused = cluster.post(&events, &event(&namespace, rest)).await.expect_failure(422, "Invalid");
        refused.assert_cause(reason, field);
    }
    cluster.post(&events, &event(&namespace, json!({}))).await.expect(201);
    let refused =
        cluster.merge(format!("{events}/e"), &json!({"note": "other"})).await.expect_failure(422, "Invalid");
    refused.assert_cause("FieldValueInvalid", "message").assert_message("field is immutable");
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-02T03:04:06.000000Z"}});
    cluster.merge(format!("{events}/e"), &series).await.expect(200);
}

async fn a_service_account_keeps_its_secrets(cluster: &Cluster) {
    let accounts = format!("/api/v1/namespaces/{}/serviceaccounts", cluster.namespace().await);
    let account = json!({
        "kind": "ServiceAccount", "apiVersion": "v1", "metadata": {"name": "robot"},
        "imagePullSecrets": [{"name": "pull"}], "automountServiceAccountToken": false,
    });
    let created = cluster.post(&accounts, &account).await.expect(201);
    assert_eq!(created["imagePullSecrets"], json!([{"name": "pull"}]));
    assert_eq!(created["automountServiceAccountToken"], false);
}

async fn a_service_is_defaulted_and_its_ports_are_checked(cluster: &Cluster) {
    let services = format!("/api/v1/namespaces/{}/services", cluster.namespace().await);
    let service = |name: &str, spec: Value| json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name}, "spec": spec});
    let headless = json!({"clusterIP": "None", "selector": {"a": "b"}, "ports": [{"port": 80}]});
    let created = cluster.post(&services, &service("s", headless)).await.expect(201);
    assert_eq!(created["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(
        (&created["spec"]["type"], &created["spec"]["sessionAffinity"]),
        (&json!("ClusterIP"), &json!("None"))
    );
    assert_eq!(created["status"], json!({"loadBalancer": {}}));
    for (spec, reason, field) in [
        (json!({}), "FieldValueRequired", "spec.ports"),
        (json!({"clusterIP": "None", "ports": [{"port": 0}]}), "FieldValueInvalid", "spec.ports[0].port"),
        (
            json!({"clusterIP": "None", "ports": [{"port": 1}, {"port": 2}]}),
            "FieldValueRequired",
            "spec.ports[0].name",
        ),
        (
            json!({"clusterIP": "None", "ports": [{"port": 1, "protocol": "X"}]}),
            "FieldValueNotSupported",
            "spec.ports[0].protocol",
        ),
        (json!({"type": "Odd", "ports": [{"port": 1}]}), "FieldValueNotSupported", "spec.type"),
        (
            json!({"clusterIP": "None", "sessionAffinity": "Odd", "ports": [{"port": 1}]}),
            "FieldValueNotSupported",
            "spec.sessionAffinity",
        ),
    ] {
        cluster
            .post(&services, &service("bad", spec))
            .await
            .expect_failure(422, "Invalid")
            .assert_cause(reason, field);
    }
}

async fn the_api_has_a_service_of_its_own(cluster: &Cluster) {
    let service = cluster.get("/api/v1/namespaces/default/services/kubernetes").await.expect(200);
    assert_eq!(service["spec"]["ports"][0]["port"], 443);
    assert_eq!(service["metadata"]["labels"], json!({"component": "apiserver", "provider": "kubernetes"}));
}
