//! A hub with all its controllers, clusters with their agents, and add-ons that go from the one to the others.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_agent::{Agent, HubHash, lease, mirror, work};
use bellwether_api::Place;
use bellwether_lifecycle::clusters::{self, ClusterSetBindings, ClusterSets, Clusters};
use bellwether_lifecycle::placement::{self, Placements};
use bellwether_lifecycle::{addon, install, run_addon_controllers};
use bellwether_runtime::{Context, run};
use bellwether_testkit::{Cluster, SteadyClock, eventually};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
pub(crate) const WORKS: &str = "/apis/work.open-cluster-management.io/v1";
pub(crate) const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
const V1BETA1: &str = "/apis/cluster.open-cluster-management.io/v1beta1";
const V1BETA2: &str = "/apis/cluster.open-cluster-management.io/v1beta2";
const INSTANCES: &str = "/apis/addons.managed.openshift.io/v1alpha1";
const GROUP: &str = "cluster.open-cluster-management.io";
pub(crate) const DONE: &str = "False/Succeed: install completed with no errors.";

/// Who looks after the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controllers {
    /// Each fleet has its own.
    Own,
    /// They are there already, for all fleets.
    Shared,
}

/// A hub, and clusters. On real Kubernetes one cluster stands for all: what comes to it has the name of its cluster.
pub(crate) struct Theatre {
    pub(crate) hub: Cluster,
    pub(crate) spokes: Vec<Cluster>,
    controllers: Controllers,
}

impl Theatre {
    pub(crate) async fn prepare(hub: Cluster, spokes: Vec<Cluster>, controllers: Controllers) -> Self {
        let definitions = |without: Place| {
            let all =
                bellwether_api::crds().into_iter().filter(move |definition| definition.place != without);
            all.map(|definition| serde_json::to_value(definition.crd).unwrap())
        };
        hub.install_definitions(definitions(Place::Spokes)).await;
        for spoke in &spokes {
            spoke.install_definitions(definitions(Place::Hub)).await;
        }
        Self { hub, spokes, controllers }
    }
}

/// All controllers of a hub, each with a client of its own.
pub(crate) fn hub_controllers(clock: SteadyClock, client: impl Fn(&str) -> Client) -> JoinSet<()> {
    let context = |name: &str| Context { clock: Arc::new(clock), ..Context::standalone(client(name)) };
    let mut controllers = JoinSet::new();
    let of = context(clusters::CLUSTERS);
    controllers.spawn(run(Clusters::new(&of), of));
    let of = context(clusters::CLUSTER_SETS);
    controllers.spawn(run(ClusterSets::new(&of), of));
    let of = context(clusters::CLUSTER_SET_BINDINGS);
    controllers.spawn(run(ClusterSetBindings::new(&of), of));
    let of = context(placement::NAME);
    controllers.spawn(run(Placements::new(&of), of));
    controllers.spawn(run_addon_controllers(context(install::NAME), context(addon::NAME)));
    controllers
}

fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Clusters of a set, and what looks after them.
pub(crate) struct Fleet<'a> {
    pub(crate) theatre: &'a Theatre,
    pub(crate) hub: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) clock: SteadyClock,
    set: String,
    controllers: RefCell<JoinSet<()>>,
    agents: RefCell<BTreeMap<usize, JoinSet<()>>>,
    size: Cell<usize>,
}

impl<'a> Fleet<'a> {
    /// Clusters `c1` to `c<n>` with their agents.
    pub(crate) async fn new(theatre: &'a Theatre, clusters: usize) -> Self {
        let fleet = Self::bare(theatre).await;
        if theatre.controllers == Controllers::Own {
            fleet.start(|_| theatre.hub.client());
        }
        for number in 1..=clusters {
            fleet.join(number, json!({})).await;
            fleet.employ(number);
        }
        for number in 1..=clusters {
            fleet.until_in_reach(number).await;
        }
        fleet
    }

    /// A set without clusters, which nobody looks after.
    pub(crate) async fn bare(theatre: &'a Theatre) -> Self {
        let fleet = Self {
            theatre,
            hub: &theatre.hub,
            namespace: theatre.hub.namespace().await,
            clock: SteadyClock::default(),
            set: unique("set"),
            controllers: RefCell::default(),
            agents: RefCell::default(),
            size: Cell::default(),
        };
        let set = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": fleet.set}});
        fleet.hub.post(format!("{V1BETA2}/managedclustersets"), &set).await.expect(201);
        let binding = json!({"apiVersion": format!("{GROUP}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": fleet.set}, "spec": {"clusterSet": fleet.set}});
        let bindings = format!("{V1BETA2}/namespaces/{}/managedclustersetbindings", fleet.namespace);
        fleet.hub.post(bindings, &binding).await.expect(201);
        fleet
    }

    /// Starts the controllers of the hub; what ran before ends as if it were killed.
    pub(crate) fn start(&self, client: impl Fn(&str) -> Client) {
        *self.controllers.borrow_mut() = JoinSet::new();
        *self.controllers.borrow_mut() = hub_controllers(self.clock, client);
    }

    /// How many clusters there are.
    pub(crate) fn size(&self) -> usize {
        self.size.get()
    }

    /// The whole name of a cluster.
    pub(crate) fn cluster(&self, number: usize) -> String {
        format!("{}-c{number}", self.set)
    }

    /// Where the cluster itself is reached.
    pub(crate) fn spoke(&self, number: usize) -> &'a Cluster {
        &self.theatre.spokes[(number - 1) % self.theatre.spokes.len()]
    }

    pub(crate) fn cluster_path(&self, number: usize) -> String {
        format!("{CLUSTERS}/{}", self.cluster(number))
    }

    /// A cluster of the set.
    pub(crate) async fn join(&self, number: usize, labels: Value) {
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": self.cluster(number), "labels": labels}, "spec": {"hubAcceptsClient": true}});
        object["metadata"]["labels"][format!("{GROUP}/clusterset")] = json!(self.set);
        self.hub.post(CLUSTERS, &object).await.expect(201);
        self.size.set(self.size.get().max(number));
    }

    pub(crate) async fn label(&self, number: usize, labels: Value) {
        self.hub.merge(self.cluster_path(number), &json!({"metadata": {"labels": labels}})).await.expect(200);
    }

    /// Starts the agent of a cluster.
    pub(crate) fn employ(&self, number: usize) {
        self.employ_by(number, self.hub.client(), self.spoke(number).client());
    }

    pub(crate) fn employ_by(&self, number: usize, hub: Client, spoke: Client) {
        let name = self.cluster(number);
        let agent = Agent {
            hub,
            cluster: name.parse().unwrap(),
            hub_hash: HubHash::of(&name),
            agent_id: format!("agent of {name}").into(),
        };
        let context = Context { clock: Arc::new(self.clock), ..Context::standalone(spoke) };
        let mut tasks = JoinSet::new();
        tasks.spawn(work::run(agent.clone(), context.clone()));
        tasks.spawn(lease::run(agent.clone(), context.clone()));
        tasks.spawn(mirror::run(agent, context));
        self.agents.borrow_mut().insert(number, tasks);
    }

    /// The agent of a cluster is no more.
    pub(crate) fn dismiss(&self, number: usize) {
        self.agents.borrow_mut().remove(&number);
    }

    /// Waits until a cluster is accepted, has joined, and is not tainted any more.
    pub(crate) async fn until_in_reach(&self, number: usize) {
        eventually(&format!("c{number} is in reach"), async || {
            let found = self.hub.get(self.cluster_path(number)).await.expect(200);
            let tainted = found["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            let joined = condition(&found, "ManagedClusterConditionAvailable")["status"] == "True";
            (joined && !tainted).then_some(())
        })
        .await;
    }

    /// A placement that chooses from the set.
    pub(crate) async fn placement(&self, name: &str, spec: Value) {
        let placement = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
            "metadata": {"name": name}, "spec": spec});
        let path = format!("{V1BETA1}/namespaces/{}/placements", self.namespace);
        self.hub.post(path, &placement).await.expect(201);
    }

    /// A placement that chooses clusters with a label.
    pub(crate) async fn labelled_placement(&self, name: &str, labels: Value) {
        let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
        self.placement(name, json!({"predicates": [predicate]})).await;
    }

    /// A placement of all clusters, of which those with the label `canary` are a group by that name.
    pub(crate) async fn grouped_placement(&self, name: &str, per_group: Value) {
        let canary = json!({"groupName": "canary",
            "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
        let groups = json!({"decisionGroups": [canary], "clustersPerDecisionGroup": per_group});
        self.placement(name, json!({"decisionStrategy": {"groupStrategy": groups}})).await;
    }

    pub(crate) fn addon(&self) -> Addon<'_> {
        Addon { fleet: self, name: unique("hello") }
    }

    /// The resourceVersion that the hub is at.
    pub(crate) async fn revision(&self) -> String {
        let list = self.hub.get(format!("{ADDONS}/managedclusteraddons?limit=1")).await.expect(200);
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    /// Lets time pass: on paused time as much as is asked for, else a little.
    pub(crate) async fn pass(&self, seconds: u64) {
        let time = if self.hub.is_kubernetes() { 1_500 } else { seconds * 1_000 };
        tokio::time::sleep(Duration::from_millis(time)).await;
    }
}

/// An add-on of a fleet.
pub(crate) struct Addon<'f> {
    pub(crate) fleet: &'f Fleet<'f>,
    pub(crate) name: String,
}

impl Addon<'_> {
    /// The name of an object of the add-on on a cluster.
    pub(crate) fn object(&self, part: &str, number: usize) -> String {
        format!("{}-{part}-{}", self.name, self.fleet.cluster(number))
    }

    /// A ConfigMap as a manifest, by the name that it has on its cluster.
    pub(crate) fn map(&self, part: &str, data: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data,
            "metadata": {"name": format!("{}-{part}-{{{{CLUSTER_NAME}}}}", self.name), "namespace": "default"}})
    }

    pub(crate) fn deployment(&self, part: &str, image: &str) -> Value {
        let name = format!("{}-{part}-{{{{CLUSTER_NAME}}}}", self.name);
        let labels = json!({"app": self.name});
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {"replicas": 2, "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"containers": [{"name": "main", "image": image}]}}}})
    }

    pub(crate) fn map_path(&self, part: &str, number: usize) -> String {
        format!("/api/v1/namespaces/default/configmaps/{}", self.object(part, number))
    }

    pub(crate) fn deployment_path(&self, part: &str, number: usize) -> String {
        format!("/apis/apps/v1/namespaces/default/deployments/{}", self.object(part, number))
    }

    /// The version that a cluster runs, as the ConfigMap of every version tells.
    pub(crate) async fn runs(&self, number: usize) -> Option<String> {
        let found = self.fleet.spoke(number).get(self.map_path("main", number)).await;
        (found.status == 200).then(|| found.json()["data"]["version"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) async fn until_runs(&self, number: usize, version: Option<&str>) {
        eventually(&format!("c{number} runs {version:?} of {}", self.name), async || {
            (self.runs(number).await.as_deref() == version).then_some(())
        })
        .await;
    }

    /// Publishes versions with one ConfigMap each.
    pub(crate) async fn publish(&self, versions: &[&str]) {
        for version in versions {
            self.publish_with(version, json!([])).await;
        }
    }

    /// Publishes a version with more objects.
    pub(crate) async fn publish_with(&self, version: &str, more: Value) {
        let mut manifests = vec![self.map("main", json!({"version": version}))];
        manifests.extend(more.as_array().cloned().unwrap_or_default());
        let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
            "metadata": {"name": format!("{}-{version}", self.name)},
            "spec": {"addonName": self.name, "version": version, "agentSpec": {"workload": {"manifests": manifests}}}});
        self.fleet.hub.post(format!("{ADDONS}/addontemplates"), &template).await.expect(201);
    }

    /// A placement in the strategy of the add-on.
    pub(crate) fn placed(&self, placement: &str, version: &str) -> Value {
        let mut placed = json!({"namespace": self.fleet.namespace, "name": placement});
        if !version.is_empty() {
            placed["addonTemplate"] = json!({"installVersion": version});
        }
        placed
    }

    /// The same at a pace.
    pub(crate) fn paced(&self, placement: &str, version: &str, strategy: Value) -> Value {
        let mut placed = self.placed(placement, version);
        placed["rolloutStrategy"] = strategy;
        placed
    }

    /// Makes the add-on go to placements.
    pub(crate) async fn place(&self, placements: Value) {
        self.strategy(json!({"type": "Placements", "placements": placements})).await;
    }

    pub(crate) async fn strategy(&self, strategy: Value) {
        let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": self.name}, "spec": {"installStrategy": strategy}});
        let hub = self.fleet.hub;
        let made = hub.post(format!("{ADDONS}/clustermanagementaddons"), &object).await;
        if made.status != 201 {
            let patch = json!({"spec": {"installStrategy": strategy}});
            hub.merge(self.management_path(), &patch).await.expect(200);
        }
    }

    pub(crate) fn management_path(&self) -> String {
        format!("{ADDONS}/clustermanagementaddons/{}", self.name)
    }

    pub(crate) fn path(&self, number: usize) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/{}", self.fleet.cluster(number), self.name)
    }

    pub(crate) fn works_path(&self, number: usize) -> String {
        format!("{WORKS}/namespaces/{}/manifestworks", self.fleet.cluster(number))
    }

    pub(crate) fn work_path(&self, number: usize) -> String {
        format!("{}/addon-{}-deploy-0", self.works_path(number), self.name)
    }

    pub(crate) async fn read(&self, number: usize) -> Value {
        self.fleet.hub.get(self.path(number)).await.json()
    }

    pub(crate) async fn work(&self, number: usize) -> Value {
        self.fleet.hub.get(self.work_path(number)).await.json()
    }

    /// What the add-on says on a cluster, in a line: `C=v1 L= False/Succeed: install completed with no errors.`
    pub(crate) async fn said(&self, number: usize) -> String {
        let found = self.read(number).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let progressing = brief(&condition(&found, "Progressing"));
        let status = &found["status"];
        format!("C={} L={} {progressing}", text(&status["currentVersion"]), text(&status["lastVersion"]))
    }

    pub(crate) async fn until_said(&self, number: usize, wanted: &str) {
        let last = RefCell::new(String::new());
        let shown = Shown(&last);
        eventually(&format!("c{number} says {wanted} of {}", self.name), async || {
            let said = self.said(number).await;
            let so = said == wanted;
            last.replace(said);
            so.then_some(())
        })
        .await;
        std::mem::forget(shown);
    }

    /// Waits until a cluster is done with a version.
    pub(crate) async fn until_done(&self, number: usize, version: &str, last: &str) {
        self.until_said(number, &format!("C={version} L={last} {DONE}")).await;
    }

    /// A condition on a cluster, as `status/reason: message`.
    pub(crate) async fn condition(&self, number: usize, type_: &str) -> String {
        brief(&condition(&self.read(number).await, type_))
    }

    pub(crate) async fn until_condition(&self, number: usize, type_: &str, wanted: &str) {
        let last = RefCell::new(String::new());
        let shown = Shown(&last);
        eventually(&format!("c{number} says {type_} {wanted}"), async || {
            let said = self.condition(number, type_).await;
            let so = said == wanted;
            last.replace(said);
            so.then_some(())
        })
        .await;
        std::mem::forget(shown);
    }

    /// What the add-on as a whole says of a placement, once it says that.
    pub(crate) async fn until_progression(&self, placement: &str, wanted: &str) -> Value {
        let last = RefCell::new(String::new());
        let shown = Shown(&last);
        let found = eventually(&format!("{placement} says {wanted}"), async || {
            let found = self.fleet.hub.get(self.management_path()).await.json();
            let all = found["status"]["installProgressions"].as_array().cloned().unwrap_or_default();
            let one = all.into_iter().find(|one| one["name"] == placement)?;
            let said = brief(&one["conditions"][0]);
            let so = said == wanted;
            last.replace(said);
            so.then_some(one)
        })
        .await;
        std::mem::forget(shown);
        found
    }

    /// Waits until clusters of a placement wait for something, in the words of the add-on as a whole.
    pub(crate) async fn until_waiting(&self, placement: &str, wanted: &str) {
        eventually(&format!("clusters of {placement} wait for {wanted}"), async || {
            let found = self.fleet.hub.get(self.management_path()).await.json();
            let all = found["status"]["installProgressions"].as_array().cloned().unwrap_or_default();
            let one = all.into_iter().find(|one| one["name"] == placement)?;
            (one["waiting"][0]["for"] == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, path: &str) {
        eventually(&format!("{path} is gone"), async || {
            (self.fleet.hub.get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// The add-on beats on a cluster.
    pub(crate) async fn beat(&self, number: usize) {
        static BEATS: AtomicUsize = AtomicUsize::new(0);
        let count = BEATS.fetch_add(1, Ordering::Relaxed);
        let (spoke, name) = (self.fleet.spoke(number), &self.name);
        let all = format!("{INSTANCES}/namespaces/default/addoninstances");
        let instance = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": name, "labels": {"open-cluster-management.io/addon-name": self.name}},
            "spec": {"heartbeatUpdatePeriod": "10s"}});
        let made = spoke.post(&all, &instance).await;
        assert!(matches!(made.status, 201 | 409), "{}", made.text());
        let healthy = json!({"type": "addons.managed.openshift.io/Healthy", "status": "True",
            "reason": "ComponentsUp", "message": "all is well", "lastTransitionTime": "2024-05-01T10:00:00Z"});
        // The time only has to be another one.
        let time = format!("2024-05-01T{:02}:{:02}:{:02}Z", count / 3600, count / 60 % 60, count % 60);
        let status = json!({"status": {"lastHeartbeatTime": time, "conditions": [healthy]}});
        spoke.merge(format!("{all}/{name}/status"), &status).await.expect(200);
    }

    /// Waits until the Deployment on a cluster has an image.
    pub(crate) async fn until_image(&self, part: &str, number: usize, image: &str) {
        let (spoke, path) = (self.fleet.spoke(number), self.deployment_path(part, number));
        eventually(&format!("c{number} has the image {image}"), async || {
            let found = spoke.get(&path).await.json();
            (found["spec"]["template"]["spec"]["containers"][0]["image"] == image).then_some(())
        })
        .await;
    }

    /// What a Deployment says of its copies, as its controller would: so many are new, and so many are ready.
    pub(crate) async fn copies(&self, part: &str, number: usize, new: u32, ready: u32) {
        let (spoke, path) = (self.fleet.spoke(number), self.deployment_path(part, number));
        let generation = spoke.get(&path).await.expect(200)["metadata"]["generation"].clone();
        let status = json!({"status": {"observedGeneration": generation, "replicas": 2, "updatedReplicas": new,
            "readyReplicas": ready, "availableReplicas": ready}});
        spoke.merge(format!("{path}/status"), &status).await.expect(200);
    }
}

/// Shows what was last seen of something when a test ends in a panic.
struct Shown<'a>(&'a RefCell<String>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("last seen: {}", self.0.borrow());
    }
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// A condition as `status/reason: message`.
pub(crate) fn brief(condition: &Value) -> String {
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}: {}", text("status"), text("reason"), text("message"))
}
