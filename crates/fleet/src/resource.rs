//! What the fleet API keeps: resources with their conditions, and what adapters said of them. The types are those of the
//! wire, by the names they have there.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bellwether_conditions::Status;
use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

/// The id of a resource: a UUID of version 7, so that later ones are greater.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Id(Uuid);

impl Id {
    /// An id made at this instant.
    pub fn at(now: Timestamp) -> Self {
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let nanoseconds = u32::try_from(now.subsec_nanosecond()).unwrap_or_default();
        let context = uuid::timestamp::context::ContextV7::new();
        Self(Uuid::new_v7(uuid::Timestamp::from_unix(&context, seconds, nanoseconds)))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(formatter)
    }
}

/// Not the canonical form of an id: 36 characters, lower case.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an id: 36 characters, such as 01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d")]
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

/// Whose a resource is: the dimensions of a tenant and their values. Empty where there are no tenants.
pub type Tenancy = BTreeMap<String, String>;

/// A cluster, a node pool, or another kind that the configuration declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resource {
    /// Its id.
    pub id: Id,
    /// Its kind, such as `Cluster`.
    pub kind: String,
    /// Its name, unique among those of its kind that are not being deleted.
    pub name: String,
    /// Its path.
    pub href: String,
    /// The resource it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OwnerReference")]
    pub owner_references: Option<OwnerReference>,
    /// What is wanted of it.
    pub spec: Map<String, Value>,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Whose it is.
    #[serde(default)]
    pub tenancy: Tenancy,
    /// How often what is wanted has changed, from 1.
    pub generation: i64,
    /// When it was made.
    pub created_time: Timestamp,
    /// By whom.
    pub created_by: String,
    /// When what is wanted last changed.
    pub updated_time: Timestamp,
    /// By whom.
    pub updated_by: String,
    /// Since when it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Timestamp")]
    pub deleted_time: Option<Timestamp>,
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub deleted_by: Option<String>,
    /// How it is.
    #[serde(default)]
    pub status: ResourceStatus,
}

impl Resource {
    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.deleted_time.is_some()
    }

    /// Its owner, if it has one.
    pub fn owner(&self) -> Option<Id> {
        self.owner_references.as_ref().map(|owner| owner.id)
    }
}

/// The resource that another belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OwnerReference {
    /// Its id.
    pub id: Id,
    /// Its kind.
    pub kind: String,
    /// Its path.
    pub href: String,
}

/// How a resource is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceStatus {
    /// Its conditions, one of each type: the two of the whole, one for each required adapter that reported, and those that
    /// the configuration adds.
    pub conditions: Vec<ResourceCondition>,
}

/// One condition of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// Why, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// The generation that it speaks of.
    pub observed_generation: i64,
    /// When it first was.
    pub created_time: Timestamp,
    /// The oldest report that it rests on.
    pub last_updated_time: Timestamp,
    /// When its status last changed.
    pub last_transition_time: Timestamp,
}

/// What an adapter reports of a resource, as it came in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Which adapter.
    pub adapter: String,
    /// The generation it looked at.
    pub observed_generation: i64,
    /// When it looked.
    pub observed_time: Timestamp,
    /// What it found.
    pub conditions: Vec<ReportedCondition>,
    /// What else it wants known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Map<String, Value>>,
    /// Of the work behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
}

/// A condition as an adapter reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
}

/// The last accepted report of an adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterStatus {
    /// Which adapter.
    pub adapter: String,
    /// The generation it looked at.
    pub observed_generation: i64,
    /// What it found.
    pub conditions: Vec<AdapterCondition>,
    /// What else it wants known.
    pub data: Map<String, Value>,
    /// Of the work behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Map<String, Value>")]
    pub metadata: Option<Map<String, Value>>,
    /// When it looked for the first report that was accepted.
    pub created_time: Timestamp,
    /// When it looked for the last report that was accepted.
    pub last_updated_time: Timestamp,
    /// When it looked for the last report, accepted or not.
    pub last_report_time: Timestamp,
}

/// A condition of an adapter's status.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterCondition {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether it holds.
    #[schemars(schema_with = "status_schema")]
    pub status: Status,
    /// Why, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub reason: Option<String>,
    /// Why, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
    /// When its status last changed.
    pub last_transition_time: Timestamp,
}

/// What is kept of one adapter of a resource: that it was heard, and its last accepted report if there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct AdapterRecord {
    /// Which adapter.
    pub adapter: String,
    /// When it looked for the last report, accepted or not.
    pub last_report_time: Timestamp,
    /// Its last accepted report; its `last_report_time` is the same.
    pub status: Option<AdapterStatus>,
}

/// One line of the status log: a report and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StatusLogEntry")]
pub struct LogEntry {
    /// When the report came in.
    pub received_time: Timestamp,
    /// Which adapter sent it.
    pub adapter: String,
    /// What became of it.
    pub verdict: Verdict,
    /// Why, in words; empty for an accepted one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// The generation of the resource when it came in.
    pub generation: i64,
    /// The generation the adapter looked at.
    pub observed_generation: i64,
    /// When the adapter looked.
    pub observed_time: Timestamp,
    /// What it found.
    pub conditions: Vec<ReportedCondition>,
}

/// What became of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// It is now the status of its adapter.
    Accepted,
    /// It changed nothing.
    Discarded,
}
