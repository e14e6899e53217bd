//! The namespaces of Addons: creating, using, sharing and waiting for them.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fixture::{Case, condition, start_controller, unique_name, wait_for_reconcile};

async fn create(cluster: &Cluster, metadata: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    cluster.post("/api/v1/namespaces", &namespace).await.expect(201);
}

pub(crate) async fn namespace_gets_labels_and_annotations(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let namespace = unique_name("ns");
    let listed = json!({"name": namespace, "labels": {"both": "own", "own": "1"}, "annotations": {"a": "1"}});
    let spec = json!({
        "namespaces": [listed],
        "commonLabels": {"both": "common", "common": "1"}, "commonAnnotations": {"b": "1"},
    });
    let case = Case::create_in(cluster, &namespace, spec).await;
    case.wait_until_ready().await;
    let found = cluster.get(case.namespace_path()).await.expect(200)["metadata"].take();
    for (label, value) in [("both", "own"), ("own", "1"), ("common", "1")] {
        assert_eq!(found["labels"][label], value, "{label}");
    }
    assert_eq!((&found["annotations"]["a"], &found["annotations"]["b"]), (&json!("1"), &json!("1")));
    assert_eq!(case.instance().await["metadata"]["labels"]["common"], "1");

    cluster
        .merge(case.namespace_path(), &json!({"metadata": {"labels": {"own": "2", "common": null}}}))
        .await;
    eventually("the labels are restored", || async {
        let labels = cluster.get(case.namespace_path()).await.json()["metadata"]["labels"].clone();
        (labels["own"] == "1" && labels["common"] == "1").then_some(())
    })
    .await;
}

pub(crate) async fn namespace_that_existed_before_is_kept_after_deletion(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let namespace = unique_name("ns");
    create(cluster, json!({"name": namespace, "labels": {"existing": "1", "both": "existing"}})).await;
    let listed = json!({"name": namespace, "labels": {"both": "addon", "addon": "1"}});
    let case = Case::create_in(cluster, &namespace, json!({"namespaces": [listed]})).await;
    case.wait_until_ready().await;
    let found = cluster.get(case.namespace_path()).await.expect(200)["metadata"].take();
    assert_eq!(found["ownerReferences"], Value::Null);
    for (label, value) in [("existing", "1"), ("both", "existing"), ("addon", "1")] {
        assert_eq!(found["labels"][label], value, "{label}");
    }
    case.delete().await;
    case.wait_until_deleted(&case.instance_path()).await;
    wait_for_reconcile(cluster).await;
    let namespace = cluster.get(case.namespace_path()).await.expect(200);
    assert_eq!(namespace["metadata"]["deletionTimestamp"], Value::Null);
}

pub(crate) async fn shared_namespace_is_deleted_with_the_last_addon(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let shared = unique_name("shared");
    let path = format!("/api/v1/namespaces/{shared}");
    let case = async || {
        let own = unique_name("ns");
        let case =
            Case::create_in(cluster, &own, json!({"namespaces": [{"name": own}, {"name": shared}]})).await;
        case.wait_until_ready().await;
        case
    };
    let (first, second) = (case().await, case().await);
    let owners = cluster.get(&path).await.expect(200)["metadata"]["ownerReferences"].take();
    let roles: Vec<(&Value, &Value)> =
        owners.as_array().unwrap().iter().map(|owner| (&owner["name"], &owner["controller"])).collect();
    assert_eq!(
        roles,
        [(&json!(first.name), &json!(true)), (&json!(second.name), &json!(false))],
        "the first Addon is the controller, both are owners"
    );
    first.delete().await;
    first.wait_until_deleted(&first.namespace_path()).await;
    wait_for_reconcile(cluster).await;
    let namespace = cluster.get(&path).await.expect(200);
    assert_eq!(namespace["metadata"]["deletionTimestamp"], Value::Null);
    second.wait_until_ready().await;
    second.delete().await;
    second.wait_until_deleted(&path).await;
}

pub(crate) async fn deleted_namespace_is_created_again(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    // A finalizer keeps the namespace in the phase Terminating, so that the test can observe the status meanwhile.
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.post(format!("{}/configmaps", case.namespace_path()), &held).await.expect(201);
    let before = cluster.get(case.namespace_path()).await.expect(200)["metadata"]["uid"].clone();
    cluster.delete(case.namespace_path()).await.expect(200);
    let waiting = case.wait_for_condition("Available", "False", "UnreadyNamespaces").await;
    let expected = format!("{:?} is being deleted", case.namespace);
    assert!(waiting["message"].as_str().unwrap().contains(&expected), "{waiting}");

    let held = format!("{}/configmaps/held", case.namespace_path());
    cluster.merge(held, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    eventually("the namespace is a new object", || async {
        let found = cluster.get(case.namespace_path()).await;
        (found.status == 200 && found.json()["metadata"]["uid"] != before).then_some(())
    })
    .await;
    case.instance().await;
    case.wait_until_ready().await;
}

pub(crate) async fn addon_waits_for_an_unlisted_target_namespace(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let namespace = unique_name("ns");
    let case = Case::create_in(cluster, &namespace, json!({})).await;
    let waiting = case.wait_for_condition("Available", "False", "UnreadyNamespaces").await;
    let expected = format!("{namespace:?} does not exist: create it, or list it in .spec.namespaces");
    assert!(waiting["message"].as_str().unwrap().contains(&expected), "{waiting}");
    assert_eq!(case.read().await["status"]["phase"], "Pending");
    create(cluster, json!({"name": namespace})).await;
    case.wait_until_ready().await;
}

pub(crate) async fn rejected_namespace_is_reported_in_available(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let spec = json!({"namespaces": [{"name": "No_Such_Name"}]});
    let case = Case::create_in(cluster, "default", spec).await;
    let waiting = case.wait_for_condition("Available", "False", "UnreadyNamespaces").await;
    let message = waiting["message"].as_str().unwrap().to_owned();
    assert!(message.contains("\"No_Such_Name\" cannot be created or changed"), "{message}");
    assert!(message.contains("lower case alphanumeric characters"), "{message}");
    case.merge(json!({"spec": {"namespaces": null}})).await;
    assert_eq!(condition(&case.wait_until_ready().await, "Available")["observedGeneration"], 2);
    case.delete().await;
    case.wait_until_deleted(&case.instance_path()).await;
}
