//! The fixture of a scenario: a namespace on the hub for a cluster of a unique name, and a namespace on the cluster.

use std::sync::Arc;
use std::time::Duration;

use bellwether_agent::{Agent, HubHash};
use bellwether_runtime::Context;
use bellwether_testkit::{Cluster, HubAndSpoke, SteadyClock, eventually};
use serde_json::{Value, json};

pub(crate) const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
pub(crate) const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
pub(crate) const INSTANCES: &str = "/apis/addons.managed.openshift.io/v1alpha1";

pub(crate) struct Fixture<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) spoke: &'a Cluster,
    pub(crate) cluster: String,
    pub(crate) namespace: String,
}

impl<'a> Fixture<'a> {
    pub(crate) async fn prepare(HubAndSpoke { hub, spoke }: &'a HubAndSpoke) -> Self {
        use bellwether_api::Place;
        let crds = |without: Place| {
            let all = bellwether_api::crds().into_iter().filter(move |crd| crd.place != without);
            all.map(|crd| serde_json::to_value(crd.crd).unwrap())
        };
        hub.install_crds(crds(Place::Spokes)).await;
        spoke.install_crds(crds(Place::Hub)).await;
        let (cluster, namespace) = (hub.namespace().await, spoke.namespace().await);
        Self { hub, spoke, cluster, namespace }
    }

    pub(crate) fn agent(&self) -> Agent {
        self.agent_with(self.hub.client())
    }

    pub(crate) fn agent_with(&self, hub: kube::Client) -> Agent {
        Agent {
            hub,
            cluster: self.cluster.parse().unwrap(),
            hub_hash: HubHash::of(&self.cluster),
            agent_id: "agent".into(),
        }
    }

    pub(crate) fn context(&self) -> Context {
        Self::context_with(self.spoke.client())
    }

    pub(crate) fn context_with(spoke: kube::Client) -> Context {
        Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(spoke) }
    }

    /// Creates the ManagedCluster.
    pub(crate) async fn create_cluster(&self, spec: Value) {
        let cluster = json!({
            "apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": self.cluster}, "spec": spec,
        });
        self.hub.post(CLUSTERS, &cluster).await.expect(201);
    }

    pub(crate) fn cluster_path(&self) -> String {
        format!("{CLUSTERS}/{}", self.cluster)
    }

    pub(crate) fn lease_path(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/managed-cluster-lease", self.cluster)
    }

    pub(crate) fn addon_path(&self, name: &str) -> String {
        format!("{ADDONS}/namespaces/{}/managedclusteraddons/{name}", self.cluster)
    }

    /// Creates a ManagedClusterAddOn.
    pub(crate) async fn create_addon(&self, name: &str) {
        let addon = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": name}});
        let path = format!("{ADDONS}/namespaces/{}/managedclusteraddons", self.cluster);
        self.hub.post(path, &addon).await.expect(201);
    }

    /// Creates an AddonInstance with the label of an add-on.
    pub(crate) async fn create_instance(&self, name: &str, addon: &str) {
        let instance = json!({
            "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": name, "labels": {"open-cluster-management.io/addon-name": addon}},
            "spec": {"heartbeatUpdatePeriod": "10s"},
        });
        let path = format!("{INSTANCES}/namespaces/{}/addoninstances", self.namespace);
        self.spoke.post(path, &instance).await.expect(201);
    }

    pub(crate) fn instance_path(&self, name: &str) -> String {
        format!("{INSTANCES}/namespaces/{}/addoninstances/{name}", self.namespace)
    }

    /// Writes the condition `Healthy` and the time of the last heartbeat of an instance.
    pub(crate) async fn report_health(&self, name: &str, status: &str, reason: &str, second: u32) {
        let time = format!("2024-05-01T10:00:{second:02}Z");
        let healthy = json!({"type": "addons.managed.openshift.io/Healthy", "status": status, "reason": reason,
            "message": format!("message of {reason}"), "lastTransitionTime": time});
        let status = json!({"status": {"lastHeartbeatTime": time, "conditions": [healthy]}});
        self.spoke.merge(format!("{}/status", self.instance_path(name)), &status).await.expect(200);
    }

    /// Waits until the condition `Heartbeat` of an add-on has this status and reason, and returns the condition.
    pub(crate) async fn wait_for_heartbeat(&self, addon: &str, status: &str, reason: &str) -> Value {
        self.wait_for(&self.addon_path(addon), &format!("has Heartbeat={status}/{reason}"), |object| {
            let found = condition(object, "Heartbeat");
            (found["status"] == status && found["reason"] == reason).then_some(found)
        })
        .await
    }

    /// Waits until a function finds something in an object on the hub, and returns it.
    pub(crate) async fn wait_for<T>(&self, path: &str, what: &str, find: impl Fn(&Value) -> Option<T>) -> T {
        eventually(&format!("{path} {what}"), || async {
            let answer = self.hub.get(path).await;
            if answer.status == 200 { find(&answer.json()) } else { None }
        })
        .await
    }

    /// Advances paused time by some seconds. On real Kubernetes it waits only a moment.
    pub(crate) async fn sleep(&self, seconds: u64) {
        let millis = if self.hub.is_kubernetes() { 1_500 } else { seconds * 1_000 };
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}

pub(crate) fn condition(object: &Value, type_: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == type_).unwrap_or_default()
}
