//! How add-ons and clusters go, and what is said while they cannot.

use bellwether_testkit::eventually;
use serde_json::json;

use crate::fleet::{Fleet, Theatre, brief, condition};

pub(crate) async fn addon_deletion_waits_for_objects_and_absent_agent(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in [1, 2] {
        addon.until_done(number, "v1", "").await;
    }
    addon.strategy(json!({"type": "Manual", "placements": null})).await;
    fleet.dismiss(1);
    for number in [1, 2] {
        fleet.hub.delete(addon.path(number)).await.expect(200);
    }
    let words = format!(
        "True/WaitingForAgent: The agent of {} has to delete addon-{}-deploy-0.",
        fleet.cluster(1),
        addon.name
    );
    addon.until_condition(1, "Deleting", &words).await;
    addon.until_gone(&addon.path(2)).await;
    assert_eq!(addon.runs(2).await, None);
    assert_eq!(addon.runs(1).await.as_deref(), Some("v1"));
    assert!(addon.read(1).await["metadata"]["deletionTimestamp"].is_string());
    fleet.employ(1);
    addon.until_gone(&addon.path(1)).await;
    assert_eq!(fleet.hub.get(addon.work_path(1)).await.status, 404);
    assert_eq!(addon.runs(1).await, None);
}

pub(crate) async fn deleting_cluster_management_addon_deletes_everything(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 3).await;
    let (addon, other) = (fleet.addon(), fleet.addon());
    fleet.placement("all", json!({})).await;
    for addon in [&addon, &other] {
        addon.publish(&["v1"]).await;
        addon.place(json!([addon.placed("all", "v1")])).await;
    }
    for addon in [&addon, &other] {
        for number in 1..=3 {
            addon.until_done(number, "v1", "").await;
        }
    }
    fleet.hub.delete(addon.management_path()).await.expect(200);
    for number in 1..=3 {
        addon.until_gone(&addon.path(number)).await;
        assert_eq!(fleet.hub.get(addon.work_path(number)).await.status, 404);
        assert_eq!(addon.runs(number).await, None);
        assert_eq!(other.runs(number).await.as_deref(), Some("v1"));
    }
}

pub(crate) async fn deleted_cluster_is_cleared_and_not_reinstalled(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let (addon, by_hand) = (fleet.addon(), fleet.addon());
    addon.publish(&["v1"]).await;
    by_hand.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    by_hand.strategy(json!({"type": "Manual"})).await;
    let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": by_hand.name}, "spec": {"installVersion": "v1"}});
    fleet.hub.post(by_hand.path(1).rsplit_once('/').unwrap().0, &object).await.expect(201);
    for addon in [&addon, &by_hand] {
        addon.until_done(1, "v1", "").await;
    }
    addon.until_done(2, "v1", "").await;
    fleet.dismiss(1);
    fleet.hub.delete(fleet.cluster_path(1)).await.expect(200);
    eventually("it says what is left", async || {
        let said = brief(&condition(&fleet.hub.get(fleet.cluster_path(1)).await.expect(200), "Deleting"));
        said.starts_with("False/ResourceRemaining: Still to be deleted: 2 add-ons and 2 ManifestWorks.")
            .then_some(())
    })
    .await;
    fleet.employ(1);
    addon.until_gone(&fleet.cluster_path(1)).await;
    for addon in [&addon, &by_hand] {
        assert_eq!(fleet.hub.get(addon.path(1)).await.status, 404);
        assert_eq!(addon.runs(1).await, None);
    }
    fleet.pass(30).await;
    assert_eq!(fleet.hub.get(addon.path(1)).await.status, 404, "nothing comes back");
    assert_eq!(addon.runs(2).await.as_deref(), Some("v1"));
}
