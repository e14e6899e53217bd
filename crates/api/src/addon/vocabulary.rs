//! The words of add-ons on the wire.

/// The add-on that a work, or an AddonInstance, is of.
pub const NAME_LABEL: &str = "open-cluster-management.io/addon-name";
/// The version that a work, or a template, is of.
pub const VERSION_LABEL: &str = "open-cluster-management.io/addon-version";
/// On a work: what it was made from, so that another making of the same version is noticed.
pub const RENDERED_HASH: &str = "open-cluster-management.io/rendered-hash";
/// Keeps a ManagedClusterAddOn until its works are gone.
pub const FINALIZER: &str = "addon.open-cluster-management.io/bellwether-cleanup";
/// On a ManagedClusterAddOn that was made for a placement: `<namespace>/<name>` of that.
pub const INSTALLED_BY: &str = "addon.open-cluster-management.io/install-strategy";
/// On a ManagedClusterAddOn: it goes also from a cluster that is out of reach.
pub const UNINSTALL_UNREACHABLE: &str = "addon.open-cluster-management.io/uninstall-when-unreachable";
/// The namespace of add-ons on their clusters, where nobody says another.
pub const INSTALL_NAMESPACE: &str = "open-cluster-management-agent-addon";

/// Whether an add-on changes, and how that ended.
pub const PROGRESSING: &str = "Progressing";
/// Of Progressing: the version is there.
pub const SUCCEED: &str = "Succeed";
/// Whether a cluster has had its turn, and what it waits for.
pub const CONFIGURED: &str = "Configured";
/// Whether all objects were written.
pub const MANIFEST_APPLIED: &str = "ManifestApplied";
/// Whether the add-on is up.
pub const AVAILABLE: &str = "Available";
/// Whether the add-on says that it is alive. Written by the agent of the cluster.
pub const HEARTBEAT: &str = "Heartbeat";
/// Whether something is wrong that does not keep the add-on from working.
pub const DEGRADED: &str = "Degraded";

/// A version that is not known: while it changes, and where one was asked for that there is not.
pub const UNKNOWN_VERSION: &str = "unknown";
