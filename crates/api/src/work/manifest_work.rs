//! `ManifestWork`: objects that the hub asks a managed cluster to have, in the namespace of that cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::{is_default, schemas};

/// `spec` is the objects to apply, and how.
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
    doc = "ManifestWork lists objects to apply on a managed cluster. It is in the namespace of that cluster on the hub. \
           The agent of the cluster applies the objects, keeps them as specified, deletes them with the ManifestWork, \
           and writes the status.",
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
#[schemars(!default, !remote)]
pub struct ManifestWorkSpec {
    /// `workload` is the objects to apply.
    #[serde(default, skip_serializing_if = "is_default")]
    pub workload: Workload,

    /// `deleteOption` controls what happens to the objects when the ManifestWork is deleted. By default they are
    /// deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delete_option: Option<DeleteOption>,

    /// `manifestConfigs` configures individual objects: how they are applied, and which status values are reported.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest_configs: Vec<ManifestConfig>,
}

empty_if_missing!(ManifestWorkSpec);

/// The objects to apply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Workload {
    /// `manifests` lists complete objects, at most 500 KiB in total.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::manifests")]
    pub manifests: Vec<Value>,
}

/// What happens to the objects when the ManifestWork is deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DeleteOption {
    /// `propagationPolicy` is `Foreground` (the objects are deleted before the ManifestWork is removed), `Orphan` (the
    /// objects stay) or `SelectivelyOrphan` (the objects that `selectivelyOrphans` lists stay). Defaults to
    /// `Foreground`.
    #[schemars(schema_with = "schemas::work_propagation")]
    pub propagation_policy: WorkPropagation,

    /// `selectivelyOrphans` lists the objects that stay, for the policy `SelectivelyOrphan`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selectively_orphans: Option<SelectivelyOrphan>,
}

/// What happens to the objects when the ManifestWork is deleted: `Foreground`, `Orphan` or `SelectivelyOrphan`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WorkPropagation {
    /// The objects are deleted, and the ManifestWork after them.
    #[default]
    Foreground,
    /// The objects stay.
    Orphan,
    /// The objects that `selectivelyOrphans` lists stay, the others are deleted.
    SelectivelyOrphan,
    /// Any other value. The objects stay, because deleting them could not be undone.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// The objects that stay when the ManifestWork is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SelectivelyOrphan {
    /// `orphaningRules` lists the objects that stay. `*` in any field matches any text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orphaning_rules: Vec<ResourceIdentifier>,
}

/// A reference to objects of the ManifestWork. `*` in any field matches any text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceIdentifier {
    /// `group` is the API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `resource` is the plural resource name of the object.
    pub resource: String,
    /// `namespace` is the namespace of the object. It is empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// `name` is the name of the object.
    pub name: String,
}

/// The configuration of one object, or of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManifestConfig {
    /// `resourceIdentifier` selects the objects. An entry that names an object exactly takes precedence over one with
    /// `*`.
    pub resource_identifier: ResourceIdentifier,

    /// `feedbackRules` lists the status values that are reported to the hub.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub feedback_rules: Vec<FeedbackRule>,

    /// `updateStrategy` controls how the object is applied. Defaults to type `Update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
}

/// Status values of an object that are reported to the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FeedbackRule {
    /// `type` is `WellKnownStatus` (predefined values of a Deployment, StatefulSet, DaemonSet, Job or Pod) or
    /// `JSONPaths` (the values that `jsonPaths` lists).
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::feedback_type")]
    pub type_: FeedbackType,

    /// `jsonPaths` lists the values for the type `JSONPaths`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub json_paths: Vec<FeedbackPath>,
}

/// Which status values are reported: `WellKnownStatus` or `JSONPaths`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FeedbackType {
    /// Predefined values of a Deployment, StatefulSet, DaemonSet, Job or Pod.
    #[default]
    WellKnownStatus,
    /// The values that `jsonPaths` lists.
    #[serde(rename = "JSONPaths")]
    JsonPaths,
    /// Any other value. Nothing is reported.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// A status value, by its JSONPath.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FeedbackPath {
    /// `name` is the name under which the value is reported.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,

    /// `version` limits the rule to this API version of the object. Defaults to any version.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,

    /// `path` is a JSONPath below `.status`, for example `.conditions[?(@.type=="Available")].status`.
    pub path: String,
}

/// How the object is applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct UpdateStrategy {
    /// `type` is `Update` (server-side apply that overwrites other field managers), `ServerSideApply` (server-side
    /// apply as `serverSideApply` configures it), `CreateOnly` (created if missing, never changed) or `ReadOnly` (never
    /// written, only reported). Defaults to `Update`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::update_type")]
    pub type_: UpdateType,

    /// `serverSideApply` configures the type `ServerSideApply`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_side_apply: Option<ServerSideApply>,
}

/// How an object is applied: `Update`, `CreateOnly`, `ServerSideApply` or `ReadOnly`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum UpdateType {
    /// Server-side apply with force, so that it overwrites other field managers.
    #[default]
    Update,
    /// The object is created if it is missing, and never changed afterwards.
    CreateOnly,
    /// Server-side apply, which reports a conflict where another field manager owns a field.
    ServerSideApply,
    /// The object is never written, only reported.
    ReadOnly,
    /// Any other value. The object is not written.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// The options of server-side apply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ServerSideApply {
    /// `force` takes over fields that other field managers own. Defaults to false: such a field is a conflict.
    #[serde(default, skip_serializing_if = "is_default")]
    pub force: bool,

    /// `fieldManager` is the name of the field manager. It must begin with `work-agent`. Defaults to `work-agent`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(schema_with = "schemas::work_field_manager")]
    pub field_manager: String,
}

/// `status` is what the agent of the cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManifestWorkStatus {
    /// `conditions` describe the ManifestWork: Applied, Available and Deleting.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,

    /// `resourceStatus` is the state of each object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resource_status: ResourceStatus,
}

/// The state of each object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceStatus {
    /// `manifests` lists the objects in the order of the spec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifests: Vec<ManifestCondition>,
}

/// The state of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManifestCondition {
    /// `resourceMeta` identifies the object.
    pub resource_meta: ManifestResourceMeta,

    /// `statusFeedback` is the status values that `feedbackRules` requested.
    #[serde(default, skip_serializing_if = "is_default")]
    pub status_feedback: StatusFeedback,

    /// `conditions` describe the object: Applied, Available and StatusFeedbackSynced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schemas::conditions")]
    pub conditions: Vec<Condition>,
}

/// The identity of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManifestResourceMeta {
    /// `ordinal` is the index of the object in the spec, counted from 0.
    pub ordinal: i32,
    /// `group` is the API group of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// `version` is the API version of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// `kind` is the kind of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// `resource` is the plural resource name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resource: String,
    /// `name` is the name of the object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// `namespace` is the namespace of the object. It is empty for a cluster-scoped object.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
}

/// The status values of one object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StatusFeedback {
    /// `values` lists the status values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<FeedbackValue>,
}

/// A status value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FeedbackValue {
    /// `name` is the name of the value, from the feedback rule.
    pub name: String,
    /// `fieldValue` is the value.
    pub field_value: FieldValue,
}

/// A typed value. Exactly one field besides `type` is set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FieldValue {
    /// `type` is the type of the value: `Integer`, `String`, `Boolean` or `JsonRaw`.
    #[serde(rename = "type")]
    #[schemars(schema_with = "schemas::value_type")]
    pub type_: String,
    /// `integer` is the value for the type `Integer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub integer: Option<i64>,
    /// `string` is the value for the type `String`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub string: Option<String>,
    /// `boolean` is the value for the type `Boolean`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boolean: Option<bool>,
    /// `jsonRaw` is the value for the type `JsonRaw`: JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_raw: Option<String>,
}
