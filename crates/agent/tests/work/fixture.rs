//! The fixture of a scenario: a namespace on the hub for a cluster of a unique name, a namespace on the cluster, and
//! functions to run an agent between them.

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

/// A hub and a cluster with our CRDs.
pub(crate) struct TestClusters {
    pub(crate) hub: Cluster,
    pub(crate) spoke: Cluster,
}

impl TestClusters {
    pub(crate) async fn prepare(hub: Cluster, spoke: Cluster) -> Self {
        let crds = |without: Place| {
            let all = bellwether_api::crds().into_iter().filter(move |crd| crd.place != without);
            all.map(|crd| serde_json::to_value(crd.crd).unwrap())
        };
        hub.install_crds(crds(Place::Spokes)).await;
        spoke.install_crds(crds(Place::Hub)).await;
        Self { hub, spoke }
    }
}

/// The part of the test clusters that one scenario uses.
pub(crate) struct Fixture<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) spoke: &'a Cluster,
    /// The name of the cluster on the hub.
    pub(crate) cluster: String,
    /// The namespace on the cluster.
    pub(crate) namespace: String,
}

/// A name that no other scenario uses.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

impl<'a> Fixture<'a> {
    pub(crate) async fn new(clusters: &'a TestClusters) -> Self {
        let (hub, spoke) = (&clusters.hub, &clusters.spoke);
        Self { hub, spoke, cluster: hub.namespace().await, namespace: spoke.namespace().await }
    }

    fn agent(&self, hub: kube::Client) -> Agent {
        Agent {
            hub,
            cluster: self.cluster.parse().unwrap(),
            hub_hash: HubHash::of(&self.cluster),
            agent_id: "agent".into(),
        }
    }

    /// Starts the agent. It stops when the result is dropped.
    pub(crate) fn start_agent(&self) -> JoinSet<()> {
        self.start_agent_with(self.hub.client(), self.spoke.client())
    }

    pub(crate) fn start_agent_with(&self, hub: kube::Client, spoke: kube::Client) -> JoinSet<()> {
        self.start_agent_as(hub, spoke, Leadership::always())
    }

    pub(crate) fn start_agent_as(
        &self,
        hub: kube::Client,
        spoke: kube::Client,
        leadership: Leadership,
    ) -> JoinSet<()> {
        let context =
            Context { clock: Arc::new(SteadyClock::default()), leadership, ..Context::standalone(spoke) };
        let mut tasks = JoinSet::new();
        tasks.spawn(work::run(self.agent(hub), context));
        tasks
    }

    pub(crate) fn work_path(&self, name: &str) -> String {
        format!("{WORKS}/namespaces/{}/manifestworks/{name}", self.cluster)
    }

    /// Creates a ManifestWork with these manifests.
    pub(crate) async fn create_work(&self, name: &str, manifests: Value) {
        self.create_work_with(name, manifests, json!({})).await;
    }

    /// Creates a ManifestWork with these manifests and further fields of the spec.
    pub(crate) async fn create_work_with(&self, name: &str, manifests: Value, options: Value) {
        let work = self.work(name, manifests, options);
        let path = format!("{WORKS}/namespaces/{}/manifestworks", self.cluster);
        self.hub.post(path, &work).await.expect(201);
    }

    fn work(&self, name: &str, manifests: Value, options: Value) -> Value {
        let mut spec = json!({"workload": {"manifests": manifests}});
        spec.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        json!({
            "apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
            "metadata": {"name": name}, "spec": spec,
        })
    }

    /// Replaces the manifests of a ManifestWork.
    pub(crate) async fn set_manifests(&self, name: &str, manifests: Value) {
        self.patch_work(name, json!({"spec": {"workload": {"manifests": manifests}}})).await;
    }

    pub(crate) async fn patch_work(&self, name: &str, patch: Value) {
        self.hub.merge(self.work_path(name), &patch).await.expect(200);
    }

    pub(crate) async fn delete_work(&self, name: &str) {
        self.hub.delete(self.work_path(name)).await.expect(200);
    }

    pub(crate) async fn get_work(&self, name: &str) -> Value {
        self.hub.get(self.work_path(name)).await.expect(200)
    }

    /// Waits until a predicate holds for the ManifestWork, and returns the ManifestWork.
    pub(crate) async fn wait_for_work(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let last_seen = std::cell::RefCell::new(Value::Null);
        let print_on_panic = PrintOnPanic(&last_seen);
        let found = eventually(&format!("{name} {what}"), || async {
            let work = self.hub.get(self.work_path(name)).await.json();
            last_seen.replace(work.clone());
            holds(&work).then_some(work)
        })
        .await;
        std::mem::forget(print_on_panic);
        found
    }

    /// Waits until the current generation of the ManifestWork is applied and available.
    pub(crate) async fn wait_until_available(&self, name: &str) -> Value {
        self.wait_for_work(name, "is applied and available", |work| {
            has_condition(work, "Applied", "True") && has_condition(work, "Available", "True")
        })
        .await
    }

    pub(crate) async fn wait_for_applied(&self, name: &str, status: &str) -> Value {
        self.wait_for_work(name, &format!("has Applied={status}"), |work| {
            has_condition(work, "Applied", status)
        })
        .await
    }

    pub(crate) async fn wait_until_deleted(&self, name: &str) {
        eventually(&format!("ManifestWork {name} is deleted"), || async {
            (self.hub.get(self.work_path(name)).await.status == 404).then_some(())
        })
        .await;
    }

    pub(crate) fn applied_work_path(&self, name: &str) -> String {
        format!("{WORKS}/appliedmanifestworks/{}-{name}", HubHash::of(&self.cluster).as_str())
    }

    /// The applied resources of the AppliedManifestWork: resource, name and uid, sorted.
    pub(crate) async fn applied_resources(&self, name: &str) -> Vec<(String, String, String)> {
        let applied_work = self.spoke.get(self.applied_work_path(name)).await.expect(200);
        let entries = applied_work["status"]["appliedResources"].as_array().cloned().unwrap_or_default();
        let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        let mut entries: Vec<_> = entries
            .iter()
            .map(|entry| (text(entry, "resource"), text(entry, "name"), text(entry, "uid")))
            .collect();
        entries.sort();
        entries
    }

    pub(crate) fn config_map_path(&self, name: &str) -> String {
        format!("/api/v1/namespaces/{}/configmaps/{name}", self.namespace)
    }

    /// The manifest of a ConfigMap.
    pub(crate) fn config_map(&self, name: &str, data: Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": self.namespace}, "data": data,
        })
    }

    pub(crate) async fn get_config_map(&self, name: &str) -> Answer {
        self.spoke.get(self.config_map_path(name)).await
    }

    /// Waits until a predicate holds for a ConfigMap on the cluster, and returns the ConfigMap.
    pub(crate) async fn wait_for_config_map(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        eventually(&format!("ConfigMap {name} {what}"), || async {
            let answer = self.get_config_map(name).await;
            (answer.status == 200 && holds(&answer.json())).then(|| answer.json())
        })
        .await
    }

    pub(crate) async fn wait_until_config_map_deleted(&self, name: &str) {
        eventually(&format!("ConfigMap {name} is deleted"), || async {
            (self.get_config_map(name).await.status == 404).then_some(())
        })
        .await;
    }

    /// The names of all ConfigMaps in the namespace, except the one of Kubernetes itself.
    pub(crate) async fn config_map_names(&self) -> Vec<String> {
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

    /// Advances paused time by some seconds. On real Kubernetes it waits only a moment.
    pub(crate) async fn sleep(&self, seconds: u64) {
        let millis = if self.hub.is_kubernetes() { 1_500 } else { seconds * 1_000 };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Waits until the agent has handled all changes.
    pub(crate) async fn wait_until_idle(&self) {
        self.sleep(10).await;
    }
}

/// Prints the last seen value if a test panics.
struct PrintOnPanic<'a>(&'a std::cell::RefCell<Value>);

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        println!("last seen: {:#}", self.0.borrow());
    }
}

pub(crate) fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["conditions"].as_array().or_else(|| object["status"]["conditions"].as_array());
    let conditions = conditions.cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}

/// Whether a condition has this status for the current generation of its object.
pub(crate) fn has_condition(object: &Value, type_: &str, status: &str) -> bool {
    let found = condition(object, type_);
    found["status"] == status && found["observedGeneration"] == object["metadata"]["generation"]
}

/// The status of a manifest.
pub(crate) fn manifest_status(work: &Value, ordinal: usize) -> Value {
    work["status"]["resourceStatus"]["manifests"][ordinal].clone()
}

/// The feedback values of a manifest, by name.
pub(crate) fn feedback_values(work: &Value, ordinal: usize) -> Value {
    let found =
        manifest_status(work, ordinal)["statusFeedback"]["values"].as_array().cloned().unwrap_or_default();
    let short = found.iter().map(|entry| {
        let field = entry["fieldValue"].as_object().unwrap();
        let (_, value) = field.iter().find(|(name, _)| *name != "type").unwrap();
        (entry["name"].as_str().unwrap().to_owned(), value.clone())
    });
    Value::Object(short.collect())
}

pub(crate) fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}
