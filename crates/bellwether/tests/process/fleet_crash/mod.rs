//! Kill the fleet API at random moments while reports come in, over and over, and hold it to every answer it gave.
//!
//! `BELLWETHER_FLEET_CRASH_CYCLES` sets how often it is killed and `BELLWETHER_CRASH_SEED` repeats the choices of a run
//! (not its timing).

mod follower;
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

use crate::crash::number_from;
use crate::server::{FleetApi, Server, fleet_api};
use follower::Follower;
use reporter::{Reporter, Tally};

/// Together they send some twelve hundred requests a second, so that a thousand are answered on a quiet machine.
const REPORTERS: u32 = 32;
const PACE: Duration = Duration::from_millis(27);

const CONFIG: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validation, dns]}
";
/// A cluster that is written when nobody else writes: who has heard of it has heard of everything before.
const MARKER: &str = "marker";

/// All clusters, by name.
type Listed = BTreeMap<String, Resource>;

/// What stands between the API and its database, and can be cut.
trait Wire {
    fn cut(&self) {}
    fn mend(&self) {}
    /// How many of ten cycles begin their end by a cut.
    const CUTS: u32 = 0;
}

/// SQLite is part of the process.
struct NoWire;

impl Wire for NoWire {}

#[cfg(feature = "real-postgres")]
impl Wire for crate::wire::Wire {
    fn cut(&self) {
        self.cut();
    }

    fn mend(&self) {
        self.mend();
    }

    const CUTS: u32 = 3;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_fleet_api_keeps_what_it_acknowledged_on_sqlite() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    kill_over_and_over("SQLite", dir.path(), &database, &NoWire).await;
}

#[cfg(feature = "real-postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_fleet_api_keeps_what_it_acknowledged_on_postgres() {
    let dir = tempfile::tempdir().unwrap();
    let wire = crate::wire::Wire::to(&bellwether_testkit::postgres::Postgres::start());
    kill_over_and_over("PostgreSQL", dir.path(), wire.url(), &wire).await;
}

async fn kill_over_and_over<W: Wire>(store: &str, dir: &Path, database: &str, wire: &W) {
    let cycles = number_from("BELLWETHER_FLEET_CRASH_CYCLES").unwrap_or(20);
    let seed = number_from("BELLWETHER_CRASH_SEED").unwrap_or_else(|| rand::rng().next_u64());
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
    let (mut reporters, mut follower) = prepare(&api.client(), &mut random).await;
    let mut tally = Tally::default();
    let mut under_load = Duration::ZERO;
    for cycle in 0..cycles {
        let load = Duration::from_millis(random.random_range(20..=400));
        let grace = random.random_ratio(W::CUTS, 10).then(|| random.random_range(0..=20));
        let end = async |api: &mut FleetApi| {
            tokio::time::sleep(load).await;
            if let Some(grace) = grace {
                wire.cut();
                tokio::time::sleep(Duration::from_millis(grace)).await;
            }
            api.kill();
        };
        reporters = report_until(&mut api, reporters, &mut follower, end).await;
        under_load += load;
        wire.mend();
        if random.random_ratio(1, 5) {
            let mut hasty = Server::launch(&dir.join("fleet"), &mut command());
            tokio::time::sleep(Duration::from_millis(random.random_range(0..=80))).await;
            hasty.kill();
        }
        api = FleetApi::start(&dir.join("fleet"), &mut command());
        let client = api.client();
        // What was cut off comes true before this is answered, or never.
        let marked = mark(&client, cycle).await;
        let listed = list(&client).await;
        let told = tally.unavailable;
        reporters = judge(&client, reporters, &listed, &mut tally).await;
        assert!(grace.is_some() || tally.unavailable == told, "503 while the database was there: {tally}");
        follower.catch_up(&client, &marked).await;
        follower.compare(&listed);
    }
    let expected = 1 + reporters.iter().map(Reporter::clusters).sum::<usize>();
    assert_eq!(list(&api.client()).await.len(), expected, "clusters that nobody made");
    let rate = f64::from(tally.answered) / under_load.as_secs_f64();
    println!("{store}: {tally}, {rate:.0}/s under load; {follower}");
    assert!(u64::from(tally.answered) > cycles, "hardly anything was written: {tally}");
}

/// How long a stop may take.
const STOP: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_fleet_api_answers_what_it_did_although_somebody_watches() {
    let dir = tempfile::tempdir().unwrap();
    let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
    let mut api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&database));
    let (reporters, mut follower) = prepare(&api.client(), &mut StdRng::seed_from_u64(1)).await;
    let end = async |api: &mut FleetApi| {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let asked = Instant::now();
        let status = tokio::task::block_in_place(|| api.terminate());
        assert!(asked.elapsed() < STOP, "it took {:?}", asked.elapsed());
        assert_eq!(status.code(), Some(0), "{}", api.log());
    };
    let reporters = report_until(&mut api, reporters, &mut follower, end).await;

    let api = FleetApi::start(&dir.path().join("fleet"), &mut fleet_api(&database));
    let mut tally = Tally::default();
    judge(&api.client(), reporters, &list(&api.client()).await, &mut tally).await;
    println!("{tally}");
    assert_eq!(tally.came_true, 0, "it did what it did not answer: {tally}");
}

/// Registers clusters, and lets a follower hear of them while nobody writes.
async fn prepare(client: &Client, random: &mut StdRng) -> (Vec<Reporter>, Follower) {
    let mut reporters = Vec::new();
    for number in 0..REPORTERS {
        reporters.push(Reporter::register(client, number, random.next_u64()).await);
    }
    let mut follower = Follower::default();
    follower.catch_up(client, &create(client, MARKER).await).await;
    (reporters, follower)
}

async fn create(client: &Client, name: &str) -> Resource {
    let body = json!({"kind": "Cluster", "name": name, "spec": {"change": 0}});
    client.call(Method::POST, "/clusters", Some(&body)).await.unwrap()
}

/// Writes the marker when nobody else writes.
async fn mark(client: &Client, cycle: u64) -> Resource {
    let marker = list(client).await.remove(MARKER).unwrap();
    let body = json!({"spec": {"cycle": cycle}});
    client.call(Method::PATCH, &format!("/clusters/{}", marker.id), Some(&body)).await.unwrap()
}

async fn list(client: &Client) -> Listed {
    let mut listed = Listed::new();
    for page in 1.. {
        let path = format!("/clusters?order=name&size=100&page={page}");
        let list: ListOf<Resource> = client.call(Method::GET, &path, None).await.unwrap();
        if list.items.is_empty() {
            assert_eq!(listed.len() as u64, list.total, "the pages together are not the list");
            break;
        }
        listed.extend(list.items.into_iter().map(|item| (item.name.clone(), item)));
    }
    listed
}

/// Lets the reporters report and a follower follow, and ends the server in the midst of it.
async fn report_until(
    api: &mut FleetApi,
    reporters: Vec<Reporter>,
    follower: &mut Follower,
    end: impl AsyncFnOnce(&mut FleetApi),
) -> Vec<Reporter> {
    let client = api.client();
    let mut reporting = JoinSet::new();
    for reporter in reporters {
        reporting.spawn(reporter.report(client.clone(), PACE));
    }
    tokio::join!(end(api), follower.follow(&client));
    let mut reporters = reporting.join_all().await;
    reporters.sort_by_key(Reporter::number);
    reporters
}

async fn judge(
    client: &Client,
    reporters: Vec<Reporter>,
    listed: &Listed,
    tally: &mut Tally,
) -> Vec<Reporter> {
    let judging = reporters.into_iter().map(async |mut reporter| {
        let counted = reporter.judge(client, listed).await;
        (reporter, counted)
    });
    let judged = futures::future::join_all(judging).await;
    judged
        .into_iter()
        .map(|(reporter, counted)| {
            tally.add(&counted);
            reporter
        })
        .collect()
}
