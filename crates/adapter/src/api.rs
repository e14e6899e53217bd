//! Calls of HTTP APIs: the fleet API, and others by absolute URLs. Retries, delays, times and sizes are limited.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bellwether_fleet::client::Client;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use parking_lot::Mutex;

use crate::config::{ApiCall, ApiConfig, RetryBackoff, read_limited};

/// The largest response that is used.
const MAX_RESPONSE_BYTES: usize = 8 * 1024 * 1024;
/// The most servers that connections are kept to.
const MAX_SERVERS: usize = 16;
const BASE_PATH: &str = "/api/hyperfleet";

/// A rendered call.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiRequest {
    /// The method.
    pub method: String,
    /// An absolute path of the fleet API, or an absolute URL.
    pub url: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
    /// How long one attempt may take.
    pub timeout: Duration,
    /// How often the call is attempted, at least once.
    pub attempts: u32,
    /// How the delay between attempts grows.
    pub backoff: RetryBackoff,
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl ApiResponse {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Whether the API says that the resource does not exist: 404 with another code than that of an unknown endpoint.
    pub fn is_resource_missing(&self) -> bool {
        self.status == 404 && !self.body.contains("NTF-000")
    }

    /// The response in a message: status, and the beginning of the body.
    pub fn describe(&self) -> String {
        let body: String = self.body.chars().take(300).collect();
        format!("HTTP {}: {}", self.status, body.trim())
    }
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The server does not respond, or not in time.
    #[error(
        "{method} {url}: no response after {attempts} attempts: {cause}; check that the API is up and reachable"
    )]
    Unreachable {
        /// The method.
        method: String,
        /// The URL.
        url: String,
        /// How often it was attempted.
        attempts: u32,
        /// The last error.
        cause: String,
    },
    /// The request cannot be sent.
    #[error("{method} {url}: the request is invalid: {cause}; fix the url or headers of the api_call")]
    Invalid {
        /// The method.
        method: String,
        /// The URL.
        url: String,
        /// What is wrong.
        cause: String,
    },
}

/// Calls APIs. The response to the last attempt is returned, whatever its status.
#[async_trait]
pub trait Api: Send + Sync {
    /// Calls an API.
    async fn call(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError>;
}

/// The URL of a call: absolute URLs stay, and relative ones are below the base path of the fleet API unless they begin with
/// `api/`.
pub fn resolve_url(url: &str, version: &str) -> String {
    if url.contains("://") {
        return url.to_owned();
    }
    let path = url.trim_start_matches('/');
    if path.starts_with("api/") { format!("/{path}") } else { format!("{BASE_PATH}/{version}/{path}") }
}

/// Renders nothing: combines the settings of a call with those of the client.
pub fn request_settings(call: &ApiCall, config: &ApiConfig) -> (Duration, u32, RetryBackoff) {
    let attempts = call.retry_attempts.unwrap_or(config.retry_attempts).max(1);
    (call.timeout.unwrap_or(config.timeout), attempts, call.retry_backoff.unwrap_or(config.retry_backoff))
}

/// Calls APIs over HTTP.
pub struct HttpApi {
    config: ApiConfig,
    clients: Mutex<HashMap<String, Client>>,
}

impl HttpApi {
    /// A client with the configuration of the adapter.
    pub fn new(config: ApiConfig) -> Arc<Self> {
        Arc::new(Self { config, clients: Mutex::default() })
    }

    fn client(&self, server: &str) -> Result<Client, String> {
        if let Some(client) = self.clients.lock().get(server) {
            return Ok(client.clone());
        }
        let client = Client::new(server, None).map_err(|error| error.to_string())?;
        let mut clients = self.clients.lock();
        if clients.len() >= MAX_SERVERS {
            clients.clear();
        }
        clients.insert(server.to_owned(), client.clone());
        Ok(client)
    }

    fn build(&self, request: &ApiRequest) -> Result<(Client, Request<Full<Bytes>>), String> {
        let Destination { server, path, is_fleet_api } =
            Destination::of(&request.url, &self.config.base_url)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|error| error.to_string())?;
        let body = request.body.clone().unwrap_or_default();
        let mut built = Request::builder().method(method).uri(path).body(Full::new(Bytes::from(body)));
        let built = built.as_mut().map_err(|error| error.to_string())?;
        let mut set = |name: &str, value: &str| {
            let name =
                HeaderName::try_from(name).map_err(|_| format!("{name:?} is not the name of a header"))?;
            let value =
                HeaderValue::try_from(value).map_err(|_| format!("the value of {name} is not valid"))?;
            built.headers_mut().insert(name, value);
            Ok::<(), String>(())
        };
        set("accept", "application/json")?;
        if request.body.is_some() {
            set("content-type", "application/json")?;
        }
        // Credentials and headers of the configuration are for the fleet API alone.
        if is_fleet_api {
            for (name, value) in &self.config.default_headers {
                set(name, value)?;
            }
            if let Some(path) = &self.config.token_path {
                let token =
                    read_limited(path).map_err(|error| format!("token {}: {error}", path.display()))?;
                set("authorization", &format!("Bearer {}", token.trim()))?;
            }
        }
        for (name, value) in &request.headers {
            set(name, value)?;
        }
        Ok((self.client(&server)?, built.clone()))
    }

    async fn attempt(&self, request: &ApiRequest) -> Result<Result<ApiResponse, String>, ApiError> {
        let (client, built) = self.build(request).map_err(|cause| {
            let (method, url) = (request.method.clone(), request.url.clone());
            ApiError::Invalid { method, url, cause }
        })?;
        let answer = match tokio::time::timeout(request.timeout, client.send(built)).await {
            Err(_) => return Ok(Err(format!("it took longer than {:?}", request.timeout))),
            Ok(Err(error)) => return Ok(Err(error.to_string())),
            Ok(Ok(answer)) => answer,
        };
        if answer.body.len() > MAX_RESPONSE_BYTES {
            return Ok(Err(format!("the response has more than {MAX_RESPONSE_BYTES} bytes")));
        }
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        Ok(Ok(ApiResponse { status: answer.status.as_u16(), body }))
    }
}

/// Where a call is sent.
#[derive(Debug, PartialEq, Eq)]
struct Destination {
    server: String,
    path: String,
    /// Whether it is the fleet API, so that the call may have its credentials.
    is_fleet_api: bool,
}

impl Destination {
    fn of(url: &str, base: &str) -> Result<Self, String> {
        if !url.contains("://") {
            return Ok(Self { server: base.to_owned(), path: url.to_owned(), is_fleet_api: true });
        }
        let parse = |url: &str| url.parse::<Uri>().map_err(|error| format!("{url:?}: {error}"));
        let uri = parse(url)?;
        let (scheme, host, port) = origin(&uri)?;
        Ok(Self {
            server: format!("{scheme}://{host}:{port}"),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            is_fleet_api: is_below(&uri, &parse(base)?)?,
        })
    }
}

/// The scheme, host and port of a URL.
fn origin(uri: &Uri) -> Result<(String, String, u16), String> {
    let scheme = uri.scheme_str().unwrap_or_default().to_lowercase();
    let default_port = match scheme.as_str() {
        "http" => 80,
        "https" => 443,
        _ => return Err(format!("the scheme {scheme:?} is not http or https")),
    };
    let host = uri.host().unwrap_or_default().to_lowercase();
    Ok((scheme, host, uri.port_u16().unwrap_or(default_port)))
}

/// Whether a URL has the origin of the base, and a path at or below that of the base.
fn is_below(uri: &Uri, base: &Uri) -> Result<bool, String> {
    let rest = uri.path().strip_prefix(base.path().trim_end_matches('/'));
    let is_path_below = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    Ok(is_path_below && origin(uri)? == origin(base)?)
}

fn is_retried(status: u16) -> bool {
    status >= 500 || matches!(status, 408 | 429)
}

#[async_trait]
impl Api for HttpApi {
    async fn call(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError> {
        let mut attempt = 1;
        loop {
            let outcome = self.attempt(request).await?;
            let is_final = attempt >= request.attempts;
            match outcome {
                Ok(response) if is_final || !is_retried(response.status) => return Ok(response),
                Err(cause) if is_final => {
                    let (method, url) = (request.method.clone(), request.url.clone());
                    return Err(ApiError::Unreachable { method, url, attempts: attempt, cause });
                }
                Ok(response) => {
                    tracing::debug!(url = %request.url, status = response.status, attempt, "retrying a call")
                }
                Err(cause) => tracing::debug!(url = %request.url, %cause, attempt, "retrying a call"),
            }
            let delay = request.backoff.delay(attempt, self.config.base_delay, self.config.max_delay);
            // Jitter takes up to a quarter off, so that calls that failed together are not retried together.
            tokio::time::sleep(delay.mul_f64(1.0 - rand::random::<f64>() / 4.0)).await;
            attempt += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_urls_are_below_the_base_path() {
        for (url, expected) in [
            ("clusters/1", "/api/hyperfleet/v1/clusters/1"),
            ("/clusters/1", "/api/hyperfleet/v1/clusters/1"),
            ("/api/hyperfleet/v1/clusters/1", "/api/hyperfleet/v1/clusters/1"),
            ("api/other/x", "/api/other/x"),
            ("https://example.test/x", "https://example.test/x"),
        ] {
            assert_eq!(resolve_url(url, "v1"), expected, "{url}");
        }
    }

    #[test]
    fn missing_resource_differs_from_an_unknown_endpoint() {
        let response = |status, body: &str| ApiResponse { status, body: body.to_owned() };
        assert!(response(404, r#"{"code":"HYPERFLEET-NTF-001"}"#).is_resource_missing());
        assert!(!response(404, r#"{"code":"HYPERFLEET-NTF-000"}"#).is_resource_missing());
        assert!(!response(500, "").is_resource_missing());
    }

    #[test]
    fn credentials_are_for_the_fleet_api_alone() {
        for (base, url, is_fleet_api) in [
            ("http://api:8000", "/api/x", true),
            ("http://api:8000/", "http://api:8000/api/x", true),
            ("http://api:8000", "http://API:8000", true),
            ("http://api:8000", "http://api:8000?x=1", true),
            ("http://api", "http://api:80/x", true),
            ("https://api:443/", "https://api/x", true),
            ("http://user:pw@api", "http://api/x", true),
            ("http://api/base/", "http://api/base/x", true),
            ("http://api/base", "http://api/base", true),
            ("http://api/base", "http://api/based/x", false),
            ("http://api/base", "http://api/x", false),
            ("http://api:8000", "http://api:8001/x", false),
            ("http://api:8000", "http://api:80000/x", false),
            ("http://api", "https://api/x", false),
            ("http://api", "http://api.example.com/x", false),
            ("http://api", "http://api@example.com/x", false),
        ] {
            let found = Destination::of(url, base);
            assert_eq!(found.is_ok_and(|found| found.is_fleet_api), is_fleet_api, "{url} and {base}");
        }
        let found = Destination::of("https://user:pw@Other/x?a=b#c", "http://api").unwrap();
        assert_eq!((found.server.as_str(), found.path.as_str()), ("https://other:443", "/x?a=b"));
        assert!(Destination::of("ftp://x/y", "http://api").is_err());
    }
}
