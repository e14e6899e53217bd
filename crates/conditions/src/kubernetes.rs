//! Conditions as objects of Kubernetes have them: the one adapter between `metav1.Condition` and this crate.
//!
//! An update changes one condition of a list. All others stay as they are, whoever wrote them and in whatever form.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as KubernetesCondition, Time};
use serde::Deserialize as _;
use serde_json::Value;

use crate::condition::{Condition, Desired, Status};
use crate::names::{ConditionType, Reason};
use crate::set::{ConditionSet, Outcome, TransitionKey};

impl From<&KubernetesCondition> for Condition {
    fn from(condition: &KubernetesCondition) -> Self {
        let desired = Desired {
            type_: ConditionType::as_read(condition.type_.clone()),
            status: Status::as_read(&condition.status),
            reason: Reason::as_read(condition.reason.clone()),
            message: condition.message.clone(),
            observed_generation: condition.observed_generation,
        };
        desired.since(condition.last_transition_time.0)
    }
}

impl From<&Condition> for KubernetesCondition {
    fn from(condition: &Condition) -> Self {
        Self {
            type_: condition.type_.to_string(),
            status: condition.status.to_string(),
            reason: condition.reason.to_string(),
            message: condition.message.clone(),
            last_transition_time: Time(condition.last_transition_time),
            observed_generation: condition.observed_generation,
        }
    }
}

/// The condition of a type.
pub fn find<'a>(conditions: &'a [KubernetesCondition], type_: &str) -> Option<&'a KubernetesCondition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// The condition of a type, as this crate has it.
pub fn get(conditions: &[KubernetesCondition], type_: &str) -> Option<Condition> {
    find(conditions, type_).map(Condition::from)
}

/// Sets one condition of a list, by the rules of [`ConditionSet::upsert`]. Transition times are in whole seconds, as
/// Kubernetes stores them.
pub fn upsert(
    conditions: &mut Vec<KubernetesCondition>,
    desired: Desired,
    key: TransitionKey<'_>,
    now: Timestamp,
) -> Outcome {
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let type_ = desired.type_.clone();
    let index = conditions.iter().position(|condition| condition.type_ == type_.as_str());
    let existing = index.and_then(|index| conditions.get(index)).map(Condition::from);
    let mut set = ConditionSet::from(Vec::from_iter(existing));
    let outcome = set.upsert(desired, key, now);
    if let Some(written) = set.get(&type_).filter(|_| outcome.changed()).map(KubernetesCondition::from) {
        match index.and_then(|index| conditions.get_mut(index)) {
            Some(existing) => *existing = written,
            None => conditions.push(written),
        }
    }
    outcome
}

/// The conditions in a list of JSON. An element that is not a condition is skipped and does not affect the others.
pub fn parse_list(list: Option<&Value>) -> ConditionSet {
    let elements = list.and_then(Value::as_array).into_iter().flatten();
    let conditions = elements.filter_map(|element| Condition::deserialize(element).ok());
    ConditionSet::from(conditions.collect::<Vec<_>>())
}

/// Removes the condition of a type.
pub fn remove(conditions: &mut Vec<KubernetesCondition>, type_: &str) {
    conditions.retain(|condition| condition.type_ != type_);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_condition_changes_and_the_others_stay() {
        const ONE: ConditionType = ConditionType::constant("One");
        let at = |second| Timestamp::from_second(second).unwrap();
        let desired = |status, message: &str| Desired::new(ONE, status, Reason::constant("Why"), message);
        let other = KubernetesCondition {
            type_: "Other".into(),
            status: "Maybe".into(),
            reason: String::new(),
            message: "as another writer wrote it".into(),
            last_transition_time: Time(at(1)),
            observed_generation: Some(7),
        };
        let mut conditions = vec![other.clone()];
        let mut set = |desired, second: i64| {
            let outcome = upsert(&mut conditions, desired, TransitionKey::Status, at(second));
            (outcome, find(&conditions, "One").unwrap().clone(), conditions[0].clone())
        };
        let (outcome, _, _) = set(desired(Status::True, "a"), 10);
        assert_eq!(outcome, Outcome::Added);
        let (outcome, one, _) = set(desired(Status::True, "b"), 20);
        assert_eq!(
            (outcome, one.message.as_str(), one.last_transition_time.0),
            (Outcome::Updated, "b", at(10))
        );
        let (outcome, one, _) = set(desired(Status::False, "b"), 30);
        assert_eq!((outcome, one.last_transition_time.0), (Outcome::Transitioned, at(30)));
        let (outcome, same, first) = set(desired(Status::False, "b"), 40);
        assert_eq!((outcome, same, first), (Outcome::Unchanged, one, other));
        remove(&mut conditions, "One");
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn malformed_element_of_a_list_does_not_affect_the_others() {
        let list = serde_json::json!([7, {"status": "True"}, {"type": "One", "status": "True"}, {"type": 1}]);
        let set = parse_list(Some(&list));
        let types: Vec<String> = set.iter().map(|condition| condition.type_.to_string()).collect();
        assert_eq!(types, ["One"]);
        assert_eq!(parse_list(Some(&serde_json::json!("none"))), ConditionSet::default());
        assert_eq!(parse_list(None), ConditionSet::default());
    }
}
