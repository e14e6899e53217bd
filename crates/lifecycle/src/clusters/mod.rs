//! Clusters of the fleet: accepted, and in reach; the sets they are in, and the namespaces that may choose from those.
//!
//! | module | what it decides |
//! |---|---|
//! | `decide` | what the hub says of a cluster, and which taints follow from that; pure |
//! | `leases` | whether a cluster is heard; in memory, made again after a restart |
//! | `members` | who is in a set; pure |
//! | `controller`, `sets` | read, ask the others, write what differs |
//!
//! `mirror` is shared with `placement`. **A renewal of a lease costs a map entry: no read, no write.**
//! **Who was not looked at is not lost**: a cluster has its whole time to be heard from when this process begins to look,
//! and again from when the API could not be reached.

mod controller;
mod decide;
mod error;
mod leases;
pub(crate) mod members;
pub(crate) mod mirror;
pub(crate) mod reachability;
mod sets;

pub use controller::Clusters;
pub use error::ClusterError;
pub use reachability::{ClusterState, Reachability};
pub use sets::{ClusterSetBindings, ClusterSets};

/// The name of [`Clusters`], in logs, metrics and health, and as an identity.
pub const CLUSTERS: &str = "cluster-controller";
/// The name of [`ClusterSets`].
pub const CLUSTER_SETS: &str = "cluster-set-controller";
/// The name of [`ClusterSetBindings`].
pub const CLUSTER_SET_BINDINGS: &str = "cluster-set-binding-controller";
