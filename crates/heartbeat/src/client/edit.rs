//! Applies a heartbeat to the status of an AddonInstance. It edits the JSON that was read, so that fields of other writers
//! stay byte for byte. It makes no requests.

use bellwether_clock::whole_seconds;
use bellwether_conditions::{Condition, ConditionSet, Desired, Outcome, TransitionKey, shorten};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// The maximum length of a message in metav1.Condition, in bytes.
const MAX_MESSAGE_BYTES: usize = 32_768;
const LAST_TRANSITION_TIME: &str = "lastTransitionTime";

/// Sets `lastHeartbeatTime` and `observedGeneration` in the status of an object, and merges conditions into it. The object
/// is passed without its metadata.
pub(super) fn apply_heartbeat(
    object: &mut Value,
    generation: Option<i64>,
    conditions: &[Desired],
    now: Timestamp,
) {
    let Some(status) =
        as_object(object).and_then(|object| as_object(object.entry("status").or_insert(Value::Null)))
    else {
        return;
    };
    status.insert("lastHeartbeatTime".into(), whole_seconds(now).to_string().into());
    if let Some(generation) = generation {
        status.insert("observedGeneration".into(), generation.into());
    }
    if conditions.is_empty() {
        return;
    }
    let list = status.entry("conditions").or_insert(Value::Null);
    if !list.is_array() {
        *list = Value::Array(Vec::new());
    }
    let Value::Array(list) = list else { return };
    for desired in last_of_each_type(conditions) {
        let observed_generation = generation.or(desired.observed_generation);
        let message = shorten(&desired.message, MAX_MESSAGE_BYTES);
        merge(list, Desired { observed_generation, message, ..desired.clone() }, now);
    }
}

/// Returns the value as an object; a value of another type is replaced by an empty object.
fn as_object(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Two conditions of one type would cause a transition with every heartbeat, so only the last one is used.
fn last_of_each_type(conditions: &[Desired]) -> impl Iterator<Item = &Desired> {
    conditions.iter().enumerate().filter_map(|(index, desired)| {
        let is_repeated = conditions.iter().skip(index + 1).any(|later| later.type_ == desired.type_);
        (!is_repeated).then_some(desired)
    })
}

/// Sets the condition of this type, and removes duplicates of it. A condition that is already as desired is not touched.
fn merge(list: &mut Vec<Value>, desired: Desired, now: Timestamp) {
    let type_ = desired.type_.clone();
    let is_of_type = |value: &Value| value.get("type").and_then(Value::as_str) == Some(type_.as_str());
    let mut set =
        existing_conditions(list.iter().filter(|value| is_of_type(value)), desired.observed_generation);
    let outcome = set.upsert(desired, TransitionKey::Status, now);
    let Some(Ok(Value::Object(mut updated))) = set.get(&type_).map(serde_json::to_value) else { return };

    let has_duplicates = list.iter().filter(|value| is_of_type(value)).count() > 1;
    match list.iter_mut().find(|value| is_of_type(value)) {
        None => list.push(Value::Object(updated)),
        Some(_) if !outcome.changed() && !has_duplicates => {}
        Some(found) => {
            if outcome == Outcome::Updated && !has_duplicates {
                updated.remove(LAST_TRANSITION_TIME);
            }
            if let Some(found) = as_object(found) {
                found.extend(updated);
            }
        }
    }
    let mut seen = false;
    list.retain(|value| !is_of_type(value) || !std::mem::replace(&mut seen, true));
}

/// The existing conditions that can be parsed.
fn existing_conditions<'a>(found: impl Iterator<Item = &'a Value>, generation: Option<i64>) -> ConditionSet {
    // No writer can have observed a future generation. If it were kept, every condition of the add-on would be rejected as
    // outdated.
    let is_possible = |observed: &i64| generation.is_none_or(|generation| *observed <= generation);
    let mut conditions: Vec<Condition> =
        found.filter_map(|value| Condition::deserialize(value).ok()).collect();
    for condition in &mut conditions {
        condition.observed_generation = condition.observed_generation.filter(is_possible);
    }
    conditions.into()
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::{ConditionType, Reason, Status};
    use serde_json::json;

    use super::*;

    const NOW: &str = "2024-05-01T10:00:00.987654321Z";
    const HEALTHY: &str = "addons.managed.openshift.io/Healthy";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    fn desired(type_: &str, status: Status, reason: &str) -> Desired {
        Desired::new(ConditionType::as_read(type_), status, Reason::as_read(reason), "message")
    }

    fn up() -> Desired {
        desired(HEALTHY, Status::True, "ComponentsUp")
    }

    fn condition(type_: &str, status: &str, reason: &str, generation: i64, since: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": "message",
               "observedGeneration": generation, "lastTransitionTime": since})
    }

    /// The conditions after a heartbeat at generation 3.
    fn merged(conditions: Value, desired: &[Desired]) -> Value {
        let mut object = json!({"status": {"conditions": conditions}});
        apply_heartbeat(&mut object, Some(3), desired, now());
        object["status"]["conditions"].take()
    }

    #[test]
    fn heartbeat_without_conditions_changes_nothing_else() {
        let odd = json!([{"type": "Foreign", "lastTransitionTime": "2024-05-01T10:00:00.123456789+02:00", "extra": 1}]);
        let mut object = json!({"spec": {"a": 1}, "status": {"conditions": odd, "more": "kept"}});
        apply_heartbeat(&mut object, Some(3), &[], now());
        let expected = json!({"spec": {"a": 1}, "status": {
            "conditions": odd, "more": "kept", "lastHeartbeatTime": "2024-05-01T10:00:00Z", "observedGeneration": 3,
        }});
        assert_eq!(object, expected);
    }

    #[test]
    fn first_heartbeat_creates_the_status() {
        for mut object in [json!({}), json!({"status": null}), json!({"status": {}}), Value::Null] {
            apply_heartbeat(&mut object, None, &[], now());
            assert_eq!(object, json!({"status": {"lastHeartbeatTime": "2024-05-01T10:00:00Z"}}));
        }
    }

    #[test]
    fn conditions_are_merged_one_per_type() {
        let (before, now, odd) =
            ("2024-01-01T00:00:00Z", "2024-05-01T10:00:00Z", "2024-01-01T01:00:00.5+01:00");
        let rows: [(&str, Value, Vec<Desired>, Value); 9] = [
            (
                "no condition yet",
                json!([]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, now)]),
            ),
            (
                "an equal condition is left byte for byte",
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
            ),
            (
                "another reason or generation is not a transition, and the format of the time stays",
                json!([condition(HEALTHY, "True", "Else", 2, odd)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
            ),
            (
                "another status is a transition",
                json!([condition(HEALTHY, "Unknown", "HeartbeatTimeout", 3, before)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, now)]),
            ),
            (
                "the condition keeps its position in the list",
                json!([
                    condition("A", "True", "R", 1, odd),
                    condition(HEALTHY, "False", "R", 1, before),
                    condition("Z", "odd", "", 9, odd)
                ]),
                vec![up()],
                json!([
                    condition("A", "True", "R", 1, odd),
                    condition(HEALTHY, "True", "ComponentsUp", 3, now),
                    condition("Z", "odd", "", 9, odd)
                ]),
            ),
            (
                "of two desired conditions of one type, the last is used",
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, before)]),
                vec![desired(HEALTHY, Status::False, "Down"), up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, before)]),
            ),
            (
                "duplicates in the list become one condition",
                json!([
                    condition(HEALTHY, "False", "R", 1, before),
                    condition("A", "True", "R", 1, odd),
                    condition(HEALTHY, "True", "ComponentsUp", 3, "2024-02-01T00:00:00Z")
                ]),
                vec![up()],
                json!([
                    condition(HEALTHY, "True", "ComponentsUp", 3, "2024-02-01T00:00:00Z"),
                    condition("A", "True", "R", 1, odd)
                ]),
            ),
            (
                "an observedGeneration in the future does not block the add-on",
                json!([condition(HEALTHY, "False", "R", 99, before)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, now)]),
            ),
            (
                "conditions that are not a list are replaced",
                json!("odd"),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, now)]),
            ),
        ];
        for (name, before, desired, expected) in rows {
            assert_eq!(merged(before, &desired), expected, "{name}");
        }
    }

    #[test]
    fn long_message_is_shortened() {
        let long = Desired { message: "\u{e4}".repeat(MAX_MESSAGE_BYTES), ..up() };
        let list = merged(json!([]), &[long]);
        let message = list[0]["message"].as_str().unwrap();
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.ends_with("..."), "{}", message.len());
    }
}
