//! A fleet with one required adapter, a broker and its adapters, as far as a Sentinel sees them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_broker::{Broker, BrokerError, CloudEvent, Subscriber};
use bellwether_clock::{Clock as _, SteadyClock};
use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::store::Revision;
use bellwether_runtime::{Health, Metrics, Shutdown};
use bellwether_sentinel::config::{Config, Overrides};
use bellwether_sentinel::feed::{Change, ChangeFeed, ChangeKind, FeedError};
use bellwether_sentinel::sentinel::{Sentinel, Surroundings};
use bellwether_sentinel::shard::OwnedShards;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;

/// What adapters do with a pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Adapters {
    Reporting,
    /// They report `Available=Unknown`, which the API discards.
    Unknown,
    Down,
}

struct State {
    clock: SteadyClock,
    adapters: Adapters,
    broker_up: bool,
    api_up: bool,
    attempts: u32,
    resources: BTreeMap<Id, Resource>,
    changes: Vec<Change>,
    /// Changes up to this revision are no longer available.
    expired: Revision,
    pulses: BTreeMap<Id, Vec<(Timestamp, i64)>>,
}

#[derive(Clone)]
struct Shared {
    state: Arc<Mutex<State>>,
    revision: watch::Sender<Revision>,
}

pub(crate) struct Fleet {
    shared: Shared,
    health: Health,
    shutdown: Shutdown,
}

impl Fleet {
    pub(crate) async fn start(adapters: Adapters) -> Self {
        Self::start_with(adapters, vec![OwnedShards::all()]).await
    }

    pub(crate) async fn start_with(adapters: Adapters, sentinels: Vec<OwnedShards>) -> Self {
        let state = State {
            clock: SteadyClock::starting_at("2026-05-01T00:00:00Z".parse().unwrap()),
            adapters,
            broker_up: true,
            api_up: true,
            attempts: 0,
            resources: BTreeMap::new(),
            changes: Vec::new(),
            expired: 0,
            pulses: BTreeMap::new(),
        };
        let shared = Shared { state: Arc::new(Mutex::new(state)), revision: watch::channel(0).0 };
        let fleet = Self { shared, health: Health::default(), shutdown: Shutdown::default() };
        for shards in sentinels {
            fleet.start_sentinel(shards);
        }
        fleet.pass(Duration::from_millis(10)).await;
        fleet
    }

    pub(crate) fn start_sentinel(&self, shards: OwnedShards) {
        let config = Config::parse("resource_type: clusters", "sentinel.yaml", Overrides::default()).unwrap();
        let surroundings = Surroundings {
            broker: Arc::new(self.shared.clone()),
            shards,
            clock: Arc::new(self.shared.state.lock().clock),
            metrics: Metrics::default(),
            health: self.health.clone(),
        };
        let sentinel = Sentinel::new(config, Arc::new(self.shared.clone()), surroundings);
        self.shutdown.spawn(sentinel.run(self.shutdown.clone()));
    }

    pub(crate) async fn stop_sentinels(&mut self) {
        self.shutdown.finish().await;
        self.shutdown = Shutdown::default();
    }

    /// Lets time pass, and everything that is due in it happen.
    pub(crate) async fn pass(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }

    pub(crate) fn create(&self) -> Id {
        let now = self.shared.now();
        let id = Id::at(now);
        let resource = json!({
            "id": id, "kind": "Cluster", "name": "abc", "href": format!("/api/hyperfleet/v1/clusters/{id}"), "spec": {},
            "generation": 0, "created_time": now, "created_by": "a", "updated_time": now, "updated_by": "a",
        });
        self.shared.state.lock().resources.insert(id, serde_json::from_value(resource).unwrap());
        self.change(id);
        id
    }

    /// Changes the spec of a resource: a new generation, which is not ready.
    pub(crate) fn change(&self, id: Id) {
        let now = self.shared.now();
        self.shared.write(id, |resource| {
            resource.generation += 1;
            resource.updated_time = now;
            set_ready(resource, "False", now, now);
        });
    }

    pub(crate) fn delete(&self, id: Id) {
        let removed = self.shared.state.lock().resources.remove(&id).unwrap();
        self.shared.record(ChangeKind::Deleted, removed);
    }

    pub(crate) fn expire(&self) {
        let mut state = self.shared.state.lock();
        state.expired = i64::try_from(state.changes.len()).unwrap();
    }

    pub(crate) fn set_adapters(&self, adapters: Adapters) {
        self.shared.state.lock().adapters = adapters;
    }

    pub(crate) fn set_broker_up(&self, up: bool) {
        self.shared.state.lock().broker_up = up;
    }

    pub(crate) fn set_api_up(&self, up: bool) {
        self.shared.state.lock().api_up = up;
        // A connection that is open notices at once.
        self.shared.revision.send_modify(|_| {});
    }

    pub(crate) fn attempts(&self) -> u32 {
        self.shared.state.lock().attempts
    }

    pub(crate) fn is_ready(&self, id: Id) -> bool {
        self.shared.state.lock().resources[&id]
            .status
            .conditions
            .iter()
            .any(|one| one.status.to_string() == "True")
    }

    pub(crate) fn pulses(&self, id: Id) -> usize {
        self.shared.state.lock().pulses.get(&id).map_or(0, Vec::len)
    }

    pub(crate) fn pulsed_generations(&self, id: Id) -> Vec<i64> {
        self.shared.state.lock().pulses[&id].iter().map(|(_, generation)| *generation).collect()
    }

    pub(crate) fn shortest_interval(&self, id: Id) -> Duration {
        let state = self.shared.state.lock();
        let intervals = state.pulses[&id].windows(2).map(|pair| pair[1].0.duration_since(pair[0].0));
        intervals.min().unwrap().try_into().unwrap()
    }

    pub(crate) fn not_ready(&self) -> Vec<(String, String)> {
        self.health.not_ready()
    }
}

fn set_ready(resource: &mut Resource, status: &str, updated: Timestamp, transition: Timestamp) {
    let condition = json!({
        "type": "Ready", "status": status, "observed_generation": resource.generation, "created_time": resource.created_time,
        "last_updated_time": updated, "last_transition_time": transition,
    });
    resource.status.conditions = vec![serde_json::from_value(condition).unwrap()];
}

impl Shared {
    fn now(&self) -> Timestamp {
        self.state.lock().clock.now()
    }

    fn write(&self, id: Id, change: impl FnOnce(&mut Resource)) {
        let changed = {
            let mut state = self.state.lock();
            let Some(resource) = state.resources.get_mut(&id) else { return };
            change(resource);
            resource.clone()
        };
        self.record(ChangeKind::Applied, changed);
    }

    fn record(&self, kind: ChangeKind, resource: Resource) {
        let mut state = self.state.lock();
        let revision = Revision::try_from(state.changes.len()).unwrap() + 1;
        state.changes.push(Change { revision, kind, resource });
        drop(state);
        self.revision.send_replace(revision);
    }

    /// What an adapter does with a pulse, a moment later.
    async fn handle(self, id: Id, generation: i64) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let now = {
            let state = self.state.lock();
            if state.adapters != Adapters::Reporting || !state.api_up {
                return;
            }
            state.clock.now()
        };
        self.write(id, |resource| {
            if resource.generation == generation {
                set_ready(resource, "True", now, now);
            }
        });
    }
}

#[async_trait]
impl ChangeFeed for Shared {
    async fn watch(
        &self,
        since: Revision,
    ) -> Result<BoxStream<'static, Result<Change, FeedError>>, FeedError> {
        let state = self.state.lock();
        if !state.api_up {
            return Err(FeedError::Failed("connection refused".to_owned()));
        }
        if since > 0 && since < state.expired {
            return Err(FeedError::Expired);
        }
        let newest = Revision::try_from(state.changes.len()).unwrap();
        let applied = |resource: &Resource| Change {
            revision: newest,
            kind: ChangeKind::Applied,
            resource: resource.clone(),
        };
        let existing: Vec<Change> =
            if since == 0 { state.resources.values().map(applied).collect() } else { Vec::new() };
        let from = usize::try_from(if since == 0 { newest } else { since }).unwrap();
        let changes = futures::stream::unfold(
            (self.clone(), self.revision.subscribe(), from),
            |(shared, mut revision, from)| async move {
                loop {
                    {
                        let state = shared.state.lock();
                        if !state.api_up {
                            return None;
                        }
                        if let Some(change) = state.changes.get(from).cloned() {
                            drop(state);
                            return Some((Ok(change), (shared, revision, from + 1)));
                        }
                    }
                    revision.changed().await.ok()?;
                }
            },
        );
        Ok(futures::stream::iter(existing.into_iter().map(Ok)).chain(changes).boxed())
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Shared")
    }
}

#[async_trait]
impl Broker for Shared {
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        assert_eq!(topic, "clusters");
        assert_eq!(event.event_type, "com.redhat.hyperfleet.cluster.reconcile");
        let id: Id = event.data["id"].as_str().unwrap().parse().unwrap();
        let generation = event.data["generation"].as_i64().unwrap();
        let mut state = self.state.lock();
        if !state.broker_up {
            state.attempts += 1;
            return Err(BrokerError::Unreachable {
                address: "test".to_owned(),
                cause: "connection refused".to_owned(),
            });
        }
        assert_eq!(event.time, Some(state.clock.now()));
        let now = state.clock.now();
        state.pulses.entry(id).or_default().push((now, generation));
        tokio::spawn(self.clone().handle(id, generation));
        Ok(())
    }

    async fn subscribe(&self, _: &str, _: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        panic!("a Sentinel does not subscribe")
    }

    async fn health(&self) -> Result<(), BrokerError> {
        if self.state.lock().broker_up {
            return Ok(());
        }
        Err(BrokerError::Unreachable { address: "test".to_owned(), cause: "connection refused".to_owned() })
    }
}
