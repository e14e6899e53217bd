//! How an add-on is asked to clean up before it is deleted, and how it goes.

use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::{Case, DELETE, DELETE_TIMEOUT, condition, control, is_marked, pass, unique};

async fn create(cluster: &Cluster) -> Case<'_> {
    let case = Case::create(cluster, json!({"deleteAckRequired": true})).await;
    case.until_ready().await;
    case
}

pub(crate) async fn an_addon_is_ready_to_be_deleted_when_the_add_on_says_so(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = create(cluster).await;
    assert!(!is_marked(&case.instance().await));
    case.annotate(DELETE, Some("")).await;
    let waiting = case.until_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    assert_eq!(waiting["message"], "Addon is not yet ready to be deleted.");
    case.instance_until("is marked", is_marked).await;

    for (second, holds) in [(1, "Unknown"), (2, "False")] {
        case.pulse(second, Some(("ReadyToBeDeleted", holds, "AddonNotReadyToBeDeleted"))).await;
        pass(cluster).await;
        assert_eq!(condition(&case.read().await, "ReadyToBeDeleted")["status"], "False", "{holds}");
    }
    case.pulse(3, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    let ready = case.until_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert_eq!(ready["message"], "Addon is ready to be deleted.");

    case.pulse(4, Some(("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted"))).await;
    pass(cluster).await;
    let addon = case.read().await;
    assert_eq!(condition(&addon, "ReadyToBeDeleted")["status"], "True", "what was said holds");
    assert_eq!(condition(&addon, "Available")["status"], "True", "all the rest goes on");
}

pub(crate) async fn an_addon_without_acknowledgement_is_ready_to_be_deleted_at_once(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.until_ready().await;
    case.annotate(DELETE, Some("whatever")).await;
    case.until_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert!(!is_marked(&case.instance().await));
}

pub(crate) async fn an_add_on_that_does_not_clean_up_in_time_is_told_of_until_it_does(cluster: &Cluster) {
    let controller = control(cluster);
    let (text, timeout) = if cluster.is_kubernetes() { ("2s", 2) } else { ("20s", 20) };
    let case = create(cluster).await;
    case.merge(json!({"metadata": {"annotations": {DELETE: "", DELETE_TIMEOUT: text}}})).await;
    let asked = Instant::now();
    case.until_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    assert_eq!(condition(&case.read().await, "DeleteTimeout"), Value::Null);
    drop(controller);

    let _controller = control(cluster);
    let late = case.until_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut").await;
    assert_eq!(late["message"], "Addon deletion has timed out.");
    // The stamp that the wait is counted from has no fractions of a second.
    let (took, timeout) = (asked.elapsed(), Duration::from_secs(timeout));
    assert!(took + Duration::from_secs(1) >= timeout, "it took {took:?}");
    assert!(cluster.is_kubernetes() || took < timeout + Duration::from_secs(1), "it took {took:?}");

    case.pulse(1, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    case.until_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert_eq!(condition(&case.read().await, "DeleteTimeout"), Value::Null);
}

pub(crate) async fn an_instance_deleted_during_the_wait_is_made_again_and_marked(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = create(cluster).await;
    case.annotate(DELETE, Some("")).await;
    let before = case.instance_until("is marked", is_marked).await["metadata"]["uid"].clone();
    cluster.delete(case.instance_path()).await.expect(200);
    case.instance_until("is another, and marked", |instance| {
        instance["metadata"]["uid"] != before && is_marked(instance)
    })
    .await;
}

pub(crate) async fn an_add_on_need_not_clean_up_when_nobody_asks_any_more(cluster: &Cluster) {
    let _controller = control(cluster);
    let case = create(cluster).await;
    case.annotate(DELETE, Some("")).await;
    case.instance_until("is marked", is_marked).await;
    case.until_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    case.annotate(DELETE, None).await;
    case.instance_until("is not marked", |instance| !is_marked(instance)).await;
    case.until_no("ReadyToBeDeleted").await;

    case.annotate(DELETE, Some("")).await;
    case.instance_until("is marked", is_marked).await;
    case.pulse(1, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    case.until_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    case.annotate(DELETE, None).await;
    pass(cluster).await;
    assert!(is_marked(&case.instance().await), "what was cleaned up is not to be set up again");
    assert_eq!(condition(&case.read().await, "ReadyToBeDeleted")["status"], "True");
}

pub(crate) async fn a_deleted_addon_says_so_and_takes_along_what_is_its_own(cluster: &Cluster) {
    const HOLD: &str = "example.com/hold";
    let _controller = control(cluster);
    let namespace = unique("ns");
    let case = Case { cluster, name: unique("addon"), namespace: namespace.clone() };
    let install = json!({"type": "External", "external": {"namespace": namespace}});
    let spec = json!({"displayName": "X", "install": install, "namespaces": [{"name": namespace}]});
    case.post(json!({"name": case.name, "finalizers": [HOLD]}), spec).await;
    case.until_ready().await;

    cluster.delete(case.path()).await.expect(200);
    let addon = case
        .until("is held by another alone", |addon| addon["metadata"]["finalizers"] == json!([HOLD]))
        .await;
    assert_eq!(addon["status"]["phase"], "Terminating");
    assert_eq!(condition(&addon, "Available")["status"], "False");
    assert_eq!(condition(&addon, "Available")["reason"], "Terminating");
    case.merge(json!({"metadata": {"finalizers": null}})).await;
    case.gone(&case.path()).await;
    eventually("the instance is gone", || async {
        (cluster.get(case.instance_path()).await.status == 404).then_some(())
    })
    .await;
    case.gone(&case.namespace_path()).await;
}
