//! `AppliedManifestWork`: a record on the managed cluster of the objects that were applied for a ManifestWork, so that they
//! can be deleted again.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// `spec` identifies the ManifestWork.
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
    doc = "AppliedManifestWork records, on a managed cluster, the objects that the agent applied for a ManifestWork of \
           the hub. It owns these objects. The agent writes the spec and the status.",
    printcolumn(name = "Work", type_ = "string", json_path = ".spec.manifestWorkName"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct AppliedManifestWorkSpec {
    /// `hubHash` identifies the hub: the SHA-256 hash of its address.
    pub hub_hash: String,

    /// `agentID` identifies the agent that applied the objects.
    #[serde(rename = "agentID", default, skip_serializing_if = "String::is_empty")]
    pub agent_id: String,

    /// `manifestWorkName` is the name of the ManifestWork on the hub.
    pub manifest_work_name: String,
}

empty_if_missing!(AppliedManifestWorkSpec);

/// `status` is the objects that were applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppliedManifestWorkStatus {
    /// `appliedResources` lists the applied objects that are still part of the ManifestWork, or are not deleted yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub applied_resources: Vec<AppliedResource>,

    /// `evictionStartTime` is when the ManifestWork was first found to be missing on the hub. Bellwether's agent does
    /// not set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eviction_start_time: Option<Time>,
}

/// An object that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppliedResource {
    /// `group` is the API group of the object.
    pub group: String,
    /// `version` is the API version of the object.
    pub version: String,
    /// `resource` is the plural resource name of the object.
    pub resource: String,
    /// `namespace` is the namespace of the object. It is empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `name` is the name of the object.
    pub name: String,
    /// `uid` is the UID of the object. An object of the same name with another UID is never deleted.
    pub uid: String,
}
