//! The receiver of the demo: accepts remote write, and shows the last value of each series as text.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use bellwether_observability::collector::remote_write::{TimeSeries, decode};
use parking_lot::Mutex;

/// The largest request, before and after decompression.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The largest number of series that are kept; samples of further ones are accepted and forgotten.
const MAX_SERIES: usize = 100_000;

/// The last value of each series, by its labels as they are shown.
type Received = Arc<Mutex<BTreeMap<String, f64>>>;

pub(super) fn routes() -> Router {
    Router::new()
        .route("/api/v1/receive", post(receive))
        .route("/metrics", get(show))
        .layer(DefaultBodyLimit::max(MAX_BYTES))
        .with_state(Received::default())
}

async fn receive(State(received): State<Received>, body: Bytes) -> Result<StatusCode, (StatusCode, String)> {
    let request =
        decode(&body, MAX_BYTES).map_err(|error| (StatusCode::BAD_REQUEST, format!("{error}\n")))?;
    let mut received = received.lock();
    for series in &request.timeseries {
        let Some(last) = series.samples.last() else { continue };
        let labels = describe(series);
        if received.len() < MAX_SERIES || received.contains_key(&labels) {
            received.insert(labels, last.value);
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn show(State(received): State<Received>) -> String {
    received.lock().iter().map(|(labels, value)| format!("{labels} {value}\n")).collect()
}

/// A series as Prometheus exposes it: `name{label="value"}`.
fn describe(series: &TimeSeries) -> String {
    let name = series.labels.iter().find(|label| label.name == "__name__");
    let labels: Vec<String> = series
        .labels
        .iter()
        .filter(|label| label.name != "__name__")
        .map(|label| format!("{}={:?}", label.name, label.value))
        .collect();
    format!("{}{{{}}}", name.map_or("", |name| name.value.as_str()), labels.join(","))
}
