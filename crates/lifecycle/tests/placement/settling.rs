//! What the controller asks of the API server, and what it does not; and that it puts right what others do.

use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use http::Method;
use serde_json::json;

use crate::stage::{Stage, numbered};

pub(crate) async fn nothing_is_decided_before_caches_are_synced(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a".to_owned()]).await;
    // More than are looked at at the same time.
    let mut cases = Vec::new();
    for _ in 0..20 {
        cases.push(stage.placement(json!({})).await);
    }
    stage.place();
    for case in &cases {
        case.until_chosen(&["a"]).await;
    }

    // A controller that did not wait for its lists would take the clusters for none.
    let tap = stage.place();
    tap.before(Method::GET, "/managedclusters?", || tokio::time::sleep(Duration::from_secs(8)));
    stage.pass().await;
    assert!(!tap.is_set(), "it has asked for the clusters");
    assert_eq!(tap.writes(), [], "and waits for them");
    stage.join(["b".to_owned()]).await;
    for case in &cases {
        case.until_chosen(&["a", "b"]).await;
    }
}

pub(crate) async fn restart_causes_no_writes(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(numbered(1..=120)).await;
    stage.place();
    let (all, few) =
        (stage.placement(json!({})).await, stage.placement(json!({"numberOfClusters": 7})).await);
    let senseless = stage.placement(json!({"tolerations": [{"operator": "Equal"}]})).await;
    all.until(120, "AllDecisionsScheduled").await;
    few.until(7, "AllDecisionsScheduled").await;
    senseless.until(0, "NotAllDecisionsScheduled").await;
    stage.pass().await;

    let tap = stage.place();
    stage.pass().await;
    let here: Vec<_> =
        tap.requests().into_iter().filter(|sent| sent.path.contains(&stage.namespace)).collect();
    assert_eq!(here, [], "it knows by its watches that all is well");
}

pub(crate) async fn many_joining_clusters_cause_few_writes(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let tap = stage.place();
    let case = stage.placement(json!({})).await;
    case.until(0, "AllManagedClusterSetsEmpty").await;
    let before = tap.writes().len();
    stage.join(numbered(1..=60)).await;
    case.until(60, "AllDecisionsScheduled").await;
    let writes = tap.writes().len() - before;
    // Two for each time that they were gathered; on paused time they join at once.
    let most = if cluster.is_kubernetes() { 30 } else { 4 };
    assert!(writes <= most, "{writes} writes for 60 clusters");
}

pub(crate) async fn modified_decision_is_restored(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    let _tap = stage.place();
    let case = stage.placement(json!({})).await;
    case.until_chosen(&["a", "b"]).await;
    let path = format!("{}/{}-decision-1", case.decisions_path(), case.name);
    cluster.delete(&path).await.expect(200);
    case.until_chosen(&["a", "b"]).await;
    let stranger = json!([{"clusterName": "stranger", "reason": ""}]);
    cluster.merge(format!("{path}/status"), &json!({"status": {"decisions": stranger}})).await.expect(200);
    case.until_chosen(&["a", "b"]).await;
    let label = "cluster.open-cluster-management.io/decision-group-index";
    cluster.merge(&path, &json!({"metadata": {"labels": {label: "9"}}})).await.expect(200);
    eventually("the label is put right", || async {
        let labels = cluster.get(&path).await.json()["metadata"]["labels"].clone();
        (labels[label] == "0").then_some(())
    })
    .await;
    // As of a placement of the same name that is gone: the garbage collector would take it along.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    let owned = cluster.merge(&path, &json!({"metadata": {"ownerReferences": [owner]}})).await.expect(200);
    eventually("the owner is put right", || async {
        let uid = case.read().await["metadata"]["uid"].clone();
        let found = cluster.get(&path).await.json();
        (found["metadata"]["ownerReferences"][0]["uid"] == uid
            || found["metadata"]["uid"] != owned["metadata"]["uid"])
            .then_some(())
    })
    .await;
    case.until_chosen(&["a", "b"]).await;
}

pub(crate) async fn deleted_placement_deletes_its_decisions(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(numbered(1..=101)).await;
    let tap = stage.place();
    let (case, other) =
        (stage.placement(json!({})).await, stage.placement(json!({"numberOfClusters": 1})).await);
    case.until(101, "AllDecisionsScheduled").await;
    other.until(1, "AllDecisionsScheduled").await;
    cluster.delete(case.path()).await.expect(200);
    eventually("the placement is gone", || async {
        (cluster.get(case.path()).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(case.decisions().await.len(), 0, "they went before it");
    assert_eq!(other.decisions().await.len(), 1);
    let deleted = tap.writes().iter().filter(|sent| sent.method == Method::DELETE).count();
    assert_eq!(deleted, 2, "and were not left to the garbage collector");
}

pub(crate) async fn write_conflict_is_decided_again(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b", "c"].map(str::to_owned)).await;
    let tap = stage.place();
    let case = stage.placement(json!({"numberOfClusters": 1})).await;
    case.until_chosen(&["a"]).await;
    let (client, path) = (cluster.client(), case.path());
    // Just before the decision is written, the placement changes again.
    tap.before(Method::PATCH, "/placementdecisions/", move || async move {
        let body = serde_json::to_vec(&json!({"spec": {"numberOfClusters": 3}})).unwrap();
        let request =
            http::Request::patch(path).header("content-type", "application/merge-patch+json").body(body);
        client.request::<serde_json::Value>(request.unwrap()).await.unwrap();
    });
    case.merge(json!({"spec": {"numberOfClusters": 2}})).await;
    case.until_chosen(&["a", "b", "c"]).await;
    assert!(!tap.is_set());
}
