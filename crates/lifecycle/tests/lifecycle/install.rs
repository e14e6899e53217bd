//! Which clusters have an add-on.

use std::time::Duration;

use bellwether_lifecycle::install;
use bellwether_testkit::{Call, Cluster, Tap, eventually};
use http::Method;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::fleet::Fleet;
use crate::rollouts::progressive;

const DONE: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn addons_follow_placement_decisions(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1"]).await;
    fleet.choose("global", &["c1", "c2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c1", "c2"]).await;
    fleet.until_said("c2", &format!("C=v1 L= {DONE}")).await;
    fleet.choose("global", &["c2", "c3"]).await;
    fleet.until_holders(&["c1", "c2", "c3"]).await;
    // It has to be absent for a while, and its works have to go.
    fleet.until_holders(&["c2", "c3"]).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    let before = fleet.addon("c2").await["metadata"]["uid"].clone();
    hub.delete(fleet.path("c2")).await.expect(200);
    eventually("it is made again", async || {
        let uid = fleet.addon("c2").await["metadata"]["uid"].clone();
        (uid.is_string() && uid != before).then_some(())
    })
    .await;
}

pub(crate) async fn manual_strategy_creates_and_deletes_nothing(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    hub.merge(
        fleet.management_path(),
        &json!({"spec": {"installStrategy": {"type": "Manual", "placements": null}}}),
    )
    .await
    .expect(200);
    fleet.choose("global", &[]).await;
    fleet.join("c3").await;
    fleet.pass(Duration::from_secs(15)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
    // What a person makes is looked after, and is theirs.
    let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": fleet.addon, "namespace": fleet.cluster("c3")}, "spec": {"installVersion": "v1"}});
    hub.post(fleet.path("c3").rsplit_once('/').unwrap().0, &object).await.expect(201);
    fleet.until_said("c3", &format!("C=v1 L= {DONE}")).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c3"]).await;
}

pub(crate) async fn version_set_by_user_is_kept(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2", "v3"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
    hub.merge(fleet.path("c1"), &json!({"spec": {"installVersion": "v3"}})).await.expect(200);
    fleet.until_said("c1", &format!("C=v3 L=v1 {DONE}")).await;
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
    assert_eq!(fleet.addon("c1").await["spec"]["installVersion"], "v3");
    eventually("the whole is done, and says that one goes its own way", async || {
        let found = hub.get(fleet.management_path()).await.json();
        let one = &found["status"]["installProgressions"][0];
        (one["conditions"][0]["reason"] == "Completed" && one["counts"]["overridden"] == 1).then_some(())
    })
    .await;
    // Who lets go of it gets what the placement asks for.
    hub.merge(fleet.path("c1"), &json!({"spec": {"installVersion": null}})).await.expect(200);
    fleet.until_said("c1", &format!("C=v2 L=v3 {DONE}")).await;
}

pub(crate) async fn unknown_decision_deletes_no_addon(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c1", "c2"]).await;
    // A decision of which only a part was written.
    let slice = format!("{}/placementdecisions/global-decision-1/status", fleet.placements());
    hub.merge(&slice, &json!({"status": {"decisions": []}})).await.expect(200);
    fleet.pass(Duration::from_secs(15)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
    hub.delete(format!("{}/placements/global", fleet.placements())).await.expect(200);
    fleet.pass(Duration::from_secs(15)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
}

pub(crate) async fn deleted_placement_keeps_its_clusters_unchanged(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2", "v3"]).await;
    fleet.choose("canary", &["c1"]).await;
    fleet.place(json!([fleet.placed("global", "v1"), fleet.placed("canary", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L= {DONE}")).await;
    fleet.until_said("c2", &format!("C=v1 L= {DONE}")).await;
    hub.delete(format!("{}/placements/canary", fleet.placements())).await.expect(200);
    fleet.pass(Duration::from_secs(12)).await;
    assert_eq!(fleet.said("c1").await, format!("C=v2 L= {DONE}"));
    // Nor does it keep a place among those of another placement, also where nobody remembers what it had chosen.
    fleet.start();
    let slowly = progressive(&fleet, "v3", json!({"maxConcurrency": 1}));
    fleet.place(json!([slowly, fleet.placed("canary", "v2")])).await;
    fleet.until_said("c2", &format!("C=v3 L=v1 {DONE}")).await;
    assert_eq!(fleet.said("c1").await, format!("C=v2 L= {DONE}"));
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
}

pub(crate) async fn absence_period_restarts_after_return(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c1", "c2"]).await;
    fleet.choose("global", &["c2"]).await;
    fleet.pass(Duration::from_secs(3)).await;
    fleet.choose("global", &["c1", "c2"]).await;
    fleet.pass(Duration::from_secs(3)).await;
    fleet.choose("global", &["c2"]).await;
    fleet.pass(Duration::from_secs(9)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
    fleet.until_holders(&["c2"]).await;
}

pub(crate) async fn taint_not_yet_in_cache_protects_addon(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    let (client, tap) = Tap::on(hub.client());
    fleet.start_as(|controller| if controller == install::NAME { client.clone() } else { hub.client() });
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c1", "c2"]).await;
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
    fleet.choose("global", &["c2"]).await;
    eventually("somebody asks once more", async || (!tap.is_set()).then_some(())).await;
    fleet.pass(Duration::from_secs(2)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
    assert_eq!(fleet.addon("c1").await["metadata"]["deletionTimestamp"], json!(null));
}

pub(crate) async fn returned_cluster_keeps_addon_after_restart(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_holders(&["c1", "c2", "c3"]).await;
    let now: Timestamp =
        fleet.addon("c1").await["metadata"]["creationTimestamp"].as_str().unwrap().parse().unwrap();
    let since = |type_: &str, ago: i64| {
        json!({"type": type_, "status": "True", "reason": "AsTold", "message": "",
            "lastTransitionTime": now - SignedDuration::from_secs(ago)})
    };
    let said = |joined: i64, available: i64| {
        let conditions =
            [since("ManagedClusterJoined", joined), since("ManagedClusterConditionAvailable", available)];
        json!({"status": {"conditions": conditions}})
    };
    hub.merge(format!("{}/status", fleet.cluster_path("c3")), &said(0, 0)).await.expect(200);
    let said = said(3600, 0);
    hub.merge(format!("{}/status", fleet.cluster_path("c1")), &said).await.expect(200);
    fleet.choose("global", &["c2"]).await;
    fleet.start();
    // c3 has joined just now, and was never away.
    fleet.until_holders(&["c1", "c2"]).await;
    fleet.pass(Duration::from_secs(2)).await;
    assert_eq!(fleet.holders().await, ["c1", "c2"]);
    assert_eq!(fleet.addon("c1").await["metadata"]["deletionTimestamp"], json!(null));
}

pub(crate) async fn field_also_set_by_user_belongs_to_user(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
    let theirs = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
        "metadata": {"name": fleet.addon, "namespace": fleet.cluster("c1")}, "spec": {"installVersion": "v1"}});
    let call = Call::new(Method::PATCH, format!("{}?fieldManager=somebody", fleet.path("c1")))
        .body("application/apply-patch+yaml", theirs.to_string());
    hub.send(call).await.expect(200);
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
    eventually("the rollout ends without it", async || {
        let found = hub.get(fleet.management_path()).await.json();
        let one = &found["status"]["installProgressions"][0];
        (one["conditions"][0]["reason"] == "Completed" && one["counts"]["overridden"] == 1).then_some(())
    })
    .await;
    assert_eq!(fleet.said("c1").await, format!("C=v1 L= {DONE}"));
}

pub(crate) async fn default_is_followed_after_switch_to_manual(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    let by_hand = json!({"spec": {"installStrategy": {"type": "Manual", "placements": null}}});
    hub.merge(fleet.management_path(), &by_hand).await.expect(200);
    fleet.publish("v2").await;
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
}
