//! What a process counts, as Prometheus reads it. Controllers of several clusters share their metrics, told apart by
//! the label `cluster`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// The media type of [`Metrics::text`].
pub const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Before the name of every metric.
const PREFIX: &str = "bellwether";

/// All metrics of a process. Clones are the same.
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    registry: Registry,
    groups: HashMap<TypeId, Box<dyn Any + Send>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let inner = Inner { registry: Registry::with_prefix(PREFIX), groups: HashMap::new() };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }
}

/// Metrics that belong together. They are registered once in a process, by whoever asks first.
pub trait Group: Clone + Send + 'static {
    /// Makes them, and registers each with its name and its words.
    fn register(registry: &mut Registry) -> Self;
}

impl Metrics {
    /// The metrics of a group; the same for all who ask.
    pub fn group<G: Group>(&self) -> G {
        let Inner { registry, groups } = &mut *self.inner.lock();
        let group = groups.entry(TypeId::of::<G>()).or_insert_with(|| Box::new(G::register(registry)));
        match group.downcast_ref::<G>() {
            Some(group) => group.clone(),
            // The key is the type.
            None => G::register(registry),
        }
    }

    /// All of them as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.inner.lock().registry) {
            let _ = write!(text, "# the metrics could not be written: {error}\n# EOF\n");
        }
        text
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Metrics").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ControllerLabels {
    cluster: String,
    controller: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ErrorLabels {
    cluster: String,
    controller: String,
    error: String,
}

/// What is counted of every controller.
#[derive(Clone)]
struct ControllerMetrics {
    reconciliations: Family<ControllerLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Family<ControllerLabels, Histogram>,
    leading: Family<ControllerLabels, Gauge>,
}

impl Group for ControllerMetrics {
    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            reconciliations: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
            }),
            leading: Family::default(),
        };
        registry.register(
            "reconciliations",
            "Objects that a controller looked at",
            group.reconciliations.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Looks at an object that failed, by the error",
            group.errors.clone(),
        );
        registry.register(
            "reconcile_duration_seconds",
            "How long a look at an object took",
            group.seconds.clone(),
        );
        registry.register(
            "leading",
            "1 where a controller acts, 0 where it stands by",
            group.leading.clone(),
        );
        group
    }
}

/// The counts of one controller of one cluster. [`run`](crate::run) keeps them; a controller that watches by itself
/// keeps its own.
#[derive(Clone)]
pub struct Counts {
    labels: ControllerLabels,
    metrics: ControllerMetrics,
}

impl Counts {
    /// Those of a controller by its name, on a cluster.
    pub fn of(metrics: &Metrics, cluster: &str, controller: &str) -> Self {
        let labels = ControllerLabels { cluster: cluster.to_owned(), controller: controller.to_owned() };
        Self { labels, metrics: metrics.group() }
    }

    /// An object was looked at.
    pub fn reconciled(&self, took: Duration) {
        self.metrics.reconciliations.get_or_create(&self.labels).inc();
        self.metrics.seconds.get_or_create(&self.labels).observe(took.as_secs_f64());
    }

    /// A look failed; the error in a word.
    pub fn failed(&self, error: &str) {
        let ControllerLabels { cluster, controller } = self.labels.clone();
        self.metrics
            .errors
            .get_or_create(&ErrorLabels { cluster, controller, error: error.to_owned() })
            .inc();
    }

    /// Whether the controller acts.
    pub fn leading(&self, leads: bool) {
        self.metrics.leading.get_or_create(&self.labels).set(i64::from(leads));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_registered_once_and_shared() {
        let metrics = Metrics::default();
        for cluster in ["hub", "spoke-1", "spoke-1"] {
            let counts = Counts::of(&metrics, cluster, "addon-controller");
            counts.reconciled(Duration::from_millis(2));
            counts.failed("conflict");
        }
        let text = metrics.text();
        assert_eq!(text.matches("# TYPE bellwether_reconciliations counter").count(), 1, "{text}");
        let line = r#"bellwether_reconciliations_total{cluster="spoke-1",controller="addon-controller"} 2"#;
        assert!(text.contains(line), "{text}");
        let line = r#"bellwether_reconcile_errors_total{cluster="hub",controller="addon-controller",error="conflict"} 1"#;
        assert!(text.contains(line), "{text}");
    }
}
