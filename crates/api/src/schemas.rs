//! OpenAPI schemas for fields whose constraints or defaults the Rust type does not express.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::addon::InstallStrategy;
use crate::cluster::ClusterSelector;

/// A list of conditions with Kubernetes' validation. It is a map by type, so that several writers can each own the
/// conditions that they set.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "description": "`lastTransitionTime` is when the condition last changed from one status to another.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "`message` explains the condition for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "observedGeneration": {
                    "description": "`observedGeneration` is the metadata.generation of the object that the condition was computed from.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "`reason` is a CamelCase word for programs that says why the condition has its status.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "`status` is `True`, `False` or `Unknown`.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "`type` names the aspect, in CamelCase.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

/// A heartbeat period with its default.
pub(crate) fn heartbeat_update_period(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "default": "10s"})
}

/// The installation type of an Addon.
pub(crate) fn install_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["OLMOwnNamespace", "OLMAllNamespaces", "External"]})
}

/// An object with any fields, stored as it is.
pub(crate) fn opaque_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Functions for string enums, with an optional default.
macro_rules! string_enums {
    ($($(#[$doc:meta])* $name:ident = [$($value:literal),+] $(, default $default:literal)?;)+) => {$(
        $(#[$doc])*
        pub(crate) fn $name(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "string", "enum": [$($value),+] $(, "default": $default)?})
        }
    )+};
}

string_enums! {
    /// `mode` of a prioritizer policy.
    prioritizer_mode = ["Exact", "Additive"], default "Additive";
    /// `type` of a prioritizer score.
    score_type = ["BuiltIn", "AddOn"], default "BuiltIn";
    /// `effect` of a toleration.
    taint_effect = ["NoSelect", "PreferNoSelect", "NoSelectIfNew"];
    /// `operator` of a toleration.
    toleration_operator = ["Equal", "Exists"], default "Equal";
    /// `propagationPolicy` of a ManifestWork.
    work_propagation = ["Foreground", "Orphan", "SelectivelyOrphan"], default "Foreground";
    /// `type` of a feedback rule.
    feedback_type = ["WellKnownStatus", "JSONPaths"];
    /// `type` of an update strategy.
    update_type = ["Update", "CreateOnly", "ServerSideApply", "ReadOnly"], default "Update";
    /// `type` of a feedback value.
    value_type = ["Integer", "String", "Boolean", "JsonRaw"];
    /// `type` of a rollout strategy.
    rollout_type = ["All", "Progressive", "ProgressivePerGroup"], default "All";
    /// `successCriteria` of a rollout strategy.
    success_criteria = ["Applied", "WorkloadAvailable", "Healthy"], default "Applied";
}

/// A version. It must be a valid label value, because ManifestWorks are labelled with it.
pub(crate) fn version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    })
}

/// A version, or an empty string.
pub(crate) fn optional_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"})
}

/// A count or a percentage.
pub(crate) fn count_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$",
    })
}

/// A soak time, as a duration.
pub(crate) fn soak_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$|^0$", "maxLength": 32})
}

/// A progress deadline: a duration, or `None`.
pub(crate) fn progress_deadline(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([0-9]+(h|m|s))+$|^None$", "maxLength": 32})
}

/// The weight of a prioritizer.
pub(crate) fn weight(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": -10, "maximum": 10, "default": 1})
}

/// The duration of a cluster's Lease, in seconds.
pub(crate) fn lease_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 1, "default": 60})
}

/// `enableMetrics` of an ObservabilityAddon.
pub(crate) fn enabled_by_default(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "boolean", "default": true})
}

/// `interval` of an ObservabilityAddon, in seconds.
pub(crate) fn forward_interval(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 15, "maximum": 3600, "default": 300})
}

/// `scrapeSizeLimitBytes` of an ObservabilityAddon.
pub(crate) fn scrape_size_limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "default": 1_073_741_824})
}

/// `workers` of an ObservabilityAddon.
pub(crate) fn collector_workers(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 1, "default": 1})
}

/// Base64-encoded bytes.
pub(crate) fn base64(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// An optional string that is a key of a list. Such a key needs a default.
pub(crate) fn optional_string(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "default": ""})
}

/// The value of a template variable.
pub(crate) fn variable_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 1024})
}

/// Cluster claims, as a map by name.
pub(crate) fn cluster_claims(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "description": "A property that the cluster reports about itself.",
            "required": ["name"],
            "properties": {
                "name": {"description": "`name` is the name of the claim.", "type": "string", "maxLength": 253, "minLength": 1},
                "value": {"description": "`value` is the value of the claim.", "type": "string", "maxLength": 1024},
            },
        },
    })
}

/// The field manager of an applied object.
pub(crate) fn work_field_manager(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^work-agent", "default": "work-agent"})
}

/// The namespace of an add-on on its managed cluster.
pub(crate) fn install_namespace(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "default": "open-cluster-management-agent-addon",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// The namespace of an add-on on its managed cluster, or an empty string for the namespaces of the template.
pub(crate) fn agent_namespace(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "default": "open-cluster-management-agent-addon",
        "maxLength": 63,
        "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    })
}

/// Complete Kubernetes objects of any kind.
pub(crate) fn manifests(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "items": {
            "type": "object",
            "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    })
}

/// `clusterSelector` of a ManagedClusterSet, with its default.
pub(crate) fn cluster_selector(generator: &mut SchemaGenerator) -> Schema {
    with_default::<ClusterSelector>(generator, json!({"selectorType": "ExclusiveClusterSetLabel"}))
}

/// `installStrategy` of a ClusterManagementAddOn, with its default.
pub(crate) fn install_strategy(generator: &mut SchemaGenerator) -> Schema {
    with_default::<InstallStrategy>(generator, json!({"type": "Manual"}))
}

fn with_default<T: JsonSchema>(generator: &mut SchemaGenerator, default: Value) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    schema.insert("default".to_owned(), default);
    schema
}
