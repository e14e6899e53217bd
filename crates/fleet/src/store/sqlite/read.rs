//! Reads rows. Every function reads from the snapshot of its caller.

use std::sync::Arc;

use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params, params_from_iter};

use super::store_error;
use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource};
use crate::search::keys::condition_field;
use crate::search::sql::Dialect;
use crate::store::query::{self, COLUMNS, FROM, List, Statement};
use crate::store::rows::{self, AdapterRow, ResourceRow};
use crate::store::{
    Changed, Event, EventKind, LOG_LENGTH, Listing, Page, Pending, Query, Revision, StoreError,
};

/// Reads a time column.
pub(super) struct Micros(pub(super) Timestamp);

impl FromSql for Micros {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let micros = value.as_i64()?;
        Timestamp::from_microsecond(micros).map(Micros).map_err(|_| FromSqlError::OutOfRange(micros))
    }
}

impl ToSql for Micros {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_microsecond().into())
    }
}

/// Runs reads in one snapshot.
pub(super) fn snapshot<T>(
    connection: &Connection,
    read: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let transaction = connection.unchecked_transaction().map_err(store_error)?;
    read(&transaction)
}

/// The latest revision.
pub(super) fn revision(connection: &Connection) -> Result<Revision, StoreError> {
    feed(connection).map(|(revision, _)| revision)
}

fn feed(connection: &Connection) -> Result<(Revision, Revision), StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT revision, horizon FROM feed").map_err(store_error)?;
    statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?))).map_err(store_error)
}

pub(super) fn get(connection: &Connection, id: Id) -> Result<Option<Resource>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM {FROM} WHERE r.id = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement.query([id.to_string()]).map_err(store_error)?;
    rows.next().map_err(store_error)?.map(resource).transpose()
}

/// A resource from [`COLUMNS`].
pub(super) fn resource(row: &Row<'_>) -> Result<Resource, StoreError> {
    resource_row(row).map_err(store_error)?.resource()
}

fn resource_row<'a>(row: &'a Row<'_>) -> rusqlite::Result<ResourceRow<'a>> {
    Ok(ResourceRow {
        id: text(row, 0)?,
        kind: row.get(1)?,
        name: row.get(2)?,
        href: row.get(3)?,
        owner_id: optional_text(row, 4)?,
        owner_kind: row.get(5)?,
        owner_href: row.get(6)?,
        spec: text(row, 7)?,
        labels: text(row, 8)?,
        tenancy: text(row, 9)?,
        generation: row.get(10)?,
        created_time: instant(row, 11)?,
        created_by: row.get(12)?,
        updated_time: instant(row, 13)?,
        updated_by: row.get(14)?,
        deleted_time: optional_instant(row, 15)?,
        deleted_by: row.get(16)?,
        conditions: text(row, 17)?,
    })
}

fn text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    Ok(row.get_ref(column)?.as_str()?)
}

fn optional_text<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<Option<&'a str>> {
    Ok(row.get_ref(column)?.as_str_or_null()?)
}

fn instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(|Micros(instant)| instant)
}

fn optional_instant(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<Micros>>(column)?.map(|Micros(instant)| instant))
}

const ADAPTER_COLUMNS: &str = "adapter, last_report_time, observed_generation, conditions, data, metadata, created_time, \
                               last_updated_time";

/// The records of the adapters of a resource.
pub(super) fn adapters(connection: &Connection, id: Id) -> Result<Vec<AdapterRecord>, StoreError> {
    let sql =
        format!("SELECT {ADAPTER_COLUMNS} FROM adapter_statuses WHERE resource_id = ?1 ORDER BY adapter");
    records(connection, &sql, &[&id.to_string()])
}

fn records(
    connection: &Connection,
    sql: &str,
    parameters: &[&dyn ToSql],
) -> Result<Vec<AdapterRecord>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(parameters).map_err(store_error)?;
    let mut records = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        records.push(adapter_row(row).map_err(store_error)?.record()?);
    }
    Ok(records)
}

fn adapter_row<'a>(row: &'a Row<'_>) -> rusqlite::Result<AdapterRow<'a>> {
    Ok(AdapterRow {
        adapter: row.get(0)?,
        last_report_time: instant(row, 1)?,
        observed_generation: row.get(2)?,
        conditions: optional_text(row, 3)?,
        data: optional_text(row, 4)?,
        metadata: optional_text(row, 5)?,
        created_time: optional_instant(row, 6)?,
        last_updated_time: optional_instant(row, 7)?,
    })
}

pub(super) fn list(connection: &Connection, query: &Query) -> Result<Listing, StoreError> {
    let mut list = List::of(query);
    if let Some(kind) = list.kind_of_spec_key()
        && !rows_of(connection, &query::has_long_spec(kind, Dialect::Sqlite), |_| Ok(()))?.is_empty()
    {
        list = List::ByConditions(query);
    }
    let total = rows_of(connection, &list.total(Dialect::Sqlite), |row| row.get(0).map_err(store_error))?;
    let total = u64::try_from(total.first().copied().unwrap_or(0_i64)).unwrap_or_default();
    let items = match list.items(total, "", Dialect::Sqlite) {
        Some(items) => rows_of(connection, &items, resource)?,
        None => Vec::new(),
    };
    Ok(Listing { items, total, revision: revision(connection)? })
}

/// The rows of a statement.
fn rows_of<T>(
    connection: &Connection,
    statement: &Statement,
    read: impl Fn(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut prepared = connection.prepare_cached(&statement.sql).map_err(store_error)?;
    let mut rows = prepared.query(params_from_iter(&statement.parameters)).map_err(store_error)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        items.push(read(row)?);
    }
    Ok(items)
}

fn count(
    mut statement: rusqlite::CachedStatement<'_>,
    parameters: impl rusqlite::Params,
) -> Result<u64, StoreError> {
    let count: i64 = statement.query_row(parameters, |row| row.get(0)).map_err(store_error)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

pub(super) fn statuses(
    connection: &Connection,
    id: Id,
    page: Page,
) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
    let accepted = "adapter_statuses WHERE resource_id = ?1 AND observed_generation IS NOT NULL";
    let sql = format!("SELECT count(*) FROM {accepted}");
    let total = count(connection.prepare_cached(&sql).map_err(store_error)?, [id.to_string()])?;
    let sql = format!("SELECT {ADAPTER_COLUMNS} FROM {accepted} ORDER BY adapter LIMIT ?2 OFFSET ?3");
    let offset = i64::try_from(page.offset()).unwrap_or(i64::MAX);
    let records = records(connection, &sql, &[&id.to_string(), &page.size, &offset])?;
    Ok((records.into_iter().filter_map(|record| record.status).collect(), total))
}

pub(super) fn log(connection: &Connection, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError> {
    let id = id.to_string();
    let sql = "SELECT count(*) FROM (SELECT 1 FROM status_log WHERE resource_id = ?1 LIMIT ?2)";
    let length = i64::try_from(LOG_LENGTH).unwrap_or(i64::MAX);
    let total = count(connection.prepare_cached(sql).map_err(store_error)?, params![id, length])?;
    let (size, offset) = rows::log_page(page);
    let sql = "SELECT entry FROM status_log WHERE resource_id = ?1 ORDER BY number DESC LIMIT ?2 OFFSET ?3";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut rows = statement.query(params![id, size, offset]).map_err(store_error)?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        entries.push(rows::parse(text(row, 0).map_err(store_error)?)?);
    }
    Ok((entries, total))
}

pub(super) fn changes(connection: &Connection, since: Revision, limit: usize) -> Result<Changed, StoreError> {
    let (head, horizon) = feed(connection)?;
    if since < horizon || since > head {
        return Ok(Changed::Expired);
    }
    let mut events = present(connection, since, limit)?;
    events.extend(gone(connection, since, limit)?);
    Ok(rows::merged(events, limit, since, head))
}

/// Resources that were created or changed after a revision.
fn present(connection: &Connection, since: Revision, limit: usize) -> Result<Vec<Event>, StoreError> {
    between(connection, since, Revision::MAX, limit)
}

pub(super) fn existing(
    connection: &Connection,
    after: Revision,
    through: Revision,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let mut events = between(connection, after, through, limit)?;
    events.iter_mut().for_each(|event| event.kind = EventKind::Added);
    Ok(events)
}

fn between(
    connection: &Connection,
    after: Revision,
    through: Revision,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS}, s.revision, s.created_revision FROM resource_states s CROSS JOIN resources r ON r.id = s.resource_id \
         WHERE s.revision > ?1 AND s.revision <= ?2 ORDER BY s.revision LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![after, through, limit]).map_err(store_error)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let resource = resource(row)?;
        let created: Revision = row.get(19).map_err(store_error)?;
        let kind = if created > after { EventKind::Added } else { EventKind::Modified };
        let revision = row.get(18).map_err(store_error)?;
        events.push(Event { revision, kind, resource: Arc::new(resource) });
    }
    Ok(events)
}

/// Resources that were removed after a revision.
fn gone(connection: &Connection, since: Revision, limit: usize) -> Result<Vec<Event>, StoreError> {
    let sql = "SELECT revision, resource FROM tombstones WHERE revision > ?1 ORDER BY revision LIMIT ?2";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![since, limit]).map_err(store_error)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let resource = Arc::new(rows::parse(text(row, 1).map_err(store_error)?)?);
        events.push(Event { revision: row.get(0).map_err(store_error)?, kind: EventKind::Deleted, resource });
    }
    Ok(events)
}

pub(super) fn pending(connection: &Connection, condition: &str) -> Result<Vec<Pending>, StoreError> {
    let sql = "SELECT r.kind, r.deleted_time IS NOT NULL, s.conditions FROM resource_keys k \
               CROSS JOIN resources r ON r.id = k.resource_id CROSS JOIN resource_states s ON s.resource_id = r.id \
               WHERE k.field = ?1 AND k.value IN ('False', 'Unknown')";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let mut found = statement.query([condition_field(condition)]).map_err(store_error)?;
    let mut pending = Vec::new();
    while let Some(row) = found.next().map_err(store_error)? {
        let conditions = rows::conditions(text(row, 2).map_err(store_error)?)?;
        if let Some(since) = rows::transition_of(&conditions, condition) {
            pending.push((row.get(0).map_err(store_error)?, row.get(1).map_err(store_error)?, since));
        }
    }
    Ok(rows::pending(pending))
}

/// The first column of the first row, if there is one.
pub(super) fn first<T: FromSql>(
    connection: &Connection,
    sql: &str,
    parameters: &[&dyn ToSql],
) -> Result<Option<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    statement.query_row(parameters, |row| row.get(0)).optional().map_err(store_error)
}
