//! Raw requests: exactly these bytes go out, and everything that came back is there to be looked at.

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use kube::client::Body;
use serde_json::Value;

/// A request to be sent.
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

    /// With a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.body("application/json", body.to_string())
    }

    /// With a body of some media type.
    #[must_use]
    pub fn body(mut self, media: &str, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self.header("content-type", media)
    }

    /// With a body that does not say what it is.
    #[must_use]
    pub fn plain_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// With one more header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Asking for answers of this media type.
    #[must_use]
    pub fn accept(self, media: &str) -> Self {
        self.header("accept", media)
    }

    pub(crate) fn into_request(self) -> Request<Body> {
        let mut request = Request::builder().method(self.method).uri(self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Body::from(self.body)).expect("the test made a request that cannot be sent")
    }
}

/// What came back.
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
    /// The body as JSON, or null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header as text, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The JSON body, if the code is the one expected; else a panic that shows both.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The message of a Status that refuses with this code and reason.
    #[track_caller]
    pub fn refused(&self, status: u16, reason: &str) -> Refused {
        let body = self.expect(status);
        assert_eq!(body["kind"], "Status", "{body}");
        assert_eq!(body["status"], "Failure", "{body}");
        assert_eq!(body["code"], status, "{body}");
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{body}");
        Refused(body)
    }
}

/// A Status that refuses something.
#[derive(Clone, Debug)]
pub struct Refused(pub Value);

impl Refused {
    /// The words for a person.
    pub fn message(&self) -> &str {
        self.0["message"].as_str().unwrap_or_default()
    }

    /// Asserts that the message contains these words.
    #[track_caller]
    pub fn says(&self, words: &str) -> &Self {
        assert!(self.message().contains(words), "{:?} does not say {words:?}", self.message());
        self
    }

    /// Asserts on what it is about.
    #[track_caller]
    pub fn about(&self, group: &str, kind: &str, name: &str) -> &Self {
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
    pub fn because(&self, reason: &str, field: &str) -> &Self {
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
