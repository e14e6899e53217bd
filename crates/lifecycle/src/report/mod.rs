//! What the status, the command line and the dashboard show of add-ons: the progress of rollouts and the blast radius of a
//! change. Both are computed from the hub cache and the plan that the controllers execute, so that all surfaces agree. Pure;
//! printing and writing are left to the callers.

mod blast_radius;
mod progress;

#[cfg(test)]
mod fixture;

pub use blast_radius::{
    BlastRadius, ClusterChange, Direction, NoPreviousVersion, PlacementEdit, PreviousVersion,
    UnchangedCluster, UnchangedReason, blast_radius, previous_version,
};
pub use progress::{
    AddonProgress, End, FailedCluster, GroupProgress, PlacementProgress, Stage, addon_progress,
    placement_progress,
};
