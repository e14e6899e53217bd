//! The metrics of a Sentinel, with the names of HyperFleet's Sentinel.

use std::time::Duration;

use bellwether_runtime::Metrics;
use bellwether_runtime::metrics::Group;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::config::Config;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Labels {
    component: &'static str,
    version: &'static str,
    resource_type: String,
    resource_selector: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    component: &'static str,
    version: &'static str,
    resource_type: String,
    resource_selector: String,
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    component: &'static str,
    version: &'static str,
    resource_type: String,
    resource_selector: String,
    error_type: &'static str,
}

#[derive(Clone)]
struct SentinelGroup {
    pending: Family<Labels, Gauge>,
    resources: Family<Labels, Gauge>,
    published: Family<ReasonLabels, Counter>,
    skipped: Family<ReasonLabels, Counter>,
    cycle_seconds: Family<Labels, Histogram>,
    api_errors: Family<ErrorLabels, Counter>,
    broker_errors: Family<ErrorLabels, Counter>,
    last_cycle: Family<Labels, Gauge>,
}

impl Group for SentinelGroup {
    const PREFIX: &'static str = "hyperfleet_sentinel";

    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            pending: Family::default(),
            resources: Family::default(),
            published: Family::default(),
            skipped: Family::default(),
            cycle_seconds: Family::new_with_constructor(|| {
                Histogram::new([0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0])
            }),
            api_errors: Family::default(),
            broker_errors: Family::default(),
            last_cycle: Family::default(),
        };
        registry.register(
            "pending_resources",
            "Number of resources that are due and not yet pulsed",
            group.pending.clone(),
        );
        registry.register(
            "resources",
            "Number of resources that this process watches",
            group.resources.clone(),
        );
        registry.register("events_published", "Number of published pulses", group.published.clone());
        registry.register(
            "resources_skipped",
            "Number of evaluations that did not lead to a pulse",
            group.skipped.clone(),
        );
        registry.register(
            "poll_duration_seconds",
            "Duration of the evaluation of all resources",
            group.cycle_seconds.clone(),
        );
        registry.register(
            "api_errors",
            "Number of failures of the change feed of the fleet API",
            group.api_errors.clone(),
        );
        registry.register(
            "broker_errors",
            "Number of pulses that could not be published",
            group.broker_errors.clone(),
        );
        registry.register(
            "last_successful_poll_timestamp_seconds",
            "Time of the last evaluation of all resources, in seconds since 1970",
            group.last_cycle.clone(),
        );
        group
    }
}

/// Why a resource was not pulsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skipped {
    NotDue,
    ExpressionFailed,
}

/// The metrics of one Sentinel.
#[derive(Clone)]
pub(crate) struct SentinelMetrics {
    group: SentinelGroup,
    labels: Labels,
}

impl SentinelMetrics {
    pub(crate) fn new(metrics: &Metrics, config: &Config) -> Self {
        let labels = Labels {
            component: "sentinel",
            version: env!("CARGO_PKG_VERSION"),
            resource_type: config.resource_type.clone(),
            resource_selector: config.selector_text(),
        };
        Self { group: metrics.group(), labels }
    }

    pub(crate) fn set_pending(&self, pending: usize) {
        self.group.pending.get_or_create(&self.labels).set(i64::try_from(pending).unwrap_or(i64::MAX));
    }

    pub(crate) fn set_resources(&self, resources: usize) {
        self.group.resources.get_or_create(&self.labels).set(i64::try_from(resources).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_published(&self) {
        self.group.published.get_or_create(&self.with_reason(crate::decision::REASON)).inc();
    }

    pub(crate) fn count_skipped(&self, why: Skipped, resources: u64) {
        let reason = match why {
            Skipped::NotDue => "message decision result is false",
            Skipped::ExpressionFailed => "evaluation failed",
        };
        self.group.skipped.get_or_create(&self.with_reason(reason)).inc_by(resources);
    }

    pub(crate) fn count_api_error(&self, error_type: &'static str) {
        self.group.api_errors.get_or_create(&self.with_error(error_type)).inc();
    }

    pub(crate) fn count_broker_error(&self) {
        self.group.broker_errors.get_or_create(&self.with_error("publish_error")).inc();
    }

    pub(crate) fn record_cycle(&self, duration: Duration, now: Timestamp) {
        self.group.cycle_seconds.get_or_create(&self.labels).observe(duration.as_secs_f64());
        self.group.last_cycle.get_or_create(&self.labels).set(now.as_second());
    }

    fn with_reason(&self, reason: &'static str) -> ReasonLabels {
        let Labels { component, version, resource_type, resource_selector } = self.labels.clone();
        ReasonLabels { component, version, resource_type, resource_selector, reason }
    }

    fn with_error(&self, error_type: &'static str) -> ErrorLabels {
        let Labels { component, version, resource_type, resource_selector } = self.labels.clone();
        ErrorLabels { component, version, resource_type, resource_selector, error_type }
    }
}
