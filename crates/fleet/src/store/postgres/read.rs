//! Reads rows. Operations with several statements read from one snapshot.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, ToSql};

use super::connection::{Connection, Parameters, pipelined};
use super::json::JsonText;
use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource};
use crate::search::keys::condition_field;
use crate::search::sql::{Dialect, Parameter};
use crate::store::query::{self, COLUMNS, FROM, List, Statement};
use crate::store::rows::{self, AdapterRow, ResourceRow};
use crate::store::{
    Changed, Event, EventKind, LOG_LENGTH, Listing, Page, Pending, Query, Revision, StoreError,
};

pub(super) const FEED: &str = "SELECT revision, horizon FROM feed";

/// The column after [`COLUMNS`]: the spec, where JSONB does not store it exactly.
const EXACT: &str = ", r.spec_exact";

/// Reads a column.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, place: usize) -> Result<T, StoreError> {
    row.try_get(place).map_err(|error| StoreError::Failed(error.to_string()))
}

fn text(row: &Row, place: usize) -> Result<&str, StoreError> {
    column(row, place).map(|JsonText(text)| text)
}

fn optional_text(row: &Row, place: usize) -> Result<Option<&str>, StoreError> {
    Ok(column::<Option<JsonText<'_>>>(row, place)?.map(|JsonText(text)| text))
}

/// A resource from [`COLUMNS`] and [`EXACT`].
pub(super) fn resource(row: &Row) -> Result<Resource, StoreError> {
    let exact: Option<&str> = column(row, 18)?;
    let row = ResourceRow {
        id: column(row, 0)?,
        kind: column(row, 1)?,
        name: column(row, 2)?,
        href: column(row, 3)?,
        owner_id: column(row, 4)?,
        owner_kind: column(row, 5)?,
        owner_href: column(row, 6)?,
        spec: exact.map_or_else(|| text(row, 7), Ok)?,
        labels: text(row, 8)?,
        tenancy: column(row, 9)?,
        generation: column(row, 10)?,
        created_time: column(row, 11)?,
        created_by: column(row, 12)?,
        updated_time: column(row, 13)?,
        updated_by: column(row, 14)?,
        deleted_time: column(row, 15)?,
        deleted_by: column(row, 16)?,
        conditions: column(row, 17)?,
    };
    row.resource()
}

pub(super) fn adapter(row: &Row) -> Result<AdapterRecord, StoreError> {
    let row = AdapterRow {
        adapter: column(row, 0)?,
        last_report_time: column(row, 1)?,
        observed_generation: column(row, 2)?,
        conditions: optional_text(row, 3)?,
        data: optional_text(row, 4)?,
        metadata: optional_text(row, 5)?,
        created_time: column(row, 6)?,
        last_updated_time: column(row, 7)?,
    };
    row.record()
}

/// Starts a snapshot, which lasts until [`end`], and runs the first queries in it.
async fn snapshot(
    connection: &Connection,
    questions: &[(&str, Parameters<'_>)],
) -> Result<Vec<Vec<Row>>, StoreError> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    let mut requests = vec![async { connection.run(begin).await.map(|()| Vec::new()) }.boxed()];
    for (sql, parameters) in questions {
        let statement = connection.prepare(sql).await?;
        requests.push(async move { connection.send(&statement, parameters).await }.boxed());
    }
    Ok(pipelined(requests).await?.into_iter().skip(1).collect())
}

async fn end(connection: &Connection) -> Result<(), StoreError> {
    connection.run("COMMIT").await
}

fn first(answer: Option<&Vec<Row>>) -> Result<&Row, StoreError> {
    answer.and_then(|rows| rows.first()).ok_or_else(|| StoreError::Failed("a row is missing".into()))
}

fn count(answer: Option<&Vec<Row>>) -> Result<u64, StoreError> {
    let count: i64 = column(first(answer)?, 0)?;
    Ok(u64::try_from(count).unwrap_or_default())
}

fn feed(answer: Option<&Vec<Row>>) -> Result<(Revision, Revision), StoreError> {
    let row = first(answer)?;
    Ok((column(row, 0)?, column(row, 1)?))
}

/// The latest revision.
pub(super) async fn revision(connection: &Connection) -> Result<Revision, StoreError> {
    let rows = connection.query(FEED, &[]).await?;
    feed(Some(&rows)).map(|(revision, _)| revision)
}

pub(super) async fn get(connection: &Connection, id: Id) -> Result<Option<Resource>, StoreError> {
    let sql = format!("SELECT {COLUMNS}{EXACT} FROM {FROM} WHERE r.id = $1");
    let found = connection.query(&sql, &[&id.to_string()]).await?;
    found.first().map(resource).transpose()
}

/// All resources after an ID, as many as the second parameter says: [`COLUMNS`] and [`EXACT`].
pub(super) fn all_after() -> String {
    format!("SELECT {COLUMNS}{EXACT} FROM {FROM} WHERE r.id > $1 ORDER BY r.id LIMIT $2")
}

pub(super) async fn list(connection: &Connection, query: &Query) -> Result<Listing, StoreError> {
    let list = List::of(query);
    let mut by_conditions = None;
    let total = list.total(Dialect::Postgres);
    let parameters = postgres(&total);
    let mut answers = match list.kind_of_spec_key() {
        None => snapshot(connection, &[(&total.sql, &parameters), (FEED, &[])]).await?,
        Some(kind) => {
            let long = query::has_long_spec(kind, Dialect::Postgres);
            let questions: [(&str, Parameters<'_>); 3] =
                [(&total.sql, &parameters), (FEED, &[]), (&long.sql, &postgres(&long))];
            snapshot(connection, &questions).await?
        }
    };
    let (revision, _) = feed(answers.get(1))?;
    if answers.get(2).is_some_and(|long| !long.is_empty()) {
        let list = by_conditions.insert(List::ByConditions(query));
        let total = list.total(Dialect::Postgres);
        answers = vec![connection.query(&total.sql, &postgres(&total)).await?];
    }
    let total = count(answers.first())?;
    let items = by_conditions.unwrap_or(list).items(total, EXACT, Dialect::Postgres);
    let found = match &items {
        Some(items) => connection.query(&items.sql, &postgres(items)).await?,
        None => Vec::new(),
    };
    end(connection).await?;
    Ok(Listing { items: found.iter().map(resource).collect::<Result<_, _>>()?, total, revision })
}

/// The parameters of a statement for the driver.
fn postgres(statement: &Statement) -> Vec<&(dyn ToSql + Sync)> {
    statement.parameters.iter().map(Parameter::as_postgres).collect()
}

pub(super) async fn statuses(
    connection: &Connection,
    id: Id,
    page: Page,
) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
    let total =
        "SELECT count(*) FROM adapter_statuses WHERE resource_id = $1 AND observed_generation IS NOT NULL";
    let items = "SELECT adapter, last_report_time, observed_generation, conditions, data, metadata, created_time, \
        last_updated_time FROM adapter_statuses WHERE resource_id = $1 AND observed_generation IS NOT NULL \
        ORDER BY adapter LIMIT $2 OFFSET $3";
    let id = id.to_string();
    let (size, offset) = (i64::from(page.size), i64::try_from(page.offset()).unwrap_or(i64::MAX));
    let answers = snapshot(connection, &[(items, &[&id, &size, &offset]), (total, &[&id])]).await?;
    end(connection).await?;
    let records = answers.first().into_iter().flatten().map(adapter);
    let statuses = records.filter_map(|record| record.map(|record| record.status).transpose());
    Ok((statuses.collect::<Result<_, _>>()?, count(answers.get(1))?))
}

pub(super) async fn log(
    connection: &Connection,
    id: Id,
    page: Page,
) -> Result<(Vec<LogEntry>, u64), StoreError> {
    let items = "SELECT entry FROM status_log WHERE resource_id = $1 ORDER BY number DESC LIMIT $2 OFFSET $3";
    let total = "SELECT count(*) FROM (SELECT 1 FROM status_log WHERE resource_id = $1 LIMIT $2) t";
    let (id, length) = (id.to_string(), i64::try_from(LOG_LENGTH).unwrap_or(i64::MAX));
    let (size, offset) = rows::log_page(page);
    let answers = snapshot(connection, &[(items, &[&id, &size, &offset]), (total, &[&id, &length])]).await?;
    end(connection).await?;
    let entries = answers.first().into_iter().flatten().map(|row| rows::parse(text(row, 0)?));
    Ok((entries.collect::<Result<_, _>>()?, count(answers.get(1))?))
}

pub(super) async fn changes(
    connection: &Connection,
    since: Revision,
    limit: usize,
) -> Result<Changed, StoreError> {
    let present = present();
    let gone = "SELECT revision, resource FROM tombstones WHERE revision > $1 ORDER BY revision LIMIT $2";
    let at_most = i64::try_from(limit).unwrap_or(i64::MAX);
    let answers = snapshot(
        connection,
        &[(&present, &[&since, &Revision::MAX, &at_most]), (gone, &[&since, &at_most]), (FEED, &[])],
    )
    .await?;
    let (head, horizon) = feed(answers.get(2))?;
    end(connection).await?;
    if since < horizon || since > head {
        return Ok(Changed::Expired);
    }
    let mut events = events(answers.first(), since)?;
    for row in answers.get(1).into_iter().flatten() {
        let resource = Arc::new(rows::parse(text(row, 1)?)?);
        events.push(Event { revision: column(row, 0)?, kind: EventKind::Deleted, resource });
    }
    Ok(rows::merged(events, limit, since, head))
}

pub(super) async fn existing(
    connection: &Connection,
    after: Revision,
    through: Revision,
    limit: usize,
) -> Result<Vec<Event>, StoreError> {
    let at_most = i64::try_from(limit).unwrap_or(i64::MAX);
    let found = connection.query(&present(), &[&after, &through, &at_most]).await?;
    let mut events = events(Some(&found), after)?;
    events.iter_mut().for_each(|event| event.kind = EventKind::Added);
    Ok(events)
}

/// Resources whose last change is between two revisions.
fn present() -> String {
    format!(
        "SELECT {COLUMNS}{EXACT}, s.revision, s.created_revision FROM {FROM} \
         WHERE s.revision > $1 AND s.revision <= $2 ORDER BY s.revision LIMIT $3"
    )
}

/// The rows of [`present`].
fn events(rows: Option<&Vec<Row>>, since: Revision) -> Result<Vec<Event>, StoreError> {
    let event = |row: &Row| {
        let created: Revision = column(row, 20)?;
        let kind = if created > since { EventKind::Added } else { EventKind::Modified };
        Ok(Event { revision: column(row, 19)?, kind, resource: Arc::new(resource(row)?) })
    };
    rows.into_iter().flatten().map(event).collect()
}

pub(super) async fn computed_rules(connection: &Connection) -> Result<Option<String>, StoreError> {
    let found = connection.query("SELECT rules FROM computed_rules", &[]).await?;
    found.first().map(|row| column(row, 0)).transpose()
}

pub(super) async fn pending(connection: &Connection, condition: &str) -> Result<Vec<Pending>, StoreError> {
    let sql = "SELECT r.kind, r.deleted_time IS NOT NULL, s.conditions FROM resource_keys k \
        JOIN resources r ON r.id = k.resource_id JOIN resource_states s ON s.resource_id = r.id \
        WHERE k.field = $1 AND k.value IN ('False', 'Unknown')";
    let found = connection.query(sql, &[&condition_field(condition)]).await?;
    let mut pending = Vec::new();
    for row in &found {
        let conditions = rows::conditions(column(row, 2)?)?;
        if let Some(since) = rows::transition_of(&conditions, condition) {
            pending.push((column(row, 0)?, column(row, 1)?, since));
        }
    }
    Ok(rows::pending(pending))
}
