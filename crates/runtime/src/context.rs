//! What a controller is given: the cluster it works on, and the process it works in.

use std::sync::Arc;

use bellwether_clock::{Clock, SystemClock};
use kube::Client;

use crate::health::Health;
use crate::leadership::Leadership;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;

/// What a controller is given. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    /// The cluster, as the identity of the controller.
    pub client: Client,
    /// The name of the cluster in logs and metrics.
    pub cluster: Arc<str>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Whether to act.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Metrics,
    /// Where to tell of troubles.
    pub health: Health,
    /// When to stop.
    pub shutdown: Shutdown,
}

impl Context {
    /// Of a process that is alone with one cluster.
    pub fn alone(client: Client) -> Self {
        Self {
            client,
            cluster: "hub".into(),
            clock: Arc::new(SystemClock),
            leadership: Leadership::alone(),
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: Shutdown::default(),
        }
    }

    /// The same for another cluster, by a client of that.
    #[must_use]
    pub fn of_cluster(&self, cluster: &str, client: Client) -> Self {
        Self { client, cluster: cluster.into(), ..self.clone() }
    }

    /// A part of the process, named for people: a controller, and the cluster that it works on.
    pub(crate) fn part_name(&self, controller: &str) -> String {
        format!("{controller} of {}", self.cluster)
    }
}
