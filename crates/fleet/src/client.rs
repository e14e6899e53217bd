//! A client of the fleet API, and of other JSON APIs over HTTP. It limits the time and the size of responses, and its errors name
//! the server and the cause.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use futures::{Stream, StreamExt as _};
use http_body_util::{BodyExt as _, BodyStream, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::kinds::BASE_PATH;
use crate::resource::Resource;
use crate::store::Revision;

/// How long a response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(35);
/// The limit of a response: a full page of the largest resources.
const MAX_RESPONSE_BYTES: usize = 128 * 1024 * 1024;
/// How long a watch may receive nothing. The server sends a keep-alive every 15 seconds.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(45);
/// The limit of one watch event.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is invalid.
    #[error("{0:?} is not an address of an API, such as http://127.0.0.1:8000")]
    Address(String),
    /// The address has a user or a password.
    #[error(
        "the address of the API must not have a user or a password, which would be visible in logs: use a token"
    )]
    Credentials,
    /// The CA certificates cannot be read.
    #[error("cannot read certificates from {path}: {cause}")]
    Certificates {
        /// The file.
        path: String,
        /// The cause.
        cause: String,
    },
    /// The server does not respond.
    #[error("no response from {address}: {cause}")]
    Unreachable {
        /// The address of the server.
        address: String,
        /// The cause.
        cause: String,
    },
    /// The response is not one of the fleet API.
    #[error("{address} does not respond like the fleet API: {cause}")]
    UnexpectedResponse {
        /// The address of the server.
        address: String,
        /// The cause.
        cause: String,
    },
    /// The API responded with a problem.
    #[error("{detail} ({code}, HTTP {status})")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The code of the problem.
        code: String,
        /// The cause, for people.
        detail: String,
    },
}

impl ClientError {
    /// The HTTP status of a problem.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// An HTTP response.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// One event of a watch.
#[derive(Debug, Clone)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: String,
    /// The revision of the change.
    pub revision: Revision,
    /// The resource after the change, or before its removal.
    pub resource: Resource,
}

/// A list response.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ListOf<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// The number of items on all pages.
    pub total: u64,
}

type Connector = HttpsConnector<HttpConnector>;

/// A client. Clones share connections.
#[derive(Clone, Debug)]
pub struct Client {
    base: String,
    http: hyper_util::client::legacy::Client<Connector, Full<Bytes>>,
    headers: HeaderMap,
}

impl Client {
    /// A client of the API at an address such as `http://127.0.0.1:8000`. It trusts the CA certificates of the machine, or those of
    /// the file `trusted`.
    pub fn new(address: &str, trusted: Option<&Path>) -> Result<Self, ClientError> {
        let base = address.trim_end_matches('/').trim_end_matches(BASE_PATH).to_owned();
        let uri: Option<Uri> = base.parse().ok();
        if has_credentials(&base) {
            return Err(ClientError::Credentials);
        }
        if !uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
        {
            return Err(ClientError::Address(address.to_owned()));
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls_config(trusted)?)
            .https_or_http()
            .enable_http1()
            .build();
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(connector);
        Ok(Self { base, http, headers: HeaderMap::new() })
    }

    /// Sends a header with every request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Sends a bearer token with every request.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        match HeaderValue::from_str(&format!("Bearer {}", token.trim())) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.header(header::AUTHORIZATION, value)
            }
            // A token that is not a valid header value cannot be valid.
            Err(_) => self,
        }
    }

    /// Sends a request and returns the response, whatever its status. The path begins with a slash.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        self.send_within(request, RESPONSE_TIMEOUT, MAX_RESPONSE_BYTES).await
    }

    /// Gets a path, with its own limits of time and size.
    pub(crate) async fn fetch(
        &self,
        path: &str,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Bytes, ClientError> {
        let request = Request::builder().uri(path).body(Full::default());
        let request = request.map_err(|_| ClientError::Address(path.to_owned()))?;
        let answer = self.send_within(request, timeout, max_bytes).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(self.unreachable(format!("HTTP {status}"))),
        }
    }

    async fn send_within(
        &self,
        request: Request<Full<Bytes>>,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Answer, ClientError> {
        self.within(timeout, async { self.collect(self.start(request).await?, max_bytes).await }).await
    }

    async fn within<T>(
        &self,
        timeout: Duration,
        operation: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, ClientError> {
        let outcome = tokio::time::timeout(timeout, operation).await;
        outcome.unwrap_or_else(|_| Err(self.unreachable(format!("it took longer than {timeout:?}"))))
    }

    async fn collect(
        &self,
        response: axum::http::Response<hyper::body::Incoming>,
        max_bytes: usize,
    ) -> Result<Answer, ClientError> {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, max_bytes).collect().await;
        let body = body.map_err(|error| self.unreachable(format!("the response was cut off: {error}")))?;
        Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
    }

    async fn start(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<axum::http::Response<hyper::body::Incoming>, ClientError> {
        let uri = format!("{}{}", self.base, request.uri());
        *request.uri_mut() = uri.parse().map_err(|_| ClientError::Address(uri))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        self.http.request(request).await.map_err(|error| self.unreachable(format_causes(&error)))
    }

    /// Sends JSON to a path below the base path of the API, and parses the JSON of the response. A problem is an error.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        let answer = self.call_raw(method, path, body).await?;
        serde_json::from_slice(&answer.body).map_err(|error| self.unexpected(format!("{error}")))
    }

    /// Like [`call`](Self::call), but does not parse the response.
    pub async fn call_raw(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, ClientError> {
        let mut request = Request::builder().method(method).uri(format!("{BASE_PATH}{path}"));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let request = request.body(Full::new(bytes)).map_err(|_| ClientError::Address(path.to_owned()))?;
        let answer = self.send(request).await?;
        if answer.status.is_success() { Ok(answer) } else { Err(self.problem(&answer)) }
    }

    /// Watches a collection, such as `/clusters`, from a revision on. From revision 0 it gets all resources, and then every change.
    pub async fn watch(
        &self,
        path: &str,
        since: Revision,
    ) -> Result<impl Stream<Item = Result<WatchEvent, ClientError>> + Send + use<>, ClientError> {
        let uri = format!("{BASE_PATH}{path}?watch=true&since={since}");
        let request = Request::builder().uri(&uri).body(Full::default());
        let request = request.map_err(|_| ClientError::Address(path.to_owned()))?;
        let opening = async {
            let response = self.start(request).await?;
            if response.status() == StatusCode::OK {
                return Ok(response);
            }
            Err(self.problem(&self.collect(response, MAX_RESPONSE_BYTES).await?))
        };
        let response = self.within(RESPONSE_TIMEOUT, opening).await?;
        let reader = EventReader {
            body: BodyStream::new(response.into_body()),
            buffer: Vec::new(),
            searched: 0,
            client: self.clone(),
        };
        Ok(futures::stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next_event().await?.map(|event| (event, reader)))
        }))
    }

    fn unreachable(&self, cause: String) -> ClientError {
        ClientError::Unreachable { address: self.base.clone(), cause }
    }

    fn unexpected(&self, cause: String) -> ClientError {
        ClientError::UnexpectedResponse { address: self.base.clone(), cause }
    }

    fn problem(&self, answer: &Answer) -> ClientError {
        let problem: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let text = |field: &str| Some(problem.as_ref()?.get(field)?.as_str()?.to_owned());
        match (text("code"), text("detail")) {
            (Some(code), Some(detail)) => ClientError::Refused { status: answer.status, code, detail },
            _ => self.unexpected(format!("HTTP {}", answer.status)),
        }
    }
}

/// Whether a URL has a user or a password.
pub fn has_credentials(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    authority.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Parses the server-sent events of a watch.
struct EventReader {
    body: BodyStream<hyper::body::Incoming>,
    buffer: Vec<u8>,
    /// How much of the buffer has no end of an event. A large event arrives in many frames, and each byte is searched once.
    searched: usize,
    client: Client,
}

impl EventReader {
    async fn next_event(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        loop {
            if let Some(block) = self.next_block() {
                match self.parse(&block)? {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                return Err(self.client.unexpected("a watch event is too large".to_owned()));
            }
            let next = tokio::time::timeout(WATCH_IDLE_TIMEOUT, self.body.next());
            match next.await {
                Err(_) => {
                    return Err(self
                        .client
                        .unreachable(format!("the watch received nothing for {WATCH_IDLE_TIMEOUT:?}")));
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(self.client.unreachable(format_causes(&error))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    /// Removes the first event from the buffer, if it is complete.
    fn next_block(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        match rest.windows(2).position(|pair| pair == b"\n\n") {
            Some(end) => {
                let end = self.searched + end + 2;
                self.searched = 0;
                Some(self.buffer.drain(..end).collect())
            }
            None => {
                self.searched = self.buffer.len().saturating_sub(1);
                None
            }
        }
    }

    fn parse(&self, block: &[u8]) -> Result<Option<WatchEvent>, ClientError> {
        let text = std::str::from_utf8(block)
            .map_err(|_| self.client.unexpected("a watch event is not UTF-8".to_owned()))?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let (Some(event), Some(data)) = (field("event"), field("data")) else { return Ok(None) };
        if event == "ERROR" {
            let problem: Value = serde_json::from_str(data).unwrap_or_default();
            let text =
                |field: &str| problem.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
            let status = problem.get("status").and_then(Value::as_u64).unwrap_or(500);
            let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
            return Err(ClientError::Refused {
                status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                code: text("code"),
                detail: text("detail"),
            });
        }
        let resource =
            serde_json::from_str(data).map_err(|error| self.client.unexpected(error.to_string()))?;
        let revision = field("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        Ok(Some(WatchEvent { event: event.to_owned(), revision, resource }))
    }
}

fn tls_config(trusted: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let unreadable =
        |path: &Path, cause: String| ClientError::Certificates { path: path.display().to_string(), cause };
    let mut roots = RootCertStore::empty();
    match trusted {
        // If the machine has no CA certificates, plain HTTP still works.
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
        Some(path) => {
            let certificates =
                CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
            let certificates = certificates.map_err(|error| unreadable(path, error.to_string()))?;
            for certificate in certificates {
                roots.add(certificate).map_err(|error| unreadable(path, error.to_string()))?;
            }
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let versions = versions.map_err(|error| unreadable(Path::new(""), error.to_string()))?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

/// Formats an error with its causes in one line.
fn format_causes(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    message
}
