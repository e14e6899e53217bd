//! Which clusters have an add-on: one ManagedClusterAddOn for each cluster that a placement selects, with the version of its
//! assigned placement. **Nothing is uninstalled by accident**: while a selection is unknown, nothing is uninstalled.

mod controller;
pub mod decide;

pub(crate) use controller::Installer;
pub use controller::run;

use crate::fields::INSTALL_FIELD_MANAGER;

/// The name of the controller, in logs, health and metrics, and as an identity.
pub const NAME: &str = INSTALL_FIELD_MANAGER;
