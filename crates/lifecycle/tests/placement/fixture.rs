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
use bellwether_runtime::{Context, Leadership, run};
use bellwether_testkit::{Cluster, Tap, eventually};
use futures::{StreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::task::{AbortHandle, JoinSet};

pub(crate) const V1: &str = "/apis/cluster.open-cluster-management.io/v1";
pub(crate) const V1BETA1: &str = "/apis/cluster.open-cluster-management.io/v1beta1";
pub(crate) const V1BETA2: &str = "/apis/cluster.open-cluster-management.io/v1beta2";
const GROUP: &str = "cluster.open-cluster-management.io";
/// How many clusters are written at the same time.
const CONCURRENCY: usize = 16;
const RENEW_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct Fixture<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) set: String,
    pub(crate) clock: SteadyClock,
    controllers: RefCell<JoinSet<()>>,
    /// The tasks that renew the Leases of clusters.
    agents: RefCell<BTreeMap<String, AbortOnDrop>>,
}

/// A task that ends when this is dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A name that no other scenario uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Fixture<'a> {
    pub(crate) async fn new(cluster: &'a Cluster) -> Self {
        let fixture = Self {
            cluster,
            namespace: cluster.namespace().await,
            set: unique("set"),
            clock: SteadyClock::default(),
            controllers: RefCell::default(),
            agents: RefCell::default(),
        };
        let set = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": fixture.set}});
        cluster.post(format!("{V1BETA2}/managedclustersets"), &set).await.expect(201);
        fixture.bind().await;
        fixture
    }

    pub(crate) async fn bind(&self) {
        let binding = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": self.set}, "spec": {"clusterSet": self.set}});
        self.cluster.post(self.bindings(), &binding).await.expect(201);
    }

    pub(crate) fn bindings(&self) -> String {
        format!("{V1BETA2}/namespaces/{}/managedclustersetbindings", self.namespace)
    }

    /// Starts the placement controller; the controllers that ran before end as if they were killed.
    pub(crate) fn start_placement_controller(&self) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        let context = Context { clock: Arc::new(self.clock), ..Context::standalone(client) };
        let controllers = &mut self.controllers.borrow_mut();
        **controllers = JoinSet::new();
        controllers.spawn(run(Placements::new(&context), context));
        tap
    }

    /// Starts the controllers of clusters, sets and bindings, in addition to those that run.
    pub(crate) fn start_cluster_controllers(&self) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        self.start_cluster_controllers_with(client);
        tap
    }

    pub(crate) fn start_cluster_controllers_with(&self, client: kube::Client) {
        self.start_replica(client, Leadership::always());
    }

    /// Starts the same controllers as a replica that is leader or standby.
    pub(crate) fn start_replica(&self, client: kube::Client, leadership: Leadership) {
        let context = Context { clock: Arc::new(self.clock), leadership, ..Context::standalone(client) };
        let controllers = &mut self.controllers.borrow_mut();
        controllers.spawn(run(Clusters::new(&context), context.clone()));
        controllers.spawn(run(ClusterSets::new(&context), context.clone()));
        controllers.spawn(run(ClusterSetBindings::new(&context), context));
    }

    /// Starts all controllers, each with its own client.
    pub(crate) fn start_all_controllers(&self, client: impl Fn(&str) -> kube::Client) {
        let context = |controller: &str| Context {
            clock: Arc::new(self.clock),
            ..Context::standalone(client(controller))
        };
        let controllers = &mut self.controllers.borrow_mut();
        let context_of = context(placement::NAME);
        controllers.spawn(run(Placements::new(&context_of), context_of));
        let context_of = context(clusters::CLUSTERS);
        controllers.spawn(run(Clusters::new(&context_of), context_of));
        let context_of = context(clusters::CLUSTER_SETS);
        controllers.spawn(run(ClusterSets::new(&context_of), context_of));
        let context_of = context(clusters::CLUSTER_SET_BINDINGS);
        controllers.spawn(run(ClusterSetBindings::new(&context_of), context_of));
    }

    pub(crate) fn stop_controllers(&self) {
        *self.controllers.borrow_mut() = JoinSet::new();
    }

    /// Gives the controllers time to react. With paused time this returns at once.
    pub(crate) async fn wait_for_reconcile(&self) {
        let time = Duration::from_millis(if self.cluster.is_kubernetes() { 1_500 } else { 5_000 });
        tokio::time::sleep(time).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates clusters of the set, with these suffixes as names.
    pub(crate) async fn create_clusters(&self, names: impl IntoIterator<Item = String>) {
        stream::iter(names)
            .for_each_concurrent(CONCURRENCY, |name| async move {
                self.create_cluster(&name, json!({}), json!({})).await
            })
            .await;
    }

    /// Creates a cluster of the set with additional labels and a spec.
    pub(crate) async fn create_cluster(&self, name: &str, labels: Value, spec: Value) {
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": self.cluster_name(name), "labels": labels}, "spec": spec});
        object["metadata"]["labels"][format!("{GROUP}/clusterset")] = json!(self.set);
        self.cluster.post(format!("{V1}/managedclusters"), &object).await.expect(201);
    }

    /// The full name of a cluster.
    pub(crate) fn cluster_name(&self, name: &str) -> String {
        format!("{}-{name}", self.set)
    }

    pub(crate) fn cluster_names(&self, names: impl IntoIterator<Item = String>) -> BTreeSet<String> {
        names.into_iter().map(|name| self.cluster_name(&name)).collect()
    }

    pub(crate) fn cluster_path(&self, name: &str) -> String {
        format!("{V1}/managedclusters/{}", self.cluster_name(name))
    }

    pub(crate) async fn read_cluster(&self, name: &str) -> Value {
        self.cluster.get(self.cluster_path(name)).await.expect(200)
    }

    /// Sets a taint of a cluster that was added some time ago.
    pub(crate) async fn taint(&self, name: &str, effect: &str, ago: SignedDuration) {
        let added = seconds(self.now() - ago);
        let taints = json!([{"key": "t", "effect": effect, "timeAdded": added}]);
        self.cluster.merge(self.cluster_path(name), &json!({"spec": {"taints": taints}})).await.expect(200);
    }

    pub(crate) async fn untaint(&self, name: &str) {
        self.cluster.merge(self.cluster_path(name), &json!({"spec": {"taints": []}})).await.expect(200);
    }

    /// Sets the condition Available, as the agent does.
    pub(crate) async fn report_availability(&self, name: &str, status: &str) {
        let mut conditions =
            self.read_cluster(name).await["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "ManagedClusterConditionAvailable");
        conditions.push(json!({"type": "ManagedClusterConditionAvailable", "status": status,
            "reason": "ManagedClusterAvailable", "message": "as the agent reports",
            "lastTransitionTime": seconds(self.now())}));
        let path = format!("{}/status", self.cluster_path(name));
        self.cluster.merge(path, &json!({"status": {"conditions": conditions}})).await.expect(200);
    }

    /// Renews the Lease of a cluster from now on, as the agent does, until [`Self::stop_agent`].
    pub(crate) fn start_agent(&self, name: &str) {
        let leases = Api::<Lease>::namespaced(self.cluster.client(), &self.cluster_name(name));
        let clock = self.clock;
        let task = tokio::spawn(async move {
            loop {
                renew_lease(&leases, clock.now()).await;
                tokio::time::sleep(RENEW_INTERVAL).await;
            }
        });
        self.agents.borrow_mut().insert(name.to_owned(), AbortOnDrop(task.abort_handle()));
    }

    /// Stops renewing the Lease of a cluster.
    pub(crate) fn stop_agent(&self, name: &str) {
        self.agents.borrow_mut().remove(name).expect("the agent runs");
    }

    /// Renews the Lease of a cluster once.
    pub(crate) async fn renew_lease(&self, name: &str) {
        let leases = Api::<Lease>::namespaced(self.cluster.client(), &self.cluster_name(name));
        renew_lease(&leases, self.now()).await;
    }

    /// Waits until a condition of a cluster is this `status/reason`.
    pub(crate) async fn wait_for_cluster_condition(&self, name: &str, kind: &str, wanted: &str) {
        eventually(&format!("{name} has {kind}={wanted}"), || async {
            let found = condition(&self.read_cluster(name).await, kind);
            (format!("{}/{}", text(&found["status"]), text(&found["reason"])) == wanted).then_some(())
        })
        .await;
    }

    /// Waits until a cluster has exactly the taints with these keys.
    pub(crate) async fn wait_for_taints(&self, name: &str, wanted: &[&str]) {
        eventually(&format!("{name} has the taints {wanted:?}"), || async {
            let cluster = self.read_cluster(name).await;
            let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
            let keys: Vec<String> = taints.iter().map(|taint| text(&taint["key"])).collect();
            (keys == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn create_placement(&self, spec: Value) -> Case<'_> {
        let case = Case { fixture: self, name: unique("p") };
        let placement = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
            "metadata": {"name": case.name}, "spec": spec});
        self.cluster
            .post(format!("{V1BETA1}/namespaces/{}/placements", self.namespace), &placement)
            .await
            .expect(201);
        case
    }
}

/// Renews or creates the Lease by which the hub knows that a cluster is reachable.
async fn renew_lease(leases: &Api<Lease>, now: Timestamp) {
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "managed-cluster-lease"},
        "spec": {"renewTime": format!("{now:.6}"), "holderIdentity": "agent"}});
    let apply = PatchParams::apply("agent").force();
    leases.patch("managed-cluster-lease", &apply, &Patch::Apply(&lease)).await.expect("the Lease is renewed");
}

/// A placement of a scenario.
pub(crate) struct Case<'a> {
    pub(crate) fixture: &'a Fixture<'a>,
    pub(crate) name: String,
}

impl Case<'_> {
    pub(crate) fn path(&self) -> String {
        format!("{V1BETA1}/namespaces/{}/placements/{}", self.fixture.namespace, self.name)
    }

    pub(crate) fn decisions_path(&self) -> String {
        format!("{V1BETA1}/namespaces/{}/placementdecisions", self.fixture.namespace)
    }

    fn decisions_query(&self) -> String {
        format!("{}?labelSelector={GROUP}%2Fplacement%3D{}", self.decisions_path(), self.name)
    }

    pub(crate) async fn read(&self) -> Value {
        self.fixture.cluster.get(self.path()).await.expect(200)
    }

    pub(crate) async fn merge(&self, patch: Value) {
        self.fixture.cluster.merge(self.path(), &patch).await.expect(200);
    }

    pub(crate) async fn decisions(&self) -> Vec<Value> {
        let list = self.fixture.cluster.get(self.decisions_query()).await.expect(200);
        list["items"].as_array().cloned().unwrap_or_default()
    }

    /// The decisions by name, each with the index and the name of its group and its number of clusters.
    pub(crate) async fn slices(&self) -> Vec<(String, String, String, usize)> {
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
    pub(crate) async fn selected(&self) -> Vec<String> {
        let decisions = self.decisions().await;
        let names: BTreeSet<String> = decisions.iter().flat_map(clusters_of).collect();
        let prefix = format!("{}-", self.fixture.set);
        names.iter().map(|name| name.strip_prefix(&prefix).unwrap_or(name).to_owned()).collect()
    }

    /// Waits until these clusters are selected and the status counts them.
    pub(crate) async fn wait_for_selection(&self, wanted: &[&str]) {
        let last = RefCell::new(Vec::new());
        let shown = PrintOnDrop(&last, &self.name);
        eventually(&format!("{} selects {wanted:?}", self.name), || async {
            let selected = self.selected().await;
            let is_counted = self.read().await["status"]["numberOfSelectedClusters"] == json!(wanted.len());
            let is_done = selected == wanted && is_counted;
            last.replace(selected);
            is_done.then_some(())
        })
        .await;
        std::mem::forget(shown);
    }

    /// Waits until the status counts this many clusters and PlacementSatisfied has this reason.
    pub(crate) async fn wait_for_status(&self, count: usize, reason: &str) -> Value {
        eventually(&format!("{} has {count} clusters and the reason {reason}", self.name), || async {
            let placement = self.read().await;
            let satisfied = condition(&placement, "PlacementSatisfied");
            let is_done = placement["status"]["numberOfSelectedClusters"] == json!(count)
                && satisfied["reason"] == reason
                && satisfied["observedGeneration"] == placement["metadata"]["generation"];
            is_done.then_some(placement)
        })
        .await
    }

    /// The placement and its decisions, as readers get them.
    pub(crate) async fn read_typed(&self) -> (Placement, Vec<PlacementDecision>) {
        let decisions = self.decisions().await;
        (
            serde_json::from_value(self.read().await).unwrap(),
            decisions.into_iter().map(|decision| serde_json::from_value(decision).unwrap()).collect(),
        )
    }

    /// Runs an action that changes the decisions, and watches them until the status is written: after every event, all
    /// of these clusters must be in some decision. Returns the number of events.
    pub(crate) async fn watch_decisions_during(
        &self,
        staying: &BTreeSet<String>,
        act: impl Future<Output = ()>,
        count: usize,
    ) -> usize {
        let list = self.fixture.cluster.get(self.decisions_query()).await.expect(200);
        let version = text(&list["metadata"]["resourceVersion"]);
        let mut decisions: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for decision in list["items"].as_array().into_iter().flatten() {
            decisions.insert(text(&decision["metadata"]["name"]), clusters_of(decision));
        }
        let path = format!("{}&watch=true&resourceVersion={version}", self.decisions_query());
        let mut watch = self.fixture.cluster.watch(path).await;
        act.await;
        self.wait_for_status(count, "AllDecisionsScheduled").await;
        let mut events = 0;
        // Decisions are written before the status, so their events are on the way.
        while let Ok(Some(event)) = watch.within(Duration::from_millis(500)).await {
            match event.kind.as_str() {
                "DELETED" => drop(decisions.remove(event.name())),
                "BOOKMARK" => continue,
                _ => drop(decisions.insert(event.name().to_owned(), clusters_of(&event.object))),
            }
            events += 1;
            let present: BTreeSet<String> = decisions.values().flatten().cloned().collect();
            let missing: Vec<&String> = staying.difference(&present).collect();
            assert!(
                missing.is_empty(),
                "after event {events} ({:?}) these are missing: {missing:?}",
                event.brief()
            );
        }
        events
    }
}

/// Prints the last selection when a test panics.
struct PrintOnDrop<'a>(&'a RefCell<Vec<String>>, &'a str);

impl Drop for PrintOnDrop<'_> {
    fn drop(&mut self) {
        println!("{} selected: {:?}", self.1, self.0.borrow());
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

/// A timestamp as Kubernetes writes it.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).expect("a timestamp").to_string()
}
