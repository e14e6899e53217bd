//! A cluster of its own name on the hub, accepted, and a namespace of its own on the cluster.

use std::sync::Arc;
use std::time::Duration;

use bellwether_agent::{Agent, HubHash};
use bellwether_runtime::Context;
use bellwether_testkit::{Cluster, SteadyClock, eventually};
use serde_json::{Value, json};

pub(crate) const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io/v1/managedclusters";
pub(crate) const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
pub(crate) const INSTANCES: &str = "/apis/addons.managed.openshift.io/v1alpha1";

/// A hub and a cluster.
pub(crate) struct Ground {
    pub(crate) hub: Cluster,
    pub(crate) spoke: Cluster,
}

pub(crate) struct Stage<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) spoke: &'a Cluster,
    pub(crate) cluster: String,
    pub(crate) namespace: String,
}

impl<'a> Stage<'a> {
    pub(crate) async fn prepare(Ground { hub, spoke }: &'a Ground) -> Self {
        use bellwether_api::Place;
        let definitions = |without: Place| {
            let all =
                bellwether_api::crds().into_iter().filter(move |definition| definition.place != without);
            all.map(|definition| serde_json::to_value(definition.crd).unwrap())
        };
        hub.install_definitions(definitions(Place::Spokes)).await;
        spoke.install_definitions(definitions(Place::Hub)).await;
        let (cluster, namespace) = (hub.namespace().await, spoke.namespace().await);
        Self { hub, spoke, cluster, namespace }
    }

    pub(crate) fn agent(&self) -> Agent {
        self.agent_by(self.hub.client())
    }

    pub(crate) fn agent_by(&self, hub: kube::Client) -> Agent {
        Agent {
            hub,
            cluster: self.cluster.parse().unwrap(),
            hub_hash: HubHash::of(&self.cluster),
            agent_id: "agent".into(),
        }
    }

    pub(crate) fn context(&self) -> Context {
        Self::context_by(self.spoke.client())
    }

    pub(crate) fn context_by(spoke: kube::Client) -> Context {
        Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(spoke) }
    }

    /// The cluster joins.
    pub(crate) async fn join(&self, spec: Value) {
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

    /// An add-on comes to the cluster.
    pub(crate) async fn install(&self, name: &str) {
        let addon = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "ManagedClusterAddOn",
            "metadata": {"name": name}});
        let path = format!("{ADDONS}/namespaces/{}/managedclusteraddons", self.cluster);
        self.hub.post(path, &addon).await.expect(201);
    }

    /// An instance of an add-on, by its label.
    pub(crate) async fn instance(&self, name: &str, addon: &str) {
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

    /// What an instance says of its health, and when it beat.
    pub(crate) async fn say(&self, name: &str, status: &str, reason: &str, second: u32) {
        let time = format!("2024-05-01T10:00:{second:02}Z");
        let healthy = json!({"type": "addons.managed.openshift.io/Healthy", "status": status, "reason": reason,
            "message": format!("{reason} it is"), "lastTransitionTime": time});
        let status = json!({"status": {"lastHeartbeatTime": time, "conditions": [healthy]}});
        self.spoke.merge(format!("{}/status", self.instance_path(name)), &status).await.expect(200);
    }

    /// What the hub says of the heartbeats of an add-on, once that is something.
    pub(crate) async fn until_told(&self, addon: &str, status: &str, reason: &str) -> Value {
        self.until(&self.addon_path(addon), &format!("has Heartbeat={status}/{reason}"), |object| {
            let held = condition(object, "Heartbeat");
            (held["status"] == status && held["reason"] == reason).then_some(held)
        })
        .await
    }

    /// Something of an object on the hub, once it is there.
    pub(crate) async fn until<T>(&self, path: &str, what: &str, find: impl Fn(&Value) -> Option<T>) -> T {
        eventually(&format!("{path} {what}"), || async {
            let answer = self.hub.get(path).await;
            if answer.status == 200 { find(&answer.json()) } else { None }
        })
        .await
    }

    /// Lets time pass: on paused time as much as is asked for, else a little.
    pub(crate) async fn pass(&self, seconds: u64) {
        let time = if self.hub.is_kubernetes() { 1_500 } else { seconds * 1_000 };
        tokio::time::sleep(Duration::from_millis(time)).await;
    }
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}
