//! What the checker reads in an AddonInstance, and what it writes there. All else stays as it was.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bellwether_api::addons_managed::AddonInstance;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::decide::{Spoken, Verdict};
use crate::loose::Loose;
use crate::period::Period;
use crate::vocabulary::instance::HEALTHY;

/// An AddonInstance as anybody may have written it.
pub(crate) type Instance = Loose<AddonInstance>;

impl Instance {
    pub(crate) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(crate) fn period(&self) -> Period {
        Period::of(self.spec.get("heartbeatUpdatePeriod").and_then(Value::as_str))
    }

    /// When the add-on says that it last beat.
    pub(crate) fn stamp(&self) -> Option<Timestamp> {
        stamp(self.status.get("lastHeartbeatTime")?.as_str()?)
    }

    /// What `Healthy` says.
    pub(crate) fn spoken(&self) -> Spoken {
        let conditions = self.status.get("conditions").and_then(Value::as_array);
        let healthy = conditions.into_iter().flatten().find(|condition| is_healthy(condition));
        healthy
            .map_or(Spoken::Nothing, |healthy| Spoken::of(word(healthy, "status"), word(healthy, "reason")))
    }

    /// The instance with a verdict in `Healthy`, which says that this generation was judged.
    pub(crate) fn saying(&self, verdict: Verdict, now: Timestamp) -> Self {
        let condition = json!(verdict.condition().observed_at(self.generation()).since(now));
        let mut status = self.status.as_object().cloned().unwrap_or_else(Map::new);
        let mut conditions = match status.remove("conditions") {
            Some(Value::Array(conditions)) => conditions,
            _ => Vec::new(),
        };
        let place = conditions.iter().position(is_healthy).unwrap_or(conditions.len());
        // Where a list holds it twice, the first is the one that is read.
        conditions.retain(|condition| !is_healthy(condition));
        conditions.insert(place.min(conditions.len()), condition);
        status.insert("conditions".into(), conditions.into());
        status.insert("observedGeneration".into(), self.generation().into());
        self.with_status(status.into())
    }
}

fn is_healthy(condition: &Value) -> bool {
    word(condition, "type") == HEALTHY.as_str()
}

fn word<'a>(condition: &'a Value, member: &str) -> &'a str {
    condition.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// Reads a time. Go's zero is none; a text beyond us is a time of its own in a future that nobody believes, so that
/// what counts is when it was seen to change.
fn stamp(text: &str) -> Option<Timestamp> {
    const ZERO: i64 = -62_135_596_800;
    match text.parse::<Timestamp>() {
        Ok(stamp) if stamp.as_second() == ZERO => None,
        Ok(stamp) => Some(stamp),
        Err(_) => {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let distance = i64::try_from(hasher.finish() % 1_000_000_000).unwrap_or_default();
            Timestamp::MAX.checked_sub(SignedDuration::from_secs(distance)).ok()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(status: Value) -> Instance {
        serde_json::from_value(
            json!({"metadata": {"name": "addon-instance", "generation": 3}, "status": status}),
        )
        .expect("anything can be read")
    }

    #[test]
    fn a_verdict_changes_healthy_and_the_generation_and_nothing_else() {
        let healthy = json!({"type": HEALTHY, "status": "True", "reason": "ComponentsUp", "message": "",
            "lastTransitionTime": "2024-05-01T10:00:00Z", "observedGeneration": 99});
        let degraded = json!({"type": "Degraded", "status": "No", "reason": "", "odd": [1],
            "lastTransitionTime": "2024-05-01T10:00:00.123+02:00"});
        let timeout = json!({"type": HEALTHY, "status": "Unknown", "reason": "HeartbeatTimeout",
            "message": "Addon failed to send heartbeat.", "lastTransitionTime": "2024-05-01T10:00:30Z",
            "observedGeneration": 3});
        let beat = "2024-05-01T10:00:00.5Z";
        let rows = [
            ("in its place", json!([healthy, degraded]), json!([timeout, degraded])),
            ("at the end where there was none", json!([degraded]), json!([degraded, timeout])),
            ("once where it was twice", json!([degraded, healthy, healthy]), json!([degraded, timeout])),
            ("alone", Value::Null, json!([timeout])),
        ];
        for (sentence, before, after) in rows {
            let silent = instance(json!({"lastHeartbeatTime": beat, "conditions": before, "own": 1}));
            let said = silent.saying(Verdict::TimedOut, "2024-05-01T10:00:30.7Z".parse().expect("a time"));
            let wanted =
                json!({"lastHeartbeatTime": beat, "conditions": after, "own": 1, "observedGeneration": 3});
            assert_eq!(said.status, wanted, "{sentence}");
            assert_eq!(said.spoken(), Spoken::Verdict(Verdict::TimedOut), "{sentence}");
        }
    }

    #[test]
    fn whatever_stands_there_is_read() {
        for status in
            [Value::Null, json!("down"), json!([]), json!({"conditions": {}, "lastHeartbeatTime": 7})]
        {
            let read = instance(status.clone());
            assert_eq!((read.stamp(), read.spoken()), (None, Spoken::Nothing), "{status}");
            let said = read.saying(Verdict::Pending, Timestamp::UNIX_EPOCH);
            assert_eq!(said.spoken(), Spoken::Verdict(Verdict::Pending), "{status}");
        }
        let read: Instance =
            serde_json::from_value(json!({"metadata": {}, "spec": "none"})).expect("it is read");
        assert!(read.period().shortcoming().is_some());
    }

    #[test]
    fn times_are_read_as_far_as_they_go() {
        let at = |text: &str| text.parse::<Timestamp>().ok();
        let rows = [
            ("2099-01-01T00:00:00Z", at("2099-01-01T00:00:00Z")),
            ("2024-05-01T10:00:00.25+02:00", at("2024-05-01T08:00:00.25Z")),
            ("0001-01-01T00:00:00Z", None),
        ];
        for (text, wanted) in rows {
            assert_eq!(stamp(text), wanted, "{text}");
        }
        // Beyond us, and yet each a time of its own, far ahead.
        let (one, other) = (stamp("9999-12-31T23:59:59Z"), stamp("9999-12-31T23:59:58Z"));
        assert_ne!(one, other);
        assert!(one > at("9900-01-01T00:00:00Z") && other > at("9900-01-01T00:00:00Z"));
    }
}
