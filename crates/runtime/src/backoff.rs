//! Exponential backoff per key, bounded and with jitter.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// How the delay between retries grows.
#[derive(Clone, Copy, Debug)]
pub struct BackoffPolicy {
    /// The delay after the first failure.
    pub initial: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl BackoffPolicy {
    /// The policy of controllers that have no reason to choose another.
    pub const DEFAULT: Self = Self { initial: Duration::from_millis(500), max: Duration::from_secs(60) };

    /// The delay after this many failures in a row. `jitter`, from 0 to 1, takes up to a quarter off, so that keys that
    /// failed together are not retried together.
    pub fn delay(self, failures: u32, jitter: f64) -> Duration {
        let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.initial.saturating_mul(factor).min(self.max).mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 4.0)
    }
}

/// The number of failures in a row of each key.
#[derive(Debug)]
pub(crate) struct Backoff<K> {
    policy: BackoffPolicy,
    failures: HashMap<K, u32>,
}

impl<K: Hash + Eq> Backoff<K> {
    /// A backoff in which no key has failed.
    pub(crate) fn new(policy: BackoffPolicy) -> Self {
        Self { policy, failures: HashMap::new() }
    }

    /// Counts a failure of a key and returns the delay before its retry.
    pub(crate) fn record_failure(&mut self, key: K) -> Duration {
        let count = self.failures.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        self.policy.delay(*count, rand::random())
    }

    /// Forgets the failures of a key: it succeeded, or its object was deleted.
    pub(crate) fn reset(&mut self, key: &K) {
        self.failures.remove(key);
    }

    #[cfg(test)]
    pub(crate) fn failures(&self, key: &K) -> u32 {
        self.failures.get(key).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_up_to_the_maximum() {
        let policy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
        let rows = [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (40, 30), (u32::MAX, 30)];
        for (failures, seconds) in rows {
            assert_eq!(policy.delay(failures, 0.0), Duration::from_secs(seconds), "{failures}");
        }
        assert_eq!(policy.delay(3, 1.0), Duration::from_secs(3));
    }

    #[test]
    fn failures_are_counted_per_key_until_reset() {
        let policy = BackoffPolicy { initial: Duration::from_secs(4), max: Duration::from_secs(64) };
        let mut backoff = Backoff::new(policy);
        let within = |delay: Duration, max: u64| {
            delay <= Duration::from_secs(max) && delay >= Duration::from_secs(max * 3 / 4)
        };
        assert!(within(backoff.record_failure("a"), 4));
        assert!(within(backoff.record_failure("a"), 8));
        assert!(within(backoff.record_failure("b"), 4));
        assert_eq!((backoff.failures(&"a"), backoff.failures(&"c")), (2, 0));
        backoff.reset(&"a");
        assert!(within(backoff.record_failure("a"), 4));
    }
}
