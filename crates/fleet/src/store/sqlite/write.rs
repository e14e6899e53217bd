//! Writes rows. The statements of a batch are prepared before they are sent to the thread that writes them, so that nothing is shared.

use jiff::Timestamp;
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::{read, store_error};
use crate::resource::{AdapterRecord, Id, LogEntry, Resource};
use crate::search::keys::{Key, keys};
use crate::store::plan::{Plan, StateChange, Step, StoredById, plan};
use crate::store::query::{COLUMNS, FROM};
use crate::store::rows::{self, SLICE, TRIM_EVERY};
use crate::store::{Changes, LOG_LENGTH, Revision, StoreError};

/// A statement, and the parameters of each execution.
type Bulk = (&'static str, Vec<Vec<Value>>);

/// All statements of a batch, in order.
pub(super) struct Rows {
    bulks: Vec<Bulk>,
    /// The parameters of [`STATE`]; the first one is the position in the feed.
    states: Vec<Vec<Value>>,
    feed: Vec<Fed>,
}

/// The entry of the feed for a resource.
enum Fed {
    Created {
        id: String,
        conditions: String,
    },
    /// Its state is updated.
    Updated,
    Removed {
        id: String,
        kind: String,
        resource: String,
    },
}

impl Rows {
    pub(super) fn of(changes: &Changes, stored: &StoredById) -> Result<Self, StoreError> {
        let plan = plan(changes, stored)?;
        let states = plan.states.iter().map(state).collect::<Result<_, _>>()?;
        Ok(Self { bulks: bulks(&plan)?, states, feed: feed(&plan)? })
    }
}

/// Removals come first, because a name may be released and used again in the same batch.
fn bulks(plan: &Plan<'_>) -> Result<Vec<Bulk>, StoreError> {
    let removed = || plan.removed.iter().map(|resource| vec![text(resource.id)]).collect();
    let updated = plan.updated.iter().map(|resource| updated(resource)).collect::<Result<_, _>>()?;
    let created =
        plan.created.iter().map(|(resource, root)| created(resource, *root)).collect::<Result<_, _>>()?;
    let keys =
        |keys: &[(&Resource, Key)]| keys.iter().map(|(resource, key)| key_row(resource, key)).collect();
    let adapters = plan.adapters.iter().map(|(id, record)| adapter(*id, record)).collect::<Result<_, _>>()?;
    let log = plan.log.iter().map(|(id, number, entry)| log_entry(*id, *number, entry));
    let length = i64::try_from(LOG_LENGTH).unwrap_or(i64::MAX);
    let trimmed = plan.log.iter().filter(|(_, number, _)| number % TRIM_EVERY == 0 && *number > length);
    Ok(vec![
        ("DELETE FROM adapter_statuses WHERE resource_id = ?1", removed()),
        ("DELETE FROM status_log WHERE resource_id = ?1", removed()),
        ("DELETE FROM resource_states WHERE resource_id = ?1", removed()),
        ("DELETE FROM resources WHERE id = ?1", removed()),
        (UPDATE, updated),
        (INSERT, created),
        (DELETE_KEY, keys(&plan.keys_gone)),
        (INSERT_KEY, keys(&plan.keys)),
        (ADAPTER, adapters),
        (
            "INSERT INTO status_log (resource_id, number, received_time, entry) VALUES (?1, ?2, ?3, ?4)",
            log.collect::<Result<_, _>>()?,
        ),
        (
            "DELETE FROM status_log WHERE resource_id = ?1 AND number <= ?2",
            trimmed.map(|(id, number, _)| vec![text(id), (number - length).into()]).collect(),
        ),
    ])
}

const INSERT_KEY: &str =
    "INSERT INTO resource_keys (field, value, kind, created_time, resource_id) VALUES (?1, ?2, ?3, ?4, ?5)";

const DELETE_KEY: &str = "DELETE FROM resource_keys WHERE field = ?1 AND value = ?2 AND kind = ?3 AND created_time = ?4 \
    AND resource_id = ?5";

/// SQLite rewrites an index whenever one of its columns is set, so that an unchanged revision is not set.
const STATE: &str = "UPDATE resource_states SET revision = ?1, conditions = coalesce(?3, conditions), \
    logged = coalesce(?4, logged) WHERE resource_id = ?2";

const LOGGED: &str = "UPDATE resource_states SET logged = ?2 WHERE resource_id = ?1";

const INSERT: &str = "INSERT INTO resources (id, root_id, kind, name, href, owner_id, owner_kind, owner_href, spec, labels, \
    tenancy, generation, created_time, created_by, updated_time, updated_by, deleted_time, deleted_by) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)";

const UPDATE: &str = "UPDATE resources SET kind = ?2, name = ?3, href = ?4, owner_id = ?5, owner_kind = ?6, owner_href = ?7, \
    spec = ?8, labels = ?9, tenancy = ?10, generation = ?11, created_time = ?12, created_by = ?13, updated_time = ?14, \
    updated_by = ?15, deleted_time = ?16, deleted_by = ?17 WHERE id = ?1";

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

fn key_row(resource: &Resource, key: &Key) -> Vec<Value> {
    vec![
        text(&key.field),
        text(&key.value),
        text(&resource.kind),
        instant(resource.created_time),
        text(resource.id),
    ]
}

/// The parameters of [`STATE`].
fn state(change: &StateChange<'_>) -> Result<Vec<Value>, StoreError> {
    let conditions = change.conditions.map(rows::conditions_json).transpose()?;
    Ok(vec![
        change.position.map_or(Value::Null, Value::Integer),
        text(change.id),
        optional(conditions),
        change.logged.map_or(Value::Null, Value::Integer),
    ])
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

fn log_entry(id: Id, number: i64, entry: &LogEntry) -> Result<Vec<Value>, StoreError> {
    Ok(vec![text(id), number.into(), instant(entry.received_time), rows::log_json(entry)?.into()])
}

fn feed(plan: &Plan<'_>) -> Result<Vec<Fed>, StoreError> {
    let fed = |(step, resource): &(Step, &Resource)| {
        let id = resource.id.to_string();
        Ok(match step {
            Step::Created => {
                Fed::Created { id, conditions: rows::conditions_json(&resource.status.conditions)? }
            }
            Step::Updated => Fed::Updated,
            Step::Removed => {
                Fed::Removed { id, kind: resource.kind.clone(), resource: rows::tombstone_json(resource)? }
            }
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

/// Writes the keys of all resources.
pub(super) fn write_all_keys(connection: &Connection) -> Result<(), StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM}");
    let mut resources = connection.prepare(&sql).map_err(store_error)?;
    let mut resources = resources.query([]).map_err(store_error)?;
    let mut insert = connection.prepare(INSERT_KEY).map_err(store_error)?;
    while let Some(row) = resources.next().map_err(store_error)? {
        let resource = read::resource(row)?;
        for key in keys(&resource) {
            insert.execute(params_from_iter(key_row(&resource, &key))).map_err(store_error)?;
        }
    }
    Ok(())
}

/// The connection that writes.
pub(super) struct Writer {
    connection: Connection,
}

impl Writer {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
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
        let head = self.assign_revisions(&rows.feed, rows.states)?;
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

    /// Assigns a revision to every change, writes the states, and returns the last revision.
    fn assign_revisions(&self, feed: &[Fed], mut states: Vec<Vec<Value>>) -> Result<Revision, StoreError> {
        let base = read::revision(&self.connection)?;
        let (mut changed, mut logged) = (Vec::new(), Vec::new());
        for mut state in states.drain(..) {
            match state.as_mut_slice() {
                [Value::Integer(position), ..] => {
                    *position += base;
                    changed.push(state);
                }
                [_, id, _, number] => logged.push(vec![std::mem::replace(id, Value::Null), number.clone()]),
                _ => {}
            }
        }
        self.run(STATE, &changed)?;
        let mut revision = base;
        for fed in feed {
            revision += 1;
            self.tell(fed, revision)?;
        }
        self.run(LOGGED, &logged)?;
        if revision > base {
            self.run("UPDATE feed SET revision = ?1", &[vec![revision.into()]])?;
        }
        Ok(revision)
    }

    /// Writes what is new in the feed, except states of resources that exist.
    fn tell(&self, fed: &Fed, revision: Revision) -> Result<(), StoreError> {
        let prepare = |sql| self.connection.prepare_cached(sql);
        let written = match fed {
            Fed::Created { id, conditions } => prepare(
                "INSERT INTO resource_states (resource_id, created_revision, revision, logged, conditions) \
                 VALUES (?1, ?2, ?2, 0, ?3)",
            )
            .and_then(|mut statement| statement.execute(params![id, revision, conditions])),
            Fed::Updated => return Ok(()),
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
        let sql = "DELETE FROM status_log WHERE (resource_id, number) IN \
                   (SELECT resource_id, number FROM status_log WHERE received_time < ?1 LIMIT ?2)";
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
