//! The metrics collector against sources and receivers that fail in every way and, with the feature `real-services`, between two
//! Prometheus servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod credentials;
mod fixture;
mod forwarding;
#[cfg(feature = "real-services")]
mod real;
mod receivers;
mod server;
mod sources;
mod wire;
