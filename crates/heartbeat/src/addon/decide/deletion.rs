//! The hand-shake before a deletion: an annotation asks, the instance is marked, the add-on says when it has cleaned
//! up. It goes on beside everything else.

use std::time::Duration;

use bellwether_api::addons_managed::AddonSpec;
use bellwether_conditions::Status as Holds;
use bellwether_runtime::Next;
use jiff::Timestamp;

use super::Draft;
use crate::addon::subject::{Instance, Subject};
use crate::duration;
use crate::vocabulary::addon::{self, messages, reasons};
use crate::vocabulary::instance;

/// How long an add-on may take where nothing sensible is said of it.
const TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// What becomes of the mark on an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Set,
    Unset,
    AsFound,
}

impl Mark {
    /// An add-on that has cleaned up is not asked to think again.
    pub(super) fn wanted(subject: &Subject, spec: &AddonSpec, found: Option<&Instance>) -> Self {
        if subject.annotation(addon::DELETE).is_some() {
            return if spec.delete_ack_required { Self::Set } else { Self::AsFound };
        }
        let ready = subject.status.conditions.is_true(&addon::READY_TO_BE_DELETED)
            || found.is_some_and(|found| found.says(&instance::READY_TO_BE_DELETED));
        if ready { Self::AsFound } else { Self::Unset }
    }
}

/// Brings the conditions on the deletion to where they should be, and says when to look again.
pub(super) fn hand_shake(
    draft: &mut Draft,
    subject: &Subject,
    spec: &AddonSpec,
    found: Option<&Instance>,
) -> Next {
    let ready = subject.status.conditions.is_true(&addon::READY_TO_BE_DELETED);
    if subject.annotation(addon::DELETE).is_none() {
        if !ready {
            draft.status.conditions.remove(&addon::READY_TO_BE_DELETED);
            draft.status.conditions.remove(&addon::DELETE_TIMEOUT);
        }
        return Next::OnChange;
    }
    if ready {
        return Next::OnChange;
    }
    let acknowledged = found.is_some_and(|found| found.says(&instance::READY_TO_BE_DELETED));
    if acknowledged || !spec.delete_ack_required {
        let (reason, message) = (reasons::ADDON_READY_TO_BE_DELETED, messages::READY_TO_BE_DELETED);
        draft.set(addon::READY_TO_BE_DELETED, Holds::True, reason, message);
        draft.status.conditions.remove(&addon::DELETE_TIMEOUT);
        return Next::OnChange;
    }
    let (reason, message) = (reasons::ADDON_NOT_READY_TO_BE_DELETED, messages::NOT_READY_TO_BE_DELETED);
    draft.set(addon::READY_TO_BE_DELETED, Holds::False, reason, message);
    wait(draft, subject)
}

/// The wait began when the condition did, so that it survives a restart.
fn wait(draft: &mut Draft, subject: &Subject) -> Next {
    let asked =
        draft.status.conditions.get(&addon::READY_TO_BE_DELETED).map(|held| held.last_transition_time);
    let timeout = timeout(subject.annotation(addon::DELETE_TIMEOUT_AFTER));
    let deadline = asked.unwrap_or(draft.now).checked_add(timeout).unwrap_or(Timestamp::MAX);
    match Duration::try_from(deadline.duration_since(draft.now)) {
        Ok(left) if !left.is_zero() => {
            draft.status.conditions.remove(&addon::DELETE_TIMEOUT);
            Next::After(left)
        }
        _ => {
            let (reason, message) = (reasons::DELETION_TIMED_OUT, messages::DELETION_TIMED_OUT);
            draft.set(addon::DELETE_TIMEOUT, Holds::True, reason, message);
            Next::OnChange
        }
    }
}

fn timeout(text: Option<&str>) -> Duration {
    let asked = text.and_then(|text| duration::parse(text).ok()).and_then(|asked| asked.try_into().ok());
    asked.filter(|asked: &Duration| !asked.is_zero()).unwrap_or(TIMEOUT)
}
