//! `observability.open-cluster-management.io`: the metrics add-on of a cluster and its status. The type is that of Open
//! Cluster Management's observability operator, so that its components work unchanged. What the controllers do with it is in
//! `bellwether-observability`.

mod addon;

pub use addon::*;
