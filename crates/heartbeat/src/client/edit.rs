//! What a beat changes in the status of an instance. Pure, and on JSON as it was read: what others wrote, and how they
//! wrote it, stays to the byte.

use bellwether_clock::whole_seconds;
use bellwether_conditions::{Condition, ConditionSet, Desired, Outcome, TransitionKey, shorten};
use jiff::Timestamp;
use serde::Deserialize as _;
use serde_json::{Map, Value};

/// The longest message that the server takes.
const LONGEST_MESSAGE: usize = 32_768;
const SINCE: &str = "lastTransitionTime";

/// Stamps the status of an object (everything but its metadata), and merges conditions into it.
pub(super) fn beat(object: &mut Value, generation: Option<i64>, conditions: &[Desired], now: Timestamp) {
    let Some(status) =
        members(object).and_then(|object| members(object.entry("status").or_insert(Value::Null)))
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
        let message = shorten(&desired.message, LONGEST_MESSAGE);
        merge(list, Desired { observed_generation, message, ..desired.clone() }, now);
    }
}

/// The members of an object; what is none becomes an empty one.
fn members(value: &mut Value) -> Option<&mut Map<String, Value>> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

/// Saying two things of one type would be a transition with every beat; the later word counts.
fn last_of_each_type(conditions: &[Desired]) -> impl Iterator<Item = &Desired> {
    conditions.iter().enumerate().filter_map(|(place, desired)| {
        let said_again = conditions.iter().skip(place + 1).any(|later| later.type_ == desired.type_);
        (!said_again).then_some(desired)
    })
}

/// Makes the one condition of this type say what is desired. One that already does is not touched.
fn merge(list: &mut Vec<Value>, desired: Desired, now: Timestamp) {
    let type_ = desired.type_.clone();
    let is_of_type = |value: &Value| value.get("type").and_then(Value::as_str) == Some(type_.as_str());
    let mut set = held(list.iter().filter(|value| is_of_type(value)), desired.observed_generation);
    let outcome = set.upsert(desired, TransitionKey::Status, now);
    let Some(Ok(Value::Object(mut wanted))) = set.get(&type_).map(serde_json::to_value) else { return };

    let twice = list.iter().filter(|value| is_of_type(value)).count() > 1;
    match list.iter_mut().find(|value| is_of_type(value)) {
        None => list.push(Value::Object(wanted)),
        Some(_) if !outcome.changed() && !twice => {}
        Some(found) => {
            if outcome == Outcome::Updated && !twice {
                wanted.remove(SINCE);
            }
            if let Some(found) = members(found) {
                found.extend(wanted);
            }
        }
    }
    let mut seen = false;
    list.retain(|value| !is_of_type(value) || !std::mem::replace(&mut seen, true));
}

/// What is held, as far as it can be read.
fn held<'a>(found: impl Iterator<Item = &'a Value>, generation: Option<i64>) -> ConditionSet {
    // Nobody has seen a generation that is still to come: such a claim would silence the add-on.
    let is_possible = |observed: &i64| generation.is_none_or(|generation| *observed <= generation);
    let mut held: Vec<Condition> = found.filter_map(|value| Condition::deserialize(value).ok()).collect();
    for condition in &mut held {
        condition.observed_generation = condition.observed_generation.filter(is_possible);
    }
    held.into()
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
        Desired::new(ConditionType::as_read(type_), status, Reason::as_read(reason), "words")
    }

    fn up() -> Desired {
        desired(HEALTHY, Status::True, "ComponentsUp")
    }

    fn condition(type_: &str, status: &str, reason: &str, generation: i64, since: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": "words",
               "observedGeneration": generation, "lastTransitionTime": since})
    }

    /// The conditions after a beat at generation 3.
    fn merged(conditions: Value, wishes: &[Desired]) -> Value {
        let mut object = json!({"status": {"conditions": conditions}});
        beat(&mut object, Some(3), wishes, now());
        object["status"]["conditions"].take()
    }

    #[test]
    fn a_pulse_stamps_and_touches_nothing_else() {
        let odd = json!([{"type": "Foreign", "lastTransitionTime": "2024-05-01T10:00:00.123456789+02:00", "extra": 1}]);
        let mut object = json!({"spec": {"a": 1}, "status": {"conditions": odd, "more": "kept"}});
        beat(&mut object, Some(3), &[], now());
        let wanted = json!({"spec": {"a": 1}, "status": {
            "conditions": odd, "more": "kept", "lastHeartbeatTime": "2024-05-01T10:00:00Z", "observedGeneration": 3,
        }});
        assert_eq!(object, wanted);
    }

    #[test]
    fn a_first_pulse_makes_the_status() {
        for mut object in [json!({}), json!({"status": null}), json!({"status": {}}), Value::Null] {
            beat(&mut object, None, &[], now());
            assert_eq!(object, json!({"status": {"lastHeartbeatTime": "2024-05-01T10:00:00Z"}}));
        }
    }

    #[test]
    fn one_condition_of_each_type_says_what_is_desired() {
        let (before, stamp, odd) =
            ("2024-01-01T00:00:00Z", "2024-05-01T10:00:00Z", "2024-01-01T01:00:00.5+01:00");
        let rows: [(&str, Value, Vec<Desired>, Value); 9] = [
            (
                "none yet",
                json!([]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, stamp)]),
            ),
            (
                "the same again is left to the byte",
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
            ),
            (
                "another reason or generation is no transition, and the odd time stays",
                json!([condition(HEALTHY, "True", "Else", 2, odd)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, odd)]),
            ),
            (
                "another status is a transition",
                json!([condition(HEALTHY, "Unknown", "HeartbeatTimeout", 3, before)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, stamp)]),
            ),
            (
                "the condition keeps its place among those of others",
                json!([
                    condition("A", "True", "R", 1, odd),
                    condition(HEALTHY, "False", "R", 1, before),
                    condition("Z", "odd", "", 9, odd)
                ]),
                vec![up()],
                json!([
                    condition("A", "True", "R", 1, odd),
                    condition(HEALTHY, "True", "ComponentsUp", 3, stamp),
                    condition("Z", "odd", "", 9, odd)
                ]),
            ),
            (
                "a type said twice: the later word counts",
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, before)]),
                vec![desired(HEALTHY, Status::False, "Down"), up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, before)]),
            ),
            (
                "a type held twice becomes one",
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
                "a claim about a generation to come does not silence the add-on",
                json!([condition(HEALTHY, "False", "R", 99, before)]),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, stamp)]),
            ),
            (
                "a list that is none",
                json!("odd"),
                vec![up()],
                json!([condition(HEALTHY, "True", "ComponentsUp", 3, stamp)]),
            ),
        ];
        for (sentence, before, wishes, wanted) in rows {
            assert_eq!(merged(before, &wishes), wanted, "{sentence}");
        }
    }

    #[test]
    fn a_message_is_cut_rather_than_refused() {
        let wish = Desired { message: "\u{e4}".repeat(LONGEST_MESSAGE), ..up() };
        let list = merged(json!([]), &[wish]);
        let message = list[0]["message"].as_str().unwrap();
        assert!(message.len() <= LONGEST_MESSAGE && message.ends_with("..."), "{}", message.len());
    }
}
