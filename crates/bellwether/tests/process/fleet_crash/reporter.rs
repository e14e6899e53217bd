//! The only client that writes its clusters: it reports as their adapters, changes them and creates new ones, one request after
//! the other, until the server is killed. So it knows their exact state, except for the request without a response.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use bellwether_fleet::client::{Client, ClientError, ListOf};
use bellwether_fleet::resource::{AdapterStatus, Id, LogEntry, Resource, Verdict};
use bellwether_fleet::store::LOG_LENGTH;
use jiff::{SignedDuration, Timestamp, Unit};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use super::{ClustersByName, create};

const ADAPTERS: [&str; 2] = ["validation", "dns"];
/// How many clusters each reporter creates at first.
const CLUSTERS: usize = 2;
/// The number of entries of a page of the log.
const PAGE_SIZE: usize = 100;

/// An accepted report: its adapter and its observed time.
type Reported = (&'static str, Timestamp);

/// The expected state of a cluster.
struct ExpectedCluster {
    id: Id,
    name: String,
    generation: i64,
    /// The value in its spec, which changes with the generation.
    change: u64,
    reports: Vec<Reported>,
}

/// A request without a response so far.
enum Intent {
    Report { index: usize, reported: Reported },
    Change { index: usize, change: u64 },
    Create { name: String },
}

pub(super) struct Reporter {
    number: u32,
    random: StdRng,
    clusters: Vec<ExpectedCluster>,
    sent: u64,
    last: Timestamp,
    intent: Option<Intent>,
    acknowledged: u32,
    unavailable: u32,
}

/// Why the result of a request is unknown.
enum Unknown {
    /// The server was killed before it responded.
    NoResponse,
    /// The server responded with 503, because it lost its database.
    Unavailable,
}

impl Reporter {
    pub(super) async fn register(client: &Client, number: u32, seed: u64) -> Self {
        let mut reporter = Self {
            number,
            random: StdRng::seed_from_u64(seed),
            clusters: Vec::new(),
            sent: 0,
            last: Timestamp::UNIX_EPOCH,
            intent: None,
            acknowledged: 0,
            unavailable: 0,
        };
        for _ in 0..CLUSTERS {
            let name = reporter.new_name();
            reporter.add_cluster(&create(client, &name).await);
        }
        reporter
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn cluster_count(&self) -> usize {
        self.clusters.len()
    }

    /// Sends requests at an interval until the server is killed.
    pub(super) async fn report(mut self, client: Client, interval: Duration) -> Self {
        let mut ticks = tokio::time::interval(interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            ticks.tick().await;
            let intent = self.choose();
            if let Err(unknown) = self.send(&client, &intent).await {
                self.unavailable += u32::from(matches!(unknown, Unknown::Unavailable));
                self.intent = Some(intent);
                return self;
            }
            self.record_success(intent);
            self.acknowledged += 1;
        }
    }

    fn choose(&mut self) -> Intent {
        let index = self.random.random_range(0..self.clusters.len());
        match self.random.random_range(0..100) {
            0 => Intent::Create { name: self.new_name() },
            1..6 => Intent::Change { index, change: self.next() },
            _ => {
                let adapter = ADAPTERS.choose(&mut self.random).copied().unwrap_or(ADAPTERS[0]);
                Intent::Report { index, reported: (adapter, self.now()) }
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.sent += 1;
        self.sent
    }

    fn new_name(&mut self) -> String {
        let next = self.next();
        format!("reporter-{}-{next}", self.number)
    }

    /// A time that no other report of this client has, in microseconds, which both stores keep.
    fn now(&mut self) -> Timestamp {
        let now = Timestamp::now().round(Unit::Microsecond).unwrap();
        self.last = now.max(self.last + SignedDuration::from_micros(1));
        self.last
    }

    async fn send(&mut self, client: &Client, intent: &Intent) -> Result<(), Unknown> {
        match intent {
            Intent::Create { name } => {
                let body = json!({"kind": "Cluster", "name": name, "spec": {"change": 0}});
                let created = expect_success(client.call(Method::POST, "/clusters", Some(&body)).await)?;
                self.add_cluster(&created);
            }
            Intent::Change { index, change } => {
                let cluster = &self.clusters[*index];
                let body = json!({"spec": {"change": change}});
                let path = format!("/clusters/{}", cluster.id);
                let changed: Resource = expect_success(client.call(Method::PATCH, &path, Some(&body)).await)?;
                assert_eq!(changed.generation, cluster.generation + 1, "{}", cluster.name);
            }
            Intent::Report { index, reported: (adapter, time) } => {
                let cluster = &self.clusters[*index];
                let status = if self.random.random_ratio(9, 10) { "True" } else { "False" };
                let conditions: Vec<Value> = ["Available", "Applied", "Health"]
                    .map(|type_| json!({"type": type_, "status": status}))
                    .into();
                let body = json!({
                    "adapter": adapter,
                    "observed_generation": cluster.generation,
                    "observed_time": time,
                    "conditions": conditions,
                });
                let path = format!("/clusters/{}/statuses", cluster.id);
                let response = expect_success(client.call_raw(Method::PUT, &path, Some(&body)).await)?;
                assert_eq!(response.status, StatusCode::CREATED, "{}: {body}", cluster.name);
            }
        }
        Ok(())
    }

    fn add_cluster(&mut self, created: &Resource) {
        let (id, name) = (created.id, created.name.clone());
        assert_eq!(created.generation, 1, "{name}");
        self.clusters.push(ExpectedCluster { id, name, generation: 1, change: 0, reports: Vec::new() });
    }

    /// Updates the expected state after a request. A created cluster has been added before.
    fn record_success(&mut self, intent: Intent) {
        match intent {
            Intent::Report { index, reported } => self.clusters[index].reports.push(reported),
            Intent::Change { index, change } => {
                let cluster = &mut self.clusters[index];
                (cluster.generation, cluster.change) = (cluster.generation + 1, change);
            }
            Intent::Create { .. } => {}
        }
    }

    /// Checks the state of a restarted server against all acknowledged writes.
    pub(super) async fn check(&mut self, client: &Client, listed: &ClustersByName) -> Counts {
        let mut counts = Counts {
            acknowledged: std::mem::take(&mut self.acknowledged),
            unavailable: std::mem::take(&mut self.unavailable),
            ..Counts::default()
        };
        if let Some(intent) = self.intent.take() {
            let count = match self.resolve(client, listed, intent).await {
                true => &mut counts.committed,
                false => &mut counts.lost,
            };
            *count += 1;
        }
        for cluster in &self.clusters {
            cluster.check(client, listed.get(&cluster.name)).await;
        }
        counts
    }

    /// Finds out whether the request without a response was committed; both are correct.
    async fn resolve(&mut self, client: &Client, listed: &ClustersByName, intent: Intent) -> bool {
        let committed = match &intent {
            Intent::Create { name } => {
                let created = listed.get(name);
                created.into_iter().for_each(|created| self.add_cluster(created));
                created.is_some()
            }
            Intent::Change { index, change } => listed
                .get(&self.clusters[*index].name)
                .is_some_and(|found| change_in_spec(found) == Some(*change)),
            Intent::Report { index, reported: (adapter, time) } => {
                let statuses = self.clusters[*index].statuses(client).await;
                statuses.get(*adapter) == Some(time)
            }
        };
        if committed {
            self.record_success(intent);
        }
        committed
    }
}

impl ExpectedCluster {
    async fn check(&self, client: &Client, found: Option<&Resource>) {
        let name = &self.name;
        let found = found.unwrap_or_else(|| panic!("{name} was acknowledged, and does not exist"));
        assert_eq!(found.id, self.id, "{name} is another cluster");
        assert_eq!(found.generation, self.generation, "the generation of {name}");
        assert_eq!(change_in_spec(found), Some(self.change), "the spec of {name}");
        let last: BTreeMap<String, Timestamp> =
            self.reports.iter().map(|(adapter, time)| ((*adapter).to_owned(), *time)).collect();
        assert_eq!(self.statuses(client).await, last, "the last reports of {name}");
        let newest: Vec<_> = self.reports.iter().rev().take(PAGE_SIZE).copied().collect();
        let log = self.log(client).await;
        assert!(log.iter().all(|entry| entry.verdict == Verdict::Accepted), "{name}: {log:?}");
        let logged: Vec<_> = log.iter().map(|entry| (entry.adapter.as_str(), entry.observed_time)).collect();
        assert_eq!(logged, newest, "the log of {name}");
    }

    async fn statuses(&self, client: &Client) -> BTreeMap<String, Timestamp> {
        let path = format!("/clusters/{}/statuses", self.id);
        let statuses: ListOf<AdapterStatus> = client.call(Method::GET, &path, None).await.unwrap();
        statuses.items.into_iter().map(|status| (status.adapter, status.last_updated_time)).collect()
    }

    async fn log(&self, client: &Client) -> Vec<LogEntry> {
        let path = format!("/clusters/{}/statuses/log?size={PAGE_SIZE}", self.id);
        let log: ListOf<LogEntry> = client.call(Method::GET, &path, None).await.unwrap();
        assert_eq!(
            log.total,
            LOG_LENGTH.min(self.reports.len() as u64),
            "the length of the log of {}",
            self.name
        );
        log.items
    }
}

fn change_in_spec(found: &Resource) -> Option<u64> {
    found.spec.get("change").and_then(Value::as_u64)
}

/// An error response fails the test: no other client writes these clusters. Only a server that has lost its database may
/// respond with 503.
fn expect_success<T>(outcome: Result<T, ClientError>) -> Result<T, Unknown> {
    outcome.map_err(|error| match error {
        ClientError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. } => Unknown::Unavailable,
        ClientError::Unreachable { .. } => Unknown::NoResponse,
        error => panic!("a write failed: {error}"),
    })
}

/// How many requests were acknowledged, and the results of the others.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) acknowledged: u32,
    pub(super) committed: u32,
    lost: u32,
    /// How many of the others got a response with 503.
    pub(super) unavailable: u32,
}

impl Counts {
    pub(super) fn add(&mut self, more: &Self) {
        self.acknowledged += more.acknowledged;
        self.committed += more.committed;
        self.lost += more.lost;
        self.unavailable += more.unavailable;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { acknowledged, committed, lost, unavailable } = self;
        write!(
            f,
            "{acknowledged} writes acknowledged; of the others {committed} were committed and {lost} were not \
             ({unavailable} got 503)"
        )
    }
}
