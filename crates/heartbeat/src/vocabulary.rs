//! The names that stand on the wire: condition types, reasons, messages, annotations. Upstream's clients know them.

use bellwether_conditions::{ConditionType, Reason};

/// The group, and the prefix of every condition type of an AddonInstance.
pub const GROUP: &str = "addons.managed.openshift.io";
/// How an instance is named unless somebody chose otherwise; one in each target namespace.
pub const INSTANCE: &str = "addon-instance";

/// Conditions of an AddonInstance.
pub mod instance {
    use super::ConditionType;

    /// Whether the add-on is well. The add-on's own, and the checker's while the add-on is silent.
    pub const HEALTHY: ConditionType = ConditionType::constant("addons.managed.openshift.io/Healthy");
    /// Whether a part of the add-on's function is lost. The add-on's own.
    pub const DEGRADED: ConditionType = ConditionType::constant("addons.managed.openshift.io/Degraded");
    /// Whether the add-on has set itself up. The add-on's own.
    pub const INSTALLED: ConditionType = ConditionType::constant("addons.managed.openshift.io/Installed");
    /// Whether the add-on has cleaned up after itself. The add-on's own.
    pub const READY_TO_BE_DELETED: ConditionType =
        ConditionType::constant("addons.managed.openshift.io/ReadyToBeDeleted");
}

/// The checker's own reasons for `Healthy`. Every other reason is the add-on's, and left alone while it beats.
pub mod reasons {
    use super::Reason;

    /// The add-on was silent for too long.
    pub const HEARTBEAT_TIMEOUT: Reason = Reason::constant("HeartbeatTimeout");
    /// The add-on beats, and says nothing of its health.
    pub const RECEIVING_HEARTBEATS: Reason = Reason::constant("ReceivingHeartbeats");
    /// The add-on has never beaten.
    pub const PENDING_FIRST_HEARTBEAT: Reason = Reason::constant("PendingFirstHeartbeat");
}

/// Conditions, reasons, messages, annotations and phases of an Addon.
pub mod addon {
    use super::{ConditionType, Reason};

    /// Everything of the add-on is there.
    pub const AVAILABLE: ConditionType = ConditionType::constant("Available");
    /// Nothing is done about the add-on for now.
    pub const PAUSED: ConditionType = ConditionType::constant("Paused");
    /// The add-on was available at least once.
    pub const INSTALLED: ConditionType = ConditionType::constant("Installed");
    /// The add-on has cleaned up after itself.
    pub const READY_TO_BE_DELETED: ConditionType = ConditionType::constant("ReadyToBeDeleted");
    /// The add-on has not cleaned up after itself in time.
    pub const DELETE_TIMEOUT: ConditionType = ConditionType::constant("DeleteTimeout");
    /// The add-on is silent. Told only where timeouts are mirrored.
    pub const HEARTBEAT_TIMEOUT: ConditionType = ConditionType::constant("HeartbeatTimeout");

    /// Why an Addon is as it is.
    pub mod reasons {
        use super::Reason;

        /// Everything is there.
        pub const FULLY_RECONCILED: Reason = Reason::constant("FullyReconciled");
        /// It is being deleted.
        pub const TERMINATING: Reason = Reason::constant("Terminating");
        /// Its spec cannot be followed.
        pub const CONFIGURATION_ERROR: Reason = Reason::constant("ConfigurationError");
        /// It is paused by itself.
        pub const ADDON_PAUSED: Reason = Reason::constant("AddonPaused");
        /// All are paused.
        pub const ADDON_OPERATOR_PAUSED: Reason = Reason::constant("AddonOperatorPaused");
        /// Addons are looked after.
        pub const ADDON_OPERATOR_READY: Reason = Reason::constant("AddonOperatorReady");
        /// A namespace is not there, or not any more.
        pub const UNREADY_NAMESPACES: Reason = Reason::constant("UnreadyNamespaces");
        /// Its instance is not there, or does not say that it is installed.
        pub const ADDON_INSTANCE_NOT_INSTALLED: Reason = Reason::constant("AddonInstanceNotInstalled");
        /// It was available once.
        pub const ADDON_INSTALLED: Reason = Reason::constant("AddonInstalled");
        /// It has cleaned up, or need not.
        pub const ADDON_READY_TO_BE_DELETED: Reason = Reason::constant("AddonReadyToBeDeleted");
        /// It has not cleaned up yet.
        pub const ADDON_NOT_READY_TO_BE_DELETED: Reason = Reason::constant("AddonNotReadyToBeDeleted");
        /// It has not cleaned up in time.
        pub const DELETION_TIMED_OUT: Reason = Reason::constant("AddonReasonDeletionTimedOut");
        /// It is silent.
        pub const HEARTBEAT_TIMEOUT: Reason = Reason::constant("HeartbeatTimeout");
    }

    /// Messages that programs and people know from upstream.
    pub mod messages {
        /// The instance does not say that it is installed.
        pub const NOT_INSTALLED: &str = "Addon instance is not yet installed.";
        /// The add-on has cleaned up, or need not.
        pub const READY_TO_BE_DELETED: &str = "Addon is ready to be deleted.";
        /// The add-on has not cleaned up yet.
        pub const NOT_READY_TO_BE_DELETED: &str = "Addon is not yet ready to be deleted.";
        /// The add-on has not cleaned up in time.
        pub const DELETION_TIMED_OUT: &str = "Addon deletion has timed out.";
    }

    /// The AddonOperator that holds for all Addons.
    pub const OPERATOR: &str = "addon-operator";
    /// Keeps an Addon until it was told that it is being deleted.
    pub const FINALIZER: &str = "addons.managed.openshift.io/cache";
    /// Asks the add-on to clean up, whatever the value.
    pub const DELETE: &str = "addons.managed.openshift.io/delete";
    /// How long the add-on may take for that, as Go writes durations.
    pub const DELETE_TIMEOUT_AFTER: &str = "addons.managed.openshift.io/deletetimeout";
}
