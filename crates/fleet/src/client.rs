//! A client of the fleet API, or of what else speaks JSON over HTTP: one that bounds how long it waits and how much it
//! reads, and that says what went wrong with what.

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

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(35);
/// How large an answer may be: a full page of the largest resources.
const LARGEST: usize = 128 * 1024 * 1024;
/// How long a watch may be silent. The server says every 15 seconds that it is there.
const SILENCE: Duration = Duration::from_secs(45);
/// How large one event may be.
const LARGEST_EVENT: usize = 8 * 1024 * 1024;

/// Why there is no answer that can be used.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address makes no sense.
    #[error("{0:?} is not an address of an API, such as http://127.0.0.1:8000")]
    Address(String),
    /// The certificates to trust cannot be read.
    #[error("cannot read certificates from {path}: {words}")]
    Certificates {
        /// From where.
        path: String,
        /// Why.
        words: String,
    },
    /// Nobody answers.
    #[error("no answer from {address}: {words}")]
    Unreachable {
        /// Who was asked.
        address: String,
        /// Why.
        words: String,
    },
    /// The answer is not what the API answers.
    #[error("{address} does not answer like the fleet API: {words}")]
    Strange {
        /// Who was asked.
        address: String,
        /// Why.
        words: String,
    },
    /// The API says no.
    #[error("{detail} ({code}, HTTP {status})")]
    Refused {
        /// The HTTP status.
        status: StatusCode,
        /// The code of the problem.
        code: String,
        /// Why, in words.
        detail: String,
    },
}

impl ClientError {
    /// The HTTP status, where the API says no.
    pub fn status(&self) -> Option<StatusCode> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            _ => None,
        }
    }
}

/// What came back.
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
    /// Its revision.
    pub revision: Revision,
    /// The resource as it is, or last was.
    pub resource: Resource,
}

/// A list as it comes back.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ListOf<T> {
    /// The items of the page.
    pub items: Vec<T>,
    /// How many there are on all pages.
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
    /// A client of the API at an address such as `http://127.0.0.1:8000`. Certificates are checked by those that the
    /// machine trusts, or by those of a file.
    pub fn new(address: &str, trusted: Option<&Path>) -> Result<Self, ClientError> {
        let base = address.trim_end_matches('/').trim_end_matches(BASE_PATH).to_owned();
        let uri: Option<Uri> = base.parse().ok();
        if !uri.is_some_and(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some())
        {
            return Err(ClientError::Address(address.to_owned()));
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(trusted)?)
            .https_or_http()
            .enable_http1()
            .build();
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(Duration::from_secs(30))
            .build(connector);
        Ok(Self { base, http, headers: HeaderMap::new() })
    }

    /// With a header in every request.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With a bearer token in every request.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        match HeaderValue::from_str(&format!("Bearer {}", token.trim())) {
            Ok(mut value) => {
                value.set_sensitive(true);
                self.header(header::AUTHORIZATION, value)
            }
            // A token with such characters lets nobody in anyway.
            Err(_) => self,
        }
    }

    /// Sends a request as it is, and returns whatever comes back. The path begins with a slash.
    pub async fn send(&self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        self.send_within(request, PATIENCE, LARGEST).await
    }

    /// Reads what is at a path, within bounds of its own.
    pub(crate) async fn fetch(
        &self,
        path: &str,
        patience: Duration,
        largest: usize,
    ) -> Result<Bytes, ClientError> {
        let request = Request::builder().uri(path).body(Full::default());
        let request = request.map_err(|_| ClientError::Address(path.to_owned()))?;
        let answer = self.send_within(request, patience, largest).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.body),
            status => Err(self.unreachable(format!("it answers with HTTP {status}"))),
        }
    }

    async fn send_within(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
        largest: usize,
    ) -> Result<Answer, ClientError> {
        let whole = async {
            let response = self.begin(request).await?;
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, largest).collect().await;
            let body = body.map_err(|error| self.unreachable(format!("the answer was cut off: {error}")))?;
            Ok(Answer { status: parts.status, headers: parts.headers, body: body.to_bytes() })
        };
        match tokio::time::timeout(patience, whole).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.unreachable(format!("it took longer than {patience:?}"))),
        }
    }

    async fn begin(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<axum::http::Response<hyper::body::Incoming>, ClientError> {
        let uri = format!("{}{}", self.base, request.uri());
        *request.uri_mut() = uri.parse().map_err(|_| ClientError::Address(uri))?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        self.http.request(request).await.map_err(|error| self.unreachable(in_full(&error)))
    }

    /// Sends JSON to a path below the base path of the API, and reads JSON; a problem is an error.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T, ClientError> {
        let answer = self.call_raw(method, path, body).await?;
        serde_json::from_slice(&answer.body).map_err(|error| self.strange(format!("{error}")))
    }

    /// Like [`call`](Self::call), where nothing need come back.
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
        if answer.status.is_success() { Ok(answer) } else { Err(self.refused(&answer)) }
    }

    /// Watches a collection, such as `/clusters`, from a revision on; from 0: all that there is, and then every change.
    pub async fn watch(
        &self,
        path: &str,
        since: Revision,
    ) -> Result<impl Stream<Item = Result<WatchEvent, ClientError>> + Send + use<>, ClientError> {
        let uri = format!("{BASE_PATH}{path}?watch=true&since={since}");
        let request = Request::builder().uri(&uri).body(Full::default());
        let request = request.map_err(|_| ClientError::Address(path.to_owned()))?;
        let response = tokio::time::timeout(PATIENCE, self.begin(request));
        let response =
            response.await.map_err(|_| self.unreachable(format!("it took longer than {PATIENCE:?}")))??;
        if response.status() != StatusCode::OK {
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, LARGEST).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            return Err(self.refused(&Answer { status: parts.status, headers: parts.headers, body }));
        }
        let lines =
            Lines { body: BodyStream::new(response.into_body()), held: Vec::new(), client: self.clone() };
        Ok(futures::stream::try_unfold(lines, |mut lines| async move {
            Ok(lines.event().await?.map(|event| (event, lines)))
        }))
    }

    fn unreachable(&self, words: String) -> ClientError {
        ClientError::Unreachable { address: self.base.clone(), words }
    }

    fn strange(&self, words: String) -> ClientError {
        ClientError::Strange { address: self.base.clone(), words }
    }

    fn refused(&self, answer: &Answer) -> ClientError {
        let problem: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let text = |field: &str| Some(problem.as_ref()?.get(field)?.as_str()?.to_owned());
        match (text("code"), text("detail")) {
            (Some(code), Some(detail)) => ClientError::Refused { status: answer.status, code, detail },
            _ => self.strange(format!("HTTP {}", answer.status)),
        }
    }
}

/// The events of a watch, as they come in.
struct Lines {
    body: BodyStream<hyper::body::Incoming>,
    held: Vec<u8>,
    client: Client,
}

impl Lines {
    async fn event(&mut self) -> Result<Option<WatchEvent>, ClientError> {
        loop {
            if let Some(end) = self.held.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.held.drain(..end + 2).collect();
                match self.understand(&block)? {
                    Some(event) => return Ok(Some(event)),
                    None => continue,
                }
            }
            if self.held.len() > LARGEST_EVENT {
                return Err(self.client.strange("an event has no end".to_owned()));
            }
            let next = tokio::time::timeout(SILENCE, self.body.next());
            match next.await {
                Err(_) => return Err(self.client.unreachable(format!("nothing was heard for {SILENCE:?}"))),
                Ok(None) => return Ok(None),
                Ok(Some(Err(error))) => return Err(self.client.unreachable(in_full(&error))),
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.held.extend_from_slice(&data);
                    }
                }
            }
        }
    }

    fn understand(&self, block: &[u8]) -> Result<Option<WatchEvent>, ClientError> {
        let text =
            std::str::from_utf8(block).map_err(|_| self.client.strange("an event is not text".to_owned()))?;
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
        let resource = serde_json::from_str(data).map_err(|error| self.client.strange(error.to_string()))?;
        let revision = field("id").and_then(|id| id.parse().ok()).unwrap_or_default();
        Ok(Some(WatchEvent { event: event.to_owned(), revision, resource }))
    }
}

fn tls(trusted: Option<&Path>) -> Result<ClientConfig, ClientError> {
    let unreadable =
        |path: &Path, words: String| ClientError::Certificates { path: path.display().to_string(), words };
    let mut roots = RootCertStore::empty();
    match trusted {
        // Where the machine trusts nobody, plain HTTP still works.
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

/// An error with its causes, in one line.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(": ");
        words.push_str(&error.to_string());
        cause = error.source();
    }
    words
}
