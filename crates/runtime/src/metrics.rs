//! The metrics of a process in the OpenMetrics text format. Controllers of several clusters share their metrics, which
//! the label `cluster` distinguishes.

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

/// Updates metrics that are computed when they are scraped.
type Refresh = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// All metrics of a process. Clones share the same registry.
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

/// Metrics that belong together. They are registered once per process, at the first use.
pub trait Group: Clone + Send + 'static {
    /// The prefix of their names.
    const PREFIX: &'static str = "bellwether";

    /// Creates them and registers each with its name and help text.
    fn register(registry: &mut Registry) -> Self;
}

impl Metrics {
    /// The metrics of a group; every caller gets the same.
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

    /// Calls `refresh` before every [`fresh_text`](Self::fresh_text). It must limit the time it takes.
    pub fn before_text<F>(&self, refresh: impl Fn() -> F + Send + Sync + 'static)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.inner.lock().refreshes.push(Arc::new(move || refresh().boxed()));
    }

    /// All metrics as text, after every registered refresh.
    pub async fn fresh_text(&self) -> String {
        let refreshes = self.inner.lock().refreshes.clone();
        futures::future::join_all(refreshes.iter().map(|refresh| refresh())).await;
        self.text()
    }

    /// All metrics as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &self.inner.lock().registry) {
            let _ = write!(text, "# the metrics could not be encoded: {error}\n# EOF\n");
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

/// The metrics that every controller has.
#[derive(Clone)]
struct ControllerGroup {
    reconciliations: Family<ControllerLabels, Counter>,
    errors: Family<ErrorLabels, Counter>,
    seconds: Family<ControllerLabels, Histogram>,
    leading: Family<ControllerLabels, Gauge>,
    queue_depth: Family<ControllerLabels, Gauge>,
}

impl Group for ControllerGroup {
    fn register(registry: &mut Registry) -> Self {
        let group = Self {
            reconciliations: Family::default(),
            errors: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new([0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0])
            }),
            leading: Family::default(),
            queue_depth: Family::default(),
        };
        registry.register(
            "reconciliations",
            "Number of reconciles, successful or not",
            group.reconciliations.clone(),
        );
        registry.register(
            "reconcile_errors",
            "Number of reconciles that failed, by kind of error; a panic and a timeout are kinds too",
            group.errors.clone(),
        );
        registry.register("reconcile_duration_seconds", "Duration of a reconcile", group.seconds.clone());
        registry.register(
            "leading",
            "Whether this process is the leader for the controller (1) or standby (0)",
            group.leading.clone(),
        );
        registry.register(
            "workqueue_depth",
            "Number of keys that wait to be reconciled",
            group.queue_depth.clone(),
        );
        group
    }
}

/// The metrics of one controller on one cluster.
#[derive(Clone)]
pub struct ControllerMetrics {
    labels: ControllerLabels,
    group: ControllerGroup,
}

impl ControllerMetrics {
    /// The metrics of a controller by its name, on a cluster.
    pub fn new(metrics: &Metrics, cluster: &str, controller: &str) -> Self {
        let labels = ControllerLabels { cluster: cluster.to_owned(), controller: controller.to_owned() };
        Self { labels, group: metrics.group() }
    }

    /// Counts a reconcile and how long it took.
    pub fn observe_reconcile(&self, took: Duration) {
        self.group.reconciliations.get_or_create(&self.labels).inc();
        self.group.seconds.get_or_create(&self.labels).observe(took.as_secs_f64());
    }

    /// Counts a failed reconcile by the kind of its error.
    pub fn count_error(&self, error: &str) {
        let ControllerLabels { cluster, controller } = self.labels.clone();
        let labels = ErrorLabels { cluster, controller, error: error.to_owned() };
        self.group.errors.get_or_create(&labels).inc();
    }

    /// Sets whether this process is the leader.
    pub fn set_leader(&self, leader: bool) {
        self.group.leading.get_or_create(&self.labels).set(i64::from(leader));
    }

    /// Sets how many keys wait.
    pub(crate) fn set_queue_depth(&self, depth: usize) {
        self.group.queue_depth.get_or_create(&self.labels).set(i64::try_from(depth).unwrap_or(i64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_is_registered_once_and_shared() {
        let metrics = Metrics::default();
        for cluster in ["hub", "spoke-1", "spoke-1"] {
            let controller = ControllerMetrics::new(&metrics, cluster, "addon-controller");
            controller.observe_reconcile(Duration::from_millis(2));
            controller.count_error("conflict");
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
    async fn group_may_have_its_own_prefix_and_a_refresh_before_each_scrape() {
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
