//! Add-ons of a fleet: where they go, in which version, at what pace, and what became of it.
//!
//! | module | what it decides |
//! |---|---|
//! | `clusters` | which clusters are accepted and in reach |
//! | `placement` | which clusters a Placement chooses |
//! | `install` | which clusters have a ManagedClusterAddOn, and which version it asks for |
//! | `version`, `render`, `rollout`, `addon` | what a version is, what objects it is made of, whose turn it is, and how far each cluster is |
//!
//! In each, `decide` is pure and has the tables; `controller` reads, asks it, and writes what differs.

pub mod addon;
pub mod clusters;
pub mod install;
pub mod placement;
pub mod render;
pub mod rollout;
pub mod version;
