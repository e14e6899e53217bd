//! The namespaces of Addons: made, used, shared, waited for.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fixture::{Case, condition, control, pass, unique};

async fn create(cluster: &Cluster, metadata: Value) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
    cluster.post("/api/v1/namespaces", &namespace).await.expect(201);
}

pub(crate) async fn a_namespace_gets_labels_and_annotations(cluster: &Cluster) {
    let _controller = control(cluster);
    let namespace = unique("ns");
    let listed = json!({"name": namespace, "labels": {"both": "own", "own": "1"}, "annotations": {"a": "1"}});
    let spec = json!({
        "namespaces": [listed],
        "commonLabels": {"both": "common", "common": "1"}, "commonAnnotations": {"b": "1"},
    });
    let case = Case::create_in(cluster, &namespace, spec).await;
    case.until_ready().await;
    let found = cluster.get(case.namespace_path()).await.expect(200)["metadata"].take();
    for (label, value) in [("both", "own"), ("own", "1"), ("common", "1")] {
        assert_eq!(found["labels"][label], value, "{label}");
    }
    assert_eq!((&found["annotations"]["a"], &found["annotations"]["b"]), (&json!("1"), &json!("1")));
    assert_eq!(case.instance().await["metadata"]["labels"]["common"], "1");

    cluster
        .merge(case.namespace_path(), &json!({"metadata": {"labels": {"own": "2", "common": null}}}))
        .await;
    eventually("the labels are set right", || async {
        let labels = cluster.get(case.namespace_path()).await.json()["metadata"]["labels"].clone();
        (labels["own"] == "1" && labels["common"] == "1").then_some(())
    })
    .await;
}

pub(crate) async fn a_namespace_that_was_there_before_is_used_and_stays(cluster: &Cluster) {
    let _controller = control(cluster);
    let namespace = unique("ns");
    create(cluster, json!({"name": namespace, "labels": {"theirs": "1", "both": "theirs"}})).await;
    let listed = json!({"name": namespace, "labels": {"both": "ours", "ours": "1"}});
    let case = Case::create_in(cluster, &namespace, json!({"namespaces": [listed]})).await;
    case.until_ready().await;
    let found = cluster.get(case.namespace_path()).await.expect(200)["metadata"].take();
    assert_eq!(found["ownerReferences"], Value::Null);
    for (label, value) in [("theirs", "1"), ("both", "theirs"), ("ours", "1")] {
        assert_eq!(found["labels"][label], value, "{label}");
    }
    case.delete().await;
    case.gone(&case.instance_path()).await;
    pass(cluster).await;
    let left = cluster.get(case.namespace_path()).await.expect(200);
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
}

pub(crate) async fn a_namespace_of_two_addons_goes_with_the_last(cluster: &Cluster) {
    let _controller = control(cluster);
    let shared = unique("shared");
    let path = format!("/api/v1/namespaces/{shared}");
    let case = async || {
        let own = unique("ns");
        let case =
            Case::create_in(cluster, &own, json!({"namespaces": [{"name": own}, {"name": shared}]})).await;
        case.until_ready().await;
        case
    };
    let (first, second) = (case().await, case().await);
    let owners = cluster.get(&path).await.expect(200)["metadata"]["ownerReferences"].take();
    let roles: Vec<(&Value, &Value)> =
        owners.as_array().unwrap().iter().map(|owner| (&owner["name"], &owner["controller"])).collect();
    assert_eq!(
        roles,
        [(&json!(first.name), &json!(true)), (&json!(second.name), &json!(false))],
        "one decides, and both hold it"
    );
    first.delete().await;
    first.gone(&first.namespace_path()).await;
    pass(cluster).await;
    let left = cluster.get(&path).await.expect(200);
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
    second.until_ready().await;
    second.delete().await;
    second.gone(&path).await;
}

pub(crate) async fn a_namespace_deleted_by_hand_is_made_again(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    // Something that holds the namespace, so that the wait can be seen.
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    cluster.post(format!("{}/configmaps", case.namespace_path()), &held).await.expect(201);
    let before = cluster.get(case.namespace_path()).await.expect(200)["metadata"]["uid"].clone();
    cluster.delete(case.namespace_path()).await.expect(200);
    let waiting = case.until_condition("Available", "False", "UnreadyNamespaces").await;
    let words = format!("{:?} is being deleted", case.namespace);
    assert!(waiting["message"].as_str().unwrap().contains(&words), "{waiting}");

    let held = format!("{}/configmaps/held", case.namespace_path());
    cluster.merge(held, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    eventually("the namespace is another", || async {
        let found = cluster.get(case.namespace_path()).await;
        (found.status == 200 && found.json()["metadata"]["uid"] != before).then_some(())
    })
    .await;
    case.instance().await;
    case.until_ready().await;
}

pub(crate) async fn a_namespace_that_nobody_lists_is_waited_for(cluster: &Cluster) {
    let _controller = control(cluster);
    let namespace = unique("ns");
    let case = Case::create_in(cluster, &namespace, json!({})).await;
    let waiting = case.until_condition("Available", "False", "UnreadyNamespaces").await;
    let words = format!("{namespace:?} does not exist: create it, or list it in .spec.namespaces");
    assert!(waiting["message"].as_str().unwrap().contains(&words), "{waiting}");
    assert_eq!(case.read().await["status"]["phase"], "Pending");
    create(cluster, json!({"name": namespace})).await;
    case.until_ready().await;
}

pub(crate) async fn a_namespace_that_cannot_be_made_is_told_of(cluster: &Cluster) {
    let _controller = control(cluster);
    let spec = json!({"namespaces": [{"name": "No_Such_Name"}]});
    let case = Case::create_in(cluster, "default", spec).await;
    let waiting = case.until_condition("Available", "False", "UnreadyNamespaces").await;
    let words = waiting["message"].as_str().unwrap().to_owned();
    assert!(words.contains("\"No_Such_Name\" cannot be provided"), "{words}");
    assert!(words.contains("lower case alphanumeric characters"), "{words}");
    case.merge(json!({"spec": {"namespaces": null}})).await;
    assert_eq!(condition(&case.until_ready().await, "Available")["observedGeneration"], 2);
    case.delete().await;
    case.gone(&case.instance_path()).await;
}
