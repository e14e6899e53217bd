//! The metrics of adapters, with the names that dashboards of the framework know.

use bellwether_runtime::metrics::Group;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::trace::{Operation, Phase, Status, Trace};

const BUCKETS: [f64; 9] = [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct StatusLabel {
    status: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabel {
    error_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DeletionLabels {
    resource_type: String,
    status: &'static str,
}

/// The metrics of all adapters of a process.
#[derive(Clone)]
pub(crate) struct AdapterMetrics {
    up: Gauge,
    events: Family<StatusLabel, Counter>,
    seconds: Histogram,
    errors: Family<ErrorLabel, Counter>,
    deleted: Family<DeletionLabels, Counter>,
    deletion_seconds: Histogram,
    deletions_in_progress: Gauge,
    waiting: Gauge,
}

impl Group for AdapterMetrics {
    const PREFIX: &'static str = "hyperfleet_adapter";

    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            up: Gauge::default(),
            events: Family::default(),
            seconds: Histogram::new(BUCKETS),
            errors: Family::default(),
            deleted: Family::default(),
            deletion_seconds: Histogram::new(BUCKETS),
            deletions_in_progress: Gauge::default(),
            waiting: Gauge::default(),
        };
        registry.register("up", "Whether the adapter receives events (1) or not (0)", group.up.clone());
        registry.register(
            "build",
            "The version of the adapter",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        registry.register("events_processed", "Number of events, by result", group.events.clone());
        registry.register(
            "event_processing_duration_seconds",
            "Duration of the processing of an event",
            group.seconds.clone(),
        );
        registry.register("errors", "Number of failed phases, by phase", group.errors.clone());
        registry.register("resources_deleted", "Number of deletions of resources", group.deleted.clone());
        registry.register(
            "resource_deletion_duration_seconds",
            "Duration of the deletion of a resource, without waiting for finalizers",
            group.deletion_seconds.clone(),
        );
        registry.register(
            "resource_deletions_in_progress",
            "Number of resources that are being deleted by this process",
            group.deletions_in_progress.clone(),
        );
        registry.register(
            "events_waiting",
            "Number of events that wait to be processed",
            group.waiting.clone(),
        );
        group
    }
}

/// A deletion in progress.
pub(crate) struct Deletion {
    metrics: AdapterMetrics,
    start: Instant,
}

impl Drop for Deletion {
    fn drop(&mut self) {
        self.metrics.deletions_in_progress.dec();
        self.metrics.deletion_seconds.observe(self.start.elapsed().as_secs_f64());
    }
}

impl AdapterMetrics {
    pub(crate) fn set_up(&self, up: bool) {
        self.up.set(i64::from(up));
    }

    pub(crate) fn set_waiting(&self, waiting: usize) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// Counts a deletion as in progress until the result is dropped, and then how long it took.
    pub(crate) fn start_deletion(&self) -> Deletion {
        self.deletions_in_progress.inc();
        Deletion { metrics: self.clone(), start: Instant::now() }
    }

    pub(crate) fn count_skipped(&self) {
        self.events.get_or_create(&StatusLabel { status: "skipped" }).inc();
    }

    /// Counts an execution.
    pub(crate) fn observe(&self, trace: &Trace, took: std::time::Duration) {
        self.seconds.observe(took.as_secs_f64());
        let status = match (trace.status, &trace.skip_reason) {
            (Status::Failed, _) => "failed",
            (Status::Success, Some(_)) => "skipped",
            (Status::Success, None) => "success",
        };
        self.events.get_or_create(&StatusLabel { status }).inc();
        for phase in trace.errors.keys() {
            self.errors.get_or_create(&ErrorLabel { error_type: Phase::to_string(phase) }).inc();
        }
        for resource in trace.resources.iter().filter(|resource| resource.operation == Operation::Delete) {
            let status = if resource.status == Status::Success { "success" } else { "failed" };
            let labels = DeletionLabels { resource_type: resource.kind.clone(), status };
            self.deleted.get_or_create(&labels).inc();
        }
    }
}
