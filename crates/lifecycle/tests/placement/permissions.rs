//! The Roles in `deploy/hub` are enough: each controller runs with its identity of production, and no request is denied.

use bellwether_lifecycle::{clusters, placement};
use bellwether_testkit::rights::{Refusals, grant};
use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::clusters::UNREACHABLE;
use crate::fixture::Fixture;

const ROLES: &str = include_str!("../../../../deploy/hub/roles.yaml");
const CONTROLLERS: [(&str, &str); 4] = [
    (clusters::CLUSTERS, "/apis/cluster.open-cluster-management.io/v1/managedclusters"),
    (clusters::CLUSTER_SETS, "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"),
    (
        clusters::CLUSTER_SET_BINDINGS,
        "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersetbindings",
    ),
    (placement::NAME, "/apis/cluster.open-cluster-management.io/v1beta1/placements"),
];

pub(crate) async fn each_controller_has_required_permissions(cluster: &Cluster) {
    grant(cluster, ROLES, &CONTROLLERS).await;
    let fixture = Fixture::new(cluster).await;
    let refusals = Refusals::default();
    fixture.start_all_controllers(|controller| refusals.client(&cluster.client(), controller));
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let case = fixture.create_placement(json!({})).await;
    fixture.create_available_cluster("a").await;
    fixture.create_available_cluster("b").await;
    case.wait_for_selection(&["a", "b"]).await;
    // A label change adds a decision and later removes it, so every kind of write is made.
    cluster
        .merge(fixture.cluster_path("b"), &json!({"metadata": {"labels": {"canary": "true"}}}))
        .await
        .expect(200);
    let groups = json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}});
    case.merge(json!({"spec": groups})).await;
    case.wait_for_status(2, "AllDecisionsScheduled").await;
    assert_eq!(case.slices().await.len(), 2);
    fixture.stop_agent("a");
    fixture.stop_agent("b");
    fixture.wait_for_taints("a", &[UNREACHABLE]).await;
    fixture.wait_for_taints("b", &[UNREACHABLE]).await;
    case.wait_for_status(0, "NoManagedClusterMatched").await;
    cluster.delete(case.path()).await.expect(200);
    eventually("the placement is deleted", || async {
        (cluster.get(case.path()).await.status == 404).then_some(())
    })
    .await;
    fixture.wait_for_set_and_binding("False", "True").await;
    fixture.delete_cluster_with_contents("a").await;
    assert_eq!(refusals.all(), Vec::<String>::new());
}
