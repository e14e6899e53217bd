//! The fixture: a hub with clusters, an add-on with versions, the controllers under test, and a test agent
//! that reports the status of ManifestWorks for all clusters.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_api::work::ManifestWork;
use bellwether_clock::SteadyClock;
use bellwether_lifecycle::{addon, install, run_addon_controllers};
use bellwether_runtime::Context;
use bellwether_testkit::{Answer, Cluster, Tap, eventually};
use futures::StreamExt as _;
use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
const WORKS: &str = "/apis/work.open-cluster-management.io/v1";
const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1";
const PLACEMENTS: &str = "/apis/cluster.open-cluster-management.io/v1beta1";
const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// How the test agent of a cluster handles ManifestWorks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AgentBehaviour {
    /// It reports that all manifests are applied and available, and releases deleted ManifestWorks.
    Healthy,
    /// It writes nothing: no status, and no finalizer is added or removed.
    Silent,
    /// It reports that manifests of this version could not be applied, and is healthy for all other versions.
    Rejects(&'static str),
    /// It reports success with the previous generation as `observedGeneration`.
    Behind,
}

pub(crate) struct Fleet<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) addon_name: String,
    prefix: String,
    controllers: RefCell<JoinSet<()>>,
    agent: RefCell<JoinSet<()>>,
    behaviours: Arc<Mutex<BTreeMap<String, AgentBehaviour>>>,
    clock: SteadyClock,
}

fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Fleet<'a> {
    /// Creates the clusters `c1` to `c<n>`, which the placement `global` selects, creates the versions of the
    /// add-on, and starts the controllers and the test agent.
    pub(crate) async fn new(hub: &'a Cluster, clusters: usize, versions: &[&str]) -> Self {
        let fleet = Self {
            hub,
            namespace: hub.namespace().await,
            addon_name: unique("hello"),
            prefix: unique("f"),
            controllers: RefCell::default(),
            agent: RefCell::default(),
            behaviours: Arc::default(),
            clock: SteadyClock::default(),
        };
        for number in 1..=clusters {
            fleet.create_cluster(&format!("c{number}")).await;
        }
        for version in versions {
            fleet.create_version(version).await;
        }
        let all: Vec<String> = (1..=clusters).map(|number| format!("c{number}")).collect();
        fleet.select_clusters("global", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
        fleet.start_controllers();
        fleet.start_agent();
        fleet
    }

    /// The name of the ManagedCluster, which is unique among the fleets on this hub.
    pub(crate) fn cluster_name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub(crate) async fn create_cluster(&self, name: &str) {
        let name = self.cluster_name(name);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.hub.post("/api/v1/namespaces", &namespace).await.expect(201);
        let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
        self.hub.post(format!("{CLUSTERS}/managedclusters"), &cluster).await.expect(201);
    }

    /// Sets how the agent of a cluster handles the events that follow.
    pub(crate) fn set_agent_behaviour(&self, cluster: &str, behaviour: AgentBehaviour) {
        self.behaviours.lock().insert(self.cluster_name(cluster), behaviour);
    }

    /// Creates the AddOnTemplate of a version, with one ConfigMap. The ConfigMap uses the variable `LEVEL` if
    /// the version contains `levelled`.
    pub(crate) async fn create_version(&self, version: &str) {
        let data = json!({"version": version, "level": "{{LEVEL}}"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}, "data": data});
        let map = if version.starts_with("v") && !version.contains("levelled") {
            json!({"data": {"version": version}, "apiVersion": "v1", "kind": "ConfigMap", "metadata": map["metadata"]})
        } else {
            map
        };
        self.create_version_with_manifests(version, json!([map])).await.expect(201);
    }

    pub(crate) async fn create_version_with_manifests(&self, version: &str, manifests: Value) -> Answer {
        self.create_version_with_spec(version, json!({"workload": {"manifests": manifests}})).await
    }

    /// Creates the AddOnTemplate of a version with the given `agentSpec`.
    pub(crate) async fn create_version_with_spec(&self, version: &str, spec: Value) -> Answer {
        let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
            "metadata": {"name": format!("{}-{version}", self.addon_name)},
            "spec": {"addonName": self.addon_name, "version": version, "agentSpec": spec}});
        self.hub.post(format!("{ADDONS}/addontemplates"), &template).await
    }

    pub(crate) async fn delete_version(&self, version: &str) {
        self.hub.delete(format!("{ADDONS}/addontemplates/{}-{version}", self.addon_name)).await.expect(200);
    }

    /// Writes the decision of a placement, as the placement controller does.
    pub(crate) async fn select_clusters(&self, placement: &str, clusters: &[&str]) {
        self.select_clusters_in_groups(placement, &[("", clusters)]).await;
    }

    /// Writes the decision of a placement, with one PlacementDecision for each named decision group, in this
    /// order.
    pub(crate) async fn select_clusters_in_groups(&self, placement: &str, groups: &[(&str, &[&str])]) {
        let all = self.placement_namespace_path();
        let object = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": placement}, "spec": {}});
        let created = self.hub.post(format!("{all}/placements"), &object).await;
        assert!(matches!(created.status, 201 | 409), "{}", created.text());
        let mut group_statuses = Vec::new();
        for (index, (group, clusters)) in groups.iter().enumerate() {
            let slice = format!("{placement}-decision-{}", index + 1);
            let labels = json!({
                "cluster.open-cluster-management.io/placement": placement,
                "cluster.open-cluster-management.io/decision-group-index": index.to_string(),
                "cluster.open-cluster-management.io/decision-group-name": group,
            });
            let decision = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
                "metadata": {"name": slice, "labels": labels}});
            let created = self.hub.post(format!("{all}/placementdecisions"), &decision).await;
            assert!(matches!(created.status, 201 | 409), "{}", created.text());
            let path = format!("{all}/placementdecisions/{slice}");
            self.hub.merge(&path, &json!({"metadata": {"labels": labels}})).await.expect(200);
            let decisions: Vec<Value> = clusters
                .iter()
                .map(|name| json!({"clusterName": self.cluster_name(name), "reason": ""}))
                .collect();
            let status = json!({"status": {"decisions": decisions}});
            self.hub.merge(format!("{path}/status"), &status).await.expect(200);
            group_statuses
                .push(json!({"decisionGroupIndex": index, "decisionGroupName": group, "decisions": [slice],
                "clusterCount": clusters.len()}));
        }
        // An earlier decision may have had one more group.
        let surplus = format!("{all}/placementdecisions/{placement}-decision-{}", groups.len() + 1);
        self.hub.delete(surplus).await;
        let count: usize = groups.iter().map(|(_, clusters)| clusters.len()).sum();
        let status = json!({"status": {
            "numberOfSelectedClusters": count,
            "decisionGroups": group_statuses,
            "conditions": [{"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
        }});
        self.hub.merge(format!("{all}/placements/{placement}/status"), &status).await.expect(200);
    }

    /// Sets the status of the condition `ManagedClusterConditionAvailable`. `Unknown` also adds the taint
    /// `unreachable`, and any other status removes all taints, as the cluster controller does when a Lease
    /// expires or is renewed.
    pub(crate) async fn set_cluster_available(&self, cluster: &str, status: &str) {
        let path = self.cluster_path(cluster);
        let condition = json!({"type": "ManagedClusterConditionAvailable", "status": status, "reason": "SetByTest",
            "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"});
        let update = json!({"status": {"conditions": [condition]}});
        self.hub.merge(format!("{path}/status"), &update).await.expect(200);
        let taint = json!({"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect",
            "timeAdded": "2024-05-01T10:00:00Z"});
        let taints = if status == "Unknown" { json!([taint]) } else { json!(null) };
        self.hub.merge(path, &json!({"spec": {"taints": taints}})).await.expect(200);
    }

    pub(crate) fn cluster_path(&self, cluster: &str) -> String {
        format!("{CLUSTERS}/managedclusters/{}", self.cluster_name(cluster))
    }

    pub(crate) fn placement_namespace_path(&self) -> String {
        format!("{PLACEMENTS}/namespaces/{}", self.namespace)
    }

    /// One item of `installStrategy.placements`; without a version, the clusters follow the default version.
    pub(crate) fn placement_strategy(&self, placement: &str, version: &str) -> Value {
        let mut strategy = json!({"namespace": self.namespace, "name": placement});
        if !version.is_empty() {
            strategy["addonTemplate"] = json!({"installVersion": version});
        }
        strategy
    }

    /// Sets the install strategy of the ClusterManagementAddOn, which is created if it does not exist.
    pub(crate) async fn set_placements(&self, placements: Value) {
        let strategy = json!({"type": "Placements", "placements": placements});
        let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": self.addon_name}, "spec": {"installStrategy": strategy}});
        let created = self.hub.post(format!("{ADDONS}/clustermanagementaddons"), &object).await;
        if created.status != 201 {
            self.hub
                .merge(self.management_addon_path(), &json!({"spec": {"installStrategy": strategy}}))
                .await
                .expect(200);
        }
    }

    pub(crate) fn management_addon_path(&self) -> String {
        format!("{ADDONS}/clustermanagementaddons/{}", self.addon_name)
    }

    pub(crate) fn addon_path(&self, cluster: &str) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/{}", self.cluster_name(cluster), self.addon_name)
    }

    pub(crate) fn deployment_configs_path(&self) -> String {
        format!("{ADDONS}/namespaces/{}/addondeploymentconfigs", self.namespace)
    }

    pub(crate) fn work_path(&self, cluster: &str, number: usize) -> String {
        format!(
            "{WORKS}/namespaces/{}/manifestworks/addon-{}-deploy-{number}",
            self.cluster_name(cluster),
            self.addon_name
        )
    }

    pub(crate) async fn get_addon(&self, cluster: &str) -> Value {
        self.hub.get(self.addon_path(cluster)).await.json()
    }

    pub(crate) async fn get_work(&self, cluster: &str) -> Value {
        self.hub.get(self.work_path(cluster, 0)).await.json()
    }

    /// The current version, the last version and the condition `Progressing` of the add-on on a cluster, in
    /// one line: `C=v1 L= False/Succeed: install completed with no errors.`
    pub(crate) async fn status_line(&self, cluster: &str) -> String {
        let status = &self.get_addon(cluster).await["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let progressing = conditions
            .iter()
            .find(|condition| condition["type"] == "Progressing")
            .cloned()
            .unwrap_or_default();
        format!(
            "C={} L={} {}/{}: {}",
            text(&status["currentVersion"]),
            text(&status["lastVersion"]),
            text(&progressing["status"]),
            text(&progressing["reason"]),
            text(&progressing["message"]),
        )
    }

    pub(crate) async fn wait_for_status(&self, cluster: &str, wanted: &str) {
        eventually(&format!("status of {cluster} is {wanted}"), async || {
            (self.status_line(cluster).await == wanted).then_some(())
        })
        .await;
    }

    /// A condition of the add-on on a cluster, as `status/reason: message`, or `/: ` if it is not set.
    pub(crate) async fn condition(&self, cluster: &str, type_: &str) -> String {
        let object = self.get_addon(cluster).await;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found =
            conditions.iter().find(|condition| condition["type"] == type_).cloned().unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        format!("{}/{}: {}", text("status"), text("reason"), text("message"))
    }

    pub(crate) async fn wait_for_condition(&self, cluster: &str, type_: &str, wanted: &str) {
        eventually(&format!("condition {type_} of {cluster} is {wanted}"), async || {
            (self.condition(cluster, type_).await == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn wait_for_deletion(&self, path: String) {
        eventually(&format!("{path} is deleted"), async || {
            (self.hub.get(&path).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until this object is gone. Another one may have been created with its name already.
    pub(crate) async fn wait_for_deletion_of(&self, path: String, object: &Value) {
        let uid = &object["metadata"]["uid"];
        eventually(&format!("{path} with UID {uid} is deleted"), async || {
            let found = self.hub.get(&path).await;
            (found.status == 404 || found.expect(200)["metadata"]["uid"] != *uid).then_some(())
        })
        .await;
    }

    /// The clusters with a ManagedClusterAddOn of this add-on, sorted by name.
    pub(crate) async fn clusters_with_addon(&self) -> Vec<String> {
        let list = self.hub.get(format!("{ADDONS}/managedclusteraddons")).await.expect(200);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let addons = items.iter().filter(|item| item["metadata"]["name"] == self.addon_name.as_str());
        let prefix = format!("{}-", self.prefix);
        let names = addons
            .map(|item| item["metadata"]["namespace"].as_str().unwrap_or_default().replacen(&prefix, "", 1));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) async fn wait_for_clusters_with_addon(&self, wanted: &[&str]) {
        eventually(&format!("exactly {wanted:?} have the add-on"), async || {
            (self.clusters_with_addon().await == wanted).then_some(())
        })
        .await;
    }

    /// Starts the controllers and records their requests. Controllers that were running are aborted, as by a
    /// crash.
    pub(crate) fn start_controllers(&self) -> Tap {
        let (client, tap) = Tap::on(self.hub.client());
        self.start_controllers_with(|_| client.clone());
        tap
    }

    /// Starts the controllers, each with the client that is returned for its name.
    pub(crate) fn start_controllers_with(&self, client: impl Fn(&str) -> Client) {
        let context =
            |name: &str| Context { clock: Arc::new(self.clock), ..Context::standalone(client(name)) };
        let mut controllers = self.controllers.borrow_mut();
        *controllers = JoinSet::new();
        controllers.spawn(run_addon_controllers(context(install::NAME), context(addon::NAME)));
    }

    /// Starts the test agent, which handles the ManifestWorks of all clusters.
    pub(crate) fn start_agent(&self) {
        let (client, behaviours) = (self.hub.client(), self.behaviours.clone());
        let mut agent = self.agent.borrow_mut();
        *agent = JoinSet::new();
        agent.spawn(async move {
            let all: Api<ManifestWork> = Api::all(client.clone());
            let mut works =
                std::pin::pin!(watcher(all, watcher::Config::default()).default_backoff().applied_objects());
            while let Some(event) = works.next().await {
                let Ok(work) = event else { continue };
                let behaviour = behaviours.lock().get(&work.namespace().unwrap_or_default()).cloned();
                report_work_status(&client, &work, behaviour.unwrap_or(AgentBehaviour::Healthy)).await;
            }
        });
    }

    /// Restarts the test agent, so that it handles all existing ManifestWorks again with the current
    /// behaviours.
    pub(crate) fn restart_agent(&self) {
        self.start_agent();
    }

    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

async fn report_work_status(client: &Client, work: &ManifestWork, behaviour: AgentBehaviour) {
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), &work.namespace().unwrap_or_default());
    let name = work.name_any();
    if behaviour == AgentBehaviour::Silent {
        return;
    }
    if work.metadata.deletion_timestamp.is_some() {
        let patch = json!({"metadata": {"finalizers": null}});
        let _ = works.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        return;
    }
    if work.finalizers().is_empty() {
        let patch = json!({"metadata": {"finalizers": [FINALIZER]}});
        let _ = works.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        return;
    }
    let generation = work.metadata.generation.unwrap_or_default();
    let version = work.labels().get("open-cluster-management.io/addon-version").cloned().unwrap_or_default();
    let (generation, applied) = match behaviour {
        AgentBehaviour::Behind => (generation - 1, "True"),
        AgentBehaviour::Rejects(rejected) if version == rejected => (generation, "False"),
        _ => (generation, "True"),
    };
    let condition = |type_: &str, status: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": "SetByTest", "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2024-05-01T10:00:00Z"})
    };
    let conditions = json!([
        condition(
            "Applied",
            applied,
            if applied == "True" { "all manifests were applied" } else { "ConfigMap hello was refused" }
        ),
        condition("Available", "True", "All resources are available"),
    ]);
    let is_unchanged =
        serde_json::to_value(work.status.clone().unwrap_or_default().conditions).unwrap() == conditions;
    if !is_unchanged {
        let patch = json!({"status": {"conditions": conditions}});
        let _ = works.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }
}
