//! The middleware of every request: request and trace IDs, a log line, metrics, a response after a panic, and compression.
//!
//! Headers and bodies are never logged: headers contain credentials, and specs may contain secrets.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::{BoxError, Router};
use futures::FutureExt as _;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};
use tracing::Instrument as _;
use tracing::field::Empty;
use uuid::Uuid;

use super::problem::Problem;
use super::{Api, metrics};

/// The header with the ID of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header with the caller's trace.
const TRACE_PARENT: &str = "traceparent";
/// Smaller responses are not compressed.
const MIN_COMPRESSED_BYTES: u64 = 1024;

/// The IDs of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    /// The unique ID of the request.
    pub(crate) request: String,
    /// The ID of its trace; the ID of the request if the caller sends none.
    pub(crate) trace: String,
}

impl RequestIds {
    fn of(headers: &HeaderMap) -> Self {
        let request = Uuid::now_v7().to_string();
        let from_caller = headers.get(TRACE_PARENT).and_then(|value| trace_of(value.to_str().ok()?));
        Self { trace: from_caller.map_or_else(|| request.clone(), str::to_owned), request }
    }
}

/// Parses the trace ID of a header `traceparent` (W3C Trace Context).
fn trace_of(parent: &str) -> Option<&str> {
    let hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let not_zero = |text: &str| text.bytes().any(|digit| digit != b'0');
    let mut parts = parent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may have more parts; version 00 has exactly four.
    let known = hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let is_valid =
        known && hex(trace, 32) && not_zero(trace) && hex(span, 16) && not_zero(span) && hex(flags, 2);
    is_valid.then_some(trace)
}

/// Adds the middleware to routes.
pub(super) fn with_middleware(routes: Router<Arc<Api>>, api: Arc<Api>) -> Router {
    let compressed = SizeAbove::new(MIN_COMPRESSED_BYTES).and(NotForContentType::SSE);
    routes
        .route_layer(from_fn_with_state(api.clone(), observe))
        .route_layer(CompressionLayer::new().compress_when(compressed))
        .with_state(api)
}

async fn observe(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let ids = RequestIds::of(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", id = %ids.request, trace = %ids.trace, caller = Empty);
    request.extensions_mut().insert(ids.clone());
    let outcome = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let mut response = outcome.unwrap_or_else(|panic| {
        tracing::error!(parent: &span, %method, %path, message = panic_message(&*panic), "the handler of a request panicked");
        Problem::internal().response(&path, &ids.trace, api.fleet.now())
    });
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&ids.request) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Authorization"));
    let (status, took) = (response.status().as_u16(), started.elapsed());
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(parent: &span, %method, %path, status, milliseconds, "request finished");
    api.metrics.record_request(&method, &metrics::path_label(api.fleet.kinds(), &path), status, took);
    response
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// A body is larger than the limit.
#[derive(Debug, thiserror::Error)]
#[error("the body has more than {0} bytes")]
pub(crate) struct TooLarge(usize);

/// Limits a body: reading more bytes fails with [`TooLarge`].
pub(super) fn limited(body: Body, limit: usize) -> Body {
    Body::new(Limited::new(body, limit).map_err(move |error| {
        if error.is::<LengthLimitError>() { BoxError::from(TooLarge(limit)) } else { error }
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn trace_id_is_parsed_from_a_valid_header() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        let rows = [
            (format!("00-{TRACE}-00f067aa0ba902b7-01"), true),
            (format!("01-{TRACE}-00f067aa0ba902b7-01-more"), true),
            (format!("00-{TRACE}-00f067aa0ba902b7-01-more"), false),
            (format!("ff-{TRACE}-00f067aa0ba902b7-01"), false),
            (format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()), false),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-0000000000000000-01"), false),
            (format!("00-{TRACE}-00f067aa0ba902b7"), false),
            (format!("00-{TRACE}-00f067aa0ba902b7-1"), false),
            (TRACE.to_owned(), false),
            (String::new(), false),
        ];
        for (parent, is_valid) in rows {
            assert_eq!(trace_of(&parent), is_valid.then_some(TRACE), "{parent}");
        }
    }

    #[tokio::test]
    async fn panic_is_a_problem_with_the_id_of_its_log_line() {
        use tower::ServiceExt as _;

        use crate::config::Limits;
        use crate::http::Access;
        use crate::kinds::Kinds;
        use crate::store::sqlite::Sqlite;
        use crate::vocabulary::Vocabulary;

        let kinds = Kinds::new(Vec::new(), Vocabulary::default()).unwrap();
        let store = Arc::new(Sqlite::in_memory().unwrap());
        let (fleet, _) = crate::Fleet::open(store, kinds, Arc::new(bellwether_clock::SystemClock));
        let metrics = bellwether_runtime::Metrics::default();
        let stopping = tokio_util::sync::CancellationToken::new();
        let api = Arc::new(Api::new(fleet, Access::default(), Limits::default(), &metrics, stopping));
        let panics = axum::routing::get(|| async {
            if true {
                panic!("on purpose")
            }
        });
        let routes = with_middleware(Router::new().route("/panics", panics), api);
        let response = routes.oneshot(Request::get("/panics").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), 500);
        let id = response.headers()[REQUEST_ID].to_str().unwrap().to_owned();
        let problem = response.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&problem).unwrap();
        assert_eq!((&problem["code"], &problem["trace_id"]), (&"HYPERFLEET-INT-001".into(), &id.into()));
    }
}
