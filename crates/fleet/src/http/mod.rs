//! The fleet API over HTTP, at `/api/hyperfleet/v1`.
//!
//! Kinds are configuration, so paths are resolved by our own table ([`routes`]) instead of the router. The OpenAPI document is
//! generated from the same table.

mod access;
mod answer;
mod auth;
mod body;
mod labels;
mod layers;
mod metrics;
mod openapi;
mod parameters;
mod problem;
mod routes;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::HeaderName;
use axum::response::Response;
use axum::routing::any;
use bellwether_runtime::Metrics;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use access::{Access, Dimension, TenancyConfig, TenancyError};
pub use auth::{AuthConfig, AuthError, IssuerConfig};
pub(crate) use body::LARGEST as LARGEST_BODY;
use layers::RequestIds;
pub(crate) use metrics::{FleetMetrics, count_pending};
use openapi::{Document, METADATA_PATH};
use problem::{Code, Problem};

use crate::config::Limits;
use crate::fleet::Fleet;

/// The header with the revision of a list, from which a watch can continue.
pub(crate) const REVISION_HEADER: HeaderName = HeaderName::from_static("bellwether-revision");

/// The state of the HTTP server.
pub(crate) struct Api {
    pub(crate) fleet: Fleet,
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    pub(crate) metrics: FleetMetrics,
    pub(crate) document: Document,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) stopping: CancellationToken,
}

impl Api {
    fn new(
        fleet: Fleet,
        access: Access,
        limits: Limits,
        metrics: &Metrics,
        stopping: CancellationToken,
    ) -> Self {
        let watchers = Arc::new(Semaphore::new(limits.max_watchers));
        let document = Document::of(fleet.kinds());
        Self { fleet, access, limits, metrics: metrics.group(), document, watchers, stopping }
    }
}

/// The routes of the fleet with default limits, and metrics that are not served.
pub fn routes(fleet: Fleet, access: Access, stopping: CancellationToken) -> Router {
    routes_with(fleet, access, Limits::default(), &Metrics::default(), stopping)
}

/// The routes of the fleet. Watches end when `stopping` is cancelled; other requests end by themselves.
pub fn routes_with(
    fleet: Fleet,
    access: Access,
    limits: Limits,
    metrics: &Metrics,
    stopping: CancellationToken,
) -> Router {
    let api = Arc::new(Api::new(fleet, access, limits, metrics, stopping));
    let routes = Router::new()
        .route(METADATA_PATH, any(serve))
        .route(&format!("{METADATA_PATH}/"), any(serve))
        .route(&format!("{METADATA_PATH}/{{*path}}"), any(serve));
    layers::with_middleware(routes, api)
}

async fn serve(
    State(api): State<Arc<Api>>,
    Extension(ids): Extension<RequestIds>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = layers::limited(body, api.limits.max_body_bytes);
    let outcome = match tokio::time::timeout(api.limits.request_timeout, api.answer(&parts, body)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Problem::new(
            Code::TimedOut,
            "the request took too long; it is unknown whether a change was made",
        )),
    };
    outcome.unwrap_or_else(|problem| problem.response(parts.uri.path(), &ids.trace, api.fleet.now()))
}
