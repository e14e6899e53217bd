//! The limits of a queue.

use std::time::Duration;

use crate::VISIBILITY_TIMEOUT;

/// The limits of a queue. Every one has a default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long an event may be handled before it is delivered again. 30 s by default.
    pub visibility_timeout: Duration,
    /// The number of events of all topics; at the limit, `publish` fails. 1,000,000 by default.
    pub max_events: u64,
    /// The bytes of all events; at the limit, `publish` fails. 1 GiB by default.
    pub max_bytes: u64,
    /// The number of events that wait for one subscription. At the limit, its oldest event is dropped and counted, so that a
    /// forgotten subscription does not block the others. It should be well below `max_events`. 100,000 by default.
    pub max_events_per_subscription: u64,
    /// The bytes of the events that wait for one subscription, with the same effect. 256 MiB by default.
    pub max_bytes_per_subscription: u64,
    /// The number of dead letters of one subscription. At the limit, its oldest is dropped and counted. 1,000 by default.
    pub max_dead_letters_per_subscription: u64,
    /// The size of the file, with its indexes; at the limit, `publish` fails. 4 GiB by default.
    pub max_file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            visibility_timeout: VISIBILITY_TIMEOUT,
            max_events: 1_000_000,
            max_bytes: 1 << 30,
            max_events_per_subscription: 100_000,
            max_bytes_per_subscription: 256 << 20,
            max_dead_letters_per_subscription: 1_000,
            max_file_bytes: 4 << 30,
        }
    }
}
