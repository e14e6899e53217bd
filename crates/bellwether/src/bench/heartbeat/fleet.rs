//! Add-ons by the thousand, of which nothing is there but their heartbeats; and a witness who watches what is said of
//! them.

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

use crate::bench::connection::{Access, Connection, Content, each_line};
use crate::bench::contestant::{define_all, make_namespace};
use crate::bench::statistics::Latencies;

const API: &str = "/apis/addons.managed.openshift.io/v1alpha1";
const PREFIX: &str = "addon-instance-";
/// How many connections the add-ons share.
const CONNECTIONS: usize = 16;
/// How many instances a namespace has.
const CROWD: usize = 100;

/// What is known of one instance from outside.
#[derive(Clone, Copy)]
struct Known {
    beat: Instant,
    stamp: Timestamp,
    said: Said,
    since: Instant,
}

/// What `Healthy` says of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Nothing,
    Receiving,
    TimedOut,
}

/// The add-ons.
pub(super) struct Fleet {
    access: Access,
    pub(super) period: Duration,
    known: Arc<Mutex<Vec<Known>>>,
    timeouts: Arc<AtomicUsize>,
}

impl Fleet {
    /// Defines the kind, and lets the witness watch it.
    pub(super) async fn new(access: &Access, count: usize, period: Duration) -> anyhow::Result<Self> {
        let mut connection = access.connect().await?;
        define_all(&mut connection).await?;
        let now = Instant::now();
        let known = vec![Known { beat: now, stamp: Timestamp::MIN, said: Said::Nothing, since: now }; count];
        let fleet = Self {
            access: access.clone(),
            period,
            known: Arc::new(Mutex::new(known)),
            timeouts: Arc::new(AtomicUsize::new(0)),
        };
        let stream =
            connection.begin(Method::GET, &format!("{API}/addoninstances?watch=true"), Content::None).await?;
        let (known, timeouts) = (fleet.known.clone(), fleet.timeouts.clone());
        tokio::spawn(each_line(stream, connection, move |line| note(line, &known, &timeouts)));
        Ok(fleet)
    }

    pub(super) fn count(&self) -> usize {
        self.known.lock().len()
    }

    /// Creates all instances.
    pub(super) async fn create(&self) -> anyhow::Result<()> {
        let mut connection = self.access.connect().await?;
        for namespace in 0..self.count().div_ceil(CROWD) {
            make_namespace(&mut connection, &format!("fleet-{namespace}")).await?;
        }
        let period = format!("{}s", self.period.as_secs());
        self.all(move |mut connection, numbers, _| {
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

    /// Every add-on beats once, all as fast as they are answered.
    pub(super) async fn beat_at_once(&self) -> anyhow::Result<usize> {
        self.all(|mut connection, numbers, known| async move {
            let mut beats = 0;
            for number in numbers {
                beats += beat(&mut connection, number, &known).await?;
            }
            Ok(beats)
        })
        .await
    }

    /// Every add-on beats in its period, evenly spread, for as long as this. Says how many beats that were.
    pub(super) async fn beat_for(&self, lasts: Duration) -> anyhow::Result<usize> {
        let (count, period, begun) = (self.count(), self.period, tokio::time::Instant::now());
        self.all(move |mut connection, numbers, known| async move {
            let mut beats = 0;
            for round in 0.. {
                for number in &numbers {
                    let part = *number as f64 / count as f64;
                    let at = period * round + period.mul_f64(part);
                    if at >= lasts {
                        return Ok(beats);
                    }
                    tokio::time::sleep_until(begun + at).await;
                    beats += beat(&mut connection, *number, &known).await?;
                }
            }
            Ok(beats)
        })
        .await
    }

    /// Shares the instances out among connections.
    async fn all<F>(
        &self,
        work: impl Fn(Connection, Vec<usize>, Arc<Mutex<Vec<Known>>>) -> F,
    ) -> anyhow::Result<usize>
    where
        F: Future<Output = anyhow::Result<usize>> + Send + 'static,
    {
        let count = self.count();
        let mut workers = JoinSet::new();
        for worker in 0..CONNECTIONS {
            let numbers = (worker..count).step_by(CONNECTIONS).collect();
            workers.spawn(work(self.access.connect().await?, numbers, self.known.clone()));
        }
        let mut total = 0;
        while let Some(done) = workers.join_next().await {
            total += done.context("an add-on failed")??;
        }
        Ok(total)
    }

    /// How many times an instance was said to be silent, so far.
    pub(super) fn timeouts(&self) -> usize {
        self.timeouts.load(Ordering::Relaxed)
    }

    /// Waits until the same is said of all, and says how long after each one's last beat it was.
    pub(super) async fn until_all_are(&self, said: Said, patience: Duration) -> anyhow::Result<Latencies> {
        let deadline = Instant::now() + patience;
        loop {
            {
                let known = self.known.lock();
                let there = known.iter().filter(|known| known.said == said).count();
                if there == known.len() {
                    let mut latencies = Latencies::default();
                    known
                        .iter()
                        .for_each(|known| latencies.add(known.since.saturating_duration_since(known.beat)));
                    return Ok(latencies);
                }
                anyhow::ensure!(
                    Instant::now() < deadline,
                    "only {there} of {} instances were {said:?} within {patience:?}",
                    known.len()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// The revision of the store: every write moves it by one.
    pub(super) async fn revision(&self) -> anyhow::Result<u64> {
        let body = self.access.connect().await?.get(&format!("{API}/addoninstances?limit=1")).await?;
        let list: Value = serde_json::from_slice(&body)?;
        let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        Ok(revision.parse()?)
    }
}

fn collection(number: usize) -> String {
    format!("{API}/namespaces/fleet-{}/addoninstances", number / CROWD)
}

/// Sends a beat. One in the second of the beat before is none; that is what is counted.
async fn beat(
    connection: &mut Connection,
    number: usize,
    known: &Mutex<Vec<Known>>,
) -> anyhow::Result<usize> {
    let now = whole_seconds(Timestamp::now());
    let patch = format!(r#"{{"status":{{"lastHeartbeatTime":"{now}"}}}}"#);
    let mut counts = 0;
    if let Some(known) = known.lock().get_mut(number) {
        counts = usize::from(known.stamp != now);
        (known.beat, known.stamp) = (Instant::now(), now);
    }
    let path = format!("{}/{PREFIX}{number}/status", collection(number));
    connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await?;
    Ok(counts)
}

/// The part of an event that the witness looks at.
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

/// Notes down what is said.
fn note(line: &[u8], known: &Mutex<Vec<Known>>, timeouts: &AtomicUsize) {
    let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
    let Some((number, said)) = read(&event) else { return };
    if let Some(known) = known.lock().get_mut(number)
        && known.said != said
    {
        (known.said, known.since) = (said, Instant::now());
        timeouts.fetch_add(usize::from(said == Said::TimedOut), Ordering::Relaxed);
    }
}

fn read(event: &Event) -> Option<(usize, Said)> {
    let number = event.object.metadata.name.strip_prefix(PREFIX)?.parse().ok()?;
    let said = match event.object.status.conditions.first()?.reason.as_str() {
        "HeartbeatTimeout" => Said::TimedOut,
        "ReceivingHeartbeats" => Said::Receiving,
        _ => Said::Nothing,
    };
    Some((number, said))
}
