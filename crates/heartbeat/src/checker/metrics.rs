//! What is counted of heartbeats.

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
struct HeartbeatMetrics {
    instances: Family<ClusterState, Gauge>,
    senseless_periods: Family<Cluster, Gauge>,
    timeouts: Family<Cluster, Counter>,
    recoveries: Family<Cluster, Counter>,
    lag: Family<Cluster, Histogram>,
}

impl Group for HeartbeatMetrics {
    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            instances: Family::default(),
            senseless_periods: Family::default(),
            timeouts: Family::default(),
            recoveries: Family::default(),
            lag: Family::new_with_constructor(|| {
                Histogram::new([0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0])
            }),
        };
        let registry = registry.sub_registry_with_prefix("heartbeat");
        registry.register(
            "instances",
            "AddonInstances, by whether their add-on beats: alive, silent or never",
            group.instances.clone(),
        );
        registry.register(
            "senseless_periods",
            "AddonInstances whose heartbeatUpdatePeriod makes no sense, so that 10s counts",
            group.senseless_periods.clone(),
        );
        registry.register("timeouts", "Instances that were marked as silent", group.timeouts.clone());
        registry.register("recoveries", "Silent instances that beat again", group.recoveries.clone());
        registry.register(
            "judgement_lag_seconds",
            "From the instant at which an instance counts as silent to its being marked so",
            group.lag.clone(),
        );
        group
    }
}

/// The counts of the checker of one cluster, at hand.
pub(crate) struct Counts {
    states: [(State, Gauge); 3],
    senseless_periods: Gauge,
    timeouts: Counter,
    recoveries: Counter,
    lag: Histogram,
}

impl Counts {
    pub(crate) fn of(metrics: &bellwether_runtime::Metrics, cluster: &str) -> Self {
        let group: HeartbeatMetrics = metrics.group();
        let label = Cluster { cluster: cluster.to_owned() };
        let gauge = |state: State| {
            let labels = ClusterState { cluster: cluster.to_owned(), state: state.word() };
            (state, group.instances.get_or_create_owned(&labels))
        };
        Self {
            states: State::ALL.map(gauge),
            senseless_periods: group.senseless_periods.get_or_create_owned(&label),
            timeouts: group.timeouts.get_or_create_owned(&label),
            recoveries: group.recoveries.get_or_create_owned(&label),
            lag: group.lag.get_or_create_owned(&label),
        }
    }

    pub(crate) fn census(&self, census: &Census) {
        for (state, gauge) in &self.states {
            gauge.set(i64::try_from(census.of(*state)).unwrap_or(i64::MAX));
        }
        self.senseless_periods.set(i64::try_from(census.senseless_periods).unwrap_or(i64::MAX));
    }

    pub(crate) fn timed_out(&self, lag: Duration) {
        self.timeouts.inc();
        self.lag.observe(lag.as_secs_f64());
    }

    pub(crate) fn recovered(&self) {
        self.recoveries.inc();
    }
}
