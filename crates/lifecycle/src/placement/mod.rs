//! The Placement controller: selects clusters and writes PlacementDecisions in an order in which no reader misses a cluster
//! that stays selected. What add-ons do with the clusters is left to `install` and `addon`.
//!
//! | module | what it decides |
//! |---|---|
//! | `decide` | which clusters a Placement selects, in which groups, and its conditions; pure |
//! | `slices` | which writes lead from the existing PlacementDecisions to the desired ones, and in which order; pure |
//! | `decided` | which clusters a reader may conclude from a Placement and its decisions, whoever wrote them; pure |
//! | `controller` | nothing: it reads, calls the other modules and writes the differences |
//!
//! # How a selection is written
//!
//! The selected clusters are in the status of PlacementDecisions, at most a hundred in each. A new PlacementDecision is created
//! first and its status written afterwards, so for a moment it is empty. Three rules make that harmless:
//!
//! 1. **After every single write, each cluster that was selected before and is selected afterwards is in some decision.** It is
//!    added to its new decision before it is removed from the old one. If clusters move in a cycle between full decisions, some
//!    are put into a temporary decision.
//! 2. The labels of a decision, which name its group, change before its clusters do; and `.status` of the
//!    Placement, with the number of clusters and the decisions of each group, is written last of all. So while a change is
//!    being written, the parts do not agree: there are clusters twice, labels that are not in the status, or other
//!    counts.
//! 3. [`decided`] accepts the parts only if they agree; otherwise the selection is unknown, and readers must not remove anything.
//!    If they agree, a missing cluster is one that is no longer selected.
//!
//! The upstream controller writes the same fields and can be read the same way, but it does not follow the first rule. So a
//! reader should wait a while before it treats a missing cluster as deselected.
//!
//! **A misconfigured Placement keeps its decisions**: it selects no new clusters and removes none.

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
