//! Message brokers behind one trait: [`Broker`] publishes [`CloudEvent`]s to topics, and delivers them to subscriptions at
//! least once. Subscribers with the same subscription ID compete for the events of a topic; each subscription ID gets
//! every event.

pub mod config;
mod event;
pub mod metrics;
mod name;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
pub mod sqlite;

use std::time::Duration;

use async_trait::async_trait;

pub use config::{BrokerConfig, BrokerUrl, connect};
pub use event::{CloudEvent, EventError, MAX_EVENT_BYTES};
pub use metrics::{BrokerMetrics, Metered};

/// How long an event may be handled before it is delivered again, unless configured otherwise.
pub const VISIBILITY_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest delay of a [`nack`](Delivery::nack). A longer one is shortened to it.
pub const MAX_NACK_DELAY: Duration = Duration::from_secs(3600);

/// How often an event is delivered before it is moved to the dead letters of its subscription.
pub const MAX_ATTEMPTS: u32 = 5;

/// Why an operation of a broker failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker does not respond, or the connection was lost. The operation can be retried.
    #[error("the broker at {address} is unreachable: {cause}")]
    Unreachable {
        /// The address of the broker, without credentials.
        address: String,
        /// The cause.
        cause: String,
    },
    /// The broker cannot store more events.
    #[error("the broker at {address} is full: {cause}")]
    Full {
        /// The address of the broker, without credentials.
        address: String,
        /// The limit that was reached, and what to do about it.
        cause: String,
    },
    /// The broker rejected the operation. A retry does not help.
    #[error("the broker at {address} rejected {operation}: {cause}")]
    Rejected {
        /// The address of the broker, without credentials.
        address: String,
        /// What was requested.
        operation: String,
        /// The cause.
        cause: String,
    },
    /// A topic or subscription ID is invalid.
    #[error(
        "{0:?} is not a valid name of a topic or subscription: use 1 to 200 letters, digits, '.', '_' and '-'"
    )]
    Name(String),
}

impl BrokerError {
    /// Whether the operation can succeed later without a change of the configuration.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Full { .. })
    }
}

/// The body of the message for an event, or why it cannot be published.
fn encode(event: &CloudEvent, address: &str) -> Result<Vec<u8>, BrokerError> {
    event.encode().map_err(|error| BrokerError::Rejected {
        address: address.to_owned(),
        operation: format!("event {:?}", event.id),
        cause: error.to_string(),
    })
}

/// Why an event that was delivered too often is a dead letter.
fn exhausted(attempts: u32) -> String {
    format!("it was delivered {attempts} times without being acknowledged")
}

/// A broker. Operations have their own time limits.
#[async_trait]
pub trait Broker: Send + Sync + std::fmt::Debug {
    /// Publishes an event. It is stored durably when this returns.
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError>;

    /// Subscribes to a topic. A subscription exists from its first use on, and gets every event that is published from then on,
    /// also while nobody is subscribed.
    async fn subscribe(&self, topic: &str, subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError>;

    /// Whether the broker responds.
    async fn health(&self) -> Result<(), BrokerError>;
}

/// Receives the events of a subscription.
#[async_trait]
pub trait Subscriber: Send {
    /// The next event. An event whose body is not a CloudEvent is moved to the dead letters and not returned. Cancelling the
    /// future loses nothing. After an error, a later call continues.
    async fn next(&mut self) -> Result<Delivery, BrokerError>;
}

/// One delivery of an event. One that is dropped without an answer is delivered again after the visibility timeout.
pub struct Delivery {
    /// The event.
    pub event: CloudEvent,
    /// The number of this delivery: 1 for the first.
    pub attempt: u32,
    settlement: Box<dyn Settlement>,
}

impl Delivery {
    /// A delivery that a broker settles by `settlement`.
    pub fn new(event: CloudEvent, attempt: u32, settlement: Box<dyn Settlement>) -> Self {
        Self { event, attempt, settlement }
    }

    /// Confirms that the event was handled.
    pub async fn ack(self) -> Result<(), BrokerError> {
        self.settlement.ack().await
    }

    /// Restarts the visibility timeout, so that an event whose handling takes long is not delivered again meanwhile. An event that
    /// was delivered again already stays so.
    pub async fn extend(&self) -> Result<(), BrokerError> {
        self.settlement.extend().await
    }

    /// How long the event is hidden from the delivery or its last extension on.
    pub fn visibility_timeout(&self) -> Duration {
        self.settlement.visibility_timeout()
    }

    /// Requests another delivery after a delay of at most [`MAX_NACK_DELAY`]. After [`MAX_ATTEMPTS`] deliveries, the event is moved to the dead letters instead.
    pub async fn nack(self, delay: Duration) -> Result<(), BrokerError> {
        self.settlement.nack(delay.min(MAX_NACK_DELAY)).await
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { event, attempt, settlement: _ } = self;
        formatter.debug_struct("Delivery").field("event", event).field("attempt", attempt).finish()
    }
}

/// How a broker settles a delivery.
#[async_trait]
pub trait Settlement: Send + Sync {
    /// Confirms that the event was handled.
    async fn ack(self: Box<Self>) -> Result<(), BrokerError>;
    /// Requests another delivery after a delay.
    async fn nack(self: Box<Self>, delay: Duration) -> Result<(), BrokerError>;
    /// Restarts the visibility timeout. Cancelling the future loses nothing.
    async fn extend(&self) -> Result<(), BrokerError>;
    /// The visibility timeout.
    fn visibility_timeout(&self) -> Duration;
}
