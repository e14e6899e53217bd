//! One connection to the server, made at the first use and again after a loss. Channels belong to it.

use std::sync::Arc;
use std::time::Duration;

use lapin::uri::AMQPUri;
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio::time::error::Elapsed;

use super::error::classify;
use super::topology::Topology;
use crate::BrokerError;
use crate::config::ServerUrl;

/// How long an operation tries to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The delays between tries to connect, within the timeout.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The heartbeat unless the URL has one. A server that is silent for twice this time is taken for lost.
const HEARTBEAT_SECONDS: u16 = 10;
/// The number of exchanges for which the channel of the publisher remembers that they are declared.
const MAX_DECLARED_EXCHANGES: usize = 1_000;

pub(super) struct Connections {
    url: ServerUrl,
    connection: Mutex<Current>,
    publisher: Mutex<Option<Publisher>>,
}

/// The connection, and when and why one could not be made last.
#[derive(Default)]
struct Current {
    connection: Option<Arc<Connection>>,
    failure: Option<(Instant, BrokerError)>,
}

/// The channel on which events are published.
struct Publisher {
    channel: Channel,
    /// The exchanges that it has declared.
    declared: Vec<String>,
}

impl Connections {
    pub(super) fn new(url: ServerUrl) -> Self {
        Self { url, connection: Mutex::default(), publisher: Mutex::default() }
    }

    /// The address in errors.
    pub(super) fn address(&self) -> String {
        self.url.to_string()
    }

    pub(super) fn unreachable(&self, cause: impl Into<String>) -> BrokerError {
        BrokerError::Unreachable { address: self.address(), cause: cause.into() }
    }

    /// Limits the time of an operation, and classifies its error.
    pub(super) async fn within<T>(
        &self,
        limit: Duration,
        operation: impl Future<Output = lapin::Result<T>>,
    ) -> Result<T, BrokerError> {
        self.result(limit, tokio::time::timeout(limit, operation).await)
    }

    pub(super) fn result<T>(
        &self,
        limit: Duration,
        result: Result<lapin::Result<T>, Elapsed>,
    ) -> Result<T, BrokerError> {
        match result {
            Ok(result) => result.map_err(|error| classify(&self.address(), &error)),
            Err(_) => Err(self.unreachable(format!("no answer within {limit:?}"))),
        }
    }

    /// Whether the server responds: opening a channel is a request.
    pub(super) async fn check(&self) -> Result<(), BrokerError> {
        self.channel().await.map(|_| ())
    }

    /// Opens a channel, which is closed when its last clone is dropped.
    pub(super) async fn channel(&self) -> Result<Channel, BrokerError> {
        let connection = self.connection().await?;
        self.within(super::REQUEST_TIMEOUT, connection.create_channel()).await
    }

    /// The channel on which events are published, with the exchange of a topic declared.
    pub(super) async fn publisher(&self, topology: &Topology) -> Result<Channel, BrokerError> {
        // Without a connection, publishers fail together and not in turn.
        self.connection().await?;
        let mut publisher = self.publisher.lock().await;
        if let Some(Publisher { channel, declared }) = &*publisher
            && channel.status().connected()
            && declared.contains(&topology.exchange)
        {
            return Ok(channel.clone());
        }
        let channel = topology.declare_exchange(self).await?;
        let mut declared = match publisher.take() {
            Some(Publisher { channel, declared }) if channel.status().connected() => declared,
            _ => Vec::new(),
        };
        if declared.len() >= MAX_DECLARED_EXCHANGES {
            declared.clear();
        }
        declared.push(topology.exchange.clone());
        *publisher = Some(Publisher { channel: channel.clone(), declared });
        Ok(channel)
    }

    async fn connection(&self) -> Result<Arc<Connection>, BrokerError> {
        let requested = Instant::now();
        let mut current = self.connection.lock().await;
        if let Some(connection) = &current.connection
            && connection.status().connected()
        {
            return Ok(Arc::clone(connection));
        }
        // Callers that waited for an attempt share its failure: were each to try in turn, the last one would wait for all of them.
        if let Some((failed, error)) = &current.failure
            && *failed >= requested
        {
            return Err(error.clone());
        }
        current.connection = None;
        match self.connect().await {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *current = Current { connection: Some(Arc::clone(&connection)), failure: None };
                Ok(connection)
            }
            Err(error) => {
                current.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Connects, with retries until the timeout.
    async fn connect(&self) -> Result<Connection, BrokerError> {
        let mut uri: AMQPUri = self.url.with_credentials().parse().map_err(|cause: String| {
            BrokerError::Rejected { address: self.address(), operation: "the URL".to_owned(), cause }
        })?;
        uri.query.heartbeat.get_or_insert(HEARTBEAT_SECONDS);
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let mut delay = FIRST_RETRY_DELAY;
        loop {
            let properties = ConnectionProperties::default().with_connection_name("bellwether".into());
            let left = deadline.saturating_duration_since(Instant::now());
            let connected = self.within(left, Connection::connect_uri(uri.clone(), properties)).await;
            match connected {
                Err(BrokerError::Unreachable { .. }) if Instant::now() + delay < deadline => {
                    tokio::time::sleep(delay).await;
                    delay = (delay * 2).min(MAX_RETRY_DELAY);
                }
                other => return other,
            }
        }
    }
}
