//! Sentinel: watches the resources of the fleet API, decides when adapters must reconcile one, and publishes a *pulse*, a
//! CloudEvent that names the resource.
//!
//! | module | responsibility |
//! |---|---|
//! | [`config`] | the configuration file, parsed strictly and compiled once |
//! | [`decision`] | whether a resource is due, and the data of its pulse, in CEL; pure |
//! | [`index`] | the resources with their last pulses, as far as the expressions need them; pure |
//! | [`shard`] | which resources belong to this process |
//! | [`feed`] | where the resources come from: the change feed of the fleet API |
//! | [`sentinel`] | the loop: changes → index → due resources → broker |
//!
//! **A new generation is pulsed once, at once. After that, a resource is pulsed at most once per TTL, whatever adapters, API and
//! broker do**: the last pulse of a resource counts like a report (see [`index::View`]).

pub mod config;
pub mod decision;
pub mod feed;
pub mod index;
mod metrics;
mod projection;
pub mod sentinel;
pub mod shard;

pub use config::{Config, ConfigError};
pub use sentinel::Sentinel;
