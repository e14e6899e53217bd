//! The fixture of these tests: a namespace with AddonInstances, to which the test sends heartbeats, and a checker that can be
//! stopped and started.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock as _, SteadyClock};
use bellwether_heartbeat::checker::{self, Settings};
use bellwether_runtime::{Context, Metrics};
use bellwether_testkit::{Cluster, Tap, eventually};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub(crate) const HEALTHY: &str = "addons.managed.openshift.io/Healthy";

pub(crate) struct Fixture<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: String,
    /// The default period of instances.
    pub(crate) period: Duration,
    pub(crate) clock: SteadyClock,
    pub(crate) metrics: Metrics,
    checker: RefCell<JoinSet<()>>,
}

impl<'a> Fixture<'a> {
    pub(crate) async fn new(cluster: &'a Cluster, period: u64) -> Self {
        let crds = bellwether_api::crds().into_iter();
        let instances = crds.filter(|definition| definition.name().starts_with("addoninstances."));
        cluster.install_crds(instances.map(|definition| json!(definition.crd))).await;
        Self {
            cluster,
            namespace: cluster.namespace().await,
            period: Duration::from_secs(period),
            clock: SteadyClock::default(),
            metrics: Metrics::default(),
            checker: RefCell::default(),
        }
    }

    pub(crate) fn threshold(&self) -> Duration {
        self.period * 3
    }

    /// How late the checker may react. Real Kubernetes gets more time.
    pub(crate) fn tolerance(&self) -> Duration {
        Duration::from_secs(if self.cluster.is_kubernetes() { 4 } else { 2 })
    }

    pub(crate) fn context(&self) -> Context {
        let context = Context::standalone(self.cluster.client());
        Context { clock: Arc::new(self.clock), metrics: self.metrics.clone(), ..context }
    }

    /// Starts a checker; the previous one is killed.
    pub(crate) fn start_checker(&self) -> Tap {
        self.start_checker_with(Settings::default())
    }

    pub(crate) fn start_checker_with(&self, settings: Settings) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        self.start_checker_in(Context { client, ..self.context() }, settings);
        tap
    }

    pub(crate) fn start_checker_in(&self, context: Context, settings: Settings) {
        self.kill_checker();
        self.checker.borrow_mut().spawn(checker::run(context, settings));
    }

    pub(crate) fn kill_checker(&self) {
        self.checker.replace(JoinSet::new());
    }

    /// Waits. With paused time this returns at once.
    pub(crate) async fn sleep(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Creates an instance with the default period.
    pub(crate) async fn create_instance(&self, name: &str) -> Instance<'_> {
        self.create_instance_with_spec(
            name,
            json!({"heartbeatUpdatePeriod": format!("{}s", self.period.as_secs())}),
        )
        .await
    }

    /// Creates an instance with this spec, or without a spec if it is null.
    pub(crate) async fn create_instance_with_spec(&self, name: &str, spec: Value) -> Instance<'_> {
        let collection = format!(
            "/apis/addons.managed.openshift.io/v1alpha1/namespaces/{}/addoninstances",
            self.namespace
        );
        let mut object = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
            "metadata": {"name": name}});
        if !spec.is_null() {
            object["spec"] = spec;
        }
        self.cluster.post(&collection, &object).await.expect(201);
        Instance { fixture: self, path: format!("{collection}/{name}") }
    }

    fn collection(&self) -> String {
        format!("/apis/addons.managed.openshift.io/v1alpha1/namespaces/{}/addoninstances", self.namespace)
    }

    /// Deletes all instances, for the next scenario on the same cluster.
    pub(crate) async fn clean_up(&self) {
        self.kill_checker();
        self.cluster.delete(self.collection()).await.expect(200);
    }

    /// Sends heartbeats to some instances for this time.
    pub(crate) async fn send_heartbeats_for(&self, time: Duration, instances: &[&Instance<'_>]) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            for instance in instances {
                instance.send_heartbeat().await;
            }
            self.sleep(self.period).await;
        }
    }
}

pub(crate) struct Instance<'a> {
    fixture: &'a Fixture<'a>,
    pub(crate) path: String,
}

impl Instance<'_> {
    pub(crate) async fn read(&self) -> Value {
        self.fixture.cluster.get(&self.path).await.expect(200)
    }

    pub(crate) async fn version(&self) -> String {
        self.read().await["metadata"]["resourceVersion"]
            .as_str()
            .expect("an object has a resourceVersion")
            .to_owned()
    }

    pub(crate) async fn merge_status(&self, status: Value) -> Value {
        self.fixture
            .cluster
            .merge(format!("{}/status", self.path), &json!({"status": status}))
            .await
            .expect(200)
    }

    /// Sends a heartbeat with the current time.
    pub(crate) async fn send_heartbeat(&self) -> Value {
        self.send_heartbeat_with_offset(SignedDuration::ZERO).await
    }

    /// Sends a heartbeat from a clock that is off by `offset`.
    pub(crate) async fn send_heartbeat_with_offset(&self, offset: SignedDuration) -> Value {
        self.set_heartbeat_time(self.fixture.now() + offset).await
    }

    pub(crate) async fn set_heartbeat_time(&self, at: Timestamp) -> Value {
        self.merge_status(json!({"lastHeartbeatTime": format_seconds(at)})).await
    }

    /// Sends a heartbeat with the conditions `Healthy` and `Degraded`.
    pub(crate) async fn report(&self, status: &str, reason: &str) -> Value {
        let at = format_seconds(self.fixture.now());
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "reported by the add-on",
                "lastTransitionTime": at})
        };
        self.merge_status(json!({"lastHeartbeatTime": at, "conditions": [
            condition("addons.managed.openshift.io/Degraded", "False", "AllParts"),
            condition(HEALTHY, status, reason),
        ]}))
        .await
    }

    pub(crate) async fn condition(&self, kind: &str) -> Value {
        let object = self.read().await;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    /// Status and reason of `Healthy`.
    pub(crate) async fn healthy(&self) -> (String, String) {
        let condition = self.condition(HEALTHY).await;
        let field = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        (field("status"), field("reason"))
    }

    pub(crate) async fn is_timed_out(&self) -> bool {
        self.healthy().await == ("Unknown".into(), "HeartbeatTimeout".into())
    }

    pub(crate) async fn wait_for_healthy(&self, status: &str, reason: &str) {
        let what = format!("{}: Healthy={status}/{reason}", self.path);
        eventually(&what, || async {
            (self.healthy().await == (status.into(), reason.into())).then_some(())
        })
        .await;
    }

    /// Waits until the instance is marked as silent, and returns the time since `began`.
    pub(crate) async fn wait_for_timeout_since(&self, began: Timestamp) -> Duration {
        // This may take longer than `eventually` waits, because the period may be ten seconds.
        for _ in 0..3 {
            let timeout = self.fixture.threshold();
            let marked = async {
                while !self.is_timed_out().await {
                    self.fixture.sleep(Duration::from_millis(50)).await;
                }
            };
            if tokio::time::timeout(timeout, marked).await.is_ok() {
                return Duration::try_from(self.fixture.now().duration_since(began))
                    .expect("the clock never goes back");
            }
        }
        panic!("{} was not marked as silent: {:#}", self.path, self.read().await);
    }
}

/// Formats a time in whole seconds, as Kubernetes does.
pub(crate) fn format_seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).expect("a valid timestamp").to_string()
}
