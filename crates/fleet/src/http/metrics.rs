//! Metrics of the fleet API, with the names that existing dashboards use. Labels for paths have no IDs, and all unknown paths share
//! one label, so that callers cannot create time series.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::http::Method;
use bellwether_clock::Clock;
use bellwether_runtime::Metrics;
use bellwether_runtime::metrics::Group;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::time::Instant;

use super::answer::without_trailing_slash;
use super::routes::locate;
use crate::kinds::{BASE_PATH, Kinds};
use crate::store::{Pending, Store};

/// The label of unknown paths and methods.
const UNKNOWN: &str = "unknown";
/// A resource that is pending for longer is stuck.
const STUCK_AFTER: Duration = Duration::from_secs(600);
/// How long counting pending resources may take.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a count is reused.
const COUNT_INTERVAL: Duration = Duration::from_secs(1);
/// The paths about the API itself.
const ABOUT_PATHS: [&str; 3] =
    ["/api/hyperfleet", "/api/hyperfleet/v1/openapi", "/api/hyperfleet/v1/openapi.html"];
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    path: String,
    code: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    path: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct VersionLabels {
    version: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResourceLabels {
    resource_type: String,
    is_delete: &'static str,
}

impl ResourceLabels {
    fn new(kind: &str, deleting: bool) -> Self {
        Self { resource_type: kind.to_owned(), is_delete: if deleting { "true" } else { "false" } }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct QueryLabels {
    operation: &'static str,
}

/// The metrics of the fleet API.
#[derive(Clone)]
pub(crate) struct FleetMetrics {
    requests: Family<RequestLabels, Counter>,
    request_seconds: Family<RouteLabels, Histogram>,
    started: Family<ResourceLabels, Counter>,
    pending: Family<ResourceLabels, Gauge>,
    stuck: Family<ResourceLabels, Gauge>,
    stuck_seconds: Family<ResourceLabels, Gauge>,
    query_seconds: Family<QueryLabels, Histogram>,
    errors: Family<QueryLabels, Counter>,
}

impl Group for FleetMetrics {
    const PREFIX: &'static str = "hyperfleet";

    fn register(registry: &mut Registry) -> Self {
        let histogram = || Histogram::new(BUCKETS);
        let group = Self {
            requests: Family::default(),
            request_seconds: Family::new_with_constructor(histogram),
            started: Family::default(),
            pending: Family::default(),
            stuck: Family::default(),
            stuck_seconds: Family::default(),
            query_seconds: Family::new_with_constructor(histogram),
            errors: Family::default(),
        };
        let build: Family<VersionLabels, Gauge> = Family::default();
        build.get_or_create(&VersionLabels { version: env!("CARGO_PKG_VERSION") }).set(1);
        registry.register("api_requests", "Number of requests with a response", group.requests.clone());
        registry.register_with_unit(
            "api_request_duration",
            "Duration of requests",
            Unit::Seconds,
            group.request_seconds.clone(),
        );
        registry.register("api_build_info", "Version of the running server", build);
        registry.register(
            "api_reconciliation_started",
            "Number of new generations that adapters have to reconcile",
            group.started.clone(),
        );
        let pending = "api_resource_pending_reconciliation";
        registry.register(
            pending,
            "Number of resources whose current generation is not reconciled",
            group.pending.clone(),
        );
        registry.register(
            format!("{pending}_stuck"),
            "Number of resources whose current generation has not been reconciled for more than 10 minutes",
            group.stuck.clone(),
        );
        registry.register_with_unit(
            format!("{pending}_stuck_duration"),
            "Longest time for which a stuck resource has not been reconciled",
            Unit::Seconds,
            group.stuck_seconds.clone(),
        );
        registry.register_with_unit(
            "db_query_duration",
            "Duration of database operations",
            Unit::Seconds,
            group.query_seconds.clone(),
        );
        registry.register("db_errors", "Number of failed database operations", group.errors.clone());
        group
    }
}

impl FleetMetrics {
    /// Records the response to a request.
    pub(crate) fn record_request(&self, method: &Method, path: &str, code: u16, took: Duration) {
        let (method, path) = (method_label(method), path.to_owned());
        self.requests.get_or_create(&RequestLabels { method, path: path.clone(), code }).inc();
        self.request_seconds.get_or_create(&RouteLabels { method, path }).observe(took.as_secs_f64());
    }

    /// Records a new generation that adapters have to reconcile.
    pub(crate) fn record_generation(&self, kind: &str, deleting: bool) {
        self.started.get_or_create(&ResourceLabels::new(kind, deleting)).inc();
    }

    /// Records a database operation.
    pub(crate) fn record_query(&self, operation: &'static str, took: Duration, succeeded: bool) {
        self.query_seconds.get_or_create(&QueryLabels { operation }).observe(took.as_secs_f64());
        if !succeeded {
            self.errors.get_or_create(&QueryLabels { operation }).inc();
        }
    }

    /// Sets the number of pending resources. Kinds without pending resources have no series.
    fn set_pending(&self, all: &[Pending], now: Timestamp) {
        self.pending.clear();
        self.stuck.clear();
        self.stuck_seconds.clear();
        for Pending { kind, deleting, since } in all.iter().filter(|pending| !pending.since.is_empty()) {
            let labels = ResourceLabels::new(kind, *deleting);
            let age = |since: &Timestamp| Duration::try_from(now.duration_since(*since)).unwrap_or_default();
            let stuck: Vec<Duration> = since.iter().map(age).filter(|age| *age > STUCK_AFTER).collect();
            self.pending.get_or_create(&labels).set(count(since.len()));
            if let Some(longest) = stuck.iter().max() {
                self.stuck.get_or_create(&labels).set(count(stuck.len()));
                self.stuck_seconds
                    .get_or_create(&labels)
                    .set(i64::try_from(longest.as_secs()).unwrap_or(i64::MAX));
            }
        }
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => UNKNOWN,
    }
}

/// The label of a path, with `-` for every ID.
pub(crate) fn path_label(kinds: &Kinds, path: &str) -> String {
    let path = without_trailing_slash(path);
    if ABOUT_PATHS.contains(&path) {
        return path.to_owned();
    }
    let Some(below) = path.strip_prefix(BASE_PATH) else { return UNKNOWN.to_owned() };
    let Some(located) = locate(kinds, below) else { return UNKNOWN.to_owned() };
    let template = located.scope.template(located.place);
    let segments = template.split('/').map(|segment| if segment.starts_with('{') { "-" } else { segment });
    format!("{BASE_PATH}{}", segments.collect::<Vec<_>>().join("/"))
}

/// Counts pending resources whenever metrics are read, at most once per interval and within a timeout, so that a slow database
/// gets no additional load.
pub(crate) fn count_pending(
    metrics: &Metrics,
    store: Weak<dyn Store>,
    condition: &'static str,
    clock: Arc<dyn Clock>,
) {
    let group: FleetMetrics = metrics.group();
    let last: Arc<tokio::sync::Mutex<Option<Instant>>> = Arc::default();
    metrics.before_text(move || {
        let (group, last, store, clock) = (group.clone(), last.clone(), store.upgrade(), clock.clone());
        async move {
            let Some(store) = store else { return };
            let mut last = last.lock().await;
            if last.is_some_and(|last| last.elapsed() < COUNT_INTERVAL) {
                return;
            }
            match tokio::time::timeout(COUNT_TIMEOUT, store.pending(condition)).await {
                Ok(Ok(all)) => group.set_pending(&all, clock.now()),
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot count pending resources; keeping the last count")
                }
                Err(_) => tracing::warn!("counting pending resources takes too long; keeping the last count"),
            }
            *last = Some(Instant::now());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Vocabulary;

    #[test]
    fn path_labels_have_no_ids() {
        let kinds = Kinds::new(Vec::new(), Vocabulary::default()).unwrap();
        let rows = [
            ("/clusters", "/clusters"),
            ("/clusters/0199", "/clusters/-"),
            ("/clusters/0199/nodepools/0200/statuses/log", "/clusters/-/nodepools/-/statuses/log"),
            ("/nodepools/anything/force-delete", "/nodepools/-/force-delete"),
            ("/resources/0199/statuses", "/resources/-/statuses"),
            ("/openapi", "/openapi"),
            ("/clusters/", "/clusters"),
            ("/clusters/0199/statuses/", "/clusters/-/statuses"),
        ];
        for (path, label) in rows {
            assert_eq!(path_label(&kinds, &format!("{BASE_PATH}{path}")), format!("{BASE_PATH}{label}"));
        }
        assert_eq!(path_label(&kinds, "/api/hyperfleet"), "/api/hyperfleet");
        for path in ["/clusters/a/b/c", "/nothing", "", "//", "/clusters//"] {
            assert_eq!(path_label(&kinds, &format!("{BASE_PATH}{path}")), UNKNOWN);
        }
    }

    #[test]
    fn resource_that_is_pending_for_long_is_stuck() {
        let metrics = Metrics::default();
        let group: FleetMetrics = metrics.group();
        let at = |second| Timestamp::from_second(second).unwrap();
        let some = |deleting, since| Pending { kind: "Cluster".to_owned(), deleting, since };
        group.set_pending(
            &[some(false, vec![at(0), at(1000), at(5000)]), some(true, vec![at(4900)])],
            at(5000),
        );
        let text = metrics.text();
        let name = "hyperfleet_api_resource_pending_reconciliation";
        let (living, deleted) = (
            r#"{resource_type="Cluster",is_delete="false"}"#,
            r#"{resource_type="Cluster",is_delete="true"}"#,
        );
        for line in [
            format!("{name}{living} 3"),
            format!("{name}{deleted} 1"),
            format!("{name}_stuck{living} 2"),
            format!("{name}_stuck_duration_seconds{living} 5000"),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
        assert!(!text.contains(&format!("{name}_stuck{deleted}")));
        group.set_pending(&[some(false, Vec::new())], at(5000));
        assert!(!metrics.text().contains(&format!("{name}{{")));
    }
}
