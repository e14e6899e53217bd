//! The guard of a condition with two writers: a collector that forwards metrics, and an operator that updates the collector.

use std::fmt;

use bellwether_conditions::guard::{AllowedFrom, CurrentReason, Denial, Guard, Guarded, GuardedReason, Rule};
use bellwether_conditions::{ConditionSet, ConditionType, Desired, Outcome, Reason, Status, TransitionKey};
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

use crate::at;

const KIND: ConditionType = ConditionType::constant("Collector");

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actor {
    Collector,
    Operator,
}
use Actor::{Collector, Operator};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Updated,
    UpdateFailed,
    Forwarding,
    ForwardFailed,
    Disabled,
}
use State::{Disabled, ForwardFailed, Forwarding, UpdateFailed, Updated};

const STATES: [State; 5] = [Updated, UpdateFailed, Forwarding, ForwardFailed, Disabled];

impl GuardedReason for State {
    fn parse(reason: &Reason) -> Option<Self> {
        match reason.as_str() {
            "ForwardFailure" => Some(ForwardFailed),
            text => STATES.into_iter().find(|state| state.to_string() == text),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

const GUARD: Guard<Actor, State> = Guard::new(&[
    Rule { actor: Operator, from: AllowedFrom::Any, to: &[Updated, UpdateFailed, Disabled] },
    Rule { actor: Collector, from: AllowedFrom::AnyExcept(&[UpdateFailed, Disabled]), to: &[Forwarding] },
    Rule { actor: Collector, from: AllowedFrom::Only(&[Updated, Forwarding]), to: &[ForwardFailed] },
]);

#[rstest]
#[case::first_report(Collector, CurrentReason::Absent, Forwarding)]
#[case::unrecognized_reason_does_not_block(Collector, CurrentReason::Unrecognized, Forwarding)]
#[case::forwarding_after_an_update(Collector, CurrentReason::Known(Updated), Forwarding)]
#[case::failure_after_success(Collector, CurrentReason::Known(Forwarding), ForwardFailed)]
#[case::new_message_for_the_same_failure(Collector, CurrentReason::Known(ForwardFailed), ForwardFailed)]
#[case::operator_clears_its_failure(Operator, CurrentReason::Known(UpdateFailed), Updated)]
#[case::operator_overrides_the_collector(Operator, CurrentReason::Known(ForwardFailed), Disabled)]
fn change_in_the_table_is_allowed(
    #[case] actor: Actor,
    #[case] from: CurrentReason<State>,
    #[case] to: State,
) {
    assert_eq!(GUARD.check(actor, from, to), Ok(()));
}

#[rstest]
#[case::late_success_cannot_clear_an_update_failure(
    Collector,
    CurrentReason::Known(UpdateFailed),
    Forwarding,
    "Collector may not change the reason from UpdateFailed to Forwarding"
)]
#[case::terminating_pod_cannot_enable_a_disabled_collector(
    Collector,
    CurrentReason::Known(Disabled),
    Forwarding,
    "Collector may not change the reason from Disabled to Forwarding"
)]
#[case::absent_condition_is_not_a_listed_reason(
    Collector,
    CurrentReason::Absent,
    ForwardFailed,
    "Collector may not change the reason from no condition to ForwardFailed"
)]
#[case::unrecognized_reason_is_not_a_listed_reason(
    Collector,
    CurrentReason::Unrecognized,
    ForwardFailed,
    "Collector may not change the reason from an unrecognized reason to ForwardFailed"
)]
#[case::collector_may_not_disable(
    Collector,
    CurrentReason::Absent,
    Disabled,
    "Collector may never report Disabled"
)]
#[case::collector_may_not_keep_disabled(
    Collector,
    CurrentReason::Known(Disabled),
    Disabled,
    "Collector may never report Disabled"
)]
#[case::operator_may_not_report_forwarding(
    Operator,
    CurrentReason::Known(Updated),
    Forwarding,
    "Operator may never report Forwarding"
)]
fn other_changes_are_denied_with_a_message(
    #[case] actor: Actor,
    #[case] from: CurrentReason<State>,
    #[case] to: State,
    #[case] message: &str,
) {
    assert_eq!(GUARD.check(actor, from, to).unwrap_err().to_string(), message);
}

fn desired(reason: &str) -> Desired {
    Desired::new(KIND, Status::True, Reason::as_read(reason), "")
}

#[test]
fn spellings_of_one_reason_are_equal() {
    let mut set = ConditionSet::from(vec![desired("ForwardFailure").since(at(0))]);
    let outcome = GUARD.upsert(&mut set, Collector, desired("ForwardFailed"), TransitionKey::Status, at(9));
    assert_eq!(outcome, Guarded::Allowed(Outcome::Updated));
}

#[test]
fn reason_outside_the_table_is_denied() {
    let mut set = ConditionSet::default();
    let outcome = GUARD.upsert(&mut set, Operator, desired("Banana"), TransitionKey::Reason, at(9));
    assert_eq!(
        outcome,
        Guarded::Denied(Denial::UnknownReason { actor: Operator, to: Reason::as_read("Banana") })
    );
    assert_eq!(set, ConditionSet::default());
}

proptest! {
    #[test]
    fn denied_change_has_no_effect_and_allowed_change_is_an_upsert(
        actor in select(vec![Collector, Operator]),
        current in select(vec!["", "Updated", "UpdateFailed", "Forwarding", "ForwardFailed", "Disabled", "Banana"]),
        to in select(STATES.to_vec()),
    ) {
        let before = match current {
            "" => ConditionSet::default(),
            reason => ConditionSet::from(vec![desired(reason).since(at(0))]),
        };
        let from = match current {
            "" => CurrentReason::Absent,
            reason => State::parse(&Reason::as_read(reason)).map_or(CurrentReason::Unrecognized, CurrentReason::Known),
        };
        let (mut guarded, mut plain) = (before.clone(), before.clone());
        let update = desired(&to.to_string());
        let outcome = GUARD.upsert(&mut guarded, actor, update.clone(), TransitionKey::Reason, at(9));
        let expected = match GUARD.check(actor, from, to) {
            Ok(()) => Guarded::Allowed(plain.upsert(update, TransitionKey::Reason, at(9))),
            Err(denial) => Guarded::Denied(denial),
        };
        prop_assert_eq!(&outcome, &expected);
        prop_assert_eq!(outcome.changed(), guarded != before);
        prop_assert_eq!(guarded, plain);
    }
}
