//! The rights in `deploy/hub` are enough: each controller as whom it is in production, and nobody is refused anything.

use bellwether_lifecycle::{clusters, placement};
use bellwether_testkit::rights::{Refusals, grant};
use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::clusters::UNREACHABLE;
use crate::stage::Stage;

const RIGHTS: &str = include_str!("../../../../deploy/hub/roles.yaml");
const FIRST: [(&str, &str); 4] = [
    (clusters::CLUSTERS, "/apis/cluster.open-cluster-management.io/v1/managedclusters"),
    (clusters::CLUSTER_SETS, "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersets"),
    (
        clusters::CLUSTER_SET_BINDINGS,
        "/apis/cluster.open-cluster-management.io/v1beta2/managedclustersetbindings",
    ),
    (placement::NAME, "/apis/cluster.open-cluster-management.io/v1beta1/placements"),
];

pub(crate) async fn each_controller_has_required_permissions(cluster: &Cluster) {
    grant(cluster, RIGHTS, &FIRST).await;
    let stage = Stage::new(cluster).await;
    let refusals = Refusals::default();
    stage.run_as(|controller| refusals.client(&cluster.client(), controller));
    let canary = json!({"groupName": "canary", "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
    let case = stage.placement(json!({})).await;
    stage.well("a").await;
    stage.well("b").await;
    case.until_chosen(&["a", "b"]).await;
    // Labels change, a decision comes and goes, and with it all there is to write.
    cluster
        .merge(stage.cluster_path("b"), &json!({"metadata": {"labels": {"canary": "true"}}}))
        .await
        .expect(200);
    let groups = json!({"decisionStrategy": {"groupStrategy": {"decisionGroups": [canary]}}});
    case.merge(json!({"spec": groups})).await;
    case.until(2, "AllDecisionsScheduled").await;
    assert_eq!(case.shape().await.len(), 2);
    stage.until_tainted("a", &[UNREACHABLE]).await;
    stage.until_tainted("b", &[UNREACHABLE]).await;
    case.until(0, "NoManagedClusterMatched").await;
    cluster.delete(case.path()).await.expect(200);
    eventually("the placement is gone", || async {
        (cluster.get(case.path()).await.status == 404).then_some(())
    })
    .await;
    stage.until_set_and_binding_say("False", "True").await;
    stage.leave_with_all("a").await;
    assert_eq!(refusals.all(), Vec::<String>::new());
}
