//! The configuration of a broker, from upstream's `broker.yaml` or from a URL, and the connection to it.

mod file;
mod url;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::Clock;
use bellwether_runtime::yaml::{self, YamlError};

use crate::metrics::{BrokerMetrics, Metered};
use crate::sqlite::{Limits, Queue};
use crate::{Broker, BrokerError, VISIBILITY_TIMEOUT};
use file::{File, Kind};
pub use url::{BrokerUrl, ServerUrl, UrlError};

/// The number of events in flight per subscriber on RabbitMQ, unless configured otherwise.
const PREFETCH_COUNT: u16 = 10;
/// The bounds of the visibility timeout.
const VISIBILITY_TIMEOUTS: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(12 * 3600);

/// How to connect to a broker, and how many events to handle at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerConfig {
    /// The broker.
    pub backend: Backend,
    /// The number of events that a component handles at once. 1 by default.
    pub parallelism: u16,
    /// Whether the configuration is logged at the start.
    pub log_config: bool,
}

/// A broker with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backend {
    /// The built-in queue.
    Embedded(EmbeddedConfig),
    /// NATS JetStream.
    Nats(NatsConfig),
    /// RabbitMQ.
    RabbitMq(RabbitMqConfig),
}

/// The built-in queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddedConfig {
    /// The file.
    pub path: PathBuf,
    /// Its limits.
    pub limits: Limits,
}

/// NATS JetStream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsConfig {
    /// The server. Others of its cluster are discovered.
    pub url: ServerUrl,
    /// A file with a JWT and a seed, as `nsc` writes it.
    pub credentials_file: Option<PathBuf>,
    /// How long an event may be handled before it is delivered again. 30 s by default.
    pub visibility_timeout: Duration,
    /// The bytes of the events of a topic; at the limit, `publish` fails. 1 GiB by default. For new streams.
    pub max_bytes: u64,
    /// How long an event waits for subscriptions that do not read it. 168 h by default. For new streams.
    pub max_age: Duration,
    /// The number of servers that store a stream. 1 by default. For new streams.
    pub replicas: u8,
}

impl NatsConfig {
    /// The default settings for a server.
    pub fn new(url: ServerUrl) -> Self {
        Self {
            url,
            credentials_file: None,
            visibility_timeout: VISIBILITY_TIMEOUT,
            max_bytes: 1 << 30,
            max_age: Duration::from_secs(168 * 3600),
            replicas: 1,
        }
    }
}

/// RabbitMQ. Publishers and subscribers of other programs must agree on the exchange and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RabbitMqConfig {
    /// The server, with user, password and virtual host.
    pub url: ServerUrl,
    /// The exchange of all topics. By default, each topic has an exchange of its name.
    pub exchange: Option<String>,
    /// The type of exchanges. `fanout` by default, as upstream's.
    pub exchange_type: ExchangeType,
    /// The first part of the names of queues, which is the topic by default. The second is the subscription ID.
    pub queue: Option<String>,
    /// The routing key of published events. Empty by default.
    pub routing_key: String,
    /// The number of events in flight per subscriber. 10 by default, and at least the parallelism.
    pub prefetch_count: u16,
    /// The consumer tag. By default, the server generates one.
    pub consumer_tag: String,
    /// How long an event may be handled before it is delivered again. 30 s by default.
    pub visibility_timeout: Duration,
}

impl RabbitMqConfig {
    /// The default settings for a server.
    pub fn new(url: ServerUrl) -> Self {
        Self {
            url,
            exchange: None,
            exchange_type: ExchangeType::Fanout,
            queue: None,
            routing_key: String::new(),
            prefetch_count: PREFETCH_COUNT,
            consumer_tag: String::new(),
            visibility_timeout: VISIBILITY_TIMEOUT,
        }
    }
}

/// The type of an exchange of RabbitMQ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ExchangeType {
    Direct,
    Fanout,
    Topic,
    Headers,
}

impl FromStr for ExchangeType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "direct" => Ok(Self::Direct),
            "fanout" => Ok(Self::Fanout),
            "topic" => Ok(Self::Topic),
            "headers" => Ok(Self::Headers),
            other => {
                Err(format!("{other:?} is not a type of exchange: use direct, fanout, topic or headers"))
            }
        }
    }
}

/// Why a configuration is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file is malformed.
    #[error(transparent)]
    Text(#[from] YamlError),
    /// A variable of the environment is invalid.
    #[error("the environment variable {name} is invalid: {cause}")]
    Variable {
        /// The variable.
        name: &'static str,
        /// What is wrong with it.
        cause: String,
    },
    /// A required member is missing.
    #[error("{path}: {member} is required")]
    Missing {
        /// The file.
        path: String,
        /// The member.
        member: &'static str,
    },
    /// A member is out of its range.
    #[error("{path}: {member} must be {expected}")]
    Range {
        /// The file.
        path: String,
        /// The member.
        member: &'static str,
        /// The valid values.
        expected: String,
    },
    /// The type is Google Pub/Sub.
    #[error("{path}: broker.type googlepubsub is not supported: use embedded, nats or rabbitmq")]
    GooglePubSub {
        /// The file.
        path: String,
    },
}

impl BrokerConfig {
    /// The default settings for a URL.
    pub fn from_url(url: BrokerUrl) -> Self {
        let backend = match url {
            BrokerUrl::Sqlite(path) => Backend::Embedded(EmbeddedConfig { path, limits: Limits::default() }),
            BrokerUrl::Nats(url) => Backend::Nats(NatsConfig::new(url)),
            BrokerUrl::RabbitMq(url) => Backend::RabbitMq(RabbitMqConfig::new(url)),
        };
        Self { backend, parallelism: 1, log_config: false }
    }

    /// Parses the text of `broker.yaml`; `path` is used in errors. Variables of the environment override members, by upstream's
    /// names such as `BROKER_RABBITMQ_URL` and `SUBSCRIBER_PARALLELISM`.
    pub fn parse(
        text: &str,
        path: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let mut file: File = yaml::parse(text, path)?.unwrap_or_default();
        file.override_with(variable)?;
        let missing = |member| ConfigError::Missing { path: path.to_owned(), member };
        let File { broker, subscriber, log_config } = file;
        let kind = broker.kind.ok_or_else(|| missing("broker.type (embedded, nats or rabbitmq)"))?;
        let parallelism = subscriber.parallelism.max(1);
        let backend = match kind {
            Kind::Embedded => embedded(broker.embedded, path)?,
            Kind::Nats => nats(broker.nats, path)?,
            Kind::RabbitMq => rabbitmq(broker.rabbitmq, parallelism, path)?,
            Kind::GooglePubSub => return Err(ConfigError::GooglePubSub { path: path.to_owned() }),
        };
        Ok(Self { backend, parallelism, log_config })
    }
}

fn embedded(section: file::Embedded, path: &str) -> Result<Backend, ConfigError> {
    let missing = || ConfigError::Missing { path: path.to_owned(), member: "broker.embedded.path" };
    let default = Limits::default();
    let limits = Limits {
        visibility_timeout: timeout(section.visibility_timeout, "broker.embedded.visibility_timeout", path)?,
        max_events: section.max_events.unwrap_or(default.max_events),
        max_bytes: section.max_bytes.unwrap_or(default.max_bytes),
        max_events_per_subscription: section
            .max_events_per_subscription
            .unwrap_or(default.max_events_per_subscription),
        max_bytes_per_subscription: section
            .max_bytes_per_subscription
            .unwrap_or(default.max_bytes_per_subscription),
        max_dead_letters_per_subscription: section
            .max_dead_letters_per_subscription
            .unwrap_or(default.max_dead_letters_per_subscription),
        max_file_bytes: section.max_file_bytes.unwrap_or(default.max_file_bytes),
    };
    Ok(Backend::Embedded(EmbeddedConfig { path: section.path.ok_or_else(missing)?, limits }))
}

fn nats(section: file::Nats, path: &str) -> Result<Backend, ConfigError> {
    let missing = || ConfigError::Missing { path: path.to_owned(), member: "broker.nats.url" };
    let default = NatsConfig::new(section.url.ok_or_else(missing)?);
    Ok(Backend::Nats(NatsConfig {
        credentials_file: section.credentials_file,
        visibility_timeout: timeout(section.visibility_timeout, "broker.nats.visibility_timeout", path)?,
        max_bytes: section.max_bytes.unwrap_or(default.max_bytes),
        max_age: section.max_age.unwrap_or(default.max_age),
        replicas: section.replicas.unwrap_or(default.replicas),
        ..default
    }))
}

fn rabbitmq(section: file::RabbitMq, parallelism: u16, path: &str) -> Result<Backend, ConfigError> {
    let missing = || ConfigError::Missing { path: path.to_owned(), member: "broker.rabbitmq.url" };
    let default = RabbitMqConfig::new(section.url.ok_or_else(missing)?);
    if section.prefetch_size > 0 {
        tracing::warn!(
            path,
            "broker.rabbitmq.prefetch_size is ignored, because RabbitMQ does not implement it"
        );
    }
    let prefetch_count = if section.prefetch_count == 0 { PREFETCH_COUNT } else { section.prefetch_count };
    Ok(Backend::RabbitMq(RabbitMqConfig {
        exchange: Some(section.exchange).filter(|name| !name.is_empty()),
        exchange_type: section.exchange_type.unwrap_or(default.exchange_type),
        queue: Some(section.queue).filter(|name| !name.is_empty()),
        routing_key: section.routing_key,
        prefetch_count: prefetch_count.max(parallelism),
        consumer_tag: section.consumer_tag,
        visibility_timeout: timeout(section.visibility_timeout, "broker.rabbitmq.visibility_timeout", path)?,
        ..default
    }))
}

fn timeout(value: Option<Duration>, member: &'static str, path: &str) -> Result<Duration, ConfigError> {
    let value = value.unwrap_or(VISIBILITY_TIMEOUT);
    if VISIBILITY_TIMEOUTS.contains(&value) {
        return Ok(value);
    }
    Err(ConfigError::Range { path: path.to_owned(), member, expected: "from 100ms to 12h".to_owned() })
}

/// Prepares a broker. A server is connected to at its first use, so one that is down is no error here.
pub fn connect(config: &BrokerConfig, clock: Arc<dyn Clock>) -> Result<Arc<dyn Broker>, BrokerError> {
    connect_backend(config, clock, BrokerMetrics::unregistered())
}

/// Prepares a broker as [`connect`] does, and counts what it does.
pub fn connect_metered(
    config: &BrokerConfig,
    clock: Arc<dyn Clock>,
    metrics: BrokerMetrics,
) -> Result<Arc<dyn Broker>, BrokerError> {
    let broker = connect_backend(config, clock, metrics.clone())?;
    Ok(Arc::new(Metered::new(broker, metrics)))
}

fn connect_backend(
    config: &BrokerConfig,
    clock: Arc<dyn Clock>,
    metrics: BrokerMetrics,
) -> Result<Arc<dyn Broker>, BrokerError> {
    if config.log_config {
        tracing::info!(?config, "the configuration of the broker");
    }
    match &config.backend {
        Backend::Embedded(EmbeddedConfig { path, limits }) => {
            Ok(Arc::new(Queue::open(path, *limits, clock)?.with_metrics(metrics)))
        }
        #[cfg(feature = "nats")]
        Backend::Nats(config) => Ok(Arc::new(crate::nats::Nats::new(config.clone(), metrics))),
        #[cfg(not(feature = "nats"))]
        Backend::Nats(config) => Err(not_built(&config.url, "NATS")),
        #[cfg(feature = "rabbitmq")]
        Backend::RabbitMq(config) => Ok(Arc::new(crate::rabbitmq::RabbitMq::new(config.clone(), metrics))),
        #[cfg(not(feature = "rabbitmq"))]
        Backend::RabbitMq(config) => Err(not_built(&config.url, "RabbitMQ")),
    }
}

#[cfg(not(all(feature = "nats", feature = "rabbitmq")))]
fn not_built(url: &ServerUrl, broker: &str) -> BrokerError {
    BrokerError::Rejected {
        address: url.to_string(),
        operation: "the connection".to_owned(),
        cause: format!("this program was built without {broker}; use another build or another broker"),
    }
}

#[cfg(test)]
mod tests;
