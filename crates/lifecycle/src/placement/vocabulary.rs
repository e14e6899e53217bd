//! Condition types, reasons and the finalizer of the placement controller, as upstream defines them.

use bellwether_api::cluster::vocabulary as wire;
use bellwether_conditions::{ConditionType, Reason};

/// Keeps a Placement until its decisions are gone.
pub const FINALIZER: &str = "cluster.open-cluster-management.io/bellwether-cleanup";

pub(super) const SATISFIED: ConditionType = ConditionType::constant(wire::SATISFIED);
pub(super) const MISCONFIGURED: ConditionType = ConditionType::constant(wire::MISCONFIGURED);

pub(super) const ALL_SCHEDULED: Reason = Reason::constant("AllDecisionsScheduled");
pub(super) const NOT_ALL_SCHEDULED: Reason = Reason::constant("NotAllDecisionsScheduled");
pub(super) const NO_BINDINGS: Reason = Reason::constant("NoManagedClusterSetBindings");
pub(super) const NO_INTERSECTION: Reason = Reason::constant("NoIntersection");
pub(super) const SETS_EMPTY: Reason = Reason::constant("AllManagedClusterSetsEmpty");
pub(super) const NO_MATCH: Reason = Reason::constant("NoManagedClusterMatched");

pub(super) const REASON_MISCONFIGURED: Reason = Reason::constant("Misconfigured");
pub(super) const REASON_VALID: Reason = Reason::constant("Succeedconfigured");
