//! A start with other rules: the conditions of stored resources follow the new ones, without a report.

use std::sync::Arc;

use bellwether_fleet::store::Store;
use bellwether_fleet::vocabulary::Vocabulary;
use serde_json::{Value, json};

use crate::harness::{Api, Setup, brief, status};

/// Runs a scenario on each of the stores, which it opens with several configurations.
macro_rules! on_both_stores {
    ($(async fn $name:ident($store:ident: Arc<dyn Store>) $body:block)+) => {
        $(mod $name {
            use super::*;

            async fn scenario($store: Arc<dyn Store>) $body

            #[tokio::test]
            async fn sqlite() {
                scenario(crate::harness::sqlite()).await;
            }

            #[cfg(feature = "real-postgres")]
            #[tokio::test]
            async fn postgres() {
                scenario(crate::harness::postgres().await).await;
            }
        })+
    };
}

/// Starts the API with clusters that require these adapters, at a time, and computes the conditions by the new rules.
async fn start(store: &Arc<dyn Store>, adapters: &[&str], seconds: i64) -> Api {
    let api = Api::start_with(store.clone(), Setup::requiring(adapters)).await;
    api.set_clock(seconds);
    api.fleet.recompute_if_rules_changed().await.unwrap();
    api
}

fn href(resource: &Value) -> String {
    resource["href"].as_str().unwrap().to_owned()
}

fn conditions(resource: &Value) -> Vec<String> {
    let conditions = resource["status"]["conditions"].as_array().unwrap();
    conditions.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
}

on_both_stores! {
    async fn newly_required_adapter_makes_clusters_not_ready(store: Arc<dyn Store>) {
        let api = start(&store, &["dns"], 0).await;
        let cluster = href(&api.cluster("abc").await);
        api.report(&cluster, "dns", (1, 5), "True").await.expect(201);
        assert_eq!(brief(&api.read(&cluster).await, "Ready"), "True@g1 5/5");
        drop(api);

        let api = start(&store, &["dns", "net"], 60).await;
        let read = api.read(&cluster).await;
        assert_eq!(brief(&read, "Ready"), "False@g1 5/60");
        assert_eq!(status(&read, "Available"), "False");
        let revision = *store.revision().borrow();
        assert_eq!(api.fleet.recompute_if_rules_changed().await.unwrap(), 0, "the pass is done once");
        assert_eq!(*store.revision().borrow(), revision);
        drop(api);

        let api = start(&store, &["dns"], 90).await;
        let read = api.read(&cluster).await;
        assert_eq!(brief(&read, "Ready"), "True@g1 5/90");
        assert_eq!(conditions(&read), ["Ready", "Available", "DnsSuccessful"]);
    }

    async fn deletion_does_not_wait_for_an_adapter_that_is_not_required_any_more(store: Arc<dyn Store>) {
        let api = start(&store, &["dns", "net"], 0).await;
        let cluster = href(&api.cluster("abc").await);
        let pool = href(&api.node_pool(&cluster, "pool").await);
        api.send("DELETE", &cluster, None).await.expect(202);
        for resource in [&pool, &cluster] {
            api.finalize(resource, "dns", (2, 5)).await.expect(201);
        }
        api.read(&cluster).await;
        drop(api);

        let api = start(&store, &["dns"], 60).await;
        for resource in [&pool, &cluster] {
            api.get(resource).await.expect(404);
        }
    }

    async fn vocabulary_renames_the_conditions_of_stored_resources(store: Arc<dyn Store>) {
        let api = start(&store, &["dns"], 0).await;
        let cluster = href(&api.cluster("abc").await);
        api.report(&cluster, "dns", (1, 5), "True").await.expect(201);
        drop(api);

        let both = ["Ready", "Reconciled", "Available", "LastKnownReconciled", "DnsSuccessful"];
        let rows = [
            (Vocabulary::Upstream, &["Reconciled", "LastKnownReconciled", "DnsSuccessful"][..]),
            (Vocabulary::Both, &both),
            (Vocabulary::Ready, &["Ready", "Available", "DnsSuccessful"]),
        ];
        for (vocabulary, expected) in rows {
            let setup = Setup { vocabulary, ..Setup::requiring(&["dns"]) };
            let api = Api::start_with(store.clone(), setup).await;
            api.fleet.recompute_if_rules_changed().await.unwrap();
            let read = api.read(&cluster).await;
            assert_eq!(conditions(&read), expected);
            for type_ in expected {
                assert_eq!(brief(&read, type_), "True@g1 5/5", "{type_}");
            }
            assert_eq!(api.search("status.conditions.Ready='True'").await.unwrap(), ["abc"]);
            assert_eq!(api.search("status.conditions.Reconciled='True'").await.unwrap(), ["abc"]);
        }
    }

    async fn pass_that_is_cut_off_is_completed_by_the_next_start(store: Arc<dyn Store>) {
        let api = start(&store, &["dns"], 0).await;
        for number in 0..250 {
            api.cluster(&format!("c{number:03}")).await;
        }
        drop(api);

        let api = Api::start_with(store.clone(), Setup::requiring(&["dns", "net"])).await;
        let before = *store.revision().borrow();
        let mut revision = store.revision();
        tokio::select! {
            biased;
            () = async { revision.wait_for(|revision| *revision > before).await.unwrap(); } => {}
            _ = api.fleet.recompute_if_rules_changed() => {}
        }
        drop(api);
        let written = *store.revision().borrow() - before;
        assert!((1..250).contains(&written), "{written} of 250 were computed");

        let api = start(&store, &["dns", "net"], 60).await;
        let missing = "[dns, net]";
        let list = api.get("/clusters?size=100&page=3").await.expect(200).json();
        assert_eq!(list["total"], 250);
        for page in 1..=3 {
            let list = api.get(&format!("/clusters?size=100&page={page}")).await.expect(200).json();
            for cluster in list["items"].as_array().unwrap() {
                let message = cluster["status"]["conditions"][0]["message"].as_str().unwrap();
                assert!(message.contains(missing), "{message}");
            }
        }
        assert!(*store.revision().borrow() - before <= 250 + 100, "what was computed is not written again");
    }
}

#[tokio::test]
async fn server_computes_conditions_by_its_rules_at_start() {
    use bellwether_clock::SystemClock;
    use bellwether_fleet::config::Config;
    use bellwether_fleet::serve::assemble;
    use bellwether_runtime::{Health, Metrics, Shutdown};

    let store = crate::harness::sqlite();
    let api = start(&store, &["dns"], 0).await;
    let cluster = api.cluster("abc").await;
    drop(api);
    let config = Config { entities: Setup::requiring(&["net"]).kinds, ..Config::default() };
    let (metrics, health, shutdown) = (Metrics::default(), Health::default(), Shutdown::default());
    let mut revision = store.revision();
    revision.mark_unchanged();
    let running =
        assemble(store.clone(), config, Arc::new(SystemClock), &metrics, &health, &shutdown).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(30), revision.changed()).await.unwrap().unwrap();
    let id = cluster["id"].as_str().unwrap().parse().unwrap();
    let read = json!(running.fleet.store().get(id).await.unwrap().unwrap());
    let message = read["status"]["conditions"][0]["message"].as_str().unwrap();
    assert!(message.contains("[net]"), "{message}");
}
