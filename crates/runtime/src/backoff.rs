//! How long to leave an object alone after a failure: longer with each one in a row, bounded, and never for all
//! objects at the same moment.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// How waits grow.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub most: Duration,
}

impl Growth {
    /// What controllers use unless they know better.
    pub const USUAL: Self = Self { first: Duration::from_millis(500), most: Duration::from_secs(60) };

    /// The wait after so many failures in a row; `luck` from 0 to 1 takes up to a quarter off, so that objects that
    /// failed together do not come back together.
    pub fn wait(self, failures: u32, luck: f64) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.saturating_mul(doubled).min(self.most).mul_f64(1.0 - luck.clamp(0.0, 1.0) / 4.0)
    }
}

/// The failures in a row of each object. One that succeeds or goes is forgotten.
#[derive(Debug)]
pub struct Backoff<K> {
    growth: Growth,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K: Hash + Eq> Backoff<K> {
    /// For objects that have not failed yet.
    pub fn new(growth: Growth) -> Self {
        Self { growth, failures: Mutex::new(HashMap::new()) }
    }

    /// Notes a failure, and says how long to wait.
    pub fn failed(&self, key: K) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key).or_insert(0);
        *count = count.saturating_add(1);
        self.growth.wait(*count, rand::random())
    }

    /// Forgets the failures of an object.
    pub fn succeeded(&self, key: &K) {
        self.failures.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let growth = Growth { first: Duration::from_secs(1), most: Duration::from_secs(30) };
        let rows = [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (40, 30), (u32::MAX, 30)];
        for (failures, seconds) in rows {
            assert_eq!(growth.wait(failures, 0.0), Duration::from_secs(seconds), "{failures}");
        }
        assert_eq!(growth.wait(3, 1.0), Duration::from_secs(3));
    }

    #[test]
    fn a_success_begins_anew_and_objects_do_not_share() {
        let growth = Growth { first: Duration::from_secs(4), most: Duration::from_secs(64) };
        let backoff = Backoff::new(growth);
        let within = |wait: Duration, most: u64| {
            wait <= Duration::from_secs(most) && wait >= Duration::from_secs(most * 3 / 4)
        };
        assert!(within(backoff.failed("a"), 4));
        assert!(within(backoff.failed("a"), 8));
        assert!(within(backoff.failed("b"), 4));
        backoff.succeeded(&"a");
        assert!(within(backoff.failed("a"), 4));
    }
}
