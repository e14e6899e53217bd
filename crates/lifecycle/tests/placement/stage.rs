//! A hub with a set that is bound in a namespace, clusters of that set, and controllers that can be stopped and started.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_api::cluster::{Placement, PlacementDecision};
use bellwether_clock::{Clock as _, SteadyClock};
use bellwether_lifecycle::clusters::{self, ClusterSetBindings, ClusterSets, Clusters};
use bellwether_lifecycle::placement::{self, Placements};
use bellwether_runtime::{Context, run};
use bellwether_testkit::{Cluster, Tap, eventually};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const V1: &str = "/apis/cluster.open-cluster-management.io/v1";
pub(crate) const V1BETA1: &str = "/apis/cluster.open-cluster-management.io/v1beta1";
pub(crate) const V1BETA2: &str = "/apis/cluster.open-cluster-management.io/v1beta2";
const GROUP: &str = "cluster.open-cluster-management.io";
/// How many clusters are written at the same time.
const AT_ONCE: usize = 16;

pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) set: String,
    pub(crate) clock: SteadyClock,
    controllers: RefCell<JoinSet<()>>,
}

/// A name that no other scenario has.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Stage<'a> {
    pub(crate) async fn new(cluster: &'a Cluster) -> Self {
        let stage = Self {
            cluster,
            namespace: cluster.namespace().await,
            set: unique("set"),
            clock: SteadyClock::default(),
            controllers: RefCell::default(),
        };
        let set = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": stage.set}});
        cluster.post(format!("{V1BETA2}/managedclustersets"), &set).await.expect(201);
        stage.bind().await;
        stage
    }

    pub(crate) async fn bind(&self) {
        let binding = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": self.set}, "spec": {"clusterSet": self.set}});
        self.cluster.post(self.bindings(), &binding).await.expect(201);
    }

    pub(crate) fn bindings(&self) -> String {
        format!("{V1BETA2}/namespaces/{}/managedclustersetbindings", self.namespace)
    }

    /// Starts the placement controller; what ran before ends as if it were killed.
    pub(crate) fn place(&self) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        let context = Context { clock: Arc::new(self.clock), ..Context::standalone(client) };
        let controllers = &mut self.controllers.borrow_mut();
        **controllers = JoinSet::new();
        controllers.spawn(run(Placements::new(&context), context));
        tap
    }

    /// Starts the controllers of clusters and sets, beside what runs.
    pub(crate) fn look_after_clusters(&self) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        self.look_after_clusters_with(client);
        tap
    }

    pub(crate) fn look_after_clusters_with(&self, client: kube::Client) {
        let context = Context { clock: Arc::new(self.clock), ..Context::standalone(client) };
        let controllers = &mut self.controllers.borrow_mut();
        controllers.spawn(run(Clusters::new(&context), context.clone()));
        controllers.spawn(run(ClusterSets::new(&context), context.clone()));
        controllers.spawn(run(ClusterSetBindings::new(&context), context));
    }

    /// Starts all of them, each with a client of its own.
    pub(crate) fn run_as(&self, client: impl Fn(&str) -> kube::Client) {
        let context = |controller: &str| Context {
            clock: Arc::new(self.clock),
            ..Context::standalone(client(controller))
        };
        let controllers = &mut self.controllers.borrow_mut();
        let of = context(placement::NAME);
        controllers.spawn(run(Placements::new(&of), of));
        let of = context(clusters::CLUSTERS);
        controllers.spawn(run(Clusters::new(&of), of));
        let of = context(clusters::CLUSTER_SETS);
        controllers.spawn(run(ClusterSets::new(&of), of));
        let of = context(clusters::CLUSTER_SET_BINDINGS);
        controllers.spawn(run(ClusterSetBindings::new(&of), of));
    }

    pub(crate) fn kill(&self) {
        *self.controllers.borrow_mut() = JoinSet::new();
    }

    /// Lets time pass. On paused time this takes none.
    pub(crate) async fn pass(&self) {
        let time = Duration::from_millis(if self.cluster.is_kubernetes() { 1_500 } else { 5_000 });
        tokio::time::sleep(time).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Clusters of the set, by the end of their names.
    pub(crate) async fn join(&self, names: impl IntoIterator<Item = String>) {
        stream::iter(names)
            .for_each_concurrent(
                AT_ONCE,
                |name| async move { self.join_with(&name, json!({}), json!({})).await },
            )
            .await;
    }

    /// One cluster of the set with labels of its own and a spec.
    pub(crate) async fn join_with(&self, name: &str, labels: Value, spec: Value) {
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": self.name(name), "labels": labels}, "spec": spec});
        object["metadata"]["labels"][format!("{GROUP}/clusterset")] = json!(self.set);
        self.cluster.post(format!("{V1}/managedclusters"), &object).await.expect(201);
    }

    /// The whole name of a cluster.
    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.set)
    }

    pub(crate) fn names(&self, names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        names.into_iter().map(|name| self.name(&name)).collect()
    }

    pub(crate) fn cluster_path(&self, name: &str) -> String {
        format!("{V1}/managedclusters/{}", self.name(name))
    }

    pub(crate) async fn read_cluster(&self, name: &str) -> Value {
        self.cluster.get(self.cluster_path(name)).await.expect(200)
    }

    /// Taints a cluster, some time ago.
    pub(crate) async fn taint(&self, name: &str, effect: &str, ago: SignedDuration) {
        let added = seconds(self.now() - ago);
        let taints = json!([{"key": "t", "effect": effect, "timeAdded": added}]);
        self.cluster.merge(self.cluster_path(name), &json!({"spec": {"taints": taints}})).await.expect(200);
    }

    pub(crate) async fn untaint(&self, name: &str) {
        self.cluster.merge(self.cluster_path(name), &json!({"spec": {"taints": []}})).await.expect(200);
    }

    /// What the agent says of its cluster.
    pub(crate) async fn say_available(&self, name: &str, status: &str) {
        let mut conditions =
            self.read_cluster(name).await["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "ManagedClusterConditionAvailable");
        conditions.push(json!({"type": "ManagedClusterConditionAvailable", "status": status,
            "reason": "ManagedClusterAvailable", "message": "as the agent says",
            "lastTransitionTime": seconds(self.now())}));
        let path = format!("{}/status", self.cluster_path(name));
        self.cluster.merge(path, &json!({"status": {"conditions": conditions}})).await.expect(200);
    }

    /// The agent renews the lease of its cluster, or makes it.
    pub(crate) async fn renew(&self, name: &str) {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.name(name));
        let now = Timestamp::from_microsecond(self.now().as_microsecond()).unwrap();
        let spec = json!({"renewTime": format!("{now:.6}"), "holderIdentity": "agent"});
        let renewed =
            self.cluster.merge(format!("{leases}/managed-cluster-lease"), &json!({"spec": spec})).await;
        if renewed.status == 404 {
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": "managed-cluster-lease"}, "spec": spec});
            self.cluster.post(leases, &lease).await.expect(201);
        }
    }

    /// A condition of a cluster, as `status/reason`.
    pub(crate) async fn until_cluster_says(&self, name: &str, kind: &str, wanted: &str) {
        eventually(&format!("{name} says {kind}={wanted}"), || async {
            let found = condition(&self.read_cluster(name).await, kind);
            (format!("{}/{}", text(&found["status"]), text(&found["reason"])) == wanted).then_some(())
        })
        .await;
    }

    /// The keys of the taints of a cluster, once they are as wanted.
    pub(crate) async fn until_tainted(&self, name: &str, wanted: &[&str]) {
        eventually(&format!("{name} has the taints {wanted:?}"), || async {
            let cluster = self.read_cluster(name).await;
            let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let keys: Vec<String> = taints.iter().map(|taint| text(&taint["key"])).collect();
            (keys == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn placement(&self, spec: Value) -> Case<'_> {
        let case = Case { stage: self, name: unique("p") };
        let placement = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
            "metadata": {"name": case.name}, "spec": spec});
        self.cluster
            .post(format!("{V1BETA1}/namespaces/{}/placements", self.namespace), &placement)
            .await
            .expect(201);
        case
    }
}

/// A placement to try things on.
pub(crate) struct Case<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) name: String,
}

impl Case<'_> {
    pub(crate) fn path(&self) -> String {
        format!("{V1BETA1}/namespaces/{}/placements/{}", self.stage.namespace, self.name)
    }

    pub(crate) fn decisions_path(&self) -> String {
        format!("{V1BETA1}/namespaces/{}/placementdecisions", self.stage.namespace)
    }

    fn selected(&self) -> String {
        format!("{}?labelSelector={GROUP}%2Fplacement%3D{}", self.decisions_path(), self.name)
    }

    pub(crate) async fn read(&self) -> Value {
        self.stage.cluster.get(self.path()).await.expect(200)
    }

    pub(crate) async fn merge(&self, patch: Value) {
        self.stage.cluster.merge(self.path(), &patch).await.expect(200);
    }

    pub(crate) async fn decisions(&self) -> Vec<Value> {
        let list = self.stage.cluster.get(self.selected()).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The decisions, by name: the labels of the group, and how many clusters.
    pub(crate) async fn shape(&self) -> Vec<(String, String, String, usize)> {
        let mut shape: Vec<_> = self
            .decisions()
            .await
            .iter()
            .map(|decision| {
                let label = |name: &str| {
                    text(&decision["metadata"]["labels"][format!("{GROUP}/decision-group-{name}")])
                };
                let name = text(&decision["metadata"]["name"]);
                let short = name.strip_prefix(&format!("{}-", self.name)).unwrap_or(&name).to_owned();
                (short, label("index"), label("name"), clusters_of(decision).len())
            })
            .collect();
        shape.sort();
        shape
    }

    /// The clusters in all decisions, without the prefix of their names.
    pub(crate) async fn chosen(&self) -> Vec<String> {
        let decisions = self.decisions().await;
        let names: BTreeSet<String> = decisions.iter().flat_map(clusters_of).collect();
        let prefix = format!("{}-", self.stage.set);
        names.iter().map(|name| name.strip_prefix(&prefix).unwrap_or(name).to_owned()).collect()
    }

    /// Waits until these are chosen and the status says so.
    pub(crate) async fn until_chosen(&self, wanted: &[&str]) {
        let last = RefCell::new(Vec::new());
        let shown = Shown(&last, &self.name);
        eventually(&format!("{} chooses {wanted:?}", self.name), || async {
            let chosen = self.chosen().await;
            let told = self.read().await["status"]["numberOfSelectedClusters"] == json!(wanted.len());
            let settled = chosen == wanted && told;
            last.replace(chosen);
            settled.then_some(())
        })
        .await;
        std::mem::forget(shown);
    }

    /// Waits until the status counts as many, and says this of PlacementSatisfied.
    pub(crate) async fn until(&self, count: usize, reason: &str) -> Value {
        eventually(&format!("{} has {count} clusters and says {reason}", self.name), || async {
            let placement = self.read().await;
            let said = condition(&placement, "PlacementSatisfied");
            let settled = placement["status"]["numberOfSelectedClusters"] == json!(count)
                && said["reason"] == reason
                && said["observedGeneration"] == placement["metadata"]["generation"];
            settled.then_some(placement)
        })
        .await
    }

    /// As readers have it.
    pub(crate) async fn as_read(&self) -> (Placement, Vec<PlacementDecision>) {
        let decisions = self.decisions().await;
        (
            serde_json::from_value(self.read().await).unwrap(),
            decisions.into_iter().map(|decision| serde_json::from_value(decision).unwrap()).collect(),
        )
    }

    /// Does something that changes the decisions, and watches them until the placement says that it is done: after every
    /// event, all of these clusters must be in some decision.
    pub(crate) async fn watch_while(
        &self,
        staying: &BTreeSet<String>,
        act: impl Future<Output = ()>,
        count: usize,
    ) -> usize {
        let list = self.stage.cluster.get(self.selected()).await.expect(200);
        let version = text(&list["metadata"]["resourceVersion"]);
        let mut held: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for decision in list["items"].as_array().into_iter().flatten() {
            held.insert(text(&decision["metadata"]["name"]), clusters_of(decision));
        }
        let path = format!("{}&watch=true&resourceVersion={version}", self.selected());
        let mut watch = self.stage.cluster.watch(path).await;
        act.await;
        self.until(count, "AllDecisionsScheduled").await;
        let mut events = 0;
        // All that is written is written before the status, and on its way to us.
        while let Ok(Some(event)) = watch.within(Duration::from_millis(500)).await {
            match event.kind.as_str() {
                "DELETED" => drop(held.remove(event.name())),
                "BOOKMARK" => continue,
                _ => drop(held.insert(event.name().to_owned(), clusters_of(&event.object))),
            }
            events += 1;
            let there: BTreeSet<String> = held.values().flatten().cloned().collect();
            let missing: Vec<&String> = staying.difference(&there).collect();
            assert!(
                missing.is_empty(),
                "after event {events} ({:?}) these are missing: {missing:?}",
                event.brief()
            );
        }
        events
    }
}

/// Shows what was last seen when a test ends in a panic.
struct Shown<'a>(&'a RefCell<Vec<String>>, &'a str);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("{} chose: {:?}", self.1, self.0.borrow());
    }
}

pub(crate) fn clusters_of(decision: &Value) -> Vec<String> {
    let decisions = decision["status"]["decisions"].as_array().cloned().unwrap_or_default();
    decisions.iter().map(|decided| text(&decided["clusterName"])).collect()
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `001`, `002` and so on.
pub(crate) fn numbered(numbers: impl IntoIterator<Item = usize>) -> impl Iterator<Item = String> {
    numbers.into_iter().map(|number| format!("{number:03}"))
}

/// A time as Kubernetes writes it.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).expect("a time").to_string()
}
