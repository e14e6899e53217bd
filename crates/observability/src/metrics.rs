//! Metrics of the status of the add-on.

use bellwether_conditions::guard::Denial;
use bellwether_runtime::metrics::Group;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::decide::transition::Actor;
use crate::vocabulary::{Component, ComponentReason};

/// The labels of a refused report.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RefusedLabels {
    component: String,
    from: String,
    to: String,
}

impl RefusedLabels {
    /// The labels of a denial.
    pub fn of(component: Component, denial: &Denial<Actor, ComponentReason>) -> Self {
        let (from, to) = match denial {
            Denial::UnknownReason { to, .. } => (String::new(), to.to_string()),
            Denial::ReasonNotAllowed { to, .. } => (String::new(), to.to_string()),
            Denial::ChangeNotAllowed { from, to, .. } => (from.to_string(), to.to_string()),
        };
        Self { component: component.to_string(), from, to }
    }
}

/// What the writers of the status report about themselves.
#[derive(Clone)]
pub struct StatusMetrics {
    /// Reports that the guard refused.
    pub refused: Family<RefusedLabels, Counter>,
}

impl Group for StatusMetrics {
    const PREFIX: &'static str = "bellwether_observability";

    fn register(registry: &mut Registry) -> Self {
        let metrics = Self { refused: Family::default() };
        registry.register(
            "status_transitions_refused",
            "The number of reports about a collector that were refused, because the writer may not replace the current reason",
            metrics.refused.clone(),
        );
        metrics
    }
}

/// The cluster that a metric is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ClusterLabel {
    /// Its name.
    pub cluster: String,
}

/// The labels of a failed copy of the status.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct FailureLabels {
    cluster: String,
    class: String,
}

impl FailureLabels {
    /// The labels of a failure of this class.
    pub fn of(label: &ClusterLabel, class: &str) -> Self {
        Self { cluster: label.cluster.clone(), class: class.to_owned() }
    }
}

/// What the status controller reports about its copies to the hub.
#[derive(Clone)]
pub struct HubSyncMetrics {
    /// When the hub last had the same status as the cluster.
    pub last_success: Family<ClusterLabel, Gauge>,
    /// Failures, by their class.
    pub failures: Family<FailureLabels, Counter>,
}

impl Group for HubSyncMetrics {
    const PREFIX: &'static str = "bellwether_observability";

    fn register(registry: &mut Registry) -> Self {
        let metrics = Self { last_success: Family::default(), failures: Family::default() };
        registry.register(
            "hub_sync_last_success_timestamp_seconds",
            "When the hub last had the same status of the add-on as the cluster, in seconds since the Unix epoch",
            metrics.last_success.clone(),
        );
        registry.register(
            "hub_sync_failures",
            "The number of times that the status of the add-on could not be copied to the hub",
            metrics.failures.clone(),
        );
        metrics
    }
}
