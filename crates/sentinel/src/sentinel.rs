//! The loop of a Sentinel: changes of the feed go to the index, due resources to the broker.
//!
//! A change is evaluated at once, all resources at every interval. Nothing that matters is lost in a restart: which resources are due
//! follows from the API, and a pulse that is published twice does no harm. A pulse counts only when the broker has stored it.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bellwether_broker::{Broker, BrokerError, CloudEvent};
use bellwether_clock::Clock;
use bellwether_fleet::resource::Id;
use bellwether_fleet::store::Revision;
use bellwether_runtime::{BackoffPolicy, Component, Health, Metrics, Shutdown};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::task::AbortOnDropHandle;

use crate::config::Config;
use crate::feed::{Change, ChangeFeed, ChangeKind, FeedError};
use crate::index::{Index, Pulse};
use crate::metrics::{SentinelMetrics, Skipped};
use crate::shard::OwnedShards;

/// How many pulses are published at the same time. Brokers confirm several at once.
const MAX_IN_FLIGHT: usize = 64;
/// How many resources of a cycle are evaluated before changes and other tasks get to run.
const EVALUATION_SLICE: usize = 256;
/// How long to wait after a failure of the feed or of the broker.
const RETRY: BackoffPolicy =
    BackoffPolicy { initial: Duration::from_millis(250), max: Duration::from_secs(15) };
/// The prefix and the suffix of the type of a pulse; between them is the kind.
const EVENT_TYPE: (&str, &str) = ("com.redhat.hyperfleet.", ".reconcile");

/// What a Sentinel needs from its process.
#[derive(Clone)]
pub struct Surroundings {
    /// The broker.
    pub broker: Arc<dyn Broker>,
    /// The resources that belong to this process.
    pub shards: OwnedShards,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The health of the process.
    pub health: Health,
}

/// The evaluation of all resources, slice by slice, so that changes need not wait for its end.
struct Cycle {
    remaining: std::vec::IntoIter<Id>,
    /// How long the evaluations have taken so far.
    duration: Duration,
    not_due: u64,
}

/// The result of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Evaluation {
    /// The resource is due, and enqueued.
    Due,
    NotDue,
    Failed,
}

/// A pulse that was published or not.
struct Published {
    id: Id,
    pulse: Pulse,
    /// `None` if the broker's code has panicked.
    outcome: Option<Result<(), BrokerError>>,
}

/// Publishes pulses for the resources of one kind.
pub struct Sentinel {
    config: Config,
    feed: Arc<dyn ChangeFeed>,
    broker: Arc<dyn Broker>,
    shards: OwnedShards,
    clock: Arc<dyn Clock>,
    metrics: SentinelMetrics,
    feed_health: Component,
    broker_health: Arc<Component>,
    broker_check: Option<AbortOnDropHandle<()>>,
    index: Index,
    /// The revision from which the feed is resumed.
    revision: Revision,
    /// Due resources, in the order in which they became due.
    pending: VecDeque<Id>,
    /// The same, and those in flight.
    queued: HashSet<Id>,
    in_flight: FuturesUnordered<BoxFuture<'static, Published>>,
    feed_failures: u32,
    broker_failures: u32,
    /// Nothing is published before, after a failure of the broker.
    publish_after: Instant,
    /// The evaluation of all resources that is under way.
    cycle: Option<Cycle>,
}

type Changes = BoxStream<'static, Result<Change, FeedError>>;

impl Sentinel {
    /// A Sentinel with this configuration.
    pub fn new(config: Config, feed: Arc<dyn ChangeFeed>, surroundings: Surroundings) -> Self {
        let Surroundings { broker, shards, clock, metrics, health } = surroundings;
        let name = |part: &str| format!("sentinel of {}: {part}", config.resource_type);
        Self {
            metrics: SentinelMetrics::new(&metrics, &config),
            feed_health: health.component(name("fleet API")),
            broker_health: Arc::new(health.component(name("broker"))),
            broker_check: None,
            index: Index::new(config.selector.clone(), &config.decision),
            config,
            feed,
            broker,
            shards,
            clock,
            revision: 0,
            pending: VecDeque::new(),
            queued: HashSet::new(),
            in_flight: FuturesUnordered::new(),
            feed_failures: 0,
            broker_failures: 0,
            publish_after: Instant::now(),
            cycle: None,
        }
    }

    /// Runs until shutdown is requested, and then waits for the pulses in flight.
    pub async fn run(mut self, shutdown: Shutdown) {
        self.check_broker();
        let requested = shutdown.requested();
        tokio::pin!(requested);
        loop {
            let connected = tokio::select! {
                () = &mut requested => break,
                connected = self.feed.watch(self.revision) => connected,
            };
            let ended = match connected {
                Ok(changes) => tokio::select! {
                    () = &mut requested => break,
                    ended = self.follow(changes) => ended,
                },
                Err(error) => Some(error),
            };
            let delay = self.on_feed_end(ended);
            tokio::select! {
                () = &mut requested => break,
                () = tokio::time::sleep(delay) => {}
            }
        }
        while let Some(published) = self.in_flight.next().await {
            self.on_published(published);
        }
    }

    /// Follows the feed until it ends or the owned shards change.
    async fn follow(&mut self, mut changes: Changes) -> Option<FeedError> {
        self.feed_health.ready();
        self.cycle = None;
        let mut interval = tokio::time::interval(self.config.poll_interval);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.publish_pending();
            let retry_at = self.publish_after;
            let waits_for_broker =
                !self.pending.is_empty() && self.broker_failures > 0 && self.in_flight.is_empty();
            tokio::select! {
                // In random order, so that neither changes nor the cycle wait for all of the other.
                () = self.shards.changed() => {
                    let owned = self.shards.clone();
                    self.index.retain(|id| owned.contains(id));
                    // Other resources may belong to this process now.
                    self.restart_feed();
                    return None;
                }
                Some(published) = self.in_flight.next() => self.on_published(published),
                change = changes.next() => match change {
                    Some(Ok(change)) => self.on_change(&change),
                    Some(Err(error)) => return Some(error),
                    None => return Some(FeedError::Failed("the fleet API closed the change feed".to_owned())),
                },
                () = tokio::time::sleep_until(retry_at), if waits_for_broker => {}
                _ = interval.tick(), if self.cycle.is_none() => self.begin_cycle(),
                () = tokio::task::yield_now(), if self.cycle.is_some() => self.evaluate_slice(),
            }
        }
    }

    fn on_change(&mut self, change: &Change) {
        self.revision = self.revision.max(change.revision);
        self.feed_failures = 0;
        let resource = &change.resource;
        if change.kind == ChangeKind::Deleted {
            self.index.on_delete(resource.id);
        } else if self.shards.contains(resource.id)
            && self.index.on_apply(resource)
            && self.evaluate(resource.id, self.clock.now()) == Evaluation::NotDue
        {
            self.metrics.count_skipped(Skipped::NotDue, 1);
        }
    }

    /// Evaluates a resource, and enqueues it if it is due.
    fn evaluate(&mut self, id: Id, now: Timestamp) -> Evaluation {
        if self.queued.contains(&id) {
            return Evaluation::Due;
        }
        match self.index.is_due(id, &self.config.decision, now) {
            Ok(true) => {
                self.queued.insert(id);
                self.pending.push_back(id);
                Evaluation::Due
            }
            Ok(false) => Evaluation::NotDue,
            Err(error) => {
                self.metrics.count_skipped(Skipped::ExpressionFailed, 1);
                tracing::warn!(resource = %id, %error, "the message decision failed; fix the expression in the configuration");
                Evaluation::Failed
            }
        }
    }

    fn begin_cycle(&mut self) {
        self.index.forget_earlier_pulses(self.clock.now());
        let remaining = self.index.ids().collect::<Vec<_>>().into_iter();
        self.cycle = Some(Cycle { remaining, duration: Duration::ZERO, not_due: 0 });
    }

    /// Evaluates the next resources of the cycle, and ends it after the last one.
    fn evaluate_slice(&mut self) {
        let Some(mut cycle) = self.cycle.take() else { return };
        let (begun, now) = (Instant::now(), self.clock.now());
        for id in cycle.remaining.by_ref().take(EVALUATION_SLICE) {
            if self.evaluate(id, now) == Evaluation::NotDue {
                cycle.not_due += 1;
            }
        }
        cycle.duration += begun.elapsed();
        if !cycle.remaining.as_slice().is_empty() {
            self.cycle = Some(cycle);
            return;
        }
        self.metrics.count_skipped(Skipped::NotDue, cycle.not_due);
        self.metrics.record_cycle(cycle.duration, now);
        self.metrics.set_resources(self.index.len());
        if self.broker_failures == 0 && self.pending.is_empty() && self.in_flight.is_empty() {
            self.check_broker();
        }
    }

    /// Publishes due resources. While the broker fails, it tries one at a time.
    fn publish_pending(&mut self) {
        let limit = if self.broker_failures == 0 { MAX_IN_FLIGHT } else { 1 };
        while self.in_flight.len() < limit
            && (self.broker_failures == 0 || Instant::now() >= self.publish_after)
        {
            let Some(id) = self.pending.pop_front() else { break };
            let now = self.clock.now();
            // It may have been reported about, or removed, since it was enqueued.
            if !self.index.is_due(id, &self.config.decision, now).unwrap_or(false) {
                self.queued.remove(&id);
                continue;
            }
            match self.event(id, now) {
                Some((event, generation)) => self.publish(id, event, Pulse { time: now, generation }),
                None => {
                    self.queued.remove(&id);
                }
            }
        }
        self.metrics.set_pending(self.queued.len());
    }

    fn event(&self, id: Id, now: Timestamp) -> Option<(CloudEvent, i64)> {
        let (view, generation) = self.index.view(id)?;
        let (data, errors) = self.config.decision.message_data(view.json());
        for error in errors {
            tracing::debug!(resource = %id, %error, "a member of the message data was left out");
        }
        let kind =
            data.get("kind").and_then(Value::as_str).unwrap_or(&self.config.resource_type).to_lowercase();
        let event_type = format!("{}{kind}{}", EVENT_TYPE.0, EVENT_TYPE.1);
        Some((CloudEvent::new(&self.config.name, &event_type, data, now), generation))
    }

    fn publish(&mut self, id: Id, event: CloudEvent, pulse: Pulse) {
        let (broker, topic) = (self.broker.clone(), self.config.topic.clone());
        // A task of its own, so that it goes on while the feed is being connected.
        let published = tokio::spawn(async move { broker.publish(&topic, &event).await });
        self.in_flight
            .push(published.map(move |outcome| Published { id, pulse, outcome: outcome.ok() }).boxed());
    }

    fn on_published(&mut self, published: Published) {
        let Published { id, pulse, outcome } = published;
        match outcome {
            Some(Ok(())) => {
                self.queued.remove(&id);
                self.index.record_pulse(id, pulse);
                self.metrics.count_published();
                if self.broker_failures > 0 {
                    tracing::info!("the broker accepts pulses again");
                }
                self.broker_failures = 0;
                self.broker_health.ready();
            }
            // It stays due, and comes first when the broker accepts pulses again.
            Some(Err(error)) => {
                self.pending.push_front(id);
                self.on_broker_failure(&error.to_string());
            }
            None => {
                self.pending.push_front(id);
                self.on_broker_failure("publishing has panicked");
            }
        }
    }

    fn on_broker_failure(&mut self, error: &str) {
        self.metrics.count_broker_error();
        self.broker_health.not_ready(error);
        // Pulses that were in flight together fail together.
        if Instant::now() < self.publish_after {
            return;
        }
        self.broker_failures = self.broker_failures.saturating_add(1);
        let delay = RETRY.delay(self.broker_failures, rand::random());
        self.publish_after = Instant::now() + delay;
        tracing::warn!(error, ?delay, "cannot publish pulses; retrying");
    }

    /// Checks the broker in a task of its own, because one that does not respond must not delay changes.
    fn check_broker(&mut self) {
        if self.broker_check.as_ref().is_some_and(|check| !check.is_finished()) {
            return;
        }
        let (broker, health) = (self.broker.clone(), self.broker_health.clone());
        let check = async move {
            match broker.health().await {
                Ok(()) => health.ready(),
                Err(error) => health.not_ready(error.to_string()),
            }
        };
        self.broker_check = Some(AbortOnDropHandle::new(tokio::spawn(check)));
    }

    /// Notes the end of the feed, and returns the delay before the next attempt.
    fn on_feed_end(&mut self, ended: Option<FeedError>) -> Duration {
        let Some(error) = ended else { return Duration::ZERO };
        if matches!(error, FeedError::Expired) && self.revision > 0 {
            self.restart_feed();
            return Duration::ZERO;
        }
        self.metrics.count_api_error(error.label());
        self.feed_health.not_ready(error.to_string());
        self.feed_failures = self.feed_failures.saturating_add(1);
        let delay = RETRY.delay(self.feed_failures, rand::random());
        tracing::warn!(%error, ?delay, "the change feed of the fleet API ended; retrying");
        delay
    }

    fn restart_feed(&mut self) {
        self.revision = 0;
        self.index.restart(self.clock.now());
    }
}
