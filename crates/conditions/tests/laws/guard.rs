//! Two writers, one condition: a collector that forwards, and an operator that updates it.

use std::fmt;

use bellwether_conditions::guard::{Guard, Guarded, Origins, Refusal, Rule, Standing, Vocabulary};
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

impl Vocabulary for State {
    fn read(reason: &Reason) -> Option<Self> {
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
    Rule { actor: Operator, from: Origins::Any, to: &[Updated, UpdateFailed, Disabled] },
    Rule { actor: Collector, from: Origins::AnyBut(&[UpdateFailed, Disabled]), to: &[Forwarding] },
    Rule { actor: Collector, from: Origins::Only(&[Updated, Forwarding]), to: &[ForwardFailed] },
]);

#[rstest]
#[case::the_first_report_is_taken(Collector, Standing::Absent, Forwarding)]
#[case::a_foreign_reason_does_not_lock(Collector, Standing::Foreign, Forwarding)]
#[case::forwarding_after_an_update(Collector, Standing::At(Updated), Forwarding)]
#[case::a_failure_after_success(Collector, Standing::At(Forwarding), ForwardFailed)]
#[case::new_words_for_the_same_failure(Collector, Standing::At(ForwardFailed), ForwardFailed)]
#[case::the_operator_clears_its_failure(Operator, Standing::At(UpdateFailed), Updated)]
#[case::the_operator_overrides_the_collector(Operator, Standing::At(ForwardFailed), Disabled)]
fn a_move_of_the_table_is_allowed(#[case] actor: Actor, #[case] from: Standing<State>, #[case] to: State) {
    assert_eq!(GUARD.judge(actor, from, to), Ok(()));
}

#[rstest]
#[case::a_late_success_cannot_clear_an_update_failure(
    Collector,
    Standing::At(UpdateFailed),
    Forwarding,
    "Collector may not move it from UpdateFailed to Forwarding"
)]
#[case::a_terminating_pod_cannot_wake_the_disabled(
    Collector,
    Standing::At(Disabled),
    Forwarding,
    "Collector may not move it from Disabled to Forwarding"
)]
#[case::only_a_listed_reason_is_not_absence(
    Collector,
    Standing::Absent,
    ForwardFailed,
    "Collector may not move it from no condition to ForwardFailed"
)]
#[case::only_a_listed_reason_is_not_foreign(
    Collector,
    Standing::Foreign,
    ForwardFailed,
    "Collector may not move it from a foreign reason to ForwardFailed"
)]
#[case::a_collector_does_not_disable(
    Collector,
    Standing::Absent,
    Disabled,
    "Collector may never report Disabled"
)]
#[case::not_even_to_stay_there(
    Collector,
    Standing::At(Disabled),
    Disabled,
    "Collector may never report Disabled"
)]
#[case::an_operator_does_not_forward(
    Operator,
    Standing::At(Updated),
    Forwarding,
    "Operator may never report Forwarding"
)]
fn another_move_is_refused_and_says_why(
    #[case] actor: Actor,
    #[case] from: Standing<State>,
    #[case] to: State,
    #[case] why: &str,
) {
    assert_eq!(GUARD.judge(actor, from, to).unwrap_err().to_string(), why);
}

fn wish(reason: &str) -> Desired {
    Desired::new(KIND, Status::True, Reason::as_read(reason), "")
}

#[test]
fn several_spellings_are_one_reason() {
    let mut set = ConditionSet::from(vec![wish("ForwardFailure").since(at(0))]);
    let outcome = GUARD.upsert(&mut set, Collector, wish("ForwardFailed"), TransitionKey::Status, at(9));
    assert_eq!(outcome, Guarded::Allowed(Outcome::Updated));
}

#[test]
fn a_reason_outside_the_table_is_refused() {
    let mut set = ConditionSet::default();
    let outcome = GUARD.upsert(&mut set, Operator, wish("Banana"), TransitionKey::Reason, at(9));
    assert_eq!(
        outcome,
        Guarded::Refused(Refusal::UnknownReason { actor: Operator, to: Reason::as_read("Banana") })
    );
    assert_eq!(set, ConditionSet::default());
}

proptest! {
    #[test]
    fn a_refused_move_changes_nothing_and_an_allowed_one_is_a_plain_upsert(
        actor in select(vec![Collector, Operator]),
        held in select(vec!["", "Updated", "UpdateFailed", "Forwarding", "ForwardFailed", "Disabled", "Banana"]),
        to in select(STATES.to_vec()),
    ) {
        let before = match held {
            "" => ConditionSet::default(),
            reason => ConditionSet::from(vec![wish(reason).since(at(0))]),
        };
        let from = match held {
            "" => Standing::Absent,
            reason => State::read(&Reason::as_read(reason)).map_or(Standing::Foreign, Standing::At),
        };
        let (mut guarded, mut plain) = (before.clone(), before.clone());
        let desired = wish(&to.to_string());
        let outcome = GUARD.upsert(&mut guarded, actor, desired.clone(), TransitionKey::Reason, at(9));
        let expected = match GUARD.judge(actor, from, to) {
            Ok(()) => Guarded::Allowed(plain.upsert(desired, TransitionKey::Reason, at(9))),
            Err(refusal) => Guarded::Refused(refusal),
        };
        prop_assert_eq!(&outcome, &expected);
        prop_assert_eq!(outcome.changed(), guarded != before);
        prop_assert_eq!(guarded, plain);
    }
}
