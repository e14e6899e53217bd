//! Controllers of ManagedClusters, ManagedClusterSets and ManagedClusterSetBindings: acceptance, reachability, membership.
//! Which clusters a Placement selects is left to `placement`.
//!
//! | module | what it decides |
//! |---|---|
//! | `decide` | the conditions, taints and finalizers of a cluster; pure |
//! | `leases` | whether a cluster is reachable; in memory, rebuilt after a restart |
//! | `members` | which clusters are in a set; pure |
//! | `controller`, `sets` | nothing: they read, call the other modules and write the differences |
//!
//! **A renewal of a Lease only updates a map entry: no read, no write.** **A cluster is unreachable only if this process was
//! leader and has watched its Lease for the whole grace period**: the period starts again when the process becomes leader, and
//! after the API server was unavailable.

mod controller;
mod decide;
mod error;
mod leases;
pub(crate) mod members;
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
