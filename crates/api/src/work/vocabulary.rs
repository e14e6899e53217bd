//! The words of works on the wire.

/// Keeps a work until what was made for it is gone.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/manifest-work-cleanup";
/// Keeps the record of what was made until it is gone.
pub const APPLIED_FINALIZER: &str = "cluster.open-cluster-management.io/applied-manifest-work-cleanup";

/// Whether the objects of a work, or one of them, were written.
pub const APPLIED: &str = "Applied";
/// Whether the objects of a work, or one of them, are there.
pub const AVAILABLE: &str = "Available";
/// Whether what the status of an object says was found.
pub const FEEDBACK_SYNCED: &str = "StatusFeedbackSynced";
/// Whether a work is being deleted.
pub const DELETING: &str = "Deleting";

/// All objects were written.
pub const WORK_APPLIED: &str = "AppliedManifestWorkComplete";
/// Some object was not written.
pub const WORK_NOT_APPLIED: &str = "AppliedManifestWorkFailed";
/// All objects are there.
pub const RESOURCES_AVAILABLE: &str = "ResourcesAvailable";
/// Some object is not there.
pub const RESOURCES_NOT_AVAILABLE: &str = "ResourcesNotAvailable";
/// Whether some object is there cannot be told.
pub const RESOURCES_UNKNOWN: &str = "ResourcesStatusUnknown";
/// A work is being deleted.
pub const WORK_DELETING: &str = "WorkDeleting";

/// The object was written.
pub const MANIFEST_APPLIED: &str = "AppliedManifestComplete";
/// The object was not written.
pub const MANIFEST_NOT_APPLIED: &str = "AppliedManifestFailed";
/// The object is there.
pub const RESOURCE_AVAILABLE: &str = "ResourceAvailable";
/// The object is not there.
pub const RESOURCE_NOT_AVAILABLE: &str = "ResourceNotAvailable";
/// The object cannot be read.
pub const RESOURCE_UNREADABLE: &str = "FetchingResourceFailed";
/// It cannot be told which object is meant.
pub const RESOURCE_UNNAMED: &str = "IncompleteResourceMeta";
/// Nothing is to be reported.
pub const NO_FEEDBACK: &str = "NoStatusFeedbackSynced";
/// All that is to be reported was found.
pub const FEEDBACK_FOUND: &str = "StatusFeedbackSynced";
/// Some of what is to be reported was not found.
pub const FEEDBACK_NOT_FOUND: &str = "StatusFeedbackSyncFailed";

/// The most that the manifests of one work may have, in bytes.
pub const MANIFESTS_LIMIT: usize = 500 * 1024;
