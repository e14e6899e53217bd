//! An Addon to try things on: its namespace, its instance, and what the add-on itself would write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_heartbeat::addon::{Addons, MirrorTimeouts, Operators};
use bellwether_heartbeat::checker;
use bellwether_runtime::Context;
use bellwether_testkit::{Cluster, SteadyClock, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const GROUP: &str = "/apis/addons.managed.openshift.io/v1alpha1";
pub(crate) const DELETE: &str = "addons.managed.openshift.io/delete";
pub(crate) const DELETE_TIMEOUT: &str = "addons.managed.openshift.io/deletetimeout";

/// The controller on a cluster, until it is dropped.
pub(crate) fn control(cluster: &Cluster) -> JoinSet<()> {
    control_as(cluster.client(), MirrorTimeouts::Off)
}

pub(crate) fn control_as(client: kube::Client, mirror: MirrorTimeouts) -> JoinSet<()> {
    let context = Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(client) };
    let mut tasks = JoinSet::new();
    tasks.spawn(bellwether_runtime::run(Operators::new(&context), context.clone()));
    tasks.spawn(bellwether_runtime::run(Addons::new(&context, mirror), context));
    tasks
}

/// The checker of heartbeats on a cluster, until it is dropped.
pub(crate) fn check(cluster: &Cluster) -> JoinSet<()> {
    let context =
        Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(cluster.client()) };
    let mut tasks = JoinSet::new();
    tasks.spawn(checker::run(context, checker::Settings::default()));
    tasks
}

/// Lets time pass. On paused time this takes none.
pub(crate) async fn pass(cluster: &Cluster) {
    let time = Duration::from_millis(if cluster.is_kubernetes() { 700 } else { 5_000 });
    tokio::time::sleep(time).await;
}

/// A name that no other scenario has.
pub(crate) fn unique(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An Addon that is installed in a namespace of its own.
pub(crate) struct Case<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl<'a> Case<'a> {
    /// An Addon that lists its namespace, with more in its spec.
    pub(crate) async fn create(cluster: &'a Cluster, spec: Value) -> Self {
        let namespace = unique("ns");
        let listed = json!({"namespaces": [{"name": namespace}]});
        Self::create_in(cluster, &namespace, merged(listed, &spec)).await
    }

    /// An Addon that is installed in a namespace.
    pub(crate) async fn create_in(cluster: &'a Cluster, namespace: &str, spec: Value) -> Self {
        let name = unique("addon");
        let base = json!({
            "displayName": "An add-on",
            "install": {"type": "External", "external": {"namespace": namespace}},
        });
        let case = Self { cluster, name, namespace: namespace.to_owned() };
        let metadata = json!({"name": case.name});
        case.post(metadata, merged(base, &spec)).await;
        case
    }

    pub(crate) async fn post(&self, metadata: Value, spec: Value) {
        let addon = json!({
            "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon",
            "metadata": metadata, "spec": spec,
        });
        self.cluster.post(format!("{GROUP}/addons"), &addon).await.expect(201);
    }

    pub(crate) fn path(&self) -> String {
        format!("{GROUP}/addons/{}", self.name)
    }

    pub(crate) fn instance_path(&self) -> String {
        format!("{GROUP}/namespaces/{}/addoninstances/addon-instance", self.namespace)
    }

    pub(crate) fn namespace_path(&self) -> String {
        format!("/api/v1/namespaces/{}", self.namespace)
    }

    pub(crate) async fn read(&self) -> Value {
        self.cluster.get(self.path()).await.expect(200)
    }

    pub(crate) async fn merge(&self, patch: Value) {
        self.cluster.merge(self.path(), &patch).await.expect(200);
    }

    pub(crate) async fn annotate(&self, name: &str, value: Option<&str>) {
        self.merge(json!({"metadata": {"annotations": {name: value}}})).await;
    }

    /// Deletes the Addon and waits until it is gone.
    pub(crate) async fn delete(&self) {
        self.cluster.delete(self.path()).await.expect(200);
        self.gone(&self.path()).await;
    }

    pub(crate) async fn gone(&self, path: &str) {
        eventually(&format!("{path} is gone"), || async {
            (self.cluster.get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// The Addon, once something holds of it.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let last = std::cell::RefCell::new(Value::Null);
        let found = async {
            eventually(&format!("{} {what}", self.name), || async {
                let addon = self.cluster.get(self.path()).await.json();
                last.replace(addon.clone());
                holds(&addon).then_some(addon)
            })
            .await
        };
        let shown = Shown(&last);
        let found = found.await;
        std::mem::forget(shown);
        found
    }

    pub(crate) async fn until_condition(&self, kind: &str, status: &str, reason: &str) -> Value {
        let says = |addon: &Value| {
            let found = condition(addon, kind);
            found["status"] == status && found["reason"] == reason
        };
        let addon = self.until(&format!("has {kind}={status}/{reason}"), says).await;
        condition(&addon, kind)
    }

    pub(crate) async fn until_ready(&self) -> Value {
        self.until_condition("Available", "True", "FullyReconciled").await;
        self.read().await
    }

    pub(crate) async fn until_no(&self, kind: &str) {
        self.until(&format!("has no {kind}"), |addon| condition(addon, kind).is_null()).await;
    }

    /// The instance, once something holds of it.
    pub(crate) async fn instance_until(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the instance of {} {what}", self.name), || async {
            let answer = self.cluster.get(self.instance_path()).await;
            (answer.status == 200 && holds(&answer.json())).then(|| answer.json())
        })
        .await
    }

    pub(crate) async fn instance(&self) -> Value {
        self.instance_until("is there", |_| true).await
    }

    /// What the add-on writes: a heartbeat, and perhaps a condition with it.
    pub(crate) async fn pulse(&self, second: u32, condition: Option<(&str, &str, &str)>) {
        let mut status =
            json!({"lastHeartbeatTime": format!("2024-05-01T10:{:02}:{:02}Z", second / 60, second % 60)});
        if let Some((kind, holds, reason)) = condition {
            status["conditions"] = json!([{
                "type": format!("addons.managed.openshift.io/{kind}"), "status": holds, "reason": reason,
                "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z",
            }]);
        }
        self.cluster
            .merge(format!("{}/status", self.instance_path()), &json!({"status": status}))
            .await
            .expect(200);
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
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub(crate) fn is_marked(instance: &Value) -> bool {
    instance["spec"]["markedForDeletion"] == true
}

/// The result of a merge patch.
pub(crate) fn merged(mut target: Value, patch: &Value) -> Value {
    merge(&mut target, patch);
    target
}

fn merge(target: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        target.clone_from(patch);
        return;
    };
    for (name, value) in fields {
        match value {
            Value::Null => drop(target.as_object_mut().and_then(|target| target.remove(name))),
            value => merge(&mut target[name], value),
        }
    }
}
