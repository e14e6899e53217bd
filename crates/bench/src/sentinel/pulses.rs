//! The way from a created cluster to its pulse: creates at a rate, and a subscriber of the queue in another process than Sentinel.
//! Every pulse is answered by a report, as an adapter does, so that no cluster is pulsed again because its TTL has passed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bellwether_broker::sqlite::{Limits, Queue};
use bellwether_broker::{Broker as _, Subscriber};
use bellwether_clock::SystemClock;
use jiff::Timestamp;
use serde_json::Value;
use tokio::sync::mpsc;

use super::process::Sentinel;
use crate::fleet::clusters::create_cluster;
use crate::fleet::reports::send_report;
use crate::fleet::server::Server;
use crate::statistics::Latencies;

/// The topic of Sentinel's pulses: the plural name of the kind.
const TOPIC: &str = "clusters";
const SUBSCRIPTION: &str = "bench";
/// Creates take turns on these connections.
const CONNECTIONS: usize = 8;
/// How long pulses may be delayed after the last create. Without a report, a cluster is pulsed again after 10 s.
const PULSE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long duplicates are waited for after the last pulse.
const DUPLICATES_PERIOD: Duration = Duration::from_secs(3);

/// How many clusters are created, and how fast.
pub(super) struct CreatePlan {
    /// The number of the first cluster.
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) per_second: u32,
}

/// A moment on both clocks: events have the time of the system clock.
#[derive(Clone, Copy)]
struct Moment {
    instant: Instant,
    time: Timestamp,
}

impl Moment {
    fn now() -> Self {
        Self { instant: Instant::now(), time: Timestamp::now() }
    }
}

/// A pulse that has arrived.
struct Arrival {
    id: String,
    at: Instant,
    published: Option<Timestamp>,
}

/// The measured pulses.
pub(super) struct Pulses {
    pub(super) creates_per_second: f64,
    /// From the response to the create to Sentinel's decision to publish.
    pub(super) to_published: Latencies,
    /// From the response to the create to the arrival at the subscriber.
    pub(super) to_arrived: Latencies,
    pub(super) lost: usize,
    pub(super) duplicates: usize,
}

/// Creates clusters, and measures the delay of their pulses.
pub(super) async fn measure(
    sentinel: &Sentinel,
    fleet: &Server,
    plan: &CreatePlan,
    adapter: &str,
) -> anyhow::Result<Pulses> {
    let queue = Queue::open(&sentinel.queue(), Limits::default(), Arc::new(SystemClock))?;
    let subscriber = queue.subscribe(TOPIC, SUBSCRIPTION).await?;
    let (reported, reports) = mpsc::unbounded_channel();
    let (created_all, created) = mpsc::channel(1);
    let begun = Instant::now();
    let creates = async {
        let created = create_all(fleet, plan).await?;
        let took = begun.elapsed();
        created_all.send(()).await.context("the subscriber has ended")?;
        Ok::<_, anyhow::Error>((created, took))
    };
    let receives = receive(subscriber, plan.count, created, reported);
    let ((created, took), arrivals, ()) =
        tokio::try_join!(creates, receives, send_reports(fleet, reports, adapter))?;
    Ok(evaluate(&created, &arrivals, took))
}

/// Creates all clusters at the rate, and returns the moment of each response by ID.
async fn create_all(fleet: &Server, plan: &CreatePlan) -> anyhow::Result<HashMap<String, Moment>> {
    let begun = Instant::now();
    let clients = (0..CONNECTIONS).map(|client| async move {
        let mut connection = fleet.connect().await?;
        let mut created = Vec::new();
        for number in (client..plan.count).step_by(CONNECTIONS) {
            let due = begun + Duration::from_secs_f64(number as f64 / f64::from(plan.per_second));
            tokio::time::sleep_until(due.into()).await;
            let id = create_cluster(&mut connection, plan.first + number).await?;
            created.push((id, Moment::now()));
        }
        Ok::<_, anyhow::Error>(created)
    });
    Ok(futures::future::try_join_all(clients).await?.into_iter().flatten().collect())
}

/// Receives pulses, one at a time, until as many clusters were pulsed as are created, or the timeout after the last create.
async fn receive(
    mut subscriber: Box<dyn Subscriber>,
    expected: usize,
    mut created: mpsc::Receiver<()>,
    reports: mpsc::UnboundedSender<String>,
) -> anyhow::Result<Vec<Arrival>> {
    let (mut arrivals, mut pulsed) = (Vec::new(), HashSet::new());
    let mut deadline: Option<Instant> = None;
    loop {
        let until = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            () = tokio::time::sleep_until(until.into()), if deadline.is_some() => return Ok(arrivals),
            Some(()) = created.recv() => {
                deadline.get_or_insert(Instant::now() + PULSE_TIMEOUT);
            }
            delivery = subscriber.next() => {
                let (delivery, at) = (delivery?, Instant::now());
                let id = delivery.event.data.get("id").and_then(Value::as_str);
                let id = id.context("a pulse has no id")?.to_owned();
                let published = delivery.event.time;
                delivery.ack().await?;
                if pulsed.insert(id.clone()) {
                    reports.send(id.clone())?;
                    if pulsed.len() == expected {
                        deadline = Some(Instant::now() + DUPLICATES_PERIOD);
                    }
                }
                arrivals.push(Arrival { id, at, published });
            }
        }
    }
}

/// Reports that the pulsed clusters are available.
async fn send_reports(
    fleet: &Server,
    mut pulsed: mpsc::UnboundedReceiver<String>,
    adapter: &str,
) -> anyhow::Result<()> {
    let mut connection = fleet.connect().await?;
    while let Some(id) = pulsed.recv().await {
        if let Some(rejection) = send_report(&mut connection, &id, adapter).await? {
            anyhow::bail!("a report after a pulse was not accepted: {rejection}");
        }
    }
    Ok(())
}

/// Compares creates with pulses. Only the first pulse of a cluster has a delay; further ones are duplicates.
fn evaluate(created: &HashMap<String, Moment>, arrivals: &[Arrival], took: Duration) -> Pulses {
    let (mut to_published, mut to_arrived) = (Latencies::default(), Latencies::default());
    let mut waiting = created.clone();
    let mut duplicates = 0;
    for arrival in arrivals {
        if let Some(response) = waiting.remove(&arrival.id) {
            // A pulse can be published before the response has arrived.
            to_arrived.add(arrival.at.saturating_duration_since(response.instant));
            let delay = arrival.published.map(|published| published.duration_since(response.time));
            to_published.add(delay.and_then(|delay| delay.try_into().ok()).unwrap_or_default());
        } else if created.contains_key(&arrival.id) {
            duplicates += 1;
        }
    }
    let creates_per_second = created.len() as f64 / took.as_secs_f64().max(f64::EPSILON);
    Pulses { creates_per_second, to_published, to_arrived, lost: waiting.len(), duplicates }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_are_lost_or_duplicates_by_cluster() {
        let response = Moment::now();
        let created = ["a", "b", "c"].map(|id| (id.to_owned(), response)).into();
        let arrival = |id: &str, millis| Arrival {
            id: id.to_owned(),
            at: response.instant + Duration::from_millis(millis),
            published: Some(response.time),
        };
        let arrivals = [arrival("a", 5), arrival("a", 7), arrival("b", 9), arrival("other", 1)];
        let mut pulses = evaluate(&created, &arrivals, Duration::from_secs(1));
        assert_eq!((pulses.lost, pulses.duplicates, pulses.creates_per_second), (1, 1, 3.0));
        assert_eq!(pulses.to_arrived.quantile_millis(1.0), Some(9.0));
        assert_eq!(pulses.to_published.quantile_millis(1.0), Some(0.0));
    }
}
