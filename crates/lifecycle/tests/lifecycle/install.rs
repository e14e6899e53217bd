//! Which clusters have an add-on.

use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::fleet::Fleet;

const DONE: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn clusters_come_and_go_with_the_decision(hub: &Cluster) {
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

pub(crate) async fn by_hand_nothing_is_made_and_nothing_is_taken(hub: &Cluster) {
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

pub(crate) async fn what_a_person_has_set_stays(hub: &Cluster) {
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

pub(crate) async fn nothing_goes_for_what_is_not_known(hub: &Cluster) {
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
