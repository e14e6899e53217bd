//! The install controller creates and deletes ManagedClusterAddOns as placements select clusters.

use std::time::Duration;

use bellwether_lifecycle::install;
use bellwether_testkit::{Call, Cluster, Tap, eventually};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::fleet::Fleet;
use crate::rollouts::progressive_placement;

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn addons_follow_placement_decisions(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1"]).await;
    fleet.select_clusters("global", &["c1", "c2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2"]).await;
    fleet.wait_for_status("c2", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.select_clusters("global", &["c2", "c3"]).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2", "c3"]).await;
    // The add-on of c1 is deleted after the absence period, once its ManifestWork is deleted.
    fleet.wait_for_clusters_with_addon(&["c2", "c3"]).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    let before = fleet.get_addon("c2").await["metadata"]["uid"].clone();
    hub.delete(fleet.addon_path("c2")).await.expect(200);
    eventually("the deleted add-on of c2 is recreated", async || {
        let uid = fleet.get_addon("c2").await["metadata"]["uid"].clone();
        (uid.is_string() && uid != before).then_some(())
    })
    .await;
}

pub(crate) async fn manual_strategy_creates_and_deletes_nothing(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    hub.merge(
        fleet.management_addon_path(),
        &json!({"spec": {"installStrategy": {"type": "Manual", "placements": null}}}),
    )
    .await
    .expect(200);
    fleet.select_clusters("global", &[]).await;
    fleet.create_cluster("c3").await;
    fleet.sleep(Duration::from_secs(15)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
    // The controllers install an add-on that a user has created, and never delete it.
    let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": fleet.addon_name, "namespace": fleet.cluster_name("c3")}, "spec": {"installVersion": "v1"}});
    hub.post(fleet.addon_path("c3").rsplit_once('/').unwrap().0, &object).await.expect(201);
    fleet.wait_for_status("c3", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c3"]).await;
}

pub(crate) async fn version_set_by_user_is_kept(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2", "v3"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    hub.merge(fleet.addon_path("c1"), &json!({"spec": {"installVersion": "v3"}})).await.expect(200);
    fleet.wait_for_status("c1", &format!("C=v3 L=v1 {SUCCEEDED}")).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    assert_eq!(fleet.get_addon("c1").await["spec"]["installVersion"], "v3");
    eventually("the rollout is completed with one overridden version", async || {
        let found = hub.get(fleet.management_addon_path()).await.json();
        let one = &found["status"]["installProgressions"][0];
        (one["conditions"][0]["reason"] == "Completed" && one["counts"]["overridden"] == 1).then_some(())
    })
    .await;
    // After the user removes the version, the version of the placement takes effect.
    hub.merge(fleet.addon_path("c1"), &json!({"spec": {"installVersion": null}})).await.expect(200);
    fleet.wait_for_status("c1", &format!("C=v2 L=v3 {SUCCEEDED}")).await;
}

pub(crate) async fn unknown_decision_deletes_no_addon(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2"]).await;
    // The placement still counts two selected clusters, so the decision is incomplete.
    let slice = format!("{}/placementdecisions/global-decision-1/status", fleet.placement_namespace_path());
    hub.merge(&slice, &json!({"status": {"decisions": []}})).await.expect(200);
    fleet.sleep(Duration::from_secs(15)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
    hub.delete(format!("{}/placements/global", fleet.placement_namespace_path())).await.expect(200);
    fleet.sleep(Duration::from_secs(15)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
}

pub(crate) async fn deleted_placement_keeps_its_clusters_unchanged(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2", "v3"]).await;
    fleet.select_clusters("canary", &["c1"]).await;
    fleet
        .set_placements(json!([
            fleet.placement_strategy("global", "v1"),
            fleet.placement_strategy("canary", "v2")
        ]))
        .await;
    fleet.wait_for_status("c1", &format!("C=v2 L= {SUCCEEDED}")).await;
    fleet.wait_for_status("c2", &format!("C=v1 L= {SUCCEEDED}")).await;
    hub.delete(format!("{}/placements/canary", fleet.placement_namespace_path())).await.expect(200);
    fleet.sleep(Duration::from_secs(12)).await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v2 L= {SUCCEEDED}"));
    // The cluster does not move to the other placement either, also not after a restart, when no cache
    // remembers the last decision of the deleted placement.
    fleet.start_controllers();
    let one_at_a_time = progressive_placement(&fleet, "v3", json!({"maxConcurrency": 1}));
    fleet.set_placements(json!([one_at_a_time, fleet.placement_strategy("canary", "v2")])).await;
    fleet.wait_for_status("c2", &format!("C=v3 L=v1 {SUCCEEDED}")).await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v2 L= {SUCCEEDED}"));
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
}

pub(crate) async fn absence_period_restarts_after_return(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2"]).await;
    fleet.select_clusters("global", &["c2"]).await;
    fleet.sleep(Duration::from_secs(3)).await;
    fleet.select_clusters("global", &["c1", "c2"]).await;
    fleet.sleep(Duration::from_secs(3)).await;
    fleet.select_clusters("global", &["c2"]).await;
    fleet.sleep(Duration::from_secs(9)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
    fleet.wait_for_clusters_with_addon(&["c2"]).await;
}

pub(crate) async fn taint_not_yet_in_cache_protects_addon(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    let (client, tap) = Tap::on(hub.client());
    fleet.start_controllers_with(
        |controller| if controller == install::NAME { client.clone() } else { hub.client() },
    );
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2"]).await;
    let (other, path) = (hub.client(), fleet.cluster_path("c1"));
    tap.before(Method::GET, "/managedclusters/", move || async move {
        let taint = json!({"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect",
            "timeAdded": "2024-05-01T10:00:00Z"});
        let request = http::Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(json!({"spec": {"taints": [taint]}}).to_string().into_bytes())
            .unwrap();
        other.request::<serde_json::Value>(request).await.unwrap();
    });
    fleet.select_clusters("global", &["c2"]).await;
    eventually("the controller reads the ManagedCluster", async || (!tap.is_set()).then_some(())).await;
    fleet.sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
    assert_eq!(fleet.get_addon("c1").await["metadata"]["deletionTimestamp"], json!(null));
}

pub(crate) async fn returned_cluster_keeps_addon_after_restart(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_clusters_with_addon(&["c1", "c2", "c3"]).await;
    let now: Timestamp =
        fleet.get_addon("c1").await["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    let true_since = |type_: &str, ago: i64| {
        json!({"type": type_, "status": "True", "reason": "SetByTest", "message": "",
            "lastTransitionTime": now - SignedDuration::from_secs(ago)})
    };
    let cluster_status = |joined: i64, available: i64| {
        let conditions = [
            true_since("ManagedClusterJoined", joined),
            true_since("ManagedClusterConditionAvailable", available),
        ];
        json!({"status": {"conditions": conditions}})
    };
    hub.merge(format!("{}/status", fleet.cluster_path("c3")), &cluster_status(0, 0)).await.expect(200);
    let returned = cluster_status(3600, 0);
    hub.merge(format!("{}/status", fleet.cluster_path("c1")), &returned).await.expect(200);
    fleet.select_clusters("global", &["c2"]).await;
    fleet.start_controllers();
    // c1 joined an hour ago and became available just now, so it may only have been unreachable. c3 has just
    // joined and was never unavailable, so its absence from the decision counts.
    fleet.wait_for_clusters_with_addon(&["c1", "c2"]).await;
    fleet.sleep(Duration::from_secs(2)).await;
    assert_eq!(fleet.clusters_with_addon().await, ["c1", "c2"]);
    assert_eq!(fleet.get_addon("c1").await["metadata"]["deletionTimestamp"], json!(null));
}

pub(crate) async fn field_also_set_by_user_belongs_to_user(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    let applied = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": fleet.addon_name, "namespace": fleet.cluster_name("c1")}, "spec": {"installVersion": "v1"}});
    let call = Call::new(Method::PATCH, format!("{}?fieldManager=another-manager", fleet.addon_path("c1")))
        .body("application/apply-patch+yaml", applied.to_string());
    hub.send(call).await.expect(200);
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    eventually("the rollout is completed without c1", async || {
        let found = hub.get(fleet.management_addon_path()).await.json();
        let one = &found["status"]["installProgressions"][0];
        (one["conditions"][0]["reason"] == "Completed" && one["counts"]["overridden"] == 1).then_some(())
    })
    .await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v1 L= {SUCCEEDED}"));
}

pub(crate) async fn default_is_followed_after_switch_to_manual(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    let manual = json!({"spec": {"installStrategy": {"type": "Manual", "placements": null}}});
    hub.merge(fleet.management_addon_path(), &manual).await.expect(200);
    fleet.create_version("v2").await;
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}
