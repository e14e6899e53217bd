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
