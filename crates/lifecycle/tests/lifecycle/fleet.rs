//! A hub with clusters, an add-on with versions, the controllers under test, and an agent that answers works as it is told.

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

/// How the agent answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Manner {
    /// All is well.
    Well,
    /// Nothing is said.
    Silent,
    /// The objects of this version are refused.
    Refuses(&'static str),
    /// It speaks of the generation before.
    Behind,
}

pub(crate) struct Fleet<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) namespace: String,
    pub(crate) addon: String,
    prefix: String,
    controllers: RefCell<JoinSet<()>>,
    agent: RefCell<JoinSet<()>>,
    manners: Arc<Mutex<BTreeMap<String, Manner>>>,
    clock: SteadyClock,
}

fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Fleet<'a> {
    /// Clusters `c1` to `c<n>`, all of them chosen by the placement `global`, an add-on with the versions, and all
    /// controllers at work.
    pub(crate) async fn new(hub: &'a Cluster, clusters: usize, versions: &[&str]) -> Self {
        let fleet = Self {
            hub,
            namespace: hub.namespace().await,
            addon: unique("hello"),
            prefix: unique("f"),
            controllers: RefCell::default(),
            agent: RefCell::default(),
            manners: Arc::default(),
            clock: SteadyClock::default(),
        };
        for number in 1..=clusters {
            fleet.join(&format!("c{number}")).await;
        }
        for version in versions {
            fleet.publish(version).await;
        }
        let all: Vec<String> = (1..=clusters).map(|number| format!("c{number}")).collect();
        fleet.choose("global", &all.iter().map(String::as_str).collect::<Vec<_>>()).await;
        fleet.start();
        fleet.answer();
        fleet
    }

    /// The whole name of a cluster.
    pub(crate) fn cluster(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    pub(crate) async fn join(&self, name: &str) {
        let name = self.cluster(name);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.hub.post("/api/v1/namespaces", &namespace).await.expect(201);
        let cluster = json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": name}, "spec": {"hubAcceptsClient": true}});
        self.hub.post(format!("{CLUSTERS}/managedclusters"), &cluster).await.expect(201);
    }

    /// What the agent of a cluster does from now on.
    pub(crate) fn behaves(&self, cluster: &str, manner: Manner) {
        self.manners.lock().insert(self.cluster(cluster), manner);
    }

    /// Publishes a version with one ConfigMap.
    pub(crate) async fn publish(&self, version: &str) {
        let data = json!({"version": version, "level": "{{LEVEL}}"});
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hello", "namespace": "default"}, "data": data});
        let map = if version.starts_with("v") && !version.contains("levelled") {
            json!({"data": {"version": version}, "apiVersion": "v1", "kind": "ConfigMap", "metadata": map["metadata"]})
        } else {
            map
        };
        self.publish_with(version, json!([map])).await.expect(201);
    }

    pub(crate) async fn publish_with(&self, version: &str, manifests: Value) -> Answer {
        self.publish_as(version, json!({"workload": {"manifests": manifests}})).await
    }

    /// Publishes a version by the whole of its agentSpec.
    pub(crate) async fn publish_as(&self, version: &str, spec: Value) -> Answer {
        let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
            "metadata": {"name": format!("{}-{version}", self.addon)},
            "spec": {"addonName": self.addon, "version": version, "agentSpec": spec}});
        self.hub.post(format!("{ADDONS}/addontemplates"), &template).await
    }

    pub(crate) async fn withdraw(&self, version: &str) {
        self.hub.delete(format!("{ADDONS}/addontemplates/{}-{version}", self.addon)).await.expect(200);
    }

    /// Writes the decision of a placement, as a placement controller does.
    pub(crate) async fn choose(&self, placement: &str, clusters: &[&str]) {
        self.choose_in_groups(placement, &[("", clusters)]).await;
    }

    /// Writes the decision of a placement with its groups by their names, in order.
    pub(crate) async fn choose_in_groups(&self, placement: &str, groups: &[(&str, &[&str])]) {
        let all = self.placements();
        let object = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "Placement",
            "metadata": {"name": placement}, "spec": {}});
        let made = self.hub.post(format!("{all}/placements"), &object).await;
        assert!(matches!(made.status, 201 | 409), "{}", made.text());
        let mut told = Vec::new();
        for (index, (group, clusters)) in groups.iter().enumerate() {
            let slice = format!("{placement}-decision-{}", index + 1);
            let labels = json!({
                "cluster.open-cluster-management.io/placement": placement,
                "cluster.open-cluster-management.io/decision-group-index": index.to_string(),
                "cluster.open-cluster-management.io/decision-group-name": group,
            });
            let decision = json!({"apiVersion": "cluster.open-cluster-management.io/v1beta1", "kind": "PlacementDecision",
                "metadata": {"name": slice, "labels": labels}});
            let made = self.hub.post(format!("{all}/placementdecisions"), &decision).await;
            assert!(matches!(made.status, 201 | 409), "{}", made.text());
            let path = format!("{all}/placementdecisions/{slice}");
            self.hub.merge(&path, &json!({"metadata": {"labels": labels}})).await.expect(200);
            let decisions: Vec<Value> = clusters
                .iter()
                .map(|name| json!({"clusterName": self.cluster(name), "reason": ""}))
                .collect();
            let status = json!({"status": {"decisions": decisions}});
            self.hub.merge(format!("{path}/status"), &status).await.expect(200);
            told.push(json!({"decisionGroupIndex": index, "decisionGroupName": group, "decisions": [slice],
                "clusterCount": clusters.len()}));
        }
        // What is left of more groups than there are now.
        let rest = format!("{all}/placementdecisions/{placement}-decision-{}", groups.len() + 1);
        self.hub.delete(rest).await;
        let count: usize = groups.iter().map(|(_, clusters)| clusters.len()).sum();
        let status = json!({"status": {
            "numberOfSelectedClusters": count,
            "decisionGroups": told,
            "conditions": [{"type": "PlacementSatisfied", "status": "True", "reason": "AllDecisionsScheduled", "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"}],
        }});
        self.hub.merge(format!("{all}/placements/{placement}/status"), &status).await.expect(200);
    }

    /// A cluster can be reached no more, as its lease says it, or again.
    pub(crate) async fn reach(&self, cluster: &str, status: &str) {
        let path = self.cluster_path(cluster);
        let condition = json!({"type": "ManagedClusterConditionAvailable", "status": status, "reason": "AsTold",
            "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z"});
        let said = json!({"status": {"conditions": [condition]}});
        self.hub.merge(format!("{path}/status"), &said).await.expect(200);
        let taint = json!({"key": "cluster.open-cluster-management.io/unreachable", "effect": "NoSelect",
            "timeAdded": "2024-05-01T10:00:00Z"});
        let taints = if status == "Unknown" { json!([taint]) } else { json!(null) };
        self.hub.merge(path, &json!({"spec": {"taints": taints}})).await.expect(200);
    }

    pub(crate) fn cluster_path(&self, cluster: &str) -> String {
        format!("{CLUSTERS}/managedclusters/{}", self.cluster(cluster))
    }

    pub(crate) fn placements(&self) -> String {
        format!("{PLACEMENTS}/namespaces/{}", self.namespace)
    }

    /// A placement in the strategy of the add-on.
    pub(crate) fn placed(&self, placement: &str, version: &str) -> Value {
        let mut placed = json!({"namespace": self.namespace, "name": placement});
        if !version.is_empty() {
            placed["addonTemplate"] = json!({"installVersion": version});
        }
        placed
    }

    /// Makes the add-on go to placements.
    pub(crate) async fn place(&self, placements: Value) {
        let strategy = json!({"type": "Placements", "placements": placements});
        let object = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ClusterManagementAddOn",
            "metadata": {"name": self.addon}, "spec": {"installStrategy": strategy}});
        let made = self.hub.post(format!("{ADDONS}/clustermanagementaddons"), &object).await;
        if made.status != 201 {
            self.hub
                .merge(self.management_path(), &json!({"spec": {"installStrategy": strategy}}))
                .await
                .expect(200);
        }
    }

    pub(crate) fn management_path(&self) -> String {
        format!("{ADDONS}/clustermanagementaddons/{}", self.addon)
    }

    pub(crate) fn path(&self, cluster: &str) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/{}", self.cluster(cluster), self.addon)
    }

    pub(crate) fn config_path(&self) -> String {
        format!("{ADDONS}/namespaces/{}/addondeploymentconfigs", self.namespace)
    }

    pub(crate) fn work_path(&self, cluster: &str, number: usize) -> String {
        format!(
            "{WORKS}/namespaces/{}/manifestworks/addon-{}-deploy-{number}",
            self.cluster(cluster),
            self.addon
        )
    }

    pub(crate) async fn addon(&self, cluster: &str) -> Value {
        self.hub.get(self.path(cluster)).await.json()
    }

    pub(crate) async fn work(&self, cluster: &str) -> Value {
        self.hub.get(self.work_path(cluster, 0)).await.json()
    }

    /// What an add-on on a cluster says, in a line: `C=v1 L= False/Succeed: install completed with no errors.`
    pub(crate) async fn said(&self, cluster: &str) -> String {
        let status = &self.addon(cluster).await["status"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let progressing =
            conditions.iter().find(|said| said["type"] == "Progressing").cloned().unwrap_or_default();
        format!(
            "C={} L={} {}/{}: {}",
            text(&status["currentVersion"]),
            text(&status["lastVersion"]),
            text(&progressing["status"]),
            text(&progressing["reason"]),
            text(&progressing["message"]),
        )
    }

    pub(crate) async fn until_said(&self, cluster: &str, wanted: &str) {
        eventually(&format!("{cluster} says {wanted}"), async || {
            let said = self.said(cluster).await;
            (said == wanted).then_some(())
        })
        .await;
    }

    /// A condition of an add-on on a cluster, as `status/reason: message`.
    pub(crate) async fn condition(&self, cluster: &str, type_: &str) -> String {
        let object = self.addon(cluster).await;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|said| said["type"] == type_).cloned().unwrap_or_default();
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        format!("{}/{}: {}", text("status"), text("reason"), text("message"))
    }

    pub(crate) async fn until_condition(&self, cluster: &str, type_: &str, wanted: &str) {
        eventually(&format!("{cluster} says {type_} {wanted}"), async || {
            (self.condition(cluster, type_).await == wanted).then_some(())
        })
        .await;
    }

    pub(crate) async fn until_gone(&self, path: String) {
        eventually(&format!("{path} is gone"), async || {
            (self.hub.get(&path).await.status == 404).then_some(())
        })
        .await;
    }

    /// The clusters that have the add-on.
    pub(crate) async fn holders(&self) -> Vec<String> {
        let all = self.hub.get(format!("{ADDONS}/managedclusteraddons")).await.expect(200);
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let ours = items.iter().filter(|item| item["metadata"]["name"] == self.addon.as_str());
        let prefix = format!("{}-", self.prefix);
        let names = ours
            .map(|item| item["metadata"]["namespace"].as_str().unwrap_or_default().replacen(&prefix, "", 1));
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    pub(crate) async fn until_holders(&self, wanted: &[&str]) {
        eventually(&format!("{wanted:?} have the add-on"), async || {
            (self.holders().await == wanted).then_some(())
        })
        .await;
    }

    /// Starts the controllers; what ran before ends as if it were killed.
    pub(crate) fn start(&self) -> Tap {
        let (client, tap) = Tap::on(self.hub.client());
        self.start_as(|_| client.clone());
        tap
    }

    /// Starts the controllers, each with a client of its own.
    pub(crate) fn start_as(&self, client: impl Fn(&str) -> Client) {
        let context =
            |name: &str| Context { clock: Arc::new(self.clock), ..Context::standalone(client(name)) };
        let mut controllers = self.controllers.borrow_mut();
        *controllers = JoinSet::new();
        controllers.spawn(run_addon_controllers(context(install::NAME), context(addon::NAME)));
    }

    /// The agent of all clusters.
    pub(crate) fn answer(&self) {
        let (client, manners) = (self.hub.client(), self.manners.clone());
        let mut agent = self.agent.borrow_mut();
        *agent = JoinSet::new();
        agent.spawn(async move {
            let all: Api<ManifestWork> = Api::all(client.clone());
            let mut works =
                std::pin::pin!(watcher(all, watcher::Config::default()).default_backoff().applied_objects());
            while let Some(event) = works.next().await {
                let Ok(work) = event else { continue };
                let manner = manners.lock().get(&work.namespace().unwrap_or_default()).cloned();
                answer(&client, &work, manner.unwrap_or(Manner::Well)).await;
            }
        });
    }

    /// Lets the agent look at all works again.
    pub(crate) fn wake(&self) {
        self.answer();
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

async fn answer(client: &Client, work: &ManifestWork, manner: Manner) {
    let works: Api<ManifestWork> = Api::namespaced(client.clone(), &work.namespace().unwrap_or_default());
    let name = work.name_any();
    if manner == Manner::Silent {
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
    let (generation, applied) = match manner {
        Manner::Behind => (generation - 1, "True"),
        Manner::Refuses(refused) if version == refused => (generation, "False"),
        _ => (generation, "True"),
    };
    let condition = |type_: &str, status: &str, message: &str| {
        json!({"type": type_, "status": status, "reason": "AsTold", "message": message,
            "observedGeneration": generation, "lastTransitionTime": "2024-05-01T10:00:00Z"})
    };
    let conditions = json!([
        condition(
            "Applied",
            applied,
            if applied == "True" { "all was written" } else { "ConfigMap hello was refused" }
        ),
        condition("Available", "True", "All resources are available"),
    ]);
    let same =
        serde_json::to_value(work.status.clone().unwrap_or_default().conditions).unwrap() == conditions;
    if !same {
        let patch = json!({"status": {"conditions": conditions}});
        let _ = works.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
    }
}
