//! Clusters that become unreachable during a rollout: their unfinished changes still count against its
//! limits.

use std::time::Duration;

use bellwether_testkit::Cluster;
use serde_json::json;

use crate::fleet::{AgentBehaviour, Fleet};
use crate::rollouts::{fleet_at_v1, progressive_placement};

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";
const UPGRADING: &str = "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
/// Long enough for the controllers to start a change on a waiting cluster, if they were to do so by mistake.
const SETTLE_TIME: Duration = Duration::from_secs(2);

/// The condition `Configured` of a waiting cluster after one cluster failed.
fn stopped_by(fleet: &Fleet<'_>, failed: &str) -> String {
    format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster_name(failed))
}

pub(crate) async fn unreachable_changing_cluster_keeps_slot_and_stops_rollout(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let rollout = json!({"maxConcurrency": 1, "progressDeadline": "6s"});
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", rollout)])).await;
    fleet.wait_for_status("c1", UPGRADING).await;
    fleet.set_cluster_available("c1", "Unknown").await;
    fleet.select_clusters("global", &["c2", "c3"]).await;
    fleet.sleep(SETTLE_TIME).await;
    let waiting = "False/WaitingForTurn: at most 1 at a time";
    assert_eq!(fleet.condition("c2", "Configured").await, waiting, "c1 keeps its slot");
    fleet.wait_for_condition("c2", "Configured", &stopped_by(&fleet, "c1")).await;
    fleet.start_controllers();
    fleet.sleep(SETTLE_TIME).await;
    for cluster in ["c2", "c3"] {
        assert_eq!(fleet.condition(cluster, "Configured").await, stopped_by(&fleet, "c1"));
        assert_eq!(fleet.status_line(cluster).await, format!("C=v1 L= {SUCCEEDED}"));
    }
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.set_cluster_available("c1", "True").await;
    fleet.select_clusters("global", &["c1", "c2", "c3"]).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}

pub(crate) async fn unreachable_canary_blocks_rollout(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    fleet.select_clusters_in_groups("global", &[("canary", &["c1"]), ("rest", &["c2", "c3"])]).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let rollout = json!({"maxConcurrency": 3, "mandatoryDecisionGroups": [{"groupName": "canary"}]});
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", rollout)])).await;
    fleet.wait_for_status("c1", UPGRADING).await;
    fleet.wait_for_condition("c2", "Configured", "False/WaitingForTurn: group canary comes first").await;
    fleet.set_cluster_available("c1", "Unknown").await;
    fleet.select_clusters_in_groups("global", &[("rest", &["c2", "c3"])]).await;
    for event in ["c1 became unreachable", "the controllers restarted"] {
        fleet.sleep(SETTLE_TIME).await;
        for cluster in ["c2", "c3"] {
            assert_eq!(
                fleet.status_line(cluster).await,
                format!("C=v1 L= {SUCCEEDED}"),
                "{cluster} after {event}"
            );
        }
        fleet.start_controllers();
    }
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.set_cluster_available("c1", "True").await;
    fleet.select_clusters_in_groups("global", &[("canary", &["c1"]), ("rest", &["c2", "c3"])]).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}

pub(crate) async fn one_unreachable_canary_of_two_blocks_rollout(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    fleet.select_clusters_in_groups("global", &[("canary", &["c1", "c2"]), ("rest", &["c3"])]).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let rollout = json!({"maxConcurrency": 3, "mandatoryDecisionGroups": [{"groupName": "canary"}]});
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", rollout)])).await;
    fleet.wait_for_status("c1", UPGRADING).await;
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    fleet.set_cluster_available("c1", "Unknown").await;
    fleet.select_clusters_in_groups("global", &[("canary", &["c2"]), ("rest", &["c3"])]).await;
    for event in ["c1 became unreachable", "the controllers restarted"] {
        fleet.sleep(SETTLE_TIME).await;
        assert_eq!(fleet.status_line("c3").await, format!("C=v1 L= {SUCCEEDED}"), "after {event}");
        fleet.start_controllers();
    }
}

pub(crate) async fn timed_out_cluster_stays_timed_out_when_unreachable(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let rollout = |slots: usize| json!({"maxConcurrency": slots, "progressDeadline": "2s"});
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", rollout(1))])).await;
    let timed_out = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 2s";
    fleet.wait_for_status("c1", timed_out).await;
    fleet.wait_for_condition("c2", "Configured", &stopped_by(&fleet, "c1")).await;
    fleet.set_cluster_available("c1", "Unknown").await;
    fleet.select_clusters("global", &["c2", "c3"]).await;
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", rollout(2))])).await;
    for event in ["c1 became unreachable", "the controllers restarted"] {
        fleet.sleep(SETTLE_TIME).await;
        assert_eq!(fleet.status_line("c1").await, timed_out, "after {event}");
        for cluster in ["c2", "c3"] {
            assert_eq!(
                fleet.status_line(cluster).await,
                format!("C=v1 L= {SUCCEEDED}"),
                "{cluster} after {event}"
            );
        }
        fleet.start_controllers();
    }
}
