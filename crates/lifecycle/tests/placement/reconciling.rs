//! The requests of the placement controller: none without need, repairs of what others changed, and retries after conflicts.

use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use http::Method;
use serde_json::json;

use crate::fixture::{Fixture, numbered};

pub(crate) async fn nothing_is_decided_before_caches_are_synced(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a".to_owned()]).await;
    // More than are reconciled at the same time.
    let mut cases = Vec::new();
    for _ in 0..20 {
        cases.push(fixture.create_placement(json!({})).await);
    }
    fixture.start_placement_controller();
    for case in &cases {
        case.wait_for_selection(&["a"]).await;
    }

    // A controller that did not wait for its lists would deselect all clusters.
    let tap = fixture.start_placement_controller();
    tap.before(Method::GET, "/managedclusters?", || tokio::time::sleep(Duration::from_secs(8)));
    fixture.wait_for_reconcile().await;
    assert!(!tap.is_set(), "the clusters were listed");
    assert_eq!(tap.writes(), [], "nothing is written before the list is complete");
    fixture.create_clusters(["b".to_owned()]).await;
    for case in &cases {
        case.wait_for_selection(&["a", "b"]).await;
    }
}

pub(crate) async fn restart_causes_no_writes(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(numbered(1..=120)).await;
    fixture.start_placement_controller();
    let (all, few) = (
        fixture.create_placement(json!({})).await,
        fixture.create_placement(json!({"numberOfClusters": 7})).await,
    );
    let invalid = fixture.create_placement(json!({"tolerations": [{"operator": "Equal"}]})).await;
    all.wait_for_status(120, "AllDecisionsScheduled").await;
    few.wait_for_status(7, "AllDecisionsScheduled").await;
    invalid.wait_for_status(0, "NotAllDecisionsScheduled").await;
    fixture.wait_for_reconcile().await;

    let tap = fixture.start_placement_controller();
    fixture.wait_for_reconcile().await;
    let requests: Vec<_> =
        tap.requests().into_iter().filter(|sent| sent.path.contains(&fixture.namespace)).collect();
    assert_eq!(requests, [], "the caches show that there is nothing to do");
}

pub(crate) async fn many_joining_clusters_cause_few_writes(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    case.wait_for_status(0, "AllManagedClusterSetsEmpty").await;
    let before = tap.writes().len();
    fixture.create_clusters(numbered(1..=60)).await;
    case.wait_for_status(60, "AllDecisionsScheduled").await;
    let writes = tap.writes().len() - before;
    // Two for each debounce; with paused time all clusters join at once.
    let most = if cluster.is_kubernetes() { 30 } else { 4 };
    assert!(writes <= most, "{writes} writes for 60 clusters");
}

pub(crate) async fn modified_decision_is_restored(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    case.wait_for_selection(&["a", "b"]).await;
    let path = format!("{}/{}-decision-1", case.decisions_path(), case.name);
    cluster.delete(&path).await.expect(200);
    case.wait_for_selection(&["a", "b"]).await;
    let unknown = json!([{"clusterName": "unknown", "reason": ""}]);
    cluster.merge(format!("{path}/status"), &json!({"status": {"decisions": unknown}})).await.expect(200);
    case.wait_for_selection(&["a", "b"]).await;
    let label = "cluster.open-cluster-management.io/decision-group-index";
    cluster.merge(&path, &json!({"metadata": {"labels": {label: "9"}}})).await.expect(200);
    eventually("the label is restored", || async {
        let labels = cluster.get(&path).await.json()["metadata"]["labels"].clone();
        (labels[label] == "0").then_some(())
    })
    .await;
    // The owner may be a deleted placement of the same name; the garbage collector would then delete the decision.
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "none", "uid": "none"});
    let owned = cluster.merge(&path, &json!({"metadata": {"ownerReferences": [owner]}})).await.expect(200);
    eventually("the owner is restored", || async {
        let uid = case.read().await["metadata"]["uid"].clone();
        let found = cluster.get(&path).await.json();
        (found["metadata"]["ownerReferences"][0]["uid"] == uid
            || found["metadata"]["uid"] != owned["metadata"]["uid"])
            .then_some(())
    })
    .await;
    case.wait_for_selection(&["a", "b"]).await;
}

pub(crate) async fn deleted_placement_deletes_its_decisions(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(numbered(1..=101)).await;
    let tap = fixture.start_placement_controller();
    let (case, other) = (
        fixture.create_placement(json!({})).await,
        fixture.create_placement(json!({"numberOfClusters": 1})).await,
    );
    case.wait_for_status(101, "AllDecisionsScheduled").await;
    other.wait_for_status(1, "AllDecisionsScheduled").await;
    cluster.delete(case.path()).await.expect(200);
    eventually("the placement is deleted", || async {
        (cluster.get(case.path()).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(case.decisions().await.len(), 0, "decisions are deleted before their placement");
    assert_eq!(other.decisions().await.len(), 1);
    let deleted = tap.writes().iter().filter(|sent| sent.method == Method::DELETE).count();
    assert_eq!(deleted, 2, "the controller deletes them, not the garbage collector");
}

pub(crate) async fn write_conflict_is_decided_again(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b", "c"].map(str::to_owned)).await;
    let tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({"numberOfClusters": 1})).await;
    case.wait_for_selection(&["a"]).await;
    let (client, path) = (cluster.client(), case.path());
    // Just before the decision is written, the placement changes again.
    tap.before(Method::PATCH, "/placementdecisions/", move || async move {
        let body = serde_json::to_vec(&json!({"spec": {"numberOfClusters": 3}})).unwrap();
        let request =
            http::Request::patch(path).header("content-type", "application/merge-patch+json").body(body);
        client.request::<serde_json::Value>(request.unwrap()).await.unwrap();
    });
    case.merge(json!({"spec": {"numberOfClusters": 2}})).await;
    case.wait_for_selection(&["a", "b", "c"]).await;
    assert!(!tap.is_set());
}
