//! Controllers that keep an index: watches, dirty keys, leader and standby, retries.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bellwether_runtime::{
    Context, DirtyKeys, IndexedReconciler, Leadership, Next, ObjectName, Watch, Watches, run_indexed,
};
use bellwether_testkit::{Cluster, embedded, eventually, on_paused_time};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::{Recorder, TestError, context, create_config_map};

/// An index of the names of all ConfigMaps.
#[derive(Default)]
struct Index {
    names: BTreeSet<ObjectName>,
    dirty: DirtyKeys<ObjectName>,
    deadlines: Vec<ObjectName>,
}

#[derive(Clone, Default)]
struct Controller {
    index: Arc<Mutex<Index>>,
    recorder: Recorder,
}

impl IndexedReconciler for Controller {
    type Key = ObjectName;
    type Error = TestError;
    const NAME: &'static str = "indexed";
    const CONCURRENCY: usize = 4;

    fn take_dirty(&self) -> DirtyKeys<ObjectName> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<ObjectName> {
        self.index.lock().names.iter().cloned().collect()
    }

    fn on_deadline(&self, key: &ObjectName) {
        self.index.lock().deadlines.push(key.clone());
    }

    async fn reconcile(&self, key: &ObjectName) -> Result<Next, TestError> {
        self.recorder.record(&key.name).await
    }
}

impl Controller {
    fn run(&self, context: &Context) {
        let configmaps = Watch::new(&context.client, Api::<ConfigMap>::all)
            .on_apply(|index: &mut Index, object| {
                let name = ObjectName::of(&object);
                if &*name.name == "deadline" {
                    index.dirty.set_deadline(name.clone(), Instant::now() + Duration::from_secs(30));
                }
                index.dirty.enqueue(name.clone());
                index.names.insert(name);
            })
            .on_delete(|index, deleted| {
                index.names.remove(&deleted.name);
                index.dirty.forget(deleted.name);
            });
        let watches = Watches::new(Controller::NAME, context, self.index.clone()).with(configmaps);
        context.shutdown.spawn(run_indexed(self.clone(), watches, context.clone()));
    }

    fn has_indexed(&self, name: &str) -> bool {
        self.index.lock().names.iter().any(|indexed| &*indexed.name == name)
    }
}

async fn fixture() -> (Cluster, String, Controller) {
    let cluster = embedded::in_process().await;
    let namespace = cluster.namespace().await;
    (cluster, namespace, Controller::default())
}

#[test]
fn every_key_is_reconciled_at_the_start_and_when_it_is_dirty() {
    on_paused_time(async {
        let (cluster, namespace, controller) = fixture().await;
        create_config_map(&cluster, &namespace, "before").await;
        let context = context(&cluster);
        controller.run(&context);
        controller.recorder.wait_for_reconciles("before", 1).await;
        create_config_map(&cluster, &namespace, "after").await;
        controller.recorder.wait_for_reconciles("after", 1).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            controller.recorder.reconcile_times("before").len(),
            1,
            "a ConfigMap is not reconciled without a change"
        );
        assert_eq!(context.health.not_ready(), []);
        cluster.delete(format!("/api/v1/namespaces/{namespace}/configmaps/before")).await.expect(200);
        eventually("the ConfigMap is removed from the index", || async {
            (!controller.has_indexed("before")).then_some(())
        })
        .await;
    });
}

#[test]
fn kind_that_may_not_be_served_is_empty_until_it_is_served() {
    use kube::CustomResource;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};

    #[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "example.com", version = "v1", kind = "Widget", namespaced)]
    struct WidgetSpec {}

    on_paused_time(async {
        let (cluster, namespace, controller) = fixture().await;
        let context = context(&cluster);
        let widgets = Watch::new(&context.client, Api::<Widget>::all)
            .if_served()
            .on_apply(|index: &mut Index, widget| {
                let name = ObjectName::of(&widget);
                index.dirty.enqueue(name.clone());
                index.names.insert(name);
            })
            .on_delete(|index, deleted| {
                index.names.remove(&deleted.name);
            });
        let watches = Watches::new(Controller::NAME, &context, controller.index.clone()).with(widgets);
        context.shutdown.spawn(run_indexed(controller.clone(), watches, context.clone()));
        eventually("the controller is ready", || async {
            context.health.not_ready().is_empty().then_some(())
        })
        .await;
        let definition = json!(<Widget as kube::CustomResourceExt>::crd());
        cluster.install_crds([definition]).await;
        let widgets = format!("/apis/example.com/v1/namespaces/{namespace}/widgets");
        let widget =
            json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}});
        cluster.post(&widgets, &widget).await.expect(201);
        controller.recorder.wait_for_reconciles("w", 1).await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        cluster.delete(format!("{definitions}/widgets.example.com")).await.expect(200);
        eventually("the widget is removed from the index", || async {
            (!controller.has_indexed("w")).then_some(())
        })
        .await;
        assert_eq!(context.health.not_ready(), []);
    });
}

#[test]
fn reconcile_that_panics_or_hangs_is_counted_and_retried_with_backoff() {
    on_paused_time(async {
        let (cluster, namespace, controller) = fixture().await;
        let context = context(&cluster);
        controller.run(&context);
        create_config_map(&cluster, &namespace, "panics").await;
        controller.recorder.wait_for_reconciles("panics", 2).await;
        let at = controller.recorder.reconcile_times("panics");
        assert!(at[1] - at[0] >= Duration::from_millis(375), "{:?}", at[1] - at[0]);
        create_config_map(&cluster, &namespace, "hangs").await;
        tokio::time::sleep(Controller::TIMEOUT + Duration::from_secs(1)).await;
        controller.recorder.wait_for_reconciles("hangs", 2).await;
        create_config_map(&cluster, &namespace, "fine").await;
        controller.recorder.wait_for_reconciles("fine", 1).await;
        let text = context.metrics.text();
        for error in ["panic", "timeout"] {
            let line = format!(
                r#"bellwether_reconcile_errors_total{{cluster="hub",controller="indexed",error="{error}"}} 1"#
            );
            assert!(text.contains(&line), "{text}");
        }
    });
}

#[test]
fn standby_keeps_its_index_and_reconciles_everything_when_it_becomes_leader() {
    on_paused_time(async {
        let (cluster, namespace, controller) = fixture().await;
        let (leader, leadership) = Leadership::manual();
        let context = Context { leadership, ..context(&cluster) };
        controller.run(&context);
        create_config_map(&cluster, &namespace, "waits").await;
        create_config_map(&cluster, &namespace, "deadline").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(controller.has_indexed("waits"));
        assert_eq!(controller.recorder.reconcile_times("waits").len(), 0);
        assert_eq!(controller.index.lock().deadlines.len(), 1, "deadlines pass on a standby too");
        leader.send(true).unwrap();
        controller.recorder.wait_for_reconciles("waits", 1).await;
        leader.send(false).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        create_config_map(&cluster, &namespace, "too-late").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(controller.recorder.reconcile_times("too-late").len(), 0);
        context.shutdown.finish().await;
    });
}

#[test]
fn lost_leadership_cancels_running_reconciles_and_shutdown_finishes_them() {
    on_paused_time(async {
        let (cluster, namespace, mut controller) = fixture().await;
        controller.recorder.duration = Duration::from_secs(10);
        let (leader, leadership) = Leadership::manual();
        let context = Context { leadership, ..context(&cluster) };
        controller.run(&context);
        create_config_map(&cluster, &namespace, "running").await;
        leader.send(true).unwrap();
        controller.recorder.wait_for_reconciles("running", 1).await;
        let finished = || controller.recorder.finished.load(Ordering::SeqCst);
        let started = || controller.recorder.reconciled_at.lock().values().map(Vec::len).sum::<usize>();
        let cancelled = started() - finished();
        leader.send(false).unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(cancelled > 0);
        assert_eq!(started() - finished(), cancelled, "a process that is not leader writes nothing");
        leader.send(true).unwrap();
        controller.recorder.wait_for_reconciles("running", 2).await;
        assert!(started() - finished() > cancelled);
        context.shutdown.finish().await;
        assert_eq!(started() - finished(), cancelled, "the shutdown waits for all running reconciles");
    });
}

#[test]
fn object_missing_from_a_later_list_counts_as_deleted() {
    on_paused_time(async {
        let (cluster, namespace, controller) = fixture().await;
        let (client, interruption) = crate::outages::interruptible_client(cluster.client());
        let context = Context { client, ..context(&cluster) };
        create_config_map(&cluster, &namespace, "kept").await;
        create_config_map(&cluster, &namespace, "deleted").await;
        controller.run(&context);
        controller.recorder.wait_for_reconciles("deleted", 1).await;
        // The server ends every watch after some minutes. This one cannot be resumed, so the next one begins
        // with a list.
        interruption.interrupt();
        tokio::time::sleep(Duration::from_secs(300)).await;
        cluster.delete(format!("/api/v1/namespaces/{namespace}/configmaps/deleted")).await.expect(200);
        interruption.restore();
        eventually("the ConfigMap is removed from the index", || async {
            (!controller.has_indexed("deleted")).then_some(())
        })
        .await;
        assert!(controller.has_indexed("kept"));
        assert_eq!(controller.recorder.reconcile_times("kept").len(), 2, "a list applies every object again");
        let update = json!({"data": {"key": "value"}});
        cluster.merge(format!("/api/v1/namespaces/{namespace}/configmaps/kept"), &update).await.expect(200);
        controller.recorder.wait_for_reconciles("kept", 3).await;
    });
}
