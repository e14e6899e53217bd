//! Raw requests, which are sent byte for byte as the test made them, and their responses with status, headers
//! and body.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use kube::client::Body;
use serde_json::Value;

/// A request that a test sends.
#[derive(Clone, Debug)]
pub struct Call {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Call {
    /// A request with any method.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self { method, path: path.into(), headers: Vec::new(), body: Bytes::new() }
    }

    /// A GET.
    pub fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A POST of a JSON document.
    pub fn post(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::POST, path).json(body)
    }

    /// A PUT of a JSON document.
    pub fn put(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PUT, path).json(body)
    }

    /// A DELETE without a body.
    pub fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// A JSON merge patch.
    pub fn merge(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PATCH, path).body("application/merge-patch+json", body.to_string())
    }

    /// A JSON patch.
    pub fn json_patch(path: impl Into<String>, body: &Value) -> Self {
        Self::new(Method::PATCH, path).body("application/json-patch+json", body.to_string())
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// Sets a body and its media type.
    #[must_use]
    pub fn body(mut self, media: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", media)
    }

    /// Sets a body without the header `Content-Type`.
    #[must_use]
    pub fn plain_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the media type of the response, in the header `Accept`.
    #[must_use]
    pub fn accept(self, media: &str) -> Self {
        self.header("accept", media)
    }

    pub(crate) fn into_request(self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body)).expect("the test made an invalid request")
    }
}

/// The response to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status code.
    pub status: u16,
    /// All headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Answer {
    /// The body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header as text, or an empty text if the response does not have it.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Asserts that the response has this status code, and returns its JSON body.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// Asserts that the response is a Status `Failure` with this code and reason, and returns it for further
    /// assertions.
    #[track_caller]
    pub fn expect_failure(&self, status: u16, reason: &str) -> FailureStatus {
        let body = self.expect(status);
        assert_eq!(body["kind"], "Status", "{body}");
        assert_eq!(body["status"], "Failure", "{body}");
        assert_eq!(body["code"], status, "{body}");
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{body}");
        FailureStatus(body)
    }
}

/// A Status `Failure`, the error response of the Kubernetes API.
#[derive(Clone, Debug)]
pub struct FailureStatus(pub Value);

impl FailureStatus {
    /// The message.
    pub fn message(&self) -> &str {
        self.0["message"].as_str().unwrap_or_default()
    }

    /// Asserts that the message contains a text.
    #[track_caller]
    pub fn assert_message(&self, text: &str) -> &Self {
        assert!(self.message().contains(text), "{:?} does not contain {text:?}", self.message());
        self
    }

    /// Asserts that the details name this group, kind and object.
    #[track_caller]
    pub fn assert_details(&self, group: &str, kind: &str, name: &str) -> &Self {
        let detail = |key: &str| self.0["details"][key].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (detail("group").as_str(), detail("kind").as_str(), detail("name").as_str()),
            (group, kind, name),
            "{}",
            self.0
        );
        self
    }

    /// Asserts that one of the causes has this reason and field.
    #[track_caller]
    pub fn assert_cause(&self, reason: &str, field: &str) -> &Self {
        let causes = self.0["details"]["causes"].as_array().cloned().unwrap_or_default();
        let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
        assert!(
            causes.iter().any(|cause| text(cause, "reason") == reason && text(cause, "field") == field),
            "no cause {reason} at {field:?}: {}",
            self.0
        );
        self
    }
}
