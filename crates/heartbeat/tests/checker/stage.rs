//! A namespace with instances, add-ons that beat by hand, and a checker that can be stopped and started.

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

pub(crate) struct Stage<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: String,
    /// The period that instances have unless they ask for another.
    pub(crate) period: Duration,
    pub(crate) clock: SteadyClock,
    pub(crate) metrics: Metrics,
    checker: RefCell<JoinSet<()>>,
}

impl<'a> Stage<'a> {
    pub(crate) async fn new(cluster: &'a Cluster, period: u64) -> Self {
        let definitions = bellwether_api::crds().into_iter();
        let instances = definitions.filter(|definition| definition.name().starts_with("addoninstances."));
        cluster.install_definitions(instances.map(|definition| json!(definition.crd))).await;
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

    /// How far beyond its time something may be noticed. Where time is real, machines are slow.
    pub(crate) fn slack(&self) -> Duration {
        Duration::from_secs(if self.cluster.is_kubernetes() { 4 } else { 2 })
    }

    pub(crate) fn context(&self) -> Context {
        let context = Context::standalone(self.cluster.client());
        Context { clock: Arc::new(self.clock), metrics: self.metrics.clone(), ..context }
    }

    /// Starts a checker; the one before ends as if it were killed.
    pub(crate) fn check(&self) -> Tap {
        self.check_with(Settings::default())
    }

    pub(crate) fn check_with(&self, settings: Settings) -> Tap {
        let (client, tap) = Tap::on(self.cluster.client());
        self.check_in(Context { client, ..self.context() }, settings);
        tap
    }

    pub(crate) fn check_in(&self, context: Context, settings: Settings) {
        self.kill();
        self.checker.borrow_mut().spawn(checker::run(context, settings));
    }

    pub(crate) fn kill(&self) {
        self.checker.replace(JoinSet::new());
    }

    /// Lets time pass. On paused time this takes none.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// An instance with the usual period.
    pub(crate) async fn instance(&self, name: &str) -> Instance<'_> {
        self.instance_of(name, json!({"heartbeatUpdatePeriod": format!("{}s", self.period.as_secs())})).await
    }

    /// An instance with a spec of its own, or none.
    pub(crate) async fn instance_of(&self, name: &str, spec: Value) -> Instance<'_> {
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
        Instance { stage: self, path: format!("{collection}/{name}") }
    }

    fn collection(&self) -> String {
        format!("/apis/addons.managed.openshift.io/v1alpha1/namespaces/{}/addoninstances", self.namespace)
    }

    /// Leaves nothing behind for the next scenario on the same cluster.
    pub(crate) async fn clear(&self) {
        self.kill();
        self.cluster.delete(self.collection()).await.expect(200);
    }

    /// Keeps some instances beating for as long as this.
    pub(crate) async fn beat_for(&self, time: Duration, instances: &[&Instance<'_>]) {
        let end = tokio::time::Instant::now() + time;
        while tokio::time::Instant::now() < end {
            for instance in instances {
                instance.pulse().await;
            }
            self.pass(self.period).await;
        }
    }
}

pub(crate) struct Instance<'a> {
    stage: &'a Stage<'a>,
    pub(crate) path: String,
}

impl Instance<'_> {
    pub(crate) async fn read(&self) -> Value {
        self.stage.cluster.get(&self.path).await.expect(200)
    }

    pub(crate) async fn version(&self) -> String {
        self.read().await["metadata"]["resourceVersion"].as_str().expect("a version").to_owned()
    }

    pub(crate) async fn merge_status(&self, status: Value) -> Value {
        self.stage
            .cluster
            .merge(format!("{}/status", self.path), &json!({"status": status}))
            .await
            .expect(200)
    }

    /// Stamps the instance with the time.
    pub(crate) async fn pulse(&self) -> Value {
        self.pulse_off_by(SignedDuration::ZERO).await
    }

    /// Stamps the instance by a clock that is off by as much.
    pub(crate) async fn pulse_off_by(&self, off: SignedDuration) -> Value {
        self.stamp(self.stage.now() + off).await
    }

    pub(crate) async fn stamp(&self, at: Timestamp) -> Value {
        self.merge_status(json!({"lastHeartbeatTime": seconds(at)})).await
    }

    /// Stamps the instance, and says something in `Healthy` and in a condition beside.
    pub(crate) async fn report(&self, status: &str, reason: &str) -> Value {
        let at = seconds(self.stage.now());
        let condition = |kind: &str, status: &str, reason: &str| {
            json!({"type": kind, "status": status, "reason": reason, "message": "as the add-on says",
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
        let word = |member: &str| condition[member].as_str().unwrap_or_default().to_owned();
        (word("status"), word("reason"))
    }

    pub(crate) async fn is_timed_out(&self) -> bool {
        self.healthy().await == ("Unknown".into(), "HeartbeatTimeout".into())
    }

    pub(crate) async fn until(&self, status: &str, reason: &str) {
        let what = format!("{}: Healthy={status}/{reason}", self.path);
        eventually(&what, || async {
            (self.healthy().await == (status.into(), reason.into())).then_some(())
        })
        .await;
    }

    /// How long after an instant it is marked as silent.
    pub(crate) async fn silence_marked_after(&self, began: Timestamp) -> Duration {
        // Longer than tests usually wait: the period may be ten seconds.
        for _ in 0..3 {
            let waited = self.stage.threshold();
            let marked = async {
                while !self.is_timed_out().await {
                    self.stage.pass(Duration::from_millis(50)).await;
                }
            };
            if tokio::time::timeout(waited, marked).await.is_ok() {
                return Duration::try_from(self.stage.now().duration_since(began)).expect("time goes on");
            }
        }
        panic!("{} was not marked as silent: {:#}", self.path, self.read().await);
    }
}

/// A time as Kubernetes writes it.
pub(crate) fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).expect("a time").to_string()
}
