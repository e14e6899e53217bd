//! §1.10: label and field selectors.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use super::{cases, config_map, config_maps};

cases! { "selectors":
    label_selectors_select,
    field_selectors_select_by_name_and_namespace,
    built_in_kinds_have_fields_of_their_own,
    events_are_found_by_what_they_are_about,
    a_selector_that_makes_no_sense_is_400,
    an_unknown_field_is_400,
}

fn names(list: &Value) -> String {
    let items = list["items"].as_array().expect("a list");
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

async fn label_selectors_select(cluster: &Cluster) {
    let maps = config_maps(&cluster.namespace().await);
    for (name, labels) in
        [("a", json!({"app": "web", "tier": "1"})), ("b", json!({"app": "db"})), ("c", json!({}))]
    {
        let mut object = config_map(name);
        object["metadata"]["labels"] = labels;
        cluster.post(&maps, &object).await.expect(201);
    }
    for (selector, expected) in [
        ("app%3Dweb", "a"),
        ("app%3D%3Dweb", "a"),
        ("app%21%3Dweb", "b c kube-root-ca.crt"),
        ("app+in+(web,db)", "a b"),
        ("app+notin+(web)", "b c kube-root-ca.crt"),
        ("app", "a b"),
        ("%21app", "c kube-root-ca.crt"),
        ("app,tier%3D1", "a"),
        ("tier%3E0", "a"),
        ("app%3Dnone", ""),
    ] {
        let list = cluster.get(format!("{maps}?labelSelector={selector}")).await.expect(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
}

async fn field_selectors_select_by_name_and_namespace(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let maps = config_maps(&namespace);
    for name in ["a", "b"] {
        cluster.post(&maps, &config_map(name)).await.expect(201);
    }
    for (path, expected) in [
        (format!("{maps}?fieldSelector=metadata.name%3Da"), "a"),
        (format!("{maps}?fieldSelector=metadata.name%3D%3Da"), "a"),
        (format!("{maps}?fieldSelector=metadata.name%21%3Da"), "b kube-root-ca.crt"),
        (format!("{maps}?fieldSelector=metadata.name%3Da,metadata.name%21%3Da"), ""),
        (
            format!("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{namespace}"),
            "a b kube-root-ca.crt",
        ),
        (format!("/api/v1/configmaps?fieldSelector=metadata.namespace%3D{namespace},metadata.name%3Db"), "b"),
    ] {
        assert_eq!(names(&cluster.get(&path).await.expect(200)), expected, "{path}");
    }
}

async fn built_in_kinds_have_fields_of_their_own(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    for (name, kind) in [("a", "Opaque"), ("b", "example.com/x")] {
        let secret = json!({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": name}, "type": kind});
        cluster.post(&secrets, &secret).await.expect(201);
    }
    let found = cluster.get(format!("{secrets}?fieldSelector=type%3Dexample.com/x")).await.expect(200);
    assert_eq!(names(&found), "b");
    let path = format!("/api/v1/namespaces?fieldSelector=status.phase%3DActive,metadata.name%3D{namespace}");
    assert_eq!(names(&cluster.get(path).await.expect(200)), namespace);
}

async fn events_are_found_by_what_they_are_about(cluster: &Cluster) {
    let namespace = cluster.namespace().await;
    let events = format!("/api/v1/namespaces/{namespace}/events");
    for (name, kind) in [("e1", "ConfigMap"), ("e2", "Secret")] {
        let event = json!({
            "kind": "Event", "apiVersion": "v1", "metadata": {"name": name}, "reason": "R", "type": "Normal",
            "involvedObject": {"kind": kind, "namespace": namespace, "name": "x", "uid": "u"},
            "source": {"component": "c"},
        });
        cluster.post(&events, &event).await.expect(201);
    }
    let field = |name: &str, value: &str| format!("{name}%3D{value}");
    for (selector, expected) in [
        (field("involvedObject.kind", "Secret"), "e2"),
        (field("involvedObject.name", "x"), "e1 e2"),
        (field("involvedObject.uid", "u"), "e1 e2"),
        (field("reason", "R"), "e1 e2"),
        (field("type", "Warning"), ""),
        (field("source", "c"), "e1 e2"),
    ] {
        let list = cluster.get(format!("{events}?fieldSelector={selector}")).await.expect(200);
        assert_eq!(names(&list), expected, "{selector}");
    }
    let path =
        format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?fieldSelector=regarding.kind%3DSecret");
    assert_eq!(names(&cluster.get(path).await.expect(200)), "e2");
}

async fn a_selector_that_makes_no_sense_is_400(cluster: &Cluster) {
    for query in [
        "labelSelector=a+in",
        "labelSelector=%3Db",
        "labelSelector=a%3Db,",
        "labelSelector=a%3D-b",
        "labelSelector=-a",
        "labelSelector=a+b",
        "labelSelector=a%3Eb",
        "fieldSelector=metadata.name",
        "fieldSelector=metadata.name%3Da%3Db",
    ] {
        for verb in ["", "watch=1&timeoutSeconds=1&"] {
            cluster.get(format!("/api/v1/namespaces?{verb}{query}")).await.expect_failure(400, "BadRequest");
        }
    }
}

async fn an_unknown_field_is_400(cluster: &Cluster) {
    let answer = cluster.get("/api/v1/namespaces/default/configmaps?fieldSelector=spec.foo%3Dx").await;
    answer.expect_failure(400, "BadRequest").assert_message("spec.foo");
}
