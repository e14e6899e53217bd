//! All required sources hold, at the same generation: the cases as little histories, then the laws.

use bellwether_conditions::fold::generation::{
    Answer, CurrentWhy, LastKnownWhy, Offer, Proviso, Report, Reports, Root, Snapshot,
};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

/// An object and all that is known about it.
struct Object {
    generation: i64,
    changed: i64,
    required: Vec<String>,
    reports: Reports<String>,
    current: Option<Answer>,
    last_known: Option<Answer>,
}

impl Object {
    fn requiring(sources: &str) -> Self {
        Self {
            generation: 0,
            changed: 0,
            required: sources.split_whitespace().map(str::to_owned).collect(),
            reports: Reports::default(),
            current: None,
            last_known: None,
        }
    }

    /// `change t0` is a user's change, `a g1 True t5` a report.
    fn apply(&mut self, step: &str) {
        let words: Vec<&str> = step.split_whitespace().collect();
        let number = |word: &str| word[1..].parse::<i64>().unwrap();
        let cause = match words[..] {
            ["change", time] => {
                self.generation += 1;
                self.changed = number(time);
                number(time)
            }
            [source, generation, holds, time] => {
                let report =
                    Report { generation: number(generation), holds: holds == "True", time: at(number(time)) };
                if self.reports.offer(source.to_owned(), report, self.generation) != Offer::Accepted {
                    return;
                }
                number(time)
            }
            _ => panic!("a step is `change tN` or `SOURCE gN True|False tN`, not {step:?}"),
        };
        let snapshot = Snapshot {
            generation: self.generation,
            changed: at(self.changed),
            required: &self.required,
            reports: &self.reports,
            cause: at(cause),
        };
        let current = snapshot.current(self.current.as_ref(), Proviso::Met).map(|root| root.answer);
        let last_known = snapshot.last_known(self.last_known.as_ref()).map(|root| root.answer);
        (self.current, self.last_known) = (current, last_known);
    }
}

/// `True@g1 5/9`: status, generation, updated/transitioned.
fn in_short(answer: Option<Answer>) -> String {
    let Some(answer) = answer else { return "-".to_owned() };
    let second = |time: jiff::Timestamp| time.duration_since(at(0)).as_secs();
    let status = if answer.holds { "True" } else { "False" };
    format!("{status}@g{} {}/{}", answer.generation, second(answer.updated), second(answer.transitioned))
}

#[rstest]
#[case::a_change_is_known_good_only_when_all_have_seen_it(
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
#[case::what_broke_stays_broken_at_its_generation_while_generations_mix(
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
#[case::an_old_but_common_generation_is_known_good(
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
#[case::a_failure_at_the_known_generation_counts_though_it_is_old(
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
#[case::failures_of_a_new_generation_say_nothing_of_the_known_one(
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
#[case::a_flip_is_dated_by_the_report_that_caused_it(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t70   | False@g1 70/0    | False@g1 0/0
    b g1 True t71   | True@g1 70/71    | True@g1 70/71
    b g1 False t90  | False@g1 70/90   | False@g1 70/90
"
)]
#[case::of_two_reports_at_one_time_the_later_arrival_counts(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | True@g1 5/5      | True@g1 5/5
    a g1 False t5   | False@g1 5/5     | False@g1 5/5
"
)]
#[case::an_answer_is_as_fresh_as_its_oldest_report(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | False@g1 5/0     | False@g1 0/0
    b g1 True t6    | True@g1 5/6      | True@g1 5/6
    a g1 True t1000 | True@g1 6/6      | True@g1 6/6
    b g1 True t1001 | True@g1 1000/6   | True@g1 1000/6
"
)]
#[case::a_late_report_never_dates_a_flip_before_the_last_one(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 True t50   | False@g1 50/0    | False@g1 0/0
    b g1 True t60   | True@g1 50/60    | True@g1 50/60
    a g1 False t55  | False@g1 55/60   | False@g1 55/60
"
)]
#[case::a_failure_waits_for_the_reports_still_missing(
    "a b",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g1 False t5   | False@g1 5/0     | False@g1 5/0
    b g1 True t6    | False@g1 5/0     | False@g1 5/0
    a g1 True t7    | True@g1 6/7      | True@g1 6/7
"
)]
#[case::reports_of_others_do_not_count(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    z g1 False t4   | False@g1 0/0     | False@g1 0/0
    a g1 True t5    | True@g1 5/5      | True@g1 5/5
    z g1 False t6   | True@g1 5/5      | True@g1 5/5
"
)]
#[case::a_report_for_the_future_does_not_count(
    "a",
    "
    change t0       | False@g1 0/0     | False@g1 0/0
    a g2 True t5    | False@g1 0/0     | False@g1 0/0
"
)]
#[case::where_nothing_is_required_nothing_is_said(
    "",
    "
    change t0       | -                | -
    a g1 True t5    | -                | -
"
)]
fn history(#[case] required: &str, #[case] steps: &str) {
    let mut object = Object::requiring(required);
    for line in steps.lines().filter(|line| !line.trim().is_empty()) {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        object.apply(columns[0]);
        assert_eq!(in_short(object.current), columns[1], "current, after {}", columns[0]);
        assert_eq!(in_short(object.last_known), columns[2], "last known, after {}", columns[0]);
    }
}

fn report(generation: i64, holds: bool, time: i64) -> Report {
    Report { generation, holds, time: at(time) }
}

#[rstest]
#[case::the_first(None, report(1, true, 5), Offer::Accepted)]
#[case::newer(Some(report(1, true, 5)), report(1, false, 6), Offer::Accepted)]
#[case::same_time(Some(report(1, true, 5)), report(1, false, 5), Offer::Accepted)]
#[case::newer_generation_looked_at_earlier(Some(report(1, true, 5)), report(2, true, 4), Offer::Accepted)]
#[case::older_time(Some(report(1, true, 5)), report(1, false, 4), Offer::OlderTime)]
#[case::older_generation(Some(report(2, true, 5)), report(1, false, 6), Offer::OlderGeneration)]
#[case::future_generation(None, report(3, true, 5), Offer::FutureGeneration)]
fn a_report_is_taken_unless_something_newer_is_known(
    #[case] held: Option<Report>,
    #[case] offered: Report,
    #[case] expected: Offer,
) {
    let mut reports: Reports<&str> = held.into_iter().map(|report| ("a", report)).collect();
    assert_eq!(reports.offer("a", offered, 2), expected);
    assert_eq!(reports.get(&"a").copied(), if expected == Offer::Accepted { Some(offered) } else { held });
}

const REQUIRED: [&str; 3] = ["c", "a", "b"];

fn snapshot<'a>(reports: &'a Reports<&'static str>, cause: i64) -> Snapshot<'a, &'static str> {
    Snapshot { generation: 3, changed: at(0), required: &REQUIRED, reports, cause: at(cause) }
}

fn answer(holds: bool, generation: i64) -> Answer {
    Answer { holds, generation, updated: at(1), transitioned: at(1) }
}

#[rstest]
#[case::all([report(3, true, 5); 3], Proviso::Met, CurrentWhy::AllHold)]
#[case::something_else_in_the_way([report(3, true, 5); 3], Proviso::Unmet, CurrentWhy::Withheld)]
#[case::one_fails_and_one_is_behind(
    [report(3, true, 5), report(3, false, 6), report(2, true, 7)],
    Proviso::Met,
    CurrentWhy::Lacking { lacking: vec![&"b", &"c"], holding: vec![&"a"] },
)]
fn the_current_answer_says_why(
    #[case] reports: [Report; 3],
    #[case] proviso: Proviso,
    #[case] why: CurrentWhy<'_, &'static str>,
) {
    let reports: Reports<_> = ["a", "b", "c"].into_iter().zip(reports).collect();
    let root = snapshot(&reports, 9).current(None, proviso).unwrap();
    assert_eq!(root.answer.holds, why == CurrentWhy::AllHold);
    assert_eq!(root.why, why);
}

#[test]
fn what_stood_in_the_way_is_gone_at_the_instant_given() {
    let reports: Reports<_> =
        [("a", report(3, true, 60)), ("b", report(3, true, 70)), ("c", report(3, true, 65))]
            .into_iter()
            .collect();
    let withheld = snapshot(&reports, 70).current(Some(&answer(false, 3)), Proviso::Unmet).unwrap().answer;
    assert_eq!(in_short(Some(withheld)), "False@g3 60/1");
    let free = snapshot(&reports, 80).current(Some(&withheld), Proviso::Met).unwrap().answer;
    assert_eq!(in_short(Some(free)), "True@g3 60/80");
}

#[rstest]
#[case::nobody_reported(&[], None, "False@g1 0/9", LastKnownWhy::Missing(vec![&"a", &"b", &"c"]))]
#[case::a_source_became_required(
    &[("a", report(2, true, 5)), ("b", report(2, true, 5))], Some(answer(true, 2)),
    "False@g2 1/9", LastKnownWhy::Missing(vec![&"c"]))]
#[case::one_fails_where_nothing_was_known(
    &[("a", report(2, true, 5)), ("b", report(3, false, 6)), ("c", report(3, true, 7))], None,
    "False@g3 6/9", LastKnownWhy::Failing(vec![&"b"]))]
#[case::mixed_where_nothing_was_known(
    &[("a", report(2, true, 5)), ("b", report(3, true, 6)), ("c", report(3, true, 7))], None,
    "False@g3 0/9", LastKnownWhy::MixedGenerations)]
#[case::all_behind_what_is_known(
    &[("a", report(1, true, 5)), ("b", report(1, true, 5)), ("c", report(1, true, 5))], Some(answer(false, 2)),
    "False@g2 1/1", LastKnownWhy::MixedGenerations)]
#[case::a_stored_report_of_the_future_is_missing(
    &[("a", report(3, true, 5)), ("b", report(4, true, 5)), ("c", report(3, true, 5))], None,
    "False@g3 0/9", LastKnownWhy::Missing(vec![&"b"]))]
fn the_last_known_answer_says_why(
    #[case] reports: &[(&'static str, Report)],
    #[case] previous: Option<Answer>,
    #[case] expected: &str,
    #[case] why: LastKnownWhy<'_, &'static str>,
) {
    let reports = reports.iter().copied().collect();
    let root = snapshot(&reports, 9).last_known(previous.as_ref()).unwrap();
    assert_eq!((in_short(Some(root.answer)).as_str(), root.why), (expected, why));
}

prop_compose! {
    fn any_report()(generation in 1i64..5, holds: bool, time in 1i64..20) -> Report {
        report(generation, holds, time)
    }
}

fn any_source() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("a"), Just("b"), Just("c"), Just("unasked")]
}

fn any_reports() -> impl Strategy<Value = Reports<&'static str>> {
    proptest::collection::vec((any_source(), any_report()), 0..6).prop_map(Reports::from_iter)
}

prop_compose! {
    fn any_answer()(holds: bool, generation in 1i64..4, updated in 0i64..20, transitioned in 0i64..20) -> Answer {
        Answer { holds, generation, updated: at(updated), transitioned: at(transitioned) }
    }
}

fn any_previous() -> impl Strategy<Value = Option<Answer>> {
    proptest::option::of(any_answer())
}

fn any_proviso() -> impl Strategy<Value = Proviso> {
    prop_oneof![Just(Proviso::Met), Just(Proviso::Unmet)]
}

fn of_required<'a>(reports: &'a Reports<&'static str>) -> impl Iterator<Item = Option<Report>> + 'a {
    REQUIRED.iter().map(|source| reports.get(source).copied().filter(|report| report.generation <= 3))
}

proptest! {
    #[test]
    fn the_answers_do_not_depend_on_the_order_of_arrival(
        (arrivals, shuffled, required) in proptest::collection::vec((any_source(), 1i64..5, any::<bool>()), 0..10)
            .prop_map(|list| list.into_iter().enumerate()
                .map(|(time, (source, generation, holds))| (source, report(generation, holds, time as i64)))
                .collect::<Vec<_>>())
            .prop_flat_map(|list| (Just(list.clone()), Just(list).prop_shuffle(), Just(REQUIRED).prop_shuffle())),
        previous in any_previous(),
        proviso in any_proviso(),
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
        prop_assert_eq!(one.current(previous.as_ref(), proviso), other.current(previous.as_ref(), proviso));
        prop_assert_eq!(one.last_known(previous.as_ref()), other.last_known(previous.as_ref()));
    }

    #[test]
    fn an_answer_folded_again_at_any_time_is_the_same_answer(
        reports in any_reports(), previous in any_previous(), proviso in any_proviso(), later in 0i64..40,
    ) {
        let current = snapshot(&reports, 9).current(previous.as_ref(), proviso).unwrap();
        prop_assert_eq!(snapshot(&reports, later).current(Some(&current.answer), proviso).unwrap(), current);
        let last_known = snapshot(&reports, 9).last_known(previous.as_ref()).unwrap();
        prop_assert_eq!(snapshot(&reports, later).last_known(Some(&last_known.answer)).unwrap(), last_known);
    }

    #[test]
    fn generations_and_transitions_never_move_backwards(
        reports in any_reports(), before in any_answer(), proviso in any_proviso(), cause in 0i64..20,
    ) {
        let current = snapshot(&reports, cause).current(Some(&before), proviso).unwrap().answer;
        let last_known = snapshot(&reports, cause).last_known(Some(&before)).unwrap().answer;
        for after in [current, last_known] {
            prop_assert!(after.generation >= before.generation);
            prop_assert!(after.transitioned >= before.transitioned);
            let flipped = after.holds != before.holds;
            let flip_time = if flipped { at(cause).max(before.transitioned) } else { before.transitioned };
            prop_assert_eq!(after.transitioned, flip_time);
        }
    }

    #[test]
    fn current_holds_exactly_when_all_hold_now(
        reports in any_reports(), previous in any_previous(), proviso in any_proviso(),
    ) {
        let all = of_required(&reports).all(|report| report.is_some_and(|it| it.holds && it.generation == 3));
        let Root { answer, .. } = snapshot(&reports, 9).current(previous.as_ref(), proviso).unwrap();
        prop_assert_eq!(answer.holds, all && proviso == Proviso::Met);
    }

    #[test]
    fn last_known_turns_true_only_by_all_at_one_generation_and_false_only_by_a_failure_at_its_own(
        reports in any_reports(), holds: bool, generation in 1i64..4,
    ) {
        let before = answer(holds, generation);
        let after = snapshot(&reports, 9).last_known(Some(&before)).unwrap().answer;
        let all_at = |wanted: i64| {
            of_required(&reports).all(|report| report.is_some_and(|it| it.holds && it.generation == wanted))
        };
        let common = (generation..=3).find(|wanted| all_at(*wanted));
        let missing = of_required(&reports).any(|report| report.is_none());
        let broken = of_required(&reports).flatten().any(|report| !report.holds && report.generation == generation);
        prop_assert_eq!(after.holds, if holds { !missing && !broken } else { common.is_some() });
        prop_assert_eq!(after.generation, common.unwrap_or(generation));
    }
}
