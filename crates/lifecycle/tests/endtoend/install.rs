//! Which clusters get an add-on and in which version, checked down to the objects on the clusters.

use bellwether_testkit::eventually;
use serde_json::json;

use crate::fleet::{Environment, Fleet, find_condition};

pub(crate) async fn addon_is_installed_on_selected_clusters(environment: &Environment) {
    let fleet = Fleet::new(environment, 3).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.label_cluster(1, json!({"site": "north"})).await;
    fleet.label_cluster(2, json!({"site": "north"})).await;
    fleet.create_placement_by_label("north", json!({"site": "north"})).await;
    addon.set_placements(json!([addon.placement_strategy("north", "")])).await;
    for number in [1, 2] {
        addon.wait_for_running_version(number, Some("v1")).await;
        addon.wait_for_success(number, "v1", "").await;
    }
    assert_eq!(fleet.hub.get(addon.addon_path(3)).await.status, 404);
    let work = addon.get_work(1).await;
    let labels = &work["metadata"]["labels"];
    assert_eq!(labels["open-cluster-management.io/addon-name"], addon.name.as_str());
    assert_eq!(labels["open-cluster-management.io/addon-version"], "v1");
    assert_eq!(
        addon.condition(1, "ManifestApplied").await,
        "True/AddonManifestApplied: manifests of addon are applied successfully"
    );
    // Cluster 1 is no longer selected, cluster 3 is now selected, and a user deletes the add-on of cluster 2.
    fleet.label_cluster(1, json!({"site": null})).await;
    fleet.label_cluster(3, json!({"site": "north"})).await;
    addon.wait_for_running_version(3, Some("v1")).await;
    let before = addon.get_addon(2).await["metadata"]["uid"].clone();
    fleet.hub.delete(addon.addon_path(2)).await.expect(200);
    eventually("the deleted add-on of cluster 2 is recreated", async || {
        let found = addon.get_addon(2).await["metadata"]["uid"].clone();
        (found.is_string() && found != before).then_some(())
    })
    .await;
    addon.wait_for_success(2, "v1", "").await;
    addon.wait_for_running_version(2, Some("v1")).await;
    addon.wait_for_deletion(&addon.addon_path(1)).await;
    assert_eq!(addon.running_version(1).await, None, "the objects are deleted before the add-on");
}

pub(crate) async fn manual_strategy_installs_and_deletes_nothing(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.label_cluster(1, json!({"site": "north"})).await;
    fleet.create_placement_by_label("north", json!({"site": "north"})).await;
    addon.set_placements(json!([addon.placement_strategy("north", "v1")])).await;
    addon.wait_for_success(1, "v1", "").await;
    addon.set_install_strategy(json!({"type": "Manual", "placements": null})).await;
    fleet.label_cluster(1, json!({"site": null})).await;
    fleet.label_cluster(2, json!({"site": "north"})).await;
    // Longer than the absence period after which add-ons of deselected clusters are deleted.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(addon.running_version(1).await.as_deref(), Some("v1"));
    assert_eq!(fleet.hub.get(addon.addon_path(2)).await.status, 404);
}

pub(crate) async fn foreign_works_are_ignored(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let (addon, other) = (fleet.new_addon(), fleet.new_addon());
    // ManifestWorks that can never be applied, with the label of the add-on: one next to the add-on's own,
    // and one on a cluster that does not have the add-on.
    let broken = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "broken", "namespace": "there-is-no-such-namespace"}});
    for number in [1, 2] {
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": format!("theirs-{number}"), "labels": {
                "open-cluster-management.io/addon-name": addon.name, "open-cluster-management.io/addon-version": "v1"}},
            "spec": {"workload": {"manifests": [broken]}}});
        fleet.hub.post(addon.works_path(number), &work).await.expect(201);
    }
    fleet.label_cluster(1, json!({"site": "north"})).await;
    fleet.create_placement_by_label("north", json!({"site": "north"})).await;
    for addon in [&addon, &other] {
        addon.create_versions(&["v1"]).await;
        addon.set_placements(json!([addon.placement_strategy("north", "v1")])).await;
    }
    for addon in [&addon, &other] {
        addon.wait_for_success(1, "v1", "").await;
        assert_eq!(addon.condition(1, "Available").await, "True/WorkApplied: All objects are available.");
    }
    let foreign_work = format!("{}/theirs-1", addon.works_path(1));
    eventually("the foreign ManifestWork could not be applied", async || {
        let found = fleet.hub.get(&foreign_work).await.expect(200);
        (find_condition(&found, "Applied")["status"] == "False").then_some(())
    })
    .await;
    addon.wait_for_success(1, "v1", "").await;
}

pub(crate) async fn overridden_version_is_kept_and_excluded_from_rollout(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1", "v2", "v3"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in [1, 2] {
        addon.wait_for_success(number, "v1", "").await;
    }
    fleet.hub.merge(addon.addon_path(1), &json!({"spec": {"installVersion": "v3"}})).await.expect(200);
    addon.wait_for_success(1, "v3", "v1").await;
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    addon.wait_for_success(2, "v2", "v1").await;
    let expected = "False/Completed: 1 of 1 clusters have it, 1 have a version that a user has set.";
    addon.wait_for_progression("all", expected).await;
    assert_eq!(addon.running_version(1).await.as_deref(), Some("v3"));
    assert_eq!(addon.get_addon(1).await["spec"]["installVersion"], "v3");
}

pub(crate) async fn later_placement_is_assigned_and_both_complete(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1", "v2"]).await;
    fleet.label_cluster(1, json!({"canary": "true"})).await;
    fleet.create_placement("all", json!({})).await;
    fleet.create_placement_by_label("canary", json!({"canary": "true"})).await;
    addon
        .set_placements(json!([
            addon.placement_strategy("all", "v1"),
            addon.placement_strategy("canary", "v2")
        ]))
        .await;
    addon.wait_for_success(1, "v2", "").await;
    addon.wait_for_success(2, "v1", "").await;
    for placement in ["all", "canary"] {
        let expected = "False/Completed: 1 of 1 clusters have it.";
        addon.wait_for_progression(placement, expected).await;
    }
    let before = addon.get_work(2).await;
    // A cluster that is no longer a canary is assigned to the placement `all` again.
    fleet.label_cluster(1, json!({"canary": null})).await;
    addon.wait_for_success(1, "v1", "v2").await;
    addon.wait_for_running_version(1, Some("v1")).await;
    addon.wait_for_progression("all", "False/Completed: 2 of 2 clusters have it.").await;
    assert_eq!(addon.get_work(2).await, before, "cluster 2 does not change");
}

pub(crate) async fn new_default_reaches_following_clusters_and_is_counted(environment: &Environment) {
    let fleet = Fleet::new(environment, 4).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "")])).await;
    addon.wait_for_progression("all", "False/Completed: 4 of 4 clusters have it.").await;
    addon.create_versions(&["v2"]).await;
    for number in 1..=4 {
        addon.wait_for_success(number, "v2", "v1").await;
        assert_eq!(addon.running_version(number).await.as_deref(), Some("v2"));
    }
    eventually("all clusters are counted as succeeded with v2", async || {
        let one = addon.wait_for_progression("all", "False/Completed: 4 of 4 clusters have it.").await;
        (one["version"] == "v2" && one["counts"]["succeeded"] == 4).then_some(())
    })
    .await;
}

pub(crate) async fn version_without_objects_succeeds_at_once(environment: &Environment) {
    let fleet = Fleet::new(environment, 1).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": format!("{}-v2", addon.name)},
        "spec": {"addonName": addon.name, "version": "v2", "agentSpec": {"workload": {"manifests": []}}}});
    fleet.hub.post(format!("{}/addontemplates", crate::fleet::ADDONS), &template).await.expect(201);
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    addon.wait_for_success(1, "v2", "").await;
    assert_eq!(fleet.hub.get(addon.work_path(1)).await.status, 404);
    assert_eq!(
        addon.condition(1, "ManifestApplied").await,
        "True/AddonManifestApplied: no manifest need to apply"
    );
    // A change to a version without objects deletes the objects of the previous version.
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    addon.wait_for_success(1, "v1", "v2").await;
    addon.wait_for_running_version(1, Some("v1")).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    addon.wait_for_success(1, "v2", "v1").await;
    assert_eq!(addon.running_version(1).await, None);
}
