//! Tests of adapters as a whole: on the embedded API server, with an API, a broker and files of their own.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed test panics"
)]

mod dry_runs;
mod faults;
mod fixture;
mod http_api;
mod jobs;
mod kubernetes;
mod maestro;
mod serving;
