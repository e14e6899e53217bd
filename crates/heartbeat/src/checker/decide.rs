//! What the checker says of an instance, from how its beat is judged and what `Healthy` says so far: questions 1 to 4, 13
//! and 18 of the specification. Pure.

use bellwether_conditions::freshness::Judgement;
use bellwether_conditions::{Desired, Reason, Status};

use crate::vocabulary::instance::HEALTHY;
use crate::vocabulary::reasons::{HEARTBEAT_TIMEOUT, PENDING_FIRST_HEARTBEAT, RECEIVING_HEARTBEATS};

/// What the checker may say in `Healthy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    /// The add-on was silent for too long.
    TimedOut,
    /// The add-on beats, and nobody says more.
    Receiving,
    /// The add-on has never beaten.
    Pending,
}

impl Verdict {
    const ALL: [Verdict; 3] = [Verdict::TimedOut, Verdict::Receiving, Verdict::Pending];

    fn status(self) -> Status {
        match self {
            Verdict::TimedOut | Verdict::Pending => Status::Unknown,
            Verdict::Receiving => Status::True,
        }
    }

    fn reason(self) -> Reason {
        match self {
            Verdict::TimedOut => HEARTBEAT_TIMEOUT,
            Verdict::Receiving => RECEIVING_HEARTBEATS,
            Verdict::Pending => PENDING_FIRST_HEARTBEAT,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Verdict::TimedOut => "Addon failed to send heartbeat.",
            Verdict::Receiving => "Heartbeat received within threshold.",
            Verdict::Pending => "Waiting for first heartbeat.",
        }
    }

    /// The condition that says so.
    pub(crate) fn condition(self) -> Desired {
        Desired::new(HEALTHY, self.status(), self.reason(), self.message())
    }
}

/// What `Healthy` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Spoken {
    /// There is no such condition.
    Nothing,
    /// What the checker would say.
    Verdict(Verdict),
    /// A reason of the checker's with a status that does not go with it: nobody's word.
    Garbled,
    /// What the add-on says of itself.
    Own,
}

impl Spoken {
    /// Reads a status and a reason.
    pub(crate) fn of(status: &str, reason: &str) -> Self {
        match Verdict::ALL.into_iter().find(|verdict| verdict.reason().as_str() == reason) {
            Some(verdict) if verdict.status().as_str() == status => Spoken::Verdict(verdict),
            Some(_) => Spoken::Garbled,
            None => Spoken::Own,
        }
    }
}

/// Whether an instance that has never beaten is spoken of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeverBeaten {
    /// It is left alone: its add-on may not know of heartbeats at all.
    #[default]
    Silent,
    /// It is said to be awaited.
    Reported,
}

/// What to write, if anything. What already stands is not written again, whatever its message.
pub(crate) fn verdict(judgement: Judgement, spoken: Spoken, never: NeverBeaten) -> Option<Verdict> {
    let wanted = match (judgement, spoken) {
        (Judgement::Stale { .. }, _) => Verdict::TimedOut,
        // Its own word stands while it beats, be it good or bad.
        (Judgement::Fresh { .. }, Spoken::Own) => return None,
        (Judgement::Fresh { .. }, Spoken::Nothing | Spoken::Verdict(_) | Spoken::Garbled) => {
            Verdict::Receiving
        }
        // Also after a stamp was taken away: nothing is judged, and nothing is cleared.
        (Judgement::Never, Spoken::Nothing) if never == NeverBeaten::Reported => Verdict::Pending,
        (Judgement::Never, _) => return None,
    };
    (spoken != Spoken::Verdict(wanted)).then_some(wanted)
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
    fn every_case_has_its_verdict() {
        use NeverBeaten::{Reported, Silent};
        use Spoken::{Garbled, Nothing, Own, Verdict as Said};
        use Verdict::{Pending, Receiving, TimedOut};

        // How the beat is judged, what Healthy says, and what is written: silent by default, and with pending reported.
        let rows: [(Judgement, Spoken, Option<Verdict>, Option<Verdict>); 18] = [
            (FRESH, Nothing, Some(Receiving), Some(Receiving)),
            (FRESH, Said(Receiving), None, None),
            (FRESH, Said(TimedOut), Some(Receiving), Some(Receiving)),
            (FRESH, Said(Pending), Some(Receiving), Some(Receiving)),
            (FRESH, Garbled, Some(Receiving), Some(Receiving)),
            (FRESH, Own, None, None),
            (STALE, Nothing, Some(TimedOut), Some(TimedOut)),
            (STALE, Said(Receiving), Some(TimedOut), Some(TimedOut)),
            (STALE, Said(TimedOut), None, None),
            (STALE, Said(Pending), Some(TimedOut), Some(TimedOut)),
            (STALE, Garbled, Some(TimedOut), Some(TimedOut)),
            (STALE, Own, Some(TimedOut), Some(TimedOut)),
            (NEVER, Nothing, None, Some(Pending)),
            (NEVER, Said(Receiving), None, None),
            (NEVER, Said(TimedOut), None, None),
            (NEVER, Said(Pending), None, None),
            (NEVER, Garbled, None, None),
            (NEVER, Own, None, None),
        ];
        for (judgement, spoken, silent, reported) in rows {
            assert_eq!(verdict(judgement, spoken, Silent), silent, "{judgement:?}, {spoken:?}");
            assert_eq!(verdict(judgement, spoken, Reported), reported, "{judgement:?}, {spoken:?}");
        }
    }

    #[test]
    fn what_is_written_is_not_written_again() {
        for judgement in [FRESH, STALE, NEVER] {
            for spoken in [Spoken::Nothing, Spoken::Garbled, Spoken::Own] {
                for never in [NeverBeaten::Silent, NeverBeaten::Reported] {
                    if let Some(written) = verdict(judgement, spoken, never) {
                        assert_eq!(verdict(judgement, Spoken::Verdict(written), never), None);
                    }
                }
            }
        }
    }

    #[test]
    fn a_word_is_read_by_status_and_reason() {
        let rows = [
            ("Unknown", "HeartbeatTimeout", Spoken::Verdict(Verdict::TimedOut)),
            ("True", "ReceivingHeartbeats", Spoken::Verdict(Verdict::Receiving)),
            ("Unknown", "PendingFirstHeartbeat", Spoken::Verdict(Verdict::Pending)),
            ("False", "HeartbeatTimeout", Spoken::Garbled),
            ("Unknown", "ReceivingHeartbeats", Spoken::Garbled),
            ("True", "ComponentsUp", Spoken::Own),
            ("False", "ComponentDown", Spoken::Own),
            ("Unknown", "", Spoken::Own),
        ];
        for (status, reason, wanted) in rows {
            assert_eq!(Spoken::of(status, reason), wanted, "{status}/{reason}");
        }
    }
}
