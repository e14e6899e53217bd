//! The metrics of brokers, with the names and labels of upstream's broker library. [`Metered`] counts for any broker; the
//! brokers themselves count the bodies that are not events, which no caller sees.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bellwether_runtime::Metrics;
use bellwether_runtime::metrics::Group;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::{Broker, BrokerError, CloudEvent, Delivery, Settlement, Subscriber};

/// The upper bounds of the buckets of the duration, in seconds.
const BUCKETS: [f64; 9] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    topic: String,
    component: String,
    version: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    topic: String,
    error_type: &'static str,
    component: String,
    version: String,
}

/// What failed; the label `error_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorType {
    /// A body is not a CloudEvent.
    Conversion,
    /// The handler of an event did not acknowledge it.
    Handler,
    /// An event could not be published.
    Publish,
}

impl ErrorType {
    fn label(self) -> &'static str {
        match self {
            Self::Conversion => "conversion",
            Self::Handler => "handler",
            Self::Publish => "publish",
        }
    }
}

/// The metrics of all components of a process.
#[derive(Clone)]
struct BrokerGroup {
    published: Family<Labels, Counter>,
    consumed: Family<Labels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Family<Labels, Histogram>,
}

impl Default for BrokerGroup {
    fn default() -> Self {
        Self {
            published: Family::default(),
            consumed: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
        }
    }
}

impl Group for BrokerGroup {
    const PREFIX: &'static str = "hyperfleet_broker";

    fn register(registry: &mut Registry) -> Self {
        let group = Self::default();
        registry.register("messages_published", "Number of events published", group.published.clone());
        registry.register("messages_consumed", "Number of messages received", group.consumed.clone());
        registry.register(
            "errors",
            "Number of errors: bodies that are not CloudEvents (conversion), events that were not acknowledged (handler), events that could not be published (publish)",
            group.errors.clone(),
        );
        registry.register(
            "message_duration_seconds",
            "Duration from the delivery of an event to its acknowledgement or rejection",
            group.seconds.clone(),
        );
        group
    }
}

/// The broker metrics of one component. Clones share the same counters.
#[derive(Clone)]
pub struct BrokerMetrics {
    group: BrokerGroup,
    component: String,
    version: String,
}

impl BrokerMetrics {
    /// Registers the metrics, with the labels of a component and its version.
    pub fn register(metrics: &Metrics, component: &str, version: &str) -> Self {
        Self { group: metrics.group(), component: component.to_owned(), version: version.to_owned() }
    }

    /// Metrics that nobody scrapes.
    pub fn unregistered() -> Self {
        Self { group: BrokerGroup::default(), component: String::new(), version: String::new() }
    }

    fn labels(&self, topic: &str) -> Labels {
        let Self { component, version, group: _ } = self.clone();
        Labels { topic: topic.to_owned(), component, version }
    }

    /// Counts a body that is not a CloudEvent.
    pub(crate) fn count_conversion_error(&self, topic: &str) {
        self.group.consumed.get_or_create(&self.labels(topic)).inc();
        self.count_error(topic, ErrorType::Conversion);
    }

    fn count_error(&self, topic: &str, error: ErrorType) {
        let Labels { topic, component, version } = self.labels(topic);
        let labels = ErrorLabels { topic, error_type: error.label(), component, version };
        self.group.errors.get_or_create(&labels).inc();
    }

    fn observe_duration(&self, topic: &str, took: Duration) {
        self.group.seconds.get_or_create(&self.labels(topic)).observe(took.as_secs_f64());
    }
}

impl std::fmt::Debug for BrokerMetrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BrokerMetrics").field("component", &self.component).finish_non_exhaustive()
    }
}

/// A broker that counts what is published and delivered.
#[derive(Debug)]
pub struct Metered {
    broker: Arc<dyn Broker>,
    metrics: BrokerMetrics,
}

impl Metered {
    /// Counts for a broker.
    pub fn new(broker: Arc<dyn Broker>, metrics: BrokerMetrics) -> Self {
        Self { broker, metrics }
    }
}

#[async_trait]
impl Broker for Metered {
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        let published = self.broker.publish(topic, event).await;
        match &published {
            Ok(()) => {
                self.metrics.group.published.get_or_create(&self.metrics.labels(topic)).inc();
            }
            Err(_) => self.metrics.count_error(topic, ErrorType::Publish),
        }
        published
    }

    async fn subscribe(&self, topic: &str, subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        let subscriber = self.broker.subscribe(topic, subscription).await?;
        let (metrics, topic) = (self.metrics.clone(), topic.to_owned());
        Ok(Box::new(MeteredSubscriber { subscriber, metrics, topic }))
    }

    async fn health(&self) -> Result<(), BrokerError> {
        self.broker.health().await
    }
}

struct MeteredSubscriber {
    subscriber: Box<dyn Subscriber>,
    metrics: BrokerMetrics,
    topic: String,
}

#[async_trait]
impl Subscriber for MeteredSubscriber {
    async fn next(&mut self) -> Result<Delivery, BrokerError> {
        let Delivery { event, attempt, settlement } = self.subscriber.next().await?;
        self.metrics.group.consumed.get_or_create(&self.metrics.labels(&self.topic)).inc();
        let (metrics, topic) = (self.metrics.clone(), self.topic.clone());
        let settlement = MeteredSettlement { settlement, metrics, topic, delivered: Instant::now() };
        Ok(Delivery::new(event, attempt, Box::new(settlement)))
    }
}

struct MeteredSettlement {
    settlement: Box<dyn Settlement>,
    metrics: BrokerMetrics,
    topic: String,
    delivered: Instant,
}

#[async_trait]
impl Settlement for MeteredSettlement {
    async fn ack(self: Box<Self>) -> Result<(), BrokerError> {
        self.metrics.observe_duration(&self.topic, self.delivered.elapsed());
        self.settlement.ack().await
    }

    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError> {
        self.metrics.observe_duration(&self.topic, self.delivered.elapsed());
        self.metrics.count_error(&self.topic, ErrorType::Handler);
        self.settlement.nack(delay).await
    }

    async fn extend(&self) -> Result<(), BrokerError> {
        self.settlement.extend().await
    }

    fn visibility_timeout(&self) -> Duration {
        self.settlement.visibility_timeout()
    }
}
