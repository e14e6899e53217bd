//! Addresses of brokers. What they print has no credentials.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::Url;

/// The address of a broker, as flags have it: `sqlite:PATH`, `nats://…`, `tls://…`, `amqp://…` or `amqps://…`.
///
/// ```
/// use bellwether_broker::BrokerUrl;
///
/// let url: BrokerUrl = "amqp://user:secret@rabbitmq:5672/fleet".parse()?;
/// assert_eq!(url.to_string(), "amqp://rabbitmq:5672/fleet");
/// assert!(!format!("{url:?}").contains("secret"));
/// # Ok::<(), bellwether_broker::config::UrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrokerUrl {
    /// The built-in queue in a file.
    Sqlite(PathBuf),
    /// A NATS server.
    Nats(ServerUrl),
    /// A RabbitMQ server.
    RabbitMq(ServerUrl),
}

/// Why the address of a broker is rejected. The address itself is not repeated, as it may have credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text is not a URL.
    #[error("the URL of the broker is invalid: {0}")]
    Syntax(String),
    /// The scheme is unknown.
    #[error(
        "the scheme {0:?} is unknown: use sqlite:PATH, nats://HOST:PORT, tls://HOST:PORT, amqp://HOST:PORT/VHOST or amqps://HOST:PORT/VHOST"
    )]
    Scheme(String),
    /// The scheme does not belong to the type of broker.
    #[error("the URL must start with {0}")]
    WrongBroker(&'static str),
    /// The path of the file is missing.
    #[error("the path is missing: use sqlite:PATH")]
    NoPath,
}

impl FromStr for BrokerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() { Err(UrlError::NoPath) } else { Ok(Self::Sqlite(path.into())) };
        }
        let url: ServerUrl = text.parse()?;
        match url.0.scheme() {
            "nats" | "tls" => Ok(Self::Nats(url)),
            "amqp" | "amqps" => Ok(Self::RabbitMq(url)),
            other => Err(UrlError::Scheme(other.to_owned())),
        }
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(formatter, "sqlite:{}", path.display()),
            Self::Nats(url) | Self::RabbitMq(url) => url.fmt(formatter),
        }
    }
}

/// The URL of a server, with credentials that are not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerUrl(Url);

impl ServerUrl {
    /// The URL with its credentials, for the connection alone.
    #[cfg(any(feature = "nats", feature = "rabbitmq"))]
    pub(crate) fn with_credentials(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the scheme is one of these.
    pub(super) fn has_scheme(&self, schemes: &[&str]) -> bool {
        schemes.contains(&self.0.scheme())
    }
}

impl FromStr for ServerUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let url = Url::parse(text).map_err(|error| UrlError::Syntax(error.to_string()))?;
        if !url.has_host() {
            return Err(UrlError::Syntax("the host is missing".to_owned()));
        }
        Ok(Self(url))
    }
}

/// Writes the URL without user, password, query and fragment.
impl fmt::Display for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.0.scheme(), self.0.host_str().unwrap_or_default())?;
        if let Some(port) = self.0.port() {
            write!(formatter, ":{port}")?;
        }
        formatter.write_str(self.0.path().trim_end_matches('/'))
    }
}

impl fmt::Debug for ServerUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_parsed_and_printed_without_credentials() {
        let rows = [
            ("sqlite:/var/lib/queue.db", "sqlite:/var/lib/queue.db"),
            ("sqlite:queue.db", "sqlite:queue.db"),
            ("nats://token@nats:4222", "nats://nats:4222"),
            ("tls://user:secret@nats", "tls://nats"),
            ("amqp://user:secret@rabbitmq:5672/", "amqp://rabbitmq:5672"),
            ("amqps://user:secret@rabbitmq/%2f?heartbeat=5", "amqps://rabbitmq/%2f"),
        ];
        for (text, printed) in rows {
            let url: BrokerUrl = text.parse().expect(text);
            assert_eq!(url.to_string(), printed);
            assert!(!format!("{url:?}").contains("secret"), "{url:?}");
        }
    }

    #[test]
    fn invalid_url_is_rejected_without_repeating_it() {
        let rows = [
            ("", "the URL of the broker is invalid: relative URL without a base"),
            ("sqlite:", "the path is missing: use sqlite:PATH"),
            ("kafka://user:secret@host", "the scheme \"kafka\" is unknown"),
            ("amqp://user:secret@host:port/", "the URL of the broker is invalid: invalid port number"),
            ("amqp:secret", "the URL of the broker is invalid: the host is missing"),
        ];
        for (text, message) in rows {
            let error = text.parse::<BrokerUrl>().expect_err(text).to_string();
            assert!(error.starts_with(message) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
