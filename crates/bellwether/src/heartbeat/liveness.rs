//! How an add-on is, from its AddonInstance and from what was seen of its beats. Pure.

use std::time::Duration;

use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use bellwether_conditions::{Condition, Status};
use bellwether_heartbeat::Period;
use bellwether_heartbeat::vocabulary::{instance, reasons};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

/// How many periods an add-on may be silent, as the checker counts unless it is told otherwise.
const PERIODS: u32 = 3;
/// How long the checker has to notice before we do.
const GRACE: Duration = Duration::from_secs(5);

/// How an add-on is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// The checker noticed that its beats stopped.
    Silent,
    /// It says itself that it is not healthy.
    Down,
    /// Its beats stopped, and no checker has said so.
    Late,
    /// It beats, and nobody can tell how it is.
    Unknown,
    /// It has never beaten.
    Never,
    /// It beats.
    Alive,
}

impl State {
    pub(super) const ALL: [Self; 6] =
        [Self::Silent, Self::Down, Self::Late, Self::Unknown, Self::Never, Self::Alive];

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Silent => "Silent",
            Self::Down => "Down",
            Self::Late => "Late",
            Self::Unknown => "Unknown",
            Self::Never => "Never",
            Self::Alive => "Alive",
        }
    }
}

/// What an AddonInstance says.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) stamp: Option<Timestamp>,
    period: Period,
    period_text: Option<String>,
    healthy: Option<Condition>,
}

/// An add-on at an instant, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) stamp: Option<Timestamp>,
    /// Since its last sign of life.
    pub(super) age: Option<Duration>,
    /// As it is written, and what counts instead where that makes no sense.
    pub(super) period: String,
    pub(super) effective_period: Duration,
    pub(super) state: State,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Facts {
    /// Object by object, and lenient: one that makes no sense is still shown.
    pub(super) fn of(object: &DynamicObject) -> Self {
        let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
        let period_text = text("/spec/heartbeatUpdatePeriod");
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            stamp: text("/status/lastHeartbeatTime").and_then(|text| text.parse().ok()),
            period: Period::of(period_text),
            period_text: period_text.map(str::to_owned),
            healthy: conditions
                .into_iter()
                .flatten()
                .filter_map(|condition| Condition::deserialize(condition).ok())
                .find(|condition| condition.type_ == instance::HEALTHY),
        }
    }

    pub(super) fn row(&self, beat: Option<&Beat>, now: Timestamp) -> Row {
        let judgement = self.freshness().judge(beat, now);
        let (reason, message) =
            self.healthy.as_ref().map_or(("", ""), |said| (said.reason.as_str(), said.message.as_str()));
        Row {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            stamp: self.stamp,
            age: last_sign(judgement)
                .map(|last| Duration::try_from(now.duration_since(last)).unwrap_or_default()),
            period: self.period_in_words(),
            effective_period: self.period.effective(),
            state: self.state(judgement),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    fn freshness(&self) -> Freshness {
        let period = self.period.effective();
        Freshness {
            limit: period.saturating_mul(PERIODS).saturating_add(GRACE),
            boundary: Boundary::StaleAtLimit,
            lead: period,
        }
    }

    fn state(&self, judgement: Judgement) -> State {
        let said = self.healthy.as_ref();
        if said.is_some_and(|said| said.reason == reasons::HEARTBEAT_TIMEOUT) {
            return State::Silent;
        }
        match (judgement, said.map(|said| said.status)) {
            (Judgement::Stale { .. }, _) => State::Late,
            (_, Some(Status::False)) => State::Down,
            (Judgement::Never, _) => State::Never,
            (Judgement::Fresh { .. }, Some(Status::Unknown)) => State::Unknown,
            (Judgement::Fresh { .. }, Some(Status::True) | None) => State::Alive,
        }
    }

    fn period_in_words(&self) -> String {
        match (&self.period_text, self.period.shortcoming()) {
            (Some(text), None) => text.clone(),
            (Some(text), Some(_)) => format!("{} (not {text:?})", Period::DEFAULT_TEXT),
            (None, _) => Period::DEFAULT_TEXT.to_owned(),
        }
    }
}

fn last_sign(judgement: Judgement) -> Option<Timestamp> {
    match judgement {
        Judgement::Never => None,
        Judgement::Fresh { last, .. } | Judgement::Stale { last, .. } => Some(last),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn facts(name: &str, spec: Value, status: Value) -> Facts {
        let object = json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": status});
        Facts::of(&serde_json::from_value(object).unwrap())
    }

    pub(crate) fn healthy(status: &str, reason: &str) -> Value {
        json!([{"type": "addons.managed.openshift.io/Healthy", "status": status, "reason": reason}])
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn a_state_follows_from_the_condition_and_the_silence() {
        let rows: [(&str, Option<i64>, Value, State); 12] = [
            ("no status", None, json!(null), State::Never),
            ("waiting for the first", None, healthy("Unknown", "PendingFirstHeartbeat"), State::Never),
            ("down without a stamp", None, healthy("False", "ComponentDown"), State::Down),
            ("a beat without a word", Some(0), json!(null), State::Alive),
            ("the checker's word", Some(-29), healthy("True", "ReceivingHeartbeats"), State::Alive),
            ("the add-on's own", Some(-3), healthy("True", "ComponentsUp"), State::Alive),
            ("down", Some(-3), healthy("False", "ComponentDown"), State::Down),
            ("unsure", Some(-3), healthy("Unknown", "Starting"), State::Unknown),
            ("timed out", Some(-31), healthy("Unknown", "HeartbeatTimeout"), State::Silent),
            ("timed out, and just back", Some(0), healthy("Unknown", "HeartbeatTimeout"), State::Silent),
            ("the checker has a moment", Some(-34), healthy("True", "ComponentsUp"), State::Alive),
            ("and then we notice", Some(-35), healthy("False", "ComponentDown"), State::Late),
        ];
        for (sentence, stamp, conditions, wanted) in rows {
            let stamp = stamp.map(at);
            let facts = facts("a", json!({}), json!({"conditions": conditions, "lastHeartbeatTime": stamp}));
            let beat = stamp.map(|stamp| Beat::observe(None, stamp, at(0)));
            assert_eq!(facts.row(beat.as_ref(), at(0)).state, wanted, "{sentence}");
        }
    }

    #[test]
    fn a_clock_that_is_wrong_does_not_make_an_add_on_late() {
        let facts = facts("a", json!({}), json!({"lastHeartbeatTime": at(-290)}));
        let first = Beat::observe(None, at(-300), at(0));
        let second = Beat::observe(Some(first), at(-290), at(10));
        let row = facts.row(Some(&second), at(12));
        assert_eq!((row.state, row.age), (State::Alive, Some(Duration::from_secs(2))));
    }

    #[test]
    fn a_period_that_makes_no_sense_is_shown_with_what_counts() {
        let rows = [
            (json!({"heartbeatUpdatePeriod": "1m30s"}), "1m30s", 90),
            (json!({"heartbeatUpdatePeriod": "0s"}), "10s (not \"0s\")", 10),
            (json!({"heartbeatUpdatePeriod": "banana"}), "10s (not \"banana\")", 10),
            (json!({}), "10s", 10),
            (Value::Null, "10s", 10),
        ];
        for (spec, words, seconds) in rows {
            let row = facts("a", spec, Value::Null).row(None, at(0));
            assert_eq!((row.period.as_str(), row.effective_period.as_secs()), (words, seconds));
        }
    }
}
