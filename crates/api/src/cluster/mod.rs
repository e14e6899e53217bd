//! `cluster.open-cluster-management.io`: the clusters of a fleet, the sets they are in, and which of them are chosen.
//! The wire is a subset of upstream's, so that either side can be somebody else's.

mod managed_cluster;
mod placement;
mod set;
pub mod vocabulary;

pub use managed_cluster::*;
pub use placement::*;
pub use set::*;
