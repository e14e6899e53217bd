//! A wall clock that follows tokio's: paused and advanced with it, so that a test of an hour takes no time.

use bellwether_store::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Shows the time at which it was made, plus what has passed on tokio's clock since.
#[derive(Clone, Debug)]
pub struct TokioClock {
    began: Timestamp,
    since: Instant,
}

impl TokioClock {
    /// A clock that shows the machine's time now. Needs a tokio runtime when its clock is paused.
    pub fn new() -> Self {
        Self { began: Timestamp::now(), since: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed()).unwrap_or(SignedDuration::ZERO);
        self.began.checked_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn it_moves_with_the_paused_clock() {
        let clock = TokioClock::new();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().duration_since(before), SignedDuration::from_hours(1));
    }
}
