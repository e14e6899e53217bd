//! `addons.managed.openshift.io`: the add-ons of a cluster and how they say that they are alive.
//! The wire is that of the upstream operator, so that its clients work unchanged; what the objects mean is decided
//! by the jobs that use them.

mod addon;
mod instance;
mod operator;
pub(crate) mod rules;

pub use addon::*;
pub use instance::*;
pub use operator::*;
