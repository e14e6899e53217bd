//! The conditions and taints of clusters by acceptance and Leases, their deletion, and the conditions of sets and bindings.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_runtime::Leadership;
use bellwether_testkit::{Cluster, Tap, eventually};
use serde_json::json;

use crate::fixture::{Fixture, V1BETA2, condition};

const ACCEPTED: &str = "HubAcceptedManagedCluster";
const AVAILABLE: &str = "ManagedClusterConditionAvailable";
const UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";
pub(crate) const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";

/// The lease duration of clusters. A cluster is unreachable after five of them without a renewal.
fn lease_seconds(cluster: &Cluster) -> u64 {
    if cluster.is_kubernetes() { 1 } else { 4 }
}

impl Fixture<'_> {
    /// Creates an accepted cluster whose agent renews its Lease and reports it as available.
    pub(crate) async fn create_available_cluster(&self, name: &str) {
        let spec = json!({"hubAcceptsClient": true, "leaseDurationSeconds": lease_seconds(self.cluster)});
        self.create_cluster(name, json!({}), spec).await;
        self.wait_for_cluster_condition(name, ACCEPTED, "True/HubClusterAdminAccepted").await;
        self.start_agent(name);
        self.report_availability(name, "True").await;
        self.wait_for_taints(name, &[]).await;
    }

    /// Waits until the set has this status of ClusterSetEmpty, and its binding this status of Bound.
    pub(crate) async fn wait_for_set_and_binding(&self, empty: &str, bound: &str) {
        let set = format!("{V1BETA2}/managedclustersets/{}", self.set);
        let binding = format!("{}/{}", self.bindings(), self.set);
        for (path, kind, wanted) in [(set, "ClusterSetEmpty", empty), (binding, "Bound", bound)] {
            eventually(&format!("{path} has {kind}={wanted}"), || async {
                let found = condition(&self.cluster.get(&path).await.json(), kind);
                (found["status"] == wanted).then_some(())
            })
            .await;
        }
    }
}

pub(crate) async fn accepted_cluster_gets_namespace(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let _tap = fixture.start_cluster_controllers();
    fixture.create_clusters(["a".to_owned()]).await;
    fixture.wait_for_cluster_condition("a", ACCEPTED, "False/HubClusterAdminDenied").await;
    fixture.wait_for_taints("a", &[UNREACHABLE]).await;
    let namespace = format!("/api/v1/namespaces/{}", fixture.cluster_name("a"));
    assert_eq!(cluster.get(&namespace).await.status, 404);
    let accept = |accepts: bool| json!({"spec": {"hubAcceptsClient": accepts}});
    cluster.merge(fixture.cluster_path("a"), &accept(true)).await.expect(200);
    fixture.wait_for_cluster_condition("a", ACCEPTED, "True/HubClusterAdminAccepted").await;
    let found = cluster.get(&namespace).await.expect(200);
    assert_eq!(
        found["metadata"]["labels"]["open-cluster-management.io/cluster-name"],
        fixture.cluster_name("a")
    );
    let uid = found["metadata"]["uid"].clone();
    cluster.delete(&namespace).await.expect(200);
    eventually("the namespace is created again", || async {
        let answer = cluster.get(&namespace).await;
        (answer.status == 200 && answer.json()["metadata"]["uid"] != uid).then_some(())
    })
    .await;
    cluster.merge(fixture.cluster_path("a"), &accept(false)).await.expect(200);
    fixture.wait_for_cluster_condition("a", ACCEPTED, "False/HubClusterAdminDenied").await;
}

pub(crate) async fn expired_lease_taints_cluster_until_it_returns(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.start_placement_controller();
    fixture.start_cluster_controllers();
    let case = fixture.create_placement(json!({})).await;
    fixture.create_available_cluster("a").await;
    fixture.create_available_cluster("b").await;
    case.wait_for_selection(&["a", "b"]).await;

    fixture.stop_agent("a");
    fixture.wait_for_cluster_condition("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
    fixture.wait_for_taints("a", &[UNREACHABLE]).await;
    assert!(fixture.read_cluster("a").await["spec"]["taints"][0]["timeAdded"].is_string());
    fixture.wait_for_cluster_condition("b", AVAILABLE, "True/ManagedClusterAvailable").await;
    case.wait_for_selection(&["b"]).await;

    // The agent sets the condition before it renews its Lease, which is enough.
    fixture.report_availability("a", "True").await;
    fixture.wait_for_taints("a", &[]).await;
    fixture.start_agent("a");
    case.wait_for_selection(&["a", "b"]).await;
    fixture.report_availability("a", "False").await;
    fixture.wait_for_taints("a", &[UNAVAILABLE]).await;
    fixture.report_availability("a", "True").await;
    fixture.wait_for_taints("a", &[]).await;
    fixture.wait_for_cluster_condition("a", AVAILABLE, "True/ManagedClusterAvailable").await;
}

pub(crate) async fn restart_makes_no_cluster_unreachable(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.start_cluster_controllers();
    fixture.create_available_cluster("a").await;
    fixture.stop_controllers();
    fixture.stop_agent("a");
    // The hub is down for the whole grace period.
    let limit = Duration::from_secs(lease_seconds(cluster) * 5);
    tokio::time::sleep(limit + Duration::from_secs(1)).await;
    let version = fixture.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    let start = tokio::time::Instant::now();
    let _tap = fixture.start_cluster_controllers();
    tokio::time::sleep(limit / 2).await;
    assert_eq!(
        fixture.read_cluster("a").await["metadata"]["resourceVersion"],
        version,
        "nothing was written"
    );
    fixture.wait_for_cluster_condition("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
    assert!(start.elapsed() >= limit, "the grace period started again");
    fixture.wait_for_taints("a", &[UNREACHABLE]).await;

    fixture.stop_controllers();
    let version = fixture.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    let tap = fixture.start_cluster_controllers();
    fixture.wait_for_reconcile().await;
    assert_eq!(fixture.read_cluster("a").await["metadata"]["resourceVersion"], version);
    let requests: Vec<_> =
        tap.requests().into_iter().filter(|sent| sent.path.contains(&fixture.set)).collect();
    assert_eq!(requests, [], "after a second restart there is nothing to read or write");
}

impl Fixture<'_> {
    /// Creates an object with a finalizer in the namespace of a cluster, and returns its path.
    async fn create_with_finalizer(&self, cluster: &str, path: &str, kind: &str, name: &str) -> String {
        let group = path.trim_start_matches("/apis/").rsplit_once('/').unwrap().0;
        let version = path.rsplit_once('/').unwrap().1;
        let plural = format!("{}s", kind.to_lowercase());
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": name, "finalizers": ["example.com/hold"]}, "spec": {}});
        let all = format!("{path}/namespaces/{}/{plural}", self.cluster_name(cluster));
        self.cluster.post(&all, &object).await.expect(201);
        format!("{all}/{name}")
    }

    /// Deletes a cluster that has an add-on and a ManifestWork, and removes their finalizers when they are being deleted.
    pub(crate) async fn delete_cluster_with_contents(&self, name: &str) {
        let addons = "/apis/addon.open-cluster-management.io/v1alpha1";
        let addon = self.create_with_finalizer(name, addons, "ManagedClusterAddOn", "hello").await;
        let work = self
            .create_with_finalizer(name, "/apis/work.open-cluster-management.io/v1", "ManifestWork", "w")
            .await;
        self.cluster.delete(self.cluster_path(name)).await.expect(200);
        for path in [addon, work] {
            eventually(&format!("{path} goes"), || async {
                let found = self.cluster.get(&path).await.expect(200);
                found["metadata"]["deletionTimestamp"].is_string().then_some(())
            })
            .await;
            self.cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
        }
        eventually("the cluster is deleted", || async {
            (self.cluster.get(self.cluster_path(name)).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until the condition Deleting of a cluster starts with this `status/reason: message`.
    async fn wait_for_deleting_condition(&self, cluster: &str, wanted: &str) {
        eventually(&format!("{cluster} has the condition Deleting {wanted}"), || async {
            let found = condition(&self.read_cluster(cluster).await, "Deleting");
            let text =
                format!("{}/{}: {}", found["status"], found["reason"], found["message"]).replace('"', "");
            text.starts_with(wanted).then_some(())
        })
        .await;
    }
}

pub(crate) async fn cluster_is_deleted_after_addons_and_works(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.start_cluster_controllers();
    fixture.create_available_cluster("a").await;
    let namespace = format!("/api/v1/namespaces/{}", fixture.cluster_name("a"));
    let addons = "/apis/addon.open-cluster-management.io/v1alpha1";
    let addon = fixture.create_with_finalizer("a", addons, "ManagedClusterAddOn", "hello").await;
    let work = fixture
        .create_with_finalizer("a", "/apis/work.open-cluster-management.io/v1", "ManifestWork", "w")
        .await;
    let remove_finalizers = json!({"metadata": {"finalizers": null}});
    cluster.delete(fixture.cluster_path("a")).await.expect(200);
    let remaining = "False/ResourceRemaining: Still to be deleted: 1 add-on and 1 ManifestWork.";
    fixture.wait_for_deleting_condition("a", remaining).await;
    assert!(cluster.get(&addon).await.expect(200)["metadata"]["deletionTimestamp"].is_string());
    assert!(
        cluster.get(&work).await.expect(200)["metadata"]["deletionTimestamp"].is_null(),
        "ManifestWorks are deleted after add-ons"
    );
    cluster.merge(&addon, &remove_finalizers).await.expect(200);
    fixture
        .wait_for_deleting_condition("a", "False/ResourceRemaining: Still to be deleted: 1 ManifestWork.")
        .await;
    // The agent that must delete the objects is unreachable, which the condition reports.
    fixture.report_availability("a", "Unknown").await;
    let text = "False/ResourceRemaining: Still to be deleted: 1 ManifestWork. The agent of the cluster must do that, and is unreachable. \
        If the cluster will not come back, remove the finalizer \
        cluster.open-cluster-management.io/manifest-work-cleanup from its ManifestWorks;";
    fixture.wait_for_deleting_condition("a", text).await;
    eventually("the ManifestWork is being deleted", || async {
        cluster.get(&work).await.expect(200)["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    cluster.merge(&work, &remove_finalizers).await.expect(200);
    eventually("the cluster is deleted", || async {
        (cluster.get(fixture.cluster_path("a")).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(cluster.get(&namespace).await.expect(200)["status"]["phase"], "Active");
}

pub(crate) async fn standby_writes_nothing_and_takeover_restarts_grace_period(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    fixture.start_cluster_controllers();
    fixture.create_available_cluster("a").await;
    fixture.stop_controllers();
    fixture.stop_agent("a");
    let (leader, leadership) = Leadership::manual();
    let (client, tap) = Tap::on(cluster.client());
    fixture.start_replica(client, leadership);
    let limit = Duration::from_secs(lease_seconds(cluster) * 5);
    tokio::time::sleep(limit + Duration::from_secs(1)).await;
    assert_eq!(tap.writes(), [], "a standby writes nothing");
    let start = tokio::time::Instant::now();
    leader.send(true).unwrap();
    fixture.wait_for_cluster_condition("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
    assert!(start.elapsed() >= limit, "the grace period started again");
}

/// A client whose requests fail while the gate is closed.
fn gated_client(client: kube::Client) -> (kube::Client, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(true));
    let gate = open.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, open) = (client.clone(), gate.load(Ordering::Relaxed));
        async move {
            if !open {
                return Err(kube::Error::Service("no response".into()));
            }
            client.send(request).await
        }
    });
    (kube::Client::new(service, "default"), open)
}

pub(crate) async fn api_outage_makes_no_cluster_unreachable(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let (client, open) = gated_client(cluster.client());
    fixture.start_cluster_controllers_with(client);
    fixture.create_available_cluster("a").await;
    let limit = Duration::from_secs(lease_seconds(cluster) * 5);
    let version = fixture.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    fixture.stop_agent("a");
    open.store(false, Ordering::Relaxed);
    tokio::time::sleep(limit + Duration::from_secs(2)).await;
    open.store(true, Ordering::Relaxed);
    // The agent renews the Lease a little later.
    tokio::time::sleep(Duration::from_secs(2)).await;
    fixture.renew_lease("a").await;
    tokio::time::sleep(limit - Duration::from_secs(2)).await;
    assert_eq!(
        fixture.read_cluster("a").await["metadata"]["resourceVersion"],
        version,
        "nothing was written"
    );
    fixture.wait_for_cluster_condition("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
}

pub(crate) async fn lease_renewals_cause_no_requests(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let tap = fixture.start_cluster_controllers();
    fixture.create_available_cluster("a").await;
    fixture.wait_for_reconcile().await;
    let requests = || tap.requests().into_iter().filter(|sent| sent.path.contains(&fixture.set)).count();
    let before = requests();
    // Twice the grace period.
    tokio::time::sleep(Duration::from_secs(lease_seconds(cluster) * 10)).await;
    assert_eq!(requests(), before, "renewals cause no requests");
    fixture.wait_for_cluster_condition("a", AVAILABLE, "True/ManagedClusterAvailable").await;
}

pub(crate) async fn sets_and_bindings_report_conditions(cluster: &Cluster) {
    let fixture = Fixture::new(cluster).await;
    let _tap = fixture.start_cluster_controllers();
    let set = format!("{V1BETA2}/managedclustersets/{}", fixture.set);
    let binding = format!("{}/{}", fixture.bindings(), fixture.set);
    let wait_for = async |path: &str, kind: &str, status: &str, reason: &str| {
        eventually(&format!("{path} has {kind}={status}/{reason}"), || async {
            let found = condition(&cluster.get(path).await.json(), kind);
            (found["status"] == status && found["reason"] == reason).then_some(())
        })
        .await;
    };
    wait_for(&set, "ClusterSetEmpty", "True", "NoClusterMatched").await;
    wait_for(&binding, "Bound", "True", "ClusterSetBound").await;
    fixture.create_clusters(["a", "b"].map(str::to_owned)).await;
    wait_for(&set, "ClusterSetEmpty", "False", "ClustersSelected").await;
    eventually("both clusters are counted", || async {
        let found = condition(&cluster.get(&set).await.json(), "ClusterSetEmpty");
        (found["message"] == "2 clusters are in the set.").then_some(())
    })
    .await;
    cluster.delete(&set).await.expect(200);
    wait_for(&binding, "Bound", "False", "ClusterSetNotFound").await;
}
