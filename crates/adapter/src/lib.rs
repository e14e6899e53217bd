//! The adapter framework: two YAML files define what an adapter does for each pulse, and what it reports.
//!
//! | module | what it does |
//! |---|---|
//! | [`addons`] | the built-in adapter that reports on add-ons |
//! | [`registration`] | registers joined clusters in the fleet API |
//! | [`config`] | loads, validates and compiles both files; errors name file, line and column |
//! | [`template`] | the subset of Go's templates |
//! | [`expression`] | CEL with the functions of the framework |
//! | [`decide`] | pure decisions: params, operators, what to do with an object or Job, payloads |
//! | [`execute`] | runs one event: params, preconditions, resources, post |
//! | [`api`] | HTTP calls with limits and retries |
//! | [`transport`] | what the executor asks of a cluster |
//! | [`maestro`] | manifests as a ManifestWork, and what its cluster reports |
//! | [`kubernetes`] | the transport over a `kube::Client` |
//! | [`dry_run`] | an event against recorded responses and objects |
//! | [`serve`] | receives events from a broker and settles them |
//! | `held_delivery` | extends deliveries while their events wait and run |
//! | [`trace`] | what happened to an event |
//!
//! **The executor does not know whether a run is dry**: it only sees the traits [`api::Api`] and [`transport::Transport`].

pub mod addons;
pub mod api;
pub mod config;
pub mod decide;
pub mod dry_run;
pub mod execute;
pub mod expression;
mod held_delivery;
pub mod kubernetes;
pub mod maestro;
mod metrics;
#[cfg(test)]
mod reference_tests;
pub mod registration;
pub mod serve;
pub mod template;
pub mod trace;
pub mod transport;
