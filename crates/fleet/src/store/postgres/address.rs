//! The address of the database: a connection URL with the usual options of PostgreSQL clients.

use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::connection::{CONNECT_TIMEOUT, store_error};
use super::tls::{Encrypted, Tls, Trust};
use crate::store::{OpenError, StoreError};

/// The address of the database, and the TLS configuration.
#[derive(Clone)]
pub(super) struct Address {
    config: Config,
    tls: Tls,
}

/// How long the server may not acknowledge data before the connection is closed.
const TCP_TIMEOUT: Duration = Duration::from_secs(15);

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, OpenError> {
        let (url, file) = without_root_file(url);
        let parsed: Result<Config, tokio_postgres::Error> = url.parse();
        // The URL holds a password, so the error must not show it.
        let mut config = parsed.map_err(|error| OpenError::Address(error.to_string()))?;
        if config.get_application_name().is_none() {
            config.application_name("bellwether-fleet");
        }
        config.connect_timeout(CONNECT_TIMEOUT);
        // Detects a server that has become unreachable.
        config
            .tcp_user_timeout(TCP_TIMEOUT)
            .keepalives_idle(TCP_TIMEOUT)
            .keepalives_interval(TCP_TIMEOUT / 3);
        let trust = match (config.get_ssl_mode(), file) {
            (_, Some(path)) => {
                config.ssl_mode(SslMode::Require);
                Trust::File(path)
            }
            (SslMode::Require, None) => Trust::System,
            _ => Trust::Any,
        };
        Ok(Self { config, tls: Tls::new(&trust)? })
    }

    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, Encrypted>), StoreError> {
        self.config.connect(self.tls.clone()).await.map_err(store_error)
    }
}

/// The URL with only the options that the client library supports, and the file with CA certificates.
fn without_root_file(url: &str) -> (String, Option<String>) {
    let Some((location, options)) = url.split_once('?') else { return (url.to_owned(), None) };
    let mut file = None;
    let mut kept = Vec::new();
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("sslrootcert", path)) => file = Some(path.replace("%2F", "/").replace("%2f", "/")),
            Some(("sslmode", "verify-ca" | "verify-full")) => kept.push("sslmode=require"),
            _ => kept.push(option),
        }
    }
    (format!("{location}?{}", kept.join("&")), file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_options_are_parsed() {
        let rows = [
            ("postgres://h/d", "postgres://h/d", None),
            ("postgres://h/d?sslmode=verify-full", "postgres://h/d?sslmode=require", None),
            (
                "postgres://h/d?sslrootcert=%2Fca.pem&sslmode=require",
                "postgres://h/d?sslmode=require",
                Some("/ca.pem"),
            ),
            ("postgres://h/d?connect_timeout=3", "postgres://h/d?connect_timeout=3", None),
        ];
        for (url, known, file) in rows {
            assert_eq!(without_root_file(url), (known.to_owned(), file.map(str::to_owned)), "{url}");
        }
    }

    #[test]
    fn error_for_an_invalid_url_does_not_contain_the_password() {
        let Err(error) = Address::parse("postgres://ann:secret@host:port/d") else {
            panic!("the URL is invalid")
        };
        assert!(matches!(error, OpenError::Address(_)));
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
