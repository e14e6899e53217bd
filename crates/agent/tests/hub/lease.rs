//! A cluster says that it is in reach.

use bellwether_agent::lease;
use bellwether_testkit::Tap;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{Stage, condition};

fn run(stage: &Stage<'_>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(stage.agent(), stage.context()));
    tasks
}

const AVAILABLE: &str = "ManagedClusterConditionAvailable";

pub(crate) async fn a_cluster_says_that_it_is_in_reach_and_what_it_is(stage: &Stage<'_>) {
    stage.join(json!({"hubAcceptsClient": true, "leaseDurationSeconds": 1})).await;
    let accepted = json!({"status": {"conditions": [{"type": "HubAcceptedManagedCluster", "status": "True",
        "reason": "HubClusterAdminAccepted", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
        "clusterClaims": [{"name": "region", "value": "north"}]}});
    stage.hub.merge(format!("{}/status", stage.cluster_path()), &accepted).await.expect(200);
    let (hub, tap) = Tap::on(stage.hub.client());
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(stage.agent_by(hub), stage.context()));
    let joined =
        |cluster: &Value| (condition(cluster, AVAILABLE)["status"] == "True").then(|| cluster.clone());
    let cluster = stage.until(&stage.cluster_path(), "is available", joined).await;
    assert_eq!(condition(&cluster, AVAILABLE)["reason"], "ManagedClusterAvailable");
    assert_eq!(condition(&cluster, "ManagedClusterJoined")["status"], "True");
    assert_eq!(condition(&cluster, "HubAcceptedManagedCluster")["status"], "True");
    let version = cluster["status"]["version"]["kubernetes"].as_str().unwrap();
    assert!(version.starts_with("v1."), "{version}");
    let claims = cluster["status"]["clusterClaims"].as_array().unwrap();
    let claim = |name: &str| claims.iter().find(|claim| claim["name"] == name).unwrap()["value"].clone();
    assert_eq!(claim("id.k8s.io"), stage.cluster.as_str());
    assert_eq!(claim("kubeversion.open-cluster-management.io"), version);
    assert_eq!(claim("region"), "north");

    let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str().map(str::to_owned);
    let first = stage.until(&stage.lease_path(), "is there", renewed).await;
    let later = |lease: &Value| renewed(lease).filter(|time| *time > first);
    stage.until(&stage.lease_path(), "is renewed", later).await;
    let lease = stage.hub.get(stage.lease_path()).await.expect(200);
    assert_eq!(
        (&lease["spec"]["leaseDurationSeconds"], &lease["spec"]["holderIdentity"]),
        (&json!(1), &json!("agent"))
    );
    stage.pass(60).await;
    let statuses = tap.writes().into_iter().filter(|write| write.path.contains("managedclusters")).count();
    assert_eq!(statuses, 1, "what is known is not said again");
}

pub(crate) async fn a_cluster_that_is_not_accepted_says_nothing(stage: &Stage<'_>) {
    let context = stage.context();
    let health = context.health.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(stage.agent(), context));
    stage.pass(20).await;
    let troubles = health.not_ready();
    assert!(troubles[0].1.contains("has no ManagedCluster"), "{troubles:?}");
    stage.join(json!({"hubAcceptsClient": false})).await;
    stage.pass(60).await;
    assert_eq!(stage.hub.get(stage.lease_path()).await.status, 404);
    assert!(!health.not_ready().is_empty());
    stage.hub.merge(stage.cluster_path(), &json!({"spec": {"hubAcceptsClient": true}})).await.expect(200);
    let there = |lease: &Value| lease["spec"]["renewTime"].is_string().then_some(());
    stage.until(&stage.lease_path(), "is there", there).await;
    stage.pass(5).await;
    assert_eq!(health.not_ready(), []);
}

pub(crate) async fn a_cluster_that_counted_as_lost_is_back(stage: &Stage<'_>) {
    stage.join(json!({"hubAcceptsClient": true, "leaseDurationSeconds": 1})).await;
    let _agent = run(stage);
    let is_up = |cluster: &Value| (condition(cluster, AVAILABLE)["status"] == "True").then_some(());
    stage.until(&stage.cluster_path(), "is available", is_up).await;
    let cluster = stage.hub.get(stage.cluster_path()).await.expect(200);
    let mut conditions = cluster["status"]["conditions"].clone();
    for held in conditions.as_array_mut().unwrap() {
        if held["type"] == AVAILABLE {
            held["status"] = json!("Unknown");
            held["reason"] = json!("ManagedClusterLeaseUpdateStopped");
        }
    }
    let lost = json!({"status": {"conditions": conditions}});
    stage.hub.merge(format!("{}/status", stage.cluster_path()), &lost).await.expect(200);
    stage.until(&stage.cluster_path(), "is available again", is_up).await;
}
