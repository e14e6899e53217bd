//! Labels, taints, finalizers, condition types and reasons of clusters and placements.

/// Label of a ManagedCluster: the ManagedClusterSet that it belongs to.
pub const SET_LABEL: &str = "cluster.open-cluster-management.io/clusterset";
/// Label of a PlacementDecision: the Placement that it belongs to.
pub const PLACEMENT_LABEL: &str = "cluster.open-cluster-management.io/placement";
/// Label of a PlacementDecision: the index of its decision group, counted from 0.
pub const GROUP_INDEX_LABEL: &str = "cluster.open-cluster-management.io/decision-group-index";
/// Label of a PlacementDecision: the name of its decision group.
pub const GROUP_NAME_LABEL: &str = "cluster.open-cluster-management.io/decision-group-name";
/// Annotation of a Placement: if `"true"`, its PlacementDecisions are not changed.
pub const SCHEDULING_DISABLED: &str = "cluster.open-cluster-management.io/experimental-scheduling-disable";

/// Taint of a ManagedCluster whose agent reports that it is not available.
pub const UNAVAILABLE_TAINT: &str = "cluster.open-cluster-management.io/unavailable";
/// Taint of a ManagedCluster whose agent no longer renews its Lease.
pub const UNREACHABLE_TAINT: &str = "cluster.open-cluster-management.io/unreachable";

/// Finalizer of a ManagedCluster: the hub removes it when the cluster's add-ons and ManifestWorks are deleted.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/bellwether-cleanup";

/// Condition type: whether the hub accepts the cluster.
pub const ACCEPTED: &str = "HubAcceptedManagedCluster";
/// Condition type: whether the agent of the cluster has ever reported.
pub const JOINED: &str = "ManagedClusterJoined";
/// Condition type: whether the cluster is available and reachable.
pub const AVAILABLE: &str = "ManagedClusterConditionAvailable";
/// Condition type of a cluster that is being deleted: whether everything that belongs to it is deleted.
pub const DELETING: &str = "Deleting";
/// Reason of Deleting: add-ons or ManifestWorks of the cluster still exist.
pub const RESOURCE_REMAINING: &str = "ResourceRemaining";
/// Reason of Deleting: nothing of the cluster is left.
pub const NO_RESOURCE: &str = "NoResource";
/// The name of the Lease of a cluster, in the namespace of the cluster.
pub const CLUSTER_LEASE: &str = "managed-cluster-lease";
/// Reason of the availability condition: the Lease of the cluster is no longer renewed.
pub const LEASE_STOPPED: &str = "ManagedClusterLeaseUpdateStopped";
/// A Lease counts as expired after this many times its duration.
pub const LEASE_GRACE: i32 = 5;

/// Condition type: whether a placement has selected as many clusters as requested.
pub const SATISFIED: &str = "PlacementSatisfied";
/// Condition type: whether the spec of a placement is invalid.
pub const MISCONFIGURED: &str = "PlacementMisconfigured";
/// The maximum number of clusters in one PlacementDecision.
pub const DECISIONS_LIMIT: usize = 100;
