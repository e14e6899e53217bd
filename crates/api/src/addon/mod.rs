//! `addon.open-cluster-management.io`: add-ons of a fleet, their versions, and their state on each cluster.
//! The kinds are those of Open Cluster Management, with fields for versions added.

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

/// A reference to an object that configures the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ConfigReference {
    /// `group` is the API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,

    /// `resource` is the plural resource name of the object.
    #[schemars(length(min = 1))]
    pub resource: String,

    /// `namespace` is the namespace of the object. Defaults to the namespace of the Placement or ManagedClusterAddOn for
    /// which it is listed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,

    /// `name` is the name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
}
