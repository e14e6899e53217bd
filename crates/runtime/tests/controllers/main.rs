//! Tests of controllers on the embedded API server in process with paused time, and of leader election in
//! real time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod elections;
mod elections_outages;
mod indexed;
mod outages;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_runtime::{Context, IndexOf, Leadership, Next, ReconcileError, Reconciler, run};
use bellwether_testkit::{Cluster, embedded, eventually, on_paused_time};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

/// A reconciler of ConfigMaps that records the times of its reconciles. Reconciling the ConfigMap `fails`
/// always fails; the first reconcile of `panics` panics, and the first reconcile of `hangs` never ends.
#[derive(Clone, Default)]
struct Recorder {
    reconciled_at: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    finished: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    max_running: Arc<AtomicUsize>,
    duration: Duration,
    requeue_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
#[error("this ConfigMap always fails")]
struct TestError;

impl ReconcileError for TestError {
    fn label(&self) -> &'static str {
        "fails"
    }
}

impl Reconciler for Recorder {
    type Object = ConfigMap;
    type Related = ();
    type Error = TestError;
    const NAME: &'static str = "recorder";
    const CONCURRENCY: usize = 4;

    async fn reconcile(&self, object: Arc<ConfigMap>, _: &Mutex<IndexOf<Self>>) -> Result<Next, TestError> {
        self.record(&object.name_any()).await
    }
}

impl Recorder {
    async fn record(&self, name: &str) -> Result<Next, TestError> {
        let times = {
            let mut at = self.reconciled_at.lock();
            let times = at.entry(name.to_owned()).or_default();
            times.push(Instant::now());
            times.len()
        };
        match name {
            "panics" if times == 1 => panic!("the first reconcile of this ConfigMap panics"),
            "hangs" if times == 1 => return std::future::pending().await,
            _ => {}
        }
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.max_running.fetch_max(running, Ordering::SeqCst);
        tokio::time::sleep(self.duration).await;
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.finished.fetch_add(1, Ordering::SeqCst);
        match (name, self.requeue_after) {
            ("fails", _) => Err(TestError),
            (_, Some(delay)) => Ok(Next::After(delay)),
            (_, None) => Ok(Next::OnChange),
        }
    }

    fn reconcile_times(&self, name: &str) -> Vec<Instant> {
        self.reconciled_at.lock().get(name).cloned().unwrap_or_default()
    }

    async fn wait_for_reconciles(&self, name: &str, times: usize) {
        let what = format!("{times} reconciles of {name}");
        eventually(&what, || async { (self.reconcile_times(name).len() >= times).then_some(()) }).await;
    }
}

async fn create_config_map(cluster: &Cluster, namespace: &str, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    cluster.post(format!("/api/v1/namespaces/{namespace}/configmaps"), &body).await.expect(201);
}

fn context(cluster: &Cluster) -> Context {
    Context::standalone(cluster.client())
}

#[test]
fn every_object_is_reconciled_at_the_start_and_when_it_changes() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        create_config_map(&cluster, &namespace, "before").await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        recorder.wait_for_reconciles("before", 1).await;
        create_config_map(&cluster, &namespace, "after").await;
        recorder.wait_for_reconciles("after", 1).await;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/before");
        cluster.merge(path, &json!({"data": {"key": "value"}})).await.expect(200);
        recorder.wait_for_reconciles("before", 2).await;
        assert_eq!(context.health.not_ready(), []);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            recorder.reconcile_times("before").len(),
            2,
            "a ConfigMap is not reconciled without a change"
        );
        let line = r#"bellwether_leading{cluster="hub",controller="recorder"} 1"#;
        assert!(context.metrics.text().contains(line));
    });
}

#[test]
fn object_is_requeued_after_the_requested_delay() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let recorder = Recorder { requeue_after: Some(Duration::from_secs(60)), ..Recorder::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "again").await;
        recorder.wait_for_reconciles("again", 1).await;
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(recorder.reconcile_times("again").len(), 3);
    });
}

#[test]
fn failed_object_backs_off_without_delaying_others() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "fails").await;
        recorder.wait_for_reconciles("fails", 6).await;
        let at = recorder.reconcile_times("fails");
        let delays: Vec<Duration> = at.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(delays.windows(2).all(|two| two[1] > two[0]), "{delays:?}");
        assert!(delays[0] < Duration::from_secs(1) && delays[4] > Duration::from_secs(5), "{delays:?}");
        let started = Instant::now();
        create_config_map(&cluster, &namespace, "fine").await;
        recorder.wait_for_reconciles("fine", 1).await;
        assert!(recorder.reconcile_times("fine")[0] - started < Duration::from_millis(100));
        let line = r#"bellwether_reconcile_errors_total{cluster="hub",controller="recorder",error="fails"} "#;
        assert!(context.metrics.text().contains(line), "{}", context.metrics.text());
    });
}

#[test]
fn reconcile_that_panics_or_hangs_is_counted_and_retried() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "panics").await;
        recorder.wait_for_reconciles("panics", 2).await;
        create_config_map(&cluster, &namespace, "hangs").await;
        tokio::time::sleep(Duration::from_secs(130)).await;
        recorder.wait_for_reconciles("hangs", 2).await;
        let text = context.metrics.text();
        for error in ["panic", "timeout"] {
            let line = format!(
                r#"bellwether_reconcile_errors_total{{cluster="hub",controller="recorder",error="{error}"}} 1"#
            );
            assert!(text.contains(&line), "{text}");
        }
    });
}

#[test]
fn recreated_object_starts_without_backoff() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "fails").await;
        recorder.wait_for_reconciles("fails", 6).await;
        cluster.delete(format!("/api/v1/namespaces/{namespace}/configmaps/fails")).await.expect(200);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let before = recorder.reconcile_times("fails").len();
        create_config_map(&cluster, &namespace, "fails").await;
        recorder.wait_for_reconciles("fails", before + 2).await;
        let at = recorder.reconcile_times("fails");
        assert!(
            at[before + 1] - at[before] < Duration::from_secs(1),
            "a new object of the same name starts without failures"
        );
    });
}

#[test]
fn concurrency_is_bounded() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        for number in 0..20 {
            create_config_map(&cluster, &namespace, &format!("one-of-{number}")).await;
        }
        let recorder = Recorder { duration: Duration::from_secs(1), ..Recorder::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        recorder.wait_for_reconciles("one-of-19", 1).await;
        assert_eq!(recorder.max_running.load(Ordering::SeqCst), Recorder::CONCURRENCY);
    });
}

#[test]
fn shutdown_finishes_running_reconciles() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let recorder = Recorder { duration: Duration::from_secs(3), ..Recorder::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "started").await;
        recorder.wait_for_reconciles("started", 1).await;
        let before = recorder.reconciled_at.lock().values().map(Vec::len).sum::<usize>();
        context.shutdown.finish().await;
        assert_eq!(recorder.finished.load(Ordering::SeqCst), before);
        assert_eq!(
            recorder.reconciled_at.lock().values().map(Vec::len).sum::<usize>(),
            before,
            "no reconcile starts during the shutdown"
        );
    });
}

#[test]
fn standby_reconciles_nothing() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (leader, leadership) = Leadership::manual();
        let recorder = Recorder::default();
        let context = Context { leadership, ..context(&cluster) };
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        create_config_map(&cluster, &namespace, "waits").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(recorder.reconcile_times("waits").len(), 0);
        leader.send(true).unwrap();
        recorder.wait_for_reconciles("waits", 1).await;
        leader.send(false).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        create_config_map(&cluster, &namespace, "too-late").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(recorder.reconcile_times("too-late").len(), 0);
        context.shutdown.finish().await;
    });
}

#[test]
fn controller_is_not_ready_until_its_kind_is_served() {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    struct WidgetSpec {}

    struct Idle;
    impl Reconciler for Idle {
        type Object = Widget;
        type Related = ();
        type Error = TestError;
        const NAME: &'static str = "idle";
        async fn reconcile(&self, _: Arc<Widget>, _: &Mutex<IndexOf<Self>>) -> Result<Next, TestError> {
            Ok(Next::OnChange)
        }
    }

    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let context = context(&cluster);
        context.shutdown.spawn(run(Idle, context.clone()));
        eventually("the controller is not ready", || async {
            let not_ready = context.health.not_ready();
            not_ready
                .iter()
                .any(|(component, reason)| component == "idle of hub" && reason.contains("404"))
                .then_some(())
        })
        .await;
        let definition = <Widget as kube::CustomResourceExt>::crd();
        cluster.install_crds([json!(definition)]).await;
        eventually("the controller is ready", || async {
            context.health.not_ready().is_empty().then_some(())
        })
        .await;
    });
}
