//! Intervals, retry delays and timeouts of heartbeats. It is pure: randomness is passed in as `random`, any number. Waiting
//! is left to `reporter` and `instance`.

use std::time::Duration;

/// How often the period is read between heartbeats, so that a shortened period takes effect within this time.
pub(super) const PERIOD_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How often a write is attempted while it conflicts with other writers.
pub(super) const WRITE_ATTEMPTS: u32 = 5;

const MIN_REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
const INITIAL_CONFLICT_DELAY: Duration = Duration::from_millis(10);

/// The time from the start of one heartbeat to the start of the next: 90 to 100 % of the period, so that add-ons that
/// started together spread out and no heartbeat is late.
pub(super) fn heartbeat_interval(period: Duration, random: u16) -> Duration {
    subtract_jitter(period, random)
}

/// The delay before the next attempt after this many failures in a row. It doubles with each failure, and is at most the
/// period and at most [`PERIOD_CHECK_INTERVAL`].
pub(super) fn retry_delay(failures: u32, period: Duration, random: u16) -> Duration {
    subtract_jitter(exponential(INITIAL_RETRY_DELAY, failures).min(period).min(PERIOD_CHECK_INTERVAL), random)
}

/// The delay before the next attempt after this many conflicts in a row.
pub(super) fn conflict_delay(conflicts: u32, random: u16) -> Duration {
    exponential(INITIAL_CONFLICT_DELAY, conflicts).mul_f64(0.5 + 0.5 * fraction(random))
}

/// The timeout of one request: at most the period, because a response after the next heartbeat is useless.
pub(super) fn request_timeout(period: Duration) -> Duration {
    period.clamp(MIN_REQUEST_TIMEOUT, MAX_REQUEST_TIMEOUT)
}

/// Shortens a delay by up to a tenth.
fn subtract_jitter(delay: Duration, random: u16) -> Duration {
    delay.mul_f64(1.0 - 0.1 * fraction(random))
}

/// Maps a random number to the range 0 to 1.
fn fraction(random: u16) -> f64 {
    f64::from(random) / f64::from(u16::MAX)
}

/// Doubles a delay with each count after the first.
fn exponential(initial: Duration, count: u32) -> Duration {
    initial.saturating_mul(1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn retry_delay_doubles_up_to_the_period_and_a_minute() {
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
        for (failures, period, expected) in rows {
            let delay = retry_delay(failures, Duration::from_secs(period), 0);
            assert_eq!(delay, Duration::from_secs(expected), "failure {failures} at {period} s");
        }
    }

    #[test]
    fn conflict_delays_add_up_to_150_ms() {
        let total: Duration = (1..WRITE_ATTEMPTS).map(|conflicts| conflict_delay(conflicts, u16::MAX)).sum();
        assert_eq!(total, Duration::from_millis(10 + 20 + 40 + 80));
        assert_eq!(conflict_delay(1, 0), Duration::from_millis(5));
    }

    #[test]
    fn request_timeout_is_the_period_limited_to_1_to_5_seconds() {
        for (period, expected) in [(0, 1), (1, 1), (3, 3), (10, 5), (86_400, 5)] {
            let timeout = request_timeout(Duration::from_secs(period));
            assert_eq!(timeout, Duration::from_secs(expected), "{period} s");
        }
    }

    proptest! {
        #[test]
        fn heartbeat_interval_is_90_to_100_percent_of_the_period(
            millis in 0..86_400_000_u64, random in any::<u16>(),
        ) {
            let period = Duration::from_millis(millis);
            let interval = heartbeat_interval(period, random);
            prop_assert!(interval <= period);
            prop_assert!(interval >= period.mul_f64(0.9).saturating_sub(Duration::from_nanos(1)));
        }

        #[test]
        fn delays_do_not_overflow(failures in any::<u32>(), random in any::<u16>()) {
            prop_assert!(retry_delay(failures, SECOND, random) <= SECOND);
            let _ = conflict_delay(failures, random);
        }
    }
}
