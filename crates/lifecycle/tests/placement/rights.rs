//! The rights in `deploy/hub` are enough: each controller as whom it is in production, and nobody is refused anything.

use std::sync::Arc;

use bellwether_lifecycle::{clusters, placement};
use bellwether_testkit::{Call, Cluster, eventually};
use http::{HeaderValue, Request};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clusters::UNREACHABLE;
use crate::stage::Stage;

const RIGHTS: &str = include_str!("../../../../deploy/hub/rbac-place.yaml");
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// What was refused to whom.
#[derive(Clone, Default)]
pub(crate) struct Refusals(Arc<Mutex<Vec<String>>>);

impl Refusals {
    /// A client of a controller as it is in production, by its name.
    pub(crate) fn client(&self, client: &kube::Client, controller: &str) -> kube::Client {
        let (client, refusals, user) = (client.clone(), self.clone(), user(controller));
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (client, refusals, user) = (client.clone(), refusals.clone(), user.clone());
            async move {
                let asked = format!("{user}: {} {}", request.method(), request.uri());
                request.headers_mut().insert("impersonate-user", HeaderValue::from_str(&user).unwrap());
                let answer = client.send(request).await?;
                if answer.status() == 403 {
                    refusals.0.lock().push(asked);
                }
                Ok::<_, kube::Error>(answer)
            }
        });
        kube::Client::new(service, "default")
    }
}

fn user(controller: &str) -> String {
    format!("bellwether:{controller}")
}

/// Gives the rights to users of the names of the controllers, and waits until they have them.
async fn grant(cluster: &Cluster) {
    for role in RIGHTS.split("\n---\n") {
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let name = role["metadata"]["name"].clone();
        cluster.post(format!("{RBAC}/clusterroles"), &role).await.expect(201);
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        cluster.post(format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    }
    let first = [
        (clusters::CLUSTERS, "v1/managedclusters"),
        (clusters::CLUSTER_SETS, "v1beta2/managedclustersets"),
        (clusters::CLUSTER_SET_BINDINGS, "v1beta2/managedclustersetbindings"),
        (placement::NAME, "v1beta1/placements"),
    ];
    for (controller, kind) in first {
        let path = format!("/apis/cluster.open-cluster-management.io/{kind}");
        eventually(&format!("{controller} has its rights"), || async {
            let call = Call::get(&path).header("impersonate-user", &user(controller));
            (cluster.send(call).await.status == 200).then_some(())
        })
        .await;
    }
}

pub(crate) async fn each_controller_has_the_rights_that_it_needs(cluster: &Cluster) {
    grant(cluster).await;
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
    assert_eq!(*refusals.0.lock(), Vec::<String>::new());
}
