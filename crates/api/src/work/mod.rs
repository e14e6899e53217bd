//! `work.open-cluster-management.io`: objects that the hub asks a cluster to have, and their state there. The types are a
//! subset of Open Cluster Management's, so either side can be replaced by upstream's.

mod applied;
mod manifest_work;
pub mod vocabulary;

pub use applied::*;
pub use manifest_work::*;
