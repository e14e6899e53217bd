//! Tests of the condition engine: tables of cases, and properties that hold for all inputs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "clippy.toml allows them in tests, but clippy does not recognize helper functions of tests"
)]

mod freshness;
mod gate;
mod generation;
mod guard;
mod set;
mod severity;
mod wire;

use jiff::Timestamp;

/// A timestamp, in seconds after a fixed start.
fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(1_700_000_000 + second)
}
