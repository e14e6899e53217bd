//! The built-in durable queue, on an SQLite file. A published event is on disk when `publish` returns. The server is one process;
//! others can inspect the file and requeue dead letters meanwhile, with an [`Operator`].
//!
//! Each subscription has its own deliveries of an event, in which a claim hides the event for the visibility timeout. Subscribers
//! wait for a notification of this process or for the next time at which an event becomes visible; nobody polls, except for the
//! changes of other processes, once per second.

mod connection;
mod limits;
mod operator;
mod statements;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_clock::Clock;
use tokio::sync::oneshot;

pub use limits::Limits;
pub use operator::{DeadLetter, Operator, PendingEvent, Requeue, SubscriptionInfo};

use crate::metrics::BrokerMetrics;
use crate::{Broker, BrokerError, CloudEvent, Delivery, Settlement, Subscriber, encode, name};
use connection::{Location, Missing};
use statements::{Claim, Claimed, ClaimedEvent, EventId, Millis, Published, SubscriptionId};
use writer::{Done, Durability, Writer};

/// The longest wait for the next visible event, so that a step of the system clock delays it no longer.
const MAX_TIMER: Duration = Duration::from_secs(60);

/// A queue on an SQLite file.
pub struct Queue {
    writer: Writer,
    limits: Limits,
    clock: Arc<dyn Clock>,
    metrics: BrokerMetrics,
}

impl Queue {
    /// Opens a file, or creates it in an existing directory.
    pub fn open(path: &Path, limits: Limits, clock: Arc<dyn Clock>) -> Result<Self, BrokerError> {
        let location = Location::new(path);
        let connection = location.open(Missing::Create)?;
        let limited = connection::limit_size(&connection, limits.max_file_bytes);
        limited.map_err(|error| location.error(error))?;
        let writer = Writer::start(connection, location, Arc::clone(&clock))?;
        Ok(Self { writer, limits, clock, metrics: BrokerMetrics::unregistered() })
    }

    /// Counts bodies that are not events there.
    #[must_use]
    pub fn with_metrics(self, metrics: BrokerMetrics) -> Self {
        Self { metrics, ..self }
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Queue")
            .field("address", &self.writer.location().address())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for Queue {
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        name::validate(topic)?;
        let body = encode(event, &self.writer.location().address())?;
        let (topic, limits) = (topic.to_owned(), self.limits);
        let work = move |connection: &_, now| {
            let published = statements::publish(connection, &limits, &topic, &body, now)?;
            Ok(match published {
                Published::Stored(wake) => Done { value: None, wake },
                Published::Full(cause) => Done::new(Some(cause)),
            })
        };
        match self.writer.run(Durability::Durable, work).await? {
            None => Ok(()),
            Some(cause) => Err(self.writer.location().full(cause)),
        }
    }

    async fn subscribe(&self, topic: &str, subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        name::validate(topic)?;
        name::validate(subscription)?;
        let (topic, name) = (topic.to_owned(), subscription.to_owned());
        let topic_name = topic.clone();
        let work =
            move |connection: &_, _| statements::subscribe(connection, &topic_name, &name).map(Done::new);
        let subscription = self.writer.run(Durability::Durable, work).await?;
        Ok(Box::new(QueueSubscriber {
            writer: self.writer.clone(),
            limits: self.limits,
            clock: Arc::clone(&self.clock),
            metrics: self.metrics.clone(),
            topic,
            subscription,
            claim: None,
        }))
    }

    async fn health(&self) -> Result<(), BrokerError> {
        self.writer.run(Durability::Repeatable, |_, _| Ok(Done::new(()))).await
    }
}

/// Receives the events of a subscription of a queue.
struct QueueSubscriber {
    writer: Writer,
    limits: Limits,
    clock: Arc<dyn Clock>,
    metrics: BrokerMetrics,
    topic: String,
    subscription: SubscriptionId,
    /// The claim under way, kept here so that a cancelled `next` loses no event.
    claim: Option<oneshot::Receiver<Result<Claim, BrokerError>>>,
}

impl QueueSubscriber {
    async fn claim(&mut self) -> Result<Claim, BrokerError> {
        let (limits, subscription) = (self.limits, self.subscription);
        let receiver = match &mut self.claim {
            Some(receiver) => receiver,
            none => {
                let work = move |connection: &_, now| {
                    statements::claim(connection, &limits, subscription, now).map(Done::new)
                };
                let release = move |writer: &Writer, claim| release(writer, subscription, claim);
                none.insert(self.writer.submit(Durability::Repeatable, work, release).await?)
            }
        };
        let answer = receiver.await;
        self.claim = None;
        answer.unwrap_or_else(|_| Err(self.writer.location().unreachable("the writer thread has ended")))
    }

    fn deliver(&self, claimed: ClaimedEvent) -> Delivery {
        let ClaimedEvent { id, event, attempt } = claimed;
        let settlement = QueueSettlement {
            writer: self.writer.clone(),
            limits: self.limits,
            subscription: self.subscription,
            event: id,
            attempt,
        };
        Delivery::new(event, attempt, Box::new(settlement))
    }

    fn wait_until(&self, visible_at: Option<Millis>) -> Duration {
        let Some(visible_at) = visible_at else { return MAX_TIMER };
        let wait = visible_at.saturating_sub(self.clock.now().as_millisecond()).max(0);
        Duration::from_millis(wait.unsigned_abs()).min(MAX_TIMER)
    }
}

#[async_trait]
impl Subscriber for QueueSubscriber {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        let notify = self.writer.wakers().of(self.subscription);
        loop {
            // Registered before the claim, so that an event which is published after the claim wakes this subscriber.
            let mut woken = std::pin::pin!(notify.notified());
            woken.as_mut().enable();
            let Claim { outcome, rejected } = self.claim().await?;
            for _ in 0..rejected {
                self.metrics.count_conversion_error(&self.topic);
            }
            let visible_at = match outcome {
                Claimed::Event(claimed) => return Ok(self.deliver(*claimed)),
                Claimed::Again => continue,
                Claimed::Nothing(visible_at) => visible_at,
            };
            // Cancelled by the timeout or by the caller, the wait loses nothing: the next claim finds what is visible.
            let _ = tokio::time::timeout(self.wait_until(visible_at), woken).await;
        }
    }
}

impl Drop for QueueSubscriber {
    fn drop(&mut self) {
        if let Some(mut receiver) = self.claim.take() {
            // From here on, the writer finds the receiver gone and releases the claim itself.
            receiver.close();
            if let Ok(Ok(claim)) = receiver.try_recv() {
                release(&self.writer, self.subscription, claim);
            }
        }
    }
}

/// Makes an event visible again that was claimed for a subscriber which is gone.
fn release(writer: &Writer, subscription: SubscriptionId, claim: Claim) {
    if let Claimed::Event(claimed) = claim.outcome {
        let claim = (subscription, claimed.id, claimed.attempt);
        writer.send_detached(move |connection, now| {
            statements::release(connection, claim, now)?;
            Ok(Done { value: (), wake: vec![subscription] })
        });
    }
}

struct QueueSettlement {
    writer: Writer,
    limits: Limits,
    subscription: SubscriptionId,
    event: EventId,
    attempt: u32,
}

#[async_trait]
impl Settlement for QueueSettlement {
    async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
        let (subscription, event) = (self.subscription, self.event);
        let work =
            move |connection: &_, _| statements::acknowledge(connection, subscription, event).map(Done::new);
        self.writer.run(Durability::Repeatable, work).await
    }

    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
        let Self { writer, limits, subscription, event, attempt } = *self;
        let work = move |connection: &_, now| {
            let visible_at = statements::after(now, delay);
            statements::reject(connection, &limits, (subscription, event, attempt), visible_at, now)?;
            Ok(Done { value: (), wake: vec![subscription] })
        };
        writer.run(Durability::Repeatable, work).await
    }

    async fn extend(&self) -> Result<(), BrokerError> {
        let claim = (self.subscription, self.event, self.attempt);
        let timeout = self.limits.visibility_timeout;
        let work = move |connection: &_, now| {
            statements::extend(connection, claim, statements::after(now, timeout)).map(Done::new)
        };
        self.writer.run(Durability::Repeatable, work).await
    }

    fn visibility_timeout(&self) -> Duration {
        self.limits.visibility_timeout
    }
}
