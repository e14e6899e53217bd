//! `addons.managed.openshift.io`: the add-ons of one cluster and their heartbeats. The types are those of OpenShift's
//! addon-operator, so that its clients work unchanged. What the controllers do with them is in `bellwether-heartbeat`.

mod addon;
mod instance;
mod operator;
pub(crate) mod rules;

pub use addon::*;
pub use instance::*;
pub use operator::*;
