//! What a controller is given: the cluster it works on and the process it runs in.

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
    /// The API of the cluster, with the identity of the controller.
    pub client: Client,
    /// The name of the cluster in logs, metrics and health.
    pub cluster: Arc<str>,
    /// The wall clock.
    pub clock: Arc<dyn Clock>,
    /// Whether this process is the leader.
    pub leadership: Leadership,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// The health of the process.
    pub health: Health,
    /// The shutdown of the process.
    pub shutdown: Shutdown,
}

impl Context {
    /// The context of a process of its own, without leader election.
    pub fn standalone(client: Client) -> Self {
        Self {
            client,
            cluster: "hub".into(),
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: Shutdown::default(),
        }
    }

    /// The same context for another cluster.
    #[must_use]
    pub fn for_cluster(&self, cluster: &str, client: Client) -> Self {
        Self { client, cluster: cluster.into(), ..self.clone() }
    }

    /// The name of a controller of this cluster as a health component.
    pub fn component_name(&self, controller: &str) -> String {
        format!("{controller} of {}", self.cluster)
    }
}
