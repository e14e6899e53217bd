//! Receives events from the queue of a subscription. RabbitMQ itself has neither delays, nor a count of attempts, nor a visibility
//! timeout: a copy of the message with a header for the attempts takes the place of each.
//!
//! Attempts are counted when an event is rejected or times out. After the loss of a connection, RabbitMQ delivers its events again and
//! marks them; that counts as one attempt.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use lapin::message::Delivery as Message;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Consumer};
use tokio::sync::{Mutex, oneshot};
use tokio::time::Instant;

use super::topology::Topology;
use super::{Inner, REQUEST_TIMEOUT, Target, delay, publish};
use crate::{BrokerError, CloudEvent, Delivery, MAX_ATTEMPTS, Settlement, Subscriber, exhausted};

/// The header with the number of deliveries that an event has had.
const ATTEMPTS: &str = "x-bellwether-attempts";
/// The header with the reason of a dead letter.
const REASON: &str = "x-bellwether-reason";

pub(super) struct RabbitMqSubscriber {
    origin: Arc<Origin>,
    /// `None` before the first connection and after a loss.
    consumption: Option<Consumption>,
    /// The message that is being moved to the dead letters, kept here so that a cancelled `next` loses no event.
    message: Option<Message>,
}

pub(super) struct Consumption {
    channel: Channel,
    consumer: Consumer,
}

/// Where the messages of a subscriber come from.
struct Origin {
    broker: Arc<Inner>,
    topic: String,
    subscription: String,
    topology: Topology,
}

impl RabbitMqSubscriber {
    pub(super) fn new(broker: Arc<Inner>, topic: &str, subscription: &str, topology: Topology) -> Self {
        let (topic, subscription) = (topic.to_owned(), subscription.to_owned());
        let origin = Arc::new(Origin { broker, topic, subscription, topology });
        Self { origin, consumption: None, message: None }
    }

    /// Declares the queue and starts to consume, unless that is done.
    pub(super) async fn connect(&mut self) -> Result<&mut Consumption, BrokerError> {
        let is_connected =
            self.consumption.as_ref().is_some_and(|current| current.channel.status().connected());
        if !is_connected {
            self.consumption = None;
            self.consumption = Some(self.origin.consume().await?);
        }
        let lost = || self.origin.broker.connections.unreachable("the connection was lost");
        self.consumption.as_mut().ok_or_else(lost)
    }

    async fn receive(&mut self) -> Result<Message, BrokerError> {
        loop {
            match self.connect().await?.consumer.next().await {
                Some(Ok(message)) => return Ok(message),
                // The connection was lost or the consumer cancelled; the next turn connects again, or fails.
                Some(Err(_)) | None => self.consumption = None,
            }
        }
    }
}

#[async_trait]
impl Subscriber for RabbitMqSubscriber {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        loop {
            if self.message.is_none() {
                self.message = Some(self.receive().await?);
            }
            let Some(message) = &self.message else { continue };
            let attempt = attempt(message);
            let reason = if attempt > MAX_ATTEMPTS {
                exhausted(attempt - 1)
            } else {
                match CloudEvent::parse(&message.data) {
                    Ok(event) => {
                        let channel = self.consumption.as_ref().map(|current| current.channel.clone());
                        let (Some(message), Some(channel)) = (self.message.take(), channel) else { continue };
                        let settlement = RabbitMqSettlement::start(&self.origin, message, channel, attempt);
                        return Ok(Delivery::new(event, attempt, Box::new(settlement)));
                    }
                    Err(error) => error.to_string(),
                }
            };
            let Some(Consumption { channel, .. }) = &self.consumption else {
                // The connection was lost meanwhile, so that the message is delivered again.
                self.message = None;
                continue;
            };
            let moved = self.origin.dead_letter(channel, message, attempt.min(MAX_ATTEMPTS), &reason).await;
            if let Err(error) = moved {
                // A new connection gets the message again.
                (self.message, self.consumption) = (None, None);
                return Err(error);
            }
            if attempt <= MAX_ATTEMPTS {
                self.origin.broker.metrics.count_conversion_error(&self.origin.topic);
            }
            self.message = None;
        }
    }
}

/// The number of a delivery.
fn attempt(message: &Message) -> u32 {
    let headers = message.properties.headers().as_ref();
    let counted = headers.and_then(|headers| match headers.inner().get(ATTEMPTS) {
        Some(AMQPValue::LongString(text)) => text.to_string().parse::<u32>().ok(),
        _ => None,
    });
    counted.unwrap_or(0).saturating_add(1).saturating_add(u32::from(message.redelivered))
}

impl Origin {
    /// When the visibility timeout of a message ends that is delivered or extended now.
    fn deadline(&self) -> Instant {
        Instant::now() + self.broker.config.visibility_timeout
    }

    async fn consume(&self) -> Result<Consumption, BrokerError> {
        let Inner { config, connections, .. } = &*self.broker;
        let channel = self.topology.declare_queue(connections).await?;
        let consumer = async {
            channel.basic_qos(config.prefetch_count, BasicQosOptions::default()).await?;
            let (queue, tag) = (self.topology.queue.as_str().into(), config.consumer_tag.as_str().into());
            channel.basic_consume(queue, tag, BasicConsumeOptions::default(), FieldTable::default()).await
        };
        let consumer = connections.within(REQUEST_TIMEOUT, consumer).await?;
        Ok(Consumption { channel, consumer })
    }

    /// Copies a message to a queue and removes it. If only the first succeeds, the event is delivered once more.
    async fn move_to(
        &self,
        channel: &Channel,
        message: &Message,
        queue: &str,
        headers: &[(&str, String)],
    ) -> Result<(), BrokerError> {
        let connections = &self.broker.connections;
        let target = Target { exchange: "", routing_key: queue };
        publish(channel, connections, target, headers, &message.data).await?;
        self.remove(message).await
    }

    async fn remove(&self, message: &Message) -> Result<(), BrokerError> {
        let connections = &self.broker.connections;
        let acknowledged = message.acker.ack(BasicAckOptions::default());
        if connections.within(REQUEST_TIMEOUT, acknowledged).await? {
            Ok(())
        } else {
            Err(connections
                .unreachable("the connection was lost before the answer; the event is delivered again"))
        }
    }

    async fn dead_letter(
        &self,
        channel: &Channel,
        message: &Message,
        attempts: u32,
        reason: &str,
    ) -> Result<(), BrokerError> {
        let queue = self.topology.declare_dead_letter_queue(channel, &self.broker.connections).await?;
        let headers = [(ATTEMPTS, attempts.to_string()), (REASON, reason.to_owned())];
        self.move_to(channel, message, &queue, &headers).await?;
        let Self { topic, subscription, .. } = self;
        tracing::warn!(topic, subscription, attempts, reason, "an event was moved to the dead letters");
        Ok(())
    }

    /// Moves a message to the queue that delivers it again after a delay, or to the dead letters.
    async fn reject(
        &self,
        channel: &Channel,
        message: &Message,
        attempt: u32,
        delay: Duration,
    ) -> Result<(), BrokerError> {
        if attempt >= MAX_ATTEMPTS {
            return self.dead_letter(channel, message, attempt, &exhausted(attempt)).await;
        }
        let headers = [(ATTEMPTS, attempt.to_string())];
        if delay.is_zero() {
            return self.move_to(channel, message, &self.topology.queue, &headers).await;
        }
        let connections = &self.broker.connections;
        let queue = self.topology.declare_delay_queue(channel, connections, delay::round_up(delay)).await?;
        self.move_to(channel, message, &queue, &headers).await
    }
}

/// A message in flight. Whoever takes the message answers it: the handler, or the timer after the visibility timeout.
struct RabbitMqSettlement {
    origin: Arc<Origin>,
    unanswered: Arc<Mutex<Unanswered>>,
    channel: Channel,
    attempt: u32,
    /// Ends the timer when it is sent to. The timer goes on if it is only dropped.
    answered: oneshot::Sender<()>,
}

/// A message, unless it was answered, and when its visibility timeout ends.
struct Unanswered {
    message: Option<Message>,
    deadline: Instant,
}

impl RabbitMqSettlement {
    /// Starts the timer.
    fn start(origin: &Arc<Origin>, message: Message, channel: Channel, attempt: u32) -> Self {
        let unanswered = Unanswered { message: Some(message), deadline: origin.deadline() };
        let unanswered = Arc::new(Mutex::new(unanswered));
        let (answered, answer) = oneshot::channel();
        let timer = expire(Arc::clone(origin), Arc::clone(&unanswered), channel.clone(), attempt, answer);
        tokio::spawn(timer);
        Self { origin: Arc::clone(origin), unanswered, channel, attempt, answered }
    }
}

/// Delivers a message again after the visibility timeout.
async fn expire(
    origin: Arc<Origin>,
    unanswered: Arc<Mutex<Unanswered>>,
    channel: Channel,
    attempt: u32,
    answer: oneshot::Receiver<()>,
) {
    let timeout = take_expired(&unanswered);
    tokio::pin!(timeout);
    let expired = tokio::select! {
        expired = &mut timeout => expired,
        answered = answer => match answered {
            Ok(()) => return,
            Err(_) => timeout.await,
        },
    };
    let Some(message) = expired else { return };
    if let Err(error) = origin.reject(&channel, &message, attempt, Duration::ZERO).await {
        let Origin { topic, subscription, .. } = &*origin;
        tracing::warn!(topic, subscription, %error, "an event that timed out could not be counted; it is queued again as it is");
        // On a channel that is closed this does nothing, and the event is queued again anyway.
        let options = BasicNackOptions { requeue: true, ..Default::default() };
        let _ = tokio::time::timeout(REQUEST_TIMEOUT, message.acker.nack(options)).await;
    }
}

/// Waits for the deadline, which extensions move, and takes the message. None if it was answered.
async fn take_expired(unanswered: &Mutex<Unanswered>) -> Option<Message> {
    loop {
        let deadline = {
            let mut unanswered = unanswered.lock().await;
            if unanswered.message.is_none() || unanswered.deadline <= Instant::now() {
                return unanswered.message.take();
            }
            unanswered.deadline
        };
        tokio::time::sleep_until(deadline).await;
    }
}

#[async_trait]
impl Settlement for RabbitMqSettlement {
    async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
        let mut unanswered = self.unanswered.lock().await;
        // A late answer changes nothing: the event is delivered again.
        let Some(message) = &unanswered.message else { return Ok(()) };
        // After an error or a cancellation, the message stays for the timer.
        self.origin.remove(message).await?;
        unanswered.message = None;
        let _ = self.answered.send(());
        Ok(())
    }

    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
        let mut unanswered = self.unanswered.lock().await;
        let Some(message) = &unanswered.message else { return Ok(()) };
        self.origin.reject(&self.channel, message, self.attempt, delay).await?;
        unanswered.message = None;
        let _ = self.answered.send(());
        Ok(())
    }

    async fn extend(&self) -> Result<(), BrokerError> {
        self.unanswered.lock().await.deadline = self.origin.deadline();
        Ok(())
    }

    fn visibility_timeout(&self) -> Duration {
        self.origin.broker.config.visibility_timeout
    }
}
