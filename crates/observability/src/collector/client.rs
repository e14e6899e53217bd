//! HTTP requests to Prometheus and to the receiver, with TLS and tokens from files that are read again when they change. What
//! is requested, and what follows an error, is left to others.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::tls::{self, CredentialError};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections are reused within a cycle, but not for the next one, whose server may have closed them.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much of a rejected request's response is shown.
const MAX_EXCERPT_BYTES: usize = 300;
/// How long to wait for the response text of a rejected request.
const EXCERPT_TIMEOUT: Duration = Duration::from_secs(2);

/// An address without credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl(Uri);

impl HttpUrl {
    /// The path; `/` if there is none.
    pub fn path(&self) -> &str {
        self.0.path()
    }

    pub(crate) fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// The same server with another path.
    pub(crate) fn with_path(&self, path: &str) -> Self {
        let mut parts = self.0.clone().into_parts();
        parts.path_and_query = path.parse().ok();
        Self(Uri::from_parts(parts).unwrap_or_else(|_| self.0.clone()))
    }

    /// The address with a query string; nothing if that is too long.
    pub(crate) fn with_query(&self, query: &str) -> Option<Uri> {
        let separator = if self.0.query().is_some() { '&' } else { '?' };
        format!("{}{separator}{query}", self.0).parse().ok()
    }

    pub(crate) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for HttpUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || "must be an address such as http://localhost:9090".to_owned();
        let uri: Uri = text.trim().parse().map_err(|_| invalid())?;
        let authority = uri.authority().ok_or_else(invalid)?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || authority.host().is_empty() {
            return Err(invalid());
        }
        if authority.as_str().contains('@') {
            return Err(
                "must not contain a user or a password; use a token file or a client certificate".into()
            );
        }
        Ok(Self(uri))
    }
}

/// Formats without the query, which may contain secrets.
impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map(http::uri::Authority::as_str).unwrap_or_default();
        let path = if self.path() == "/" { "" } else { self.path() };
        write!(f, "{}://{authority}{path}", self.0.scheme_str().unwrap_or_default())
    }
}

/// The files with which a client identifies itself and its server. They are read again when they change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CredentialFiles {
    /// The CA certificates that the server's certificate must be signed by; those of the machine by default.
    pub ca: Option<PathBuf>,
    /// The client certificate.
    pub certificate: Option<PathBuf>,
    /// The private key of the client certificate.
    pub key: Option<PathBuf>,
    /// The bearer token.
    pub token: Option<PathBuf>,
}

impl CredentialFiles {
    fn all(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.ca, &self.certificate, &self.key, &self.token].into_iter().flatten()
    }

    /// When each file was changed, and its length; nothing for a file that cannot be read.
    fn fingerprint(&self) -> Fingerprint {
        let of = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        self.all().map(of).collect()
    }
}

type Fingerprint = Vec<Option<(SystemTime, u64)>>;

/// The server of a client, in messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The Prometheus to collect from.
    Prometheus,
    /// The receiver of remote write.
    Receiver,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Prometheus => "Prometheus",
            Self::Receiver => "the receiver",
        }
    }

    fn address_option(self) -> &'static str {
        match self {
            Self::Prometheus => "--from",
            Self::Receiver => "--to-upload",
        }
    }

    fn credential_options(self) -> &'static str {
        match self {
            Self::Prometheus => "--from-token-file",
            Self::Receiver => "--to-upload-cert, --to-upload-key and --to-upload-token-file",
        }
    }

    /// What to do about a response that is not a success.
    fn next_step(self, status: StatusCode) -> String {
        match (self, status.as_u16()) {
            (_, 401) => {
                format!("check {}: the credentials are missing, wrong or expired", self.credential_options())
            }
            (_, 403) => format!("allow the account of {} to do this", self.credential_options()),
            (_, 404 | 405 | 300..=399) => format!("check the address {}", self.address_option()),
            (Self::Prometheus, 400) => "correct the selector or query that it names".to_owned(),
            (Self::Receiver, 413) => {
                "raise the request size limit of the receiver: it is smaller than one series".to_owned()
            }
            (Self::Receiver, 429) => {
                "raise the rate limit of the receiver, or forward fewer series".to_owned()
            }
            (Self::Receiver, 501) => {
                format!("check the address {}: it does not accept remote write", self.address_option())
            }
            _ => format!("check the log of {}", self.name()),
        }
    }
}

/// Until when something may take, and how a message says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    /// The end.
    pub(crate) at: Instant,
    /// The end, after "no complete answer".
    pub(crate) text: &'static str,
}

impl TimeLimit {
    /// The end of the cycle.
    pub(crate) fn of_cycle(end: Instant) -> Self {
        Self { at: end, text: "before the cycle ended; check its load, or raise the interval" }
    }
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RequestError {
    /// It took too long.
    #[error("no complete answer from {url} {limit}")]
    TimedOut { url: String, limit: &'static str },
    /// There was no connection.
    #[error("cannot connect to {url}: {cause}; check {option} and that {peer} is running")]
    NotConnected { url: String, cause: String, option: &'static str, peer: &'static str },
    /// The connection was lost.
    #[error("the connection to {url} was lost: {cause}; check the log of {peer}")]
    Lost { url: String, cause: String, peer: &'static str },
    /// The response is not a success.
    #[error("{url} answered {status}{}; {next_step}", after_colon(.excerpt))]
    Rejected { url: String, status: StatusCode, excerpt: String, next_step: String },
}

fn after_colon(excerpt: &str) -> String {
    if excerpt.is_empty() { String::new() } else { format!(": {excerpt}") }
}

type Connection = hyper_util::client::legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// A client of one server.
#[derive(Debug)]
pub(crate) struct Client {
    peer: Peer,
    url: HttpUrl,
    files: CredentialFiles,
    loaded: Mutex<Loaded>,
}

/// The credentials in use.
#[derive(Debug, Clone)]
struct Loaded {
    connection: Connection,
    authorization: Option<HeaderValue>,
    fingerprint: Fingerprint,
}

impl Client {
    /// A client of the server at an address. It reads its files, but sends nothing.
    pub(crate) fn new(peer: Peer, url: HttpUrl, files: CredentialFiles) -> Result<Self, CredentialError> {
        let loaded = load(&url, &files)?;
        Ok(Self { peer, url, files, loaded: Mutex::new(loaded) })
    }

    /// Sends a request, whose address is on this server, and returns the response, whatever its status.
    pub(crate) async fn send(
        &self,
        request: &Request<Full<Bytes>>,
        limit: TimeLimit,
    ) -> Result<Response, RequestError> {
        let loaded = self.current();
        let response = self.send_as(&loaded, request, limit).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        // A rotated file need not have another length and time.
        match self.reload() {
            Some(reloaded) if reloaded.authorization != loaded.authorization => {
                self.send_as(&reloaded, request, limit).await
            }
            _ => Ok(response),
        }
    }

    async fn send_as(
        &self,
        loaded: &Loaded,
        request: &Request<Full<Bytes>>,
        limit: TimeLimit,
    ) -> Result<Response, RequestError> {
        let mut request = request.clone();
        if let Some(authorization) = &loaded.authorization {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        let url = without_query(request.uri());
        match timeout_at(limit.at, loaded.connection.request(request)).await {
            Ok(Ok(response)) => {
                let (parts, body) = response.into_parts();
                Ok(Response { status: parts.status, headers: parts.headers, body, url, peer: self.peer })
            }
            Ok(Err(error)) if is_timeout(&error) => {
                Err(RequestError::TimedOut { url, limit: "while connecting; check the network" })
            }
            Ok(Err(error)) if error.is_connect() => Err(RequestError::NotConnected {
                url,
                cause: format_causes(&error),
                option: self.peer.address_option(),
                peer: self.peer.name(),
            }),
            Ok(Err(error)) => {
                Err(RequestError::Lost { url, cause: format_causes(&error), peer: self.peer.name() })
            }
            Err(_) => Err(RequestError::TimedOut { url, limit: limit.text }),
        }
    }

    /// The credentials, read again if a file has changed.
    fn current(&self) -> Loaded {
        let changed = self.files.fingerprint() != self.loaded.lock().fingerprint;
        if changed && let Some(reloaded) = self.reload() {
            return reloaded;
        }
        self.loaded.lock().clone()
    }

    /// Reads the files again. If that fails, the credentials before stay in use until the files change once more.
    fn reload(&self) -> Option<Loaded> {
        let fingerprint = self.files.fingerprint();
        match load(&self.url, &self.files) {
            Ok(loaded) => {
                tracing::debug!("read the credentials for {} again", self.url);
                *self.loaded.lock() = loaded.clone();
                Some(loaded)
            }
            Err(error) => {
                tracing::warn!("{error}; the credentials read before stay in use");
                self.loaded.lock().fingerprint = fingerprint;
                None
            }
        }
    }
}

fn load(url: &HttpUrl, files: &CredentialFiles) -> Result<Loaded, CredentialError> {
    // Before the files, so that a change while they are read is noticed.
    let fingerprint = files.fingerprint();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_TIMEOUT));
    http.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls::client_config(url.is_https(), files)?)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    let connection = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .pool_idle_timeout(POOL_IDLE_TIMEOUT)
        .pool_timer(hyper_util::rt::TokioTimer::new())
        .build(connector);
    Ok(Loaded { connection, authorization: tls::authorization(files)?, fingerprint })
}

/// A response whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    /// The status.
    pub(crate) status: StatusCode,
    /// The headers.
    pub(crate) headers: HeaderMap,
    body: Incoming,
    url: String,
    peer: Peer,
}

impl Response {
    /// The length of the body, if the server has announced it.
    pub(crate) fn announced_length(&self) -> Option<u64> {
        self.body.size_hint().exact()
    }

    /// The address without its query.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The next part of the body.
    pub(crate) async fn chunk(&mut self, limit: TimeLimit) -> Result<Option<Bytes>, RequestError> {
        loop {
            let url = || self.url.clone();
            match timeout_at(limit.at, self.body.frame()).await {
                Err(_) => return Err(RequestError::TimedOut { url: url(), limit: limit.text }),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => {
                    let (cause, peer) = (format_causes(&error), self.peer.name());
                    return Err(RequestError::Lost { url: url(), cause, peer });
                }
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// The error that says what the server answered, with the beginning of its text.
    pub(crate) async fn into_error(mut self) -> RequestError {
        let limit = TimeLimit { at: Instant::now() + EXCERPT_TIMEOUT, text: "" };
        let mut text = Vec::new();
        while text.len() < MAX_EXCERPT_BYTES {
            match self.chunk(limit).await {
                Ok(Some(chunk)) => text.extend(chunk.iter().take(MAX_EXCERPT_BYTES)),
                _ => break,
            }
        }
        text.truncate(MAX_EXCERPT_BYTES);
        let excerpt = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
        let next_step = self.peer.next_step(self.status);
        RequestError::Rejected { url: self.url, status: self.status, excerpt, next_step }
    }
}

fn without_query(uri: &Uri) -> String {
    HttpUrl(uri.clone()).to_string()
}

fn is_timeout(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::TimedOut)
}

/// Formats an error with its causes in one line. A cause that the message already contains is left out.
fn format_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        cause = error.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://localhost:9090", Ok("http://localhost:9090"))]
    #[case("https://h/api/v1/receive?token=secret", Ok("https://h/api/v1/receive"))]
    #[case("http://[::1]:9090/", Ok("http://[::1]:9090"))]
    #[case("localhost:9090", Err("must be an address"))]
    #[case("ftp://h", Err("must be an address"))]
    #[case("/federate", Err("must be an address"))]
    #[case("http://user:secret@h", Err("must not contain a user or a password"))]
    fn address_is_shown_without_secrets(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        match (text.parse::<HttpUrl>(), expected) {
            (Ok(url), Ok(expected)) => assert_eq!(url.to_string(), expected),
            (Err(error), Err(expected)) => {
                assert!(error.starts_with(expected), "{error}");
                assert!(!error.contains("secret"));
            }
            (parsed, _) => panic!("{parsed:?}"),
        }
    }

    #[test]
    fn query_is_appended() {
        let url: HttpUrl = "http://h/write?tenant=a".parse().unwrap();
        assert_eq!(url.with_query("b=c").unwrap(), "http://h/write?tenant=a&b=c");
        assert_eq!(url.with_path("/x").with_query("b=c").unwrap(), "http://h/x?b=c");
        assert_eq!(url.with_query(&"x".repeat(70_000)), None);
    }

    #[test]
    fn errors_name_the_address_the_status_and_the_next_step() {
        let rejected = |peer: Peer, status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            let next_step = peer.next_step(status);
            RequestError::Rejected { url: "http://h/x".into(), status, excerpt: "why".into(), next_step }
                .to_string()
        };
        let rows = [
            (Peer::Prometheus, 400, "400 Bad Request: why; correct the selector or query that it names"),
            (
                Peer::Prometheus,
                401,
                "401 Unauthorized: why; check --from-token-file: the credentials are missing, wrong or expired",
            ),
            (Peer::Prometheus, 503, "503 Service Unavailable: why; check the log of Prometheus"),
            (Peer::Receiver, 400, "400 Bad Request: why; check the log of the receiver"),
            (Peer::Receiver, 404, "404 Not Found: why; check the address --to-upload"),
            (
                Peer::Receiver,
                429,
                "429 Too Many Requests: why; raise the rate limit of the receiver, or forward fewer series",
            ),
        ];
        for (peer, status, message) in rows {
            assert_eq!(rejected(peer, status), format!("http://h/x answered {message}"));
        }
    }
}
