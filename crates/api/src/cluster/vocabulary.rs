//! The words of clusters and placements on the wire.

/// The set that a cluster is in.
pub const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// The placement that a decision is of.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
/// The place of the group that a decision is of, from 0.
pub const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
/// The name of the group that a decision is of.
pub const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// On a placement: leaves its decisions as they are.
pub const SCHEDULING_DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";

/// On a cluster that says that it is not well.
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
/// On a cluster that is out of reach.
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";

/// Keeps a ManagedCluster until its add-ons and works are gone.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/bellwether-cleanup";

/// Whether the hub takes a cluster.
pub const ACCEPTED: &str = "HubAcceptedManagedCluster";
/// Whether the agent of a cluster has ever reported.
pub const JOINED: &str = "ManagedClusterJoined";
/// Whether a cluster is well and in reach.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// Of a cluster that is being deleted: whether all that belongs to it is gone.
pub const DELETING: &str = "Deleting";
/// Of Deleting: something is still there.
pub const RESOURCE_REMAINING: &str = "ResourceRemaining";
/// Of Deleting: nothing is there any more.
pub const NO_RESOURCE: &str = "NoResource";
/// The lease of a cluster, in its namespace.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";
/// The lease of a cluster is not renewed.
pub const LEASE_STOPPED: &str = "ManagedClusterLeaseUpdateStopped";
/// After how many times its duration a lease counts as not renewed.
pub const LEASE_GRACE: i32 = 5;

/// Whether a placement has the clusters that it wants.
pub const SATISFIED: &str = "PlacementSatisfied";
/// Whether a placement makes no sense.
pub const MISCONFIGURED: &str = "PlacementMisconfigured";
/// The most clusters that one decision holds.
pub const DECISIONS_LIMIT: usize = 100;
