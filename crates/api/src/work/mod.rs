//! `work.open-cluster-management.io`: what a cluster is asked to run, and what of it is there. The wire is a subset of
//! upstream's, so that either side can be somebody else's.

mod applied;
mod manifest_work;
pub mod vocabulary;

pub use applied::*;
pub use manifest_work::*;
