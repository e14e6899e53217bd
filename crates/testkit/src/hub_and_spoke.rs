//! A hub and a cluster that has joined it, as the environment of scenarios.

use bellwether_apiserver::HUB;

use crate::cluster::Cluster;
use crate::{embedded, real};

/// A hub and a cluster.
pub struct HubAndSpoke {
    /// The hub.
    pub hub: Cluster,
    /// The cluster.
    pub spoke: Cluster,
}

impl HubAndSpoke {
    /// A new hub and a new cluster on the embedded API server.
    pub async fn embedded() -> Self {
        let server = embedded::builder().clusters(["spoke"]).start().await.expect("the server starts");
        let cluster = |name| embedded::logical_cluster(&server, name);
        Self { hub: cluster(HUB), spoke: cluster("spoke") }
    }

    /// A hub and a cluster on real Kubernetes, which all lanes share.
    pub async fn real(_lane: usize) -> Self {
        Self { hub: real::cluster("hub").await, spoke: real::cluster("spoke").await }
    }
}
