//! What is chosen, and that it follows what there is.

use bellwether_testkit::Cluster;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::stage::{Stage, condition, numbered, text};

fn slice(number: usize, clusters: usize) -> (String, String, String, usize) {
    (format!("decision-{number}"), "0".into(), String::new(), clusters)
}

pub(crate) async fn requested_number_is_selected_in_slices_of_a_hundred(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(numbered(1..=150)).await;
    let _tap = stage.place();
    let case = stage.placement(json!({})).await;
    let placement = case.until(150, "AllDecisionsScheduled").await;
    assert_eq!(case.shape().await, [slice(1, 100), slice(2, 50)]);
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
    case.until(120, "AllDecisionsScheduled").await;
    assert_eq!(case.shape().await, [slice(1, 100), slice(2, 20)]);
    let few = case.chosen().await;
    case.merge(json!({"spec": {"numberOfClusters": 5}})).await;
    case.until(5, "AllDecisionsScheduled").await;
    assert_eq!(case.shape().await, [slice(1, 5)]);
    assert!(case.chosen().await.iter().all(|chosen| few.contains(chosen)), "those that were chosen stay");
    case.merge(json!({"spec": {"numberOfClusters": 200}})).await;
    let placement = case.until(150, "NotAllDecisionsScheduled").await;
    assert_eq!(
        condition(&placement, "PlacementSatisfied")["message"],
        "150 of 200 requested clusters are selected: of 150 clusters in the sets."
    );
    case.merge(json!({"spec": {"numberOfClusters": 0}})).await;
    case.until(0, "AllDecisionsScheduled").await;
    assert_eq!(case.shape().await, [slice(1, 0)], "one decision is always there");
}

pub(crate) async fn tainted_clusters_are_not_selected(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b", "c"].map(str::to_owned)).await;
    let _tap = stage.place();
    let (all, two) =
        (stage.placement(json!({})).await, stage.placement(json!({"numberOfClusters": 2})).await);
    all.until_chosen(&["a", "b", "c"]).await;
    two.until_chosen(&["a", "b"]).await;

    stage.taint("a", "NoSelect", SignedDuration::ZERO).await;
    all.until_chosen(&["b", "c"]).await;
    two.until_chosen(&["b", "c"]).await;
    stage.taint("a", "NoSelectIfNew", SignedDuration::ZERO).await;
    stage.taint("b", "NoSelectIfNew", SignedDuration::ZERO).await;
    stage.pass().await;
    all.until_chosen(&["b", "c"]).await;
    let late = stage.placement(json!({})).await;
    late.until_chosen(&["c"]).await;
    stage.taint("a", "PreferNoSelect", SignedDuration::ZERO).await;
    all.until_chosen(&["a", "b", "c"]).await;
    two.until_chosen(&["b", "c"]).await;
    stage.taint("c", "PreferNoSelect", SignedDuration::ZERO).await;
    stage.untaint("a").await;
    two.until_chosen(&["a", "b"]).await;
}

pub(crate) async fn expired_toleration_deselects_cluster(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    let _tap = stage.place();
    let tolerations = json!([{"key": "t", "operator": "Exists", "tolerationSeconds": 5}]);
    let case = stage.placement(json!({"tolerations": tolerations})).await;
    case.until_chosen(&["a", "b"]).await;
    let begun = stage.now();
    stage.taint("a", "NoSelect", SignedDuration::ZERO).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(case.chosen().await, ["a", "b"]);
    case.until_chosen(&["b"]).await;
    // The taint has whole seconds, and so may be up to one older.
    let passed = stage.now().duration_since(begun);
    assert!(passed >= SignedDuration::from_secs(4), "it ended after {passed:?}");
    assert!(passed < SignedDuration::from_secs(10), "it ended after {passed:?}");
    let said = condition(&case.read().await, "PlacementSatisfied");
    assert_eq!(
        said["message"],
        "1 cluster is selected: of 2 clusters in the sets, 1 is tainted and not tolerated."
    );
}

pub(crate) async fn deleted_binding_clears_selection(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    let _tap = stage.place();
    let case = stage.placement(json!({"clusterSets": [stage.set]})).await;
    case.until_chosen(&["a", "b"]).await;
    cluster.delete(format!("{}/{}", stage.bindings(), stage.set)).await.expect(200);
    case.until(0, "NoManagedClusterSetBindings").await;
    assert_eq!(case.shape().await, [slice(1, 0)]);
    stage.bind().await;
    case.until_chosen(&["a", "b"]).await;
    case.merge(json!({"spec": {"clusterSets": ["another"]}})).await;
    case.until(0, "NoIntersection").await;
}

pub(crate) async fn decision_groups_are_reported_in_order(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    for name in ["a", "b", "c", "d", "e"] {
        let labels = if ["b", "d"].contains(&name) { json!({"canary": "true"}) } else { json!({}) };
        stage.join_with(name, labels, json!({})).await;
    }
    let _tap = stage.place();
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let strategy = json!({"groupStrategy": {"decisionGroups": [canary], "clustersPerDecisionGroup": 2}});
    let case = stage.placement(json!({"decisionStrategy": strategy})).await;
    let placement = case.until(5, "AllDecisionsScheduled").await;
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
    let shape = case.shape().await;
    let found: Vec<(&str, &str, usize)> =
        shape.iter().map(|(_, index, name, count)| (index.as_str(), name.as_str(), *count)).collect();
    assert_eq!(found, [("0", "canary", 2), ("1", "", 2), ("2", "", 1)]);
}

pub(crate) async fn clusters_selected_by_others_come_last(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b", "c", "d"].map(str::to_owned)).await;
    let _tap = stage.place();
    let one = stage.placement(json!({"numberOfClusters": 2})).await;
    one.until_chosen(&["a", "b"]).await;
    stage.pass().await;
    let other = stage.placement(json!({"numberOfClusters": 2})).await;
    other.until_chosen(&["c", "d"]).await;
    stage.pass().await;
    one.until_chosen(&["a", "b"]).await;
}

pub(crate) async fn invalid_placement_keeps_decisions(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    let _tap = stage.place();
    let case = stage.placement(json!({})).await;
    case.until_chosen(&["a", "b"]).await;
    let cel = json!([{"requiredClusterSelector": {"celSelector": {"celExpressions": ["false"]}}}]);
    case.merge(json!({"spec": {"predicates": cel}})).await;
    let placement = case.until(2, "NotAllDecisionsScheduled").await;
    let said = condition(&placement, "PlacementMisconfigured");
    assert_eq!((&said["status"], &said["reason"]), (&json!("True"), &json!("Misconfigured")));
    stage.join(["c".to_owned()]).await;
    stage.pass().await;
    assert_eq!(case.chosen().await, ["a", "b"], "nobody is chosen anew");
    case.merge(json!({"spec": {"predicates": Value::Null}})).await;
    case.until_chosen(&["a", "b", "c"]).await;
    let placement = case.until(3, "AllDecisionsScheduled").await;
    assert_eq!(condition(&placement, "PlacementMisconfigured")["status"], "False");
}

pub(crate) async fn placement_with_disabled_scheduling_is_ignored(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.join(["a".to_owned()]).await;
    let _tap = stage.place();
    let case = stage.placement(json!({})).await;
    case.until_chosen(&["a"]).await;
    let annotation = "cluster.open-cluster-management.io/experimental-scheduling-disable";
    case.merge(json!({"metadata": {"annotations": {annotation: "true"}}})).await;
    stage.join(["b".to_owned()]).await;
    stage.pass().await;
    assert_eq!(case.chosen().await, ["a"]);
    case.merge(json!({"metadata": {"annotations": {annotation: Value::Null}}})).await;
    case.until_chosen(&["a", "b"]).await;
}
