//! Addons that are left alone for a while, one by one and all together.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fixture::{Case, GROUP, check, condition, control, pass};

pub(crate) async fn a_paused_addon_is_left_alone_until_it_is_resumed(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.until_condition("Paused", "True", "AddonPaused").await;
    assert_eq!(condition(&case.read().await, "Available")["status"], "True", "nothing else is touched");
    cluster.delete(case.instance_path()).await.expect(200);
    case.annotate(crate::fixture::DELETE, Some("")).await;
    pass(cluster).await;
    assert_eq!(cluster.get(case.instance_path()).await.status, 404);
    assert_eq!(condition(&case.read().await, "ReadyToBeDeleted"), Value::Null);

    case.merge(json!({"spec": {"pause": false}})).await;
    case.until_no("Paused").await;
    case.instance().await;
    case.until_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
}

pub(crate) async fn a_paused_addon_is_still_judged_by_its_heartbeats(cluster: &Cluster) {
    let _controller = control(cluster);
    let _checker = check(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.until_condition("Paused", "True", "AddonPaused").await;
    cluster.merge(case.instance_path(), &json!({"spec": {"heartbeatUpdatePeriod": "1s"}})).await.expect(200);
    let beat = json!({"status": {"lastHeartbeatTime": jiff::Timestamp::now()}});
    cluster.merge(format!("{}/status", case.instance_path()), &beat).await.expect(200);
    case.instance_until("is silent", |instance| {
        condition(instance, "addons.managed.openshift.io/Healthy")["reason"] == "HeartbeatTimeout"
    })
    .await;
    case.until_condition("Paused", "True", "AddonPaused").await;
}

pub(crate) async fn a_paused_addon_can_be_deleted(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    case.merge(json!({"spec": {"pause": true}})).await;
    case.until_condition("Paused", "True", "AddonPaused").await;
    case.delete().await;
    case.gone(&case.namespace_path()).await;
}

pub(crate) async fn all_addons_are_paused_together_and_a_restart_changes_nothing(cluster: &Cluster) {
    let operators = format!("{GROUP}/addonoperators");
    let controller = control(cluster);
    let (first, second) = (Case::create(cluster, json!({})).await, Case::create(cluster, json!({})).await);
    first.until_ready().await;
    second.until_ready().await;
    let operator = json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonOperator",
        "metadata": {"name": "addon-operator"}, "spec": {"pause": true},
    });
    let created = cluster.post(&operators, &operator).await.expect(201);
    assert_eq!(created["status"]["phase"], "Pending");
    for case in [&first, &second] {
        case.until_condition("Paused", "True", "AddonOperatorPaused").await;
    }
    let path = format!("{operators}/addon-operator");
    eventually("the AddonOperator says so", || async {
        let operator = cluster.get(&path).await.expect(200);
        let paused = condition(&operator, "Paused")["reason"] == "AddonOperatorPaused";
        (paused && operator["status"]["phase"] == "Ready").then_some(())
    })
    .await;
    drop(controller);

    let controller = control(cluster);
    cluster.delete(first.instance_path()).await.expect(200);
    let third = Case::create(cluster, json!({})).await;
    third.until_condition("Paused", "True", "AddonOperatorPaused").await;
    pass(cluster).await;
    assert_eq!(cluster.get(first.instance_path()).await.status, 404, "it stays paused");
    drop(controller);

    let _controller = control(cluster);
    cluster
        .merge(format!("{operators}/addon-operator"), &json!({"spec": {"pause": false}}))
        .await
        .expect(200);
    for case in [&first, &second, &third] {
        case.until_no("Paused").await;
        case.instance().await;
    }
    cluster.delete(format!("{operators}/addon-operator")).await.expect(200);
}
