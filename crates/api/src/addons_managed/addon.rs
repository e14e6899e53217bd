//! `Addon`: an add-on of this cluster, its namespaces, and how it is installed.
//!
//! Deserialization is lenient: fields that our schema requires may be missing, because the cluster may have the schema of
//! another version installed.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::rules;
use crate::{is_default, schemas};

/// `spec` describes the add-on and its namespaces.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "Addon",
    plural = "addons",
    status = "AddonStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Addon is an add-on of this cluster. The addon-controller creates its namespaces and its AddonInstance, and \
           writes the status. Fields that OpenShift's addon-operator uses for OLM, monitoring and upgrades are kept for \
           compatibility, and Bellwether does not act on them.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote)]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct AddonSpec {
    /// `displayName` is the name of the add-on for people.
    #[schemars(length(min = 1))]
    pub display_name: String,

    /// `version` is the installed version, for reports. Bellwether does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// `pause` stops reconciliation of this add-on while it is true. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pause: bool,

    /// `namespaces` lists the namespaces of the add-on. Missing ones are created, and deleted with the Addon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<AddonNamespace>,

    /// `commonLabels` are added to every object that is created for the add-on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_labels: BTreeMap<String, String>,

    /// `commonAnnotations` are added to every object that is created for the add-on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_annotations: BTreeMap<String, String>,

    /// `correlationID` links status reports to this revision of the add-on. Bellwether does not use it.
    #[serde(rename = "correlationID", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,

    /// `install` says how the add-on is installed. Bellwether reads only the namespace from it.
    pub install: AddonInstall,

    /// `deleteAckRequired` delays the condition ReadyToBeDeleted=True of the Addon until its AddonInstance has the same
    /// condition. It does not block the deletion of the Addon. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete_ack_required: bool,

    /// `installAckRequired` makes installation wait for the add-on: the Addon is available only after its AddonInstance
    /// has the condition Installed=True. Defaults to false.
    #[serde(default, skip_serializing_if = "is_default")]
    pub install_ack_required: bool,

    /// `upgradePolicy` identifies where upgrade progress is reported. Bellwether does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<AddonUpgradePolicy>,

    /// `monitoring` configures monitoring of the add-on. Bellwether does not use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<AddonMonitoring>,

    /// `secretPropagation` lists Secrets to copy into the namespaces of the add-on. Bellwether does not copy them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_propagation: Option<AddonSecretPropagation>,

    /// `packageOperator` is a package to install with the add-on. Bellwether does not install it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_operator: Option<AddonPackageOperator>,
}

empty_if_missing!(AddonSpec);

/// A namespace of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonNamespace {
    /// `name` is the name of the namespace.
    #[schemars(length(min = 1))]
    pub name: String,

    /// `labels` are added to the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// `annotations` are added to the namespace.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How the add-on is installed: a type, and the field for that type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
#[schemars(extend("x-kubernetes-validations" = rules::install()))]
pub struct AddonInstall {
    /// `type` is `OLMOwnNamespace`, `OLMAllNamespaces` or `External`. The field for the chosen type is required, and
    /// the type is immutable.
    // A string and not an enum, because the CRD on the cluster may allow other types.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::install_type")]
    pub type_: String,

    /// `olmOwnNamespace` is an OLM installation that watches its own namespace, for the type `OLMOwnNamespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olm_own_namespace: Option<OlmInstall>,

    /// `olmAllNamespaces` is an OLM installation that watches all namespaces, for the type `OLMAllNamespaces`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olm_all_namespaces: Option<OlmInstall>,

    /// `external` is an installation by another tool, for the type `External`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalInstall>,
}

/// An installation by the Operator Lifecycle Manager (OLM). Bellwether reads only `namespace`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
#[schemars(extend("x-kubernetes-validations" = rules::olm()))]
pub struct OlmInstall {
    /// `namespace` is the namespace in which the add-on is installed and its AddonInstance is created. It is immutable.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: String,

    /// `catalogSourceImage` is the image of the OLM catalog.
    #[schemars(length(min = 1))]
    pub catalog_source_image: String,

    /// `channel` is the OLM channel to subscribe to.
    #[schemars(length(min = 1))]
    pub channel: String,

    /// `packageName` is the OLM package to install. It is immutable.
    #[schemars(length(min = 1))]
    pub package_name: String,

    /// `pullSecretName` is the name of the Secret with which images are pulled. It must be a destination in
    /// `secretPropagation`, if that is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pull_secret_name: Option<String>,

    /// `config` configures the OLM subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,

    /// `additionalCatalogSources` lists further OLM catalogs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub additional_catalog_sources: Vec<AdditionalCatalogSource>,
}

/// An installation by another tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
#[schemars(extend("x-kubernetes-validations" = rules::external()))]
pub struct ExternalInstall {
    /// `namespace` is the namespace in which the add-on is installed and its AddonInstance is created. It is immutable.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: String,
}

/// The configuration of an OLM subscription.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SubscriptionConfig {
    /// `env` lists environment variables for the add-on's containers.
    pub env: Vec<EnvironmentVariable>,
}

/// An environment variable.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EnvironmentVariable {
    /// `name` is the name of the variable.
    #[schemars(length(min = 1))]
    pub name: String,
    /// `value` is the value of the variable.
    #[schemars(length(min = 1))]
    pub value: String,
}

/// A further OLM catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AdditionalCatalogSource {
    /// `name` is the name of the catalog source. It must differ from the name of the Addon.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// `image` is the image of the catalog.
    #[schemars(length(min = 1))]
    pub image: String,
}

/// Where upgrade progress is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonUpgradePolicy {
    /// `id` is the ID of the upgrade policy.
    pub id: String,
}

/// How the add-on is monitored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonMonitoring {
    /// `federation` selects metrics to federate from a Prometheus of the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub federation: Option<MonitoringFederation>,

    /// `monitoringStack` configures a dedicated Prometheus for the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring_stack: Option<MonitoringStack>,
}

/// Metrics to federate from a Prometheus of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MonitoringFederation {
    /// `namespace` is the namespace of the Prometheus.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// `portName` is the name of the port of the Prometheus service.
    #[schemars(length(min = 1))]
    pub port_name: String,
    /// `matchNames` lists the names of the metrics to federate.
    pub match_names: Vec<String>,
    /// `matchLabels` selects the Prometheus service by its labels.
    #[schemars(extend("minProperties" = 1))]
    pub match_labels: BTreeMap<String, String>,
}

/// A dedicated Prometheus for the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MonitoringStack {
    /// `rhobsRemoteWriteConfig` configures remote write of its metrics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rhobs_remote_write_config: Option<RemoteWriteConfig>,
}

/// The target of a remote write.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RemoteWriteConfig {
    /// `url` is the URL to which metrics are sent.
    pub url: String,
    /// `oauth2` configures the OAuth 2.0 token for the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::opaque_object")]
    pub oauth2: Option<Value>,
    /// `allowlist` lists the metrics to send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowlist: Vec<String>,
}

/// Secrets to copy into the namespaces of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonSecretPropagation {
    /// `secrets` lists the Secrets to copy.
    #[schemars(length(max = 1000))]
    pub secrets: Vec<PropagatedSecret>,
}

/// A Secret to copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PropagatedSecret {
    /// `sourceSecret` names the Secret to copy.
    pub source_secret: SecretName,
    /// `destinationSecret` names the copy.
    pub destination_secret: SecretName,
}

/// The name of a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SecretName {
    /// `name` is the name of the Secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A package to install with the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonPackageOperator {
    /// `image` is the image of the package.
    pub image: String,
}

/// `status` is the observed state of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AddonStatus {
    /// `observedGeneration` is the generation of the spec that the addon-controller last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// `conditions` describe the add-on: Available, Installed, Paused, ReadyToBeDeleted, DeleteTimeout and
    /// HeartbeatTimeout.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// `phase` summarizes the conditions for tables: Pending, Ready, Terminating or Error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// `upgradePolicy` is the upgrade progress that was last reported. Bellwether does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<AddonUpgradePolicyStatus>,

    /// `ocmReportedStatusHash` is a hash of the status that was last reported. Bellwether does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocm_reported_status_hash: Option<ReportedStatusHash>,

    /// `observedVersion` is the version that was last reconciled. Bellwether does not set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<String>,

    /// `lastObservedAvailableCSV` is the last OLM ClusterServiceVersion that was available. Bellwether does not set it.
    #[serde(rename = "lastObservedAvailableCSV", skip_serializing_if = "Option::is_none")]
    pub last_observed_available_csv: Option<String>,
}

/// The upgrade progress that was last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AddonUpgradePolicyStatus {
    /// `id` is the ID of the upgrade policy.
    pub id: String,
    /// `value` is `started` or `completed`.
    pub value: String,
    /// `version` is the version of the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// `observedGeneration` is the generation of the spec that the report is about.
    pub observed_generation: i64,
}

/// A hash of the status that was last reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportedStatusHash {
    /// `statusHash` is the hash.
    pub status_hash: String,
    /// `observedGeneration` is the generation of the spec that the report is about.
    pub observed_generation: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addon_with_missing_or_unknown_fields_deserializes() {
        for body in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a"}, "spec": {}}),
            json!({"metadata": {"name": "a"}, "spec": {"install": {}}}),
            json!({"metadata": {"name": "a"}, "spec": {"install": {"type": "", "later": 1}}, "status": {}}),
        ] {
            let addon: Addon = serde_json::from_value(body.clone()).expect("the Addon deserializes");
            assert_eq!(addon.spec, AddonSpec::default(), "{body}");
        }
    }

    #[test]
    fn addon_from_go_client_with_zero_values_deserializes() {
        let addon: Addon = serde_json::from_value(json!({
            "metadata": {"name": "a", "creationTimestamp": null},
            "spec": {
                "displayName": "A", "pause": false, "deleteAckRequired": false, "installAckRequired": false,
                "install": {"type": "OLMOwnNamespace", "olmOwnNamespace": {
                    "namespace": "a", "catalogSourceImage": "i", "channel": "c", "packageName": "p",
                }},
            },
            "status": {},
        }))
        .expect("the Addon deserializes");
        assert!(!addon.spec.pause);
        assert_eq!(addon.spec.install.olm_own_namespace.map(|block| block.namespace).as_deref(), Some("a"));
    }
}
