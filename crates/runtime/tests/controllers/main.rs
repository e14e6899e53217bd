//! Controllers on our API server in process with paused time; and elections, on real time.
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

use bellwether_runtime::{Context, Leadership, Next, ReconcileError, Reconciler, run};
use bellwether_testkit::{Cluster, embedded, eventually, on_paused_time};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

/// Reconciles ConfigMaps and records when. One that is named `fails` fails, `panics` panics at its first reconcile, and
/// `hangs` never ends its first one.
#[derive(Clone, Default)]
struct Recorder {
    at: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    finished: Arc<AtomicUsize>,
    running: Arc<AtomicUsize>,
    max_running: Arc<AtomicUsize>,
    duration: Duration,
    requeue_after: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
#[error("this ConfigMap always fails")]
struct Fails;

impl ReconcileError for Fails {
    fn label(&self) -> &'static str {
        "fails"
    }
}

impl Reconciler for Recorder {
    type Object = ConfigMap;
    type Error = Fails;
    const NAME: &'static str = "recorder";
    const CONCURRENCY: u16 = 4;

    async fn reconcile(&self, object: Arc<ConfigMap>) -> Result<Next, Fails> {
        self.record(&object.name_any()).await
    }
}

impl Recorder {
    async fn record(&self, name: &str) -> Result<Next, Fails> {
        let times = {
            let mut at = self.at.lock();
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
            ("fails", _) => Err(Fails),
            (_, Some(delay)) => Ok(Next::After(delay)),
            (_, None) => Ok(Next::OnChange),
        }
    }

    fn of(&self, name: &str) -> Vec<Instant> {
        self.at.lock().get(name).cloned().unwrap_or_default()
    }

    async fn until(&self, name: &str, times: usize) {
        let what = format!("{times} reconciles of {name}");
        eventually(&what, || async { (self.of(name).len() >= times).then_some(()) }).await;
    }
}

async fn configmap(cluster: &Cluster, namespace: &str, name: &str) {
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
        configmap(&cluster, &namespace, "before").await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        recorder.until("before", 1).await;
        configmap(&cluster, &namespace, "after").await;
        recorder.until("after", 1).await;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/before");
        cluster.merge(path, &json!({"data": {"key": "value"}})).await.expect(200);
        recorder.until("before", 2).await;
        assert_eq!(context.health.not_ready(), []);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(recorder.of("before").len(), 2, "an hour without a change is an hour without a reconcile");
        let line = r#"bellwether_leading{cluster="hub",controller="recorder"} 1"#;
        assert!(context.metrics.text().contains(line));
    });
}

#[test]
fn object_is_requeued_after_the_time_it_asks_for() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let recorder = Recorder { requeue_after: Some(Duration::from_secs(60)), ..Recorder::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        configmap(&cluster, &namespace, "again").await;
        recorder.until("again", 1).await;
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(recorder.of("again").len(), 3);
    });
}

#[test]
fn failed_object_backs_off_without_delaying_others() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        configmap(&cluster, &namespace, "fails").await;
        recorder.until("fails", 6).await;
        let at = recorder.of("fails");
        let waits: Vec<Duration> = at.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(waits.windows(2).all(|two| two[1] > two[0]), "{waits:?}");
        assert!(waits[0] < Duration::from_secs(1) && waits[4] > Duration::from_secs(5), "{waits:?}");
        let begun = Instant::now();
        configmap(&cluster, &namespace, "fine").await;
        recorder.until("fine", 1).await;
        assert!(recorder.of("fine")[0] - begun < Duration::from_millis(100));
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
        configmap(&cluster, &namespace, "panics").await;
        recorder.until("panics", 2).await;
        configmap(&cluster, &namespace, "hangs").await;
        tokio::time::sleep(Duration::from_secs(130)).await;
        recorder.until("hangs", 2).await;
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
fn deleted_object_takes_its_failures_with_it() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (recorder, context) = (Recorder::default(), context(&cluster));
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        configmap(&cluster, &namespace, "fails").await;
        recorder.until("fails", 6).await;
        cluster.delete(format!("/api/v1/namespaces/{namespace}/configmaps/fails")).await.expect(200);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let before = recorder.of("fails").len();
        configmap(&cluster, &namespace, "fails").await;
        recorder.until("fails", before + 2).await;
        let at = recorder.of("fails");
        assert!(
            at[before + 1] - at[before] < Duration::from_secs(1),
            "another object of the same name has no failures"
        );
    });
}

#[test]
fn concurrency_is_bounded() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        for number in 0..20 {
            configmap(&cluster, &namespace, &format!("one-of-{number}")).await;
        }
        let recorder = Recorder { duration: Duration::from_secs(1), ..Recorder::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        recorder.until("one-of-19", 1).await;
        assert_eq!(recorder.max_running.load(Ordering::SeqCst), usize::from(Recorder::CONCURRENCY));
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
        configmap(&cluster, &namespace, "begun").await;
        recorder.until("begun", 1).await;
        let before = recorder.at.lock().values().map(Vec::len).sum::<usize>();
        context.shutdown.finish().await;
        assert_eq!(recorder.finished.load(Ordering::SeqCst), before);
        assert_eq!(
            recorder.at.lock().values().map(Vec::len).sum::<usize>(),
            before,
            "nothing new was started"
        );
    });
}

#[test]
fn standby_reconciles_nothing() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (lead, leadership) = Leadership::manual();
        let recorder = Recorder::default();
        let context = Context { leadership, ..context(&cluster) };
        context.shutdown.spawn(run(recorder.clone(), context.clone()));
        configmap(&cluster, &namespace, "waits").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(recorder.of("waits").len(), 0);
        lead.send(true).unwrap();
        recorder.until("waits", 1).await;
        lead.send(false).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        configmap(&cluster, &namespace, "too-late").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(recorder.of("too-late").len(), 0);
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
        type Error = Fails;
        const NAME: &'static str = "idle";
        async fn reconcile(&self, _: Arc<Widget>) -> Result<Next, Fails> {
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
        cluster.install_definitions([json!(definition)]).await;
        eventually("the controller is ready", || async {
            context.health.not_ready().is_empty().then_some(())
        })
        .await;
    });
}
