//! Simulates thousands of add-ons: sends their heartbeats, and watches which state the checker reports for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bellwether_clock::whole_seconds;
use http::Method;
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::connection::{Access, Connection, Content, for_each_line};
use crate::server::{create_crds, create_namespace};
use crate::statistics::Latencies;

const API: &str = "/apis/addons.managed.openshift.io/v1alpha1";
const PREFIX: &str = "addon-instance-";
/// How many connections the add-ons share.
const CONNECTIONS: usize = 16;
const INSTANCES_PER_NAMESPACE: usize = 100;

/// The state of an add-on, as the load generator sees it.
#[derive(Clone, Copy)]
struct InstanceState {
    /// When the last heartbeat was sent.
    sent_at: Instant,
    /// The timestamp of the last heartbeat.
    timestamp: Timestamp,
    reported: Reported,
    /// When `reported` last changed.
    reported_at: Instant,
}

/// What the condition `Healthy` of an instance reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reported {
    Nothing,
    Receiving,
    TimedOut,
}

/// The simulated add-ons.
pub(super) struct Fleet {
    access: Access,
    pub(super) period: Duration,
    states: Arc<Mutex<Vec<InstanceState>>>,
    timeouts: Arc<AtomicUsize>,
}

impl Fleet {
    /// Creates the CRDs, and starts to watch the instances.
    pub(super) async fn new(access: &Access, count: usize, period: Duration) -> anyhow::Result<Self> {
        let mut connection = access.connect().await?;
        create_crds(&mut connection).await?;
        let now = Instant::now();
        let initial = InstanceState {
            sent_at: now,
            timestamp: Timestamp::MIN,
            reported: Reported::Nothing,
            reported_at: now,
        };
        let fleet = Self {
            access: access.clone(),
            period,
            states: Arc::new(Mutex::new(vec![initial; count])),
            timeouts: Arc::new(AtomicUsize::new(0)),
        };
        let stream = connection
            .stream(Method::GET, &format!("{API}/addoninstances?watch=true"), Content::None)
            .await?;
        let (states, timeouts) = (fleet.states.clone(), fleet.timeouts.clone());
        tokio::spawn(for_each_line(stream, connection, move |line| record_event(line, &states, &timeouts)));
        Ok(fleet)
    }

    pub(super) fn count(&self) -> usize {
        self.states.lock().len()
    }

    /// Creates all instances.
    pub(super) async fn create(&self) -> anyhow::Result<()> {
        let mut connection = self.access.connect().await?;
        for namespace in 0..self.count().div_ceil(INSTANCES_PER_NAMESPACE) {
            create_namespace(&mut connection, &format!("fleet-{namespace}")).await?;
        }
        let period = format!("{}s", self.period.as_secs());
        self.run_on_all(move |mut connection, numbers, _| {
            let period = period.clone();
            async move {
                for number in numbers {
                    let body = json!({
                        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "AddonInstance",
                        "metadata": {"name": format!("{PREFIX}{number}")},
                        "spec": {"heartbeatUpdatePeriod": period},
                    });
                    let body = Content::Json(body.to_string().into_bytes());
                    connection.send(Method::POST, &collection(number), body).await?;
                }
                Ok(0)
            }
        })
        .await?;
        Ok(())
    }

    /// Sends one heartbeat for every add-on, as fast as the server responds.
    pub(super) async fn send_all(&self) -> anyhow::Result<usize> {
        self.run_on_all(|mut connection, numbers, states| async move {
            let mut sent = 0;
            for number in numbers {
                sent += send_heartbeat(&mut connection, number, &states).await?;
            }
            Ok(sent)
        })
        .await
    }

    /// Sends a heartbeat per period for every add-on, spread over the period. Returns the number of heartbeats.
    pub(super) async fn send_for(&self, duration: Duration) -> anyhow::Result<usize> {
        let (count, period, begun) = (self.count(), self.period, tokio::time::Instant::now());
        self.run_on_all(move |mut connection, numbers, states| async move {
            let mut sent = 0;
            for period_number in 0.. {
                for number in &numbers {
                    let part = *number as f64 / count as f64;
                    let at = period * period_number + period.mul_f64(part);
                    if at >= duration {
                        return Ok(sent);
                    }
                    tokio::time::sleep_until(begun + at).await;
                    sent += send_heartbeat(&mut connection, *number, &states).await?;
                }
            }
            Ok(sent)
        })
        .await
    }

    /// Divides the instances among connections, and runs `task` on each connection.
    async fn run_on_all<F>(
        &self,
        task: impl Fn(Connection, Vec<usize>, Arc<Mutex<Vec<InstanceState>>>) -> F,
    ) -> anyhow::Result<usize>
    where
        F: Future<Output = anyhow::Result<usize>> + Send + 'static,
    {
        let count = self.count();
        let mut workers = JoinSet::new();
        for worker in 0..CONNECTIONS {
            let numbers = (worker..count).step_by(CONNECTIONS).collect();
            workers.spawn(task(self.access.connect().await?, numbers, self.states.clone()));
        }
        let mut total = 0;
        while let Some(done) = workers.join_next().await {
            total += done.context("a task of the load generator panicked")??;
        }
        Ok(total)
    }

    /// How many timeouts were reported so far.
    pub(super) fn timeouts(&self) -> usize {
        self.timeouts.load(Ordering::Relaxed)
    }

    /// Waits until all instances report the same, and returns how long after its last heartbeat each did.
    pub(super) async fn wait_until_all(
        &self,
        reported: Reported,
        timeout: Duration,
    ) -> anyhow::Result<Latencies> {
        let deadline = Instant::now() + timeout;
        loop {
            {
                let states = self.states.lock();
                let count = states.iter().filter(|state| state.reported == reported).count();
                if count == states.len() {
                    let mut latencies = Latencies::default();
                    for state in states.iter() {
                        latencies.add(state.reported_at.saturating_duration_since(state.sent_at));
                    }
                    return Ok(latencies);
                }
                anyhow::ensure!(
                    Instant::now() < deadline,
                    "only {count} of {} instances were reported as {reported:?} within {timeout:?}",
                    states.len()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The revision of the store, which every write increments by one.
    pub(super) async fn revision(&self) -> anyhow::Result<u64> {
        let body = self.access.connect().await?.get(&format!("{API}/addoninstances?limit=1")).await?;
        let list: Value = serde_json::from_slice(&body)?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Ok(revision.parse()?)
    }
}

fn collection(number: usize) -> String {
    format!("{API}/namespaces/fleet-{}/addoninstances", number / INSTANCES_PER_NAMESPACE)
}

/// Sends a heartbeat, and returns 1 if its timestamp is new: a second heartbeat in the same second changes nothing.
async fn send_heartbeat(
    connection: &mut Connection,
    number: usize,
    states: &Mutex<Vec<InstanceState>>,
) -> anyhow::Result<usize> {
    let now = whole_seconds(Timestamp::now());
    let patch = format!(r#"{{"status":{{"lastHeartbeatTime":"{now}"}}}}"#);
    let mut changed = 0;
    if let Some(state) = states.lock().get_mut(number) {
        changed = usize::from(state.timestamp != now);
        (state.sent_at, state.timestamp) = (Instant::now(), now);
    }
    let path = format!("{}/{PREFIX}{number}/status", collection(number));
    connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await?;
    Ok(changed)
}

/// The part of a watch event that is used.
#[derive(Deserialize)]
struct Event {
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    reason: String,
}

/// Records the state that a watch event reports.
fn record_event(line: &[u8], states: &Mutex<Vec<InstanceState>>, timeouts: &AtomicUsize) {
    let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
    let Some((number, reported)) = parse_event(&event) else { return };
    if let Some(state) = states.lock().get_mut(number)
        && state.reported != reported
    {
        (state.reported, state.reported_at) = (reported, Instant::now());
        timeouts.fetch_add(usize::from(reported == Reported::TimedOut), Ordering::Relaxed);
    }
}

fn parse_event(event: &Event) -> Option<(usize, Reported)> {
    let number = event.object.metadata.name.strip_prefix(PREFIX)?.parse().ok()?;
    let reported = match event.object.status.conditions.first()?.reason.as_str() {
        "HeartbeatTimeout" => Reported::TimedOut,
        "ReceivingHeartbeats" => Reported::Receiving,
        _ => Reported::Nothing,
    };
    Some((number, reported))
}
