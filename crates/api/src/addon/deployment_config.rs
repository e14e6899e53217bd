//! `AddOnDeploymentConfig`: how an add-on is deployed, where that differs from cluster to cluster.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schemas;

/// How an add-on is deployed.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnDeploymentConfig",
    plural = "addondeploymentconfigs",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "How add-ons are deployed.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "How add-ons are deployed.")]
pub struct AddOnDeploymentConfigSpec {
    /// What `{{NAME}}` stands for in templates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customized_variables: Vec<CustomizedVariable>,

    /// On which nodes workloads run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,

    /// From where images are taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<ImageMirror>,

    /// How workloads reach the outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_config: Option<ProxyConfig>,

    /// The namespace of the add-on on the cluster; as the template says, if it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::agent_namespace")]
    pub agent_install_namespace: Option<String>,

    /// What containers need. The last that fits a container counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_requirements: Vec<ContainerResources>,
}

may_be_missing!(AddOnDeploymentConfigSpec);

/// A variable of templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A variable of templates.")]
pub struct CustomizedVariable {
    /// Its name.
    #[schemars(length(max = 255))]
    #[schemars(regex(pattern = r"^[a-zA-Z_][_a-zA-Z0-9]*$"))]
    pub name: String,
    /// What it stands for.
    #[serde(default)]
    #[schemars(schema_with = "schemas::variable_value")]
    pub value: String,
}

/// On which nodes workloads run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "On which nodes workloads run.")]
pub struct NodePlacement {
    /// Nodes with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// In spite of these taints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// Where images are taken from instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Where images are taken from instead.")]
pub struct ImageMirror {
    /// The beginning of the image; all images, if it is empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// What takes its place.
    #[schemars(length(min = 1))]
    pub mirror: String,
}

/// How workloads reach the outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How workloads reach the outside.")]
pub struct ProxyConfig {
    /// For plain HTTP.
    #[serde(rename = "httpProxy", default, skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// For HTTPS.
    #[serde(rename = "httpsProxy", default, skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// Whom to reach without.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
    /// Whom to trust at the proxy, in base64.
    #[serde(rename = "caBundle", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::bytes")]
    pub ca_bundle: Option<String>,
}

/// What a container needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What a container needs.")]
pub struct ContainerResources {
    /// Which: `<resources>:<name>:<container>`, as `deployments:hello:agent`; `*` stands for any.
    #[serde(rename = "containerID")]
    #[schemars(regex(pattern = r"^(deployments|daemonsets|statefulsets|replicasets|jobs|\*):.+:.+$"))]
    pub container_id: String,
    /// What it needs.
    pub resources: ResourceRequirements,
}
