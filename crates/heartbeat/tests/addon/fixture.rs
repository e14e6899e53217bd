//! The fixture of these tests: an Addon with its namespace and its instance, to which the test writes heartbeats in place of an
//! add-on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_heartbeat::addon::{AddonOperatorReconciler, AddonReconciler, MirrorTimeouts};
use bellwether_heartbeat::checker;
use bellwether_runtime::Context;
use bellwether_testkit::{Cluster, SteadyClock, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const GROUP: &str = "/apis/addons.managed.openshift.io/v1alpha1";
pub(crate) const DELETE: &str = "addons.managed.openshift.io/delete";
pub(crate) const DELETE_TIMEOUT: &str = "addons.managed.openshift.io/deletetimeout";

/// Starts the controller on a cluster; it runs until the result is dropped.
pub(crate) fn start_controller(cluster: &Cluster) -> JoinSet<()> {
    start_controller_with(cluster.client(), MirrorTimeouts::Off)
}

pub(crate) fn start_controller_with(client: kube::Client, mirror: MirrorTimeouts) -> JoinSet<()> {
    let context = Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(client) };
    let mut tasks = JoinSet::new();
    tasks.spawn(bellwether_runtime::run(AddonOperatorReconciler::new(&context), context.clone()));
    tasks.spawn(bellwether_runtime::run(AddonReconciler::new(&context, mirror), context));
    tasks
}

/// Starts the heartbeat checker on a cluster; it runs until the result is dropped.
pub(crate) fn start_checker(cluster: &Cluster) -> JoinSet<()> {
    let context =
        Context { clock: Arc::new(SteadyClock::default()), ..Context::standalone(cluster.client()) };
    let mut tasks = JoinSet::new();
    tasks.spawn(checker::run(context, checker::Settings::default()));
    tasks
}

/// Gives the controller time to react. With paused time this returns at once.
pub(crate) async fn wait_for_reconcile(cluster: &Cluster) {
    let time = Duration::from_millis(if cluster.is_kubernetes() { 700 } else { 5_000 });
    tokio::time::sleep(time).await;
}

/// A name that no other test uses.
pub(crate) fn unique_name(prefix: &str) -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("{prefix}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// An Addon with its target namespace.
pub(crate) struct Case<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) name: String,
    pub(crate) namespace: String,
}

impl<'a> Case<'a> {
    /// Creates an Addon that lists its namespace; `spec` is merged into the spec.
    pub(crate) async fn create(cluster: &'a Cluster, spec: Value) -> Self {
        let namespace = unique_name("ns");
        let listed = json!({"namespaces": [{"name": namespace}]});
        Self::create_in(cluster, &namespace, merged(listed, &spec)).await
    }

    /// Creates an Addon with this target namespace; `spec` is merged into the spec.
    pub(crate) async fn create_in(cluster: &'a Cluster, namespace: &str, spec: Value) -> Self {
        let name = unique_name("addon");
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

    /// Deletes the Addon and waits until it no longer exists.
    pub(crate) async fn delete(&self) {
        self.cluster.delete(self.path()).await.expect(200);
        self.wait_until_deleted(&self.path()).await;
    }

    pub(crate) async fn wait_until_deleted(&self, path: &str) {
        eventually(&format!("{path} is deleted"), || async {
            (self.cluster.get(path).await.status == 404).then_some(())
        })
        .await;
    }

    /// Waits until the Addon fulfils a predicate, and returns it.
    pub(crate) async fn wait_until(&self, what: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        let last = std::cell::RefCell::new(Value::Null);
        let found = async {
            eventually(&format!("{} {what}", self.name), || async {
                let addon = self.cluster.get(self.path()).await.json();
                last.replace(addon.clone());
                predicate(&addon).then_some(addon)
            })
            .await
        };
        let printer = PrintOnDrop(&last);
        let found = found.await;
        std::mem::forget(printer);
        found
    }

    pub(crate) async fn wait_for_condition(&self, kind: &str, status: &str, reason: &str) -> Value {
        let has_condition = |addon: &Value| {
            let found = condition(addon, kind);
            found["status"] == status && found["reason"] == reason
        };
        let addon = self.wait_until(&format!("has {kind}={status}/{reason}"), has_condition).await;
        condition(&addon, kind)
    }

    pub(crate) async fn wait_until_ready(&self) -> Value {
        self.wait_for_condition("Available", "True", "FullyReconciled").await;
        self.read().await
    }

    pub(crate) async fn wait_until_absent(&self, kind: &str) {
        self.wait_until(&format!("has no {kind}"), |addon| condition(addon, kind).is_null()).await;
    }

    /// Waits until the instance fulfils a predicate, and returns it.
    pub(crate) async fn wait_for_instance(&self, what: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        eventually(&format!("the instance of {} {what}", self.name), || async {
            let answer = self.cluster.get(self.instance_path()).await;
            (answer.status == 200 && predicate(&answer.json())).then(|| answer.json())
        })
        .await
    }

    pub(crate) async fn instance(&self) -> Value {
        self.wait_for_instance("exists", |_| true).await
    }

    /// Writes a heartbeat, and optionally a condition, as the add-on would.
    pub(crate) async fn send_heartbeat(&self, second: u32, condition: Option<(&str, &str, &str)>) {
        let mut status =
            json!({"lastHeartbeatTime": format!("2024-05-01T10:{:02}:{:02}Z", second / 60, second % 60)});
        if let Some((kind, value, reason)) = condition {
            status["conditions"] = json!([{
                "type": format!("addons.managed.openshift.io/{kind}"), "status": value, "reason": reason,
                "message": "", "lastTransitionTime": "2024-05-01T10:00:00Z",
            }]);
        }
        self.cluster
            .merge(format!("{}/status", self.instance_path()), &json!({"status": status}))
            .await
            .expect(200);
    }
}

/// Prints the last value when it is dropped, which happens if a test panics while it waits.
struct PrintOnDrop<'a>(&'a std::cell::RefCell<Value>);

impl Drop for PrintOnDrop<'_> {
    fn drop(&mut self) {
        println!("last seen: {:#}", self.0.borrow());
    }
}

pub(crate) fn condition(object: &Value, kind: &str) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

pub(crate) fn is_marked_for_deletion(instance: &Value) -> bool {
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
