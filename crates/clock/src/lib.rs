//! The time, passed in, so that an hour can be tested without waiting for it. Clocks date things and pace them; they
//! order nothing: revisions do.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where the time is read.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// An instant as Kubernetes keeps it: in whole seconds. What is compared with what was kept goes through this first.
pub fn whole_seconds(instant: Timestamp) -> Timestamp {
    Timestamp::from_second(instant.as_second()).unwrap_or(instant)
}

/// The clock of the machine. It may be set, and then steps.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that never steps: it shows the time at which it was made, plus what has passed since on tokio's clock.
/// It is paused and advanced with that, so that a test of an hour takes no time.
#[derive(Clone, Copy, Debug)]
pub struct SteadyClock {
    began: Timestamp,
    since: Instant,
}

impl SteadyClock {
    /// A clock that shows a time from now on. Where tokio's clock is paused, it is made inside of the runtime.
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
