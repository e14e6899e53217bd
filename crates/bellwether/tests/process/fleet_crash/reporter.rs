//! A client that alone writes its clusters: it reports as their adapters, changes them and makes new ones, one request after
//! another until the server is gone. So it knows exactly what must be there, but for the one request that was cut off.

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

use super::{Listed, create};

const ADAPTERS: [&str; 2] = ["validation", "dns"];
/// How many clusters each begins with.
const CLUSTERS: usize = 2;
/// As many entries as a page of the log has.
const PAGE: usize = 100;

/// A report that counts: of which adapter, and when it looked.
type Reported = (&'static str, Timestamp);

/// A cluster as it must be.
struct Owned {
    id: Id,
    name: String,
    generation: i64,
    /// What its spec says, which moves with the generation.
    change: u64,
    reports: Vec<Reported>,
}

/// A request that is under way.
enum Intent {
    Report { place: usize, reported: Reported },
    Change { place: usize, change: u64 },
    Create { name: String },
}

pub(super) struct Reporter {
    number: u32,
    random: StdRng,
    owned: Vec<Owned>,
    sent: u64,
    last: Timestamp,
    intent: Option<Intent>,
    answered: u32,
    unavailable: u32,
}

/// Why nobody knows what became of a request.
enum CutOff {
    /// The server was gone before it answered.
    FromTheServer,
    /// The server says that it could not tell.
    FromItsDatabase,
}

impl Reporter {
    pub(super) async fn register(client: &Client, number: u32, seed: u64) -> Self {
        let mut reporter = Self {
            number,
            random: StdRng::seed_from_u64(seed),
            owned: Vec::new(),
            sent: 0,
            last: Timestamp::UNIX_EPOCH,
            intent: None,
            answered: 0,
            unavailable: 0,
        };
        for _ in 0..CLUSTERS {
            let name = reporter.new_name();
            reporter.own(&create(client, &name).await);
        }
        reporter
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn clusters(&self) -> usize {
        self.owned.len()
    }

    /// Sends requests at a pace until the server is gone.
    pub(super) async fn report(mut self, client: Client, pace: Duration) -> Self {
        let mut ticks = tokio::time::interval(pace);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        loop {
            ticks.tick().await;
            let intent = self.choose();
            if let Err(cut_off) = self.send(&client, &intent).await {
                self.unavailable += u32::from(matches!(cut_off, CutOff::FromItsDatabase));
                self.intent = Some(intent);
                return self;
            }
            self.came_true(intent);
            self.answered += 1;
        }
    }

    fn choose(&mut self) -> Intent {
        let place = self.random.random_range(0..self.owned.len());
        match self.random.random_range(0..100) {
            0 => Intent::Create { name: self.new_name() },
            1..6 => Intent::Change { place, change: self.next() },
            _ => {
                let adapter = ADAPTERS.choose(&mut self.random).copied().unwrap_or(ADAPTERS[0]);
                Intent::Report { place, reported: (adapter, self.now()) }
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

    /// An instant that no other report of this client has, as exact as both stores keep it.
    fn now(&mut self) -> Timestamp {
        let now = Timestamp::now().round(Unit::Microsecond).unwrap();
        self.last = now.max(self.last + SignedDuration::from_micros(1));
        self.last
    }

    async fn send(&mut self, client: &Client, intent: &Intent) -> Result<(), CutOff> {
        match intent {
            Intent::Create { name } => {
                let body = json!({"kind": "Cluster", "name": name, "spec": {"change": 0}});
                let made = answered(client.call(Method::POST, "/clusters", Some(&body)).await)?;
                self.own(&made);
            }
            Intent::Change { place, change } => {
                let owned = &self.owned[*place];
                let body = json!({"spec": {"change": change}});
                let path = format!("/clusters/{}", owned.id);
                let changed: Resource = answered(client.call(Method::PATCH, &path, Some(&body)).await)?;
                assert_eq!(changed.generation, owned.generation + 1, "{}", owned.name);
            }
            Intent::Report { place, reported: (adapter, time) } => {
                let owned = &self.owned[*place];
                let status = if self.random.random_ratio(9, 10) { "True" } else { "False" };
                let conditions: Vec<Value> = ["Available", "Applied", "Health"]
                    .map(|type_| json!({"type": type_, "status": status}))
                    .into();
                let body = json!({
                    "adapter": adapter,
                    "observed_generation": owned.generation,
                    "observed_time": time,
                    "conditions": conditions,
                });
                let path = format!("/clusters/{}/statuses", owned.id);
                let answer = answered(client.call_raw(Method::PUT, &path, Some(&body)).await)?;
                assert_eq!(answer.status, StatusCode::CREATED, "{}: {body}", owned.name);
            }
        }
        Ok(())
    }

    fn own(&mut self, made: &Resource) {
        let (id, name) = (made.id, made.name.clone());
        assert_eq!(made.generation, 1, "{name}");
        self.owned.push(Owned { id, name, generation: 1, change: 0, reports: Vec::new() });
    }

    /// A created one is owned when it is seen.
    fn came_true(&mut self, intent: Intent) {
        match intent {
            Intent::Report { place, reported } => self.owned[place].reports.push(reported),
            Intent::Change { place, change } => {
                let owned = &mut self.owned[place];
                (owned.generation, owned.change) = (owned.generation + 1, change);
            }
            Intent::Create { .. } => {}
        }
    }

    /// Holds what a restarted server shows against everything that was answered before.
    pub(super) async fn judge(&mut self, client: &Client, listed: &Listed) -> Tally {
        let mut tally = Tally {
            answered: std::mem::take(&mut self.answered),
            unavailable: std::mem::take(&mut self.unavailable),
            ..Tally::default()
        };
        if let Some(intent) = self.intent.take() {
            let count = match self.settle(client, listed, intent).await {
                true => &mut tally.came_true,
                false => &mut tally.came_to_nothing,
            };
            *count += 1;
        }
        for owned in &self.owned {
            owned.judge(client, listed.get(&owned.name)).await;
        }
        tally
    }

    /// Whether what was cut off came true; both are right.
    async fn settle(&mut self, client: &Client, listed: &Listed, intent: Intent) -> bool {
        let true_ = match &intent {
            Intent::Create { name } => {
                let made = listed.get(name);
                made.into_iter().for_each(|made| self.own(made));
                made.is_some()
            }
            Intent::Change { place, change } => {
                listed.get(&self.owned[*place].name).is_some_and(|found| said(found) == Some(*change))
            }
            Intent::Report { place, reported: (adapter, time) } => {
                let statuses = self.owned[*place].statuses(client).await;
                statuses.get(*adapter) == Some(time)
            }
        };
        if true_ {
            self.came_true(intent);
        }
        true_
    }
}

impl Owned {
    async fn judge(&self, client: &Client, found: Option<&Resource>) {
        let name = &self.name;
        let found = found.unwrap_or_else(|| panic!("{name} was answered, and is not there"));
        assert_eq!(found.id, self.id, "{name} is another cluster");
        assert_eq!(found.generation, self.generation, "the generation of {name}");
        assert_eq!(said(found), Some(self.change), "the spec of {name}");
        let last: BTreeMap<String, Timestamp> =
            self.reports.iter().map(|(adapter, time)| ((*adapter).to_owned(), *time)).collect();
        assert_eq!(self.statuses(client).await, last, "the last reports of {name}");
        let newest: Vec<_> = self.reports.iter().rev().take(PAGE).copied().collect();
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
        let path = format!("/clusters/{}/statuses/log?size={PAGE}", self.id);
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

fn said(found: &Resource) -> Option<u64> {
    found.spec.get("change").and_then(Value::as_u64)
}

/// A refusal is a failure of the test: nobody else writes where this client does. Only a server that has lost its database
/// may say that it cannot tell.
fn answered<T>(outcome: Result<T, ClientError>) -> Result<T, CutOff> {
    outcome.map_err(|error| match error {
        ClientError::Refused { status: StatusCode::SERVICE_UNAVAILABLE, .. } => CutOff::FromItsDatabase,
        ClientError::Unreachable { .. } => CutOff::FromTheServer,
        error => panic!("a write was refused: {error}"),
    })
}

/// How many requests were answered, and what became of those that were not.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) answered: u32,
    pub(super) came_true: u32,
    came_to_nothing: u32,
    /// Of those that were cut off, how many were told so.
    pub(super) unavailable: u32,
}

impl Tally {
    pub(super) fn add(&mut self, more: &Self) {
        self.answered += more.answered;
        self.came_true += more.came_true;
        self.came_to_nothing += more.came_to_nothing;
        self.unavailable += more.unavailable;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answered, came_true, came_to_nothing, unavailable } = self;
        write!(
            f,
            "{answered} writes answered; of those cut off {came_true} came true and {came_to_nothing} did not \
             ({unavailable} were told so)"
        )
    }
}
