//! The real binary, started as a process of its own on a directory of its own, and met over its ports only.

// Clippy's leave for tests does not reach the functions that tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod access;
mod addon;
mod agent;
#[cfg(feature = "real-kubernetes")]
mod agent_rights;
mod bench;
mod crash;
mod crds;
mod demo;
mod fleet_api;
mod fleet_cli;
mod fleet_crash;
#[cfg(feature = "real-kubernetes")]
mod go_clients;
mod heartbeat;
#[cfg(feature = "real-kubernetes")]
mod hub;
mod join;
#[cfg(feature = "real-kubernetes")]
mod kubectl;
#[cfg(feature = "real-kubernetes")]
mod kubernetes;
#[cfg(feature = "real-kubernetes")]
mod masks;
#[cfg(feature = "real-kubernetes")]
mod page;
#[cfg(feature = "real-kubernetes")]
mod pages;
#[cfg(feature = "real-kubernetes")]
mod python_client;
mod server;
mod start;
mod stop;
#[cfg(feature = "real-postgres")]
mod wire;
