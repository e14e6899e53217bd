//! Silence is judged at the instant given, and changes the judgement exactly when announced.

use std::time::Duration;

use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

/// The heartbeat's rule: three periods of 10 s.
fn three_periods() -> Freshness {
    Freshness::of_period(Duration::from_secs(10), 3)
}

fn fresh(last: i64, until: i64) -> Judgement {
    Judgement::Fresh { last: at(last), until: at(until) }
}

fn stale(last: i64, since: i64) -> Judgement {
    Judgement::Stale { last: at(last), since: at(since) }
}

/// A beat with this stamp that was there when the observer came.
fn found(stamp: i64, seen: i64) -> Beat {
    Beat::observe(None, at(stamp), at(seen))
}

/// A beat with this stamp that arrived while the observer looked.
fn arrived(stamp: i64, seen: i64) -> Beat {
    Beat::observe(Some(found(stamp + 1, seen)), at(stamp), at(seen))
}

#[rstest]
#[case::just_heard(found(0, 0), 0, fresh(0, 30))]
#[case::a_second_before_the_limit(found(0, 0), 29, fresh(0, 30))]
#[case::at_the_limit(found(0, 0), 30, stale(0, 30))]
#[case::long_after(found(0, 0), 3600, stale(0, 30))]
#[case::an_old_stamp_found_is_judged_at_once(found(-3600, 0), 0, stale(-3600, -3570))]
#[case::a_recent_stamp_found_counts_from_the_stamp(found(-20, 0), 5, fresh(-20, 10))]
#[case::a_slow_clock_counts_by_arrival(arrived(-300, 0), 29, fresh(0, 30))]
#[case::a_slow_clock_falls_silent(arrived(-300, 0), 30, stale(0, 30))]
#[case::a_clock_a_little_fast_is_believed(arrived(10, 0), 39, fresh(10, 40))]
#[case::a_clock_too_fast_counts_by_arrival(arrived(11, 0), 30, stale(0, 30))]
#[case::a_stamp_of_the_far_future_found_counts_from_the_finding(found(2_000_000_000, 0), 30, stale(0, 30))]
#[case::a_future_that_has_come_changes_nothing(arrived(100, 0), 105, stale(0, 30))]
#[case::before_the_beat(found(0, 0), -5, fresh(0, 30))]
fn a_heartbeat_is_fresh_for_three_periods(#[case] beat: Beat, #[case] now: i64, #[case] expected: Judgement) {
    assert_eq!(three_periods().judge(Some(&beat), at(now)), expected);
}

#[test]
fn a_sender_never_heard_is_neither_fresh_nor_stale() {
    let judgement = three_periods().judge(None, at(0));
    assert_eq!((judgement, judgement.next_change()), (Judgement::Never, None));
}

#[rstest]
#[case::the_same_stamp_again_is_no_beat(0, 20, stale(0, 30))]
#[case::a_later_stamp_is_a_beat(20, 20, fresh(20, 50))]
#[case::an_earlier_stamp_is_a_beat_too(-60, 20, fresh(20, 50))]
fn any_change_of_the_stamp_is_a_beat(#[case] stamp: i64, #[case] seen: i64, #[case] expected: Judgement) {
    let beat = Beat::observe(Some(found(0, 0)), at(stamp), at(seen));
    assert_eq!(three_periods().judge(Some(&beat), at(35)), expected);
}

#[rstest]
#[case::exactly_at_the_limit_is_not_older(300, false)]
#[case::older(301, true)]
fn news_expire_when_older_than_the_limit(#[case] now: i64, #[case] is_stale: bool) {
    let rule = Freshness::within(Duration::from_secs(300));
    assert_eq!(rule.judge(Some(&Beat::witnessed(at(0))), at(now)).is_stale(), is_stale);
}

#[test]
fn a_longer_period_revives_a_silent_sender() {
    let minute = Freshness::of_period(Duration::from_secs(60), 3);
    assert_eq!(three_periods().judge(Some(&found(0, 0)), at(40)), stale(0, 30));
    assert_eq!(minute.judge(Some(&found(0, 0)), at(40)), fresh(0, 180));
}

#[test]
fn a_limit_beyond_time_never_ends() {
    let rule = Freshness::within(Duration::MAX);
    assert!(!rule.judge(Some(&Beat::witnessed(at(0))), at(2_000_000_000)).is_stale());
}

prop_compose! {
    fn any_rule()(
        limit in 0u64..40,
        lead in 0u64..40,
        boundary in prop_oneof![Just(Boundary::StaleAtLimit), Just(Boundary::FreshAtLimit)],
    ) -> Freshness {
        Freshness { limit: Duration::from_secs(limit), boundary, lead: Duration::from_secs(lead) }
    }
}

fn any_beat() -> impl Strategy<Value = Beat> {
    (any::<bool>(), -100i64..100, -50i64..50)
        .prop_map(|(found_it, stamp, seen)| if found_it { found(stamp, seen) } else { arrived(stamp, seen) })
}

proptest! {
    #[test]
    fn what_is_stale_stays_stale_until_a_beat(
        rule in any_rule(), beat in any_beat(), now in -200i64..200, later in 0i64..200,
    ) {
        let (before, after) = (rule.judge(Some(&beat), at(now)), rule.judge(Some(&beat), at(now + later)));
        if before.is_stale() {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn the_judgement_changes_exactly_when_announced(
        rule in any_rule(), beat in any_beat(), now in -200i64..200,
    ) {
        let judgement = rule.judge(Some(&beat), at(now));
        if let Some(change) = judgement.next_change() {
            let just_before = change - Duration::from_nanos(1);
            prop_assert!(change > at(now));
            prop_assert_eq!(rule.judge(Some(&beat), just_before), judgement);
            prop_assert!(rule.judge(Some(&beat), change).is_stale());
        } else {
            prop_assert_eq!(rule.judge(Some(&beat), at(now + 1_000_000)), judgement);
        }
    }

    #[test]
    fn a_beat_that_arrives_is_fresh_for_the_limit_whatever_its_clock_says(
        limit in 1u64..40, lead in 0u64..40, stamp in -1000i64..1000, seen in 0i64..10,
    ) {
        let rule = Freshness {
            limit: Duration::from_secs(limit),
            boundary: Boundary::StaleAtLimit,
            lead: Duration::from_secs(lead),
        };
        let until = rule.judge(Some(&arrived(stamp, seen)), at(seen)).next_change();
        prop_assert!(until.is_some_and(|until| until >= at(seen + limit as i64)));
        prop_assert!(until.is_some_and(|until| until <= at(seen + (lead + limit) as i64)));
    }
}
