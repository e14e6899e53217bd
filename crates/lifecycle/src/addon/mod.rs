//! The add-on lifecycle controller: decides how far each cluster is with its version and writes status and ManifestWorks.
//! Creating ManagedClusterAddOns is left to `install`.
//!
//! `decide` has the tables, `changes` applies them to the hub cache, `reconcile` makes the requests, `summary` computes the
//! status of a ClusterManagementAddOn, and `state` describes the state of an add-on on a cluster for people.

mod changes;
mod controller;
pub mod decide;
mod reconcile;
pub mod state;
mod summary;

pub use controller::run;
pub(crate) use reconcile::Lifecycle;

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = "addon-lifecycle-controller";
