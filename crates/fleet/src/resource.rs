//! Resources with their conditions, and the statuses and reports of adapters. The types are those of the JSON API, with the same
//! names; their comments are the descriptions of the OpenAPI document.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bellwether_conditions::Status;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The ID of a resource: a UUID of version 7, so that later ones are greater.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Id(Uuid);

impl Id {
    /// A new ID for this time.
    pub fn at(now: Timestamp) -> Self {
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or_default();
        let context = uuid::timestamp::context::ContextV7::new();
        Self(Uuid::new_v7(uuid::Timestamp::from_unix(&context, seconds, nanoseconds)))
    }

    /// The bytes of the ID.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.into_bytes()
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

/// The text is not the canonical form of an ID: 36 characters, lower case.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ID: 36 characters, such as 01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d")]
pub struct InvalidId;

impl FromStr for Id {
    type Err = InvalidId;

    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let id = Uuid::try_parse(text).map(Self).map_err(|_| InvalidId)?;
        if id.to_string() == text { Ok(id) } else { Err(InvalidId) }
    }
}

fn status_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": [Status::True, Status::False, Status::Unknown] })
}

/// The tenant of a resource: dimensions and their values. It is empty if tenancy is disabled.
pub type Tenancy = BTreeMap<String, String>;

/// A cluster, a node pool, or another kind that the configuration declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    /// The ID of the resource.
    pub id: Id,
    /// The kind, such as `Cluster`.
    pub kind: String,
    /// The name, which is unique among resources of the kind that are not being deleted.
    pub name: String,
    /// The path of the resource.
    pub href: String,
    /// The resource that owns this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OwnerReference")]
    pub owner_references: Option<OwnerReference>,
    /// The desired state.
    pub spec: Map<String, Value>,
    /// The labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The tenant.
    #[serde(default)]
    pub tenancy: Tenancy,
    /// The number of the current desired state. It starts with 1, and is incremented by every change.
    pub generation: i64,
    /// When the resource was created.
    pub created_time: Timestamp,
    /// The caller that created it.
    pub created_by: String,
    /// When the desired state was last changed.
    pub updated_time: Timestamp,
    /// The caller that last changed it.
    pub updated_by: String,
    /// When the deletion was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub deleted_time: Option<Timestamp>,
    /// The caller that requested the deletion.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub deleted_by: Option<String>,
    /// The observed state.
    #[serde(default)]
    pub status: ResourceStatus,
}

impl Resource {
    /// Whether the resource is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deleted_time.is_some()
    }

    /// The ID of the owner, if there is one.
    pub fn owner(&self) -> Option<Id> {
        self.owner_references.as_ref().map(|owner| owner.id)
    }
}

/// A reference to the resource that owns another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerReference {
    /// The ID of the owner.
    pub id: Id,
    /// The kind of the owner.
    pub kind: String,
    /// The path of the owner.
    pub href: String,
}

/// The observed state of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceStatus {
    /// The conditions, one of each type: the two combined ones, one for each required adapter that has reported, and those that the
    /// configuration adds.
    pub conditions: Vec<ResourceCondition>,
}

/// A condition of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status of the condition.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// The cause, as one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// The cause, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// The generation that the condition is about.
    pub observed_generation: i64,
    /// When the condition was first set.
    pub created_time: Timestamp,
    /// The time of the oldest report that the condition is computed from.
    pub last_updated_time: Timestamp,
    /// When the status last changed.
    pub last_transition_time: Timestamp,
}

/// A report of an adapter, as it was received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The name of the adapter.
    pub adapter: String,
    /// The generation that the adapter observed.
    pub observed_generation: i64,
    /// When the adapter observed it.
    pub observed_time: Timestamp,
    /// The reported conditions.
    pub conditions: Vec<ReportedCondition>,
    /// Further data of the adapter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// Information about the job that produced the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A condition as an adapter reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status of the condition.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// The cause, as one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// The cause, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
}

/// The last accepted report of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterStatus {
    /// The name of the adapter.
    pub adapter: String,
    /// The generation that the adapter observed.
    pub observed_generation: i64,
    /// The reported conditions.
    pub conditions: Vec<AdapterCondition>,
    /// Further data of the adapter.
    pub data: Map<String, Value>,
    /// Information about the job that produced the report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub metadata: Option<Map<String, Value>>,
    /// The observed time of the first accepted report.
    pub created_time: Timestamp,
    /// The observed time of the last accepted report.
    pub last_updated_time: Timestamp,
    /// The observed time of the last report, accepted or discarded.
    pub last_report_time: Timestamp,
}

/// A condition of an adapter's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterCondition {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// The status of the condition.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// The cause, as one CamelCase word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// The cause, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// When the status last changed.
    pub last_transition_time: Timestamp,
}

/// The stored record of an adapter of a resource: the time of its last report, and its last accepted report.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterRecord {
    /// The name of the adapter.
    pub adapter: String,
    /// The observed time of the last report, accepted or discarded.
    pub last_report_time: Timestamp,
    /// The last accepted report, with the same `last_report_time`.
    pub status: Option<AdapterStatus>,
}

/// An entry of the status log: a report and its verdict.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StatusLogEntry")]
pub struct LogEntry {
    /// When the report was received.
    pub received_time: Timestamp,
    /// The adapter that sent the report.
    pub adapter: String,
    /// Whether the report was accepted.
    pub verdict: Verdict,
    /// Why the report was discarded; empty for an accepted report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The generation of the resource when the report was received.
    pub generation: i64,
    /// The generation that the adapter observed.
    pub observed_generation: i64,
    /// When the adapter observed it.
    pub observed_time: Timestamp,
    /// The reported conditions.
    pub conditions: Vec<ReportedCondition>,
}

/// Whether a report was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// The report is the status of its adapter.
    Accepted,
    /// The report changed nothing.
    Discarded,
}
