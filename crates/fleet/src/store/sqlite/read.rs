//! Reads rows. Every function reads from the snapshot of its caller.

use std::sync::Arc;

use bellwether_conditions::Status;
use jiff::Timestamp;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, ToSql, params, params_from_iter};

use super::store_error;
use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource, ResourceCondition};
use crate::search::sql::Dialect;
use crate::store::query::{self, COLUMNS};
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
    let sql = format!("SELECT {COLUMNS} FROM resources r WHERE r.id = ?1");
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let mut rows = statement.query([id.to_string()]).map_err(store_error)?;
    let Some(row) = rows.next().map_err(store_error)? else { return Ok(None) };
    let mut resource = resource(row)?;
    resource.status.conditions = conditions(connection, id)?;
    Ok(Some(resource))
}

/// A resource from [`COLUMNS`], without its conditions.
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

/// The conditions of a resource, in their order. Sorting a few rows here is cheaper than in SQL.
pub(super) fn conditions(connection: &Connection, id: Id) -> Result<Vec<ResourceCondition>, StoreError> {
    let sql = "SELECT type, status, reason, message, observed_generation, created_time, last_updated_time, \
               last_transition_time, position FROM resource_conditions WHERE resource_id = ?1";
    let placed = |row: &Row<'_>| Ok((row.get::<_, i64>(8)?, condition(row)?));
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let conditions = statement.query_map([id.to_string()], placed).map_err(store_error)?;
    let mut conditions = conditions.collect::<Result<Vec<_>, _>>().map_err(store_error)?;
    conditions.sort_by_key(|(position, _)| *position);
    Ok(conditions.into_iter().map(|(_, condition)| condition).collect())
}

fn condition(row: &Row<'_>) -> rusqlite::Result<ResourceCondition> {
    Ok(ResourceCondition {
        type_: row.get(0)?,
        status: Status::as_read(text(row, 1)?),
        reason: row.get(2)?,
        message: row.get(3)?,
        observed_generation: row.get(4)?,
        created_time: instant(row, 5)?,
        last_updated_time: instant(row, 6)?,
        last_transition_time: instant(row, 7)?,
    })
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
    let statements = query::list(query, Dialect::Sqlite);
    let parameters = params_from_iter(&statements.total.parameters);
    let total = connection.prepare_cached(&statements.total.sql).map_err(store_error)?;
    let total = count(total, parameters)?;
    let mut statement = connection.prepare_cached(&statements.items.sql).map_err(store_error)?;
    let mut rows = statement.query(params_from_iter(&statements.items.parameters)).map_err(store_error)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let mut item = resource(row)?;
        item.status.conditions = conditions(connection, item.id)?;
        items.push(item);
    }
    Ok(Listing { items, total, revision: revision(connection)? })
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
    let sql = "SELECT entry FROM status_log WHERE resource_id = ?1 ORDER BY id DESC LIMIT ?2 OFFSET ?3";
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
        "SELECT {COLUMNS}, v.revision, v.created_revision FROM resource_revisions v JOIN resources r ON r.id = v.resource_id \
         WHERE v.revision > ?1 AND v.revision <= ?2 ORDER BY v.revision LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&sql).map_err(store_error)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = statement.query(params![after, through, limit]).map_err(store_error)?;
    let mut events = Vec::new();
    while let Some(row) = rows.next().map_err(store_error)? {
        let mut resource = resource(row)?;
        resource.status.conditions = conditions(connection, resource.id)?;
        let created: Revision = row.get(18).map_err(store_error)?;
        let kind = if created > after { EventKind::Added } else { EventKind::Modified };
        let revision = row.get(17).map_err(store_error)?;
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
    let sql = "SELECT r.kind, r.deleted_time IS NOT NULL, c.last_transition_time FROM resource_conditions c \
               JOIN resources r ON r.id = c.resource_id WHERE c.type = ?1 AND c.status IN ('False', 'Unknown') \
               ORDER BY 1, 2, 3";
    let mut statement = connection.prepare_cached(sql).map_err(store_error)?;
    let rows = statement.query_map([condition], |row| Ok((row.get(0)?, row.get(1)?, instant(row, 2)?)));
    let rows = rows.map_err(store_error)?.collect::<Result<Vec<_>, _>>().map_err(store_error)?;
    Ok(rows::pending(rows))
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
