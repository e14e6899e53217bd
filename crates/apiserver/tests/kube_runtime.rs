//! kube-rs's runtime on our server: each scenario in process and over TLS, on the hub and on a spoke.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends with a panic")]

use bellwether_apiserver::HUB;
use bellwether_testkit::{Cluster, embedded};

const SPOKE: &str = "spoke-1";

async fn in_process(cluster: &str) -> Cluster {
    let server = embedded::builder().clusters([SPOKE]).start().await.unwrap();
    embedded::logical_cluster(&server, cluster)
}

async fn over_tls(cluster: &str) -> Cluster {
    let server = embedded::builder().clusters([SPOKE]).start().await.unwrap();
    let url = embedded::serve(&server).await;
    embedded::logical_cluster_over_tls(&server, &url, cluster).await
}

/// Runs each scenario in all four places.
macro_rules! everywhere {
    ($($scenario:ident),* $(,)?) => {$(
        mod $scenario {
            use super::{HUB, SPOKE, in_process, over_tls, scenarios};

            #[tokio::test]
            async fn in_process_on_the_hub() {
                scenarios::$scenario(&in_process(HUB).await).await;
            }

            #[tokio::test]
            async fn in_process_on_a_spoke() {
                scenarios::$scenario(&in_process(SPOKE).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn over_tls_on_the_hub() {
                scenarios::$scenario(&over_tls(HUB).await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn over_tls_on_a_spoke() {
                scenarios::$scenario(&over_tls(SPOKE).await).await;
            }
        }
    )*};
}

everywhere! {
    a_watcher_lists_then_watches,
    a_watcher_can_stream_its_list,
    a_watcher_recovers_when_history_is_gone,
    a_reflector_holds_what_is_there,
    a_controller_reconciles_what_changes,
    a_finalizer_cleans_up_before_the_object_goes,
    a_recorder_publishes_events_and_counts_repeats,
    a_condition_can_be_awaited,
}

#[cfg(test)]
mod scenarios {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use bellwether_testkit::{Cluster, WAIT_TIMEOUT, eventually};
    use futures::{Stream, StreamExt as _, TryStreamExt as _};
    use k8s_openapi::api::core::v1::ConfigMap;
    use k8s_openapi::api::events::v1::Event;
    use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
    use kube::runtime::controller::{Action, Controller};
    use kube::runtime::events::{Event as NewEvent, EventType, Recorder};
    use kube::runtime::finalizer::{self, finalizer};
    use kube::runtime::wait::{await_condition, conditions};
    use kube::runtime::{WatchStreamExt as _, reflector, watcher};
    use kube::{Resource as _, ResourceExt as _};
    use serde_json::json;

    fn config_map(name: &str) -> ConfigMap {
        ConfigMap {
            metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        }
    }

    async fn maps(cluster: &Cluster) -> Api<ConfigMap> {
        Api::namespaced(cluster.client(), &cluster.namespace().await)
    }

    async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
        api.create(&PostParams::default(), &config_map(name)).await.unwrap()
    }

    async fn next<T, E: std::fmt::Debug>(stream: &mut (impl Stream<Item = Result<T, E>> + Unpin)) -> T {
        let item =
            tokio::time::timeout(WAIT_TIMEOUT, stream.next()).await.expect("something happens in time");
        item.expect("the stream goes on").unwrap()
    }

    /// Reads the initial list and returns its names.
    async fn initial(
        stream: &mut (impl Stream<Item = watcher::Result<watcher::Event<ConfigMap>>> + Unpin),
    ) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            match next(stream).await {
                watcher::Event::Init => names.clear(),
                watcher::Event::InitApply(object) => names.push(object.name_any()),
                watcher::Event::InitDone => {
                    names.sort();
                    return names;
                }
                other => panic!("{other:?} before the list was done"),
            }
        }
    }

    async fn lists_then_watches(cluster: &Cluster, config: watcher::Config) {
        let api = maps(cluster).await;
        create(&api, "before").await;
        let mut stream = watcher(api.clone(), config).boxed();
        assert_eq!(initial(&mut stream).await, ["before", "kube-root-ca.crt"]);
        create(&api, "after").await;
        assert!(
            matches!(next(&mut stream).await, watcher::Event::Apply(object) if object.name_any() == "after")
        );
        api.delete("before", &DeleteParams::default()).await.unwrap();
        assert!(
            matches!(next(&mut stream).await, watcher::Event::Delete(object) if object.name_any() == "before")
        );
    }

    pub(super) async fn a_watcher_lists_then_watches(cluster: &Cluster) {
        lists_then_watches(cluster, watcher::Config::default().page_size(1)).await;
    }

    pub(super) async fn a_watcher_can_stream_its_list(cluster: &Cluster) {
        lists_then_watches(cluster, watcher::Config::default().streaming_lists()).await;
    }

    pub(super) async fn a_watcher_recovers_when_history_is_gone(cluster: &Cluster) {
        let api = maps(cluster).await;
        let version = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
        for name in ["a", "b"] {
            create(&api, name).await;
        }
        cluster.compact().await;
        let mut gone = api.watch(&kube::api::WatchParams::default(), &version).await.unwrap().boxed();
        let error = next(&mut gone).await;
        assert!(matches!(error, kube::api::WatchEvent::Error(status) if status.code == 410));
        let mut stream = watcher(api, watcher::Config::default()).boxed();
        assert_eq!(initial(&mut stream).await, ["a", "b", "kube-root-ca.crt"]);
    }

    pub(super) async fn a_reflector_holds_what_is_there(cluster: &Cluster) {
        let api = maps(cluster).await;
        create(&api, "a").await;
        let (store, writer) = reflector::store();
        let stream = reflector(writer, watcher(api.clone(), watcher::Config::default())).applied_objects();
        let running = tokio::spawn(stream.for_each(async |_| {}));
        tokio::time::timeout(WAIT_TIMEOUT, store.wait_until_ready()).await.unwrap().unwrap();
        assert_eq!(store.state().len(), 2);
        api.delete("a", &DeleteParams::default()).await.unwrap();
        eventually("the reflector forgets it", || async { (store.state().len() == 1).then_some(()) }).await;
        running.abort();
    }

    pub(super) async fn a_controller_reconciles_what_changes(cluster: &Cluster) {
        let api = maps(cluster).await;
        let reconcile = async |object: Arc<ConfigMap>, api: Arc<Api<ConfigMap>>| {
            let patch = json!({"metadata": {"annotations": {"seen": object.data.as_ref().map_or(0, BTreeMap::len).to_string()}}});
            api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
            Ok::<_, kube::Error>(Action::await_change())
        };
        let controller = Controller::new(api.clone(), watcher::Config::default().labels("mine")).run(
            move |object, api| Box::pin(reconcile(object, api)),
            |_, _, _| Action::await_change(),
            Arc::new(api.clone()),
        );
        let running = tokio::spawn(controller.for_each(async |outcome| {
            outcome.unwrap();
        }));
        let seen = async |expected: &str| {
            eventually("the controller has seen it", || async {
                let object = api.get("a").await.unwrap();
                (object.annotations().get("seen").map(String::as_str) == Some(expected)).then_some(())
            })
            .await;
        };
        let mut object = config_map("a");
        object.metadata.labels = Some(BTreeMap::from([("mine".into(), String::new())]));
        api.create(&PostParams::default(), &object).await.unwrap();
        seen("0").await;
        let data = json!({"data": {"x": "y"}});
        api.patch("a", &PatchParams::default(), &Patch::Merge(&data)).await.unwrap();
        seen("1").await;
        running.abort();
    }

    pub(super) async fn a_finalizer_cleans_up_before_the_object_goes(cluster: &Cluster) {
        const NAME: &str = "example.com/cleanup";
        let api = maps(cluster).await;
        create(&api, "a").await;
        create(&api, "resource").await;
        let turn = async |object: ConfigMap| {
            let inner = api.clone();
            finalizer(&api, NAME, Arc::new(object), async move |event| {
                if let finalizer::Event::Cleanup(_) = event {
                    inner.delete("resource", &DeleteParams::default()).await?;
                }
                Ok::<_, kube::Error>(Action::await_change())
            })
            .await
            .unwrap();
        };
        turn(api.get("a").await.unwrap()).await;
        let held = api.get("a").await.unwrap();
        assert_eq!(held.finalizers(), [NAME]);
        api.delete("a", &DeleteParams::default()).await.unwrap();
        let deleting = api.get("a").await.unwrap();
        assert!(deleting.meta().deletion_timestamp.is_some());
        turn(deleting).await;
        assert!(api.get_opt("a").await.unwrap().is_none(), "the object goes with its last finalizer");
        assert!(api.get_opt("resource").await.unwrap().is_none(), "after what it stood for");
    }

    pub(super) async fn a_recorder_publishes_events_and_counts_repeats(cluster: &Cluster) {
        let api = maps(cluster).await;
        let object = create(&api, "a").await;
        let recorder = Recorder::new(cluster.client(), "example.com/recorder".into());
        let event = NewEvent {
            type_: EventType::Warning,
            reason: "Happened".into(),
            note: Some("words".into()),
            action: "Testing".into(),
            secondary: None,
        };
        for _ in 0..2 {
            recorder.publish(&event, &object.object_ref(&())).await.unwrap();
        }
        let events: Api<Event> = Api::namespaced(cluster.client(), &object.namespace().unwrap());
        let found = events.list(&ListParams::default().fields("regarding.name=a")).await.unwrap().items;
        assert_eq!(found.len(), 1, "a repeat is counted");
        assert_eq!(found[0].note.as_deref(), Some("words"));
        assert_eq!(found[0].series.as_ref().map(|series| series.count), Some(2));
    }

    pub(super) async fn a_condition_can_be_awaited(cluster: &Cluster) {
        let api = maps(cluster).await;
        let uid = create(&api, "a").await.uid().unwrap();
        let gone = tokio::spawn({
            let api = api.clone();
            async move { await_condition(api, "a", conditions::is_deleted(&uid)).await }
        });
        api.delete("a", &DeleteParams::default()).await.unwrap();
        tokio::time::timeout(WAIT_TIMEOUT, gone).await.unwrap().unwrap().unwrap();
        let pages: Vec<_> = watcher(api, watcher::Config::default()).take(3).try_collect().await.unwrap();
        assert_eq!(pages.len(), 3, "init, the certificate, done");
    }
}
