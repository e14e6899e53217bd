//! The members of `broker.yaml`: those of upstream, and ours for the built-in queue and NATS. Variables of the environment
//! override some of them.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use jiff::SignedDuration;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, de};

use super::{ConfigError, ExchangeType, ServerUrl};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
    pub(super) broker: Broker,
    pub(super) subscriber: Subscriber,
    pub(super) log_config: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Broker {
    #[serde(rename = "type")]
    pub(super) kind: Option<Kind>,
    pub(super) embedded: Embedded,
    pub(super) nats: Nats,
    pub(super) rabbitmq: RabbitMq,
    /// Upstream's files may have this section beside the one in use.
    pub(super) googlepubsub: Option<IgnoredAny>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Embedded,
    Nats,
    RabbitMq,
    GooglePubSub,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Subscriber {
    pub(super) parallelism: u16,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Embedded {
    pub(super) path: Option<PathBuf>,
    #[serde(deserialize_with = "duration")]
    pub(super) visibility_timeout: Option<Duration>,
    pub(super) max_events: Option<u64>,
    pub(super) max_bytes: Option<u64>,
    pub(super) max_events_per_subscription: Option<u64>,
    pub(super) max_bytes_per_subscription: Option<u64>,
    pub(super) max_dead_letters_per_subscription: Option<u64>,
    pub(super) max_file_bytes: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Nats {
    #[serde(deserialize_with = "nats_url")]
    pub(super) url: Option<ServerUrl>,
    pub(super) credentials_file: Option<PathBuf>,
    #[serde(deserialize_with = "duration")]
    pub(super) visibility_timeout: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    pub(super) max_age: Option<Duration>,
    pub(super) max_bytes: Option<u64>,
    pub(super) replicas: Option<u8>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RabbitMq {
    #[serde(deserialize_with = "amqp_url")]
    pub(super) url: Option<ServerUrl>,
    pub(super) exchange: String,
    #[serde(deserialize_with = "exchange_type")]
    pub(super) exchange_type: Option<ExchangeType>,
    pub(super) queue: String,
    pub(super) routing_key: String,
    pub(super) prefetch_count: u16,
    pub(super) prefetch_size: u32,
    pub(super) consumer_tag: String,
    /// Always on, as `publish` returns when the event is stored.
    #[serde(rename = "publisher_confirm")]
    pub(super) _publisher_confirm: bool,
    #[serde(deserialize_with = "duration")]
    pub(super) visibility_timeout: Option<Duration>,
}

impl File {
    /// Replaces members by the variables of the environment that are set and not empty.
    pub(super) fn override_with(
        &mut self,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        let Self { broker: Broker { kind, embedded, nats, rabbitmq, .. }, subscriber, log_config } = self;
        let set =
            |name: &'static str| variable(name).filter(|value| !value.is_empty()).map(|value| (name, value));
        if let Some(value) = set("BROKER_TYPE") {
            *kind = Some(parse(value, parse_kind)?);
        }
        if let Some(value) = set("BROKER_RABBITMQ_URL") {
            rabbitmq.url = Some(parse(value, parse_amqp_url)?);
        }
        if let Some(value) = set("BROKER_RABBITMQ_EXCHANGE_TYPE") {
            rabbitmq.exchange_type = Some(parse(value, ExchangeType::from_str)?);
        }
        if let Some(value) = set("BROKER_RABBITMQ_PREFETCH_COUNT") {
            rabbitmq.prefetch_count = parse(value, parse_number)?;
        }
        let texts = [
            ("BROKER_RABBITMQ_EXCHANGE", &mut rabbitmq.exchange),
            ("BROKER_RABBITMQ_QUEUE", &mut rabbitmq.queue),
            ("BROKER_RABBITMQ_ROUTING_KEY", &mut rabbitmq.routing_key),
            ("BROKER_RABBITMQ_CONSUMER_TAG", &mut rabbitmq.consumer_tag),
        ];
        for (name, member) in texts {
            if let Some((_, value)) = set(name) {
                *member = value;
            }
        }
        if let Some(value) = set("BROKER_NATS_URL") {
            nats.url = Some(parse(value, parse_nats_url)?);
        }
        if let Some((_, value)) = set("BROKER_NATS_CREDENTIALS_FILE") {
            nats.credentials_file = Some(value.into());
        }
        if let Some((_, value)) = set("BROKER_EMBEDDED_PATH") {
            embedded.path = Some(value.into());
        }
        if let Some(value) = set("SUBSCRIBER_PARALLELISM") {
            subscriber.parallelism = parse(value, parse_number)?;
        }
        if let Some(value) = set("LOG_CONFIG") {
            *log_config =
                parse(value, |value| value.parse().map_err(|_| "must be true or false".to_owned()))?;
        }
        Ok(())
    }
}

fn parse<T>(
    (name, value): (&'static str, String),
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    parse(&value).map_err(|cause| ConfigError::Variable { name, cause })
}

fn parse_kind(value: &str) -> Result<Kind, String> {
    Kind::deserialize(de::value::StrDeserializer::<de::value::Error>::new(value))
        .map_err(|error| error.to_string())
}

fn parse_number(value: &str) -> Result<u16, String> {
    value.parse().map_err(|_| format!("{value:?} is not a number from 0 to {}", u16::MAX))
}

fn parse_amqp_url(value: &str) -> Result<ServerUrl, String> {
    parse_url(value, &["amqp", "amqps"], "amqp:// or amqps://")
}

fn parse_nats_url(value: &str) -> Result<ServerUrl, String> {
    parse_url(value, &["nats", "tls"], "nats:// or tls://")
}

fn parse_url(value: &str, schemes: &[&str], expected: &'static str) -> Result<ServerUrl, String> {
    let url: ServerUrl = value.parse().map_err(|error: super::UrlError| error.to_string())?;
    if url.has_scheme(schemes) { Ok(url) } else { Err(super::UrlError::WrongBroker(expected).to_string()) }
}

/// Parses a text that is not empty.
fn optional<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    if text.is_empty() { Ok(None) } else { parse(&text).map(Some).map_err(de::Error::custom) }
}

fn amqp_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ServerUrl>, D::Error> {
    optional(deserializer, parse_amqp_url)
}

fn nats_url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ServerUrl>, D::Error> {
    optional(deserializer, parse_nats_url)
}

fn exchange_type<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ExchangeType>, D::Error> {
    optional(deserializer, ExchangeType::from_str)
}

/// Parses a duration such as `500ms`, `30s` or `168h`.
fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    optional(deserializer, |text| {
        let parsed: Option<SignedDuration> = text.parse().ok();
        let duration = parsed.and_then(|duration| Duration::try_from(duration).ok());
        duration.ok_or_else(|| {
            format!("{text:?} is not a duration: use a number with a unit, such as 500ms, 30s or 168h")
        })
    })
}
