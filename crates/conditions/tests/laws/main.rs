//! The specification of the engine: tables of cases, and the laws that hold for all of them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests, but does not see that helpers of tests are tests too"
)]

mod freshness;
mod gate;
mod generation;
mod guard;
mod set;
mod severity;
mod wire;

use jiff::Timestamp;

/// An instant, in seconds after some beginning.
fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_700_000_000 + second)
}
