//! The acknowledgement of a deletion, and the deletion of an Addon.

use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::fixture::{
    Case, DELETE, DELETE_TIMEOUT, condition, is_marked_for_deletion, start_controller, unique_name,
    wait_for_reconcile,
};

async fn create(cluster: &Cluster) -> Case<'_> {
    let case = Case::create(cluster, json!({"deleteAckRequired": true})).await;
    case.wait_until_ready().await;
    case
}

pub(crate) async fn addon_is_ready_to_be_deleted_after_acknowledgement(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = create(cluster).await;
    assert!(!is_marked_for_deletion(&case.instance().await));
    case.annotate(DELETE, Some("")).await;
    let waiting = case.wait_for_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    assert_eq!(waiting["message"], "Addon is not yet ready to be deleted.");
    case.wait_for_instance("is marked for deletion", is_marked_for_deletion).await;

    for (second, status) in [(1, "Unknown"), (2, "False")] {
        case.send_heartbeat(second, Some(("ReadyToBeDeleted", status, "AddonNotReadyToBeDeleted"))).await;
        wait_for_reconcile(cluster).await;
        assert_eq!(condition(&case.read().await, "ReadyToBeDeleted")["status"], "False", "{status}");
    }
    case.send_heartbeat(3, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    let ready = case.wait_for_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert_eq!(ready["message"], "Addon is ready to be deleted.");

    case.send_heartbeat(4, Some(("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted"))).await;
    wait_for_reconcile(cluster).await;
    let addon = case.read().await;
    assert_eq!(condition(&addon, "ReadyToBeDeleted")["status"], "True", "ReadyToBeDeleted stays True");
    assert_eq!(condition(&addon, "Available")["status"], "True", "Available is not affected");
}

pub(crate) async fn addon_without_required_acknowledgement_is_ready_to_be_deleted_at_once(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = Case::create(cluster, json!({})).await;
    case.wait_until_ready().await;
    case.annotate(DELETE, Some("whatever")).await;
    case.wait_for_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert!(!is_marked_for_deletion(&case.instance().await));
}

pub(crate) async fn delete_timeout_is_reported_until_cleanup_is_acknowledged(cluster: &Cluster) {
    let controller = start_controller(cluster);
    let (text, timeout) = if cluster.is_kubernetes() { ("2s", 2) } else { ("20s", 20) };
    let case = create(cluster).await;
    case.merge(json!({"metadata": {"annotations": {DELETE: "", DELETE_TIMEOUT: text}}})).await;
    let announced = Instant::now();
    case.wait_for_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    assert_eq!(condition(&case.read().await, "DeleteTimeout"), Value::Null);
    drop(controller);

    let _controller = start_controller(cluster);
    let timed_out = case.wait_for_condition("DeleteTimeout", "True", "AddonReasonDeletionTimedOut").await;
    assert_eq!(timed_out["message"], "Addon deletion has timed out.");
    // The timeout counts from lastTransitionTime, which has whole seconds.
    let (took, timeout) = (announced.elapsed(), Duration::from_secs(timeout));
    assert!(took + Duration::from_secs(1) >= timeout, "it took {took:?}");
    assert!(cluster.is_kubernetes() || took < timeout + Duration::from_secs(1), "it took {took:?}");

    case.send_heartbeat(1, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    case.wait_for_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    assert_eq!(condition(&case.read().await, "DeleteTimeout"), Value::Null);
}

pub(crate) async fn instance_deleted_after_the_announcement_is_created_again_and_marked(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = create(cluster).await;
    case.annotate(DELETE, Some("")).await;
    let before =
        case.wait_for_instance("is marked for deletion", is_marked_for_deletion).await["metadata"]["uid"]
            .clone();
    cluster.delete(case.instance_path()).await.expect(200);
    case.wait_for_instance("is a new object, and marked for deletion", |instance| {
        instance["metadata"]["uid"] != before && is_marked_for_deletion(instance)
    })
    .await;
}

pub(crate) async fn revoked_deletion_clears_the_mark_unless_cleanup_is_acknowledged(cluster: &Cluster) {
    let _controller = start_controller(cluster);
    let case = create(cluster).await;
    case.annotate(DELETE, Some("")).await;
    case.wait_for_instance("is marked for deletion", is_marked_for_deletion).await;
    case.wait_for_condition("ReadyToBeDeleted", "False", "AddonNotReadyToBeDeleted").await;
    case.annotate(DELETE, None).await;
    case.wait_for_instance("is not marked for deletion", |instance| !is_marked_for_deletion(instance)).await;
    case.wait_until_absent("ReadyToBeDeleted").await;

    case.annotate(DELETE, Some("")).await;
    case.wait_for_instance("is marked for deletion", is_marked_for_deletion).await;
    case.send_heartbeat(1, Some(("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted"))).await;
    case.wait_for_condition("ReadyToBeDeleted", "True", "AddonReadyToBeDeleted").await;
    case.annotate(DELETE, None).await;
    wait_for_reconcile(cluster).await;
    assert!(
        is_marked_for_deletion(&case.instance().await),
        "the mark stays, because the add-on has cleaned up"
    );
    assert_eq!(condition(&case.read().await, "ReadyToBeDeleted")["status"], "True");
}

pub(crate) async fn deleted_addon_reports_terminating_and_its_objects_are_deleted(cluster: &Cluster) {
    const HOLD: &str = "example.com/hold";
    let _controller = start_controller(cluster);
    let namespace = unique_name("ns");
    let case = Case { cluster, name: unique_name("addon"), namespace: namespace.clone() };
    let install = json!({"type": "External", "external": {"namespace": namespace}});
    let spec = json!({"displayName": "X", "install": install, "namespaces": [{"name": namespace}]});
    case.post(json!({"name": case.name, "finalizers": [HOLD]}), spec).await;
    case.wait_until_ready().await;

    cluster.delete(case.path()).await.expect(200);
    let addon = case
        .wait_until("has only the finalizer of the test", |addon| {
            addon["metadata"]["finalizers"] == json!([HOLD])
        })
        .await;
    assert_eq!(addon["status"]["phase"], "Terminating");
    assert_eq!(condition(&addon, "Available")["status"], "False");
    assert_eq!(condition(&addon, "Available")["reason"], "Terminating");
    case.merge(json!({"metadata": {"finalizers": null}})).await;
    case.wait_until_deleted(&case.path()).await;
    eventually("the instance is deleted", || async {
        (cluster.get(case.instance_path()).await.status == 404).then_some(())
    })
    .await;
    case.wait_until_deleted(&case.namespace_path()).await;
}
