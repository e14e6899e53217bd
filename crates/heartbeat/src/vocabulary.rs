//! Condition types, reasons, messages, annotations and object names, as in upstream's addon-operator. Clients depend on
//! them, so they must not change. Which of them applies when is decided elsewhere.

use bellwether_conditions::{ConditionType, Reason};

/// The API group, which is also the prefix of every condition type of an AddonInstance.
pub const GROUP: &str = "addons.managed.openshift.io";
/// The default name of an AddonInstance; there is one in each target namespace.
pub const INSTANCE_NAME: &str = "addon-instance";

/// Conditions of an AddonInstance.
pub mod instance {
    use super::ConditionType;

    /// Whether the add-on is healthy. Written by the add-on, and by the checker while the add-on is silent.
    pub const HEALTHY: ConditionType = ConditionType::constant("addons.managed.openshift.io/Healthy");
    /// Whether the add-on works with reduced function. Written by the add-on.
    pub const DEGRADED: ConditionType = ConditionType::constant("addons.managed.openshift.io/Degraded");
    /// Whether the add-on has finished its setup. Written by the add-on.
    pub const INSTALLED: ConditionType = ConditionType::constant("addons.managed.openshift.io/Installed");
    /// Whether the add-on has finished its cleanup before deletion. Written by the add-on.
    pub const READY_TO_BE_DELETED: ConditionType =
        ConditionType::constant("addons.managed.openshift.io/ReadyToBeDeleted");
}

/// The reasons that the checker writes to `Healthy`. A condition with any other reason belongs to the add-on, and the checker
/// does not change it while heartbeats arrive.
pub mod reasons {
    use super::Reason;

    /// No heartbeat arrived before the threshold passed.
    pub const HEARTBEAT_TIMEOUT: Reason = Reason::constant("HeartbeatTimeout");
    /// Heartbeats arrive, and the add-on does not report its health itself.
    pub const RECEIVING_HEARTBEATS: Reason = Reason::constant("ReceivingHeartbeats");
    /// The add-on has not sent a heartbeat yet.
    pub const PENDING_FIRST_HEARTBEAT: Reason = Reason::constant("PendingFirstHeartbeat");
}

/// Conditions, reasons, messages, annotations and phases of an Addon.
pub mod addon {
    use super::{ConditionType, Reason};

    /// The namespaces and the AddonInstance exist, and the installation is acknowledged if required.
    pub const AVAILABLE: ConditionType = ConditionType::constant("Available");
    /// The Addon is not reconciled.
    pub const PAUSED: ConditionType = ConditionType::constant("Paused");
    /// The Addon was available at least once.
    pub const INSTALLED: ConditionType = ConditionType::constant("Installed");
    /// The add-on has finished its cleanup before deletion.
    pub const READY_TO_BE_DELETED: ConditionType = ConditionType::constant("ReadyToBeDeleted");
    /// The add-on has not finished its cleanup before the timeout.
    pub const DELETE_TIMEOUT: ConditionType = ConditionType::constant("DeleteTimeout");
    /// The add-on is silent. Written only with `--mirror-timeouts`.
    pub const HEARTBEAT_TIMEOUT: ConditionType = ConditionType::constant("HeartbeatTimeout");

    /// Reasons of the conditions of an Addon and an AddonOperator.
    pub mod reasons {
        use super::Reason;

        /// All objects exist, and the installation is acknowledged if required.
        pub const FULLY_RECONCILED: Reason = Reason::constant("FullyReconciled");
        /// The Addon is being deleted.
        pub const TERMINATING: Reason = Reason::constant("Terminating");
        /// The spec is invalid, or the AddonInstance belongs to another owner.
        pub const CONFIGURATION_ERROR: Reason = Reason::constant("ConfigurationError");
        /// `spec.pause` of the Addon is true.
        pub const ADDON_PAUSED: Reason = Reason::constant("AddonPaused");
        /// `spec.pause` of the AddonOperator is true.
        pub const ADDON_OPERATOR_PAUSED: Reason = Reason::constant("AddonOperatorPaused");
        /// The AddonOperator has an effect.
        pub const ADDON_OPERATOR_READY: Reason = Reason::constant("AddonOperatorReady");
        /// A namespace is missing, is being deleted, or could not be created.
        pub const UNREADY_NAMESPACES: Reason = Reason::constant("UnreadyNamespaces");
        /// The AddonInstance is missing, or does not report `Installed`.
        pub const ADDON_INSTANCE_NOT_INSTALLED: Reason = Reason::constant("AddonInstanceNotInstalled");
        /// The Addon was available at least once.
        pub const ADDON_INSTALLED: Reason = Reason::constant("AddonInstalled");
        /// The add-on has finished its cleanup, or none is required.
        pub const ADDON_READY_TO_BE_DELETED: Reason = Reason::constant("AddonReadyToBeDeleted");
        /// The add-on has not finished its cleanup yet.
        pub const ADDON_NOT_READY_TO_BE_DELETED: Reason = Reason::constant("AddonNotReadyToBeDeleted");
        /// The add-on has not finished its cleanup before the timeout.
        pub const DELETION_TIMED_OUT: Reason = Reason::constant("AddonReasonDeletionTimedOut");
        /// The add-on is silent.
        pub const HEARTBEAT_TIMEOUT: Reason = Reason::constant("HeartbeatTimeout");
    }

    /// Messages that are the same as upstream's.
    pub mod messages {
        /// The AddonInstance does not report `Installed`.
        pub const NOT_INSTALLED: &str = "Addon instance is not yet installed.";
        /// The add-on has finished its cleanup, or none is required.
        pub const READY_TO_BE_DELETED: &str = "Addon is ready to be deleted.";
        /// The add-on has not finished its cleanup yet.
        pub const NOT_READY_TO_BE_DELETED: &str = "Addon is not yet ready to be deleted.";
        /// The add-on has not finished its cleanup before the timeout.
        pub const DELETION_TIMED_OUT: &str = "Addon deletion has timed out.";
    }

    /// The name of the AddonOperator; one with another name has no effect.
    pub const OPERATOR_NAME: &str = "addon-operator";
    /// The finalizer that keeps an Addon until its status reports `Terminating`.
    pub const FINALIZER: &str = "addons.managed.openshift.io/cache";
    /// The annotation that announces the deletion, with any value, so that the add-on cleans up.
    pub const DELETE_ANNOTATION: &str = "addons.managed.openshift.io/delete";
    /// The annotation with the time that the add-on has for its cleanup, as a Go duration.
    pub const DELETE_TIMEOUT_ANNOTATION: &str = "addons.managed.openshift.io/deletetimeout";
}
