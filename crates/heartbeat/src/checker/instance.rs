//! Reads the fields of an AddonInstance that the checker needs, and builds the status that it writes. All other fields stay
//! unchanged. What to write is decided in `decide`.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bellwether_api::addons_managed::AddonInstance;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

use super::decide::{CheckerReason, HealthyCondition};
use crate::lenient::LenientObject;
use crate::period::Period;
use crate::vocabulary::instance::HEALTHY;

/// An AddonInstance that may violate its schema.
pub(crate) type Instance = LenientObject<AddonInstance>;

impl Instance {
    pub(crate) fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    pub(crate) fn period(&self) -> Period {
        Period::from_spec(self.spec.get("heartbeatUpdatePeriod").and_then(Value::as_str))
    }

    /// `status.lastHeartbeatTime`, by the clock of the add-on.
    pub(crate) fn last_heartbeat_time(&self) -> Option<Timestamp> {
        parse_heartbeat_time(self.status.get("lastHeartbeatTime")?.as_str()?)
    }

    pub(crate) fn healthy_condition(&self) -> HealthyCondition {
        let conditions = self.status.get("conditions").and_then(Value::as_array);
        let healthy = conditions.into_iter().flatten().find(|condition| is_healthy(condition));
        healthy.map_or(HealthyCondition::Absent, |healthy| {
            HealthyCondition::classify(string_field(healthy, "status"), string_field(healthy, "reason"))
        })
    }

    /// Returns the instance with the condition `Healthy` of this reason, observed at the current generation.
    pub(crate) fn with_reason(&self, reason: CheckerReason, now: Timestamp) -> Self {
        let condition = json!(reason.condition().observed_at(self.generation()).since(now));
        let mut status = self.status.as_object().cloned().unwrap_or_else(Map::new);
        let mut conditions = match status.remove("conditions") {
            Some(Value::Array(conditions)) => conditions,
            _ => Vec::new(),
        };
        let position = conditions.iter().position(is_healthy).unwrap_or(conditions.len());
        // If the list has the type more than once, one entry replaces all of them, in the position of the first.
        conditions.retain(|condition| !is_healthy(condition));
        conditions.insert(position.min(conditions.len()), condition);
        status.insert("conditions".into(), conditions.into());
        status.insert("observedGeneration".into(), self.generation().into());
        self.with_status(status.into())
    }
}

fn is_healthy(condition: &Value) -> bool {
    string_field(condition, "type") == HEALTHY.as_str()
}

fn string_field<'a>(condition: &'a Value, name: &str) -> &'a str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Parses a heartbeat time. The zero time of Go counts as absent.
///
/// Text that is not a timestamp becomes a timestamp in the far future, derived from the text: timestamps that far ahead are
/// ignored, and a change of the text still counts as a heartbeat at the time of its receipt.
fn parse_heartbeat_time(text: &str) -> Option<Timestamp> {
    const GO_ZERO_TIME_SECONDS: i64 = -62_135_596_800;
    match text.parse::<Timestamp>() {
        Ok(time) if time.as_second() == GO_ZERO_TIME_SECONDS => None,
        Ok(time) => Some(time),
        Err(_) => {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let offset = i64::try_from(hasher.finish() % 1_000_000_000).unwrap_or_default();
            Timestamp::MAX.checked_sub(SignedDuration::from_secs(offset)).ok()
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
        .expect("any status is accepted")
    }

    #[test]
    fn only_healthy_and_observed_generation_change() {
        let healthy = json!({"type": HEALTHY, "status": "True", "reason": "ComponentsUp", "message": "",
            "lastTransitionTime": "2024-05-01T10:00:00Z", "observedGeneration": 99});
        let degraded = json!({"type": "Degraded", "status": "No", "reason": "", "extra": [1],
            "lastTransitionTime": "2024-05-01T10:00:00.123+02:00"});
        let timeout = json!({"type": HEALTHY, "status": "Unknown", "reason": "HeartbeatTimeout",
            "message": "Addon failed to send heartbeat.", "lastTransitionTime": "2024-05-01T10:00:30Z",
            "observedGeneration": 3});
        let last_heartbeat = "2024-05-01T10:00:00.5Z";
        let rows = [
            ("replaced in its position", json!([healthy, degraded]), json!([timeout, degraded])),
            ("appended if absent", json!([degraded]), json!([degraded, timeout])),
            ("duplicates become one", json!([degraded, healthy, healthy]), json!([degraded, timeout])),
            ("no conditions before", Value::Null, json!([timeout])),
        ];
        for (name, before, after) in rows {
            let silent =
                instance(json!({"lastHeartbeatTime": last_heartbeat, "conditions": before, "custom": 1}));
            let now = "2024-05-01T10:00:30.7Z".parse().expect("a valid timestamp");
            let written = silent.with_reason(CheckerReason::HeartbeatTimeout, now);
            let expected = json!({"lastHeartbeatTime": last_heartbeat, "conditions": after, "custom": 1,
                "observedGeneration": 3});
            assert_eq!(written.status, expected, "{name}");
            let timed_out = HealthyCondition::FromChecker(CheckerReason::HeartbeatTimeout);
            assert_eq!(written.healthy_condition(), timed_out, "{name}");
        }
    }

    #[test]
    fn malformed_status_and_spec_are_accepted() {
        for status in
            [Value::Null, json!("down"), json!([]), json!({"conditions": {}, "lastHeartbeatTime": 7})]
        {
            let read = instance(status.clone());
            let found = (read.last_heartbeat_time(), read.healthy_condition());
            assert_eq!(found, (None, HealthyCondition::Absent), "{status}");
            let written = read.with_reason(CheckerReason::PendingFirstHeartbeat, Timestamp::UNIX_EPOCH);
            let pending = HealthyCondition::FromChecker(CheckerReason::PendingFirstHeartbeat);
            assert_eq!(written.healthy_condition(), pending, "{status}");
        }
        let read: Instance = serde_json::from_value(json!({"metadata": {}, "spec": "none"}))
            .expect("a spec that is not an object is accepted");
        assert!(read.period().validation_error().is_some());
    }

    #[test]
    fn unparsable_heartbeat_times_are_distinct_and_far_in_the_future() {
        let at = |text: &str| text.parse::<Timestamp>().ok();
        let rows = [
            ("2099-01-01T00:00:00Z", at("2099-01-01T00:00:00Z")),
            ("2024-05-01T10:00:00.25+02:00", at("2024-05-01T08:00:00.25Z")),
            ("0001-01-01T00:00:00Z", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_heartbeat_time(text), expected, "{text}");
        }
        // Both are later than the last timestamp that jiff supports.
        let (one, other) =
            (parse_heartbeat_time("9999-12-31T23:59:59Z"), parse_heartbeat_time("9999-12-31T23:59:58Z"));
        assert_ne!(one, other);
        assert!(one > at("9900-01-01T00:00:00Z") && other > at("9900-01-01T00:00:00Z"));
    }
}
