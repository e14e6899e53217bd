//! What a scenario needs of a broker, and helpers for scenarios.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bellwether_broker::{Broker, CloudEvent, Delivery, Subscriber};
use jiff::Timestamp;
use serde_json::json;

/// How long an expected event may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// How long an event that is not expected is waited for.
pub(crate) const QUIET: Duration = Duration::from_millis(300);
/// The visibility timeout of an impatient broker.
pub(crate) const SHORT_VISIBILITY: Duration = Duration::from_secs(1);

pub(crate) type Environment = Box<dyn Backend>;

/// A kind of broker.
#[async_trait]
pub(crate) trait Backend: Send + Sync {
    /// A new connection, with a visibility timeout.
    fn connect(&self, visibility_timeout: Duration) -> Arc<dyn Broker>;
    /// A new connection on which the subscription of a topic takes only a few events.
    async fn connect_bounded(&self, topic: &str, subscription: &str) -> Arc<dyn Broker>;
    /// Makes a body of a topic that is not an event.
    async fn publish_garbage(&self, broker: &dyn Broker, topic: &str);
    /// The dead letters of a subscription.
    async fn dead_letters(&self, topic: &str, subscription: &str) -> Vec<DeadLetter>;
    /// Kills the server, if there is one.
    fn kill(&self);
    /// Starts the server after it was killed.
    fn start_again(&self);
    /// Whether there is a server that can be stopped.
    fn has_server(&self) -> bool;
    /// What the server knows of a subscription, for the message of a failed test.
    async fn describe(&self, _topic: &str, _subscription: &str) -> String {
        String::new()
    }
}

#[derive(Debug)]
pub(crate) struct DeadLetter {
    pub(crate) attempts: u32,
    pub(crate) reason: String,
    pub(crate) body: Vec<u8>,
}

/// A topic that no other scenario uses.
pub(crate) fn topic(name: &str) -> String {
    static TOPICS: AtomicU32 = AtomicU32::new(0);
    format!("{name}.{}", TOPICS.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn broker(environment: &Environment) -> Arc<dyn Broker> {
    environment.connect(Duration::from_secs(60))
}

pub(crate) fn impatient_broker(environment: &Environment) -> Arc<dyn Broker> {
    environment.connect(SHORT_VISIBILITY)
}

pub(crate) fn event(number: usize) -> CloudEvent {
    CloudEvent::new("tests", "com.example.numbered", json!({ "number": number }), Timestamp::now())
}

pub(crate) fn number(delivery: &Delivery) -> usize {
    usize::try_from(delivery.event.data["number"].as_u64().unwrap()).unwrap()
}

pub(crate) async fn publish(broker: &dyn Broker, topic: &str, number: usize) {
    broker.publish(topic, &event(number)).await.unwrap();
}

/// The next event, within the timeout.
pub(crate) async fn next(subscriber: &mut Box<dyn Subscriber>) -> Delivery {
    tokio::time::timeout(TIMEOUT, subscriber.next()).await.expect("an event is delivered").unwrap()
}

/// Checks that there is no event.
pub(crate) async fn is_quiet(subscriber: &mut Box<dyn Subscriber>, period: Duration) -> bool {
    tokio::time::timeout(period, subscriber.next()).await.is_err()
}
