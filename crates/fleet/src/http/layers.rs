//! What is around every request: its ids, its line in the log, its counts, an answer even where we panic, and compression.
//!
//! Neither headers nor bodies are ever logged: they carry credentials, and specs carry secrets.

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

/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header by which callers say which trace a request is part of.
const TRACE_PARENT: &str = "traceparent";
/// Smaller answers are not worth compressing.
const WORTH_COMPRESSING: u64 = 1024;

/// What a request is called.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    /// Its own id; no other request has it.
    pub(crate) request: String,
    /// That of the trace it is part of; its own, where the caller names none.
    pub(crate) trace: String,
}

impl RequestIds {
    fn of(headers: &HeaderMap) -> Self {
        let request = Uuid::now_v7().to_string();
        let told = headers.get(TRACE_PARENT).and_then(|value| trace_of(value.to_str().ok()?));
        Self { trace: told.map_or_else(|| request.clone(), str::to_owned), request }
    }
}

/// The trace of a header `traceparent`, as the Trace Context of the W3C has it.
fn trace_of(parent: &str) -> Option<&str> {
    let hex = |text: &str, length| {
        text.len() == length && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
    };
    let not_zero = |text: &str| text.bytes().any(|digit| digit != b'0');
    let mut parts = parent.split('-');
    let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    // Later versions may say more; the first says no more.
    let known = hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let fits = known && hex(trace, 32) && not_zero(trace) && hex(span, 16) && not_zero(span) && hex(flags, 2);
    fits.then_some(trace)
}

/// Puts the layers around routes.
pub(super) fn around(routes: Router<Arc<Api>>, api: Arc<Api>) -> Router {
    let worth = SizeAbove::new(WORTH_COMPRESSING).and(NotForContentType::SSE);
    routes
        .route_layer(from_fn_with_state(api.clone(), observe))
        .route_layer(CompressionLayer::new().compress_when(worth))
        .with_state(api)
}

async fn observe(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let ids = RequestIds::of(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let span = tracing::info_span!("request", id = %ids.request, trace = %ids.trace, caller = Empty);
    request.extensions_mut().insert(ids.clone());
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind().instrument(span.clone()).await;
    let mut response = answer.unwrap_or_else(|panic| {
        tracing::error!(parent: &span, %method, %path, words = words_of(&*panic), "answering panicked");
        Problem::internal().response(&path, &ids.trace, api.fleet.now())
    });
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&ids.request) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Authorization"));
    let (status, took) = (response.status().as_u16(), started.elapsed());
    let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    tracing::info!(parent: &span, %method, %path, status, milliseconds, "answered");
    api.metrics.answered(&method, &metrics::path_label(api.fleet.kinds(), &path), status, took);
    response
}

fn words_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

/// A body turned out larger than is let in.
#[derive(Debug, thiserror::Error)]
#[error("the body has more than {0} bytes")]
pub(crate) struct TooLarge(usize);

/// The body, of which reading fails with [`TooLarge`] where it has more bytes than this.
pub(super) fn bounded(body: Body, largest: usize) -> Body {
    Body::new(Limited::new(body, largest).map_err(move |error| {
        if error.is::<LengthLimitError>() { BoxError::from(TooLarge(largest)) } else { error }
    }))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_taken_from_a_header_that_keeps_its_form() {
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
        for (parent, fits) in rows {
            assert_eq!(trace_of(&parent), fits.then_some(TRACE), "{parent}");
        }
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_with_the_id_under_which_the_log_has_it() {
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
        let routes = around(Router::new().route("/panics", panics), api);
        let answer = routes.oneshot(Request::get("/panics").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 500);
        let id = answer.headers()[REQUEST_ID].to_str().unwrap().to_owned();
        let problem = answer.into_body().collect().await.unwrap().to_bytes();
        let problem: serde_json::Value = serde_json::from_slice(&problem).unwrap();
        assert_eq!((&problem["code"], &problem["trace_id"]), (&"HYPERFLEET-INT-001".into(), &id.into()));
    }
}
