//! Tests of the `bellwether` binary: each starts it as a process on a temporary directory, and uses only its ports, files and
//! output.

// Clippy allows these in tests, but not in the functions that tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod access;
mod addon;
mod agent;
#[cfg(feature = "real-kubernetes")]
mod agent_rbac;
mod broker;
mod collector;
#[cfg(feature = "real-kubernetes")]
mod console_blocks;
mod crash;
mod crds;
mod demo;
#[cfg(feature = "real-kubernetes")]
mod docs;
mod fleet_api;
mod fleet_cli;
mod fleet_crash;
#[cfg(feature = "real-kubernetes")]
mod fleet_deploy;
#[cfg(feature = "real-kubernetes")]
mod go_clients;
mod heartbeat;
#[cfg(feature = "real-kubernetes")]
mod hub;
#[cfg(feature = "real-kubernetes")]
mod kubectl;
#[cfg(feature = "real-kubernetes")]
mod kubernetes;
#[cfg(feature = "real-kubernetes")]
mod masks;
mod observability;
#[cfg(feature = "real-postgres")]
mod postgres_proxy;
mod pulse_observer;
mod pulses;
mod pulses_crash;
#[cfg(feature = "real-kubernetes")]
mod python_client;
mod sentinel;
mod server;
mod spokes;
mod start;
mod stop;
mod use_cases;
