//! Kills the fleet API repeatedly at random times while reports are sent, and checks that every acknowledged write survives.
//!
//! `BELLWETHER_FLEET_CRASH_CYCLES` sets how often it is killed and `BELLWETHER_CRASH_SEED` repeats the random
//! choices of a run (not its timing).

mod feed_replica;
mod reporter;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::http::Method;
use bellwether_fleet::client::{Client, ListOf};
use bellwether_fleet::resource::Resource;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use serde_json::json;
use tokio::task::JoinSet;

use crate::crash::number_from_env;
use crate::server::{FleetApi, Server, fleet_api};
use feed_replica::FeedReplica;
use reporter::{Counts, Reporter};

/// Together they send about 1,200 requests per second, so that an idle machine responds to 1,000.
const REPORTERS: u32 = 32;
const REQUEST_INTERVAL: Duration = Duration::from_millis(27);

const CONFIG: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validation, dns]}
";
/// A cluster that is written while no reporter writes: a replica that has received it has received all earlier changes.
const MARKER: &str = "marker";

/// All clusters, by name.
type ClustersByName = BTreeMap<String, Resource>;

/// The connection between the API and its database.
trait DatabaseLink {
    fn interrupt(&self) {}
    fn restore(&self) {}
    /// In how many of ten cycles the connection is interrupted before the kill.
    const INTERRUPTIONS: u32 = 0;
}

/// SQLite is part of the process, and has no connection.
struct InProcess;

impl DatabaseLink for InProcess {}

#[cfg(feature = "real-postgres")]
impl DatabaseLink for crate::postgres_proxy::PostgresProxy {
    fn interrupt(&self) {
        self.interrupt();
    }

    fn restore(&self) {
        self.restore();
    }

    const INTERRUPTIONS: u32 = 3;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_fleet_api_keeps_acknowledged_writes_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    kill_repeatedly("SQLite", dir.path(), &database, &InProcess).await;
}

#[cfg(feature = "real-postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_fleet_api_keeps_acknowledged_writes_on_postgres() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = crate::postgres_proxy::PostgresProxy::start(&bellwether_testkit::postgres::Postgres::start());
    kill_repeatedly("PostgreSQL", dir.path(), proxy.url(), &proxy).await;
}

async fn kill_repeatedly<L: DatabaseLink>(store: &str, dir: &Path, database: &str, link: &L) {
    let cycles = number_from_env("BELLWETHER_FLEET_CRASH_CYCLES").unwrap_or(20);
    let seed = number_from_env("BELLWETHER_CRASH_SEED").unwrap_or_else(|| rand::rng().next_u64());
    println!("{store}: {cycles} cycles, BELLWETHER_CRASH_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let config = dir.join("config.yaml");
    std::fs::write(&config, CONFIG).unwrap();
    let command = || {
        let mut command = fleet_api(database);
        command.arg("--config").arg(&config);
        command
    };

    let mut api = FleetApi::start(&dir.join("fleet"), &mut command());
    let (mut reporters, mut replica) = prepare(&api.client(), &mut random).await;
    let mut counts = Counts::default();
    let mut under_load = Duration::ZERO;
    for cycle in 0..cycles {
        let load = Duration::from_millis(random.random_range(20..=400));
        let grace = random.random_ratio(L::INTERRUPTIONS, 10).then(|| random.random_range(0..=20));
        let end = async |api: &mut FleetApi| {
            tokio::time::sleep(load).await;
            if let Some(grace) = grace {
                link.interrupt();
                tokio::time::sleep(Duration::from_millis(grace)).await;
            }
            api.kill();
        };
        reporters = report_until(&mut api, reporters, &mut replica, end).await;
        under_load += load;
        link.restore();
        if random.random_ratio(1, 5) {
            let mut killed_early = Server::launch(&dir.join("fleet"), &mut command());
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=80))).await;
            killed_early.kill();
        }
        api = FleetApi::start(&dir.join("fleet"), &mut command());
        let client = api.client();
        // Writes without a response are committed before this response, or never.
        let marked = mark(&client, cycle).await;
        let listed = list(&client).await;
        let unavailable_before = counts.unavailable;
        reporters = check(&client, reporters, &listed, &mut counts).await;
        assert!(
            grace.is_some() || counts.unavailable == unavailable_before,
            "503 although the database was reachable: {counts}"
        );
        replica.catch_up(&client, &marked).await;
        replica.compare(&listed);
    }
    let expected = 1 + reporters.iter().map(Reporter::cluster_count).sum::<usize>();
    assert_eq!(list(&api.client()).await.len(), expected, "there are clusters that no reporter created");
    let rate = f64::from(counts.acknowledged) / under_load.as_secs_f64();
    println!("{store}: {counts}, {rate:.0}/s under load; {replica}");
    assert!(u64::from(counts.acknowledged) > cycles, "too few writes: {counts}");
}

const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_fleet_api_responds_to_every_committed_write_although_a_client_watches() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    let mut api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&database));
    let (reporters, mut replica) = prepare(&api.client(), &mut StdRng::seed_from_u64(1)).await;
    let end = async |api: &mut FleetApi| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let signalled = Instant::now();
        let status = tokio::task::block_in_place(|| api.terminate());
        assert!(signalled.elapsed() < STOP_TIMEOUT, "it took {:?}", signalled.elapsed());
        assert_eq!(status.code(), Some(0), "{}", api.log());
    };
    let reporters = report_until(&mut api, reporters, &mut replica, end).await;

    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&database));
    let mut counts = Counts::default();
    check(&api.client(), reporters, &list(&api.client()).await, &mut counts).await;
    println!("{counts}");
    assert_eq!(counts.committed, 0, "a write was committed without a response: {counts}");
}

/// Creates clusters, and waits until a replica has received them.
async fn prepare(client: &Client, random: &mut StdRng) -> (Vec<Reporter>, FeedReplica) {
    let mut reporters = Vec::new();
    for number in 0..REPORTERS {
        reporters.push(Reporter::register(client, number, random.next_u64()).await);
    }
    let mut replica = FeedReplica::default();
    replica.catch_up(client, &create(client, MARKER).await).await;
    (reporters, replica)
}

async fn create(client: &Client, name: &str) -> Resource {
    let body = json!({"kind": "Cluster", "name": name, "spec": {"change": 0}});
    client.call(Method::POST, "/clusters", Some(&body)).await.unwrap()
}

/// Writes the marker, while no reporter writes.
async fn mark(client: &Client, cycle: u64) -> Resource {
    let marker = list(client).await.remove(MARKER).unwrap();
    let body = json!({"spec": {"cycle": cycle}});
    client.call(Method::PATCH, &format!("/clusters/{}", marker.id), Some(&body)).await.unwrap()
}

async fn list(client: &Client) -> ClustersByName {
    let mut listed = ClustersByName::new();
    for page in 1.. {
        let path = format!("/clusters?order=name&size=100&page={page}");
        let list: ListOf<Resource> = client.call(Method::GET, &path, None).await.unwrap();
        if list.items.is_empty() {
            assert_eq!(listed.len() as u64, list.total, "the pages do not add up to the total");
            break;
        }
        listed.extend(list.items.into_iter().map(|item| (item.name.clone(), item)));
    }
    listed
}

/// Ends the server while the reporters report and a replica watches.
async fn report_until(
    api: &mut FleetApi,
    reporters: Vec<Reporter>,
    replica: &mut FeedReplica,
    end: impl AsyncFnOnce(&mut FleetApi),
) -> Vec<Reporter> {
    let client = api.client();
    let mut reporting = JoinSet::new();
    for reporter in reporters {
        reporting.spawn(reporter.report(client.clone(), REQUEST_INTERVAL));
    }
    tokio::join!(end(api), replica.follow(&client));
    let mut reporters = reporting.join_all().await;
    reporters.sort_by_key(Reporter::number);
    reporters
}

async fn check(
    client: &Client,
    reporters: Vec<Reporter>,
    listed: &ClustersByName,
    counts: &mut Counts,
) -> Vec<Reporter> {
    let checks = reporters.into_iter().map(async |mut reporter| {
        let counted = reporter.check(client, listed).await;
        (reporter, counted)
    });
    let checked = futures::future::join_all(checks).await;
    checked
        .into_iter()
        .map(|(reporter, counted)| {
            counts.add(&counted);
            reporter
        })
        .collect()
}
