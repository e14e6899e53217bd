//! The fleet over HTTP, at `/api/hyperfleet/v1`.
//!
//! Kinds are configuration, so paths are found by a table of our own ([`routes`]) and not by the router: the same table
//! writes the OpenAPI document.

mod access;
mod answer;
mod body;
mod labels;
mod openapi;
mod parameters;
mod problem;
mod routes;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::Response;
use axum::routing::any;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub use access::{Access, Dimension, TenancyConfig};
use openapi::{Document, METADATA_PATH};
use problem::{Code, Problem};

use crate::fleet::Fleet;
use crate::kinds::BASE_PATH;

/// The header with the revision at which a list was true; to watch from there.
pub(crate) const REVISION_HEADER: HeaderName = HeaderName::from_static("bellwether-revision");
/// The header with the id of a request.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many may watch at the same time.
const MOST_WATCHERS: usize = 1000;

/// What answers.
pub(crate) struct Api {
    pub(crate) fleet: Fleet,
    pub(crate) access: Access,
    pub(crate) document: Document,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) stopping: CancellationToken,
}

/// The routes of the fleet. Watches end when `stopping` is cancelled; everything else ends by itself.
pub fn routes(fleet: Fleet, access: Access, stopping: CancellationToken) -> Router {
    let watchers = Arc::new(Semaphore::new(MOST_WATCHERS));
    let document = Document::of(fleet.kinds());
    let api = Arc::new(Api { fleet, access, document, watchers, stopping });
    Router::new()
        .route(METADATA_PATH, any(serve))
        .route(BASE_PATH, any(serve))
        .route(&format!("{BASE_PATH}/{{*path}}"), any(serve))
        .with_state(api)
}

async fn serve(State(api): State<Arc<Api>>, request: Request) -> Response {
    let id = Uuid::now_v7().to_string();
    let (parts, body) = request.into_parts();
    let outcome = match tokio::time::timeout(PATIENCE, api.answer(&parts, body)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Problem::new(
            Code::TimedOut,
            "the request took too long; whether a change was made is not known",
        )),
    };
    let mut response =
        outcome.unwrap_or_else(|problem| problem.response(parts.uri.path(), &id, api.fleet.now()));
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(header::VARY, HeaderValue::from_static("Authorization"));
    response
}
