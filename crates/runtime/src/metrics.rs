//! What a process counts, as Prometheus reads it. Controllers of several clusters share their metrics, told apart by
//! the label `cluster`.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
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

/// Brings metrics up to date that nobody keeps as things happen.
type Refresh = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// All metrics of a process. Clones are the same.
#[derive(Clone, Default)]
pub struct Metrics {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    registry: Registry,
    groups: HashMap<TypeId, Box<dyn Any + Send>>,
    refreshes: Vec<Refresh>,
}

/// Metrics that belong together. They are registered once in a process, by whoever asks first.
pub trait Group: Clone + Send + 'static {
    /// Before the name of each.
    const PREFIX: &'static str = "bellwether";

    /// Makes them, and registers each with its name and its words.
    fn register(registry: &mut Registry) -> Self;
}

impl Metrics {
    /// The metrics of a group; the same for all who ask.
    pub fn group<G: Group>(&self) -> G {
        let Inner { registry, groups, .. } = &mut *self.inner.lock();
        let mut register = || G::register(registry.sub_registry_with_prefix(G::PREFIX));
        let group = groups.entry(TypeId::of::<G>()).or_insert_with(|| Box::new(register()));
        match group.downcast_ref::<G>() {
            Some(group) => group.clone(),
            // The key is the type.
            None => register(),
        }
    }

    /// Has something done before every [`fresh_text`](Self::fresh_text). It must bound how long it takes.
    pub fn before_text<F>(&self, refresh: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.inner.lock().refreshes.push(Arc::new(move || refresh().boxed()));
    }

    /// All of them as text, after those that need it were brought up to date.
    pub async fn fresh_text(&self) -> String {
        let refreshes = self.inner.lock().refreshes.clone();
        futures::future::join_all(refreshes.iter().map(|refresh| refresh())).await;
        self.text()
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

    #[derive(Clone)]
    struct Guests(Gauge);

    impl Group for Guests {
        const PREFIX: &'static str = "hotel";

        fn register(registry: &mut Registry) -> Self {
            let guests = Self(Gauge::default());
            registry.register("guests", "Who is there", guests.0.clone());
            guests
        }
    }

    #[tokio::test]
    async fn a_group_may_have_a_prefix_of_its_own_and_be_brought_up_to_date_when_asked_for() {
        let metrics = Metrics::default();
        let guests: Guests = metrics.group();
        metrics.before_text(move || {
            guests.0.inc();
            std::future::ready(())
        });
        assert!(metrics.text().contains("\nhotel_guests 0\n"));
        assert!(metrics.fresh_text().await.contains("\nhotel_guests 1\n"));
    }
}
