//! The fleet API as its clients see it: over HTTP, on each of the stores.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod auth;
mod cases;
mod harness;
mod hostile;
mod mapped;
mod observability;
mod openapi;
mod properties;
mod rules;
mod searches;
mod tenancy;
mod tokens;
mod upstream;
mod vectors;
mod watching;
