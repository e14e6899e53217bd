//! Reads rows. Operations with several statements read from one snapshot.

use std::collections::HashMap;
use std::sync::Arc;

use bellwether_conditions::Status;
use futures::FutureExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::connection::{Connection, Parameters, pipelined};
use super::json::JsonText;
use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource, ResourceCondition};
use crate::search::sql::{Dialect, Parameter};
use crate::store::query::{self, COLUMNS};
use crate::store::rows::{self, AdapterRow, ResourceRow};
use crate::store::{
    Changed, Event, EventKind, LOG_LENGTH, Listing, Page, Pending, Query, Revision, StoreError,
};

pub(super) const FEED: &str = "SELECT revision, horizon FROM feed";

/// The conditions of resources, in their order.
pub(super) const CONDITIONS: &str = "SELECT resource_id, type, status, reason, message, observed_generation, created_time, \
    last_updated_time, last_transition_time FROM resource_conditions WHERE resource_id = ANY($1::text[]) \
    ORDER BY resource_id, position, type";

/// Specs that JSONB does not store exactly.
const EXACT: &str =
    "SELECT id, spec_exact FROM resources WHERE id = ANY($1::text[]) AND spec_exact IS NOT NULL";

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

/// A resource from [`COLUMNS`], without its conditions.
pub(super) fn resource(row: &Row) -> Result<Resource, StoreError> {
    let row = ResourceRow {
        id: column(row, 0)?,
        kind: column(row, 1)?,
        name: column(row, 2)?,
        href: column(row, 3)?,
        owner_id: column(row, 4)?,
        owner_kind: column(row, 5)?,
        owner_href: column(row, 6)?,
        spec: text(row, 7)?,
        labels: text(row, 8)?,
        tenancy: column(row, 9)?,
        generation: column(row, 10)?,
        created_time: column(row, 11)?,
        created_by: column(row, 12)?,
        updated_time: column(row, 13)?,
        updated_by: column(row, 14)?,
        deleted_time: column(row, 15)?,
        deleted_by: column(row, 16)?,
    };
    row.resource()
}

/// Sets the exact spec of a resource.
pub(super) fn restore(resource: &mut Resource, exact: Option<&str>) -> Result<(), StoreError> {
    if let Some(exact) = exact {
        resource.spec = rows::parse(exact)?;
    }
    Ok(())
}

/// A row of [`CONDITIONS`].
pub(super) fn condition(row: &Row) -> Result<ResourceCondition, StoreError> {
    Ok(ResourceCondition {
        type_: column(row, 1)?,
        status: Status::as_read(column(row, 2)?),
        reason: column(row, 3)?,
        message: column(row, 4)?,
        observed_generation: column(row, 5)?,
        created_time: column(row, 6)?,
        last_updated_time: column(row, 7)?,
        last_transition_time: column(row, 8)?,
    })
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

/// Reads complete resources from [`COLUMNS`], and ends the snapshot.
async fn whole(connection: &Connection, found: &[Row]) -> Result<Vec<Resource>, StoreError> {
    let mut resources = found.iter().map(resource).collect::<Result<Vec<_>, _>>()?;
    if resources.is_empty() {
        end(connection).await?;
        return Ok(resources);
    }
    let ids: Vec<String> = resources.iter().map(|resource| resource.id.to_string()).collect();
    let (conditions, exact) = (connection.prepare(CONDITIONS).await?, connection.prepare(EXACT).await?);
    let parameters: Parameters<'_> = &[&ids];
    let answers = pipelined(vec![
        async { connection.send(&conditions, parameters).await }.boxed(),
        async { connection.send(&exact, parameters).await }.boxed(),
        async { end(connection).await.map(|()| Vec::new()) }.boxed(),
    ])
    .await?;
    let places: HashMap<Id, usize> =
        resources.iter().enumerate().map(|(at, resource)| (resource.id, at)).collect();
    let place = |row| column(row, 0).map(|id| rows::id(id).ok().and_then(|id| places.get(&id)).copied());
    let mut answers = answers.iter();
    for row in answers.next().into_iter().flatten() {
        if let Some(resource) = place(row)?.and_then(|at| resources.get_mut(at)) {
            resource.status.conditions.push(condition(row)?);
        }
    }
    for row in answers.next().into_iter().flatten() {
        if let Some(resource) = place(row)?.and_then(|at| resources.get_mut(at)) {
            restore(resource, column(row, 1)?)?;
        }
    }
    Ok(resources)
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
    let sql = format!("SELECT {COLUMNS} FROM resources r WHERE r.id = $1");
    let answers = snapshot(connection, &[(&sql, &[&id.to_string()])]).await?;
    let found = answers.first().map(Vec::as_slice).unwrap_or_default();
    Ok(whole(connection, found).await?.pop())
}

pub(super) async fn list(connection: &Connection, query: &Query) -> Result<Listing, StoreError> {
    let statements = query::list(query, Dialect::Postgres);
    let items: Vec<_> = statements.items.parameters.iter().map(Parameter::as_postgres).collect();
    let total: Vec<_> = statements.total.parameters.iter().map(Parameter::as_postgres).collect();
    let questions: [(&str, Parameters<'_>); 3] =
        [(&statements.items.sql, &items), (&statements.total.sql, &total), (FEED, &[])];
    let answers = snapshot(connection, &questions).await?;
    let (total, (revision, _)) = (count(answers.get(1))?, feed(answers.get(2))?);
    let found = answers.first().map(Vec::as_slice).unwrap_or_default();
    Ok(Listing { items: whole(connection, found).await?, total, revision })
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
    let items = "SELECT entry FROM status_log WHERE resource_id = $1 ORDER BY id DESC LIMIT $2 OFFSET $3";
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
    let present = answers.first().map(Vec::as_slice).unwrap_or_default();
    let resources = whole(connection, present).await?;
    if since < horizon || since > head {
        return Ok(Changed::Expired);
    }
    let mut events = events(present, resources, since)?;
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
    let answers = snapshot(connection, &[(&present(), &[&after, &through, &at_most])]).await?;
    let present = answers.first().map(Vec::as_slice).unwrap_or_default();
    let mut events = events(present, whole(connection, present).await?, after)?;
    events.iter_mut().for_each(|event| event.kind = EventKind::Added);
    Ok(events)
}

/// Resources whose last change is between two revisions.
fn present() -> String {
    format!(
        "SELECT {COLUMNS}, v.revision, v.created_revision FROM resource_revisions v JOIN resources r ON r.id = v.resource_id \
         WHERE v.revision > $1 AND v.revision <= $2 ORDER BY v.revision LIMIT $3"
    )
}

/// The rows of [`present`], as resources.
fn events(rows: &[Row], resources: Vec<Resource>, since: Revision) -> Result<Vec<Event>, StoreError> {
    let event = |(row, resource): (&Row, Resource)| {
        let created: Revision = column(row, 18)?;
        let kind = if created > since { EventKind::Added } else { EventKind::Modified };
        Ok(Event { revision: column(row, 17)?, kind, resource: Arc::new(resource) })
    };
    rows.iter().zip(resources).map(event).collect()
}

pub(super) async fn computed_rules(connection: &Connection) -> Result<Option<String>, StoreError> {
    let found = connection.query("SELECT rules FROM computed_rules", &[]).await?;
    found.first().map(|row| column(row, 0)).transpose()
}

pub(super) async fn pending(connection: &Connection, condition: &str) -> Result<Vec<Pending>, StoreError> {
    let sql = "SELECT r.kind, r.deleted_time IS NOT NULL, c.last_transition_time FROM resource_conditions c \
        JOIN resources r ON r.id = c.resource_id WHERE c.type = $1 AND c.status IN ('False', 'Unknown') ORDER BY 1, 2, 3";
    let found = connection.query(sql, &[&condition]).await?;
    let pending = found.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?, column(row, 2)?)));
    Ok(rows::pending(pending.collect::<Result<Vec<_>, StoreError>>()?))
}
