//! When heartbeats become stale, also with wrong clocks of the senders.

use std::time::Duration;

use bellwether_conditions::freshness::{Beat, Boundary, Freshness, Judgement};
use proptest::prelude::*;
use rstest::rstest;

use crate::at;

/// The rule of the heartbeat checker: three periods of 10 s.
fn three_periods() -> Freshness {
    Freshness::of_period(Duration::from_secs(10), 3)
}

fn fresh(last: i64, until: i64) -> Judgement {
    Judgement::Fresh { last: at(last), until: at(until) }
}

fn stale(last: i64, since: i64) -> Judgement {
    Judgement::Stale { last: at(last), since: at(since) }
}

/// A heartbeat that existed when the observer started.
fn found(stamp: i64, seen: i64) -> Beat {
    Beat::observe(None, at(stamp), at(seen))
}

/// A heartbeat that arrived while the observer was running.
fn arrived(stamp: i64, seen: i64) -> Beat {
    Beat::observe(Some(found(stamp + 1, seen)), at(stamp), at(seen))
}

#[rstest]
#[case::just_received(found(0, 0), 0, fresh(0, 30))]
#[case::a_second_before_the_limit(found(0, 0), 29, fresh(0, 30))]
#[case::at_the_limit(found(0, 0), 30, stale(0, 30))]
#[case::long_after(found(0, 0), 3600, stale(0, 30))]
#[case::old_timestamp_at_startup_is_stale_at_once(found(-3600, 0), 0, stale(-3600, -3570))]
#[case::recent_timestamp_at_startup_counts_from_the_timestamp(found(-20, 0), 5, fresh(-20, 10))]
#[case::slow_clock_counts_from_the_receipt(arrived(-300, 0), 29, fresh(0, 30))]
#[case::slow_clock_becomes_stale(arrived(-300, 0), 30, stale(0, 30))]
#[case::slightly_fast_clock_counts_from_the_timestamp(arrived(10, 0), 39, fresh(10, 40))]
#[case::too_fast_clock_counts_from_the_receipt(arrived(11, 0), 30, stale(0, 30))]
#[case::far_future_timestamp_at_startup_counts_from_the_receipt(found(2_000_000_000, 0), 30, stale(0, 30))]
#[case::future_timestamp_that_has_passed_changes_nothing(arrived(100, 0), 105, stale(0, 30))]
#[case::before_the_heartbeat(found(0, 0), -5, fresh(0, 30))]
fn heartbeat_is_fresh_for_three_periods(
    #[case] heartbeat: Beat,
    #[case] now: i64,
    #[case] expected: Judgement,
) {
    assert_eq!(three_periods().judge(Some(&heartbeat), at(now)), expected);
}

#[test]
fn sender_without_heartbeat_is_neither_fresh_nor_stale() {
    let judgement = three_periods().judge(None, at(0));
    assert_eq!((judgement, judgement.next_change()), (Judgement::Never, None));
}

#[rstest]
#[case::same_timestamp_is_not_a_heartbeat(0, 20, stale(0, 30))]
#[case::later_timestamp_is_a_heartbeat(20, 20, fresh(20, 50))]
#[case::earlier_timestamp_is_a_heartbeat(-60, 20, fresh(20, 50))]
fn any_change_of_the_timestamp_is_a_heartbeat(
    #[case] stamp: i64,
    #[case] seen: i64,
    #[case] expected: Judgement,
) {
    let heartbeat = Beat::observe(Some(found(0, 0)), at(stamp), at(seen));
    assert_eq!(three_periods().judge(Some(&heartbeat), at(35)), expected);
}

#[rstest]
#[case::exactly_at_the_limit(300, false)]
#[case::older(301, true)]
fn report_is_stale_if_older_than_the_limit(#[case] now: i64, #[case] is_stale: bool) {
    let rule = Freshness::within(Duration::from_secs(300));
    assert_eq!(rule.judge(Some(&Beat::witnessed(at(0))), at(now)).is_stale(), is_stale);
}

#[test]
fn longer_period_makes_a_stale_sender_fresh() {
    let minute = Freshness::of_period(Duration::from_secs(60), 3);
    assert_eq!(three_periods().judge(Some(&found(0, 0)), at(40)), stale(0, 30));
    assert_eq!(minute.judge(Some(&found(0, 0)), at(40)), fresh(0, 180));
}

#[test]
fn maximum_limit_does_not_overflow() {
    let rule = Freshness::within(Duration::MAX);
    assert!(!rule.judge(Some(&Beat::witnessed(at(0))), at(2_000_000_000)).is_stale());
}

prop_compose! {
    fn any_rule()(
        limit in 0u64..40,
        lead in 0u64..40,
        boundary in prop_oneof![Just(Boundary::StaleAtLimit), Just(Boundary::FreshAtLimit)],
    ) -> Freshness {
        Freshness { limit: Duration::from_secs(limit), boundary, max_clock_lead: Duration::from_secs(lead) }
    }
}

fn any_heartbeat() -> impl Strategy<Value = Beat> {
    (any::<bool>(), -100i64..100, -50i64..50)
        .prop_map(|(is_found, stamp, seen)| if is_found { found(stamp, seen) } else { arrived(stamp, seen) })
}

proptest! {
    #[test]
    fn stale_sender_stays_stale_without_a_heartbeat(
        rule in any_rule(), heartbeat in any_heartbeat(), now in -200i64..200, later in 0i64..200,
    ) {
        let (before, after) = (rule.judge(Some(&heartbeat), at(now)), rule.judge(Some(&heartbeat), at(now + later)));
        if before.is_stale() {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn judgement_changes_exactly_at_next_change(
        rule in any_rule(), heartbeat in any_heartbeat(), now in -200i64..200,
    ) {
        let judgement = rule.judge(Some(&heartbeat), at(now));
        if let Some(change) = judgement.next_change() {
            let just_before = change - Duration::from_nanos(1);
            prop_assert!(change > at(now));
            prop_assert_eq!(rule.judge(Some(&heartbeat), just_before), judgement);
            prop_assert!(rule.judge(Some(&heartbeat), change).is_stale());
        } else {
            prop_assert_eq!(rule.judge(Some(&heartbeat), at(now + 1_000_000)), judgement);
        }
    }

    #[test]
    fn received_heartbeat_is_fresh_for_the_limit_with_any_clock(
        limit in 1u64..40, lead in 0u64..40, stamp in -1000i64..1000, seen in 0i64..10,
    ) {
        let rule = Freshness {
            limit: Duration::from_secs(limit),
            boundary: Boundary::StaleAtLimit,
            max_clock_lead: Duration::from_secs(lead),
        };
        let until = rule.judge(Some(&arrived(stamp, seen)), at(seen)).next_change();
        prop_assert!(until.is_some_and(|until| until >= at(seen + limit as i64)));
        prop_assert!(until.is_some_and(|until| until <= at(seen + (lead + limit) as i64)));
    }
}
