//! NATS JetStream.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use async_trait::async_trait;
use bellwether_broker::config::NatsConfig;
use bellwether_broker::{Broker, BrokerMetrics, nats};
use futures::StreamExt as _;
use parking_lot::Mutex;

use crate::backend::{Backend, DeadLetter};

#[derive(Clone)]
pub(crate) struct Nats {
    server: Arc<Mutex<bellwether_testkit::nats::Nats>>,
}

impl Nats {
    pub(crate) fn start() -> Self {
        Self { server: Arc::new(Mutex::new(bellwether_testkit::nats::Nats::start())) }
    }

    fn config(&self) -> NatsConfig {
        NatsConfig::new(self.server.lock().url().parse().unwrap())
    }

    fn open(config: NatsConfig) -> Arc<dyn Broker> {
        Arc::new(nats::Nats::new(config, BrokerMetrics::unregistered()))
    }

    async fn jetstream(&self) -> jetstream::Context {
        let url = self.server.lock().url();
        jetstream::new(async_nats::connect(url).await.unwrap())
    }
}

#[async_trait]
impl Backend for Nats {
    fn connect(&self, visibility_timeout: Duration) -> Arc<dyn Broker> {
        Self::open(NatsConfig { visibility_timeout, ..self.config() })
    }

    async fn connect_bounded(&self, _topic: &str, _subscription: &str) -> Arc<dyn Broker> {
        Self::open(NatsConfig { max_bytes: 2_000, ..self.config() })
    }

    async fn publish_garbage(&self, _broker: &dyn Broker, topic: &str) {
        let subject = format!("bellwether.topic.{}", topic.replace('.', "="));
        self.jetstream().await.publish(subject, "garbage".into()).await.unwrap().await.unwrap();
    }

    async fn dead_letters(&self, topic: &str, subscription: &str) -> Vec<DeadLetter> {
        let stream =
            self.jetstream().await.get_stream(format!("{}~dlq", topic.replace('.', "="))).await.unwrap();
        let config = jetstream::consumer::pull::Config {
            filter_subject: format!("bellwether.dead-letter.{}.{subscription}", topic.replace('.', "=")),
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let messages = consumer.fetch().max_messages(10).messages().await.unwrap();
        let letters = messages.map(|message| {
            let message = message.unwrap();
            let header = |name: &str| message.headers.as_ref().unwrap().get(name).unwrap().to_string();
            DeadLetter {
                attempts: header("Bellwether-Attempts").parse().unwrap(),
                reason: header("Bellwether-Reason"),
                body: message.payload.to_vec(),
            }
        });
        letters.collect().await
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
}
