//! Conditions of an object as Kubernetes' own type holds them, changed by the rules of `bellwether-conditions`.

use bellwether_clock::whole_seconds;
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Reason, Status, TransitionKey};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Makes one condition say what is desired. The others stay as they are, and in their places.
pub(crate) fn say(conditions: &mut Vec<Condition>, desired: Desired, now: Timestamp) {
    let type_ = desired.type_.clone();
    let place = conditions.iter().position(|held| held.type_ == type_.as_str());
    let held = place.and_then(|place| conditions.get(place)).map(read);
    let mut set = ConditionSet::from(Vec::from_iter(held));
    if !set.upsert(desired, TransitionKey::Status, whole_seconds(now)).changed() {
        return;
    }
    let Some(said) = set.get(&type_).map(written) else { return };
    match place.and_then(|place| conditions.get_mut(place)) {
        Some(held) => *held = said,
        None => conditions.push(said),
    }
}

/// The condition of a type.
pub(crate) fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|held| held.type_ == type_)
}

fn read(condition: &Condition) -> bellwether_conditions::Condition {
    let desired = Desired {
        type_: ConditionType::as_read(condition.type_.clone()),
        status: Status::as_read(&condition.status),
        reason: Reason::as_read(condition.reason.clone()),
        message: condition.message.clone(),
        observed_generation: condition.observed_generation,
    };
    desired.since(condition.last_transition_time.0)
}

fn written(condition: &bellwether_conditions::Condition) -> Condition {
    Condition {
        type_: condition.type_.to_string(),
        status: condition.status.to_string(),
        reason: condition.reason.to_string(),
        message: condition.message.clone(),
        last_transition_time: Time(condition.last_transition_time),
        observed_generation: condition.observed_generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_condition_changes_and_the_others_stay() {
        const ONE: ConditionType = ConditionType::constant("One");
        let at = |second| Timestamp::from_second(second).unwrap();
        let desired = |status, message: &str| Desired::new(ONE, status, Reason::constant("Why"), message);
        let other = Condition {
            type_: "Other".into(),
            status: "Maybe".into(),
            reason: String::new(),
            message: "as somebody wrote it".into(),
            last_transition_time: Time(at(1)),
            observed_generation: Some(7),
        };
        let mut conditions = vec![other.clone()];
        say(&mut conditions, desired(Status::True, "a"), at(10));
        say(&mut conditions, desired(Status::True, "b"), at(20));
        let said = find(&conditions, "One").unwrap().clone();
        assert_eq!((said.message.as_str(), said.last_transition_time.0), ("b", at(10)));
        say(&mut conditions, desired(Status::False, "b"), at(30));
        assert_eq!(find(&conditions, "One").unwrap().last_transition_time.0, at(30));
        assert_eq!(conditions[0], other);
        let before = conditions.clone();
        say(&mut conditions, desired(Status::False, "b"), at(40));
        assert_eq!(conditions, before, "nothing new was said");
    }
}
