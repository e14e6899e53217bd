//! What the server counts, as Prometheus reads it, under the names by which dashboards know them from kube-apiserver.

use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::limits::{Cost, Limits};

pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Seconds.
const BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// What was asked for. Only what is served has a name here, so that nobody can make up series.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: String,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestKind {
    request_kind: &'static str,
}

/// The metrics of a server.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Answered, Counter>,
    durations: Family<Asked, Histogram>,
    inflight: Family<RequestKind, Gauge>,
    watches: Gauge,
    revision: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::default();
        let requests = Family::default();
        registry.register(
            "apiserver_request",
            "Requests, by what they asked for and the code they were answered with",
            requests.clone(),
        );
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        registry.register(
            "apiserver_request_duration_seconds",
            "How long requests took that are no watches",
            durations.clone(),
        );
        let inflight = Family::default();
        registry.register(
            "apiserver_current_inflight_requests",
            "Requests that are worked on, by whether they change anything",
            inflight.clone(),
        );
        let watches = Gauge::default();
        registry.register("apiserver_longrunning_requests", "Watches that are open", watches.clone());
        let revision = Gauge::default();
        registry.register("bellwether_store_revision", "The newest revision of the store", revision.clone());
        Self { registry: Mutex::new(registry), requests, durations, inflight, watches, revision }
    }
}

impl Metrics {
    /// Counts an answer. A watch is answered when it begins.
    pub(crate) fn count(&self, asked: &Asked, code: u16, took: Duration) {
        let Asked { verb, group, version, resource, subresource } = asked.clone();
        let answered = Answered { verb, group, version, resource, subresource, code };
        self.requests.get_or_create(&answered).inc();
        if asked.verb != "watch" {
            self.durations.get_or_create(asked).observe(took.as_secs_f64());
        }
    }

    /// All of them as text.
    pub(crate) fn text(&self, limits: &Limits, revision: u64) -> String {
        for (cost, busy) in limits.busy() {
            let busy = i64::try_from(busy).unwrap_or(i64::MAX);
            let kind = |request_kind| self.inflight.get_or_create(&RequestKind { request_kind }).set(busy);
            match cost {
                Cost::Read => kind("readOnly"),
                Cost::Write => kind("mutating"),
                Cost::Watch => self.watches.set(busy),
            };
        }
        self.revision.set(i64::try_from(revision).unwrap_or(i64::MAX));
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.registry.lock()) {
            tracing::warn!(%error, "the metrics cannot be written");
        }
        text
    }
}
