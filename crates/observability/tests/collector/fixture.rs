//! A collector between a source and a receiver, whose reports are in the ObservabilityAddon of an embedded cluster.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::SystemClock;
use bellwether_observability::collector::config::{CollectorConfig, CredentialFiles, LabelRules, Source};
use bellwether_observability::collector::{Collector, Environment};
use bellwether_observability::decide::transition::Actor;
use bellwether_observability::reporter::Reporter;
use bellwether_observability::vocabulary::{Component, Vocabulary};
use bellwether_runtime::{Health, Metrics, Shutdown};
use bellwether_testkit::{Cluster, embedded, eventually};
use serde_json::{Value, json};

const ADDONS: &str = "/apis/observability.open-cluster-management.io/v1beta1";

/// The configuration of a collector between two addresses: every second, selector `up`, label `cluster`, reporting failures at
/// once.
pub(crate) fn config(source: &str, receiver: &str) -> CollectorConfig {
    let labels = ["cluster=spoke-1".parse().unwrap()];
    let elided = vec!["prometheus_replica".parse().unwrap()];
    CollectorConfig {
        component: Component::Platform,
        source: Source::new(&source.parse().unwrap(), None, CredentialFiles::default()),
        receiver: format!("{receiver}/api/v1/write").parse().unwrap(),
        receiver_files: CredentialFiles::default(),
        interval: Duration::from_secs(1),
        limit_bytes: 64 * 1024 * 1024,
        matches: vec!["up".parse().unwrap()],
        recording_rules: Vec::new(),
        labels: LabelRules::new(&labels, &["renamed=new_name".parse().unwrap()], elided).unwrap(),
        workers: NonZeroUsize::MIN,
        failure_threshold: NonZeroU32::MIN,
    }
}

/// A running collector.
pub(crate) struct Running {
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) shutdown: Shutdown,
    cluster: Cluster,
    namespace: String,
}

impl Running {
    /// Starts a collector that reports to a new cluster.
    pub(crate) async fn start(config: CollectorConfig) -> Self {
        let cluster = embedded::in_process().await;
        let definitions = bellwether_api::crds();
        let crds =
            definitions.iter().filter(|definition| definition.crd.spec.names.kind == "ObservabilityAddon");
        cluster.install_crds(crds.map(|definition| json!(definition.crd))).await;
        let namespace = cluster.namespace().await;
        let addon = json!({
            "apiVersion": "observability.open-cluster-management.io/v1beta1",
            "kind": "ObservabilityAddon",
            "metadata": {"name": "observability-addon"},
            "spec": {},
        });
        let path = format!("{ADDONS}/namespaces/{namespace}/observabilityaddons");
        cluster.post(path, &addon).await.expect(201);

        let (metrics, health, shutdown) = (Metrics::default(), Health::default(), Shutdown::default());
        let clock = Arc::new(SystemClock);
        let reporter = Reporter::new(
            cluster.client(),
            &namespace,
            Actor::Collector,
            Vocabulary::Seed,
            clock.clone(),
            &metrics,
        );
        let environment = Environment {
            clock,
            metrics: metrics.clone(),
            health: health.clone(),
            shutdown: shutdown.clone(),
        };
        let collector = Collector::new(config, environment).expect("the collector starts");
        shutdown.spawn(collector.run(Some(reporter)));
        Self { metrics, health, shutdown, cluster, namespace }
    }

    /// The condition of the component, if there is one.
    pub(crate) async fn condition(&self) -> Option<Value> {
        let path = format!("{ADDONS}/namespaces/{}/observabilityaddons/observability-addon", self.namespace);
        let addon = self.cluster.get(path).await.expect(200);
        let conditions = addon["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "MetricsCollectorStatus")
    }

    /// Waits until the collector has reported, and returns `Reason: message`.
    pub(crate) async fn report(&self) -> String {
        let condition = eventually("a report", || self.condition()).await;
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        format!("{}: {}", text("reason"), text("message"))
    }

    /// Waits until the collector has reported a reason.
    pub(crate) async fn await_reason(&self, reason: &str) {
        eventually(reason, || async {
            self.condition().await.filter(|condition| condition["reason"] == reason)
        })
        .await;
    }

    /// The value of a metric, by its name without prefix and with labels; 0 if there is none.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.text();
        let prefix = format!("acm_metrics_collector_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok()).unwrap_or(0.0)
    }
}
