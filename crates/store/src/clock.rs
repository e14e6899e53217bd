//! The wall clock, passed in, so that the age of history can be tested without waiting for it.
//! It dates events and paces retries; it never orders anything: revisions do.

use jiff::Timestamp;

/// Where the store reads the time.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Copy, Clone, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
