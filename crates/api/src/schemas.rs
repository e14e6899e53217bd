//! Schemas that say more than their Rust type can.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use crate::addon::InstallStrategy;
use crate::cluster::ClusterSelector;

/// The conditions of an object, judged as Kubernetes judges its own, and merged by type: each writer owns its own.
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
                    "description": "When the status last changed.",
                    "type": "string",
                    "format": "date-time",
                },
                "message": {
                    "description": "The details, for people.",
                    "type": "string",
                    "maxLength": 32768,
                },
                "observedGeneration": {
                    "description": "The generation of the object that the condition was set upon.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "reason": {
                    "description": "Why it is so, in one word for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {
                    "description": "Whether it is so.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "type": {
                    "description": "Which aspect.",
                    "type": "string",
                    "maxLength": 316,
                    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
                },
            },
        },
    })
}

/// A period that is filled in where a spec leaves it out.
pub(crate) fn heartbeat_update_period(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "default": "10s"})
}

/// How an add-on may be installed.
pub(crate) fn install_type(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "enum": ["OLMOwnNamespace", "OLMAllNamespaces", "External"]})
}

/// An object of which nothing is known.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// A kind of words, one of which is filled in where it is left out.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident = [$($word:literal),+] $(, default $default:literal)?;)+) => {$(
        $(#[$doc])*
        pub(crate) fn $name(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "string", "enum": [$($word),+] $(, "default": $default)?})
        }
    )+};
}

words! {
    /// Whether a policy is all that counts.
    prioritizer_mode = ["Exact", "Additive"], default "Additive";
    /// Who gives a score.
    score_type = ["BuiltIn", "AddOn"], default "BuiltIn";
    /// How a toleration compares.
    toleration_operator = ["Equal", "Exists"], default "Equal";
    /// Whether objects go with their work.
    work_propagation = ["Foreground", "Orphan", "SelectivelyOrphan"], default "Foreground";
    /// How feedback is found.
    feedback_type = ["WellKnownStatus", "JSONPaths"];
    /// How an object is written.
    update_type = ["Update", "CreateOnly", "ServerSideApply", "ReadOnly"], default "Update";
    /// The type of a value.
    value_type = ["Integer", "String", "Boolean", "JsonRaw"];
    /// The way a change goes from cluster to cluster.
    rollout_type = ["All", "Progressive", "ProgressivePerGroup"], default "All";
    /// When a cluster counts as changed.
    success_criteria = ["Applied", "WorkloadAvailable", "Healthy"], default "Applied";
}

/// A version: it becomes the value of a label.
pub(crate) fn version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 63,
        "pattern": "^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    })
}

/// A version, or nothing.
pub(crate) fn optional_version(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 63, "pattern": "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"})
}

/// A number, or so many of a hundred.
pub(crate) fn count_or_percentage(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": true,
        "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$",
    })
}

/// How long a cluster must have been well.
pub(crate) fn soak(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([0-9]+(h|m|s|ms))+$|^0$", "maxLength": 32})
}

/// How long a cluster may take.
pub(crate) fn deadline(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^([0-9]+(h|m|s))+$|^None$", "maxLength": 32})
}

/// How much something counts.
pub(crate) fn weight(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": -10, "maximum": 10, "default": 1})
}

/// How long a lease lasts.
pub(crate) fn lease_duration(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int32", "minimum": 1, "default": 60})
}

/// Bytes, in base64.
pub(crate) fn bytes(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "format": "byte"})
}

/// A text that may be left out, also where it is a key of a list.
pub(crate) fn text_or_none(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "default": ""})
}

/// The value of a variable.
pub(crate) fn variable_value(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": 1024})
}

/// Claims by their names.
pub(crate) fn named_values(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object",
            "description": "Something that the cluster claims of itself.",
            "required": ["name"],
            "properties": {
                "name": {"description": "What it is about.", "type": "string", "maxLength": 253, "minLength": 1},
                "value": {"description": "What is claimed.", "type": "string", "maxLength": 1024},
            },
        },
    })
}

/// The name by which fields are owned.
pub(crate) fn work_agent_manager(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "pattern": "^work-agent", "default": "work-agent"})
}

/// The namespace of an add-on on its cluster.
pub(crate) fn install_namespace(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "default": "open-cluster-management-agent-addon",
        "maxLength": 63,
        "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    })
}

/// The namespace of an add-on on its cluster; the template's own, if it is empty.
pub(crate) fn agent_namespace(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "string",
        "default": "open-cluster-management-agent-addon",
        "maxLength": 63,
        "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    })
}

/// Whole objects of any kind.
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

/// By what clusters are in a set, where nobody says.
pub(crate) fn cluster_selector(generator: &mut SchemaGenerator) -> Schema {
    with_default::<ClusterSelector>(generator, json!({"selectorType": "ExclusiveClusterSetLabel"}))
}

/// Where an add-on goes, where nobody says.
pub(crate) fn install_strategy(generator: &mut SchemaGenerator) -> Schema {
    with_default::<InstallStrategy>(generator, json!({"type": "Manual"}))
}

fn with_default<T: JsonSchema>(generator: &mut SchemaGenerator, default: Value) -> Schema {
    let mut schema = generator.subschema_for::<T>();
    schema.insert("default".to_owned(), default);
    schema
}
