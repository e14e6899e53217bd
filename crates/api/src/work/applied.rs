//! `AppliedManifestWork`: on the spoke, what was made for a work, so that it can be taken away again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which work it is about.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "AppliedManifestWork",
    plural = "appliedmanifestworks",
    shortname = "amw",
    status = "AppliedManifestWorkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "What was made on this cluster for a work of the hub.",
    printcolumn(name = "Work", type_ = "string", json_path = ".spec.manifestWorkName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "Which work it is about.")]
pub struct AppliedManifestWorkSpec {
    /// Which hub: the SHA-256 of its address.
    pub hub_hash: String,

    /// Which agent made it.
    #[serde(rename = "agentID", default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,

    /// The name of the work.
    pub manifest_work_name: String,
}

may_be_missing!(AppliedManifestWorkSpec);

/// What was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What was made.")]
pub struct AppliedManifestWorkStatus {
    /// Every object that was made and is still wanted, or not yet gone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,

    /// Since when the work cannot be found on the hub.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_start_time: Option<Time>,
}

/// An object that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "An object that was made.")]
pub struct AppliedResource {
    /// The group of its kind.
    pub group: String,
    /// The version of its kind.
    pub version: String,
    /// The plural of its kind.
    pub resource: String,
    /// Its namespace, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which object of that name: one that came later is not ours to delete.
    pub uid: String,
}
