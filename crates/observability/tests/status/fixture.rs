//! The fixture of a scenario: an ObservabilityAddon on the hub and on the cluster, each in a namespace of its own, and the
//! controllers, whose requests are recorded.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::Place;
use bellwether_observability::decide::transition::Actor;
use bellwether_observability::operator::{self, Source};
use bellwether_observability::reporter::{ReportError, Reported, Reporter};
use bellwether_observability::vocabulary::{Component, ComponentReason, Vocabulary};
use bellwether_observability::{mirror, status};
use bellwether_runtime::{Context, Metrics};
use bellwether_testkit::{Cluster, HubAndSpoke, SteadyClock, Tap, eventually};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const GROUP: &str = "/apis/observability.open-cluster-management.io/v1beta1";

pub(crate) struct Fixture<'a> {
    pub(crate) hub: &'a Cluster,
    pub(crate) spoke: &'a Cluster,
    /// The namespace of the cluster on the hub.
    pub(crate) hub_namespace: String,
    /// The namespace of the add-on on the cluster.
    pub(crate) namespace: String,
    /// The namespace in which the cluster has its Prometheus.
    pub(crate) monitoring: String,
    clock: SteadyClock,
    controllers: RefCell<JoinSet<()>>,
}

/// The recorded requests of the status controller.
pub(crate) struct Taps {
    pub(crate) spoke: Tap,
    pub(crate) hub: Tap,
}

impl<'a> Fixture<'a> {
    pub(crate) async fn prepare(HubAndSpoke { hub, spoke }: &'a HubAndSpoke) -> Self {
        let crds = |without: Place| {
            let all = bellwether_api::crds().into_iter().filter(move |crd| crd.place != without);
            all.map(|crd| serde_json::to_value(crd.crd).unwrap())
        };
        hub.install_crds(crds(Place::Spokes)).await;
        spoke.install_crds(crds(Place::Hub)).await;
        let (hub_namespace, namespace) = (hub.namespace().await, spoke.namespace().await);
        let (monitoring, clock) = (spoke.namespace().await, SteadyClock::default());
        Self { hub, spoke, hub_namespace, namespace, monitoring, clock, controllers: RefCell::default() }
    }

    /// Creates the add-on on the hub and on the cluster.
    pub(crate) async fn create_addons(&self) {
        self.create_on_hub().await;
        self.create_on_spoke().await;
    }

    pub(crate) async fn create_on_hub(&self) {
        self.hub.post(path(&self.hub_namespace, ""), &addon()).await.expect(201);
    }

    pub(crate) async fn create_on_spoke(&self) {
        self.spoke.post(path(&self.namespace, ""), &addon()).await.expect(201);
    }

    pub(crate) fn hub_path(&self) -> String {
        path(&self.hub_namespace, "/observability-addon")
    }

    pub(crate) fn spoke_path(&self) -> String {
        path(&self.namespace, "/observability-addon")
    }

    fn context(&self, client: kube::Client) -> Context {
        Context { clock: Arc::new(self.clock), ..Context::standalone(client) }
    }

    /// Starts the status controller in place of the one that runs.
    pub(crate) fn start_status_controller(&self) -> Taps {
        let (hub, tap) = Tap::on(self.hub.client());
        Taps { spoke: self.start_status_controller_with(hub), hub: tap }
    }

    /// Starts the status controller with a client of the hub, in place of the one that runs.
    pub(crate) fn start_status_controller_with(&self, hub: kube::Client) -> Tap {
        let (client, spoke) = Tap::on(self.spoke.client());
        *self.controllers.borrow_mut() = JoinSet::new();
        self.add_status_controller_with(client, hub);
        spoke
    }

    /// Starts the status controller with clients of the cluster and of the hub, in addition to what runs.
    pub(crate) fn add_status_controller_with(&self, client: kube::Client, hub: kube::Client) {
        let settings = status::Settings {
            namespace: self.namespace.clone(),
            hub,
            hub_namespace: self.hub_namespace.clone(),
            vocabulary: Vocabulary::Seed,
            resync_interval: self.resync_interval(),
        };
        self.controllers.borrow_mut().spawn(status::run(settings, self.context(client)));
    }

    /// Starts the endpoint operator in place of what runs.
    pub(crate) fn start_operator(&self) {
        self.start_operator_with(self.spoke.client(), self.hub.client());
    }

    /// Starts the endpoint operator with clients of the cluster and of the hub, in place of what runs.
    pub(crate) fn start_operator_with(&self, client: kube::Client, hub: kube::Client) {
        *self.controllers.borrow_mut() = JoinSet::new();
        self.add_operator_with(client, hub);
    }

    /// Starts the endpoint operator with clients of the cluster and of the hub, in addition to what runs.
    pub(crate) fn add_operator_with(&self, client: kube::Client, hub: kube::Client) {
        let source = |url: &str| Source { url: url.to_owned(), ca_file: None, token_file: None };
        let settings = operator::Settings {
            namespace: self.namespace.clone(),
            hub,
            hub_namespace: self.hub_namespace.clone(),
            image: "bellwether".to_owned(),
            platform: source("http://prometheus:9090"),
            platform_service: (self.monitoring.clone(), "prometheus-k8s".to_owned()),
            user_workloads: source("http://prometheus-user-workload:9090"),
            user_workload_stateful_set: (self.monitoring.clone(), "prometheus-user-workload".to_owned()),
            vocabulary: Vocabulary::Seed,
        };
        self.controllers.borrow_mut().spawn(operator::run(settings, self.context(client)));
    }

    /// Starts the mirror on the hub, in addition to what runs.
    pub(crate) fn start_mirror(&self) {
        self.add_mirror_with(self.hub.client());
    }

    /// Starts the mirror with a client of the hub, in addition to what runs.
    pub(crate) fn add_mirror_with(&self, client: kube::Client) {
        self.controllers.borrow_mut().spawn(mirror::run(self.context(client)));
    }

    /// Grants the permissions of an agent in the namespace of the cluster on the hub.
    pub(crate) async fn bind_agent(&self, role: &str, user: &str) {
        const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
        let group = "rbac.authorization.k8s.io";
        let role: Value = serde_saphyr::from_str(role).unwrap();
        let binding = json!({
            "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "agent"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role["metadata"]["name"]},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        });
        self.hub.post(format!("{RBAC}/clusterroles"), &role).await.expect(201);
        let bindings = format!("{RBAC}/namespaces/{}/rolebindings", self.hub_namespace);
        self.hub.post(bindings, &binding).await.expect(201);
    }

    pub(crate) fn reporter(&self, actor: Actor) -> Reporter {
        self.reporter_with(self.spoke.client(), actor)
    }

    fn reporter_with(&self, client: kube::Client, actor: Actor) -> Reporter {
        let clock = Arc::new(self.clock);
        Reporter::new(client, &self.namespace, actor, Vocabulary::Seed, clock, &Metrics::default())
    }

    /// Reports as a collector, with a client of the cluster.
    pub(crate) async fn report_with(
        &self,
        client: kube::Client,
        component: Component,
        reason: ComponentReason,
    ) -> Result<Reported, ReportError> {
        self.reporter_with(client, Actor::Collector).report(component, reason, "").await
    }

    pub(crate) async fn operator_reports(&self, component: Component, reason: ComponentReason) -> Reported {
        self.try_report(Actor::Operator, component, reason).await.unwrap()
    }

    pub(crate) async fn collector_reports(&self, component: Component, reason: ComponentReason) -> Reported {
        self.try_report(Actor::Collector, component, reason).await.unwrap()
    }

    pub(crate) async fn try_report(
        &self,
        actor: Actor,
        component: Component,
        reason: ComponentReason,
    ) -> Result<Reported, ReportError> {
        self.reporter(actor).report(component, reason, "").await
    }

    /// Replaces the conditions of an object, as any writer may.
    pub(crate) async fn write_conditions(&self, cluster: &Cluster, path: &str, conditions: Value) {
        cluster
            .merge(format!("{path}/status"), &json!({"status": {"conditions": conditions}}))
            .await
            .expect(200);
    }

    /// The conditions on the cluster as `type=status/reason`, in their order.
    pub(crate) async fn spoke_state(&self) -> Vec<String> {
        brief(&self.spoke.get(self.spoke_path()).await.expect(200))
    }

    /// Waits until the one standard condition that is True on the cluster and on the hub is this `type/reason: message`.
    pub(crate) async fn wait_for_state(&self, wanted: &str) {
        for (cluster, path) in [(self.spoke, self.spoke_path()), (self.hub, self.hub_path())] {
            wait_for_true(cluster, &path, wanted).await;
        }
        let (spoke, hub) = (self.spoke.get(self.spoke_path()).await, self.hub.get(self.hub_path()).await);
        assert_eq!(hub.json()["status"], spoke.json()["status"], "the hub has the status of the cluster");
    }

    fn resync_interval(&self) -> Duration {
        if self.hub.is_kubernetes() { Duration::from_secs(2) } else { status::RESYNC_INTERVAL }
    }

    /// Waits until the status controller has compared the cluster with the hub again.
    pub(crate) async fn wait_for_resync(&self) {
        tokio::time::sleep(self.resync_interval().mul_f64(1.1) + Duration::from_secs(1)).await;
    }

    /// Gives the controllers time to react. With paused time this returns at once.
    pub(crate) async fn wait_for_reconcile(&self) {
        let time = Duration::from_millis(if self.hub.is_kubernetes() { 1_500 } else { 5_000 });
        tokio::time::sleep(time).await;
    }
}

/// Waits until the one standard condition that is True is this `type/reason: message`.
pub(crate) async fn wait_for_true(cluster: &Cluster, path: &str, wanted: &str) {
    eventually(&format!("{path} has {wanted}"), || async {
        let found = cluster.get(path).await;
        (found.status == 200 && trues(&found.json()) == [wanted]).then_some(())
    })
    .await;
}

fn path(namespace: &str, name: &str) -> String {
    format!("{GROUP}/namespaces/{namespace}/observabilityaddons{name}")
}

fn addon() -> Value {
    json!({"apiVersion": "observability.open-cluster-management.io/v1beta1", "kind": "ObservabilityAddon",
        "metadata": {"name": "observability-addon"}, "spec": {}})
}

fn conditions(object: &Value) -> Vec<Value> {
    object["status"]["conditions"].as_array().cloned().unwrap_or_default()
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(crate) fn brief(object: &Value) -> Vec<String> {
    let line =
        |one: Value| format!("{}={}/{}", text(&one["type"]), text(&one["status"]), text(&one["reason"]));
    conditions(object).into_iter().map(line).collect()
}

/// The standard conditions that are True, as `type/reason: message`.
fn trues(object: &Value) -> Vec<String> {
    let is_standard = |one: &Value| !text(&one["type"]).contains("Collector") && one["status"] == "True";
    let line =
        |one: &Value| format!("{}/{}: {}", text(&one["type"]), text(&one["reason"]), text(&one["message"]));
    conditions(object).iter().filter(|one| is_standard(one)).map(line).collect()
}

/// A condition of the wire format.
pub(crate) fn condition(type_: &str, status: &str, reason: &str, time: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": "m", "lastTransitionTime": time})
}
