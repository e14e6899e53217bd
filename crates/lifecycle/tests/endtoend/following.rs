//! Which clusters have an add-on and in which version, down to the objects there.

use bellwether_testkit::eventually;
use serde_json::json;

use crate::fleet::{Fleet, Theatre, condition};

pub(crate) async fn addon_is_installed_on_selected_clusters(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 3).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.label(1, json!({"site": "north"})).await;
    fleet.label(2, json!({"site": "north"})).await;
    fleet.labelled_placement("north", json!({"site": "north"})).await;
    addon.place(json!([addon.placed("north", "")])).await;
    for number in [1, 2] {
        addon.until_runs(number, Some("v1")).await;
        addon.until_done(number, "v1", "").await;
    }
    assert_eq!(fleet.hub.get(addon.path(3)).await.status, 404);
    let work = addon.work(1).await;
    let labels = &work["metadata"]["labels"];
    assert_eq!(labels["open-cluster-management.io/addon-name"], addon.name.as_str());
    assert_eq!(labels["open-cluster-management.io/addon-version"], "v1");
    assert_eq!(
        addon.condition(1, "ManifestApplied").await,
        "True/AddonManifestApplied: manifests of addon are applied successfully"
    );
    // One goes, another comes, and what somebody takes away is brought again.
    fleet.label(1, json!({"site": null})).await;
    fleet.label(3, json!({"site": "north"})).await;
    addon.until_runs(3, Some("v1")).await;
    let before = addon.read(2).await["metadata"]["uid"].clone();
    fleet.hub.delete(addon.path(2)).await.expect(200);
    eventually("it is made again", async || {
        let found = addon.read(2).await["metadata"]["uid"].clone();
        (found.is_string() && found != before).then_some(())
    })
    .await;
    addon.until_done(2, "v1", "").await;
    addon.until_runs(2, Some("v1")).await;
    addon.until_gone(&addon.path(1)).await;
    assert_eq!(addon.runs(1).await, None, "its objects went before it");
}

pub(crate) async fn manual_strategy_installs_and_deletes_nothing(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.label(1, json!({"site": "north"})).await;
    fleet.labelled_placement("north", json!({"site": "north"})).await;
    addon.place(json!([addon.placed("north", "v1")])).await;
    addon.until_done(1, "v1", "").await;
    addon.strategy(json!({"type": "Manual", "placements": null})).await;
    fleet.label(1, json!({"site": null})).await;
    fleet.label(2, json!({"site": "north"})).await;
    // Longer than a cluster has to be absent before its add-on goes.
    tokio::time::sleep(std::time::Duration::from_secs(12)).await;
    assert_eq!(addon.runs(1).await.as_deref(), Some("v1"));
    assert_eq!(fleet.hub.get(addon.path(2)).await.status, 404);
}

pub(crate) async fn foreign_works_are_ignored(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let (addon, other) = (fleet.addon(), fleet.addon());
    // One that can never be applied, by the label of the add-on, beside its own and on another cluster.
    let broken = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "broken", "namespace": "there-is-no-such-namespace"}});
    for number in [1, 2] {
        let work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": format!("theirs-{number}"), "labels": {
                "open-cluster-management.io/addon-name": addon.name, "open-cluster-management.io/addon-version": "v1"}},
            "spec": {"workload": {"manifests": [broken]}}});
        fleet.hub.post(addon.works_path(number), &work).await.expect(201);
    }
    fleet.label(1, json!({"site": "north"})).await;
    fleet.labelled_placement("north", json!({"site": "north"})).await;
    for addon in [&addon, &other] {
        addon.publish(&["v1"]).await;
        addon.place(json!([addon.placed("north", "v1")])).await;
    }
    for addon in [&addon, &other] {
        addon.until_done(1, "v1", "").await;
        assert_eq!(addon.condition(1, "Available").await, "True/WorkApplied: All objects are available.");
    }
    let theirs = format!("{}/theirs-1", addon.works_path(1));
    eventually("theirs has failed", async || {
        let found = fleet.hub.get(&theirs).await.expect(200);
        (condition(&found, "Applied")["status"] == "False").then_some(())
    })
    .await;
    addon.until_done(1, "v1", "").await;
}

pub(crate) async fn overridden_version_is_kept_and_excluded_from_rollout(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish(&["v1", "v2", "v3"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in [1, 2] {
        addon.until_done(number, "v1", "").await;
    }
    fleet.hub.merge(addon.path(1), &json!({"spec": {"installVersion": "v3"}})).await.expect(200);
    addon.until_done(1, "v3", "v1").await;
    addon.place(json!([addon.placed("all", "v2")])).await;
    addon.until_done(2, "v2", "v1").await;
    let words = "False/Completed: 1 of 1 clusters have it, 1 have a version that a user has set.";
    addon.until_progression("all", words).await;
    assert_eq!(addon.runs(1).await.as_deref(), Some("v3"));
    assert_eq!(addon.read(1).await["spec"]["installVersion"], "v3");
}

pub(crate) async fn later_placement_is_assigned_and_both_complete(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = fleet.addon();
    addon.publish(&["v1", "v2"]).await;
    fleet.label(1, json!({"canary": "true"})).await;
    fleet.placement("all", json!({})).await;
    fleet.labelled_placement("canary", json!({"canary": "true"})).await;
    addon.place(json!([addon.placed("all", "v1"), addon.placed("canary", "v2")])).await;
    addon.until_done(1, "v2", "").await;
    addon.until_done(2, "v1", "").await;
    for placement in ["all", "canary"] {
        let words = "False/Completed: 1 of 1 clusters have it.";
        addon.until_progression(placement, words).await;
    }
    let other = addon.work(2).await;
    // The canary goes back when it is no longer one.
    fleet.label(1, json!({"canary": null})).await;
    addon.until_done(1, "v1", "v2").await;
    addon.until_runs(1, Some("v1")).await;
    addon.until_progression("all", "False/Completed: 2 of 2 clusters have it.").await;
    assert_eq!(addon.work(2).await, other, "nobody else is touched");
}

pub(crate) async fn new_default_reaches_following_clusters_and_is_counted(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 4).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "")])).await;
    addon.until_progression("all", "False/Completed: 4 of 4 clusters have it.").await;
    addon.publish(&["v2"]).await;
    for number in 1..=4 {
        addon.until_done(number, "v2", "v1").await;
        assert_eq!(addon.runs(number).await.as_deref(), Some("v2"));
    }
    eventually("all are counted", async || {
        let one = addon.until_progression("all", "False/Completed: 4 of 4 clusters have it.").await;
        (one["version"] == "v2" && one["counts"]["succeeded"] == 4).then_some(())
    })
    .await;
}

pub(crate) async fn version_without_objects_succeeds_at_once(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 1).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": format!("{}-v2", addon.name)},
        "spec": {"addonName": addon.name, "version": "v2", "agentSpec": {"workload": {"manifests": []}}}});
    fleet.hub.post(format!("{}/addontemplates", crate::fleet::ADDONS), &template).await.expect(201);
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v2")])).await;
    addon.until_done(1, "v2", "").await;
    assert_eq!(fleet.hub.get(addon.work_path(1)).await.status, 404);
    assert_eq!(
        addon.condition(1, "ManifestApplied").await,
        "True/AddonManifestApplied: no manifest need to apply"
    );
    // And what there was goes when such a version comes.
    addon.place(json!([addon.placed("all", "v1")])).await;
    addon.until_done(1, "v1", "v2").await;
    addon.until_runs(1, Some("v1")).await;
    addon.place(json!([addon.placed("all", "v2")])).await;
    addon.until_done(1, "v2", "v1").await;
    assert_eq!(addon.runs(1).await, None);
}
