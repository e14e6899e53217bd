//! How an Addon comes to its instance, and when it counts as installed.

use bellwether_testkit::Cluster;
use serde_json::{Value, json};

use crate::fixture::{Case, condition, control, pass, unique};

pub(crate) async fn a_new_addon_gets_its_namespace_and_its_instance(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    let addon = case.until_ready().await;
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

pub(crate) async fn every_type_of_installation_says_where_the_instance_belongs(cluster: &Cluster) {
    let _controller = control(cluster);
    for (type_, block) in [("OLMOwnNamespace", "olmOwnNamespace"), ("OLMAllNamespaces", "olmAllNamespaces")] {
        let namespace = unique("ns");
        let olm =
            json!({"namespace": namespace, "catalogSourceImage": "i", "channel": "c", "packageName": "p"});
        let install = json!({"type": type_, "external": null, block: olm});
        let spec = json!({"install": install, "namespaces": [{"name": namespace}]});
        let case = Case::create_in(cluster, &namespace, spec).await;
        case.until_ready().await;
        case.instance().await;
    }
}

pub(crate) async fn an_instance_deleted_by_hand_is_made_again(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    let before = case.instance().await["metadata"]["uid"].clone();
    cluster.delete(case.instance_path()).await.expect(200);
    let deleted = tokio::time::Instant::now();
    case.instance_until("is another", |instance| instance["metadata"]["uid"] != before).await;
    // Where time is real, machines are slow.
    let limit = if cluster.is_kubernetes() { 5 } else { 1 };
    assert!(deleted.elapsed().as_secs() < limit, "it took {:?}", deleted.elapsed());
}

pub(crate) async fn a_period_that_makes_sense_is_kept_and_another_is_not(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    let set = async |period: Value| {
        cluster
            .merge(case.instance_path(), &json!({"spec": {"heartbeatUpdatePeriod": period}}))
            .await
            .expect(200);
    };
    set(json!("1h")).await;
    pass(cluster).await;
    assert_eq!(case.instance().await["spec"]["heartbeatUpdatePeriod"], "1h");
    for senseless in ["0s", "-5s", "banana"] {
        set(json!(senseless)).await;
        case.instance_until("has a period", |found| found["spec"]["heartbeatUpdatePeriod"] == "10s").await;
    }
}

pub(crate) async fn an_instance_without_an_owner_is_taken_over(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    let uid = case.until_ready().await["metadata"]["uid"].clone();
    cluster.merge(case.instance_path(), &json!({"metadata": {"ownerReferences": null}})).await.expect(200);
    case.instance_until("has an owner", |instance| {
        let owner = &instance["metadata"]["ownerReferences"][0];
        owner["uid"] == uid && owner["controller"] == true
    })
    .await;
}

pub(crate) async fn two_addons_do_not_share_an_instance(cluster: &Cluster) {
    let _controller = control(cluster);
    let first = Case::create(cluster, json!({})).await;
    first.until_ready().await;
    let second =
        Case::create_in(cluster, &first.namespace, json!({"namespaces": [{"name": first.namespace}]})).await;
    let refused = second.until_condition("Available", "False", "ConfigurationError").await;
    let words = refused["message"].as_str().unwrap();
    assert!(words.contains(&format!("belongs to Addon {:?}", first.name)), "{words}");
    assert_eq!(second.read().await["status"]["phase"], "Error");
    assert_eq!(condition(&second.read().await, "Installed"), Value::Null);
    first.until_ready().await;

    first.delete().await;
    second.until_ready().await;
    let owner = second.instance().await["metadata"]["ownerReferences"][0].clone();
    assert_eq!(owner["name"], second.name.as_str());
}

pub(crate) async fn an_addon_waits_until_its_instance_says_that_it_is_installed(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({"installAckRequired": true})).await;
    let waiting = case.until_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert_eq!(waiting["message"], "Addon instance is not yet installed.");
    let addon = case.read().await;
    assert_eq!(addon["status"]["phase"], "Pending");
    assert_eq!(condition(&addon, "Installed"), Value::Null);

    case.pulse(1, Some(("Installed", "False", "Blocked"))).await;
    pass(cluster).await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "False");
    case.pulse(2, Some(("Installed", "True", "SetupComplete"))).await;
    assert_eq!(case.until_ready().await["status"]["phase"], "Ready");
    assert_eq!(condition(&case.read().await, "Installed")["status"], "True");

    case.pulse(3, Some(("Installed", "False", "TeardownComplete"))).await;
    case.until_condition("Available", "False", "AddonInstanceNotInstalled").await;
    assert_eq!(condition(&case.read().await, "Installed")["status"], "True", "it was installed once");
}

pub(crate) async fn an_addon_without_acknowledgement_is_installed_at_once(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({"installAckRequired": false})).await;
    case.until_ready().await;
    case.until_condition("Installed", "True", "AddonInstalled").await;
}
