//! The state of an add-on, computed from its AddonInstance and from its received heartbeats. It is pure; printing is left to
//! `table`.

use std::time::Duration;

use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use bellwether_conditions::{Condition, Status};
use bellwether_heartbeat::Period;
use bellwether_heartbeat::vocabulary::{instance, reasons};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Deserialize as _;
use serde_json::Value;

/// The number of periods after which missing heartbeats are a timeout: the default of the checker.
const TIMEOUT_PERIODS: u32 = 3;
/// How much later than the checker this command reports a timeout itself.
const CHECKER_GRACE: Duration = Duration::from_secs(5);

/// The state of an add-on, ordered from the worst to the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum State {
    /// The checker reported a timeout.
    Silent,
    /// The add-on reports `Healthy=False`.
    Down,
    /// Heartbeats stopped, and no checker has reported it.
    Late,
    /// Heartbeats arrive, and `Healthy` is `Unknown`.
    Unknown,
    /// No heartbeat so far.
    Never,
    /// Heartbeats arrive.
    Alive,
}

impl State {
    pub(super) const ALL: [Self; 6] =
        [Self::Silent, Self::Down, Self::Late, Self::Unknown, Self::Never, Self::Alive];

    pub(super) fn as_str(self) -> &'static str {
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

/// The fields of an AddonInstance that are shown.
#[derive(Clone, Debug)]
pub(super) struct InstanceInfo {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) last_heartbeat: Option<Timestamp>,
    period: Period,
    period_text: Option<String>,
    healthy: Option<Condition>,
}

/// The state of an add-on at one time, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) last_heartbeat: Option<Timestamp>,
    /// The time since the last heartbeat.
    pub(super) age: Option<Duration>,
    /// The period in the spec, or the default that is used instead of an invalid one.
    pub(super) period: String,
    pub(super) effective_period: Duration,
    pub(super) state: State,
    pub(super) reason: String,
    pub(super) message: String,
}

impl InstanceInfo {
    /// Reads an instance. Malformed fields are ignored, so that the instance is still shown.
    pub(super) fn read(object: &DynamicObject) -> Self {
        let text = |path: &str| object.data.pointer(path).and_then(Value::as_str);
        let period_text = text("/spec/heartbeatUpdatePeriod");
        let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
        Self {
            namespace: object.metadata.namespace.clone().unwrap_or_default(),
            name: object.metadata.name.clone().unwrap_or_default(),
            last_heartbeat: text("/status/lastHeartbeatTime").and_then(|text| text.parse().ok()),
            period: Period::from_spec(period_text),
            period_text: period_text.map(str::to_owned),
            healthy: conditions
                .into_iter()
                .flatten()
                .filter_map(|condition| Condition::deserialize(condition).ok())
                .find(|condition| condition.type_ == instance::HEALTHY),
        }
    }

    pub(super) fn row(&self, heartbeat: Option<&Beat>, now: Timestamp) -> Row {
        let judgement = self.freshness().judge(heartbeat, now);
        let (reason, message) = self
            .healthy
            .as_ref()
            .map_or(("", ""), |healthy| (healthy.reason.as_str(), healthy.message.as_str()));
        Row {
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            last_heartbeat: self.last_heartbeat,
            age: last_alive(judgement)
                .map(|last| Duration::try_from(now.duration_since(last)).unwrap_or_default()),
            period: self.format_period(),
            effective_period: self.period.effective(),
            state: self.state(judgement),
            reason: reason.to_owned(),
            message: message.to_owned(),
        }
    }

    fn freshness(&self) -> Freshness {
        let period = self.period.effective();
        Freshness {
            limit: period.saturating_mul(TIMEOUT_PERIODS).saturating_add(CHECKER_GRACE),
            boundary: Boundary::StaleAtLimit,
            max_clock_lead: period,
        }
    }

    fn state(&self, judgement: Judgement) -> State {
        let healthy = self.healthy.as_ref();
        if healthy.is_some_and(|healthy| healthy.reason == reasons::HEARTBEAT_TIMEOUT) {
            return State::Silent;
        }
        match (judgement, healthy.map(|healthy| healthy.status)) {
            (Judgement::Stale { .. }, _) => State::Late,
            (_, Some(Status::False)) => State::Down,
            (Judgement::Never, _) => State::Never,
            (Judgement::Fresh { .. }, Some(Status::Unknown)) => State::Unknown,
            (Judgement::Fresh { .. }, Some(Status::True) | None) => State::Alive,
        }
    }

    fn format_period(&self) -> String {
        match (&self.period_text, self.period.validation_error()) {
            (Some(text), None) => text.clone(),
            (Some(text), Some(_)) => format!("{} (not {text:?})", Period::DEFAULT_TEXT),
            (None, _) => Period::DEFAULT_TEXT.to_owned(),
        }
    }
}

fn last_alive(judgement: Judgement) -> Option<Timestamp> {
    match judgement {
        Judgement::Never => None,
        Judgement::Fresh { last, .. } | Judgement::Stale { last, .. } => Some(last),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) fn info(name: &str, spec: Value, status: Value) -> InstanceInfo {
        let object = json!({"metadata": {"namespace": "ns", "name": name}, "spec": spec, "status": status});
        InstanceInfo::read(&serde_json::from_value(object).unwrap())
    }

    pub(crate) fn healthy(status: &str, reason: &str) -> Value {
        json!([{"type": "addons.managed.openshift.io/Healthy", "status": status, "reason": reason}])
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + second).unwrap()
    }

    #[test]
    fn state_depends_on_the_condition_and_the_last_heartbeat() {
        let rows: [(&str, Option<i64>, Value, State); 12] = [
            ("no status", None, json!(null), State::Never),
            ("pending first heartbeat", None, healthy("Unknown", "PendingFirstHeartbeat"), State::Never),
            ("Healthy=False without a heartbeat", None, healthy("False", "ComponentDown"), State::Down),
            ("heartbeat without conditions", Some(0), json!(null), State::Alive),
            (
                "ReceivingHeartbeats from the checker",
                Some(-29),
                healthy("True", "ReceivingHeartbeats"),
                State::Alive,
            ),
            ("Healthy=True from the add-on", Some(-3), healthy("True", "ComponentsUp"), State::Alive),
            ("Healthy=False from the add-on", Some(-3), healthy("False", "ComponentDown"), State::Down),
            ("Healthy=Unknown from the add-on", Some(-3), healthy("Unknown", "Starting"), State::Unknown),
            ("timeout from the checker", Some(-31), healthy("Unknown", "HeartbeatTimeout"), State::Silent),
            (
                "timeout from the checker, and a new heartbeat",
                Some(0),
                healthy("Unknown", "HeartbeatTimeout"),
                State::Silent,
            ),
            (
                "within the grace period of the checker",
                Some(-34),
                healthy("True", "ComponentsUp"),
                State::Alive,
            ),
            (
                "after the grace period of the checker",
                Some(-35),
                healthy("False", "ComponentDown"),
                State::Late,
            ),
        ];
        for (name, last_heartbeat, conditions, expected) in rows {
            let last_heartbeat = last_heartbeat.map(at);
            let status = json!({"conditions": conditions, "lastHeartbeatTime": last_heartbeat});
            let heartbeat = last_heartbeat.map(|time| Beat::observe(None, time, at(0)));
            let row = info("a", json!({}), status).row(heartbeat.as_ref(), at(0));
            assert_eq!(row.state, expected, "{name}");
        }
    }

    #[test]
    fn wrong_clock_does_not_make_an_addon_late() {
        let info = info("a", json!({}), json!({"lastHeartbeatTime": at(-290)}));
        let first = Beat::observe(None, at(-300), at(0));
        let second = Beat::observe(Some(first), at(-290), at(10));
        let row = info.row(Some(&second), at(12));
        assert_eq!((row.state, row.age), (State::Alive, Some(Duration::from_secs(2))));
    }

    #[test]
    fn invalid_period_is_shown_with_the_default() {
        let rows = [
            (json!({"heartbeatUpdatePeriod": "1m30s"}), "1m30s", 90),
            (json!({"heartbeatUpdatePeriod": "0s"}), "10s (not \"0s\")", 10),
            (json!({"heartbeatUpdatePeriod": "banana"}), "10s (not \"banana\")", 10),
            (json!({}), "10s", 10),
            (Value::Null, "10s", 10),
        ];
        for (spec, text, seconds) in rows {
            let row = info("a", spec, Value::Null).row(None, at(0));
            assert_eq!((row.period.as_str(), row.effective_period.as_secs()), (text, seconds));
        }
    }
}
