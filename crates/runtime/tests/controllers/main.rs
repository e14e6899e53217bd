//! A controller made of a reconciler, on our server in process with time paused; and elections, on real time.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod elections;
mod elections_stuck;
mod troubles;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bellwether_runtime::{Context, Failure, Leadership, Next, Reconciler, run};
use bellwether_testkit::{Cluster, embedded, eventually, on_paused_time};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

/// Looks at ConfigMaps: one that is named `fails` fails, and a look takes as long as it is told to.
#[derive(Clone, Default)]
struct Looks {
    at: Arc<Mutex<HashMap<String, Vec<Instant>>>>,
    finished: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    most_under_way: Arc<AtomicUsize>,
    lasts: Duration,
    again: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
#[error("it fails because it is told to")]
struct Told;

impl Failure for Told {
    fn label(&self) -> &'static str {
        "told"
    }
}

impl Reconciler for Looks {
    type Object = ConfigMap;
    type Failure = Told;
    const NAME: &'static str = "looker";
    const CONCURRENCY: u16 = 4;

    async fn reconcile(&self, object: Arc<ConfigMap>) -> Result<Next, Told> {
        self.at.lock().entry(object.name_any()).or_default().push(Instant::now());
        let under_way = self.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_under_way.fetch_max(under_way, Ordering::SeqCst);
        tokio::time::sleep(self.lasts).await;
        self.under_way.fetch_sub(1, Ordering::SeqCst);
        self.finished.fetch_add(1, Ordering::SeqCst);
        match (object.name_any().as_str(), self.again) {
            ("fails", _) => Err(Told),
            (_, Some(wait)) => Ok(Next::After(wait)),
            (_, None) => Ok(Next::OnChange),
        }
    }
}

impl Looks {
    fn of(&self, name: &str) -> Vec<Instant> {
        self.at.lock().get(name).cloned().unwrap_or_default()
    }

    async fn until(&self, name: &str, times: usize) {
        let what = format!("{times} looks at {name}");
        eventually(&what, || async { (self.of(name).len() >= times).then_some(()) }).await;
    }
}

async fn configmap(cluster: &Cluster, namespace: &str, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    cluster.post(format!("/api/v1/namespaces/{namespace}/configmaps"), &body).await.expect(201);
}

fn context(cluster: &Cluster) -> Context {
    Context::alone(cluster.client())
}

#[test]
fn every_object_is_looked_at_at_the_start_and_when_it_changes() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        configmap(&cluster, &namespace, "before").await;
        let (looks, context) = (Looks::default(), context(&cluster));
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        looks.until("before", 1).await;
        configmap(&cluster, &namespace, "after").await;
        looks.until("after", 1).await;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/before");
        cluster.merge(path, &json!({"data": {"key": "value"}})).await.expect(200);
        looks.until("before", 2).await;
        assert_eq!(context.health.troubles(), []);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(looks.of("before").len(), 2, "an hour without a change is an hour without a look");
        let line = r#"bellwether_leading{cluster="hub",controller="looker"} 1"#;
        assert!(context.metrics.text().contains(line));
    });
}

#[test]
fn an_object_that_asks_for_it_is_looked_at_again() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let looks = Looks { again: Some(Duration::from_secs(60)), ..Looks::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        configmap(&cluster, &namespace, "again").await;
        looks.until("again", 1).await;
        tokio::time::sleep(Duration::from_secs(150)).await;
        assert_eq!(looks.of("again").len(), 3);
    });
}

#[test]
fn an_object_that_fails_waits_longer_each_time_and_alone() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (looks, context) = (Looks::default(), context(&cluster));
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        configmap(&cluster, &namespace, "fails").await;
        looks.until("fails", 6).await;
        let at = looks.of("fails");
        let waits: Vec<Duration> = at.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(waits.windows(2).all(|two| two[1] > two[0]), "{waits:?}");
        assert!(waits[0] < Duration::from_secs(1) && waits[4] > Duration::from_secs(5), "{waits:?}");
        let begun = Instant::now();
        configmap(&cluster, &namespace, "fine").await;
        looks.until("fine", 1).await;
        assert!(looks.of("fine")[0] - begun < Duration::from_millis(100));
        let line = r#"bellwether_reconcile_errors_total{cluster="hub",controller="looker",error="told"} "#;
        assert!(context.metrics.text().contains(line), "{}", context.metrics.text());
    });
}

#[test]
fn an_object_that_has_gone_takes_its_failures_with_it() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (looks, context) = (Looks::default(), context(&cluster));
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        configmap(&cluster, &namespace, "fails").await;
        looks.until("fails", 6).await;
        cluster.delete(format!("/api/v1/namespaces/{namespace}/configmaps/fails")).await.expect(200);
        tokio::time::sleep(Duration::from_secs(120)).await;
        let before = looks.of("fails").len();
        configmap(&cluster, &namespace, "fails").await;
        looks.until("fails", before + 2).await;
        let at = looks.of("fails");
        assert!(at[before + 1] - at[before] < Duration::from_secs(1), "another of the same name begins anew");
    });
}

#[test]
fn only_some_are_looked_at_at_the_same_time() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        for number in 0..20 {
            configmap(&cluster, &namespace, &format!("one-of-{number}")).await;
        }
        let looks = Looks { lasts: Duration::from_secs(1), ..Looks::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        looks.until("one-of-19", 1).await;
        assert_eq!(looks.most_under_way.load(Ordering::SeqCst), usize::from(Looks::CONCURRENCY));
    });
}

#[test]
fn a_shutdown_finishes_what_was_begun() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let looks = Looks { lasts: Duration::from_secs(3), ..Looks::default() };
        let context = context(&cluster);
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        configmap(&cluster, &namespace, "begun").await;
        looks.until("begun", 1).await;
        let before = looks.at.lock().values().map(Vec::len).sum::<usize>();
        context.shutdown.finish().await;
        assert_eq!(looks.finished.load(Ordering::SeqCst), before);
        assert_eq!(looks.at.lock().values().map(Vec::len).sum::<usize>(), before, "nothing new was taken up");
    });
}

#[test]
fn a_copy_that_does_not_lead_looks_at_nothing() {
    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let namespace = cluster.namespace().await;
        let (lead, leadership) = Leadership::by_hand();
        let looks = Looks::default();
        let context = Context { leadership, ..context(&cluster) };
        context.shutdown.spawn(run(looks.clone(), context.clone()));
        configmap(&cluster, &namespace, "waits").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(looks.of("waits").len(), 0);
        lead.send(true).unwrap();
        looks.until("waits", 1).await;
        lead.send(false).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        configmap(&cluster, &namespace, "too-late").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(looks.of("too-late").len(), 0);
        context.shutdown.finish().await;
    });
}

#[test]
fn a_kind_that_nobody_serves_is_a_trouble_until_it_is_served() {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    struct WidgetSpec {}

    struct Idle;
    impl Reconciler for Idle {
        type Object = Widget;
        type Failure = Told;
        const NAME: &'static str = "idle";
        async fn reconcile(&self, _: Arc<Widget>) -> Result<Next, Told> {
            Ok(Next::OnChange)
        }
    }

    on_paused_time(async {
        let cluster = embedded::in_process().await;
        let context = context(&cluster);
        context.shutdown.spawn(run(Idle, context.clone()));
        eventually("the trouble is told", || async {
            let troubles = context.health.troubles();
            troubles.iter().any(|(part, words)| part == "idle of hub" && words.contains("404")).then_some(())
        })
        .await;
        let definition = <Widget as kube::CustomResourceExt>::crd();
        cluster.install_definitions([json!(definition)]).await;
        eventually("all is well", || async { context.health.troubles().is_empty().then_some(()) }).await;
    });
}
