//! The fixture: a hub with all its controllers, clusters with their agents, and add-ons with versions.

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
pub(crate) const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

/// Which controllers reconcile the objects of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controllers {
    /// Each fleet starts its own controllers.
    PerFleet,
    /// The controllers run already and are shared by all fleets.
    Shared,
}

/// A hub and spokes with their CRDs. On real Kubernetes one spoke stands for all clusters; objects do not
/// collide there because their names contain the name of the cluster.
pub(crate) struct Environment {
    pub(crate) hub: Cluster,
    pub(crate) spokes: Vec<Cluster>,
    controllers: Controllers,
}

impl Environment {
    pub(crate) async fn prepare(hub: Cluster, spokes: Vec<Cluster>, controllers: Controllers) -> Self {
        let crds_except = |place: Place| {
            let crds = bellwether_api::crds().into_iter().filter(move |definition| definition.place != place);
            crds.map(|definition| serde_json::to_value(definition.crd).unwrap())
        };
        hub.install_crds(crds_except(Place::Spokes)).await;
        for spoke in &spokes {
            spoke.install_crds(crds_except(Place::Hub)).await;
        }
        Self { hub, spokes, controllers }
    }
}

/// Starts all controllers of a hub, each with the client that is returned for its name.
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

/// The clusters of one ManagedClusterSet, with their agents and, unless they are shared, the controllers of
/// the hub.
pub(crate) struct Fleet<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) hub: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) clock: SteadyClock,
    set: String,
    controllers: RefCell<JoinSet<()>>,
    agents: RefCell<BTreeMap<usize, JoinSet<()>>>,
    size: Cell<usize>,
}

impl<'a> Fleet<'a> {
    /// Creates the clusters `c1` to `c<n>`, starts their agents and waits until they are reachable.
    pub(crate) async fn new(environment: &'a Environment, clusters: usize) -> Self {
        let fleet = Self::without_clusters(environment).await;
        if environment.controllers == Controllers::PerFleet {
            fleet.start_controllers(|_| environment.hub.client());
        }
        for number in 1..=clusters {
            fleet.create_cluster(number, json!({})).await;
            fleet.start_agent(number);
        }
        for number in 1..=clusters {
            fleet.wait_for_cluster(number).await;
        }
        fleet
    }

    /// Creates a ManagedClusterSet and its binding, without clusters, agents or controllers.
    pub(crate) async fn without_clusters(environment: &'a Environment) -> Self {
        let fleet = Self {
            environment,
            hub: &environment.hub,
            namespace: environment.hub.namespace().await,
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

    /// Starts the controllers of the hub. Controllers that were running are aborted, as by a crash.
    pub(crate) fn start_controllers(&self, client: impl Fn(&str) -> Client) {
        *self.controllers.borrow_mut() = JoinSet::new();
        *self.controllers.borrow_mut() = hub_controllers(self.clock, client);
    }

    /// The highest number of a cluster.
    pub(crate) fn size(&self) -> usize {
        self.size.get()
    }

    /// The name of the ManagedCluster, which is unique among the fleets on this hub.
    pub(crate) fn cluster_name(&self, number: usize) -> String {
        format!("{}-c{number}", self.set)
    }

    /// The API server of the cluster itself.
    pub(crate) fn spoke(&self, number: usize) -> &'a Cluster {
        &self.environment.spokes[(number - 1) % self.environment.spokes.len()]
    }

    pub(crate) fn cluster_path(&self, number: usize) -> String {
        format!("{CLUSTERS}/{}", self.cluster_name(number))
    }

    /// Creates an accepted ManagedCluster in the set of the fleet.
    pub(crate) async fn create_cluster(&self, number: usize, labels: Value) {
        let mut object = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ManagedCluster",
            "metadata": {"name": self.cluster_name(number), "labels": labels}, "spec": {"hubAcceptsClient": true}});
        object["metadata"]["labels"][format!("{GROUP}/clusterset")] = json!(self.set);
        self.hub.post(CLUSTERS, &object).await.expect(201);
        self.size.set(self.size.get().max(number));
    }

    pub(crate) async fn label_cluster(&self, number: usize, labels: Value) {
        self.hub.merge(self.cluster_path(number), &json!({"metadata": {"labels": labels}})).await.expect(200);
    }

    /// Starts the agent of a cluster; an agent that was running is aborted.
    pub(crate) fn start_agent(&self, number: usize) {
        self.start_agent_with(number, self.hub.client(), self.spoke(number).client());
    }

    pub(crate) fn start_agent_with(&self, number: usize, hub: Client, spoke: Client) {
        let name = self.cluster_name(number);
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

    /// Aborts the agent of a cluster.
    pub(crate) fn stop_agent(&self, number: usize) {
        self.agents.borrow_mut().remove(&number);
    }

    /// Waits until a cluster is available and has no taints.
    pub(crate) async fn wait_for_cluster(&self, number: usize) {
        eventually(&format!("c{number} is available and has no taints"), async || {
            let found = self.hub.get(self.cluster_path(number)).await.expect(200);
            let is_tainted = found["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
            let is_available = find_condition(&found, "ManagedClusterConditionAvailable")["status"] == "True";
            (is_available && !is_tainted).then_some(())
        })
        .await;
    }

    /// Creates a placement, which selects from the clusters of the fleet's set.
    pub(crate) async fn create_placement(&self, name: &str, spec: Value) {
        let placement = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "Placement",
            "metadata": {"name": name}, "spec": spec});
        let path = format!("{V1BETA1}/namespaces/{}/placements", self.namespace);
        self.hub.post(path, &placement).await.expect(201);
    }

    /// Creates a placement that selects the clusters with the labels.
    pub(crate) async fn create_placement_by_label(&self, name: &str, labels: Value) {
        let predicate = json!({"requiredClusterSelector": {"labelSelector": {"matchLabels": labels}}});
        self.create_placement(name, json!({"predicates": [predicate]})).await;
    }

    /// Creates a placement of all clusters. Those with the label `canary=true` form the decision group
    /// `canary`, and the others form groups of the given size.
    pub(crate) async fn create_placement_with_groups(&self, name: &str, per_group: Value) {
        let canary = json!({"groupName": "canary",
            "groupClusterSelector": {"labelSelector": {"matchLabels": {"canary": "true"}}}});
        let groups = json!({"decisionGroups": [canary], "clustersPerDecisionGroup": per_group});
        self.create_placement(name, json!({"decisionStrategy": {"groupStrategy": groups}})).await;
    }

    pub(crate) fn new_addon(&self) -> Addon<'_> {
        Addon { fleet: self, name: unique("hello") }
    }

    /// The current resourceVersion of the hub.
    pub(crate) async fn resource_version(&self) -> String {
        let list = self.hub.get(format!("{ADDONS}/managedclusteraddons?limit=1")).await.expect(200);
        list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    }

    /// Sleeps for this many seconds if time is paused; on real Kubernetes always for 1.5 s.
    pub(crate) async fn sleep(&self, seconds: u64) {
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
    /// The name of an object of the add-on on a cluster, after rendering.
    pub(crate) fn object_name(&self, part: &str, number: usize) -> String {
        format!("{}-{part}-{}", self.name, self.fleet.cluster_name(number))
    }

    /// The manifest of a ConfigMap, whose name contains the variable `CLUSTER_NAME`.
    pub(crate) fn config_map(&self, part: &str, data: Value) -> Value {
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

    pub(crate) fn config_map_path(&self, part: &str, number: usize) -> String {
        format!("/api/v1/namespaces/default/configmaps/{}", self.object_name(part, number))
    }

    pub(crate) fn deployment_path(&self, part: &str, number: usize) -> String {
        format!("/apis/apps/v1/namespaces/default/deployments/{}", self.object_name(part, number))
    }

    /// The version that is installed on a cluster, which the ConfigMap `main` of every version contains.
    pub(crate) async fn running_version(&self, number: usize) -> Option<String> {
        let found = self.fleet.spoke(number).get(self.config_map_path("main", number)).await;
        (found.status == 200).then(|| found.json()["data"]["version"].as_str().unwrap_or_default().to_owned())
    }

    pub(crate) async fn wait_for_running_version(&self, number: usize, version: Option<&str>) {
        eventually(&format!("c{number} runs {version:?} of {}", self.name), async || {
            (self.running_version(number).await.as_deref() == version).then_some(())
        })
        .await;
    }

    /// Creates the AddOnTemplates of versions, with the ConfigMap `main` only.
    pub(crate) async fn create_versions(&self, versions: &[&str]) {
        for version in versions {
            self.create_version_with(version, json!([])).await;
        }
    }

    /// Creates the AddOnTemplate of a version, with the ConfigMap `main` and further manifests.
    pub(crate) async fn create_version_with(&self, version: &str, more: Value) {
        let mut manifests = vec![self.config_map("main", json!({"version": version}))];
        manifests.extend(more.as_array().cloned().unwrap_or_default());
        let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
            "metadata": {"name": format!("{}-{version}", self.name)},
            "spec": {"addonName": self.name, "version": version, "agentSpec": {"workload": {"manifests": manifests}}}});
        self.fleet.hub.post(format!("{ADDONS}/addontemplates"), &template).await.expect(201);
    }

    /// One item of `installStrategy.placements`; without a version, the clusters follow the default version.
    pub(crate) fn placement_strategy(&self, placement: &str, version: &str) -> Value {
        let mut strategy = json!({"namespace": self.fleet.namespace, "name": placement});
        if !version.is_empty() {
            strategy["addonTemplate"] = json!({"installVersion": version});
        }
        strategy
    }

    /// One item of `installStrategy.placements` with a `rolloutStrategy`.
    pub(crate) fn placement_strategy_with_rollout(
        &self,
        placement: &str,
        version: &str,
        rollout: Value,
    ) -> Value {
        let mut strategy = self.placement_strategy(placement, version);
        strategy["rolloutStrategy"] = rollout;
        strategy
    }

    /// Sets an install strategy of type `Placements`.
    pub(crate) async fn set_placements(&self, placements: Value) {
        self.set_install_strategy(json!({"type": "Placements", "placements": placements})).await;
    }

    /// Sets the install strategy of the ClusterManagementAddOn, which is created if it does not exist.
    pub(crate) async fn set_install_strategy(&self, strategy: Value) {
        let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": self.name}, "spec": {"installStrategy": strategy}});
        let hub = self.fleet.hub;
        let created = hub.post(format!("{ADDONS}/clustermanagementaddons"), &object).await;
        if created.status != 201 {
            let patch = json!({"spec": {"installStrategy": strategy}});
            hub.merge(self.management_addon_path(), &patch).await.expect(200);
        }
    }

    pub(crate) fn management_addon_path(&self) -> String {
        format!("{ADDONS}/clustermanagementaddons/{}", self.name)
    }

    pub(crate) fn addon_path(&self, number: usize) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/{}", self.fleet.cluster_name(number), self.name)
    }

    pub(crate) fn works_path(&self, number: usize) -> String {
        format!("{WORKS}/namespaces/{}/manifestworks", self.fleet.cluster_name(number))
    }

    pub(crate) fn work_path(&self, number: usize) -> String {
        format!("{}/addon-{}-deploy-0", self.works_path(number), self.name)
    }

    pub(crate) async fn get_addon(&self, number: usize) -> Value {
        self.fleet.hub.get(self.addon_path(number)).await.json()
    }

    pub(crate) async fn get_work(&self, number: usize) -> Value {
        self.fleet.hub.get(self.work_path(number)).await.json()
    }

    /// The current version, the last version and the condition `Progressing` of the add-on on a cluster, in
    /// one line: `C=v1 L= False/Succeed: install completed with no errors.`
    pub(crate) async fn status_line(&self, number: usize) -> String {
        let found = self.get_addon(number).await;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let progressing = format_condition(&find_condition(&found, "Progressing"));
        let status = &found["status"];
        format!("C={} L={} {progressing}", text(&status["currentVersion"]), text(&status["lastVersion"]))
    }

    pub(crate) async fn wait_for_status(&self, number: usize, wanted: &str) {
        let last_seen = RefCell::new(String::new());
        let print_guard = PrintLastSeen(&last_seen);
        eventually(&format!("status of {} on c{number} is {wanted}", self.name), async || {
            let status = self.status_line(number).await;
            let is_wanted = status == wanted;
            last_seen.replace(status);
            is_wanted.then_some(())
        })
        .await;
        std::mem::forget(print_guard);
    }

    /// Waits until the change of a cluster from version `last` to `version` has succeeded.
    pub(crate) async fn wait_for_success(&self, number: usize, version: &str, last: &str) {
        self.wait_for_status(number, &format!("C={version} L={last} {SUCCEEDED}")).await;
    }

    /// A condition of the add-on on a cluster, as `status/reason: message`.
    pub(crate) async fn condition(&self, number: usize, type_: &str) -> String {
        format_condition(&find_condition(&self.get_addon(number).await, type_))
    }

    pub(crate) async fn wait_for_condition(&self, number: usize, type_: &str, wanted: &str) {
        let last_seen = RefCell::new(String::new());
        let print_guard = PrintLastSeen(&last_seen);
        eventually(&format!("condition {type_} of c{number} is {wanted}"), async || {
            let status = self.condition(number, type_).await;
            let is_wanted = status == wanted;
            last_seen.replace(status);
            is_wanted.then_some(())
        })
        .await;
        std::mem::forget(print_guard);
    }

    /// Waits until the first condition of a placement's `installProgressions` item is as wanted, and returns
    /// the item.
    pub(crate) async fn wait_for_progression(&self, placement: &str, wanted: &str) -> Value {
        let last_seen = RefCell::new(String::new());
        let print_guard = PrintLastSeen(&last_seen);
        let found = eventually(&format!("condition of placement {placement} is {wanted}"), async || {
            let found = self.fleet.hub.get(self.management_addon_path()).await.json();
            let all = found["status"]["installProgressions"].as_array().cloned().unwrap_or_default();
            let one = all.into_iter().find(|one| one["name"] == placement)?;
            let status = format_condition(&one["conditions"][0]);
            let is_wanted = status == wanted;
            last_seen.replace(status);
            is_wanted.then_some(one)
        })
        .await;
        std::mem::forget(print_guard);
        found
    }

    /// Waits until the ClusterManagementAddOn reports this as the first reason why clusters of a placement
    /// wait.
    pub(crate) async fn wait_for_wait_reason(&self, placement: &str, wanted: &str) {
        eventually(&format!("clusters of {placement} wait for {wanted}"), async || {
            let found = self.fleet.hub.get(self.management_addon_path()).await.json();
            let all = found["status"]["installProgressions"].as_array().cloned().unwrap_or_default();
            let one = all.into_iter().find(|one| one["name"] == placement)?;
            (one["waiting"][0]["for"] == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for_deletion(&self, path: &str) {
        eventually(&format!("{path} is deleted"), async || {
            (self.fleet.hub.get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// Sends a heartbeat of the add-on on a cluster: creates its AddonInstance if necessary, and changes its
    /// `lastHeartbeatTime`.
    pub(crate) async fn send_heartbeat(&self, number: usize) {
        static HEARTBEATS: AtomicUsize = AtomicUsize::new(0);
        let count = HEARTBEATS.fetch_add(1, Ordering::Relaxed);
        let (spoke, name) = (self.fleet.spoke(number), &self.name);
        let all = format!("{INSTANCES}/namespaces/default/addoninstances");
        let instance = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": name, "labels": {"open-cluster-management.io/addon-name": self.name}},
            "spec": {"heartbeatUpdatePeriod": "10s"}});
        let created = spoke.post(&all, &instance).await;
        assert!(matches!(created.status, 201 | 409), "{}", created.text());
        let healthy = json!({"type": "addons.managed.openshift.io/Healthy", "status": "True",
            "reason": "ComponentsUp", "message": "all components are available", "lastTransitionTime": "2024-05-01T10:00:00Z"});
        // A heartbeat is any change of the time, so an arbitrary new one is enough.
        let time = format!("2024-05-01T{:02}:{:02}:{:02}Z", count / 3600, count / 60 % 60, count % 60);
        let status = json!({"status": {"lastHeartbeatTime": time, "conditions": [healthy]}});
        spoke.merge(format!("{all}/{name}/status"), &status).await.expect(200);
    }

    /// Waits until the Deployment on a cluster has an image.
    pub(crate) async fn wait_for_image(&self, part: &str, number: usize, image: &str) {
        let (spoke, path) = (self.fleet.spoke(number), self.deployment_path(part, number));
        eventually(&format!("c{number} has the image {image}"), async || {
            let found = spoke.get(&path).await.json();
            (found["spec"]["template"]["spec"]["containers"][0]["image"] == image).then_some(())
        })
        .await;
    }

    /// Writes the status of a Deployment, as its controller would, with these numbers of updated and of ready
    /// replicas.
    pub(crate) async fn set_replicas(&self, part: &str, number: usize, updated: u32, ready: u32) {
        let (spoke, path) = (self.fleet.spoke(number), self.deployment_path(part, number));
        let generation = spoke.get(&path).await.expect(200)["metadata"]["generation"].clone();
        let status = json!({"status": {"observedGeneration": generation, "replicas": 2, "updatedReplicas": updated,
            "readyReplicas": ready, "availableReplicas": ready}});
        spoke.merge(format!("{path}/status"), &status).await.expect(200);
    }
}

/// Prints the last value that a test has read if the test panics while it waits; forgotten otherwise.
struct PrintLastSeen<'a>(&'a RefCell<String>);

impl Drop for PrintLastSeen<'_> {
    fn drop(&mut self) {
        println!("last seen: {}", self.0.borrow());
    }
}

/// The condition of this type, or null.
pub(crate) fn find_condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

/// Formats a condition as `status/reason: message`.
pub(crate) fn format_condition(condition: &Value) -> String {
    let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}: {}", text("status"), text("reason"), text("message"))
}
