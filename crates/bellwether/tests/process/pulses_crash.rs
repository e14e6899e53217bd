//! Fleet API, Sentinel, broker and adapter are killed at seeded moments while clusters are created, changed and deleted. In the end every
//! cluster is ready at its last generation and has what that generation wants, deleted ones are gone with what they had, and at no time
//! did an older generation replace a newer one.
//!
//! `BELLWETHER_CRASH_CYCLES` sets how often something is killed, and `BELLWETHER_CRASH_SEED` repeats the random choices of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use bellwether_testkit::nats::Nats;
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::{WatchStreamExt as _, watcher};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::crash::number_from_env;
use crate::pulses::{Killed, Roles, wait_for_ready};

const CYCLES: u64 = 100;
const CLUSTERS: usize = 4;
const FIRST_REGION: &str = "eu-west-1";
/// The longest time between a change and the kill after it.
const MAX_DELAY_MILLIS: u64 = 300;
/// The annotation with the generation of an applied object.
const GENERATION: &str = "hyperfleet.io/generation";

/// Changes the spec of a cluster until the API has accepted it. An equal spec changes nothing, so that a repeated request is harmless.
async fn change(api: &Client, cluster: &Resource, region: &str) {
    let (path, body) = (format!("/clusters/{}", cluster.id), json!({"spec": {"region": region}}));
    eventually("the fleet API accepts a change", || async {
        api.call::<Resource>(Method::PATCH, &path, Some(&body)).await.ok()
    })
    .await;
}

/// Creates a cluster in the first region. One that exists, because its response was lost, is not created again.
async fn create_until_accepted(api: &Client, name: &str) -> Resource {
    let path = format!("/clusters?search=name='{name}'");
    eventually("the fleet API accepts a cluster", || async {
        let found: ListOf<Resource> = api.call(Method::GET, &path, None).await.ok()?;
        if let Some(found) = found.items.into_iter().next() {
            return Some(found);
        }
        let body = json!({"kind": "Cluster", "name": name, "spec": {"region": FIRST_REGION}});
        api.call(Method::POST, "/clusters", Some(&body)).await.ok()
    })
    .await
}

async fn delete_until_accepted(api: &Client, cluster: &Resource) {
    let path = format!("/clusters/{}", cluster.id);
    eventually("the fleet API accepts a deletion", || async {
        match api.call_raw(Method::DELETE, &path, None).await {
            Ok(_) => Some(()),
            Err(error) => is_not_found(&error).then_some(()),
        }
    })
    .await;
}

fn is_not_found(error: &ClientError) -> bool {
    error.status().is_some_and(|status| status.as_u16() == 404)
}

/// Records every ConfigMap whose generation decreases.
async fn watch_generations(config_maps: Api<ConfigMap>, decreased: Arc<Mutex<Vec<String>>>) {
    let mut generations: BTreeMap<String, i64> = BTreeMap::new();
    let changes = watcher(config_maps, watcher::Config::default()).default_backoff().applied_objects();
    futures::pin_mut!(changes);
    while let Some(changed) = changes.next().await {
        let Ok(changed) = changed else { continue };
        let Some(generation) = changed.annotations().get(GENERATION) else { continue };
        let generation: i64 = generation.parse().unwrap();
        let namespace = changed.namespace().unwrap_or_default();
        let last = generations.entry(namespace.clone()).or_default();
        if generation < *last {
            decreased.lock().push(format!("{namespace}: {last} was replaced by {generation}"));
        }
        *last = generation;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_roles_lose_no_change_with_the_built_in_queue() {
    let dir = tempfile::tempdir().unwrap();
    let queue = format!("sqlite:{}", dir.path().join("queue.db").display());
    kill_roles(dir.path(), &queue, None).await;
}

#[cfg(feature = "real-brokers")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_roles_and_broker_lose_no_change_with_nats() {
    let (dir, nats) = (tempfile::tempdir().unwrap(), Nats::start());
    let url = nats.url();
    kill_roles(dir.path(), &url, Some(nats)).await;
}

/// Kills the roles, and the server of the broker if there is one. The built-in queue is in the processes of Sentinel and adapter.
async fn kill_roles(directory: &Path, broker: &str, mut server: Option<Nats>) {
    let cycles = number_from_env("BELLWETHER_CRASH_CYCLES").unwrap_or(CYCLES);
    let seed = number_from_env("BELLWETHER_CRASH_SEED").unwrap_or_else(rand::random);
    println!("{cycles} kills with BELLWETHER_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let database = format!("sqlite:{}", directory.join("fleet.db").display());
    let mut roles = Roles::start(directory, &database, broker);
    let api = roles.client();
    let kubernetes = roles.kubernetes.client("hub").await;
    let decreased = Arc::new(Mutex::new(Vec::new()));
    let watch = tokio::spawn(watch_generations(Api::all(kubernetes.clone()), Arc::clone(&decreased)));

    let (mut clusters, mut deleted) = (Vec::new(), Vec::new());
    for number in 0..CLUSTERS {
        let created = create_until_accepted(&api, &format!("cluster-{number}")).await;
        clusters.push((created, FIRST_REGION.to_owned()));
    }
    for cycle in 0..cycles {
        let (cluster, region) = &mut clusters[random.random_range(0..CLUSTERS)];
        if random.random_ratio(1, 6) {
            delete_until_accepted(&api, cluster).await;
            let created = create_until_accepted(&api, &format!("cluster-of-{cycle}")).await;
            deleted.push(std::mem::replace(cluster, created));
            FIRST_REGION.clone_into(region);
        } else {
            *region = format!("region-{cycle}");
            change(&api, cluster, region).await;
        }
        tokio::time::sleep(Duration::from_millis(random.random_range(0..=MAX_DELAY_MILLIS))).await;
        match (random.random_range(0..4), &mut server) {
            (0, Some(server)) => {
                server.kill();
                server.start_again();
            }
            (0 | 1, _) => roles.restart(Killed::Api),
            (2, _) => roles.restart(Killed::Sentinel),
            _ => roles.restart(Killed::Adapter),
        }
    }

    for (cluster, region) in &clusters {
        assert_has_last_change(&api, &kubernetes, cluster, region).await;
    }
    for cluster in &deleted {
        assert_is_gone(&api, &kubernetes, cluster).await;
    }
    watch.abort();
    assert_eq!(*decreased.lock(), [""; 0], "seed {seed}");
}

/// The cluster is ready at its last generation, and has what that wants.
async fn assert_has_last_change(api: &Client, kubernetes: &kube::Client, cluster: &Resource, region: &str) {
    let path = format!("/clusters/{}", cluster.id);
    let current = eventually("the fleet API responds", || async {
        api.call::<Resource>(Method::GET, &path, None).await.ok()
    })
    .await;
    let ready = wait_for_ready(api, &cluster.name, current.generation).await;
    let config_maps: Api<ConfigMap> = Api::namespaced(kubernetes.clone(), &format!("cluster-{}", ready.id));
    let applied = config_maps.get("cluster-config").await.unwrap();
    assert_eq!(applied.data.as_ref().unwrap()["region"], region);
    assert_eq!(applied.annotations()[GENERATION], current.generation.to_string());
}

/// The deleted cluster is gone, and so is what it had.
async fn assert_is_gone(api: &Client, kubernetes: &kube::Client, cluster: &Resource) {
    let path = format!("/clusters/{}", cluster.id);
    eventually(&format!("{} is gone", cluster.name), || async {
        api.call_raw(Method::GET, &path, None).await.is_err_and(|error| is_not_found(&error)).then_some(())
    })
    .await;
    let namespaces: Api<Namespace> = Api::all(kubernetes.clone());
    let namespace = namespaces.get_opt(&format!("cluster-{}", cluster.id)).await.unwrap();
    assert!(namespace.is_none(), "{} was not cleaned up", cluster.name);
}
