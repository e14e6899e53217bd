//! Progressive rollouts: how many clusters change at a time, and what stops a rollout.

use bellwether_testkit::{Cluster, eventually};
use serde_json::{Value, json};

use crate::fleet::{AgentBehaviour, Fleet};

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

/// Creates a fleet whose clusters all have version v1 installed. Version v2 exists too.
pub(crate) async fn fleet_at_v1<'a>(hub: &'a Cluster, clusters: usize) -> Fleet<'a> {
    let fleet = Fleet::new(hub, clusters, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for number in 1..=clusters {
        fleet.wait_for_status(&format!("c{number}"), &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    fleet
}

/// The strategy of the placement `global`, with a progressive rollout.
pub(crate) fn progressive_placement(fleet: &Fleet<'_>, version: &str, progressive: Value) -> Value {
    let mut strategy = fleet.placement_strategy("global", version);
    strategy["rolloutStrategy"] = json!({"type": "Progressive", "progressive": progressive});
    strategy
}

pub(crate) async fn two_clusters_change_at_a_time_in_name_order(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 4).await;
    for cluster in ["c1", "c2", "c3", "c4"] {
        fleet.set_agent_behaviour(cluster, AgentBehaviour::Silent);
    }
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 2}))])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    }
    let names = format!("{}, {}", fleet.cluster_name("c1"), fleet.cluster_name("c2"));
    for cluster in ["c3", "c4"] {
        fleet.wait_for_condition(cluster, "Configured", "False/WaitingForTurn: at most 2 at a time").await;
        assert_eq!(fleet.status_line(cluster).await, format!("C=v1 L= {SUCCEEDED}"));
        assert_eq!(
            fleet.get_work(cluster).await["metadata"]["labels"]["open-cluster-management.io/addon-version"],
            "v1"
        );
    }
    // Until the controller has seen both of its writes, the names may be in another order.
    let waiting = json!([{"reason": "ConcurrencyLimit", "for": format!("at most 2 at a time: {names}"), "count": 2,
        "clusters": [fleet.cluster_name("c3"), fleet.cluster_name("c4")]}]);
    eventually("the ClusterManagementAddOn reports why clusters wait", async || {
        let found = hub.get(fleet.management_addon_path()).await.json();
        (found["status"]["installProgressions"][0]["waiting"] == waiting).then_some(())
    })
    .await;
    fleet.set_agent_behaviour("c2", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    fleet.wait_for_status("c3", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    assert_eq!(fleet.status_line("c4").await, format!("C=v1 L= {SUCCEEDED}"));
    for cluster in ["c1", "c3", "c4"] {
        fleet.set_agent_behaviour(cluster, AgentBehaviour::Healthy);
    }
    fleet.restart_agent();
    for cluster in ["c1", "c3", "c4"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}

pub(crate) async fn failure_stops_rollout(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Rejects("v2"));
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    let stopped =
        format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster_name("c1"));
    for cluster in ["c2", "c3"] {
        fleet.wait_for_condition(cluster, "Configured", &stopped).await;
        assert_eq!(fleet.status_line(cluster).await, format!("C=v1 L= {SUCCEEDED}"));
    }
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}

pub(crate) async fn paused_rollout_starts_no_cluster(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 2).await;
    let mut paused = fleet.placement_strategy("global", "v2");
    paused["paused"] = json!(true);
    fleet.set_placements(json!([paused])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_condition(cluster, "Configured", "False/WaitingForTurn: the rollout is paused").await;
        assert_eq!(fleet.status_line(cluster).await, format!("C=v1 L= {SUCCEEDED}"));
    }
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}
