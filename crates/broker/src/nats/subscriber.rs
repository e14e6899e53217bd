//! Receives events from a consumer, one request per event, so that no event waits in a subscriber that is busy.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::connection::State;
use async_nats::jetstream::consumer::PullConsumer;
use async_nats::jetstream::consumer::pull::Batch;
use async_nats::jetstream::{AckKind, Message};
use async_trait::async_trait;
use futures::StreamExt as _;

use super::names::{self, StreamNames};
use super::{Nats, REQUEST_TIMEOUT};
use crate::{BrokerError, CloudEvent, Delivery, MAX_ATTEMPTS, Settlement, Subscriber, exhausted};

/// How long the server keeps a request open without an event.
const PULL_EXPIRES: Duration = Duration::from_secs(20);
/// How often the connection is checked while a request is open. A request does not survive a reconnect.
const CONNECTION_CHECK_PERIOD: Duration = Duration::from_millis(500);

pub(super) struct NatsSubscriber {
    origin: Origin,
    /// `None` after an error, until it is created again.
    consumer: Option<PullConsumer>,
    /// The open request, kept here so that a cancelled `next` loses no event.
    pull: Option<Pull>,
    /// The message that is being moved to the dead letters.
    message: Option<Message>,
}

struct Pull {
    batch: Batch,
    /// The number of connections that the client had made.
    connects: u64,
}

/// Where the messages of a subscriber come from.
#[derive(Clone)]
struct Origin {
    nats: Nats,
    topic: String,
    names: StreamNames,
    subscription: String,
}

impl NatsSubscriber {
    pub(super) fn new(
        nats: Nats,
        topic: &str,
        names: StreamNames,
        subscription: &str,
        consumer: PullConsumer,
    ) -> Self {
        let origin = Origin { nats, topic: topic.to_owned(), names, subscription: subscription.to_owned() };
        Self { origin, consumer: Some(consumer), pull: None, message: None }
    }

    /// Waits for the next message.
    async fn receive(&mut self) -> Result<Message, BrokerError> {
        loop {
            let connects = connects(self.origin.nats.client().await?);
            if self.pull.as_ref().is_none_or(|pull| pull.connects != connects) {
                self.pull = None;
                self.pull = Some(Pull { batch: self.request().await?, connects });
            }
            let Some(pull) = &mut self.pull else { continue };
            match tokio::time::timeout(CONNECTION_CHECK_PERIOD, pull.batch.next()).await {
                // No event yet.
                Err(_) => (),
                Ok(Some(Ok(message))) => {
                    self.pull = None;
                    return Ok(message);
                }
                // The request has expired.
                Ok(None) => self.pull = None,
                Ok(Some(Err(error))) => {
                    self.pull = None;
                    self.consumer = None;
                    if self.origin.nats.client().await?.connection_state() == State::Connected {
                        return Err(self.origin.nats.unreachable(error.to_string()));
                    }
                }
            }
        }
    }

    async fn request(&mut self) -> Result<Batch, BrokerError> {
        let Origin { nats, names, subscription, .. } = &self.origin;
        let consumer = match &mut self.consumer {
            Some(consumer) => consumer,
            none => none.insert(nats.consumer(names, subscription).await?),
        };
        let batch = consumer.batch().max_messages(1).expires(PULL_EXPIRES).messages().await;
        batch.map_err(|error| nats.unreachable(error.to_string()))
    }
}

/// How often a client has connected.
fn connects(client: &async_nats::Client) -> u64 {
    client.statistics().connects.load(Ordering::Relaxed)
}

#[async_trait]
impl Subscriber for NatsSubscriber {
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
                match CloudEvent::parse(&message.payload) {
                    Ok(event) => {
                        let Some(message) = self.message.take() else { continue };
                        let settlement = NatsSettlement { origin: self.origin.clone(), message, attempt };
                        return Ok(Delivery::new(event, attempt, Box::new(settlement)));
                    }
                    Err(error) => error.to_string(),
                }
            };
            self.origin.dead_letter(message, attempt.min(MAX_ATTEMPTS), &reason).await?;
            if attempt <= MAX_ATTEMPTS {
                self.origin.nats.inner.metrics.count_conversion_error(&self.origin.topic);
            }
            self.message = None;
        }
    }
}

/// The number of a delivery.
fn attempt(message: &Message) -> u32 {
    let delivered = message.info().map_or(1, |info| info.delivered);
    u32::try_from(delivered).unwrap_or(1)
}

impl Origin {
    /// Copies a message to the dead letters of the subscription, and then removes it. If only the first succeeds, the message is
    /// delivered and copied again; the ID of the copy makes that harmless.
    async fn dead_letter(&self, message: &Message, attempts: u32, reason: &str) -> Result<(), BrokerError> {
        let Self { nats, names, topic, subscription } = self;
        let consumer = names::consumer(subscription);
        let sequence = message.info().map_or(0, |info| info.stream_sequence);
        let mut headers = HeaderMap::new();
        headers.insert(names::MESSAGE_ID, format!("{consumer}/{sequence}"));
        headers.insert("Bellwether-Attempts", attempts.to_string());
        headers.insert("Bellwether-Reason", reason.replace(char::is_control, " "));
        nats.ensure_stream(&nats.jetstream().await?, nats.dead_letter_stream(names)).await?;
        let subject = names.dead_letter_subject(&consumer);
        nats.store(&names.dead_letter_stream, subject, headers, message.payload.to_vec()).await?;
        tracing::warn!(topic, subscription, attempts, reason, "an event was moved to the dead letters");
        self.settle(message, AckKind::Term).await
    }

    /// Answers a delivery, and waits until the server has the answer.
    async fn settle(&self, message: &Message, answer: AckKind) -> Result<(), BrokerError> {
        self.nats.client().await?;
        let settled = tokio::time::timeout(REQUEST_TIMEOUT, message.double_ack_with(answer)).await;
        match settled {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(self.nats.unreachable(error.to_string())),
            Err(_) => Err(self.nats.unreachable(format!("no answer within {REQUEST_TIMEOUT:?}"))),
        }
    }
}

struct NatsSettlement {
    origin: Origin,
    message: Message,
    attempt: u32,
}

#[async_trait]
impl Settlement for NatsSettlement {
    async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
        self.origin.settle(&self.message, AckKind::Ack).await
    }

    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
        if self.attempt >= MAX_ATTEMPTS {
            return self.origin.dead_letter(&self.message, self.attempt, &exhausted(self.attempt)).await;
        }
        let delay = (!delay.is_zero()).then_some(delay);
        self.origin.settle(&self.message, AckKind::Nak(delay)).await
    }

    async fn extend(&self) -> Result<(), BrokerError> {
        self.origin.settle(&self.message, AckKind::Progress).await
    }

    fn visibility_timeout(&self) -> Duration {
        self.origin.nats.inner.config.visibility_timeout
    }
}
