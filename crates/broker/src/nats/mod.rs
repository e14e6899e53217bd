//! NATS JetStream: one stream per topic, one durable consumer per subscription. A stream keeps an event until every
//! subscription has acknowledged it, or until it is too old. Needs nats-server 2.9 or later with JetStream.
//!
//! A stream that is full rejects events. Its events expire by `max_age`, so a forgotten subscription fills it only for a time.

mod names;
mod subscriber;

use std::collections::HashSet;
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, PullConsumer, pull};
use async_nats::jetstream::context::{
    CreateStreamError, CreateStreamErrorKind, PublishError, PublishErrorKind,
};
use async_nats::jetstream::stream::{DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, ConnectOptions, HeaderMap, RequestErrorKind};
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::config::NatsConfig;
use crate::metrics::BrokerMetrics;
use crate::{Broker, BrokerError, CloudEvent, Subscriber, encode, name};
use names::StreamNames;

/// How long an operation waits for the connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an operation waits for an answer of the server.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How often the state of the connection is checked while an operation waits for it.
const CONNECT_CHECK_PERIOD: Duration = Duration::from_millis(20);
/// The delay before a reconnect grows by this much with each failure.
const RECONNECT_DELAY_STEP: Duration = Duration::from_millis(100);
const MAX_RECONNECT_DELAY: Duration = Duration::from_secs(2);
/// The number of events that a consumer has in flight for all its subscribers.
const MAX_ACK_PENDING: i64 = 10_000;
/// The subject of the request for the state of JetStream.
const ACCOUNT_INFO: &str = "$JS.API.INFO";

/// NATS JetStream. Clones share the connection, which is made at the first use.
#[derive(Clone)]
pub struct Nats {
    inner: Arc<Inner>,
}

struct Inner {
    config: NatsConfig,
    address: String,
    metrics: BrokerMetrics,
    client: OnceCell<Client>,
    /// The streams that exist.
    streams: Mutex<HashSet<String>>,
}

impl Nats {
    /// A broker by its configuration. Nothing is connected yet.
    pub fn new(config: NatsConfig, metrics: BrokerMetrics) -> Self {
        let address = config.url.to_string();
        let inner = Inner { config, address, metrics, client: OnceCell::new(), streams: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// The client, once it is connected.
    async fn client(&self) -> Result<&Client, BrokerError> {
        let client = self.inner.client.get_or_try_init(|| self.start_client()).await?;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        while client.connection_state() != State::Connected {
            if Instant::now() >= deadline {
                return Err(self.unreachable(format!("no connection within {CONNECT_TIMEOUT:?}")));
            }
            tokio::time::sleep(CONNECT_CHECK_PERIOD).await;
        }
        Ok(client)
    }

    /// Starts a client that connects, and connects again, in the background.
    async fn start_client(&self) -> Result<Client, BrokerError> {
        let NatsConfig { url, credentials_file, .. } = &self.inner.config;
        let mut options = ConnectOptions::new();
        if let Some(path) = credentials_file {
            options = options.credentials_file(path).await.map_err(|error| {
                self.rejected("the connection", format!("the credentials file {}: {error}", path.display()))
            })?;
        }
        let options = options
            .name("bellwether")
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(REQUEST_TIMEOUT))
            .reconnect_delay_callback(|failures| {
                RECONNECT_DELAY_STEP
                    .saturating_mul(u32::try_from(failures).unwrap_or(u32::MAX))
                    .min(MAX_RECONNECT_DELAY)
            });
        let connected = options.connect(url.with_credentials()).await;
        connected.map_err(|error| self.unreachable(error.kind().to_string()))
    }

    async fn jetstream(&self) -> Result<jetstream::Context, BrokerError> {
        let mut context = jetstream::new(self.client().await?.clone());
        context.set_timeout(REQUEST_TIMEOUT);
        Ok(context)
    }

    /// Creates a stream unless it exists.
    async fn ensure_stream(
        &self,
        context: &jetstream::Context,
        config: jetstream::stream::Config,
    ) -> Result<(), BrokerError> {
        if self.inner.streams.lock().contains(&config.name) {
            return Ok(());
        }
        let name = config.name.clone();
        let created = context.get_or_create_stream(config).await;
        created.map_err(|error| self.stream_error(&name, &error))?;
        self.inner.streams.lock().insert(name);
        Ok(())
    }

    fn topic_stream(&self, names: &StreamNames) -> jetstream::stream::Config {
        let NatsConfig { max_bytes, max_age, replicas, .. } = self.inner.config;
        jetstream::stream::Config {
            name: names.stream.clone(),
            subjects: vec![names.subject.clone()],
            storage: StorageType::File,
            retention: RetentionPolicy::Interest,
            discard: DiscardPolicy::New,
            max_bytes: i64::try_from(max_bytes).unwrap_or(i64::MAX),
            max_age,
            num_replicas: usize::from(replicas),
            ..Default::default()
        }
    }

    /// Dead letters stay until they are too old, or too many; then the oldest are dropped.
    fn dead_letter_stream(&self, names: &StreamNames) -> jetstream::stream::Config {
        jetstream::stream::Config {
            name: names.dead_letter_stream.clone(),
            subjects: vec![names.dead_letter_subject("*")],
            retention: RetentionPolicy::Limits,
            discard: DiscardPolicy::Old,
            ..self.topic_stream(names)
        }
    }

    async fn consumer(&self, names: &StreamNames, subscription: &str) -> Result<PullConsumer, BrokerError> {
        let context = self.jetstream().await?;
        self.ensure_stream(&context, self.topic_stream(names)).await?;
        let stream = context.get_stream_no_info(&names.stream).await;
        let stream = stream.map_err(|error| self.unreachable(error.to_string()))?;
        let config = pull::Config {
            durable_name: Some(names::consumer(subscription)),
            deliver_policy: DeliverPolicy::New,
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.inner.config.visibility_timeout,
            max_ack_pending: MAX_ACK_PENDING,
            // Unlimited: after the last attempt, the subscriber moves the event to the dead letters.
            max_deliver: -1,
            ..Default::default()
        };
        stream.create_consumer(config).await.map_err(|error| {
            // The stream may have been removed since.
            self.inner.streams.lock().clear();
            self.unreachable(format!("consumer {subscription}: {error}"))
        })
    }

    async fn store(
        &self,
        stream: &str,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<(), BrokerError> {
        let context = self.jetstream().await?;
        let stored = async { context.publish_with_headers(subject, headers, body.into()).await?.await };
        match stored.await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.publish_error(stream, &error)),
        }
    }

    fn publish_error(&self, stream: &str, error: &PublishError) -> BrokerError {
        let refused = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
        if let Some(refused) = refused {
            return self.refused(&format!("an event of the stream {stream}"), refused);
        }
        match error.kind() {
            PublishErrorKind::StreamNotFound => {
                self.inner.streams.lock().clear();
                self.unreachable(format!(
                    "the stream {stream} was removed; it is created again by the next try"
                ))
            }
            PublishErrorKind::MaxPayloadExceeded => {
                self.rejected("an event", "it is larger than the server's max_payload; raise it".to_owned())
            }
            _ => self.unreachable(error.to_string()),
        }
    }

    fn stream_error(&self, stream: &str, error: &CreateStreamError) -> BrokerError {
        match error.kind() {
            CreateStreamErrorKind::JetStream(refused) => {
                self.refused(&format!("the stream {stream}"), &refused)
            }
            CreateStreamErrorKind::JetStreamUnavailable => self.no_jetstream(&format!("the stream {stream}")),
            _ => self.unreachable(error.to_string()),
        }
    }

    fn refused(&self, operation: &str, error: &jetstream::Error) -> BrokerError {
        match error.error_code() {
            ErrorCode::STREAM_STORE_FAILED
            | ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED => BrokerError::Full {
                address: self.inner.address.clone(),
                cause: format!(
                    "{operation}: {error}; let subscribers catch up, or raise the limits of the stream or server"
                ),
            },
            // Overload and the election of a leader, which pass.
            _ if error.code() >= 500 => self.unreachable(error.to_string()),
            _ => self.rejected(operation, error.to_string()),
        }
    }

    fn no_jetstream(&self, operation: &str) -> BrokerError {
        self.rejected(operation, "JetStream is not enabled; start nats-server with --jetstream".to_owned())
    }

    fn unreachable(&self, cause: String) -> BrokerError {
        BrokerError::Unreachable { address: self.inner.address.clone(), cause }
    }

    fn rejected(&self, operation: &str, cause: String) -> BrokerError {
        let (address, operation) = (self.inner.address.clone(), operation.to_owned());
        BrokerError::Rejected { address, operation, cause }
    }
}

impl std::fmt::Debug for Nats {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Nats").field("address", &self.inner.address).finish_non_exhaustive()
    }
}

#[async_trait]
impl Broker for Nats {
    async fn publish(&self, topic: &str, event: &CloudEvent) -> Result<(), BrokerError> {
        name::validate(topic)?;
        let body = encode(event, &self.inner.address)?;
        let names = StreamNames::new(topic);
        self.ensure_stream(&self.jetstream().await?, self.topic_stream(&names)).await?;
        let mut headers = HeaderMap::new();
        headers.insert("Content-Type", "application/cloudevents+json");
        if let Some(id) = names::message_id(event) {
            headers.insert(names::MESSAGE_ID, id.as_str());
        }
        self.store(&names.stream, names.subject.clone(), headers, body).await
    }

    async fn subscribe(&self, topic: &str, subscription: &str) -> Result<Box<dyn Subscriber>, BrokerError> {
        name::validate(topic)?;
        name::validate(subscription)?;
        let names = StreamNames::new(topic);
        let consumer = self.consumer(&names, subscription).await?;
        Ok(Box::new(subscriber::NatsSubscriber::new(self.clone(), topic, names, subscription, consumer)))
    }

    async fn health(&self) -> Result<(), BrokerError> {
        // The client does not understand the whole answer of nats-server 2.9, and its errors suffice.
        let answer = self.client().await?.request(ACCOUNT_INFO, "".into()).await;
        let answer = answer.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => self.no_jetstream("the check of its health"),
            _ => self.unreachable(error.to_string()),
        })?;
        let answer: AccountInfo =
            serde_json::from_slice(&answer.payload).map_err(|error| self.unreachable(error.to_string()))?;
        answer.error.map_or(Ok(()), |error| Err(self.refused("the check of its health", &error)))
    }
}

/// The part of the answer to [`ACCOUNT_INFO`] that matters.
#[derive(serde::Deserialize)]
struct AccountInfo {
    error: Option<jetstream::Error>,
}
