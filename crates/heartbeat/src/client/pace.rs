//! When to beat, and when to try again. Pure: chance is handed in as a draw, any number.

use std::time::Duration;

/// A shortened period is noticed within this, however long the period was.
pub(super) const LOOK: Duration = Duration::from_secs(60);
/// How often a write is tried while others write too.
pub(super) const TRIES: u32 = 5;

const SHORTEST_LIMIT: Duration = Duration::from_secs(1);
const LONGEST_LIMIT: Duration = Duration::from_secs(5);
const FIRST_RETRY: Duration = Duration::from_secs(1);
const FIRST_CONFLICT_WAIT: Duration = Duration::from_millis(10);

/// From the beginning of one beat to that of the next: up to a tenth early, so that add-ons that started together do
/// not stay together, and never late.
pub(super) fn interval(period: Duration, draw: u16) -> Duration {
    spread(period, draw)
}

/// From a failure, the first, the second, …, to the next try: soon, then later and later, but within the period and
/// within the time in which a change of the period is noticed.
pub(super) fn retry(failures: u32, period: Duration, draw: u16) -> Duration {
    spread(doubled(FIRST_RETRY, failures).min(period).min(LOOK), draw)
}

/// From a write that somebody else was faster than, the first, the second, …, to the next try.
pub(super) fn after_conflict(conflicts: u32, draw: u16) -> Duration {
    doubled(FIRST_CONFLICT_WAIT, conflicts).mul_f64(0.5 + 0.5 * share(draw))
}

/// How long one request may take: an answer that is later than the next beat is of no use.
pub(super) fn limit(period: Duration) -> Duration {
    period.clamp(SHORTEST_LIMIT, LONGEST_LIMIT)
}

fn spread(longest: Duration, draw: u16) -> Duration {
    longest.mul_f64(1.0 - 0.1 * share(draw))
}

/// From 0 to 1.
fn share(draw: u16) -> f64 {
    f64::from(draw) / f64::from(u16::MAX)
}

fn doubled(first: Duration, count: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_retry_comes_after_1_2_4_seconds_and_so_on_within_the_period_and_a_minute() {
        let rows: [(u32, u64, u64); 9] = [
            (1, 10, 1),
            (2, 10, 2),
            (3, 10, 4),
            (4, 10, 8),
            (5, 10, 10),
            (1, 1, 1),
            (9, 1, 1),
            (33, 86_400, 60),
            (u32::MAX, 86_400, 60),
        ];
        for (failures, period, wanted) in rows {
            let wait = retry(failures, Duration::from_secs(period), 0);
            assert_eq!(wait, Duration::from_secs(wanted), "failure {failures} at {period} s");
        }
    }

    #[test]
    fn waiting_for_other_writers_is_short() {
        let total: Duration = (1..TRIES).map(|conflicts| after_conflict(conflicts, u16::MAX)).sum();
        assert_eq!(total, Duration::from_millis(10 + 20 + 40 + 80));
        assert_eq!(after_conflict(1, 0), Duration::from_millis(5));
    }

    #[test]
    fn a_request_takes_no_longer_than_a_short_period() {
        for (period, wanted) in [(0, 1), (1, 1), (3, 3), (10, 5), (86_400, 5)] {
            assert_eq!(limit(Duration::from_secs(period)), Duration::from_secs(wanted), "{period} s");
        }
    }

    proptest! {
        #[test]
        fn a_beat_is_never_late_and_at_most_a_tenth_early(millis in 0..86_400_000_u64, draw in any::<u16>()) {
            let period = Duration::from_millis(millis);
            let interval = interval(period, draw);
            prop_assert!(interval <= period);
            prop_assert!(interval >= period.mul_f64(0.9).saturating_sub(Duration::from_nanos(1)));
        }

        #[test]
        fn no_count_is_too_high(failures in any::<u32>(), draw in any::<u16>()) {
            prop_assert!(retry(failures, SECOND, draw) <= SECOND);
            let _ = after_conflict(failures, draw);
        }
    }
}
