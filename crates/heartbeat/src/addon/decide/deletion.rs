//! Plans the acknowledgement of a deletion. An annotation on the Addon announces the deletion, the controller sets
//! `markedForDeletion` on the instance, and the add-on reports `ReadyToBeDeleted` when it has cleaned up. Deleting the Addon
//! is left to the user.

use std::time::Duration;

use bellwether_api::addons_managed::AddonSpec;
use bellwether_conditions::Status as ConditionStatus;
use bellwether_runtime::Next;
use jiff::Timestamp;

use super::StatusDraft;
use crate::addon::object::{AddonObject, InstanceObject};
use crate::duration;
use crate::vocabulary::addon::{self as names, messages, reasons};
use crate::vocabulary::instance;

/// How long the cleanup may take if the annotation is missing or invalid.
const DEFAULT_CLEANUP_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What happens to `markedForDeletion` of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeletionMark {
    Set,
    Clear,
    Keep,
}

impl DeletionMark {
    /// If the annotation is removed, the mark is cleared, unless the add-on has already cleaned up: it would have to set
    /// itself up again.
    pub(super) fn desired(addon: &AddonObject, spec: &AddonSpec, found: Option<&InstanceObject>) -> Self {
        if addon.annotation(names::DELETE_ANNOTATION).is_some() {
            return if spec.delete_ack_required { Self::Set } else { Self::Keep };
        }
        let is_ready = addon.status.conditions.is_true(&names::READY_TO_BE_DELETED)
            || found.is_some_and(|found| found.is_true(&instance::READY_TO_BE_DELETED));
        if is_ready { Self::Keep } else { Self::Clear }
    }
}

/// Updates the conditions `ReadyToBeDeleted` and `DeleteTimeout`, and returns when to reconcile again.
pub(super) fn update_conditions(
    draft: &mut StatusDraft,
    addon: &AddonObject,
    spec: &AddonSpec,
    found: Option<&InstanceObject>,
) -> Next {
    let is_ready = addon.status.conditions.is_true(&names::READY_TO_BE_DELETED);
    if addon.annotation(names::DELETE_ANNOTATION).is_none() {
        if !is_ready {
            draft.status.conditions.remove(&names::READY_TO_BE_DELETED);
            draft.status.conditions.remove(&names::DELETE_TIMEOUT);
        }
        return Next::OnChange;
    }
    if is_ready {
        return Next::OnChange;
    }
    let acknowledged = found.is_some_and(|found| found.is_true(&instance::READY_TO_BE_DELETED));
    if acknowledged || !spec.delete_ack_required {
        let (reason, message) = (reasons::ADDON_READY_TO_BE_DELETED, messages::READY_TO_BE_DELETED);
        draft.set(names::READY_TO_BE_DELETED, ConditionStatus::True, reason, message);
        draft.status.conditions.remove(&names::DELETE_TIMEOUT);
        return Next::OnChange;
    }
    let (reason, message) = (reasons::ADDON_NOT_READY_TO_BE_DELETED, messages::NOT_READY_TO_BE_DELETED);
    draft.set(names::READY_TO_BE_DELETED, ConditionStatus::False, reason, message);
    check_timeout(draft, addon)
}

/// Sets `DeleteTimeout` after the timeout. The time counts from the transition of `ReadyToBeDeleted`, so that a restart of
/// the controller does not extend it.
fn check_timeout(draft: &mut StatusDraft, addon: &AddonObject) -> Next {
    let announced =
        draft.status.conditions.get(&names::READY_TO_BE_DELETED).map(|held| held.last_transition_time);
    let timeout = cleanup_timeout(addon.annotation(names::DELETE_TIMEOUT_ANNOTATION));
    let deadline = announced.unwrap_or(draft.now).checked_add(timeout).unwrap_or(Timestamp::MAX);
    match Duration::try_from(deadline.duration_since(draft.now)) {
        Ok(left) if !left.is_zero() => {
            draft.status.conditions.remove(&names::DELETE_TIMEOUT);
            Next::After(left)
        }
        _ => {
            let (reason, message) = (reasons::DELETION_TIMED_OUT, messages::DELETION_TIMED_OUT);
            draft.set(names::DELETE_TIMEOUT, ConditionStatus::True, reason, message);
            Next::OnChange
        }
    }
}

/// Parses the timeout annotation; a value that is not a duration > 0 is replaced by the default.
fn cleanup_timeout(text: Option<&str>) -> Duration {
    let timeout = text.and_then(|text| duration::parse(text).ok()).and_then(|parsed| parsed.try_into().ok());
    timeout.filter(|timeout: &Duration| !timeout.is_zero()).unwrap_or(DEFAULT_CLEANUP_TIMEOUT)
}
