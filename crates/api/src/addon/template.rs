//! `AddOnTemplate`: one version of an add-on. It never changes; another version is another template.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::schemas;
use crate::work::ManifestWorkSpec;

/// One version of an add-on.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnTemplate",
    plural = "addontemplates",
    derive = "Default",
    derive = "PartialEq",
    doc = "One version of an add-on: the objects that a cluster gets.",
    printcolumn(name = "Addon Name", type_ = "string", json_path = ".spec.addonName"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "One version of the add-on.")]
#[schemars(extend("x-kubernetes-validations" = [json!({
    "rule": "self == oldSelf",
    "message": "a version never changes; publish another one, with its own template",
})]))]
pub struct AddOnTemplateSpec {
    /// The add-on.
    #[schemars(length(min = 1))]
    pub addon_name: String,

    /// The version; the label `open-cluster-management.io/addon-version`, if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::version")]
    pub version: Option<String>,

    /// The objects. In their texts `{{NAME}}` stands for a variable.
    pub agent_spec: ManifestWorkSpec,
}

may_be_missing!(AddOnTemplateSpec);
