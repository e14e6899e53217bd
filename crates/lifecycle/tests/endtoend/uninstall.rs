//! Deletion of add-ons and clusters, and what is reported while it is blocked.

use bellwether_testkit::eventually;
use serde_json::json;

use crate::fleet::{Environment, Fleet, find_condition, format_condition};

pub(crate) async fn addon_deletion_waits_for_objects_and_absent_agent(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in [1, 2] {
        addon.wait_for_success(number, "v1", "").await;
    }
    addon.set_install_strategy(json!({"type": "Manual", "placements": null})).await;
    fleet.stop_agent(1);
    for number in [1, 2] {
        fleet.hub.delete(addon.addon_path(number)).await.expect(200);
    }
    let expected = format!(
        "True/WaitingForAgent: The agent of {} has to delete addon-{}-deploy-0.",
        fleet.cluster_name(1),
        addon.name
    );
    addon.wait_for_condition(1, "Deleting", &expected).await;
    addon.wait_for_deletion(&addon.addon_path(2)).await;
    assert_eq!(addon.running_version(2).await, None);
    assert_eq!(addon.running_version(1).await.as_deref(), Some("v1"));
    assert!(addon.get_addon(1).await["metadata"]["deletionTimestamp"].is_string());
    fleet.start_agent(1);
    addon.wait_for_deletion(&addon.addon_path(1)).await;
    assert_eq!(fleet.hub.get(addon.work_path(1)).await.status, 404);
    assert_eq!(addon.running_version(1).await, None);
}

pub(crate) async fn deleting_cluster_management_addon_deletes_everything(environment: &Environment) {
    let fleet = Fleet::new(environment, 3).await;
    let (addon, other) = (fleet.new_addon(), fleet.new_addon());
    fleet.create_placement("all", json!({})).await;
    for addon in [&addon, &other] {
        addon.create_versions(&["v1"]).await;
        addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    }
    for addon in [&addon, &other] {
        for number in 1..=3 {
            addon.wait_for_success(number, "v1", "").await;
        }
    }
    fleet.hub.delete(addon.management_addon_path()).await.expect(200);
    for number in 1..=3 {
        addon.wait_for_deletion(&addon.addon_path(number)).await;
        assert_eq!(fleet.hub.get(addon.work_path(number)).await.status, 404);
        assert_eq!(addon.running_version(number).await, None);
        assert_eq!(other.running_version(number).await.as_deref(), Some("v1"));
    }
}

pub(crate) async fn deleted_cluster_is_cleared_and_not_reinstalled(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let (addon, manual) = (fleet.new_addon(), fleet.new_addon());
    addon.create_versions(&["v1"]).await;
    manual.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    manual.set_install_strategy(json!({"type": "Manual"})).await;
    let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": manual.name}, "spec": {"installVersion": "v1"}});
    fleet.hub.post(manual.addon_path(1).rsplit_once('/').unwrap().0, &object).await.expect(201);
    for addon in [&addon, &manual] {
        addon.wait_for_success(1, "v1", "").await;
    }
    addon.wait_for_success(2, "v1", "").await;
    fleet.stop_agent(1);
    fleet.hub.delete(fleet.cluster_path(1)).await.expect(200);
    eventually("the ManagedCluster reports the remaining objects", async || {
        let cluster = fleet.hub.get(fleet.cluster_path(1)).await.expect(200);
        format_condition(&find_condition(&cluster, "Deleting"))
            .starts_with("False/ResourceRemaining: Still to be deleted: 2 add-ons and 2 ManifestWorks.")
            .then_some(())
    })
    .await;
    fleet.start_agent(1);
    addon.wait_for_deletion(&fleet.cluster_path(1)).await;
    for addon in [&addon, &manual] {
        assert_eq!(fleet.hub.get(addon.addon_path(1)).await.status, 404);
        assert_eq!(addon.running_version(1).await, None);
    }
    fleet.sleep(30).await;
    assert_eq!(fleet.hub.get(addon.addon_path(1)).await.status, 404, "the add-on is not recreated");
    assert_eq!(addon.running_version(2).await.as_deref(), Some("v1"));
}
