//! The fleet API as its clients see it: over HTTP, on each of the stores.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cases;
mod harness;
mod openapi;
mod vectors;
