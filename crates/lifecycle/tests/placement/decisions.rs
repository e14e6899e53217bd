//! How decisions are written: a cluster that stays selected is in one of them at any time, and readers detect when all are
//! written.

use bellwether_lifecycle::placement::{Decided, Undecided, decided};
use bellwether_testkit::Cluster;
use serde_json::json;

use crate::fixture::{Fixture, numbered};

pub(crate) async fn joining_first_cluster_removes_no_cluster_temporarily(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(numbered(1..=150)).await;
    let tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    case.wait_for_status(150, "AllDecisionsScheduled").await;
    let staying = fixture.cluster_names(numbered(1..=150));
    let before = tap.writes().len();
    let events =
        case.watch_decisions_during(&staying, fixture.create_clusters(["000".to_owned()]), 151).await;
    assert_eq!(events, 2, "two decisions changed, once each");
    assert_eq!(tap.writes().len() - before, 3, "two decisions and the status");

    // The same when the cluster is deleted.
    let path = fixture.cluster_path("000");
    let leave = async {
        cluster.delete(path).await.expect(200);
    };
    assert_eq!(case.watch_decisions_during(&staying, leave, 150).await, 2);
}

pub(crate) async fn swapped_groups_remove_no_cluster_temporarily(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    for number in 1..=6 {
        let canary = if number <= 3 { "true" } else { "false" };
        fixture.create_cluster(&format!("{number:03}"), json!({"canary": canary}), json!({})).await;
    }
    let _tap = fixture.start_placement_controller();
    let group = |value: &str| {
        json!({"groupName": format!("canary-{value}"),
            "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": value}}}})
    };
    let strategy = |groups: serde_json::Value| json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": groups}}});
    let case = fixture.create_placement(strategy(json!([group("true"), group("false")]))).await;
    case.wait_for_status(6, "AllDecisionsScheduled").await;
    let staying = fixture.cluster_names(numbered(1..=6));
    let turn = case.merge(json!({"spec": strategy(json!([group("false"), group("true")]))}));
    // Both decisions get new labels and clusters, and some clusters are in a temporary third decision meanwhile.
    let events = case.watch_decisions_during(&staying, turn, 6).await;
    assert!((4..=8).contains(&events), "{events} events");
    let shape: Vec<(String, String)> =
        case.slices().await.into_iter().map(|(name, _, group, _)| (name, group)).collect();
    let wanted = [("decision-1", "canary-false"), ("decision-2", "canary-true")];
    assert_eq!(shape, wanted.map(|(name, group)| (name.to_owned(), group.to_owned())));
}

pub(crate) async fn reader_accepts_fully_written_selection(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    let case = fixture.create_placement(json!({})).await;
    let (placement, decisions) = case.read_typed().await;
    assert_eq!(decided(&placement, &decisions), Decided::Unknown(Undecided::NotYet));

    let _tap = fixture.start_placement_controller();
    case.wait_for_selection(&["a", "b"]).await;
    let (placement, decisions) = case.read_typed().await;
    let Decided::Complete(clusters) = decided(&placement, &decisions) else {
        panic!("the selection is not complete")
    };
    let names: Vec<&str> = clusters.iter().map(|decided| decided.cluster.as_str()).collect();
    assert_eq!(names, [fixture.cluster_name("a"), fixture.cluster_name("b")]);

    fixture.stop_controllers();
    case.merge(json!({"spec": {"numberOfClusters": 1}})).await;
    let (placement, decisions) = case.read_typed().await;
    let outdated = Undecided::Outdated { generation: 2, decided: 1 };
    assert_eq!(decided(&placement, &decisions), Decided::Unknown(outdated));
}
