//! `AddOnDeploymentConfig`: per-cluster settings for rendering an add-on: variables, nodes, images, proxy and resources.
//! Rendering itself is in `bellwether-lifecycle`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::schemas;

/// `spec` is the settings that are applied to the manifests of an AddOnTemplate.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addon.open-cluster-management.io",
    version = "v1alpha1",
    kind = "AddOnDeploymentConfig",
    plural = "addondeploymentconfigs",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    doc = "AddOnDeploymentConfig holds settings for deploying add-ons. A ClusterManagementAddOn or ManagedClusterAddOn \
           refers to it, and the hub applies it when it renders an AddOnTemplate into ManifestWorks. Users write it; it \
           has no status.",
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
pub struct AddOnDeploymentConfigSpec {
    /// `customizedVariables` lists variables by name. The hub replaces `{{NAME}}` in the template's manifests with the
    /// value, and sets each variable as an environment variable in every container of the template's workloads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub customized_variables: Vec<CustomizedVariable>,

    /// `nodePlacement` sets the node selector and the tolerations of the add-on's pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_placement: Option<NodePlacement>,

    /// `registries` lists image mirrors. The hub rewrites the images of the add-on's containers accordingly.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<ImageMirror>,

    /// `proxyConfig` sets the proxy that the add-on's containers use for outbound connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy_config: Option<ProxyConfig>,

    /// `agentInstallNamespace` is the namespace on the managed cluster into which all namespaced objects of the
    /// template are moved. Defaults to `open-cluster-management-agent-addon`; if it is empty, objects stay in the
    /// namespaces that the template names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::agent_namespace")]
    pub agent_install_namespace: Option<String>,

    /// `resourceRequirements` sets the resource requests and limits of containers. If several entries match a
    /// container, the last one applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_requirements: Vec<ContainerResources>,
}

empty_if_missing!(AddOnDeploymentConfigSpec);

/// A variable for the manifests of an AddOnTemplate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CustomizedVariable {
    /// `name` is the name of the variable: letters, digits and underscores, not starting with a digit.
    #[schemars(length(max = 255))]
    #[schemars(regex(pattern = r"^[a-zA-Z_][_a-zA-Z0-9]*$"))]
    pub name: String,
    /// `value` replaces `{{NAME}}` in manifests.
    #[serde(default)]
    #[schemars(schema_with = "schemas::variable_value")]
    pub value: String,
}

/// The nodes on which the add-on's pods may run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NodePlacement {
    /// `nodeSelector` restricts the add-on's pods to nodes with these labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// `tolerations` lists the node taints that the add-on's pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// A registry or repository that replaces another one in image names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ImageMirror {
    /// `source` is the registry or repository to replace, for example `quay.io/org`. If it is empty, every image is
    /// rewritten: `mirror` replaces everything before the last `/`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// `mirror` is the registry or repository that takes the place of `source`.
    #[schemars(length(min = 1))]
    pub mirror: String,
}

/// The proxy that containers use for outbound connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProxyConfig {
    /// `httpProxy` is the URL of the proxy for HTTP requests. It becomes `HTTP_PROXY` and `http_proxy` in containers.
    #[serde(rename = "httpProxy", default, skip_serializing_if = "String::is_empty")]
    pub http_proxy: String,
    /// `httpsProxy` is the URL of the proxy for HTTPS requests. It becomes `HTTPS_PROXY` and `https_proxy` in
    /// containers.
    #[serde(rename = "httpsProxy", default, skip_serializing_if = "String::is_empty")]
    pub https_proxy: String,
    /// `noProxy` lists the hosts that bypass the proxy, separated by commas. It becomes `NO_PROXY` and `no_proxy` in
    /// containers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub no_proxy: String,
    /// `caBundle` is the CA certificates for verifying the proxy, as base64-encoded PEM. It is mounted into containers,
    /// and `CA_BUNDLE_FILE_PATH` holds its path.
    #[serde(rename = "caBundle", default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::base64")]
    pub ca_bundle: Option<String>,
}

/// The resource requests and limits of the containers that an ID matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerResources {
    /// `containerID` selects containers as `<resource>:<name>:<container>`, for example `deployments:hello:agent`. `*`
    /// matches any value.
    #[serde(rename = "containerID")]
    #[schemars(regex(pattern = r"^(deployments|daemonsets|statefulsets|replicasets|jobs|\*):.+:.+$"))]
    pub container_id: String,
    /// `resources` is the resource requests and limits of the matching containers.
    pub resources: ResourceRequirements,
}
