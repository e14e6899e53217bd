//! Clocks that are passed in, so that tests can advance an hour without waiting. Clocks provide timestamps and durations;
//! the order of events comes from revisions.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A source of timestamps.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Timestamp;
}

/// Truncates a timestamp to whole seconds, as Kubernetes stores it. Apply it before comparing with a stored timestamp.
pub fn whole_seconds(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_second()).unwrap_or(instant)
}

/// The timestamp a duration after another; the last possible timestamp if it would be later than that.
pub fn later(since: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    since.saturating_add(by).unwrap_or(Timestamp::MAX)
}

/// The system clock. It steps when somebody sets it.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A monotonic clock: its start time plus the time that has passed on tokio's clock. Tests pause and advance it with
/// tokio's clock.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began: Timestamp,
    since: Instant,
}

impl SteadyClock {
    /// A clock that starts now at the given time. Where tokio's clock is paused, call this inside the runtime.
    pub fn starting_at(began: Timestamp) -> Self {
        Self { began, since: Instant::now() }
    }
}

impl Default for SteadyClock {
    fn default() -> Self {
        Self::starting_at(Timestamp::now())
    }
}

impl Clock for SteadyClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::MAX);
        self.began.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_moves_with_the_paused_clock() {
        let clock = SteadyClock::default();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().duration_since(before), SignedDuration::from_hours(1));
    }
}
