//! The AddonInstance of an Addon, and the acknowledgement of an installation.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use crate::fixture::{Case, condition, start_controller, unique_name, wait_for_reconcile};

pub(crate) async fn new_addon_gets_namespace_and_instance(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    let addon = case.wait_until_ready().await;
    assert_eq!(addon["status"]["phase"], "Ready");
    assert_eq!(addon["status"]["observedGeneration"], 1);
    assert_eq!(condition(&addon, "Available")["observedGeneration"], 1);
    assert_eq!(condition(&addon, "Installed")["reason"], "AddonInstalled");
    assert_eq!(addon["metadata"]["finalizers"], json!(["addons.managed.openshift.io/cache"]));

    let instance = case.instance().await;
    let owner = json!([{
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": case.name,
        "uid": addon["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true,
    }]);
    assert_eq!(instance["metadata"]["ownerReferences"], owner);
    assert_eq!(instance["spec"], json!({"heartbeatUpdatePeriod": "10s"}));
    assert_eq!(instance["status"], Value::Null);
    assert_eq!(cluster.get(case.namespace_path()).await.expect(200)["metadata"]["ownerReferences"], owner);
}

pub(crate) async fn instance_is_created_in_the_target_namespace_of_every_install_type(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    for (type_, block) in [("OLMOwnNamespace", "olmOwnNamespace"), ("OLMAllNamespaces", "olmAllNamespaces")] {
        let namespace = unique_name("ns");
        let olm =
            json!({"namespace": namespace, "catalogSourceImage": "i", "channel": "c", "packageName": "p"});
        let install = json!({"type": type_, "external": null, block: olm});
        let spec = json!({"install": install, "namespaces": [{"name": namespace}]});
        let case = Case::create_in(cluster, &namespace, spec).await;
        case.wait_until_ready().await;
        case.instance().await;
    }
}

pub(crate) async fn deleted_instance_is_created_again(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    let before = case.instance().await["metadata"]["uid"].clone();
    cluster.delete(case.instance_path()).await.expect(200);
    let deleted = tokio::time::Instant::now();
    case.wait_for_instance("is a new object", |instance| instance["metadata"]["uid"] != before).await;
    // Real Kubernetes is slower than paused time.
    let limit = if cluster.is_kubernetes() { 5 } else { 1 };
    assert!(deleted.elapsed().as_secs() < limit, "it took {:?}", deleted.elapsed());
}

pub(crate) async fn valid_period_is_kept_and_invalid_period_is_replaced(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    let set = async |period: Value| {
        cluster
            .merge(case.instance_path(), &json!({"spec": {"heartbeatUpdatePeriod": period}}))
            .await
            .expect(200);
    };
    set(json!("1h")).await;
    wait_for_reconcile(cluster).await;
    assert_eq!(case.instance().await["spec"]["heartbeatUpdatePeriod"], "1h");
    for invalid in ["0s", "-5s", "banana"] {
        set(json!(invalid)).await;
        case.wait_for_instance("has the default period", |found| {
            found["spec"]["heartbeatUpdatePeriod"] == "10s"
        })
        .await;
    }
}

pub(crate) async fn instance_without_owner_is_adopted(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    let uid = case.wait_until_ready().await["metadata"]["uid"].clone();
    cluster.merge(case.instance_path(), &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
    case.wait_for_instance("has an owner", |instance| {
        let owner = &instance["metadata"]["ownerReferences"][0];
        owner["uid"] == uid && owner["controller"] == true
    })
    .await;
}

pub(crate) async fn second_addon_with_the_same_target_namespace_gets_configuration_error(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let first = Case::create(cluster, json!({})).await;
    first.wait_until_ready().await;
    let second =
        Case::create_in(cluster, &first.namespace, json!({"namespaces": [{"name": first.namespace}]})).await;
    let rejected = second.wait_for_condition("Available", "False", "ConfigurationError").await;
    let message = rejected["message"].as_str().unwrap();
    assert!(message.contains(&format!("belongs to Addon {:?}", first.name)), "{message}");
    assert_eq!(second.read().await["status"]["phase"], "Error");
    assert_eq!(condition(&second.read().await, "Installed"), Value::Null);
    first.wait_until_ready().await;

    first.delete().await;
    second.wait_until_ready().await;
    let owner = second.instance().await["metadata"]["ownerReferences"][0].clone();
    assert_eq!(owner["name"], second.name.as_str());
}

pub(crate) async fn required_install_acknowledgement_delays_availability(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({"installAckRequired": true})).await;
    let waiting = case.wait_for_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert_eq!(waiting["message"], "Addon instance is not yet installed.");
    let addon = case.read().await;
    assert_eq!(addon["status"]["phase"], "Pending");
    assert_eq!(condition(&addon, "Installed"), Value::Null);

    case.send_heartbeat(1, Some(("Installed", "False", "Blocked"))).await;
    wait_for_reconcile(cluster).await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "False");
    case.send_heartbeat(2, Some(("Installed", "True", "SetupComplete"))).await;
    assert_eq!(case.wait_until_ready().await["status"]["phase"], "Ready");
    assert_eq!(condition(&case.read().await, "Installed")["status"], "True");

    case.send_heartbeat(3, Some(("Installed", "False", "TeardownComplete"))).await;
    case.wait_for_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert_eq!(condition(&case.read().await, "Installed")["status"], "True", "Installed stays True");
}

pub(crate) async fn addon_without_required_acknowledgement_is_installed_at_once(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({"installAckRequired": false})).await;
    case.wait_until_ready().await;
    case.wait_for_condition("Installed", "True", "AddonInstalled").await;
}
