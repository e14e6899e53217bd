//! What a process serves of itself over plain HTTP: `/healthz`, `/readyz` and `/metrics`.

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use axum::routing::get;

use crate::health::Health;
use crate::metrics::{MEDIA_TYPE, Metrics};

/// The routes. `/healthz` says that the process runs; `/readyz` also asks its parts.
pub fn routes(health: Health, metrics: Metrics) -> Router {
    let ready = move || std::future::ready(readiness(&health.troubles()));
    let counted = move || {
        let metrics = metrics.clone();
        async move { ([(header::CONTENT_TYPE, MEDIA_TYPE)], metrics.fresh_text().await).into_response() }
    };
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(counted))
}

/// Ready, or what keeps from it, a line each.
fn readiness(troubles: &[(String, String)]) -> (StatusCode, String) {
    if troubles.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let lines = troubles.iter().map(|(part, words)| format!("not ready: {part}: {words}\n")).collect();
    (StatusCode::SERVICE_UNAVAILABLE, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_names_the_parts_in_trouble() {
        assert_eq!(readiness(&[]), (StatusCode::OK, "ok\n".into()));
        let troubles = [("checker".into(), "no answer".into()), ("store".into(), "disk full".into())];
        let (status, words) = readiness(&troubles);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(words, "not ready: checker: no answer\nnot ready: store: disk full\n");
    }
}
