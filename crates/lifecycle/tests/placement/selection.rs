//! Which clusters a placement selects, and how the selection follows changes.

use bellwether_testkit::Cluster;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::fixture::{Fixture, condition, numbered, text};

fn slice(number: usize, clusters: usize) -> (String, String, String, usize) {
    (format!("decision-{number}"), "0".into(), String::new(), clusters)
}

pub(crate) async fn requested_number_is_selected_in_slices_of_a_hundred(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(numbered(1..=150)).await;
    let _tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    let placement = case.wait_for_status(150, "AllDecisionsScheduled").await;
    assert_eq!(case.slices().await, [slice(1, 100), slice(2, 50)]);
    let names: Vec<String> = ["1", "2"].map(|number| format!("{}-decision-{number}", case.name)).into();
    assert_eq!(
        placement["status"]["decisionGroups"],
        json!([{"decisionGroupIndex": 0, "decisions": names, "clusterCount": 150}])
    );
    assert_eq!(condition(&placement, "PlacementMisconfigured")["reason"], "Succeedconfigured");
    for decision in case.decisions().await {
        assert_eq!(decision["metadata"]["ownerReferences"][0]["uid"], placement["metadata"]["uid"]);
    }

    case.merge(json!({"spec": {"numberOfClusters": 120}})).await;
    case.wait_for_status(120, "AllDecisionsScheduled").await;
    assert_eq!(case.slices().await, [slice(1, 100), slice(2, 20)]);
    let few = case.selected().await;
    case.merge(json!({"spec": {"numberOfClusters": 5}})).await;
    case.wait_for_status(5, "AllDecisionsScheduled").await;
    assert_eq!(case.slices().await, [slice(1, 5)]);
    assert!(
        case.selected().await.iter().all(|selected| few.contains(selected)),
        "selected clusters stay selected"
    );
    case.merge(json!({"spec": {"numberOfClusters": 200}})).await;
    let placement = case.wait_for_status(150, "NotAllDecisionsScheduled").await;
    assert_eq!(
        condition(&placement, "PlacementSatisfied")["message"],
        "150 of 200 requested clusters are selected: of 150 clusters in the sets."
    );
    case.merge(json!({"spec": {"numberOfClusters": 0}})).await;
    case.wait_for_status(0, "AllDecisionsScheduled").await;
    assert_eq!(case.slices().await, [slice(1, 0)], "there is always one decision");
}

pub(crate) async fn tainted_clusters_are_not_selected(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b", "c"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let (all, two) = (
        fixture.create_placement(json!({})).await,
        fixture.create_placement(json!({"numberOfClusters": 2})).await,
    );
    all.wait_for_selection(&["a", "b", "c"]).await;
    two.wait_for_selection(&["a", "b"]).await;

    fixture.taint("a", "NoSelect", SignedDuration::ZERO).await;
    all.wait_for_selection(&["b", "c"]).await;
    two.wait_for_selection(&["b", "c"]).await;
    fixture.taint("a", "NoSelectIfNew", SignedDuration::ZERO).await;
    fixture.taint("b", "NoSelectIfNew", SignedDuration::ZERO).await;
    fixture.wait_for_reconcile().await;
    all.wait_for_selection(&["b", "c"]).await;
    let late = fixture.create_placement(json!({})).await;
    late.wait_for_selection(&["c"]).await;
    fixture.taint("a", "PreferNoSelect", SignedDuration::ZERO).await;
    all.wait_for_selection(&["a", "b", "c"]).await;
    two.wait_for_selection(&["b", "c"]).await;
    fixture.taint("c", "PreferNoSelect", SignedDuration::ZERO).await;
    fixture.untaint("a").await;
    two.wait_for_selection(&["a", "b"]).await;
}

pub(crate) async fn expired_toleration_deselects_cluster(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let tolerations = json!([{"key": "t", "operator": "Exists", "tolerationSeconds": 5}]);
    let case = fixture.create_placement(json!({"tolerations": tolerations})).await;
    case.wait_for_selection(&["a", "b"]).await;
    let start = fixture.now();
    fixture.taint("a", "NoSelect", SignedDuration::ZERO).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(case.selected().await, ["a", "b"]);
    case.wait_for_selection(&["b"]).await;
    // timeAdded has whole seconds, so the taint may be up to a second older.
    let passed = fixture.now().duration_since(start);
    assert!(passed >= SignedDuration::from_secs(4), "the toleration ended after {passed:?}");
    assert!(passed < SignedDuration::from_secs(10), "the toleration ended after {passed:?}");
    let found = condition(&case.read().await, "PlacementSatisfied");
    assert_eq!(
        found["message"],
        "1 cluster is selected: of 2 clusters in the sets, 1 is tainted and not tolerated."
    );
}

pub(crate) async fn deleted_binding_clears_selection(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({"clusterSets": [fixture.set]})).await;
    case.wait_for_selection(&["a", "b"]).await;
    cluster.delete(format!("{}/{}", fixture.bindings(), fixture.set)).await.expect(200);
    case.wait_for_status(0, "NoManagedClusterSetBindings").await;
    assert_eq!(case.slices().await, [slice(1, 0)]);
    fixture.bind().await;
    case.wait_for_selection(&["a", "b"]).await;
    case.merge(json!({"spec": {"clusterSets": ["another"]}})).await;
    case.wait_for_status(0, "NoIntersection").await;
}

pub(crate) async fn decision_groups_are_reported_in_order(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    for name in ["a", "b", "c", "d", "e"] {
        let labels = if ["b", "d"].contains(&name) { json!({"canary": "true"}) } else { json!({}) };
        fixture.create_cluster(name, labels, json!({})).await;
    }
    let _tap = fixture.start_placement_controller();
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let strategy = json!({"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": 2}});
    let case = fixture.create_placement(json!({"decisionStrategy": strategy})).await;
    let placement = case.wait_for_status(5, "AllDecisionsScheduled").await;
    let groups: Vec<(i64, String, i64)> = placement["status"]["decisionGroups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| {
            let number = |member: &str| group[member].as_i64().unwrap_or_default();
            (number("decisionGroupIndex"), text(&group["decisionGroupName"]), number("clusterCount"))
        })
        .collect();
    assert_eq!(groups, [(0, "canary".into(), 2), (1, String::new(), 2), (2, String::new(), 1)]);
    let shape = case.slices().await;
    let found: Vec<(&str, &str, usize)> =
        shape.iter().map(|(_, index, name, count)| (index.as_str(), name.as_str(), *count)).collect();
    assert_eq!(found, [("0", "canary", 2), ("1", "", 2), ("2", "", 1)]);
}

pub(crate) async fn clusters_selected_by_others_come_last(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b", "c", "d"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let one = fixture.create_placement(json!({"numberOfClusters": 2})).await;
    one.wait_for_selection(&["a", "b"]).await;
    fixture.wait_for_reconcile().await;
    let other = fixture.create_placement(json!({"numberOfClusters": 2})).await;
    other.wait_for_selection(&["c", "d"]).await;
    fixture.wait_for_reconcile().await;
    one.wait_for_selection(&["a", "b"]).await;
}

pub(crate) async fn invalid_placement_keeps_decisions(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    let _tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    case.wait_for_selection(&["a", "b"]).await;
    let cel = json!([{"requiredClusterSelector": {"celSelector": {"celExpressions": ["false"]}}}]);
    case.merge(json!({"spec": {"predicates": cel}})).await;
    let placement = case.wait_for_status(2, "NotAllDecisionsScheduled").await;
    let found = condition(&placement, "PlacementMisconfigured");
    assert_eq!((&found["status"], &found["reason"]), (&json!("True"), &json!("Misconfigured")));
    fixture.create_clusters(["c".to_owned()]).await;
    fixture.wait_for_reconcile().await;
    assert_eq!(case.selected().await, ["a", "b"], "no cluster is newly selected");
    case.merge(json!({"spec": {"predicates": Value::Null}})).await;
    case.wait_for_selection(&["a", "b", "c"]).await;
    let placement = case.wait_for_status(3, "AllDecisionsScheduled").await;
    assert_eq!(condition(&placement, "PlacementMisconfigured")["status"], "False");
}

pub(crate) async fn placement_with_disabled_scheduling_is_ignored(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.create_clusters(["a".to_owned()]).await;
    let _tap = fixture.start_placement_controller();
    let case = fixture.create_placement(json!({})).await;
    case.wait_for_selection(&["a"]).await;
    let annotation = "cluster.open-cluster-management.io/experimental-scheduling-disable";
    case.merge(json!({"metadata": {"annotations": {annotation: "true"}}})).await;
    fixture.create_clusters(["b".to_owned()]).await;
    fixture.wait_for_reconcile().await;
    assert_eq!(case.selected().await, ["a"]);
    case.merge(json!({"metadata": {"annotations": {annotation: Value::Null}}})).await;
    case.wait_for_selection(&["a", "b"]).await;
}
