//! `Addon`: an add-on of this cluster, its namespaces, and how it is installed.
//!
//! Reading is lenient: what the schema demands of a writer may be missing to a reader, because the schema of the
//! cluster may be another.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::rules;
use crate::{is_default, schemas};

/// What an add-on consists of.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "addons.managed.openshift.io",
    version = "v1alpha1",
    kind = "Addon",
    plural = "addons",
    status = "AddonStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "An add-on of this cluster.",
    printcolumn(name = "Status", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "What the add-on consists of.")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct AddonSpec {
    /// The name for people.
    #[schemars(length(min = 1))]
    pub display_name: String,

    /// The version that is installed, for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,

    /// Leaves everything as it is while set.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pause: bool,

    /// The namespaces of the add-on. Those that are not there are created, and go with the add-on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<AddonNamespace>,

    /// Labels of everything that is made for the add-on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_labels: BTreeMap<String, String>,

    /// Annotations of everything that is made for the add-on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub common_annotations: BTreeMap<String, String>,

    /// Tells reports on this revision of the add-on from those on others.
    #[serde(rename = "correlationID", skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,

    /// How the add-on is installed.
    pub install: AddonInstall,

    /// The add-on must say that it has cleaned up before it counts as ready to be deleted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub delete_ack_required: bool,

    /// The add-on must say that it has set itself up before it counts as installed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub install_ack_required: bool,

    /// Where the progress of an upgrade is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<AddonUpgradePolicy>,

    /// How the add-on is monitored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring: Option<AddonMonitoring>,

    /// Secrets that are copied into the namespaces of the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_propagation: Option<AddonSecretPropagation>,

    /// A package that is installed with the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_operator: Option<AddonPackageOperator>,
}

may_be_missing!(AddonSpec);

/// A namespace of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A namespace of the add-on.")]
pub struct AddonNamespace {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,

    /// Labels that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,

    /// Annotations that it gets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// How an add-on is installed: a type, and the block of that type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the add-on is installed: a type, and the block of that type.")]
#[schemars(extend("x-kubernetes-validations" = rules::install()))]
pub struct AddonInstall {
    /// Which of the blocks counts.
    // Text, because the schema of the cluster may know other types than ours does.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::install_type")]
    pub type_: String,

    /// By OLM, for its own namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olm_own_namespace: Option<OlmInstall>,

    /// By OLM, for all namespaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub olm_all_namespaces: Option<OlmInstall>,

    /// By somebody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalInstall>,
}

/// An installation by OLM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "An installation by OLM.")]
#[schemars(extend("x-kubernetes-validations" = rules::olm()))]
pub struct OlmInstall {
    /// The namespace that the add-on is installed in.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: String,

    /// The image of the catalog.
    #[schemars(length(min = 1))]
    pub catalog_source_image: String,

    /// The channel to subscribe to.
    #[schemars(length(min = 1))]
    pub channel: String,

    /// The package to install.
    #[schemars(length(min = 1))]
    pub package_name: String,

    /// The secret that images are pulled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub pull_secret_name: Option<String>,

    /// What the subscription is configured with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,

    /// More catalogs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub additional_catalog_sources: Vec<AdditionalCatalogSource>,
}

/// An installation that is somebody else's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "An installation that is somebody else's.")]
#[schemars(extend("x-kubernetes-validations" = rules::external()))]
pub struct ExternalInstall {
    /// The namespace that the add-on is installed in.
    #[schemars(length(min = 1, max = 253))]
    pub namespace: String,
}

/// What a subscription is configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What the subscription is configured with.")]
pub struct SubscriptionConfig {
    /// The environment of the add-on.
    pub env: Vec<EnvironmentVariable>,
}

/// A variable of an add-on's environment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A variable of the environment.")]
pub struct EnvironmentVariable {
    /// Its name.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Its value.
    #[schemars(length(min = 1))]
    pub value: String,
}

/// One more catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "One more catalog.")]
pub struct AdditionalCatalogSource {
    /// Its name, which is not that of the add-on.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Its image.
    #[schemars(length(min = 1))]
    pub image: String,
}

/// Where the progress of an upgrade is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Where the progress of an upgrade is reported.")]
pub struct AddonUpgradePolicy {
    /// The policy.
    pub id: String,
}

/// How an add-on is monitored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the add-on is monitored.")]
pub struct AddonMonitoring {
    /// Series that are federated from a Prometheus of the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub federation: Option<MonitoringFederation>,

    /// A Prometheus of its own for the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monitoring_stack: Option<MonitoringStack>,
}

/// Series that are federated from a Prometheus of the add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Series that are federated from a Prometheus of the add-on.")]
pub struct MonitoringFederation {
    /// The namespace of that Prometheus.
    #[schemars(length(min = 1))]
    pub namespace: String,
    /// The name of the port of its service.
    #[schemars(length(min = 1))]
    pub port_name: String,
    /// The series.
    pub match_names: Vec<String>,
    /// How its service is found.
    #[schemars(extend("minProperties" = 1))]
    pub match_labels: BTreeMap<String, String>,
}

/// A Prometheus of its own for an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A Prometheus of its own for the add-on.")]
pub struct MonitoringStack {
    /// Where its series are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rhobs_remote_write_config: Option<RemoteWriteConfig>,
}

/// Where series are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Where series are sent.")]
pub struct RemoteWriteConfig {
    /// The address.
    pub url: String,
    /// How to get a token for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::any_object")]
    pub oauth2: Option<Value>,
    /// The series to send; no other is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowlist: Vec<String>,
}

/// Secrets that are copied into the namespaces of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Secrets that are copied into the namespaces of the add-on.")]
pub struct AddonSecretPropagation {
    /// The secrets.
    #[schemars(length(max = 1000))]
    pub secrets: Vec<PropagatedSecret>,
}

/// A secret that is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A secret that is copied.")]
pub struct PropagatedSecret {
    /// What it is copied from.
    pub source_secret: SecretName,
    /// What the copy is called.
    pub destination_secret: SecretName,
}

/// The name of a secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A secret.")]
pub struct SecretName {
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub name: String,
}

/// A package that is installed with an add-on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A package that is installed with the add-on.")]
pub struct AddonPackageOperator {
    /// The image of the package.
    pub image: String,
}

/// What became of an add-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(description = "What became of the add-on.")]
pub struct AddonStatus {
    /// The generation of the spec that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// The state of the add-on, one condition of each type.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// The state in one word, for tables: Pending, Ready, Terminating or Error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,

    /// What was last reported of an upgrade.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_policy: Option<AddonUpgradePolicyStatus>,

    /// What was last reported of this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ocm_reported_status_hash: Option<ReportedStatusHash>,

    /// The version that was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_version: Option<String>,

    /// The version of the operator that was last seen to be available.
    #[serde(rename = "lastObservedAvailableCSV", skip_serializing_if = "Option::is_none")]
    pub last_observed_available_csv: Option<String>,
}

/// What was last reported of an upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What was last reported of an upgrade.")]
pub struct AddonUpgradePolicyStatus {
    /// The policy.
    pub id: String,
    /// `started` or `completed`.
    pub value: String,
    /// The version of the add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The generation of the spec that was reported on.
    pub observed_generation: i64,
}

/// What was last reported of a status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What was last reported of the status.")]
pub struct ReportedStatusHash {
    /// A hash of it.
    pub status_hash: String,
    /// The generation of the spec that was reported on.
    pub observed_generation: i64,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_addon_of_another_schema_is_read() {
        for body in [
            json!({"metadata": {"name": "a"}}),
            json!({"metadata": {"name": "a"}, "spec": {}}),
            json!({"metadata": {"name": "a"}, "spec": {"install": {}}}),
            json!({"metadata": {"name": "a"}, "spec": {"install": {"type": "", "later": 1}}, "status": {}}),
        ] {
            let addon: Addon = serde_json::from_value(body.clone()).expect("the object is readable");
            assert_eq!(addon.spec, AddonSpec::default(), "{body}");
        }
    }

    #[test]
    fn what_a_go_client_leaves_unset_reads_as_unset() {
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
        .expect("the object is readable");
        assert!(!addon.spec.pause);
        assert_eq!(addon.spec.install.olm_own_namespace.map(|block| block.namespace).as_deref(), Some("a"));
    }
}
