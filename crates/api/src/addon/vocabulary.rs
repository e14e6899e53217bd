//! Labels, annotations, finalizers, condition types and reasons of add-ons.

/// Label of a ManifestWork or AddonInstance: the name of the add-on that it belongs to.
pub const NAME_LABEL: &str = "open-cluster-management.io/addon-name";
/// Label of a ManifestWork or AddOnTemplate: the version that it belongs to.
pub const VERSION_LABEL: &str = "open-cluster-management.io/addon-version";
/// Annotation of a ManifestWork: a hash of its rendered spec. It changes when the same version renders to other manifests.
pub const RENDERED_HASH: &str = "open-cluster-management.io/rendered-hash";
/// Finalizer of a ManagedClusterAddOn: the lifecycle controller removes it when the add-on's ManifestWorks are deleted.
pub const FINALIZER: &str = "addon.open-cluster-management.io/bellwether-cleanup";
/// Annotation of a ManagedClusterAddOn that the install controller created: the placement, as `<namespace>/<name>`.
pub const INSTALLED_BY: &str = "addon.open-cluster-management.io/install-strategy";
/// Annotation of a ManagedClusterAddOn: if `"true"`, the add-on is uninstalled even while the cluster is unreachable.
pub const UNINSTALL_UNREACHABLE: &str = "addon.open-cluster-management.io/uninstall-when-unreachable";
/// The default namespace of an add-on on its managed cluster.
pub const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Condition type: whether the version of the add-on is changing, and the result of the last change.
pub const PROGRESSING: &str = "Progressing";
/// Reason of Progressing: the requested version is installed.
pub const SUCCEED: &str = "Succeed";
/// Condition type: whether the rollout has admitted the cluster; the message says what the cluster waits for.
pub const CONFIGURED: &str = "Configured";
/// Condition type: whether all manifests are applied.
pub const MANIFEST_APPLIED: &str = "ManifestApplied";
/// Condition type: whether the add-on is available on the cluster.
pub const AVAILABLE: &str = "Available";
/// Condition type: whether the add-on sends heartbeats. The agent of the cluster writes it.
pub const HEARTBEAT: &str = "Heartbeat";
/// Condition type: whether the add-on works with reduced function. The add-on's own status source writes it.
pub const DEGRADED: &str = "Degraded";

/// The value of `currentVersion` while the version changes, and of `lastVersion` if the version before did not exist.
pub const UNKNOWN_VERSION: &str = "unknown";
