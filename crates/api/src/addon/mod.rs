//! `addon.open-cluster-management.io`: add-ons of a fleet, their versions, and what of them is on which cluster.
//! Upstream's kinds, with the fields for versions that upstream does not have.

mod deployment_config;
mod managed;
mod management;
mod rollout;
mod template;
pub mod vocabulary;

pub use deployment_config::*;
pub use managed::*;
pub use management::*;
pub use rollout::*;
pub use template::*;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object that says how an add-on is deployed. Without a namespace it is looked for where it is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "An object that says how the add-on is deployed.")]
pub struct ConfigReference {
    /// The group of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,

    /// The plural of its kind.
    #[schemars(length(min = 1))]
    pub resource: String,

    /// Its namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
}
