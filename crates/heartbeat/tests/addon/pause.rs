//! Pausing one Addon, and pausing all Addons with the AddonOperator.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fixture::{Case, GROUP, condition, start_checker, start_controller, wait_for_reconcile};

pub(crate) async fn paused_addon_is_not_reconciled_until_resumed(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.wait_for_condition("Paused", "True", "AddonPaused").await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "True", "Available is not changed");
    cluster.delete(case.instance_path()).await.expect(200);
    case.annotate(crate::fixture::DELETE, Some("")).await;
    wait_for_reconcile(cluster).await;
    assert_eq!(cluster.get(case.instance_path()).await.status, 404);
    assert_eq!(condition(&case.read().await, "ReadyToBeDeleted"), Value::Null);

    case.merge(json!({"spec": {"pause": false}})).await;
    case.wait_until_absent("Paused").await;
    case.instance().await;
    case.wait_for_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
}

pub(crate) async fn heartbeats_of_a_paused_addon_are_still_checked(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let _checker = start_checker(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.wait_for_condition("Paused", "True", "AddonPaused").await;
    cluster.merge(case.instance_path(), &json!({"spec": {"heartbeatUpdatePeriod": "1s"}})).await.expect(200);
    let heartbeat = json!({"status": {"lastHeartbeatTime": jiff::Timestamp::now()}});
    cluster.merge(format!("{}/status", case.instance_path()), &heartbeat).await.expect(200);
    case.wait_for_instance("is silent", |instance| {
        condition(instance, "addons.managed.openshift.io/Healthy")["reason"] == "HeartbeatTimeout"
    })
    .await;
    case.wait_for_condition("Paused", "True", "AddonPaused").await;
}

pub(crate) async fn paused_addon_can_be_deleted(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.wait_for_condition("Paused", "True", "AddonPaused").await;
    case.delete().await;
    case.wait_until_deleted(&case.namespace_path()).await;
}

pub(crate) async fn addon_operator_pauses_all_addons_across_restarts(cluster: &Cluster) {
    let operators = format!("{GROUP}/addonoperators");
    let controller = start_controller(cluster);
    let (first, second) = (Case::create(cluster, json!({})).await, Case::create(cluster, json!({})).await);
    first.wait_until_ready().await;
    second.wait_until_ready().await;
    let operator = json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonOperator",
        "metadata": {"name": "addon-operator"}, "spec": {"pause": true},
    });
    let created = cluster.post(&operators, &operator).await.expect(201);
    assert_eq!(created["status"]["phase"], "Pending");
    for case in [&first, &second] {
        case.wait_for_condition("Paused", "True", "AddonOperatorPaused").await;
    }
    let path = format!("{operators}/addon-operator");
    eventually("the AddonOperator reports the pause", || async {
        let operator = cluster.get(&path).await.expect(200);
        let paused = condition(&operator, "Paused")["reason"] == "AddonOperatorPaused";
        (paused && operator["status"]["phase"] == "Ready").then_some(())
    })
    .await;
    drop(controller);

    let controller = start_controller(cluster);
    cluster.delete(first.instance_path()).await.expect(200);
    let third = Case::create(cluster, json!({})).await;
    third.wait_for_condition("Paused", "True", "AddonOperatorPaused").await;
    wait_for_reconcile(cluster).await;
    assert_eq!(
        cluster.get(first.instance_path()).await.status,
        404,
        "the controller stays paused after a restart"
    );
    drop(controller);

    let _controller = start_controller(cluster);
    cluster
        .merge(format!("{operators}/addon-operator"), &json!({"spec": {"pause": false}}))
        .await
        .expect(200);
    for case in [&first, &second, &third] {
        case.wait_until_absent("Paused").await;
        case.instance().await;
    }
    cluster.delete(format!("{operators}/addon-operator")).await.expect(200);
}
