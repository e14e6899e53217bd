//! Receives events and runs them: several at once, but never two of the same resource. An event is acknowledged after its
//! report was delivered, and delivered again later if it was not.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bellwether_broker::{Broker, BrokerError, Delivery, Subscriber};
use bellwether_runtime::{BackoffPolicy, Health, Metrics, Shutdown};
use futures::FutureExt as _;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::execute::{Event, Executor, PHASES_TIMEOUT};
use crate::held_delivery::HeldDelivery;
use crate::metrics::AdapterMetrics;
use crate::trace::{Report, Trace};

/// How many events are processed at once, unless the caller says otherwise.
pub const DEFAULT_PARALLELISM: usize = 8;
/// The most events that wait for another one of their resource. Beyond it, no more are received.
const MAX_WAITING: usize = 1000;
/// How long one event may take with its report.
const EVENT_TIMEOUT: Duration = PHASES_TIMEOUT.saturating_add(Duration::from_secs(60));
/// The delay before an event is repeated because a Job still ran or an object was being deleted, and how often. After that, the next pulse
/// finds the result.
const CHECK_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(4) };
const MAX_CHECKS: u32 = 5;
/// The most events that wait to be repeated. Beyond it, the next pulse finds the result.
const MAX_CHECKS_WAITING: usize = 1000;
const NACK_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_secs(5), max: Duration::from_secs(300) };
const RECONNECT_BACKOFF: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(500), max: Duration::from_secs(30) };

/// What an adapter is run with.
#[derive(Clone)]
pub struct Adapter {
    /// Runs events.
    pub executor: Executor,
    /// The topic.
    pub topic: String,
    /// The subscription; adapters with the same one share its events.
    pub subscription: String,
    /// How many events are processed at once, at least 1.
    pub parallelism: usize,
    /// How long running events may take after a shutdown was requested. Those that take longer are delivered again.
    pub drain_timeout: Duration,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The health of the process.
    pub health: Health,
    /// The shutdown of the process.
    pub shutdown: Shutdown,
}

/// An event of a resource.
struct Job {
    event: Event,
    /// The delivery that is settled after it; none if the event is repeated, because its result was not there yet.
    delivery: Option<HeldDelivery>,
    resource: String,
    generation: Option<u64>,
    /// How often the event was repeated.
    checks: u32,
}

/// What remains to be done after an event.
struct Finished {
    resource: String,
    /// Repeat this event after its delay, to report the result of a Job or a deletion soon.
    check: Option<(Job, Duration)>,
}

/// The events that wait and run, by resource.
#[derive(Default)]
struct Queue {
    /// Waiting events of each resource that has a running one.
    waiting: HashMap<String, VecDeque<Job>>,
    count: usize,
}

impl Adapter {
    /// Receives and runs events until shutdown is requested. Connections that are lost are made again.
    pub async fn run(mut self, broker: Arc<dyn Broker>) {
        let metrics: AdapterMetrics = self.metrics.group();
        self.executor = self.executor.with_metrics(metrics.clone());
        let component = self.health.component(format!("adapter {}", self.subscription));
        let mut failures = 0;
        while !self.shutdown.is_requested() {
            let subscribed = tokio::select! {
                subscribed = broker.subscribe(&self.topic, &self.subscription) => subscribed,
                () = self.shutdown.requested() => break,
            };
            let error = match subscribed {
                Ok(subscriber) => {
                    component.ready();
                    metrics.set_up(true);
                    let received = self.receive(subscriber, &metrics).await;
                    if received.count > 0 {
                        failures = 0;
                    }
                    match received.error {
                        None => break,
                        Some(error) => error,
                    }
                }
                Err(error) => error,
            };
            failures += 1;
            metrics.set_up(false);
            component.not_ready(error.to_string());
            let delay = RECONNECT_BACKOFF.delay(failures, rand::random());
            tracing::warn!(topic = %self.topic, %error, ?delay, "events cannot be received; retrying");
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.shutdown.requested() => break,
            }
        }
        metrics.set_up(false);
    }

    async fn receive(&self, mut subscriber: Box<dyn Subscriber>, metrics: &AdapterMetrics) -> Received {
        let mut queue = Queue::default();
        let mut running: JoinSet<Finished> = JoinSet::new();
        let mut checks: JoinSet<Job> = JoinSet::new();
        let mut received = Received { count: 0, error: None };
        loop {
            let has_capacity = running.len() < self.parallelism.max(1) && queue.count < MAX_WAITING;
            metrics.set_waiting(queue.count);
            tokio::select! {
                () = self.shutdown.requested() => break,
                next = subscriber.next(), if has_capacity => match next {
                    Ok(delivery) => {
                        received.count += 1;
                        self.accept(delivery, &mut queue, &mut running, metrics).await;
                    }
                    Err(error) => {
                        received.error = Some(error);
                        break;
                    }
                },
                Some(finished) = running.join_next() => {
                    let check = self.finished(finished, &mut queue, &mut running, metrics);
                    if let Some((job, delay)) = check.filter(|_| checks.len() < MAX_CHECKS_WAITING) {
                        checks.spawn(async move {
                            tokio::time::sleep(delay).await;
                            job
                        });
                    }
                }
                Some(Ok(job)) = checks.join_next() => {
                    // Another event of the resource does the same.
                    if !queue.waiting.contains_key(&job.resource) {
                        queue.waiting.insert(job.resource.clone(), VecDeque::new());
                        self.start(job, &mut running, metrics);
                    }
                }
            }
        }
        // Events that wait are delivered again by the broker, because they are not settled.
        drop(queue);
        let drained =
            tokio::time::timeout(self.drain_timeout, async { while running.join_next().await.is_some() {} });
        if drained.await.is_err() {
            tracing::warn!(
                "events are still running {:?} after the shutdown was requested; they are delivered again later",
                self.drain_timeout
            );
        }
        received
    }

    /// Starts an event, or lets it wait for another one of its resource.
    async fn accept(
        &self,
        delivery: Delivery,
        queue: &mut Queue,
        running: &mut JoinSet<Finished>,
        metrics: &AdapterMetrics,
    ) {
        let data = &delivery.event.data;
        let Some(resource) = data.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()) else {
            tracing::error!(event = %delivery.event.id, attempt = delivery.attempt, "an event has no data.id; it is moved to the dead letters");
            metrics.count_skipped();
            // The broker moves it to the dead letters after its last attempt.
            settle(delivery.nack(Duration::ZERO).await);
            return;
        };
        let job = Job {
            event: Event {
                id: delivery.event.id.clone(),
                event_type: delivery.event.event_type.clone(),
                data: data.clone(),
            },
            resource: resource.to_owned(),
            generation: data.get("generation").and_then(Value::as_u64),
            delivery: Some(HeldDelivery::new(delivery)),
            checks: 0,
        };
        for superseded in queue.enqueue(&job) {
            metrics.count_skipped();
            if let Some(delivery) = superseded.delivery {
                settle(delivery.ack().await);
            }
        }
        match queue.waiting.get_mut(&job.resource) {
            Some(waiting) => {
                waiting.push_back(job);
                queue.count += 1;
            }
            None => {
                queue.waiting.insert(job.resource.clone(), VecDeque::new());
                self.start(job, running, metrics);
            }
        }
    }

    fn start(&self, job: Job, running: &mut JoinSet<Finished>, metrics: &AdapterMetrics) {
        let (executor, metrics) = (self.executor.clone(), metrics.clone());
        running.spawn(async move {
            let resource = job.resource.clone();
            // A panic must not leave later events of the resource waiting for ever.
            let processed = AssertUnwindSafe(process(&executor, job, &metrics)).catch_unwind().await;
            if processed.is_err() {
                tracing::error!(%resource, "an event panicked; the broker delivers it again");
            }
            Finished { resource, check: processed.ok().flatten() }
        });
    }

    fn finished(
        &self,
        finished: Result<Finished, tokio::task::JoinError>,
        queue: &mut Queue,
        running: &mut JoinSet<Finished>,
        metrics: &AdapterMetrics,
    ) -> Option<(Job, Duration)> {
        match finished {
            Ok(Finished { resource, check }) => {
                let next = queue.waiting.get_mut(&resource).and_then(VecDeque::pop_front);
                match next {
                    Some(job) => {
                        queue.count -= 1;
                        self.start(job, running, metrics);
                        None
                    }
                    None => {
                        queue.waiting.remove(&resource);
                        check
                    }
                }
            }
            Err(error) => {
                tracing::error!(%error, "an event ended unexpectedly; it is delivered again later");
                None
            }
        }
    }
}

/// What a subscription has received until it ended.
struct Received {
    count: u64,
    /// None if shutdown was requested.
    error: Option<BrokerError>,
}

impl Queue {
    /// Removes waiting events that a new one makes superfluous: those of the same resource with the same or an older
    /// generation. The newer event does all that they would do.
    fn enqueue(&mut self, new: &Job) -> Vec<Job> {
        let Some(waiting) = self.waiting.get_mut(&new.resource) else { return Vec::new() };
        let Some(generation) = new.generation else { return Vec::new() };
        let all = std::mem::take(waiting);
        let (superseded, kept): (Vec<Job>, Vec<Job>) =
            all.into_iter().partition(|job| job.generation.is_some_and(|waiting| waiting <= generation));
        self.count -= superseded.len();
        waiting.extend(kept);
        superseded
    }
}

/// Runs an event and settles its delivery. Returns the event if it is to be repeated.
async fn process(executor: &Executor, job: Job, metrics: &AdapterMetrics) -> Option<(Job, Duration)> {
    let Job { event, delivery, .. } = &job;
    let attempt = delivery.as_ref().map_or(1, HeldDelivery::attempt);
    let start = Instant::now();
    let trace = match tokio::time::timeout(EVENT_TIMEOUT, executor.execute(event)).await {
        Ok(trace) => trace,
        Err(_) => {
            tracing::error!(event = %event.id, "an event took longer than {EVENT_TIMEOUT:?}; it is delivered again");
            Trace { report: Report::Undelivered, ..timed_out(event) }
        }
    };
    metrics.observe(&trace, start.elapsed());
    log(&trace);
    let is_repeated = trace.report == Report::Delivered && trace.is_unfinished() && job.checks < MAX_CHECKS;
    let Job { event, delivery, resource, generation, checks } = job;
    match (delivery, &trace.report) {
        (Some(delivery), Report::Delivered | Report::ResourceGone) => settle(delivery.ack().await),
        (Some(delivery), Report::Undelivered) => {
            settle(delivery.nack(NACK_BACKOFF.delay(attempt, rand::random())).await);
        }
        (None, _) => {}
    }
    let next = Job { event, delivery: None, resource, generation, checks: checks + 1 };
    is_repeated.then(|| (next, CHECK_BACKOFF.delay(checks + 1, 0.0)))
}

fn timed_out(event: &Event) -> Trace {
    let mut trace = Trace { status: crate::trace::Status::Failed, ..Trace::default() };
    trace.event = crate::trace::TracedEvent { id: event.id.clone(), event_type: event.event_type.clone() };
    let message = format!("the event took longer than {EVENT_TIMEOUT:?}");
    trace.errors = BTreeMap::from([(crate::trace::Phase::PostActions, message)]);
    trace
}

fn log(trace: &Trace) {
    let id = &trace.event.id;
    match (&trace.report, trace.errors.is_empty()) {
        (Report::ResourceGone, _) => {
            tracing::info!(event = %id, "the resource of the event does not exist any more")
        }
        (Report::Undelivered, _) => {
            tracing::warn!(event = %id, errors = ?trace.errors, "the report was not delivered; the event is retried");
        }
        (Report::Delivered, false) => tracing::warn!(event = %id, errors = ?trace.errors, "an event failed"),
        (Report::Delivered, true) => tracing::info!(event = %id, "an event was processed"),
    }
}

/// An event that cannot be settled is delivered again, which is harmless.
fn settle(outcome: Result<(), BrokerError>) {
    if let Err(error) = outcome {
        tracing::warn!(%error, "an event cannot be settled; it is delivered again");
    }
}
