//! The Addon controller: creates the namespaces and the `AddonInstance` of every `Addon`, and exchanges the
//! acknowledgements of installation and deletion between the Addon and the add-on. It does not install the add-on, and it
//! does not check heartbeats.
//!
//! `decide` computes from the objects that were read what must be written; it is pure. `controller` makes the requests.
//! `changes` filters watch events, so that a heartbeat does not cause a reconcile.

mod changes;
mod controller;
mod decide;
mod object;
mod operator;

pub use controller::{AddonError, AddonReconciler};
pub use decide::MirrorTimeouts;
pub use operator::AddonOperatorReconciler;
