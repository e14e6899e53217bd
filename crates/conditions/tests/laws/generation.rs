//! Combining reports about generations: histories of changes and reports, then properties.

use bellwether_conditions::fold::generation::{
    CurrentCause, Evaluation, FoldedStatus, LastKnownCause, OfferResult, Precondition, Report, Reports,
    Snapshot,
};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

/// An object with its reports and results.
struct Object {
    generation: i64,
    changed_at: i64,
    required: Vec<String>,
    reports: Reports<String>,
    current: Option<FoldedStatus>,
    last_known: Option<FoldedStatus>,
}

impl Object {
    fn requiring(sources: &str) -> Self {
        Self {
            generation: 0,
            changed_at: 0,
            required: sources.split_whitespace().map(str::to_owned).collect(),
            reports: Reports::default(),
            current: None,
            last_known: None,
        }
    }

    /// Applies one step: `change t0` is a change of the object, `a g1 True t5` is a report of source `a`.
    fn apply(&mut self, step: &str) {
        let fields: Vec<&str> = step.split_whitespace().collect();
        let number = |field: &str| field[1..].parse::<i64>().unwrap();
        let trigger_time = match fields[..] {
            ["change", time] => {
                self.generation += 1;
                self.changed_at = number(time);
                number(time)
            }
            [source, generation, holds, time] => {
                let report =
                    Report { generation: number(generation), holds: holds == "True", time: at(number(time)) };
                if self.reports.offer(source.to_owned(), report, self.generation) != OfferResult::Accepted {
                    return;
                }
                number(time)
            }
            _ => panic!("a step is `change tN` or `SOURCE gN True|False tN`, not {step:?}"),
        };
        let snapshot = Snapshot {
            generation: self.generation,
            changed_at: at(self.changed_at),
            required: &self.required,
            reports: &self.reports,
            trigger_time: at(trigger_time),
        };
        let current =
            snapshot.current(self.current.as_ref(), Precondition::Met).map(|evaluation| evaluation.status);
        let last_known = snapshot.last_known(self.last_known.as_ref()).map(|evaluation| evaluation.status);
        (self.current, self.last_known) = (current, last_known);
    }
}

/// Formats as `True@g1 5/9`: status, generation, updated/transitioned.
fn format_status(status: Option<FoldedStatus>) -> String {
    let Some(folded) = status else { return "-".to_owned() };
    let second = |time: jiff::Timestamp| time.duration_since(at(0)).as_secs();
    let status = if folded.holds { "True" } else { "False" };
    format!("{status}@g{} {}/{}", folded.generation, second(folded.updated), second(folded.transitioned))
}

#[rstest]
#[case::new_generation_is_known_good_after_all_reports(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t9    | True@g1 5/9      | True@g1 5/9
    change t100     | False@g2 100/100 | True@g1 5/9
    a g2 True t105  | False@g2 105/100 | True@g1 5/9
    b g2 False t106 | False@g2 105/100 | True@g1 5/9
    b g2 True t120  | True@g2 105/120  | True@g2 105/9
"
)]
#[case::failed_generation_stays_failed_while_reports_are_mixed(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t6    | True@g1 5/6      | True@g1 5/6
    a g1 False t20  | False@g1 6/20    | False@g1 6/20
    change t30      | False@g2 30/20   | False@g1 6/20
    a g2 True t40   | False@g2 40/20   | False@g1 6/20
    b g2 True t45   | True@g2 40/45    | True@g2 40/45
"
)]
#[case::common_generation_is_known_good_even_if_old(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    change t1       | False@g2 1/0     | False@g1 0/0
    change t2       | False@g3 2/0     | False@g1 0/0
    a g2 True t5    | False@g3 2/0     | False@g1 0/0
    b g2 True t6    | False@g3 2/0     | True@g2 5/6
    b g1 True t7    | False@g3 2/0     | True@g2 5/6
"
)]
#[case::failure_at_the_known_generation_counts_even_if_old(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t6    | True@g1 5/6      | True@g1 5/6
    change t50      | False@g2 50/50   | True@g1 5/6
    a g2 False t60  | False@g2 60/50   | True@g1 5/6
    b g1 False t61  | False@g2 60/50   | False@g1 61/61
"
)]
#[case::failures_at_a_new_generation_do_not_affect_the_known_one(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t6    | True@g1 5/6      | True@g1 5/6
    change t50      | False@g2 50/50   | True@g1 5/6
    a g2 False t60  | False@g2 60/50   | True@g1 5/6
    b g2 False t70  | False@g2 60/50   | True@g1 5/6
"
)]
#[case::transition_time_is_that_of_the_triggering_report(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t70   | False@g1 70/0    | False@g1 0/0
    b g1 True t71   | True@g1 70/71    | True@g1 70/71
    b g1 False t90  | False@g1 70/90   | False@g1 70/90
"
)]
#[case::later_arrival_wins_at_equal_times(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | True@g1 5/5      | True@g1 5/5
    a g1 False t5   | False@g1 5/5     | False@g1 5/5
"
)]
#[case::updated_is_the_time_of_the_oldest_report(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t6    | True@g1 5/6      | True@g1 5/6
    a g1 True t1000 | True@g1 6/6      | True@g1 6/6
    b g1 True t1001 | True@g1 1000/6   | True@g1 1000/6
"
)]
#[case::transition_time_never_decreases(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t50   | False@g1 50/0    | False@g1 0/0
    b g1 True t60   | True@g1 50/60    | True@g1 50/60
    a g1 False t55  | False@g1 55/60   | False@g1 55/60
"
)]
#[case::failure_with_missing_reports(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 False t5   | False@g1 5/0     | False@g1 5/0
    b g1 True t6    | False@g1 5/0     | False@g1 5/0
    a g1 True t7    | True@g1 6/7      | True@g1 6/7
"
)]
#[case::reports_of_other_sources_are_ignored(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    z g1 False t4   | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | True@g1 5/5      | True@g1 5/5
    z g1 False t6   | True@g1 5/5      | True@g1 5/5
"
)]
#[case::report_about_a_future_generation_is_ignored(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g2 True t5    | False@g1 0/0     | False@g1 0/0
"
)]
#[case::no_result_without_required_sources(
    "",
    "
    change t0       | -                | -
    a g1 True t5    | -                | -
"
)]
fn results_after_a_history(#[case] required: &str, #[case] steps: &str) {
    let mut object = Object::requiring(required);
    for line in steps.lines().filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        object.apply(columns[0]);
        assert_eq!(format_status(object.current), columns[1], "current, after {}", columns[0]);
        assert_eq!(format_status(object.last_known), columns[2], "last known, after {}", columns[0]);
    }
}

fn report(generation: i64, holds: bool, time: i64) -> Report {
    Report { generation, holds, time: at(time) }
}

#[rstest]
#[case::first_report(None, report(1, true, 5), OfferResult::Accepted)]
#[case::newer(Some(report(1, true, 5)), report(1, false, 6), OfferResult::Accepted)]
#[case::same_time(Some(report(1, true, 5)), report(1, false, 5), OfferResult::Accepted)]
#[case::newer_generation_with_an_earlier_time(
    Some(report(1, true, 5)),
    report(2, true, 4),
    OfferResult::Accepted
)]
#[case::older_time(Some(report(1, true, 5)), report(1, false, 4), OfferResult::OlderTime)]
#[case::older_generation(Some(report(2, true, 5)), report(1, false, 6), OfferResult::OlderGeneration)]
#[case::future_generation(None, report(3, true, 5), OfferResult::FutureGeneration)]
fn report_is_accepted_unless_a_newer_one_exists(
    #[case] existing: Option<Report>,
    #[case] offered: Report,
    #[case] expected: OfferResult,
) {
    let mut reports: Reports<&str> = existing.into_iter().map(|report| ("a", report)).collect();
    assert_eq!(reports.offer("a", offered, 2), expected);
    assert_eq!(
        reports.get(&"a").copied(),
        if expected == OfferResult::Accepted { Some(offered) } else { existing }
    );
}

const REQUIRED: [&str; 3] = ["c", "a", "b"];

fn snapshot<'a>(reports: &'a Reports<&'static str>, trigger_time: i64) -> Snapshot<'a, &'static str> {
    Snapshot {
        generation: 3,
        changed_at: at(0),
        required: &REQUIRED,
        reports,
        trigger_time: at(trigger_time),
    }
}

fn folded_status(holds: bool, generation: i64) -> FoldedStatus {
    FoldedStatus { holds, generation, updated: at(1), transitioned: at(1) }
}

#[rstest]
#[case::all_hold([report(3, true, 5); 3], Precondition::Met, CurrentCause::AllHold)]
#[case::precondition_unmet([report(3, true, 5); 3], Precondition::Unmet, CurrentCause::PreconditionUnmet)]
#[case::one_fails_and_one_is_behind(
    [report(3, true, 5), report(3, false, 6), report(2, true, 7)],
    Precondition::Met,
    CurrentCause::NotAllHold { not_holding: vec![&"b", &"c"], holding: vec![&"a"] },
)]
fn current_result_has_a_cause(
    #[case] reports: [Report; 3],
    #[case] precondition: Precondition,
    #[case] cause: CurrentCause<'_, &'static str>,
) {
    let reports: Reports<_> = ["a", "b", "c"].into_iter().zip(reports).collect();
    let evaluation = snapshot(&reports, 9).current(None, precondition).unwrap();
    assert_eq!(evaluation.status.holds, cause == CurrentCause::AllHold);
    assert_eq!(evaluation.cause, cause);
}

#[test]
fn met_precondition_is_a_transition_at_the_trigger_time() {
    let reports: Reports<_> =
        [("a", report(3, true, 60)), ("b", report(3, true, 70)), ("c", report(3, true, 65))]
            .into_iter()
            .collect();
    let unmet =
        snapshot(&reports, 70).current(Some(&folded_status(false, 3)), Precondition::Unmet).unwrap().status;
    assert_eq!(format_status(Some(unmet)), "False@g3 60/1");
    let met = snapshot(&reports, 80).current(Some(&unmet), Precondition::Met).unwrap().status;
    assert_eq!(format_status(Some(met)), "True@g3 60/80");
}

#[rstest]
#[case::no_reports(&[], None, "False@g1 0/9", LastKnownCause::Missing(vec![&"a", &"b", &"c"]))]
#[case::newly_required_source(
    &[("a", report(2, true, 5)), ("b", report(2, true, 5))], Some(folded_status(true, 2)),
    "False@g2 1/9", LastKnownCause::Missing(vec![&"c"]))]
#[case::one_fails_without_a_previous_result(
    &[("a", report(2, true, 5)), ("b", report(3, false, 6)), ("c", report(3, true, 7))], None,
    "False@g3 6/9", LastKnownCause::Failing(vec![&"b"]))]
#[case::mixed_generations_without_a_previous_result(
    &[("a", report(2, true, 5)), ("b", report(3, true, 6)), ("c", report(3, true, 7))], None,
    "False@g3 0/9", LastKnownCause::MixedGenerations)]
#[case::all_reports_older_than_the_result(
    &[("a", report(1, true, 5)), ("b", report(1, true, 5)), ("c", report(1, true, 5))], Some(folded_status(false, 2)),
    "False@g2 1/1", LastKnownCause::MixedGenerations)]
#[case::stored_report_about_a_future_generation_is_ignored(
    &[("a", report(3, true, 5)), ("b", report(4, true, 5)), ("c", report(3, true, 5))], None,
    "False@g3 0/9", LastKnownCause::Missing(vec![&"b"]))]
fn last_known_result_has_a_cause(
    #[case] reports: &[(&'static str, Report)],
    #[case] previous: Option<FoldedStatus>,
    #[case] expected: &str,
    #[case] cause: LastKnownCause<'_, &'static str>,
) {
    let reports = reports.iter().copied().collect();
    let evaluation = snapshot(&reports, 9).last_known(previous.as_ref()).unwrap();
    assert_eq!((format_status(Some(evaluation.status)).as_str(), evaluation.cause), (expected, cause));
}

prop_compose! {
    fn any_report()(generation in 1i64..5, holds: bool, time in 1i64..20) -> Report {
        report(generation, holds, time)
    }
}

fn any_source() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("not-required")]
}

fn any_reports() -> impl Strategy<Value = Reports<&'static str>> {
    proptest::collection::vec((any_source(), any_report()), 0..6).prop_map(Reports::from_iter)
}

prop_compose! {
    fn any_folded_status()(holds: bool, generation in 1i64..4, updated in 0i64..20, transitioned in 0i64..20) -> FoldedStatus {
        FoldedStatus { holds, generation, updated: at(updated), transitioned: at(transitioned) }
    }
}

fn any_previous() -> impl Strategy<Value = Option<FoldedStatus>> {
    proptest::option::of(any_folded_status())
}

fn any_precondition() -> impl Strategy<Value = Precondition> {
    prop_oneof![Just(Precondition::Met), Just(Precondition::Unmet)]
}

fn required_reports<'a>(reports: &'a Reports<&'static str>) -> impl Iterator<Item = Option<Report>> + 'a {
    REQUIRED.iter().map(|source| reports.get(source).copied().filter(|report| report.generation <= 3))
}

proptest! {
    #[test]
    fn results_do_not_depend_on_the_order_of_arrival(
        (arrivals, shuffled, required) in proptest::collection::vec((any_source(), 1i64..5, any::<bool>()), 0..10)
            .prop_map(|list| list.into_iter().enumerate()
                .map(|(time, (source, generation, holds))| (source, report(generation, holds, time as i64)))
                .collect::<Vec<_>>())
            .prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle(), Just(REQUIRED).prop_shuffle())),
        previous in any_previous(),
        precondition in any_precondition(),
    ) {
        let arrive = |list: Vec<(&'static str, Report)>| {
            let mut reports = Reports::default();
            for (source, report) in list {
                let _ = reports.offer(source, report, 3);
            }
            reports
        };
        let (one, other) = (arrive(arrivals), arrive(shuffled));
        let (one, other) = (snapshot(&one, 9), Snapshot { required: &required, ..snapshot(&other, 9) });
        prop_assert_eq!(one.current(previous.as_ref(), precondition), other.current(previous.as_ref(), precondition));
        prop_assert_eq!(one.last_known(previous.as_ref()), other.last_known(previous.as_ref()));
    }

    #[test]
    fn result_computed_again_is_unchanged(
        reports in any_reports(), previous in any_previous(), precondition in any_precondition(), later in 0i64..40,
    ) {
        let current = snapshot(&reports, 9).current(previous.as_ref(), precondition).unwrap();
        prop_assert_eq!(snapshot(&reports, later).current(Some(&current.status), precondition).unwrap(), current);
        let last_known = snapshot(&reports, 9).last_known(previous.as_ref()).unwrap();
        prop_assert_eq!(snapshot(&reports, later).last_known(Some(&last_known.status)).unwrap(), last_known);
    }

    #[test]
    fn generation_and_transition_time_never_decrease(
        reports in any_reports(), before in any_folded_status(), precondition in any_precondition(), trigger_time in 0i64..20,
    ) {
        let current = snapshot(&reports, trigger_time).current(Some(&before), precondition).unwrap().status;
        let last_known = snapshot(&reports, trigger_time).last_known(Some(&before)).unwrap().status;
        for after in [current, last_known] {
            prop_assert!(after.generation >= before.generation);
            prop_assert!(after.transitioned >= before.transitioned);
            let changed = after.holds != before.holds;
            let expected = if changed { at(trigger_time).max(before.transitioned) } else { before.transitioned };
            prop_assert_eq!(after.transitioned, expected);
        }
    }

    #[test]
    fn current_holds_if_and_only_if_all_sources_hold_now(
        reports in any_reports(), previous in any_previous(), precondition in any_precondition(),
    ) {
        let all = required_reports(&reports).all(|report| report.is_some_and(|it| it.holds && it.generation == 3));
        let Evaluation { status, .. } = snapshot(&reports, 9).current(previous.as_ref(), precondition).unwrap();
        prop_assert_eq!(status.holds, all && precondition == Precondition::Met);
    }

    #[test]
    fn last_known_becomes_true_by_a_common_generation_and_false_by_a_failure_at_its_own(
        reports in any_reports(), holds: bool, generation in 1i64..4,
    ) {
        let before = folded_status(holds, generation);
        let after = snapshot(&reports, 9).last_known(Some(&before)).unwrap().status;
        let all_at = |wanted: i64| {
            required_reports(&reports).all(|report| report.is_some_and(|it| it.holds && it.generation == wanted))
        };
        let common = (generation..=3).find(|wanted| all_at(*wanted));
        let missing = required_reports(&reports).any(|report| report.is_none());
        let has_failed = required_reports(&reports).flatten().any(|report| !report.holds && report.generation == generation);
        prop_assert_eq!(after.holds, if holds { !missing && !has_failed } else { common.is_some() });
        prop_assert_eq!(after.generation, common.unwrap_or(generation));
    }
}
