//! Combining reports by severity, in any order of arrival.

use std::fmt;

use bellwether_conditions::fold::severity::{Fold, Report};
use bellwether_conditions::{ConditionType, Desired, Reason, Status};
use proptest::prelude::*;
use rstest::rstest;

/// Severities, from the best to the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Forwarding,
    Updated,
    UpdateFailed,
    ForwardFailed,
}
use State::{ForwardFailed, Forwarding, UpdateFailed, Updated};

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

type Reports = Fold<&'static str, State>;

fn fold(reports: &[(&'static str, State, &str)]) -> Reports {
    reports.iter().map(|&(source, state, message)| (source, Report::new(state, message))).collect()
}

#[rstest]
#[case(Forwarding, Forwarding, Forwarding)]
#[case(Forwarding, Updated, Updated)]
#[case(Forwarding, UpdateFailed, UpdateFailed)]
#[case(Forwarding, ForwardFailed, ForwardFailed)]
#[case(Updated, Updated, Updated)]
#[case(Updated, UpdateFailed, UpdateFailed)]
#[case(Updated, ForwardFailed, ForwardFailed)]
#[case(UpdateFailed, UpdateFailed, UpdateFailed)]
#[case(UpdateFailed, ForwardFailed, ForwardFailed)]
#[case(ForwardFailed, ForwardFailed, ForwardFailed)]
fn worse_of_two_reports_wins_in_any_order(#[case] one: State, #[case] other: State, #[case] worst: State) {
    for reports in [[("a", one, ""), ("b", other, "")], [("a", other, ""), ("b", one, "")]] {
        assert_eq!(fold(&reports).worst().unwrap().1.severity, worst);
    }
}

#[test]
fn first_of_equally_severe_sources_is_returned() {
    let reports = fold(&[("b", UpdateFailed, "z"), ("a", UpdateFailed, "y"), ("c", Updated, "")]);
    assert_eq!(reports.worst(), Some((&"a", &Report::new(UpdateFailed, "y"))));
}

#[test]
fn no_reports_result_in_no_condition() {
    assert_eq!(Reports::default().worst(), None);
    assert_eq!(
        Reports::default().to_condition(ConditionType::constant("Degraded"), |_| unreachable!()),
        None
    );
}

#[test]
fn condition_has_the_worst_severity_and_describes_all_reports() {
    let reports = fold(&[("uwl", UpdateFailed, "quota"), ("platform", Forwarding, "")]);
    let condition = reports.to_condition(ConditionType::constant("Degraded"), |worst| {
        (Status::True, Reason::as_read(worst.to_string()))
    });
    let expected = "platform: Forwarding; uwl: UpdateFailed: quota";
    assert_eq!(
        condition,
        Some(Desired::new(
            ConditionType::constant("Degraded"),
            Status::True,
            Reason::constant("UpdateFailed"),
            expected
        ))
    );
}

fn any_reports() -> impl Strategy<Value = Vec<(&'static str, Report<State>)>> {
    let source = prop_oneof![Just("a"), Just("b"), Just("c")];
    let state = prop_oneof![Just(Forwarding), Just(Updated), Just(UpdateFailed), Just(ForwardFailed)];
    proptest::collection::vec(
        (source, (state, "[xyz]?").prop_map(|(state, text)| Report::new(state, text))),
        0..6,
    )
}

fn any_fold() -> impl Strategy<Value = Reports> {
    any_reports().prop_map(Reports::from_iter)
}

proptest! {
    #[test]
    fn joining_is_associative(a in any_fold(), b in any_fold(), c in any_fold()) {
        prop_assert_eq!(a.clone().join(b.clone()).join(c.clone()), a.join(b.join(c)));
    }

    #[test]
    fn joining_is_commutative(a in any_fold(), b in any_fold()) {
        prop_assert_eq!(a.clone().join(b.clone()), b.join(a));
    }

    #[test]
    fn joining_is_idempotent(a in any_fold()) {
        prop_assert_eq!(a.clone().join(a.clone()), a);
    }

    #[test]
    fn empty_fold_is_the_identity(a in any_fold()) {
        prop_assert_eq!(a.clone().join(Reports::default()), a.clone());
        prop_assert_eq!(Reports::default().join(a.clone()), a);
    }

    #[test]
    fn description_does_not_depend_on_the_order(
        (reports, shuffled) in any_reports().prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle())),
    ) {
        let (one, other) = (Reports::from_iter(reports), Reports::from_iter(shuffled));
        prop_assert_eq!(one.describe(), other.describe());
        prop_assert_eq!(one.worst(), other.worst());
    }

    #[test]
    fn worst_report_has_the_maximum_severity(reports in any_reports()) {
        let worst = Reports::from_iter(reports.clone()).worst().map(|(_, report)| report.severity);
        prop_assert_eq!(worst, reports.into_iter().map(|(_, report)| report.severity).max());
    }
}
