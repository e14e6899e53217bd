//! The metrics of the heartbeat checker.

use std::time::Duration;

use bellwether_runtime::metrics::Group;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::index::{Census, State};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Cluster {
    cluster: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ClusterState {
    cluster: String,
    state: &'static str,
}

#[derive(Clone)]
struct HeartbeatGroup {
    instances: Family<ClusterState, Gauge>,
    invalid_periods: Family<Cluster, Gauge>,
    timeouts: Family<Cluster, Counter>,
    recoveries: Family<Cluster, Counter>,
    detection_delay: Family<Cluster, Histogram>,
}

impl Group for HeartbeatGroup {
    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            instances: Family::default(),
            invalid_periods: Family::default(),
            timeouts: Family::default(),
            recoveries: Family::default(),
            detection_delay: Family::new_with_constructor(|| {
                Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
            }),
        };
        let registry = registry.sub_registry_with_prefix("heartbeat");
        registry.register(
            "instances",
            "Number of AddonInstances, by state of their heartbeats: alive, silent or never",
            group.instances.clone(),
        );
        registry.register(
            "invalid_periods",
            "Number of AddonInstances with an invalid heartbeatUpdatePeriod, for which 10s is used",
            group.invalid_periods.clone(),
        );
        registry.register(
            "timeouts",
            "Number of times an AddonInstance was marked as silent",
            group.timeouts.clone(),
        );
        registry.register(
            "recoveries",
            "Number of times heartbeats of a silent AddonInstance arrived again",
            group.recoveries.clone(),
        );
        registry.register(
            "detection_delay_seconds",
            "Time from when an AddonInstance became silent until it was marked as silent",
            group.detection_delay.clone(),
        );
        group
    }
}

/// The metrics of the checker of one cluster.
pub(crate) struct CheckerMetrics {
    states: [(State, Gauge); 3],
    invalid_periods: Gauge,
    timeouts: Counter,
    recoveries: Counter,
    detection_delay: Histogram,
}

impl CheckerMetrics {
    pub(crate) fn new(metrics: &bellwether_runtime::Metrics, cluster: &str) -> Self {
        let group: HeartbeatGroup = metrics.group();
        let label = Cluster { cluster: cluster.to_owned() };
        let gauge = |state: State| {
            let labels = ClusterState { cluster: cluster.to_owned(), state: state.label() };
            (state, group.instances.get_or_create_owned(&labels))
        };
        Self {
            states: State::ALL.map(gauge),
            invalid_periods: group.invalid_periods.get_or_create_owned(&label),
            timeouts: group.timeouts.get_or_create_owned(&label),
            recoveries: group.recoveries.get_or_create_owned(&label),
            detection_delay: group.detection_delay.get_or_create_owned(&label),
        }
    }

    pub(crate) fn set_census(&self, census: &Census) {
        for (state, gauge) in &self.states {
            gauge.set(i64::try_from(census.of(*state)).unwrap_or(i64::MAX));
        }
        self.invalid_periods.set(i64::try_from(census.invalid_periods).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_timeout(&self, detection_delay: Duration) {
        self.timeouts.inc();
        self.detection_delay.observe(detection_delay.as_secs_f64());
    }

    pub(crate) fn count_recovery(&self) {
        self.recoveries.inc();
    }
}
