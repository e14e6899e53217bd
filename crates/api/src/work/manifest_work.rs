//! `ManifestWork`: objects that a cluster is asked to have, in its namespace on the hub.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{is_default, schemas};

/// What a cluster is asked to have.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "work.open-cluster-management.io",
    version = "v1",
    kind = "ManifestWork",
    plural = "manifestworks",
    namespaced,
    status = "ManifestWorkStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Objects that a cluster is asked to have.",
    printcolumn(
        name = "Applied",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Applied\")].status"
    ),
    printcolumn(
        name = "Available",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Available\")].status"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, !remote, description = "What the cluster is asked to have.")]
pub struct ManifestWorkSpec {
    /// The objects.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,

    /// What becomes of the objects when the work is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,

    /// How single objects are dealt with, and what is reported of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
}

may_be_missing!(ManifestWorkSpec);

/// The objects of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "The objects of the work.")]
pub struct Workload {
    /// Each as a whole.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::manifests")]
    pub manifests: Vec<Value>,
}

/// What becomes of objects when their work is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What becomes of the objects when the work is deleted.")]
pub struct DeleteOption {
    /// Whether they go with it.
    #[schemars(schema_with = "schemas::work_propagation")]
    pub propagation_policy: WorkPropagation,

    /// Those that stay, by the policy `SelectivelyOrphan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
}

/// Whether objects go with their work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkPropagation {
    /// They go, and the work when they are gone.
    #[default]
    Foreground,
    /// They stay.
    Orphan,
    /// Some stay.
    SelectivelyOrphan,
    /// One that is not known here: rather too much stays than too little.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// Objects that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Objects that stay.")]
pub struct SelectivelyOrphan {
    /// Which.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// An object of a work. In `name` and `namespace` a `*` stands for anything, where several are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "An object of the work.")]
pub struct ResourceIdentifier {
    /// The group of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural of its kind.
    pub resource: String,
    /// Its namespace, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// How an object is dealt with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How an object is dealt with.")]
pub struct ManifestConfig {
    /// Which object.
    pub resource_identifier: ResourceIdentifier,

    /// What of its status is reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,

    /// How it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// What of an object's status is reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What of the status is reported.")]
pub struct FeedbackRule {
    /// What is known of the kind, or what is said here.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::feedback_type")]
    pub type_: FeedbackType,

    /// Where to look, by the type `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<FeedbackPath>,
}

/// How feedback is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackType {
    /// By what is known of the kind.
    #[default]
    WellKnownStatus,
    /// By paths.
    #[serde(rename = "JSONPaths")]
    JsonPaths,
    /// One that is not known here; nothing is reported.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A value of an object's status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A value of the status.")]
pub struct FeedbackPath {
    /// What it is called.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// The version of the kind in which it is looked for; any, if it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// Where it is below `.status`, as `.conditions[?(@.type=="Available")].status`.
    pub path: String,
}

/// How an object is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the object is written.")]
pub struct UpdateStrategy {
    /// The way.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::update_type")]
    pub type_: UpdateType,

    /// Of server-side apply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// The way an object is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateType {
    /// It is made as it is said, whoever wrote it.
    #[default]
    Update,
    /// It is created and then left alone.
    CreateOnly,
    /// By server-side apply, which may find that others own a field.
    ServerSideApply,
    /// It is not written, only looked at.
    ReadOnly,
    /// One that is not known here; the object is not written.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// How an object is applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "How the object is applied.")]
pub struct ServerSideApply {
    /// Whether fields of others are taken.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,

    /// The name by which fields are owned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::work_agent_manager")]
    pub field_manager: String,
}

/// What a cluster has of a work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What the cluster has of the work.")]
pub struct ManifestWorkStatus {
    /// Whether all objects are applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// Each object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_status: ResourceStatus,
}

/// The objects of a work, as they are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "The objects of the work, as they are.")]
pub struct ResourceStatus {
    /// In the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
}

/// One object of a work, as it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "One object of the work, as it is.")]
pub struct ManifestCondition {
    /// Which object.
    pub resource_meta: ManifestResourceMeta,

    /// What its status says.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_feedback: StatusFeedback,

    /// Whether it is applied and available.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// Which object of a work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "Which object of the work.")]
pub struct ManifestResourceMeta {
    /// Its place in the spec, from 0.
    pub ordinal: i32,
    /// The group of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The version of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The plural of its kind.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Its namespace, where it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// What the status of an object says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "What the status of the object says.")]
pub struct StatusFeedback {
    /// One value for each rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// A value that was found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A value that was found.")]
pub struct FeedbackValue {
    /// What it is called.
    pub name: String,
    /// The value.
    pub field_value: FieldValue,
}

/// A value, in the field of its type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, description = "A value, in the field of its type.")]
pub struct FieldValue {
    /// `Integer`, `String`, `Boolean` or `JsonRaw`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::value_type")]
    pub type_: String,
    /// Of type `Integer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// Of type `String`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// Of type `Boolean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// Of type `JsonRaw`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}
