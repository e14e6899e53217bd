//! Which writer may replace which reason of a component, and how a report changes the conditions (table 5.2).
//!
//! A collector must not hide that the operator could not update it, has turned it off, or found nothing to collect from: these
//! states end only by a report of the operator.

use std::fmt;

use bellwether_conditions::guard::{AllowedFrom, CurrentReason, Denial, Guard, GuardedReason as _, Rule};
use bellwether_conditions::{Condition, ConditionSet, Desired, Status, TransitionKey, shorten};
use jiff::Timestamp;

use crate::vocabulary::ComponentReason::{
    DisabledMetrics, ForwardFailure, ForwardSuccessful, NotSupported, UpdateFailure, UpdateSuccesful,
};
use crate::vocabulary::{Component, ComponentReason, Vocabulary};

/// The longest message of a component, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// A writer of the conditions of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Actor {
    /// The endpoint operator.
    Operator,
    /// A metrics collector.
    Collector,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Operator => "the endpoint operator",
            Self::Collector => "a metrics collector",
        })
    }
}

/// The allowed changes.
pub const GUARD: Guard<Actor, ComponentReason> = Guard::new(&[
    Rule {
        actor: Actor::Operator,
        from: AllowedFrom::Any,
        to: &[UpdateSuccesful, UpdateFailure, DisabledMetrics, NotSupported],
    },
    Rule {
        actor: Actor::Collector,
        from: AllowedFrom::AnyExcept(&[UpdateFailure, DisabledMetrics, NotSupported]),
        to: &[ForwardSuccessful, ForwardFailure],
    },
]);

/// Which writer reports a reason.
const fn writer_of(reason: ComponentReason) -> Actor {
    match reason {
        ForwardSuccessful | ForwardFailure => Actor::Collector,
        UpdateSuccesful | UpdateFailure | DisabledMetrics | NotSupported => Actor::Operator,
    }
}

/// What a report changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The conditions to write.
    Write(ConditionSet),
    /// The conditions already say so.
    Unchanged,
    /// The writer may not replace the current reason. Nothing changes, and retrying is useless.
    Refused(Denial<Actor, ComponentReason>),
}

/// The condition of a component.
///
/// If both spellings of its type are present, because writers of both vocabularies report about it, they are read in the order
/// of their transitions, and one that the guard does not allow in place of the one before is ignored.
pub fn current(conditions: &ConditionSet, component: Component) -> Option<&Condition> {
    let mut found: Vec<&Condition> =
        conditions.iter().filter(|condition| component.has_condition_type(&condition.type_)).collect();
    found.sort_by_key(|condition| condition.last_transition_time);
    found.into_iter().reduce(|before, after| {
        let is_allowed = ComponentReason::parse(&after.reason)
            .is_some_and(|to| GUARD.check(writer_of(to), reason_of(Some(before)), to).is_ok());
        if is_allowed { after } else { before }
    })
}

/// The reason of a component.
pub fn current_reason(conditions: &ConditionSet, component: Component) -> CurrentReason<ComponentReason> {
    reason_of(current(conditions, component))
}

fn reason_of(condition: Option<&Condition>) -> CurrentReason<ComponentReason> {
    match condition {
        None => CurrentReason::Absent,
        Some(condition) => ComponentReason::parse(&condition.reason)
            .map_or(CurrentReason::Unrecognized, CurrentReason::Known),
    }
}

/// A report about a component.
#[derive(Clone, Debug)]
pub struct Report {
    /// The writer.
    pub actor: Actor,
    /// The component that the report is about.
    pub component: Component,
    /// Its state.
    pub reason: ComponentReason,
    /// Why, for people.
    pub message: String,
}

/// Decides what a report changes. The transition time changes with the reason, not with the message.
pub fn decide(
    conditions: &ConditionSet,
    report: &Report,
    vocabulary: Vocabulary,
    now: Timestamp,
) -> Decision {
    let existing = current(conditions, report.component);
    if let Err(denial) = GUARD.check(report.actor, reason_of(existing), report.reason) {
        return Decision::Refused(denial);
    }
    let type_ = report.component.condition_type(vocabulary);
    let spelled = report.reason.spelled(vocabulary);
    // The condition moves to the spelling that is written, and keeps its time if its reason is the same in either spelling.
    let since = existing
        .filter(|existing| ComponentReason::parse(&existing.reason) == Some(report.reason))
        .map_or(now, |existing| existing.last_transition_time);
    let mut updated = conditions.clone();
    for other in [Vocabulary::Seed, Vocabulary::Upstream].into_iter().filter(|other| *other != vocabulary) {
        updated.remove(&report.component.condition_type(other));
    }
    let message = shorten(&report.message, MAX_MESSAGE_BYTES);
    let desired = Desired::new(type_, Status::True, spelled, message);
    let outcome = updated.upsert(desired, TransitionKey::Reason, since);
    if outcome.changed() || updated != *conditions { Decision::Write(updated) } else { Decision::Unchanged }
}

#[cfg(test)]
mod tests {
    use bellwether_conditions::{ConditionType, Reason};
    use rstest::rstest;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn report(reason: ComponentReason, message: &str) -> Report {
        let actor = writer_of(reason);
        Report { actor, component: Component::Platform, reason, message: message.into() }
    }

    fn conditions(list: &[(&str, &str, i64)]) -> ConditionSet {
        let condition = |(type_, reason, second): &(&str, &str, i64)| {
            let desired = Desired::new(
                ConditionType::as_read(*type_),
                Status::True,
                Reason::as_read(*reason),
                "message",
            );
            desired.since(at(*second))
        };
        ConditionSet::from(list.iter().map(condition).collect::<Vec<_>>())
    }

    /// What a cell of table 5.2 says.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Cell {
        /// The reason changes.
        Y,
        /// Only the message changes.
        M,
        /// Nothing changes.
        N,
    }
    use Cell::{M, N, Y};

    const COLUMNS: [ComponentReason; 6] =
        [UpdateSuccesful, UpdateFailure, ForwardSuccessful, ForwardFailure, DisabledMetrics, NotSupported];

    #[rstest]
    #[case::absent(None, [Y, Y, Y, Y, Y, Y])]
    #[case::update_succesful(Some("UpdateSuccesful"), [M, Y, Y, Y, Y, Y])]
    #[case::update_failure(Some("UpdateFailure"), [Y, M, N, N, Y, Y])]
    #[case::forward_successful(Some("ForwardSuccessful"), [Y, Y, M, Y, Y, Y])]
    #[case::forward_failure(Some("ForwardFailure"), [Y, Y, Y, M, Y, Y])]
    #[case::disabled_metrics(Some("DisabledMetrics"), [Y, Y, N, N, M, Y])]
    #[case::not_supported(Some("NotSupported"), [Y, Y, N, N, Y, M])]
    #[case::unknown_reason_never_blocks(Some("Deployed"), [Y, Y, Y, Y, Y, Y])]
    fn table_of_transitions(#[case] from: Option<&str>, #[case] row: [Cell; 6]) {
        let before = match from {
            Some(reason) => conditions(&[("MetricsCollectorStatus", reason, 1)]),
            None => ConditionSet::default(),
        };
        for (to, cell) in COLUMNS.into_iter().zip(row) {
            let decision = decide(&before, &report(to, "new message"), Vocabulary::Seed, at(9));
            let found = match &decision {
                Decision::Refused(_) => N,
                Decision::Unchanged => panic!("{from:?} to {to}: the message is new"),
                Decision::Write(after) => {
                    let condition = current(after, Component::Platform).unwrap();
                    assert_eq!((condition.message.as_str(), after.iter().count()), ("new message", 1));
                    assert_eq!(condition.reason, to.spelled(Vocabulary::Seed));
                    if condition.last_transition_time == at(9) { Y } else { M }
                }
            };
            assert_eq!(found, cell, "{from:?} to {to}");
        }
    }

    #[test]
    fn each_actor_writes_only_its_reasons() {
        for to in ComponentReason::ALL {
            for actor in [Actor::Operator, Actor::Collector] {
                let report = Report { actor, ..report(to, "") };
                let decision = decide(&ConditionSet::default(), &report, Vocabulary::Seed, at(9));
                let is_refused = matches!(decision, Decision::Refused(Denial::ReasonNotAllowed { .. }));
                assert_eq!(is_refused, actor != writer_of(to), "{actor} writes {to}");
            }
        }
    }

    #[test]
    fn the_same_report_again_changes_nothing() {
        let before = conditions(&[("MetricsCollectorStatus", "ForwardSuccessful", 1)]);
        let decision = decide(&before, &report(ForwardSuccessful, "message"), Vocabulary::Seed, at(9));
        assert_eq!(decision, Decision::Unchanged);
    }

    #[test]
    fn other_spelling_of_the_type_is_replaced_and_keeps_its_time() {
        let before =
            conditions(&[("MetricsCollector", "ForwardFailed", 1), ("Available", "ForwardSuccessful", 2)]);
        let decision = decide(&before, &report(ForwardFailure, "message"), Vocabulary::Seed, at(9));
        let after = conditions(&[
            ("Available", "ForwardSuccessful", 2),
            ("MetricsCollectorStatus", "ForwardFailure", 1),
        ]);
        assert_eq!(decision, Decision::Write(after));
    }

    #[rstest]
    #[case::failure_of_the_operator_stays(&[("MetricsCollectorStatus", "UpdateFailure", 1), ("MetricsCollector", "ForwardSuccessful", 2)], "UpdateFailure")]
    #[case::newer_report_decides(&[("MetricsCollectorStatus", "UpdateSuccesful", 1), ("MetricsCollector", "ForwardSuccessful", 2)], "ForwardSuccessful")]
    #[case::order_in_the_list_is_irrelevant(&[("MetricsCollector", "ForwardFailed", 3), ("MetricsCollectorStatus", "UpdateSuccesful", 1)], "ForwardFailed")]
    fn two_spellings_of_one_component_are_read_by_the_guard(
        #[case] list: &[(&str, &str, i64)],
        #[case] wanted: &str,
    ) {
        let set = conditions(list);
        assert_eq!(current(&set, Component::Platform).unwrap().reason.as_str(), wanted);
    }

    #[test]
    fn long_message_is_cut_at_a_character() {
        let long = "ä".repeat(4096);
        let Decision::Write(after) =
            decide(&ConditionSet::default(), &report(ForwardFailure, &long), Vocabulary::Seed, at(9))
        else {
            panic!("a new condition is written");
        };
        let message = &current(&after, Component::Platform).unwrap().message;
        assert!(message.len() <= MAX_MESSAGE_BYTES && message.ends_with("ä..."), "{} bytes", message.len());
    }
}
