//! The metrics of a collector. Both collectors have the same, under the prefixes that alerts for upstream's collectors expect.

use std::sync::atomic::AtomicU64;

use bellwether_runtime::Metrics;
use bellwether_runtime::metrics::Group;
use http::StatusCode;
use jiff::Timestamp;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::transform::Verdict;
use crate::vocabulary::Component;

/// The status of a request without a response.
const NO_RESPONSE: &str = "0";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FederateLabels {
    r#type: &'static str,
    status_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    status_code: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DroppedLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CycleLabels {
    result: &'static str,
}

/// What is requested from Prometheus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestType {
    /// Series by selectors.
    Federate,
    /// The result of a query.
    Recording,
}

/// How many samples a cycle has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SampleCounts {
    /// Samples that Prometheus sent.
    pub(crate) received: u64,
    /// Samples among them that are not forwarded.
    pub(crate) filtered: u64,
}

impl std::ops::AddAssign for SampleCounts {
    fn add_assign(&mut self, other: Self) {
        self.received += other.received;
        self.filtered += other.filtered;
    }
}

/// The metrics of a collector.
#[derive(Clone, Debug, Default)]
pub(crate) struct CollectorMetrics {
    samples: Gauge,
    filtered_samples: Gauge,
    dropped_samples: Family<DroppedLabels, Counter>,
    federate_requests: Family<FederateLabels, Counter>,
    write_requests: Family<WriteLabels, Counter>,
    cycles: Family<CycleLabels, Counter>,
    last_success: Gauge<f64, AtomicU64>,
}

impl CollectorMetrics {
    /// The metrics of a component.
    pub(crate) fn new(component: Component, metrics: &Metrics) -> Self {
        match component {
            Component::Platform => metrics.group::<PlatformMetrics>().0,
            Component::UserWorkload => metrics.group::<UserWorkloadMetrics>().0,
        }
    }

    /// Counts a request to Prometheus; without a status there was no response.
    pub(crate) fn count_request(&self, request: RequestType, status: Option<StatusCode>) {
        let r#type = match request {
            RequestType::Federate => "federate",
            RequestType::Recording => "recording",
        };
        let labels = FederateLabels { r#type, status_code: status_code(status) };
        self.federate_requests.get_or_create(&labels).inc();
    }

    /// Counts a request to the receiver; without a status there was no response.
    pub(crate) fn count_write(&self, status: Option<StatusCode>) {
        self.write_requests.get_or_create(&WriteLabels { status_code: status_code(status) }).inc();
    }

    /// Counts a sample that is not forwarded.
    pub(crate) fn count_dropped(&self, verdict: Verdict) {
        let reason = match verdict {
            Verdict::Keep => return,
            Verdict::TooOld => "too_old",
            Verdict::Duplicate => "duplicate",
        };
        self.dropped_samples.get_or_create(&DroppedLabels { reason }).inc();
    }

    /// Records how many samples a pass has seen.
    pub(crate) fn set_samples(&self, counts: SampleCounts) {
        let gauge = |count| i64::try_from(count).unwrap_or(i64::MAX);
        self.samples.set(gauge(counts.received));
        self.filtered_samples.set(gauge(counts.filtered));
    }

    /// Records a pass in which all workers succeeded.
    pub(crate) fn record_success(&self, now: Timestamp) {
        self.cycles.get_or_create(&CycleLabels { result: "success" }).inc();
        self.last_success.set(now.as_duration().as_secs_f64());
    }

    /// Records a pass in which a worker failed.
    pub(crate) fn record_failure(&self) {
        self.cycles.get_or_create(&CycleLabels { result: "failure" }).inc();
    }

    fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "federate_samples",
            "The number of samples that Prometheus sent in the last cycle",
            metrics.samples.clone(),
        );
        registry.register(
            "federate_filtered_samples",
            "The number of samples of the last cycle that were not forwarded, because they were duplicates or too old",
            metrics.filtered_samples.clone(),
        );
        registry.register(
            "federate_dropped_samples",
            "The number of samples that were not forwarded, by reason: duplicate or too_old",
            metrics.dropped_samples.clone(),
        );
        registry.register(
            "federate_requests",
            "The number of requests to Prometheus, by type and status; status 0 is a request without a response",
            metrics.federate_requests.clone(),
        );
        registry.register(
            "forward_write_requests",
            "The number of remote write requests, by status; status 0 is a request without a response",
            metrics.write_requests.clone(),
        );
        registry.register(
            "forward_cycles",
            "The number of cycles, by result: success or failure",
            metrics.cycles.clone(),
        );
        registry.register(
            "forward_last_success_timestamp_seconds",
            "When the last successful cycle ended, in seconds since 1970; 0 if there was none",
            metrics.last_success.clone(),
        );
        metrics
    }
}

fn status_code(status: Option<StatusCode>) -> String {
    status.map_or_else(|| NO_RESPONSE.to_owned(), |status| status.as_str().to_owned())
}

/// The metrics of the platform collector.
#[derive(Clone)]
struct PlatformMetrics(CollectorMetrics);

impl Group for PlatformMetrics {
    const PREFIX: &'static str = "acm_metrics_collector";

    fn register(registry: &mut Registry) -> Self {
        Self(CollectorMetrics::register(registry))
    }
}

/// The metrics of the user-workload collector.
#[derive(Clone)]
struct UserWorkloadMetrics(CollectorMetrics);

impl Group for UserWorkloadMetrics {
    const PREFIX: &'static str = "acm_uwl_metrics_collector";

    fn register(registry: &mut Registry) -> Self {
        Self(CollectorMetrics::register(registry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_component_has_its_prefix() {
        let metrics = Metrics::default();
        for (component, prefix) in [
            (Component::Platform, "acm_metrics_collector"),
            (Component::UserWorkload, "acm_uwl_metrics_collector"),
        ] {
            let collector = CollectorMetrics::new(component, &metrics);
            collector.count_request(RequestType::Federate, Some(StatusCode::OK));
            collector.count_request(RequestType::Recording, None);
            collector.count_write(Some(StatusCode::CONFLICT));
            collector.count_dropped(Verdict::Duplicate);
            let counts = SampleCounts { received: 5, filtered: 2 };
            collector.set_samples(counts);
            collector.record_success(Timestamp::from_second(1_700_000_000).unwrap());
            collector.record_failure();
            let text = metrics.text();
            for line in [
                r#"federate_samples 5"#,
                r#"federate_filtered_samples 2"#,
                r#"federate_dropped_samples_total{reason="duplicate"} 1"#,
                r#"federate_requests_total{type="federate",status_code="200"} 1"#,
                r#"federate_requests_total{type="recording",status_code="0"} 1"#,
                r#"forward_write_requests_total{status_code="409"} 1"#,
                r#"forward_cycles_total{result="success"} 1"#,
                r#"forward_cycles_total{result="failure"} 1"#,
                r#"forward_last_success_timestamp_seconds 1700000000.0"#,
            ] {
                assert!(text.contains(&format!("\n{prefix}_{line}\n")), "{line}\n{text}");
            }
        }
    }
}
