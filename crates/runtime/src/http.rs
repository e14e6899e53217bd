//! The HTTP endpoints of every process: `/healthz`, `/readyz` and `/metrics`.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;

use crate::health::Health;
use crate::metrics::{MEDIA_TYPE, Metrics};

/// The routes. `/healthz` answers while the process runs; `/readyz` also checks its components.
pub fn routes(health: Health, metrics: Metrics) -> Router {
    let ready = move || std::future::ready(readiness(&health.not_ready()));
    let scraped = move || {
        let metrics = metrics.clone();
        async move { ([(header::CONTENT_TYPE, MEDIA_TYPE)], metrics.fresh_text().await).into_response() }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(scraped))
}

/// Ready, or one line per component that is not.
fn readiness(not_ready: &[(String, String)]) -> (StatusCode, String) {
    if not_ready.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let lines =
        not_ready.iter().map(|(component, reason)| format!("not ready: {component}: {reason}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_the_components_that_are_not_ready() {
        assert_eq!(readiness(&[]), (StatusCode::OK, "ok\n".into()));
        let not_ready = [("checker".into(), "no response".into()), ("store".into(), "disk full".into())];
        let (status, text) = readiness(&not_ready);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(text, "not ready: checker: no response\nnot ready: store: disk full\n");
    }
}
