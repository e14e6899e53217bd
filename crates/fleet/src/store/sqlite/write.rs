//! Writes rows. The statements of a batch are prepared before they are sent to the thread that writes them, so that nothing is shared.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::load::Trees;
use super::{read, store_error};
use crate::resource::{AdapterRecord, Id, LogEntry, Resource, ResourceCondition};
use crate::store::plan::{Plan, Standing, Step, plan};
use crate::store::rows::{self, SLICE, TRIM_EVERY};
use crate::store::{Changes, LOG_LENGTH, Revision, StoreError};

/// A statement, and the parameters of each execution.
type Bulk = (&'static str, Vec<Vec<Value>>);

/// All statements of a batch, in order.
pub(super) struct Rows {
    bulks: Vec<Bulk>,
    log: Vec<(Id, Vec<Value>)>,
    feed: Vec<Fed>,
}

/// The entry of the feed for a resource.
enum Fed {
    Created { id: String, kind: String },
    Updated { id: String },
    Removed { id: String, kind: String, resource: String },
}

impl Rows {
    pub(super) fn of(changes: &Changes, trees: &Trees) -> Result<Self, StoreError> {
        let plan = plan(changes, trees)?;
        Ok(Self { bulks: bulks(&plan)?, log: log(&plan)?, feed: feed(&plan)? })
    }
}

/// Removals come first, because a name may be released and used again in the same batch.
fn bulks(plan: &Plan<'_>) -> Result<Vec<Bulk>, StoreError> {
    let removed = plan.removed.iter().map(|resource| vec![text(resource.id)]).collect();
    let updated = plan.updated.iter().map(|resource| updated(resource)).collect::<Result<_, _>>()?;
    let created =
        plan.created.iter().map(|(resource, root)| created(resource, *root)).collect::<Result<_, _>>()?;
    let labels_gone = plan.labels_gone.iter().map(|(id, key)| vec![text(id), text(key)]).collect();
    let labels = plan.labels.iter().map(|(id, key, value)| vec![text(id), text(key), text(value)]).collect();
    let conditions_gone =
        plan.conditions_gone.iter().map(|(id, type_)| vec![text(id), text(type_)]).collect();
    let (same, other): (Vec<_>, Vec<_>) =
        plan.conditions.iter().copied().partition(|(.., standing)| *standing == Standing::Same);
    let refreshed = same.into_iter().map(|(id, _, is, _)| refreshed(id, is)).collect();
    let conditions = other.into_iter().map(|(id, position, is, _)| condition(id, position, is)).collect();
    let adapters = plan.adapters.iter().map(|(id, record)| adapter(*id, record)).collect::<Result<_, _>>()?;
    Ok(vec![
        ("DELETE FROM resources WHERE id = ?1", removed),
        (UPDATE, updated),
        (INSERT, created),
        ("DELETE FROM resource_labels WHERE resource_id = ?1 AND key = ?2", labels_gone),
        ("INSERT OR REPLACE INTO resource_labels (resource_id, key, value) VALUES (?1, ?2, ?3)", labels),
        ("DELETE FROM resource_conditions WHERE resource_id = ?1 AND type = ?2", conditions_gone),
        (REFRESH, refreshed),
        (CONDITION, conditions),
        (ADAPTER, adapters),
    ])
}

const INSERT: &str = "INSERT INTO resources (id, root_id, kind, name, href, owner_id, owner_kind, owner_href, spec, labels, \
    tenancy, generation, created_time, created_by, updated_time, updated_by, deleted_time, deleted_by) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

const UPDATE: &str = "UPDATE resources SET kind = ?2, name = ?3, href = ?4, owner_id = ?5, owner_kind = ?6, owner_href = ?7, \
    spec = ?8, labels = ?9, tenancy = ?10, generation = ?11, created_time = ?12, created_by = ?13, updated_time = ?14, \
    updated_by = ?15, deleted_time = ?16, deleted_by = ?17 WHERE id = ?1";

const CONDITION: &str = "INSERT INTO resource_conditions (resource_id, type, reason, message, \
    observed_generation, created_time, last_updated_time, last_transition_time, position, status) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT (resource_id, type) DO UPDATE SET \
    position = excluded.position, status = excluded.status, reason = excluded.reason, message = excluded.message, \
    observed_generation = excluded.observed_generation, created_time = excluded.created_time, \
    last_updated_time = excluded.last_updated_time, last_transition_time = excluded.last_transition_time";

/// SQLite rewrites an index whenever one of its columns is set, so that unchanged columns are not set.
const REFRESH: &str = "UPDATE resource_conditions SET reason = ?3, message = ?4, observed_generation = ?5, created_time = ?6, \
    last_updated_time = ?7, last_transition_time = ?8 WHERE resource_id = ?1 AND type = ?2";

const ADAPTER: &str = "INSERT OR REPLACE INTO adapter_statuses (resource_id, adapter, last_report_time, observed_generation, \
    conditions, data, metadata, created_time, last_updated_time) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";

fn created(resource: &Resource, root: Id) -> Result<Vec<Value>, StoreError> {
    let mut values = updated(resource)?;
    values.insert(1, text(root));
    Ok(values)
}

fn updated(resource: &Resource) -> Result<Vec<Value>, StoreError> {
    let owner = resource.owner_references.as_ref();
    Ok(vec![
        text(resource.id),
        text(&resource.kind),
        text(&resource.name),
        text(&resource.href),
        optional(owner.map(|owner| owner.id)),
        optional(owner.map(|owner| &owner.kind)),
        optional(owner.map(|owner| &owner.href)),
        rows::json(&resource.spec)?.into(),
        rows::json(&resource.labels)?.into(),
        rows::json(&resource.tenancy)?.into(),
        resource.generation.into(),
        instant(resource.created_time),
        text(&resource.created_by),
        instant(resource.updated_time),
        text(&resource.updated_by),
        resource.deleted_time.map_or(Value::Null, instant),
        optional(resource.deleted_by.as_ref()),
    ])
}

fn condition(id: Id, position: i16, condition: &ResourceCondition) -> Vec<Value> {
    let mut values = refreshed(id, condition);
    values.extend([i64::from(position).into(), text(condition.status.as_str())]);
    values
}

fn refreshed(id: Id, condition: &ResourceCondition) -> Vec<Value> {
    vec![
        text(id),
        text(&condition.type_),
        optional(condition.reason.as_ref()),
        optional(condition.message.as_ref()),
        condition.observed_generation.into(),
        instant(condition.created_time),
        instant(condition.last_updated_time),
        instant(condition.last_transition_time),
    ]
}

fn adapter(id: Id, record: &AdapterRecord) -> Result<Vec<Value>, StoreError> {
    let mut values = vec![text(id), text(&record.adapter), instant(record.last_report_time)];
    match &record.status {
        Some(status) => {
            let (conditions, data, metadata) = rows::status_json(status)?;
            values.extend([
                status.observed_generation.into(),
                conditions.into(),
                data.into(),
                optional(metadata),
            ]);
            values.extend([instant(status.created_time), instant(status.last_updated_time)]);
        }
        None => values.extend([const { Value::Null }; 6]),
    }
    Ok(values)
}

fn log(plan: &Plan<'_>) -> Result<Vec<(Id, Vec<Value>)>, StoreError> {
    let line = |id: Id, entry: &LogEntry| {
        Ok((id, vec![text(id), instant(entry.received_time), rows::log_json(entry)?.into()]))
    };
    plan.log.iter().map(|(id, entry)| line(*id, entry)).collect()
}

fn feed(plan: &Plan<'_>) -> Result<Vec<Fed>, StoreError> {
    let fed = |(step, resource): &(Step, &Resource)| {
        let (id, kind) = (resource.id.to_string(), resource.kind.clone());
        Ok(match step {
            Step::Created => Fed::Created { id, kind },
            Step::Updated => Fed::Updated { id },
            Step::Removed => Fed::Removed { id, kind, resource: rows::tombstone_json(resource)? },
        })
    };
    plan.feed.iter().map(fed).collect()
}

fn text(value: impl ToString) -> Value {
    Value::Text(value.to_string())
}

fn optional(value: Option<impl ToString>) -> Value {
    value.map_or(Value::Null, text)
}

fn instant(instant: Timestamp) -> Value {
    Value::Integer(instant.as_microsecond())
}

/// The connection that writes.
pub(super) struct Writer {
    connection: Connection,
    /// The number of new log entries per resource since its log was last trimmed.
    untrimmed: HashMap<Id, u32>,
}

impl Writer {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, untrimmed: HashMap::new() }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn begin(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(store_error)
    }

    /// Rolls back an open transaction. If that fails, the next transaction fails.
    pub(super) fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "cannot roll back a transaction of the fleet database");
        }
    }

    /// Writes a batch in the open transaction, and commits it.
    pub(super) fn commit(&mut self, rows: Rows) -> Result<Revision, StoreError> {
        for (sql, values) in rows.bulks {
            self.run(sql, &values)?;
        }
        self.append(rows.log)?;
        let head = self.tell(&rows.feed)?;
        self.connection.execute_batch("COMMIT").map_err(store_error)?;
        Ok(head)
    }

    /// Executes a statement for each set of parameters.
    fn run(&self, sql: &str, values: &[Vec<Value>]) -> Result<(), StoreError> {
        if values.is_empty() {
            return Ok(());
        }
        let mut statement = self.connection.prepare_cached(sql).map_err(store_error)?;
        for values in values {
            statement.execute(params_from_iter(values)).map_err(store_error)?;
        }
        Ok(())
    }

    fn append(&mut self, log: Vec<(Id, Vec<Value>)>) -> Result<(), StoreError> {
        let sql = "INSERT INTO status_log (resource_id, received_time, entry) VALUES (?1, ?2, ?3)";
        let mut long = Vec::new();
        let mut statement = self.connection.prepare_cached(sql).map_err(store_error)?;
        for (id, values) in log {
            statement.execute(params_from_iter(values)).map_err(store_error)?;
            let lines = self.untrimmed.entry(id).or_default();
            *lines += 1;
            if *lines >= TRIM_EVERY {
                self.untrimmed.remove(&id);
                long.push(id);
            }
        }
        drop(statement);
        long.into_iter().try_for_each(|id| self.trim(id))
    }

    fn trim(&self, id: Id) -> Result<(), StoreError> {
        let sql = "DELETE FROM status_log WHERE resource_id = ?1 AND id <= \
                   (SELECT id FROM status_log WHERE resource_id = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)";
        let length = i64::try_from(LOG_LENGTH).unwrap_or(i64::MAX);
        self.run(sql, &[vec![text(id), length.into()]])
    }

    /// Assigns a revision to every change, and returns the last one.
    fn tell(&self, feed: &[Fed]) -> Result<Revision, StoreError> {
        let mut revision = read::revision(&self.connection)?;
        if feed.is_empty() {
            return Ok(revision);
        }
        for fed in feed {
            revision += 1;
            self.tell_one(fed, revision)?;
        }
        self.run("UPDATE feed SET revision = ?1", &[vec![revision.into()]])?;
        Ok(revision)
    }

    fn tell_one(&self, fed: &Fed, revision: Revision) -> Result<(), StoreError> {
        let prepare = |sql| self.connection.prepare_cached(sql);
        let written = match fed {
            Fed::Created { id, kind } => prepare(
                "INSERT INTO resource_revisions (resource_id, kind, created_revision, revision) VALUES (?1, ?2, ?3, ?3)",
            )
            .and_then(|mut statement| statement.execute(params![id, kind, revision])),
            Fed::Updated { id } => prepare("UPDATE resource_revisions SET revision = ?2 WHERE resource_id = ?1")
                .and_then(|mut statement| statement.execute(params![id, revision])),
            Fed::Removed { id, kind, resource } => prepare(
                "INSERT INTO tombstones (revision, resource_id, kind, resource) VALUES (?1, ?2, ?3, ?4)",
            )
            .and_then(|mut statement| statement.execute(params![revision, id, kind, resource])),
        };
        written.map(|_| ()).map_err(store_error)
    }

    /// Removes a limited number of expired rows, and returns whether there are more.
    pub(super) fn prune(&mut self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError> {
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(store_error)?;
        let sql = "DELETE FROM status_log WHERE id IN (SELECT id FROM status_log WHERE received_time < ?1 LIMIT ?2)";
        let lines =
            self.connection.execute(sql, params![read::Micros(log_before), SLICE]).map_err(store_error)?;
        let removals = self.forget(tombstones)?;
        self.connection.execute_batch("COMMIT").map_err(store_error)?;
        Ok([lines, removals].iter().any(|count| i64::try_from(*count).is_ok_and(|count| count >= SLICE)))
    }

    /// Removes a limited number of the oldest deletions, except the newest `keep`, and stores up to which revision.
    fn forget(&self, keep: u64) -> Result<usize, StoreError> {
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        let sql = "SELECT max(revision) FROM (SELECT revision FROM tombstones WHERE revision <= \
                   (SELECT revision FROM tombstones ORDER BY revision DESC LIMIT 1 OFFSET ?1) \
                   ORDER BY revision LIMIT ?2)";
        let Some(Some(last)) = read::first::<Option<Revision>>(&self.connection, sql, &[&keep, &SLICE])?
        else {
            return Ok(0);
        };
        let forgotten = self.connection.execute("DELETE FROM tombstones WHERE revision <= ?1", [last]);
        self.run("UPDATE feed SET horizon = ?1", &[vec![last.into()]])?;
        forgotten.map_err(store_error)
    }
}
