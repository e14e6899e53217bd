//! Updating one condition of a list: positions, transition times and observed generations.

use bellwether_conditions::{
    Condition, ConditionSet, ConditionType, Desired, Outcome, Reason, Status, TransitionKey as Key,
};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;
use Status::{False, True, Unknown};

const KIND: ConditionType = ConditionType::constant("Progressing");

fn desired(status: Status, reason: &str, message: &str) -> Desired {
    Desired::new(KIND, status, Reason::as_read(reason), message)
}

fn set_of(condition: Desired) -> ConditionSet {
    ConditionSet::from(vec![condition.since(at(0))])
}

const OUTDATED: Outcome = Outcome::Outdated { offered: 1, existing: 2 };
const SAME_TARGET: Key<'_> = Key::StatusReasonAndTarget { before: "v1", after: "v1" };
const NEW_TARGET: Key<'_> = Key::StatusReasonAndTarget { before: "v1", after: "v2" };

/// The existing condition is True/Up/"m" at generation 2 since 0; the update is made at 9.
#[rstest]
#[case::no_change(Key::Status, desired(True, "Up", "m"), Outcome::Unchanged, 0)]
#[case::message_only(Key::Status, desired(True, "Up", "new"), Outcome::Updated, 0)]
#[case::status_change(Key::Status, desired(False, "Up", "m"), Outcome::Transitioned, 9)]
#[case::reason_change_with_key_status(Key::Status, desired(True, "New", "m"), Outcome::Updated, 0)]
#[case::reason_change(Key::Reason, desired(True, "New", "m"), Outcome::Transitioned, 9)]
#[case::status_change_with_key_reason(Key::Reason, desired(False, "Up", "m"), Outcome::Updated, 0)]
#[case::status_change_with_both_keys(
    Key::StatusAndReason,
    desired(False, "Up", "m"),
    Outcome::Transitioned,
    9
)]
#[case::reason_change_with_both_keys(
    Key::StatusAndReason,
    desired(True, "New", "m"),
    Outcome::Transitioned,
    9
)]
#[case::message_for_the_same_target(SAME_TARGET, desired(True, "Up", "new"), Outcome::Updated, 0)]
#[case::same_condition_for_another_target(NEW_TARGET, desired(True, "Up", "m"), Outcome::Transitioned, 9)]
#[case::newer_generation(Key::Status, desired(True, "Up", "m").observed_at(3), Outcome::Updated, 0)]
#[case::same_generation(Key::Status, desired(False, "Up", "m").observed_at(2), Outcome::Transitioned, 9)]
#[case::older_generation(Key::Status, desired(False, "Up", "m").observed_at(1), OUTDATED, 0)]
fn transition_time_follows_the_key(
    #[case] key: Key<'_>,
    #[case] update: Desired,
    #[case] outcome: Outcome,
    #[case] transition: i64,
) {
    let mut set = set_of(desired(True, "Up", "m").observed_at(2));
    assert_eq!(set.upsert(update, key, at(9)), outcome);
    assert_eq!(set.get(&KIND).unwrap().last_transition_time, at(transition));
}

#[test]
fn update_without_a_generation_keeps_the_existing_one() {
    let mut set = set_of(desired(True, "Up", "m").observed_at(2));
    assert_eq!(set.upsert(desired(False, "Down", "m"), Key::Status, at(9)), Outcome::Transitioned);
    assert_eq!(set.get(&KIND).unwrap().observed_generation, Some(2));
}

#[test]
fn update_keeps_the_position_and_the_other_conditions() {
    let list: Vec<Condition> = serde_json::from_value(serde_json::json!([
        {"type": "Foreign", "status": "Banana"},
        {"type": "Progressing", "status": "True", "reason": "Up"},
        {"type": "Last", "status": "False", "observedGeneration": 1},
    ]))
    .unwrap();
    let mut set = ConditionSet::from(list.clone());
    assert_eq!(set.upsert(desired(False, "Down", ""), Key::Status, at(9)), Outcome::Transitioned);
    assert_eq!(set.as_slice(), [list[0].clone(), desired(False, "Down", "").since(at(9)), list[2].clone()]);
}

#[test]
fn removing_a_condition_keeps_the_order_of_the_others() {
    let mut set = ConditionSet::from(vec![
        update_of(0, 0, 0, None).since(at(0)),
        update_of(1, 0, 0, None).since(at(0)),
        update_of(2, 0, 0, None).since(at(0)),
    ]);
    assert_eq!(set.remove(&TYPES[1]), Some(update_of(1, 0, 0, None).since(at(0))));
    assert_eq!(set.remove(&TYPES[1]), None);
    assert_eq!(set.iter().map(|held| held.type_.as_str()).collect::<Vec<_>>(), ["A", "C"]);
}

#[rstest]
#[case::absent(ConditionSet::default(), false)]
#[case::true_(set_of(desired(True, "R", "")), true)]
#[case::false_(set_of(desired(False, "R", "")), false)]
#[case::unknown(set_of(desired(Unknown, "R", "")), false)]
fn only_status_true_is_true(#[case] set: ConditionSet, #[case] expected: bool) {
    assert_eq!(set.is_true(&KIND), expected);
}

#[rstest]
#[case::newest_last(&[1, 2], 2)]
#[case::newest_first(&[2, 1], 2)]
#[case::newest_between(&[1, 3, 2], 3)]
fn newest_of_several_conditions_of_one_type_is_kept(#[case] times: &[i64], #[case] newest: i64) {
    let other = update_of(0, 0, 0, None).since(at(0));
    let mut list: Vec<_> = times.iter().map(|&time| desired(True, "R", "").since(at(time))).collect();
    list.push(other.clone());
    assert_eq!(ConditionSet::from(list).as_slice(), [desired(True, "R", "").since(at(newest)), other]);
}

const TYPES: [ConditionType; 3] =
    [ConditionType::constant("A"), ConditionType::constant("B"), ConditionType::constant("C")];
const REASONS: [Reason; 2] = [Reason::constant("R"), Reason::constant("S")];
const STATUSES: [Status; 3] = [True, False, Unknown];

fn update_of(type_: usize, status: usize, reason: usize, observed_generation: Option<i64>) -> Desired {
    let desired = Desired::new(TYPES[type_].clone(), STATUSES[status], REASONS[reason].clone(), "");
    Desired { observed_generation, ..desired }
}

prop_compose! {
    fn any_update()(
        type_ in 0..TYPES.len(),
        status in 0..STATUSES.len(),
        reason in 0..REASONS.len(),
        message in "[xy]",
        generation in proptest::option::of(1i64..4),
    ) -> Desired {
        Desired { message, ..update_of(type_, status, reason, generation) }
    }
}

fn any_key() -> impl Strategy<Value = Key<'static>> {
    prop_oneof![
        Just(Key::Status),
        Just(Key::Reason),
        Just(Key::StatusAndReason),
        ("[vw]", "[vw]").prop_map(|(before, after)| {
            let target = |text: &str| if text == "v" { "v" } else { "w" };
            Key::StatusReasonAndTarget { before: target(&before), after: target(&after) }
        }),
    ]
}

fn any_set() -> impl Strategy<Value = ConditionSet> {
    proptest::collection::vec((any_update(), 0i64..5), 0..5).prop_map(|list| {
        list.into_iter().map(|(update, time)| update.since(at(time))).collect::<Vec<_>>().into()
    })
}

fn sorted(set: ConditionSet) -> Vec<Condition> {
    let mut list = Vec::from(set);
    list.sort_by(|a, b| a.type_.cmp(&b.type_));
    list
}

proptest! {
    #[test]
    fn upsert_is_idempotent(mut set in any_set(), update in any_update(), key in any_key()) {
        let _ = set.upsert(update.clone(), key, at(9));
        let once = set.clone();
        prop_assert!(!set.upsert(update, key, at(9)).changed());
        prop_assert_eq!(set, once);
    }

    #[test]
    fn upserts_of_different_types_commute_up_to_order(
        set in any_set(), first in any_update(), second in any_update(), key in any_key(), types in Just(TYPES).prop_shuffle(),
    ) {
        let [type_, other_type, _] = types;
        let (first, second) = (Desired { type_, ..first }, Desired { type_: other_type, ..second });
        let (mut one, mut other) = (set.clone(), set);
        let outcomes = (one.upsert(first.clone(), key, at(8)), one.upsert(second.clone(), key, at(9)));
        let swapped = (other.upsert(second, key, at(9)), other.upsert(first, key, at(8)));
        prop_assert_eq!(outcomes, (swapped.1, swapped.0));
        prop_assert_eq!(sorted(one), sorted(other));
    }

    #[test]
    fn outcome_is_a_change_if_and_only_if_the_set_differs(
        mut set in any_set(), update in any_update(), key in any_key(),
    ) {
        let before = set.clone();
        let outcome = set.upsert(update, key, at(9));
        prop_assert_eq!(outcome.changed(), set != before);
    }

    #[test]
    fn transition_time_changes_if_and_only_if_the_key_changes(mut set in any_set(), update in any_update(), key in any_key()) {
        let before = set.get(&update.type_).cloned();
        let outcome = set.upsert(update.clone(), key, at(9));
        let after = set.get(&update.type_).unwrap();
        let Some(before) = before else {
            prop_assert_eq!((outcome, after.last_transition_time), (Outcome::Added, at(9)));
            return Ok(());
        };
        let key_of = |held: &Condition, target| match key {
            Key::Status => (Some(held.status), None, ""),
            Key::Reason => (None, Some(held.reason.clone()), ""),
            Key::StatusAndReason => (Some(held.status), Some(held.reason.clone()), ""),
            Key::StatusReasonAndTarget { .. } => (Some(held.status), Some(held.reason.clone()), target),
        };
        let (target_before, target_after) = match key {
            Key::StatusReasonAndTarget { before, after } => (before, after),
            _ => ("", ""),
        };
        let outdated = matches!(outcome, Outcome::Outdated { .. });
        let moved = !outdated && key_of(&before, target_before) != key_of(after, target_after);
        let expected = if moved { at(9) } else { before.last_transition_time };
        prop_assert_eq!(after.last_transition_time, expected);
        prop_assert_eq!(outcome == Outcome::Transitioned, moved);
    }

    #[test]
    fn observed_generation_never_decreases(
        mut set in any_set(), updates in proptest::collection::vec(any_update(), 1..8), key in any_key(),
    ) {
        for update in updates {
            let type_ = update.type_.clone();
            let before = set.get(&type_).and_then(|held| held.observed_generation);
            let _ = set.upsert(update, key, at(9));
            prop_assert!(set.get(&type_).unwrap().observed_generation >= before);
        }
    }

    #[test]
    fn outdated_update_changes_nothing(
        existing in any_update(), update in any_update(), key in any_key(), offered in 1i64..4, age in 1i64..4,
    ) {
        let newer = Desired { type_: update.type_.clone(), ..existing }.observed_at(offered + age);
        let mut set = ConditionSet::from(vec![newer.since(at(0))]);
        let before = set.clone();
        let outcome = set.upsert(update.observed_at(offered), key, at(9));
        prop_assert_eq!(outcome, Outcome::Outdated { offered, existing: offered + age });
        prop_assert_eq!(set, before);
    }

    #[test]
    fn set_has_each_type_once_in_the_order_of_first_appearance(
        list in proptest::collection::vec((any_update(), 0i64..5), 0..8),
    ) {
        let list: Vec<_> = list.into_iter().map(|(update, time)| update.since(at(time))).collect();
        let mut expected: Vec<ConditionType> = Vec::new();
        for condition in &list {
            if !expected.contains(&condition.type_) {
                expected.push(condition.type_.clone());
            }
        }
        let set = ConditionSet::from(list);
        prop_assert_eq!(set.iter().map(|held| held.type_.clone()).collect::<Vec<_>>(), expected);
    }
}
