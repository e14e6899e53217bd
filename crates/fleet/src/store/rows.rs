//! The rows of resources that both databases share: order of columns, times, and JSON.

use std::borrow::Cow;

use bellwether_conditions::Status;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Changed, Event, LOG_LENGTH, Page, Pending, Revision, StoreError};
use crate::resource::{
    AdapterCondition, AdapterRecord, AdapterStatus, Id, LogEntry, OwnerReference, Resource,
    ResourceCondition, ResourceStatus,
};

/// The maximum number of rows that one call of `prune` removes.
pub(super) const SLICE: i64 = 1000;
/// The log of a resource is trimmed after this many new entries.
pub(super) const TRIM_EVERY: i64 = 100;

/// A time in microseconds, as both databases store it.
pub(super) fn kept(instant: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(instant.as_microsecond()).unwrap_or(instant)
}

/// A value as JSON text.
pub(super) fn json<T: Serialize + ?Sized>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|error| StoreError::Failed(format!("cannot be written as JSON: {error}")))
}

/// A value from JSON text.
pub(super) fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(text)
        .map_err(|error| StoreError::Failed(format!("JSON that cannot be read: {error}")))
}

/// Parses an ID column.
pub(super) fn id(text: &str) -> Result<Id, StoreError> {
    text.parse().map_err(|error| StoreError::Failed(format!("{text:?}: {error}")))
}

/// The text columns of a resource, as read.
pub(super) struct ResourceRow<'a> {
    pub(super) id: &'a str,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) href: String,
    pub(super) owner_id: Option<&'a str>,
    pub(super) owner_kind: Option<String>,
    pub(super) owner_href: Option<String>,
    pub(super) spec: &'a str,
    pub(super) labels: &'a str,
    pub(super) tenancy: &'a str,
    pub(super) generation: i64,
    pub(super) created_time: Timestamp,
    pub(super) created_by: String,
    pub(super) updated_time: Timestamp,
    pub(super) updated_by: String,
    pub(super) deleted_time: Option<Timestamp>,
    pub(super) deleted_by: Option<String>,
    pub(super) conditions: &'a str,
}

impl ResourceRow<'_> {
    pub(super) fn resource(self) -> Result<Resource, StoreError> {
        let owner_references = match (self.owner_id, self.owner_kind, self.owner_href) {
            (Some(owner), Some(kind), Some(href)) => Some(OwnerReference { id: id(owner)?, kind, href }),
            _ => None,
        };
        Ok(Resource {
            id: id(self.id)?,
            kind: self.kind,
            name: self.name,
            href: self.href,
            owner_references,
            spec: parse(self.spec)?,
            labels: parse(self.labels)?,
            tenancy: parse(self.tenancy)?,
            generation: self.generation,
            created_time: self.created_time,
            created_by: self.created_by,
            updated_time: self.updated_time,
            updated_by: self.updated_by,
            deleted_time: self.deleted_time,
            deleted_by: self.deleted_by,
            status: ResourceStatus { conditions: conditions(self.conditions)? },
        })
    }
}

/// A stored condition: type, status, reason, message, observed generation, and the times of creation, last update and last transition
/// in microseconds. Searches use the positions.
type StoredCondition<'a> =
    (Cow<'a, str>, Cow<'a, str>, Option<Cow<'a, str>>, Option<Cow<'a, str>>, i64, i64, i64, i64);

fn stored_condition(condition: &ResourceCondition) -> StoredCondition<'_> {
    (
        condition.type_.as_str().into(),
        condition.status.as_str().into(),
        condition.reason.as_deref().map(Cow::from),
        condition.message.as_deref().map(Cow::from),
        condition.observed_generation,
        condition.created_time.as_microsecond(),
        condition.last_updated_time.as_microsecond(),
        condition.last_transition_time.as_microsecond(),
    )
}

/// The conditions of a resource as JSON.
pub(crate) fn conditions_json(conditions: &[ResourceCondition]) -> Result<String, StoreError> {
    json(&conditions.iter().map(stored_condition).collect::<Vec<_>>())
}

/// The conditions of a resource from JSON.
pub(super) fn conditions(text: &str) -> Result<Vec<ResourceCondition>, StoreError> {
    let stored: Vec<StoredCondition<'_>> = parse(text)?;
    let time = |micros| {
        Timestamp::from_microsecond(micros)
            .map_err(|error| StoreError::Failed(format!("a time that cannot be read: {error}")))
    };
    let condition = |stored: StoredCondition<'_>| {
        let (type_, status, reason, message, observed_generation, created, updated, transition) = stored;
        Ok(ResourceCondition {
            type_: type_.into_owned(),
            status: Status::as_read(&status),
            reason: reason.map(Cow::into_owned),
            message: message.map(Cow::into_owned),
            observed_generation,
            created_time: time(created)?,
            last_updated_time: time(updated)?,
            last_transition_time: time(transition)?,
        })
    };
    stored.into_iter().map(condition).collect()
}

/// The time since which a condition has its status.
pub(super) fn transition_of(conditions: &[ResourceCondition], type_: &str) -> Option<Timestamp> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_)
        .map(|condition| condition.last_transition_time)
}

/// The columns of an adapter's record, as read. All but the first two are NULL until a report is accepted.
pub(super) struct AdapterRow<'a> {
    pub(super) adapter: String,
    pub(super) last_report_time: Timestamp,
    pub(super) observed_generation: Option<i64>,
    pub(super) conditions: Option<&'a str>,
    pub(super) data: Option<&'a str>,
    pub(super) metadata: Option<&'a str>,
    pub(super) created_time: Option<Timestamp>,
    pub(super) last_updated_time: Option<Timestamp>,
}

impl AdapterRow<'_> {
    pub(super) fn record(self) -> Result<AdapterRecord, StoreError> {
        let accepted =
            (self.observed_generation, self.conditions, self.data, self.created_time, self.last_updated_time);
        let status = match accepted {
            (Some(generation), Some(conditions), Some(data), Some(created), Some(updated)) => {
                Some(AdapterStatus {
                    adapter: self.adapter.clone(),
                    observed_generation: generation,
                    conditions: parse(conditions)?,
                    data: parse(data)?,
                    metadata: self.metadata.map(parse).transpose()?,
                    created_time: created,
                    last_updated_time: updated,
                    last_report_time: self.last_report_time,
                })
            }
            _ => None,
        };
        Ok(AdapterRecord { adapter: self.adapter, last_report_time: self.last_report_time, status })
    }
}

/// The JSON columns of an accepted report: conditions, data and metadata.
pub(super) fn status_json(status: &AdapterStatus) -> Result<(String, String, Option<String>), StoreError> {
    let kept_condition = |condition: &AdapterCondition| AdapterCondition {
        last_transition_time: kept(condition.last_transition_time),
        ..condition.clone()
    };
    let conditions: Vec<_> = status.conditions.iter().map(kept_condition).collect();
    Ok((json(&conditions)?, json(&status.data)?, status.metadata.as_ref().map(json).transpose()?))
}

/// A log entry as JSON.
pub(super) fn log_json(entry: &LogEntry) -> Result<String, StoreError> {
    json(&LogEntry {
        received_time: kept(entry.received_time),
        observed_time: kept(entry.observed_time),
        ..entry.clone()
    })
}

/// The last state of a resource as JSON.
pub(super) fn tombstone_json(resource: &Resource) -> Result<String, StoreError> {
    let mut resource = resource.clone();
    resource.created_time = kept(resource.created_time);
    resource.updated_time = kept(resource.updated_time);
    resource.deleted_time = resource.deleted_time.map(kept);
    for condition in &mut resource.status.conditions {
        condition.created_time = kept(condition.created_time);
        condition.last_updated_time = kept(condition.last_updated_time);
        condition.last_transition_time = kept(condition.last_transition_time);
    }
    json(&resource)
}

/// Merges the changes of existing resources and of removed ones, each at most `limit` and in order.
pub(super) fn merged(mut events: Vec<Event>, limit: usize, since: Revision, head: Revision) -> Changed {
    events.sort_by_key(|event| event.revision);
    let cut = events.len() >= limit;
    events.truncate(limit);
    let last = events.last().map_or(since, |event| event.revision);
    Changed::Since { events, through: if cut { last } else { head } }
}

/// The limit and offset of a page of the log.
pub(super) fn log_page(page: Page) -> (i64, i64) {
    let offset = page.offset().min(LOG_LENGTH);
    let size = u64::from(page.size).min(LOG_LENGTH - offset);
    (i64::try_from(size).unwrap_or_default(), i64::try_from(offset).unwrap_or(i64::MAX))
}

/// Groups pending resources.
pub(super) fn pending(mut rows: Vec<(String, bool, Timestamp)>) -> Vec<Pending> {
    rows.sort();
    let mut groups: Vec<Pending> = Vec::new();
    for (kind, deleting, since) in rows {
        match groups.last_mut() {
            Some(group) if group.kind == kind && group.deleting == deleting => group.since.push(since),
            _ => groups.push(Pending { kind, deleting, since: vec![since] }),
        }
    }
    groups
}
