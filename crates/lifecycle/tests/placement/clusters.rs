//! Clusters are accepted, fall silent and come back; sets and bindings say how they are.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::stage::{Stage, V1BETA2, condition};

const ACCEPTED: &str = "HubAcceptedManagedCluster";
const AVAILABLE: &str = "ManagedClusterConditionAvailable";
const UNAVAILABLE: &str = "cluster.open-cluster-management.io/unavailable";
pub(crate) const UNREACHABLE: &str = "cluster.open-cluster-management.io/unreachable";

/// How long leases last; five times as long is how silence is told.
fn lease(cluster: &Cluster) -> u64 {
    if cluster.is_kubernetes() { 1 } else { 4 }
}

impl Stage<'_> {
    /// An accepted cluster that has joined and is well.
    pub(crate) async fn well(&self, name: &str) {
        let spec = json!({"hubAcceptsClient": true, "leaseDurationSeconds": lease(self.cluster)});
        self.join_with(name, json!({}), spec).await;
        self.until_cluster_says(name, ACCEPTED, "True/HubClusterAdminAccepted").await;
        self.renew(name).await;
        self.say_available(name, "True").await;
        self.until_tainted(name, &[]).await;
    }

    /// Waits until the set says whether it is empty, and its binding whether it is bound.
    pub(crate) async fn until_set_and_binding_say(&self, empty: &str, bound: &str) {
        let set = format!("{V1BETA2}/managedclustersets/{}", self.set);
        let binding = format!("{}/{}", self.bindings(), self.set);
        for (path, kind, wanted) in [(set, "ClusterSetEmpty", empty), (binding, "Bound", bound)] {
            eventually(&format!("{path} says {kind}={wanted}"), || async {
                let found = condition(&self.cluster.get(&path).await.json(), kind);
                (found["status"] == wanted).then_some(())
            })
            .await;
        }
    }
}

pub(crate) async fn accepted_cluster_gets_namespace(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let _tap = stage.look_after_clusters();
    stage.join(["a".to_owned()]).await;
    stage.until_cluster_says("a", ACCEPTED, "False/HubClusterAdminDenied").await;
    stage.until_tainted("a", &[UNREACHABLE]).await;
    let namespace = format!("/api/v1/namespaces/{}", stage.name("a"));
    assert_eq!(cluster.get(&namespace).await.status, 404);
    let accept = |accepts: bool| json!({"spec": {"hubAcceptsClient": accepts}});
    cluster.merge(stage.cluster_path("a"), &accept(true)).await.expect(200);
    stage.until_cluster_says("a", ACCEPTED, "True/HubClusterAdminAccepted").await;
    let found = cluster.get(&namespace).await.expect(200);
    assert_eq!(found["metadata"]["labels"]["open-cluster-management.io/cluster-name"], stage.name("a"));
    let uid = found["metadata"]["uid"].clone();
    cluster.delete(&namespace).await.expect(200);
    eventually("the namespace is made again", || async {
        let answer = cluster.get(&namespace).await;
        (answer.status == 200 && answer.json()["metadata"]["uid"] != uid).then_some(())
    })
    .await;
    cluster.merge(stage.cluster_path("a"), &accept(false)).await.expect(200);
    stage.until_cluster_says("a", ACCEPTED, "False/HubClusterAdminDenied").await;
}

pub(crate) async fn expired_lease_taints_cluster_until_it_returns(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.place();
    stage.look_after_clusters();
    let case = stage.placement(json!({})).await;
    stage.well("a").await;
    stage.well("b").await;
    case.until_chosen(&["a", "b"]).await;

    let begun = tokio::time::Instant::now();
    let limit = Duration::from_secs(lease(cluster) * 5);
    while begun.elapsed() < limit + Duration::from_secs(2) {
        stage.renew("b").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    stage.until_cluster_says("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
    stage.until_tainted("a", &[UNREACHABLE]).await;
    assert!(stage.read_cluster("a").await["spec"]["taints"][0]["timeAdded"].is_string());
    stage.until_cluster_says("b", AVAILABLE, "True/ManagedClusterAvailable").await;
    case.until_chosen(&["b"]).await;

    // The agent speaks before it renews its lease, and is believed.
    stage.say_available("a", "True").await;
    stage.until_tainted("a", &[]).await;
    stage.renew("a").await;
    case.until_chosen(&["a", "b"]).await;
    stage.say_available("a", "False").await;
    stage.until_tainted("a", &[UNAVAILABLE]).await;
    stage.say_available("a", "True").await;
    stage.until_tainted("a", &[]).await;
    stage.until_cluster_says("a", AVAILABLE, "True/ManagedClusterAvailable").await;
}

pub(crate) async fn restart_makes_no_cluster_unreachable(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.look_after_clusters();
    stage.well("a").await;
    stage.kill();
    // The hub is down for as long as it takes to be lost.
    let limit = Duration::from_secs(lease(cluster) * 5);
    tokio::time::sleep(limit + Duration::from_secs(1)).await;
    let version = stage.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    let begun = tokio::time::Instant::now();
    let _tap = stage.look_after_clusters();
    tokio::time::sleep(limit / 2).await;
    assert_eq!(stage.read_cluster("a").await["metadata"]["resourceVersion"], version, "nothing was written");
    stage.until_cluster_says("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
    assert!(begun.elapsed() >= limit, "it had its whole time");
    stage.until_tainted("a", &[UNREACHABLE]).await;

    stage.kill();
    let version = stage.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    let tap = stage.look_after_clusters();
    stage.pass().await;
    assert_eq!(stage.read_cluster("a").await["metadata"]["resourceVersion"], version);
    let about: Vec<_> = tap.requests().into_iter().filter(|sent| sent.path.contains(&stage.set)).collect();
    assert_eq!(about, [], "a second restart finds all as it should be");
}

impl Stage<'_> {
    /// An object in the namespace of a cluster, which somebody has to let go.
    async fn hold(&self, cluster: &str, path: &str, kind: &str, name: &str) -> String {
        let group = path.trim_start_matches("/apis/").rsplit_once('/').unwrap().0;
        let version = path.rsplit_once('/').unwrap().1;
        let plural = format!("{}s", kind.to_lowercase());
        let object = json!({"apiVersion": format!("{group}/{version}"), "kind": kind,
            "metadata": {"name": name, "finalizers": ["example.com/hold"]}, "spec": {}});
        let all = format!("{path}/namespaces/{}/{plural}", self.name(cluster));
        self.cluster.post(&all, &object).await.expect(201);
        format!("{all}/{name}")
    }

    /// A cluster goes, and all that belongs to it before it.
    pub(crate) async fn leave_with_all(&self, name: &str) {
        let addons = "/apis/addon.open-cluster-management.io/v1alpha1";
        let addon = self.hold(name, addons, "ManagedClusterAddOn", "hello").await;
        let work = self.hold(name, "/apis/work.open-cluster-management.io/v1", "ManifestWork", "w").await;
        self.cluster.delete(self.cluster_path(name)).await.expect(200);
        for path in [addon, work] {
            eventually(&format!("{path} goes"), || async {
                let found = self.cluster.get(&path).await.expect(200);
                found["metadata"]["deletionTimestamp"].is_string().then_some(())
            })
            .await;
            self.cluster.merge(&path, &json!({"metadata": {"finalizers": null}})).await.expect(200);
        }
        eventually("the cluster is gone", || async {
            (self.cluster.get(self.cluster_path(name)).await.status == 404).then_some(())
        })
        .await;
    }

    /// What a cluster says of its end.
    async fn until_departure(&self, cluster: &str, wanted: &str) {
        eventually(&format!("{cluster} says {wanted}"), || async {
            let said = condition(&self.read_cluster(cluster).await, "Deleting");
            let words =
                format!("{}/{}: {}", said["status"], said["reason"], said["message"]).replace('"', "");
            words.starts_with(wanted).then_some(())
        })
        .await;
    }
}

pub(crate) async fn cluster_is_deleted_after_addons_and_works(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    stage.look_after_clusters();
    stage.well("a").await;
    let namespace = format!("/api/v1/namespaces/{}", stage.name("a"));
    let addons = "/apis/addon.open-cluster-management.io/v1alpha1";
    let addon = stage.hold("a", addons, "ManagedClusterAddOn", "hello").await;
    let work = stage.hold("a", "/apis/work.open-cluster-management.io/v1", "ManifestWork", "w").await;
    let let_go = json!({"metadata": {"finalizers": null}});
    cluster.delete(stage.cluster_path("a")).await.expect(200);
    let both = "False/ResourceRemaining: Still to be deleted: 1 add-on and 1 ManifestWork.";
    stage.until_departure("a", both).await;
    assert!(cluster.get(&addon).await.expect(200)["metadata"]["deletionTimestamp"].is_string());
    assert!(cluster.get(&work).await.expect(200)["metadata"]["deletionTimestamp"].is_null(), "works wait");
    cluster.merge(&addon, &let_go).await.expect(200);
    stage.until_departure("a", "False/ResourceRemaining: Still to be deleted: 1 ManifestWork.").await;
    // Nobody hears the agent that would have to do it, and it does not wait for ever without saying so.
    stage.say_available("a", "Unknown").await;
    let words = "False/ResourceRemaining: Still to be deleted: 1 ManifestWork. The agent of the cluster must do that, and is unreachable. \
        If the cluster will not come back, remove the finalizer \
        cluster.open-cluster-management.io/manifest-work-cleanup from its ManifestWorks;";
    stage.until_departure("a", words).await;
    eventually("the work goes", || async {
        cluster.get(&work).await.expect(200)["metadata"]["deletionTimestamp"].is_string().then_some(())
    })
    .await;
    cluster.merge(&work, &let_go).await.expect(200);
    eventually("the cluster is gone", || async {
        (cluster.get(stage.cluster_path("a")).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(cluster.get(&namespace).await.expect(200)["status"]["phase"], "Active");
}

/// A client that gets no answer while nobody may pass.
fn gated(client: kube::Client) -> (kube::Client, Arc<AtomicBool>) {
    let open = Arc::new(AtomicBool::new(true));
    let gate = open.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, open) = (client.clone(), gate.load(Ordering::Relaxed));
        async move {
            if !open {
                return Err(kube::Error::Service("nobody answers".into()));
            }
            client.send(request).await
        }
    });
    (kube::Client::new(service, "default"), open)
}

pub(crate) async fn api_outage_makes_no_cluster_unreachable(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let (client, open) = gated(cluster.client());
    stage.look_after_clusters_with(client);
    stage.well("a").await;
    let limit = Duration::from_secs(lease(cluster) * 5);
    let version = stage.read_cluster("a").await["metadata"]["resourceVersion"].clone();
    open.store(false, Ordering::Relaxed);
    tokio::time::sleep(limit + Duration::from_secs(2)).await;
    open.store(true, Ordering::Relaxed);
    // The agent needs a moment too.
    tokio::time::sleep(Duration::from_secs(2)).await;
    stage.renew("a").await;
    tokio::time::sleep(limit - Duration::from_secs(2)).await;
    assert_eq!(stage.read_cluster("a").await["metadata"]["resourceVersion"], version, "nothing was written");
    stage.until_cluster_says("a", AVAILABLE, "Unknown/ManagedClusterLeaseUpdateStopped").await;
}

pub(crate) async fn lease_renewals_cause_no_requests(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let tap = stage.look_after_clusters();
    stage.well("a").await;
    stage.pass().await;
    let about = || tap.requests().into_iter().filter(|sent| sent.path.contains(&stage.set)).count();
    let before = about();
    let begun = tokio::time::Instant::now();
    // Twice as long as it would take to be lost.
    while begun.elapsed() < Duration::from_secs(lease(cluster) * 10) {
        stage.renew("a").await;
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert_eq!(about(), before, "a cluster that is heard costs nothing");
    stage.until_cluster_says("a", AVAILABLE, "True/ManagedClusterAvailable").await;
}

pub(crate) async fn sets_and_bindings_report_conditions(cluster: &Cluster) {
    let stage = Stage::new(cluster).await;
    let _tap = stage.look_after_clusters();
    let set = format!("{V1BETA2}/managedclustersets/{}", stage.set);
    let binding = format!("{}/{}", stage.bindings(), stage.set);
    let says = async |path: &str, kind: &str, status: &str, reason: &str| {
        eventually(&format!("{path} says {kind}={status}/{reason}"), || async {
            let found = condition(&cluster.get(path).await.json(), kind);
            (found["status"] == status && found["reason"] == reason).then_some(())
        })
        .await;
    };
    says(&set, "ClusterSetEmpty", "True", "NoClusterMatched").await;
    says(&binding, "Bound", "True", "ClusterSetBound").await;
    stage.join(["a", "b"].map(str::to_owned)).await;
    says(&set, "ClusterSetEmpty", "False", "ClustersSelected").await;
    eventually("both are counted", || async {
        let found = condition(&cluster.get(&set).await.json(), "ClusterSetEmpty");
        (found["message"] == "2 clusters are in the set.").then_some(())
    })
    .await;
    cluster.delete(&set).await.expect(200);
    says(&binding, "Bound", "False", "ClusterSetNotFound").await;
}
