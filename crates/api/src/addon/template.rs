//! `AddOnTemplate`: the manifests of one version of an add-on. A template is immutable; each version has its own.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::schemas;
use crate::work::ManifestWorkSpec;

/// `spec` is the version and its manifests.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnTemplate",
    plural = "addontemplates",
    derive = "Default",
    derive = "PartialEq",
    doc = "AddOnTemplate holds the manifests of one version of an add-on. The hub renders them into ManifestWorks for \
           each cluster. The spec is immutable: publish a new version as a new AddOnTemplate. It has no status.",
    printcolumn(name = "Addon Name", type_ = "string", json_path = ".spec.addonName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
#[schemars(extend("x-kubernetes-validations" = [json!({
    "rule": "self == oldSelf",
    "message": "spec is immutable; publish a new version as a new AddOnTemplate",
})]))]
pub struct AddOnTemplateSpec {
    /// `addonName` is the name of the ClusterManagementAddOn that this version belongs to.
    #[schemars(length(min = 1))]
    pub addon_name: String,

    /// `version` is the name of the version, for example `v1.2.0`. Defaults to the label
    /// `open-cluster-management.io/addon-version`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::version")]
    pub version: Option<String>,

    /// `agentSpec` is the manifests, and how they are applied and deleted. `{{NAME}}` in any string is replaced by the
    /// value of the variable NAME.
    pub agent_spec: ManifestWorkSpec,
}

empty_if_missing!(AddOnTemplateSpec);
