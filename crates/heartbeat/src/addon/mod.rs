//! Provides what every `Addon` needs: its namespaces and its `AddonInstance`; and carries the hand-shakes on
//! installation and deletion between the Addon and the add-on. It does not install anything, and it does not judge
//! heartbeats.
//!
//! `decide` is pure: from what was read to what is to be written. `controller` reads and writes; `changes` keeps it
//! from looking at an Addon at every heartbeat.

mod changes;
mod controller;
mod decide;
mod operator;
mod subject;

pub use controller::{AddonError, Addons};
pub use decide::MirrorTimeouts;
pub use operator::Operators;
