//! That nobody vanishes while a choice is told, and that readers know when it is.

use bellwether_lifecycle::placement::{Decided, Undecided, decided};
use bellwether_testkit::Cluster;
use serde_json::json;

use crate::stage::{Stage, numbered};

pub(crate) async fn joining_first_cluster_removes_no_cluster_temporarily(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(numbered(1..=150)).await;
    let tap = stage.place();
    let case = stage.placement(json!({})).await;
    case.until(150, "AllDecisionsScheduled").await;
    let staying = stage.names(numbered(1..=150));
    let before = tap.writes().len();
    let events = case.watch_while(&staying, stage.join(["000".to_owned()]), 151).await;
    assert_eq!(events, 2, "two decisions changed, once each");
    assert_eq!(tap.writes().len() - before, 3, "and the status");

    // And back again.
    let path = stage.cluster_path("000");
    let leave = async {
        cluster.delete(path).await.expect(200);
    };
    assert_eq!(case.watch_while(&staying, leave, 150).await, 2);
}

pub(crate) async fn swapped_groups_remove_no_cluster_temporarily(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    for number in 1..=6 {
        let canary = if number <= 3 { "true" } else { "false" };
        stage.join_with(&format!("{number:03}"), json!({"canary": canary}), json!({})).await;
    }
    let _tap = stage.place();
    let group = |value: &str| {
        json!({"groupName": format!("canary-{value}"),
            "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": value}}}})
    };
    let strategy = |groups: serde_json::Value| json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": groups}}});
    let case = stage.placement(strategy(json!([group("true"), group("false")]))).await;
    case.until(6, "AllDecisionsScheduled").await;
    let staying = stage.names(numbered(1..=6));
    let turn = case.merge(json!({"spec": strategy(json!([group("false"), group("true")]))}));
    // Both are labelled anew and filled, and some wait in a third that comes and goes.
    let events = case.watch_while(&staying, turn, 6).await;
    assert!((4..=8).contains(&events), "{events} events");
    let shape: Vec<(String, String)> =
        case.shape().await.into_iter().map(|(name, _, group, _)| (name, group)).collect();
    let wanted = [("decision-1", "canary-false"), ("decision-2", "canary-true")];
    assert_eq!(shape, wanted.map(|(name, group)| (name.to_owned(), group.to_owned())));
}

pub(crate) async fn reader_accepts_fully_written_selection(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    let case = stage.placement(json!({})).await;
    let (placement, decisions) = case.as_read().await;
    assert_eq!(decided(&placement, &decisions), Decided::Unknown(Undecided::NotYet));

    let _tap = stage.place();
    case.until_chosen(&["a", "b"]).await;
    let (placement, decisions) = case.as_read().await;
    let Decided::Complete(clusters) = decided(&placement, &decisions) else { panic!("it is told in full") };
    let names: Vec<&str> = clusters.iter().map(|decided| decided.cluster.as_str()).collect();
    assert_eq!(names, [stage.name("a"), stage.name("b")]);

    stage.kill();
    case.merge(json!({"spec": {"numberOfClusters": 1}})).await;
    let (placement, decisions) = case.as_read().await;
    let outdated = Undecided::Outdated { generation: 2, decided: 1 };
    assert_eq!(decided(&placement, &decisions), Decided::Unknown(outdated));
}
