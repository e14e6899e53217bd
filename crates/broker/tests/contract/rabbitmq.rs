//! RabbitMQ.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_broker::config::RabbitMqConfig;
use bellwether_broker::{Broker, BrokerMetrics, rabbitmq};
use lapin::options::{BasicGetOptions, BasicPublishOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Connection, ConnectionProperties};
use parking_lot::Mutex;

use crate::backend::{Backend, DeadLetter};

#[derive(Clone)]
pub(crate) struct RabbitMq {
    server: Arc<Mutex<bellwether_testkit::rabbitmq::RabbitMq>>,
}

impl RabbitMq {
    pub(crate) fn start() -> Self {
        Self { server: Arc::new(Mutex::new(bellwether_testkit::rabbitmq::RabbitMq::start())) }
    }

    async fn connection(&self) -> Connection {
        let url = self.server.lock().url();
        Connection::connect(&url, ConnectionProperties::default()).await.unwrap()
    }
}

#[async_trait]
impl Backend for RabbitMq {
    fn connect(&self, visibility_timeout: Duration) -> Arc<dyn Broker> {
        let url = self.server.lock().url().parse().unwrap();
        let config = RabbitMqConfig { visibility_timeout, ..RabbitMqConfig::new(url) };
        Arc::new(rabbitmq::RabbitMq::new(config, BrokerMetrics::unregistered()))
    }

    /// The queue as an operator declares it.
    async fn connect_bounded(&self, topic: &str, subscription: &str) -> Arc<dyn Broker> {
        let connection = self.connection().await;
        let channel = connection.create_channel().await.unwrap();
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(3));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(format!("{topic}-{subscription}").into(), options, arguments).await.unwrap();
        self.connect(Duration::from_secs(60))
    }

    async fn publish_garbage(&self, _broker: &dyn Broker, topic: &str) {
        let connection = self.connection().await;
        let channel = connection.create_channel().await.unwrap();
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let published = channel.basic_publish(topic.into(), "".into(), options, b"garbage", properties).await;
        published.unwrap().await.unwrap();
        // A request after it, so that the server has the message.
        channel.close(200, "".into()).await.unwrap();
    }

    async fn dead_letters(&self, topic: &str, subscription: &str) -> Vec<DeadLetter> {
        let connection = self.connection().await;
        let channel = connection.create_channel().await.unwrap();
        let mut letters = Vec::new();
        let queue = format!("{topic}-{subscription}-dlq");
        while let Some(message) =
            channel.basic_get(queue.as_str().into(), BasicGetOptions::default()).await.unwrap()
        {
            let header = |name: &str| match message.properties.headers().as_ref().unwrap().inner().get(name) {
                Some(AMQPValue::LongString(text)) => text.to_string(),
                other => panic!("{name}: {other:?}"),
            };
            letters.push(DeadLetter {
                attempts: header("x-bellwether-attempts").parse().unwrap(),
                reason: header("x-bellwether-reason"),
                body: message.data.clone(),
            });
        }
        letters
    }

    fn kill(&self) {
        self.server.lock().kill();
    }

    fn start_again(&self) {
        self.server.lock().start_again();
    }

    fn has_server(&self) -> bool {
        true
    }

    async fn describe(&self, topic: &str, subscription: &str) -> String {
        let channel = self.connection().await.create_channel().await.unwrap();
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = format!("{topic}-{subscription}");
        let declared = channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await;
        format!("{queue}: {declared:?}\n{}", self.server.lock().log())
    }
}
