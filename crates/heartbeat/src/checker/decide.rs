//! Decides what the checker writes to the condition `Healthy` of an AddonInstance (questions 1 to 4, 13 and 18 of the
//! specification). It is pure: `index` tracks heartbeats, `reconcile` makes the requests.

use bellwether_conditions::freshness::Judgement;
use bellwether_conditions::{Desired, Reason, Status};

use crate::vocabulary::instance::HEALTHY;
use crate::vocabulary::reasons::{HEARTBEAT_TIMEOUT, PENDING_FIRST_HEARTBEAT, RECEIVING_HEARTBEATS};

/// The reasons that the checker writes to `Healthy`; each has a fixed status and message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CheckerReason {
    /// No heartbeat arrived before the threshold passed.
    HeartbeatTimeout,
    /// Heartbeats arrive, and the add-on does not report its health itself.
    ReceivingHeartbeats,
    /// The add-on has not sent a heartbeat yet.
    PendingFirstHeartbeat,
}

impl CheckerReason {
    const ALL: [CheckerReason; 3] = [
        CheckerReason::HeartbeatTimeout,
        CheckerReason::ReceivingHeartbeats,
        CheckerReason::PendingFirstHeartbeat,
    ];

    fn status(self) -> Status {
        match self {
            CheckerReason::HeartbeatTimeout | CheckerReason::PendingFirstHeartbeat => Status::Unknown,
            CheckerReason::ReceivingHeartbeats => Status::True,
        }
    }

    fn reason(self) -> Reason {
        match self {
            CheckerReason::HeartbeatTimeout => HEARTBEAT_TIMEOUT,
            CheckerReason::ReceivingHeartbeats => RECEIVING_HEARTBEATS,
            CheckerReason::PendingFirstHeartbeat => PENDING_FIRST_HEARTBEAT,
        }
    }

    fn message(self) -> &'static str {
        match self {
            CheckerReason::HeartbeatTimeout => "Addon failed to send heartbeat.",
            CheckerReason::ReceivingHeartbeats => "Heartbeat received within threshold.",
            CheckerReason::PendingFirstHeartbeat => "Waiting for first heartbeat.",
        }
    }

    /// The condition `Healthy` with this reason.
    pub(crate) fn condition(self) -> Desired {
        Desired::new(HEALTHY, self.status(), self.reason(), self.message())
    }
}

/// The current condition `Healthy` of an instance, by its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HealthyCondition {
    Absent,
    /// It has the status and the reason of a condition that the checker writes.
    FromChecker(CheckerReason),
    /// It has a reason of the checker with a status that does not belong to it. The checker overwrites it.
    Inconsistent,
    /// The add-on reports its own health.
    FromAddon,
}

impl HealthyCondition {
    pub(crate) fn classify(status: &str, reason: &str) -> Self {
        match CheckerReason::ALL.into_iter().find(|known| known.reason().as_str() == reason) {
            Some(known) if known.status().as_str() == status => HealthyCondition::FromChecker(known),
            Some(_) => HealthyCondition::Inconsistent,
            None => HealthyCondition::FromAddon,
        }
    }
}

/// What the checker does with an instance that has not sent a heartbeat yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PendingPolicy {
    /// Leave its status unchanged: the add-on may not support heartbeats.
    #[default]
    Ignore,
    /// Report `PendingFirstHeartbeat`.
    Report,
}

/// Returns the reason to write, or `None` if nothing has to be written. A condition that already has the right status and
/// reason is not written again, even if its message differs.
pub(crate) fn decide_reason(
    judgement: Judgement,
    current: HealthyCondition,
    pending_policy: PendingPolicy,
) -> Option<CheckerReason> {
    let desired = match (judgement, current) {
        (Judgement::Stale { .. }, _) => CheckerReason::HeartbeatTimeout,
        // While heartbeats arrive, the add-on's own report stays, whatever its status.
        (Judgement::Fresh { .. }, HealthyCondition::FromAddon) => return None,
        (
            Judgement::Fresh { .. },
            HealthyCondition::Absent | HealthyCondition::FromChecker(_) | HealthyCondition::Inconsistent,
        ) => CheckerReason::ReceivingHeartbeats,
        (Judgement::Never, HealthyCondition::Absent) if pending_policy == PendingPolicy::Report => {
            CheckerReason::PendingFirstHeartbeat
        }
        // If lastHeartbeatTime was removed, the existing condition stays as it is.
        (Judgement::Never, _) => return None,
    };
    (current != HealthyCondition::FromChecker(desired)).then_some(desired)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;
    const FRESH: Judgement = Judgement::Fresh { last: AT, until: AT };
    const STALE: Judgement = Judgement::Stale { last: AT, since: AT };
    const NEVER: Judgement = Judgement::Never;

    #[test]
    fn reason_follows_from_freshness_and_current_condition() {
        use CheckerReason::{HeartbeatTimeout, PendingFirstHeartbeat, ReceivingHeartbeats};
        use HealthyCondition::{Absent, FromAddon, FromChecker, Inconsistent};
        use PendingPolicy::{Ignore, Report};

        // The freshness, the current condition, and the reason to write: with PendingPolicy::Ignore, and with Report.
        let rows: [(Judgement, HealthyCondition, Option<CheckerReason>, Option<CheckerReason>); 18] = [
            (FRESH, Absent, Some(ReceivingHeartbeats), Some(ReceivingHeartbeats)),
            (FRESH, FromChecker(ReceivingHeartbeats), None, None),
            (FRESH, FromChecker(HeartbeatTimeout), Some(ReceivingHeartbeats), Some(ReceivingHeartbeats)),
            (FRESH, FromChecker(PendingFirstHeartbeat), Some(ReceivingHeartbeats), Some(ReceivingHeartbeats)),
            (FRESH, Inconsistent, Some(ReceivingHeartbeats), Some(ReceivingHeartbeats)),
            (FRESH, FromAddon, None, None),
            (STALE, Absent, Some(HeartbeatTimeout), Some(HeartbeatTimeout)),
            (STALE, FromChecker(ReceivingHeartbeats), Some(HeartbeatTimeout), Some(HeartbeatTimeout)),
            (STALE, FromChecker(HeartbeatTimeout), None, None),
            (STALE, FromChecker(PendingFirstHeartbeat), Some(HeartbeatTimeout), Some(HeartbeatTimeout)),
            (STALE, Inconsistent, Some(HeartbeatTimeout), Some(HeartbeatTimeout)),
            (STALE, FromAddon, Some(HeartbeatTimeout), Some(HeartbeatTimeout)),
            (NEVER, Absent, None, Some(PendingFirstHeartbeat)),
            (NEVER, FromChecker(ReceivingHeartbeats), None, None),
            (NEVER, FromChecker(HeartbeatTimeout), None, None),
            (NEVER, FromChecker(PendingFirstHeartbeat), None, None),
            (NEVER, Inconsistent, None, None),
            (NEVER, FromAddon, None, None),
        ];
        for (judgement, current, ignored, reported) in rows {
            assert_eq!(decide_reason(judgement, current, Ignore), ignored, "{judgement:?}, {current:?}");
            assert_eq!(decide_reason(judgement, current, Report), reported, "{judgement:?}, {current:?}");
        }
    }

    #[test]
    fn written_condition_is_not_written_again() {
        for judgement in [FRESH, STALE, NEVER] {
            for current in
                [HealthyCondition::Absent, HealthyCondition::Inconsistent, HealthyCondition::FromAddon]
            {
                for policy in [PendingPolicy::Ignore, PendingPolicy::Report] {
                    if let Some(written) = decide_reason(judgement, current, policy) {
                        let current = HealthyCondition::FromChecker(written);
                        assert_eq!(decide_reason(judgement, current, policy), None);
                    }
                }
            }
        }
    }

    #[test]
    fn condition_is_classified_by_status_and_reason() {
        use HealthyCondition::{FromAddon, FromChecker, Inconsistent};

        let rows = [
            ("Unknown", "HeartbeatTimeout", FromChecker(CheckerReason::HeartbeatTimeout)),
            ("True", "ReceivingHeartbeats", FromChecker(CheckerReason::ReceivingHeartbeats)),
            ("Unknown", "PendingFirstHeartbeat", FromChecker(CheckerReason::PendingFirstHeartbeat)),
            ("False", "HeartbeatTimeout", Inconsistent),
            ("Unknown", "ReceivingHeartbeats", Inconsistent),
            ("True", "ComponentsUp", FromAddon),
            ("False", "ComponentDown", FromAddon),
            ("Unknown", "", FromAddon),
        ];
        for (status, reason, expected) in rows {
            assert_eq!(HealthyCondition::classify(status, reason), expected, "{status}/{reason}");
        }
    }
}
