//! The exchanges, queues and bindings of a topic and a subscription.

use std::time::Duration;

use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, ExchangeKind};

use super::connection::Connections;
use super::delay::IDLE_QUEUE_MARGIN;
use super::error::is_declared_otherwise;
use crate::BrokerError;
use crate::config::{ExchangeType, RabbitMqConfig};

/// The longest name of a queue, with the suffixes for delays and dead letters.
const MAX_QUEUE_NAME_BYTES: usize = 255 - 16;

/// The names for a topic or subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topology {
    pub(super) exchange: String,
    kind: ExchangeType,
    /// Empty for a topic.
    pub(super) queue: String,
    /// The routing keys that the queue is bound by.
    binding_keys: Vec<String>,
}

impl Topology {
    pub(super) fn of_topic(config: &RabbitMqConfig, topic: &str) -> Self {
        Self {
            exchange: config.exchange.clone().unwrap_or_else(|| topic.to_owned()),
            kind: config.exchange_type,
            queue: String::new(),
            binding_keys: binding_keys(config),
        }
    }

    pub(super) fn of_subscription(
        config: &RabbitMqConfig,
        topic: &str,
        subscription: &str,
    ) -> Result<Self, BrokerError> {
        let queue = format!("{}-{subscription}", config.queue.as_deref().unwrap_or(topic));
        if queue.len() > MAX_QUEUE_NAME_BYTES {
            return Err(BrokerError::Rejected {
                address: config.url.to_string(),
                operation: format!("the queue {queue}"),
                cause: format!(
                    "its name is longer than {MAX_QUEUE_NAME_BYTES} bytes; use a shorter topic or subscription ID"
                ),
            });
        }
        Ok(Self { queue, ..Self::of_topic(config, topic) })
    }

    pub(super) fn dead_letter_queue(&self) -> String {
        format!("{}-dlq", self.queue)
    }

    /// Opens a channel with publisher confirms, and declares the exchange.
    pub(super) async fn declare_exchange(&self, connections: &Connections) -> Result<Channel, BrokerError> {
        let channel = connections.channel().await?;
        let kind = match self.kind {
            ExchangeType::Direct => ExchangeKind::Direct,
            ExchangeType::Fanout => ExchangeKind::Fanout,
            ExchangeType::Topic => ExchangeKind::Topic,
            ExchangeType::Headers => ExchangeKind::Headers,
        };
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let declared = async {
            channel.confirm_select(ConfirmSelectOptions::default()).await?;
            channel
                .exchange_declare(self.exchange.as_str().into(), kind, options, FieldTable::default())
                .await
        };
        connections.within(super::REQUEST_TIMEOUT, declared).await?;
        Ok(channel)
    }

    /// Opens a channel, and declares the exchange, the queue and its bindings.
    pub(super) async fn declare_queue(&self, connections: &Connections) -> Result<Channel, BrokerError> {
        let channel = self.declare_exchange(connections).await?;
        let channel = declare(channel, self, connections, &self.queue, FieldTable::default()).await?;
        for key in &self.binding_keys {
            let (queue, exchange) = (self.queue.as_str().into(), self.exchange.as_str().into());
            let bound = channel.queue_bind(
                queue,
                exchange,
                key.as_str().into(),
                QueueBindOptions::default(),
                FieldTable::default(),
            );
            connections.within(super::REQUEST_TIMEOUT, bound).await?;
        }
        Ok(channel)
    }

    /// Declares the queue whose messages go to the queue of the subscription after a delay, and returns its name.
    pub(super) async fn declare_delay_queue(
        &self,
        channel: &Channel,
        connections: &Connections,
        delay: Duration,
    ) -> Result<String, BrokerError> {
        let name = format!("{}-retry-{}", self.queue, delay.as_millis());
        let millis = |duration: Duration| {
            AMQPValue::LongLongInt(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
        };
        let mut arguments = FieldTable::default();
        arguments.insert("x-message-ttl".into(), millis(delay));
        // A declaration is a use, so that a message expires before its queue.
        arguments.insert("x-expires".into(), millis(delay + IDLE_QUEUE_MARGIN));
        arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString("".into()));
        arguments
            .insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(self.queue.as_str().into()));
        let declared = channel.queue_declare(name.as_str().into(), durable(), arguments);
        connections.within(super::REQUEST_TIMEOUT, declared).await?;
        Ok(name)
    }

    /// Declares the queue of the dead letters, and returns its name.
    pub(super) async fn declare_dead_letter_queue(
        &self,
        channel: &Channel,
        connections: &Connections,
    ) -> Result<String, BrokerError> {
        let name = self.dead_letter_queue();
        let declared = channel.queue_declare(name.as_str().into(), durable(), FieldTable::default());
        connections.within(super::REQUEST_TIMEOUT, declared).await?;
        Ok(name)
    }
}

/// Upstream's subscribers bind by an empty key, which loses events with another routing key. Ours also bind by the key that is
/// configured, and to every key of a topic exchange.
fn binding_keys(config: &RabbitMqConfig) -> Vec<String> {
    let mut keys = vec![String::new()];
    match config.exchange_type {
        ExchangeType::Topic => keys.push("#".to_owned()),
        ExchangeType::Direct if !config.routing_key.is_empty() => keys.push(config.routing_key.clone()),
        ExchangeType::Direct | ExchangeType::Fanout | ExchangeType::Headers => (),
    }
    keys
}

/// Declares a queue. One that exists with other arguments is used as it is, on a new channel, because the failed declaration
/// closes the old one.
async fn declare(
    channel: Channel,
    topology: &Topology,
    connections: &Connections,
    queue: &str,
    arguments: FieldTable,
) -> Result<Channel, BrokerError> {
    let declared = tokio::time::timeout(
        super::REQUEST_TIMEOUT,
        channel.queue_declare(queue.into(), durable(), arguments.clone()),
    );
    match declared.await {
        Ok(Err(error)) if is_declared_otherwise(&error) => {
            let channel = topology.declare_exchange(connections).await?;
            let options = QueueDeclareOptions { passive: true, ..durable() };
            let exists = channel.queue_declare(queue.into(), options, arguments);
            connections.within(super::REQUEST_TIMEOUT, exists).await?;
            Ok(channel)
        }
        other => connections.result(super::REQUEST_TIMEOUT, other).map(|_| channel),
    }
}

fn durable() -> QueueDeclareOptions {
    QueueDeclareOptions { durable: true, ..Default::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_bindings_are_upstreams() {
        let config = RabbitMqConfig::new("amqp://h".parse().unwrap());
        let topology = Topology::of_subscription(&config, "ns-clusters", "adapter").unwrap();
        assert_eq!(
            (topology.exchange.as_str(), topology.queue.as_str()),
            ("ns-clusters", "ns-clusters-adapter")
        );
        assert_eq!(
            (topology.binding_keys.as_slice(), topology.dead_letter_queue().as_str()),
            ([String::new()].as_slice(), "ns-clusters-adapter-dlq")
        );

        let config = RabbitMqConfig {
            exchange: Some("x".into()),
            queue: Some("q".into()),
            exchange_type: ExchangeType::Direct,
            routing_key: "k".into(),
            ..config
        };
        let topology = Topology::of_subscription(&config, "ns-clusters", "adapter").unwrap();
        assert_eq!((topology.exchange.as_str(), topology.queue.as_str()), ("x", "q-adapter"));
        assert_eq!(topology.binding_keys, ["", "k"]);
        let too_long = Topology::of_subscription(&config, "t", &"s".repeat(240));
        assert!(matches!(too_long, Err(BrokerError::Rejected { .. })));
    }
}
