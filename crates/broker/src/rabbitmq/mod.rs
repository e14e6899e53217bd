//! RabbitMQ 3.10 or later, with the exchanges and queues of upstream's broker library, so that both can publish to and receive
//! from each other: a durable exchange per topic, and a durable queue `{topic}-{subscription}` bound to it.
//!
//! A queue that an operator has declared with other arguments, such as a quorum queue or one with limits, is used as it is.

mod connection;
mod delay;
mod error;
mod subscriber;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lapin::options::BasicPublishOptions;
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation};

use crate::config::RabbitMqConfig;
use crate::metrics::BrokerMetrics;
use crate::{Broker, BrokerError, CloudEvent, Subscriber, encode, name};
use connection::Connections;
use topology::Topology;

/// How long an operation waits for an answer of the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The delivery mode of messages that are stored on disk.
const PERSISTENT: u8 = 2;
/// The header by which upstream's library identifies a message.
const MESSAGE_UUID: &str = "_watermill_message_uuid";

/// RabbitMQ. The connection is made at the first use.
pub struct RabbitMq {
    inner: Arc<Inner>,
}

struct Inner {
    config: RabbitMqConfig,
    metrics: BrokerMetrics,
    connections: Connections,
}

impl RabbitMq {
    /// A broker by its configuration. Nothing is connected yet.
    pub fn new(config: RabbitMqConfig, metrics: BrokerMetrics) -> Self {
        let connections = Connections::new(config.url.clone());
        Self { inner: Arc::new(Inner { config, metrics, connections }) }
    }
}

impl std::fmt::Debug for RabbitMq {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RabbitMq").field("address", &self.inner.config.url).finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for RabbitMq {
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        name::validate(topic)?;
        let Inner { config, connections, .. } = &*self.inner;
        let body = encode(event, &connections.address())?;
        let topology = Topology::of_topic(config, topic);
        let channel = connections.publisher(&topology).await?;
        let headers = [(MESSAGE_UUID, event.id.clone())];
        let target = Target { exchange: &topology.exchange, routing_key: &config.routing_key };
        publish(&channel, connections, target, &headers, &body).await
    }

    async fn subscribe(&self, topic: &str, subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        name::validate(topic)?;
        name::validate(subscription)?;
        let topology = Topology::of_subscription(&self.inner.config, topic, subscription)?;
        let mut subscriber =
            subscriber::RabbitMqSubscriber::new(Arc::clone(&self.inner), topic, subscription, topology);
        // From here on, the queue keeps events for the subscription.
        subscriber.connect().await?;
        Ok(Box::new(subscriber))
    }

    async fn health(&self) -> Result<(), BrokerError> {
        self.inner.connections.check().await
    }
}

/// Where a message goes.
#[derive(Clone, Copy)]
struct Target<'a> {
    exchange: &'a str,
    routing_key: &'a str,
}

/// Publishes a persistent message, and waits until the server has stored it in every queue.
async fn publish(
    channel: &Channel,
    connections: &Connections,
    target: Target<'_>,
    headers: &[(&str, String)],
    body: &[u8],
) -> Result<(), BrokerError> {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        // Upstream's subscribers accept only texts.
        table.insert((*name).into(), AMQPValue::LongString(value.as_str().into()));
    }
    let properties = BasicProperties::default()
        .with_content_type("application/cloudevents+json".into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(table);
    let published = async {
        let options = BasicPublishOptions::default();
        let (exchange, key) = (target.exchange.into(), target.routing_key.into());
        channel.basic_publish(exchange, key, options, body, properties).await?.await
    };
    match connections.within(REQUEST_TIMEOUT, published).await? {
        Confirmation::Ack(_) | Confirmation::NotRequested => Ok(()),
        Confirmation::Nack(_) => Err(BrokerError::Full {
            address: connections.address(),
            cause: "a queue rejected the event, as it is full; let subscribers catch up, or raise the limits of the queue"
                .to_owned(),
        }),
    }
}
