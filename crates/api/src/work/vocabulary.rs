//! Finalizers, condition types and reasons of ManifestWorks.

/// Finalizer of a ManifestWork: the agent removes it when the applied objects are deleted.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// Finalizer of an AppliedManifestWork: the agent removes it when the applied objects are deleted.
pub const APPLIED_FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// Condition type: whether the objects of a ManifestWork, or one of them, are applied.
pub const APPLIED: &str = "Applied";
/// Condition type: whether the objects of a ManifestWork, or one of them, exist.
pub const AVAILABLE: &str = "Available";
/// Condition type: whether the requested status values of an object were found.
pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
/// Condition type: whether a ManifestWork is being deleted.
pub const DELETING: &str = "Deleting";

/// Reason: all objects are applied.
pub const WORK_APPLIED: &str = "AppliedManifestWorkComplete";
/// Reason: applying at least one object failed.
pub const WORK_NOT_APPLIED: &str = "AppliedManifestWorkFailed";
/// Reason: all objects exist.
pub const RESOURCES_AVAILABLE: &str = "ResourcesAvailable";
/// Reason: at least one object does not exist.
pub const RESOURCES_NOT_AVAILABLE: &str = "ResourcesNotAvailable";
/// Reason: whether at least one object exists is unknown.
pub const RESOURCES_UNKNOWN: &str = "ResourcesStatusUnknown";
/// Reason: the ManifestWork is being deleted.
pub const WORK_DELETING: &str = "WorkDeleting";

/// Reason: the object is applied.
pub const MANIFEST_APPLIED: &str = "AppliedManifestComplete";
/// Reason: applying the object failed.
pub const MANIFEST_NOT_APPLIED: &str = "AppliedManifestFailed";
/// Reason: the object exists.
pub const RESOURCE_AVAILABLE: &str = "ResourceAvailable";
/// Reason: the object does not exist.
pub const RESOURCE_NOT_AVAILABLE: &str = "ResourceNotAvailable";
/// Reason: reading the object failed.
pub const RESOURCE_UNREADABLE: &str = "FetchingResourceFailed";
/// Reason: the manifest does not identify an object.
pub const RESOURCE_UNNAMED: &str = "IncompleteResourceMeta";
/// Reason: no status values are requested.
pub const NO_FEEDBACK: &str = "NoStatusFeedbackSynced";
/// Reason: all requested status values were found.
pub const FEEDBACK_FOUND: &str = "StatusFeedbackSynced";
/// Reason: some requested status values were not found.
pub const FEEDBACK_NOT_FOUND: &str = "StatusFeedbackSyncFailed";

/// The maximum size of the manifests of one ManifestWork, in bytes.
pub const MANIFESTS_LIMIT: usize = 500 * 1024;
