//! At what pace clusters change.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fleet::{Fleet, Manner};

const DONE: &str = "False/Succeed: install completed with no errors.";

/// A fleet whose clusters all have v1; there is a v2 as well.
pub(crate) async fn at_v1<'a>(hub: &'a Cluster, clusters: usize) -> Fleet<'a> {
    let fleet = Fleet::new(hub, clusters, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for number in 1..=clusters {
        fleet.until_said(&format!("c{number}"), &format!("C=v1 L= {DONE}")).await;
    }
    fleet
}

pub(crate) fn progressive(fleet: &Fleet<'_>, version: &str, progressive: Value) -> Value {
    let mut placed = fleet.placed("global", version);
    placed["rolloutStrategy"] = json!({"type": "Progressive", "progressive": progressive});
    placed
}

pub(crate) async fn two_clusters_change_at_a_time_in_name_order(hub: &Cluster) {
    let fleet = at_v1(hub, 4).await;
    for cluster in ["c1", "c2", "c3", "c4"] {
        fleet.behaves(cluster, Manner::Silent);
    }
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 2}))])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    }
    let names = format!("{}, {}", fleet.cluster("c1"), fleet.cluster("c2"));
    for cluster in ["c3", "c4"] {
        fleet.until_condition(cluster, "Configured", "False/WaitingForTurn: at most 2 at a time").await;
        assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"));
        assert_eq!(
            fleet.work(cluster).await["metadata"]["labels"]["open-cluster-management.io/addon-version"],
            "v1"
        );
    }
    let waiting = eventually("the add-on as a whole says what is waited for", async || {
        let found = hub.get(fleet.management_path()).await.json();
        let waiting = found["status"]["installProgressions"][0]["waiting"].clone();
        waiting.is_array().then_some(waiting)
    })
    .await;
    assert_eq!(
        waiting,
        json!([{"reason": "ConcurrencyLimit", "for": format!("at most 2 at a time: {names}"), "count": 2, "clusters": [fleet.cluster("c3"), fleet.cluster("c4")]}])
    );
    fleet.behaves("c2", Manner::Well);
    fleet.wake();
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
    fleet.until_said("c3", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    assert_eq!(fleet.said("c4").await, format!("C=v1 L= {DONE}"));
    for cluster in ["c1", "c3", "c4"] {
        fleet.behaves(cluster, Manner::Well);
    }
    fleet.wake();
    for cluster in ["c1", "c3", "c4"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}

pub(crate) async fn failure_stops_rollout(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    fleet.behaves("c1", Manner::Refuses("v2"));
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    let stopped =
        format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster("c1"));
    for cluster in ["c2", "c3"] {
        fleet.until_condition(cluster, "Configured", &stopped).await;
        assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"));
    }
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}

pub(crate) async fn paused_rollout_starts_no_cluster(hub: &Cluster) {
    let fleet = at_v1(hub, 2).await;
    let mut paused = fleet.placed("global", "v2");
    paused["paused"] = json!(true);
    fleet.place(json!([paused])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_condition(cluster, "Configured", "False/WaitingForTurn: the rollout is paused").await;
        assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"));
    }
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}
