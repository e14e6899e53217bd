//! A cluster of its own name on the hub, a namespace of its own on the cluster, and an agent between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_agent::{Agent, HubHash, work};
use bellwether_api::Place;
use bellwether_runtime::{Context, Leadership};
use bellwether_testkit::{Answer, Cluster, SteadyClock, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const WORKS: &str = "/apis/work.open-cluster-management.io/v1";
pub(crate) const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";

/// A hub and a cluster that know our kinds.
pub(crate) struct Theatre {
    pub(crate) hub: Cluster,
    pub(crate) spoke: Cluster,
}

impl Theatre {
    pub(crate) async fn prepare(hub: Cluster, spoke: Cluster) -> Self {
        let definitions = |without: Place| {
            let all =
                bellwether_api::crds().into_iter().filter(move |definition| definition.place != without);
            all.map(|definition| serde_json::to_value(definition.crd).unwrap())
        };
        hub.install_definitions(definitions(Place::Spokes)).await;
        spoke.install_definitions(definitions(Place::Hub)).await;
        Self { hub, spoke }
    }
}

/// One scenario's part of a theatre.
pub(crate) struct Stage<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) spoke: &'a Cluster,
    /// The name of the cluster on the hub.
    pub(crate) cluster: String,
    /// The namespace on the cluster.
    pub(crate) namespace: String,
}

/// A name that no other scenario has.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Stage<'a> {
    pub(crate) async fn new(theatre: &'a Theatre) -> Self {
        let (hub, spoke) = (&theatre.hub, &theatre.spoke);
        Self { hub, spoke, cluster: hub.namespace().await, namespace: spoke.namespace().await }
    }

    pub(crate) fn agent_of(&self, hub: kube::Client) -> Agent {
        Agent {
            hub,
            cluster: self.cluster.parse().unwrap(),
            hub_hash: HubHash::of(&self.cluster),
            agent_id: "agent".into(),
        }
    }

    /// The agent, until it is dropped.
    pub(crate) fn run(&self) -> JoinSet<()> {
        self.run_by(self.hub.client(), self.spoke.client())
    }

    pub(crate) fn run_by(&self, hub: kube::Client, spoke: kube::Client) -> JoinSet<()> {
        self.run_as(hub, spoke, Leadership::always())
    }

    pub(crate) fn run_as(
        &self,
        hub: kube::Client,
        spoke: kube::Client,
        leadership: Leadership,
    ) -> JoinSet<()> {
        let context =
            Context { clock: Arc::new(SteadyClock::default()), leadership, ..Context::standalone(spoke) };
        let mut tasks = JoinSet::new();
        tasks.spawn(work::run(self.agent_of(hub), context));
        tasks
    }

    pub(crate) fn work_path(&self, name: &str) -> String {
        format!("{WORKS}/namespaces/{}/manifestworks/{name}", self.cluster)
    }

    /// Asks for objects, by a new work.
    pub(crate) async fn ask(&self, name: &str, manifests: Value) {
        self.ask_with(name, manifests, json!({})).await;
    }

    pub(crate) async fn ask_with(&self, name: &str, manifests: Value, rest: Value) {
        let work = self.work(name, manifests, rest);
        let path = format!("{WORKS}/namespaces/{}/manifestworks", self.cluster);
        self.hub.post(path, &work).await.expect(201);
    }

    pub(crate) fn work(&self, name: &str, manifests: Value, rest: Value) -> Value {
        let mut spec = json!({"workload": {"manifests": manifests}});
        spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": name}, "spec": spec,
        })
    }

    /// Asks for other objects.
    pub(crate) async fn change(&self, name: &str, manifests: Value) {
        self.patch(name, json!({"spec": {"workload": {"manifests": manifests}}})).await;
    }

    pub(crate) async fn patch(&self, name: &str, patch: Value) {
        self.hub.merge(self.work_path(name), &patch).await.expect(200);
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.hub.delete(self.work_path(name)).await.expect(200);
    }

    pub(crate) async fn read(&self, name: &str) -> Value {
        self.hub.get(self.work_path(name)).await.expect(200)
    }

    /// The work, once something holds of it.
    pub(crate) async fn until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let last = std::cell::RefCell::new(Value::Null);
        let shown = Shown(&last);
        let found = eventually(&format!("{name} {what}"), || async {
            let work = self.hub.get(self.work_path(name)).await.json();
            last.replace(work.clone());
            holds(&work).then_some(work)
        })
        .await;
        std::mem::forget(shown);
        found
    }

    /// The work, once it is applied and available as it is now.
    pub(crate) async fn until_well(&self, name: &str) -> Value {
        self.until(name, "is applied and available", |work| {
            says(work, "Applied", "True") && says(work, "Available", "True")
        })
        .await
    }

    pub(crate) async fn until_applied(&self, name: &str, status: &str) -> Value {
        self.until(name, &format!("has Applied={status}"), |work| says(work, "Applied", status)).await
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        eventually(&format!("{name} is gone"), || async {
            (self.hub.get(self.work_path(name)).await.status == 404).then_some(())
        })
        .await;
    }

    pub(crate) fn record_path(&self, name: &str) -> String {
        format!("{WORKS}/appliedmanifestworks/{}-{name}", HubHash::of(&self.cluster).as_str())
    }

    /// What the record of a work names: resource, name and uid, sorted.
    pub(crate) async fn recorded(&self, name: &str) -> Vec<(String, String, String)> {
        let record = self.spoke.get(self.record_path(name)).await.expect(200);
        let entries = record["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
        let mut entries: Vec<_> = entries
            .iter()
            .map(|entry| (text(entry, "resource"), text(entry, "name"), text(entry, "uid")))
            .collect();
        entries.sort();
        entries
    }

    pub(crate) fn map_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace)
    }

    /// A ConfigMap as a manifest.
    pub(crate) fn map(&self, name: &str, data: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace}, "data": data,
        })
    }

    pub(crate) async fn map_now(&self, name: &str) -> Answer {
        self.spoke.get(self.map_path(name)).await
    }

    /// A ConfigMap of the cluster, once something holds of it.
    pub(crate) async fn map_until(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("ConfigMap {name} {what}"), || async {
            let answer = self.map_now(name).await;
            (answer.status == 200 && holds(&answer.json())).then(|| answer.json())
        })
        .await
    }

    pub(crate) async fn map_until_gone(&self, name: &str) {
        eventually(&format!("ConfigMap {name} is gone"), || async {
            (self.map_now(name).await.status == 404).then_some(())
        })
        .await;
    }

    /// The names of all ConfigMaps that works have made.
    pub(crate) async fn maps(&self) -> Vec<String> {
        let list =
            self.spoke.get(format!("/api/v1/namespaces/{}/configmaps", self.namespace)).await.expect(200);
        let names = list["items"].as_array().unwrap().iter();
        let names = names.map(|map| map["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "kube-root-ca.crt").collect()
    }

    pub(crate) fn deployment(&self, name: &str, replicas: u32) -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "main", "image": "example/main:1", "ports": [{"containerPort": 80}],
                        "resources": {"requests": {"cpu": "1000m"}}}]},
                },
            },
        })
    }

    pub(crate) fn deployment_path(&self, name: &str) -> String {
        format!("/apis/apps/v1/namespaces/{}/deployments/{name}", self.namespace)
    }

    /// Lets time pass: on paused time as much as is asked for, else a little.
    pub(crate) async fn pass(&self, seconds: u64) {
        let time = if self.hub.is_kubernetes() { 1_500 } else { seconds * 1_000 };
        tokio::time::sleep(Duration::from_millis(time)).await;
    }

    /// Lets time pass until nothing stirs any more.
    pub(crate) async fn calm(&self) {
        self.pass(10).await;
    }
}

/// Shows what was last seen of something when a test ends in a panic.
struct Shown<'a>(&'a std::cell::RefCell<Value>);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        println!("last seen: {:#}", self.0.borrow());
    }
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["conditions"].as_array().or_else(|| object["status"]["conditions"].as_array());
    let conditions = conditions.cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

/// Whether a condition has a status at the generation of its object.
pub(crate) fn says(object: &Value, kind: &str, status: &str) -> bool {
    let held = condition(object, kind);
    held["status"] == status && held["observedGeneration"] == object["metadata"]["generation"]
}

/// What is said of the manifest at a place.
pub(crate) fn manifest(work: &Value, ordinal: usize) -> Value {
    work["status"]["resourceStatus"]["manifests"][ordinal].clone()
}

/// Values of feedback by their names.
pub(crate) fn values(work: &Value, ordinal: usize) -> Value {
    let found = manifest(work, ordinal)["statusFeedback"]["values"].as_array().cloned().unwrap_or_default();
    let short = found.iter().map(|value| {
        let field = value["fieldValue"].as_object().unwrap();
        let (_, told) = field.iter().find(|(name, _)| *name != "type").unwrap();
        (value["name"].as_str().unwrap().to_owned(), told.clone())
    });
    Value::Object(short.collect())
}

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}
