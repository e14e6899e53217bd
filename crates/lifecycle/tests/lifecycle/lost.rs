//! Clusters that are lost on the way: what a change may have done to them still counts.

use std::time::Duration;

use bellwether_testkit::Cluster;
use serde_json::json;

use crate::fleet::{Fleet, Manner};
use crate::rollouts::{at_v1, progressive};

const DONE: &str = "False/Succeed: install completed with no errors.";
const UPGRADING: &str = "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
/// Long enough for whoever should not begin to begin.
const A_WHILE: Duration = Duration::from_secs(2);

fn stopped(fleet: &Fleet<'_>, by: &str) -> String {
    format!("False/WaitingForTurn: the rollout stopped: 1 failed, 0 may: {}", fleet.cluster(by))
}

pub(crate) async fn unreachable_changing_cluster_keeps_slot_and_stops_rollout(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    fleet.behaves("c1", Manner::Silent);
    let pace = json!({"maxConcurrency": 1, "progressDeadline": "6s"});
    fleet.place(json!([progressive(&fleet, "v2", pace)])).await;
    fleet.until_said("c1", UPGRADING).await;
    fleet.reach("c1", "Unknown").await;
    fleet.choose("global", &["c2", "c3"]).await;
    fleet.pass(A_WHILE).await;
    let waits = "False/WaitingForTurn: at most 1 at a time";
    assert_eq!(fleet.condition("c2", "Configured").await, waits, "it keeps its place");
    fleet.until_condition("c2", "Configured", &stopped(&fleet, "c1")).await;
    fleet.start();
    fleet.pass(A_WHILE).await;
    for cluster in ["c2", "c3"] {
        assert_eq!(fleet.condition(cluster, "Configured").await, stopped(&fleet, "c1"));
        assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"));
    }
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.reach("c1", "True").await;
    fleet.choose("global", &["c1", "c2", "c3"]).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}

pub(crate) async fn unreachable_canary_blocks_rollout(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    fleet.choose_in_groups("global", &[("canary", &["c1"]), ("rest", &["c2", "c3"])]).await;
    fleet.behaves("c1", Manner::Silent);
    let pace = json!({"maxConcurrency": 3, "mandatoryDecisionGroups": [{"groupName": "canary"}]});
    fleet.place(json!([progressive(&fleet, "v2", pace)])).await;
    fleet.until_said("c1", UPGRADING).await;
    fleet.until_condition("c2", "Configured", "False/WaitingForTurn: group canary comes first").await;
    fleet.reach("c1", "Unknown").await;
    fleet.choose_in_groups("global", &[("rest", &["c2", "c3"])]).await;
    for again in ["it is lost", "another process leads"] {
        fleet.pass(A_WHILE).await;
        for cluster in ["c2", "c3"] {
            assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"), "{cluster} when {again}");
        }
        fleet.start();
    }
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.reach("c1", "True").await;
    fleet.choose_in_groups("global", &[("canary", &["c1"]), ("rest", &["c2", "c3"])]).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}

pub(crate) async fn one_unreachable_canary_of_two_blocks_rollout(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    fleet.choose_in_groups("global", &[("canary", &["c1", "c2"]), ("rest", &["c3"])]).await;
    fleet.behaves("c1", Manner::Silent);
    let pace = json!({"maxConcurrency": 3, "mandatoryDecisionGroups": [{"groupName": "canary"}]});
    fleet.place(json!([progressive(&fleet, "v2", pace)])).await;
    fleet.until_said("c1", UPGRADING).await;
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
    fleet.reach("c1", "Unknown").await;
    fleet.choose_in_groups("global", &[("canary", &["c2"]), ("rest", &["c3"])]).await;
    for again in ["it is lost", "another process leads"] {
        fleet.pass(A_WHILE).await;
        assert_eq!(fleet.said("c3").await, format!("C=v1 L= {DONE}"), "when {again}");
        fleet.start();
    }
}

pub(crate) async fn timed_out_cluster_stays_timed_out_when_unreachable(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    fleet.behaves("c1", Manner::Silent);
    let pace = |slots: usize| json!({"maxConcurrency": slots, "progressDeadline": "2s"});
    fleet.place(json!([progressive(&fleet, "v2", pace(1))])).await;
    let late = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 2s";
    fleet.until_said("c1", late).await;
    fleet.until_condition("c2", "Configured", &stopped(&fleet, "c1")).await;
    fleet.reach("c1", "Unknown").await;
    fleet.choose("global", &["c2", "c3"]).await;
    fleet.place(json!([progressive(&fleet, "v2", pace(2))])).await;
    for again in ["it is lost", "another process leads"] {
        fleet.pass(A_WHILE).await;
        assert_eq!(fleet.said("c1").await, late, "when {again}");
        for cluster in ["c2", "c3"] {
            assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"), "{cluster} when {again}");
        }
        fleet.start();
    }
}
