//! `cluster.open-cluster-management.io`: the clusters of a fleet, the sets they belong to, and the placements that select
//! them. The types are a subset of Open Cluster Management's, so either side can be replaced by upstream's controllers.

mod managed_cluster;
mod placement;
mod set;
pub mod vocabulary;

pub use managed_cluster::*;
pub use placement::*;
pub use set::*;
