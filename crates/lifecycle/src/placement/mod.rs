//! Placements: which clusters are chosen, and how that is told so that no reader sees a cluster vanish that stays.
//!
//! | module | what it decides |
//! |---|---|
//! | `decide` | which clusters a Placement chooses, in which groups, and what to say of it; pure |
//! | `slices` | which writes lead from the PlacementDecisions that there are to those that are wanted, and in which order; pure |
//! | `decided` | what readers may take from a Placement and its decisions, whoever wrote them; pure |
//! | `controller` | reads, asks the others, writes what differs |
//!
//! # How a choice is told
//!
//! The chosen clusters stand in the status of PlacementDecisions, at most a hundred in each; one that is new is created
//! first, and its clusters are written after, so for a moment it is as empty as one that is meant to be. Three rules make
//! that harmless:
//!
//! 1. **After every single write, each cluster that was chosen before and is chosen after stands in some decision.** It is
//!    written where it goes before it is removed from where it was. Where clusters go around in a ring, some wait in a
//!    decision that is there only meanwhile.
//! 2. The labels of a decision, which say what group it is of, change before its clusters do; and `.status` of the
//!    Placement, with the number of clusters and the decisions of each group, is written last of all. So while a change is
//!    being written, the parts do not agree: there are clusters twice, labels that the status does not know, or other
//!    counts.
//! 3. [`decided`] believes in nothing but what agrees, and what it cannot believe in is not known, which is no reason to
//!    remove anything. In what it believes in, a cluster that is missing is one that goes.
//!
//! Upstream's controller writes the same members of the same kinds, and so can be read the same way; but it does not keep to
//! the first rule, which is why a reader does well to wait a while before it takes an absence for a farewell.
//!
//! **What makes no sense chooses nothing anew and removes nothing**: a misconfigured Placement keeps its decisions.

mod cache;
mod controller;
mod decide;
mod decided;
mod slices;
mod vocabulary;

pub(crate) use cache::PlacementCache;
pub use controller::{PlacementError, Placements};
pub use decided::{Decided, DecidedCluster, Undecided, decided};
pub use vocabulary::FINALIZER;

/// The name of [`Placements`], in logs, metrics and health, and as an identity.
pub const NAME: &str = "placement-controller";
