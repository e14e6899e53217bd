//! The agent renews the Lease of its cluster, and reports the cluster's status.

use bellwether_agent::lease;
use bellwether_testkit::Tap;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, condition};

fn start_lease_renewal(fixture: &Fixture<'_>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(fixture.agent(), fixture.context()));
    tasks
}

const AVAILABLE: &str = "ManagedClusterConditionAvailable";

pub(crate) async fn lease_is_renewed_and_cluster_status_reported_once(fixture: &Fixture<'_>) {
    fixture.create_cluster(json!({"hubAcceptsClient": true, "leaseDurationSeconds": 1})).await;
    let accepted = json!({"status": {"conditions": [{"type": "HubAcceptedManagedCluster", "status": "True",
        "reason": "HubClusterAdminAccepted", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
        "clusterClaims": [{"name": "region", "value": "north"}]}});
    fixture.hub.merge(format!("{}/status", fixture.cluster_path()), &accepted).await.expect(200);
    let (hub, tap) = Tap::on(fixture.hub.client());
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(fixture.agent_with(hub), fixture.context()));
    let joined =
        |cluster: &Value| (condition(cluster, AVAILABLE)["status"] == "True").then(|| cluster.clone());
    let cluster = fixture.wait_for(&fixture.cluster_path(), "is available", joined).await;
    assert_eq!(condition(&cluster, AVAILABLE)["reason"], "ManagedClusterAvailable");
    assert_eq!(condition(&cluster, "ManagedClusterJoined")["status"], "True");
    assert_eq!(condition(&cluster, "HubAcceptedManagedCluster")["status"], "True");
    let version = cluster["status"]["version"]["kubernetes"].as_str().unwrap();
    assert!(version.starts_with("v1."), "{version}");
    let claims = cluster["status"]["clusterClaims"].as_array().unwrap();
    let claim = |name: &str| claims.iter().find(|claim| claim["name"] == name).unwrap()["value"].clone();
    assert_eq!(claim("id.k8s.io"), fixture.cluster.as_str());
    assert_eq!(claim("kubeversion.open-cluster-management.io"), version);
    assert_eq!(claim("region"), "north");

    let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str().map(str::to_owned);
    let first = fixture.wait_for(&fixture.lease_path(), "exists", renewed).await;
    let later = |lease: &Value| renewed(lease).filter(|time| *time > first);
    fixture.wait_for(&fixture.lease_path(), "is renewed", later).await;
    let lease = fixture.hub.get(fixture.lease_path()).await.expect(200);
    assert_eq!(
        (&lease["spec"]["leaseDurationSeconds"], &lease["spec"]["holderIdentity"]),
        (&json!(1), &json!("agent"))
    );
    fixture.sleep(60).await;
    let statuses = tap.writes().into_iter().filter(|write| write.path.contains("managedclusters")).count();
    assert_eq!(statuses, 1, "the same status is not written again");
}

pub(crate) async fn lease_is_not_created_before_the_cluster_is_accepted(fixture: &Fixture<'_>) {
    let context = fixture.context();
    let health = context.health.clone();
    let mut tasks = JoinSet::new();
    tasks.spawn(lease::run(fixture.agent(), context));
    fixture.sleep(20).await;
    let not_ready = health.not_ready();
    assert!(not_ready[0].1.contains("has no ManagedCluster"), "{not_ready:?}");
    fixture.create_cluster(json!({"hubAcceptsClient": false})).await;
    fixture.sleep(60).await;
    assert_eq!(fixture.hub.get(fixture.lease_path()).await.status, 404);
    assert!(!health.not_ready().is_empty());
    fixture.hub.merge(fixture.cluster_path(), &json!({"spec": {"hubAcceptsClient": true}})).await.expect(200);
    let exists = |lease: &Value| lease["spec"]["renewTime"].is_string().then_some(());
    fixture.wait_for(&fixture.lease_path(), "exists", exists).await;
    fixture.sleep(5).await;
    assert_eq!(health.not_ready(), []);
}

pub(crate) async fn unreachable_cluster_becomes_available_again(fixture: &Fixture<'_>) {
    fixture.create_cluster(json!({"hubAcceptsClient": true, "leaseDurationSeconds": 1})).await;
    let _agent = start_lease_renewal(fixture);
    let is_up = |cluster: &Value| (condition(cluster, AVAILABLE)["status"] == "True").then_some(());
    fixture.wait_for(&fixture.cluster_path(), "is available", is_up).await;
    let cluster = fixture.hub.get(fixture.cluster_path()).await.expect(200);
    let mut conditions = cluster["status"]["conditions"].clone();
    for entry in conditions.as_array_mut().unwrap() {
        if entry["type"] == AVAILABLE {
            entry["status"] = json!("Unknown");
            entry["reason"] = json!("ManagedClusterLeaseUpdateStopped");
        }
    }
    let unreachable = json!({"status": {"conditions": conditions}});
    fixture.hub.merge(format!("{}/status", fixture.cluster_path()), &unreachable).await.expect(200);
    fixture.wait_for(&fixture.cluster_path(), "is available again", is_up).await;
}
