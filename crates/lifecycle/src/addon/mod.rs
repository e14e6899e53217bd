//! An add-on on its clusters: how far each cluster is, what it waits for, and what has to be written.
//!
//! `decide` has the tables, `judge` applies them to the hub cache, `reconcile` makes the requests, `summary` is the status
//! of a ClusterManagementAddOn.

mod controller;
pub mod decide;
mod judge;
mod reconcile;
mod summary;

pub use controller::run;
pub(crate) use reconcile::Lifecycle;

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = "addon-lifecycle-controller";
