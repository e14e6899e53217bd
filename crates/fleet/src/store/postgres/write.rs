//! Writes rows: one statement per table and batch, all pipelined. Revisions are assigned last, because their lock blocks every other
//! writer until the commit.

use std::collections::{HashMap, HashSet};

use futures::FutureExt as _;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::connection::{Connection, Parameters, pipelined};
use super::json::{is_kept, searchable, without_zero};
use super::read;
use crate::resource::{Id, Resource};
use crate::search::keys::{Key, keys};
use crate::store::plan::{Plan, StateChange, Step};
use crate::store::rows::{self, SLICE, TRIM_EVERY, kept};
use crate::store::{LOG_LENGTH, Revision, StoreError};

/// Notifies [other processes](super::LISTEN) with the commit.
const NOTIFY_AND_COMMIT: &str = "NOTIFY fleet_revision; COMMIT";

type Column<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement and its parameters, most of them columns of rows.
struct Bulk<'a> {
    sql: &'a str,
    parameters: Vec<Column<'a>>,
}

/// Collects a column of values, one of each row.
fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Column<'a>
where
    Vec<T>: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

fn text(text: &str) -> std::borrow::Cow<'_, str> {
    without_zero(text)
}

/// Writes and commits the changes of a batch.
pub(super) async fn commit(connection: &Connection, plan: &Plan<'_>) -> Result<Revision, StoreError> {
    let mut bulks = removals(plan);
    bulks.extend(resources(plan)?);
    bulks.extend(key_bulk(DELETE_KEYS, &plan.keys_gone));
    bulks.extend(key_bulk(INSERT_KEYS, &plan.keys));
    bulks.extend(adapters(plan)?);
    bulks.extend(log(plan)?);
    bulks.push(states(plan)?);

    let mut statements = Vec::new();
    for bulk in &bulks {
        let parameters: Vec<_> =
            bulk.parameters.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
        statements.push((connection.prepare(bulk.sql).await?, parameters));
    }
    let mut requests = Vec::new();
    for (statement, parameters) in &statements {
        requests.push(async move { connection.send(statement, parameters).await }.boxed());
    }
    let last = if plan.feed.is_empty() { "COMMIT" } else { NOTIFY_AND_COMMIT };
    requests.push(async { connection.run(last).await.map(|()| Vec::new()) }.boxed());
    let answers = pipelined(requests).await?;
    let head = answers.iter().rev().nth(1).and_then(|rows| rows.first());
    read::column(head.ok_or_else(|| StoreError::Failed("no revision was given".into()))?, 0)
}

fn removals<'a>(plan: &'a Plan<'_>) -> Vec<Bulk<'a>> {
    let statements = [
        "DELETE FROM adapter_statuses WHERE resource_id = ANY($1::text[])",
        "DELETE FROM status_log WHERE resource_id = ANY($1::text[])",
        "DELETE FROM resource_states WHERE resource_id = ANY($1::text[])",
        "DELETE FROM resources WHERE id = ANY($1::text[])",
    ];
    let ids = || column(&plan.removed, |resource| resource.id.to_string());
    let bulks = statements.into_iter().map(|sql| Bulk { sql, parameters: vec![ids()] });
    if plan.removed.is_empty() { Vec::new() } else { bulks.collect() }
}

const UPDATE: &str = "UPDATE resources r SET kind = u.kind, name = u.name, href = u.href, owner_id = u.owner_id, \
    owner_kind = u.owner_kind, owner_href = u.owner_href, spec = u.spec::jsonb, spec_exact = u.spec_exact, \
    labels = u.labels::jsonb, tenancy = u.tenancy, generation = u.generation, created_time = u.created_time, \
    created_by = u.created_by, updated_time = u.updated_time, updated_by = u.updated_by, deleted_time = u.deleted_time, \
    deleted_by = u.deleted_by FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
    $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::timestamptz[], $14::text[], \
    $15::timestamptz[], $16::text[], $17::timestamptz[], $18::text[]) AS u (id, kind, name, href, owner_id, owner_kind, \
    owner_href, spec, spec_exact, labels, tenancy, generation, created_time, created_by, updated_time, updated_by, \
    deleted_time, deleted_by) WHERE r.id = u.id";

/// Ordered by name, so that two processes that create the same names do not deadlock.
const INSERT: &str = "INSERT INTO resources (id, kind, name, href, owner_id, owner_kind, owner_href, spec, spec_exact, \
    labels, tenancy, generation, created_time, created_by, updated_time, updated_by, deleted_time, deleted_by, root_id) \
    SELECT id, kind, name, href, owner_id, owner_kind, owner_href, spec::jsonb, spec_exact, labels::jsonb, tenancy, \
    generation, created_time, created_by, updated_time, updated_by, deleted_time, deleted_by, root_id \
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], \
    $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bigint[], $13::timestamptz[], $14::text[], \
    $15::timestamptz[], $16::text[], $17::timestamptz[], $18::text[], $19::text[]) AS u (id, kind, name, href, owner_id, \
    owner_kind, owner_href, spec, spec_exact, labels, tenancy, generation, created_time, created_by, updated_time, \
    updated_by, deleted_time, deleted_by, root_id) ORDER BY kind, name, owner_id, tenancy";

fn resources<'a>(plan: &'a Plan<'_>) -> Result<Vec<Bulk<'a>>, StoreError> {
    let mut bulks = Vec::new();
    if !plan.updated.is_empty() {
        bulks.push(Bulk { sql: UPDATE, parameters: resource_columns(&plan.updated)? });
    }
    if !plan.created.is_empty() {
        let created: Vec<&Resource> = plan.created.iter().map(|(resource, _)| *resource).collect();
        let mut parameters = resource_columns(&created)?;
        parameters.push(column(&plan.created, |(_, root)| root.to_string()));
        bulks.push(Bulk { sql: INSERT, parameters });
    }
    Ok(bulks)
}

fn resource_columns<'a>(resources: &[&'a Resource]) -> Result<Vec<Column<'a>>, StoreError> {
    let (mut specs, mut exact, mut labels, mut tenancies) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for resource in resources {
        let spec = rows::json(&resource.spec)?;
        if is_kept(&resource.spec) {
            specs.push(spec);
            exact.push(None);
        } else {
            specs.push(rows::json(&searchable(&resource.spec))?);
            exact.push(Some(spec));
        }
        let pairs: HashMap<_, _> =
            resource.labels.iter().map(|(key, value)| (text(key), text(value))).collect();
        labels.push(rows::json(&pairs)?);
        tenancies.push(rows::json(&resource.tenancy)?);
    }
    let owner = |resource: &&'a Resource| resource.owner_references.as_ref();
    Ok(vec![
        owned(resources, |resource| resource.id.to_string()),
        owned(resources, |resource| text(&resource.kind)),
        owned(resources, |resource| text(&resource.name)),
        owned(resources, |resource| text(&resource.href)),
        owned(resources, move |resource| owner(resource).map(|owner| owner.id.to_string())),
        owned(resources, move |resource| owner(resource).map(|owner| text(&owner.kind))),
        owned(resources, move |resource| owner(resource).map(|owner| text(&owner.href))),
        Box::new(specs),
        Box::new(exact),
        Box::new(labels),
        Box::new(tenancies),
        owned(resources, |resource| resource.generation),
        owned(resources, |resource| kept(resource.created_time)),
        owned(resources, |resource| text(&resource.created_by)),
        owned(resources, |resource| kept(resource.updated_time)),
        owned(resources, |resource| text(&resource.updated_by)),
        owned(resources, |resource| resource.deleted_time.map(kept)),
        owned(resources, |resource| resource.deleted_by.as_deref().map(text)),
    ])
}

/// Collects a column of references that outlive their list.
fn owned<'a, T>(resources: &[&'a Resource], value: impl Fn(&&'a Resource) -> T) -> Column<'a>
where
    Vec<T>: ToSql + Sync + Send + 'a,
{
    Box::new(resources.iter().map(value).collect::<Vec<T>>())
}

const DELETE_KEYS: &str = "DELETE FROM resource_keys k \
    USING unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[]) AS u (field, value, kind, created_time, id) \
    WHERE k.field = u.field AND k.value = u.value AND k.kind = u.kind AND k.created_time = u.created_time \
    AND k.resource_id = u.id";

const INSERT_KEYS: &str = "INSERT INTO resource_keys (field, value, kind, created_time, resource_id) \
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[]) ON CONFLICT DO NOTHING";

/// Deletes or inserts keys. Texts that differ by zero characters only are the same here.
fn key_bulk<'a>(sql: &'a str, rows: &'a [(&'a Resource, Key)]) -> Option<Bulk<'a>> {
    let parameters = vec![
        column(rows, |(_, key)| text(&key.field)),
        column(rows, |(_, key)| text(&key.value)),
        column(rows, |(resource, _)| text(&resource.kind)),
        column(rows, |(resource, _)| kept(resource.created_time)),
        column(rows, |(resource, _)| resource.id.to_string()),
    ];
    (!rows.is_empty()).then_some(Bulk { sql, parameters })
}

/// Writes the keys of all resources.
pub(super) async fn write_all_keys(connection: &Connection) -> Result<(), StoreError> {
    let sql = read::all_after();
    let mut last = String::new();
    loop {
        let found = connection.query(&sql, &[&last, &SLICE]).await?;
        let resources = found.iter().map(read::resource).collect::<Result<Vec<_>, _>>()?;
        let Some(end) = resources.last() else { return Ok(()) };
        last = end.id.to_string();
        let keys: Vec<(&Resource, Key)> = resources
            .iter()
            .flat_map(|resource| keys(resource).into_iter().map(move |key| (resource, key)))
            .collect();
        if let Some(bulk) = key_bulk(INSERT_KEYS, &keys) {
            let parameters: Vec<_> =
                bulk.parameters.iter().map(|column| &**column as &(dyn ToSql + Sync)).collect();
            connection.query(bulk.sql, &parameters).await?;
        }
    }
}

const ADAPTERS: &str = "INSERT INTO adapter_statuses (resource_id, adapter, last_report_time, observed_generation, \
    conditions, data, metadata, created_time, last_updated_time) SELECT id, adapter, last_report_time, \
    observed_generation, conditions::json, data::json, metadata::json, created_time, last_updated_time \
    FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[], \
    $8::timestamptz[], $9::timestamptz[]) AS u (id, adapter, last_report_time, observed_generation, conditions, data, \
    metadata, created_time, last_updated_time) ON CONFLICT (resource_id, adapter) DO UPDATE SET \
    last_report_time = excluded.last_report_time, observed_generation = excluded.observed_generation, \
    conditions = excluded.conditions, data = excluded.data, metadata = excluded.metadata, \
    created_time = excluded.created_time, last_updated_time = excluded.last_updated_time";

fn adapters<'a>(plan: &'a Plan<'_>) -> Result<Option<Bulk<'a>>, StoreError> {
    let rows = &plan.adapters;
    if rows.is_empty() {
        return Ok(None);
    }
    let (mut conditions, mut data, mut metadata) = (Vec::new(), Vec::new(), Vec::new());
    for (_, record) in rows {
        let json = record.status.as_ref().map(rows::status_json).transpose()?;
        let (status_conditions, status_data, status_metadata) = json
            .map_or((None, None, None), |(conditions, data, metadata)| {
                (Some(conditions), Some(data), metadata)
            });
        conditions.push(status_conditions);
        data.push(status_data);
        metadata.push(status_metadata);
    }
    let parameters: Vec<Column<'a>> = vec![
        column(rows, |(id, _)| id.to_string()),
        column(rows, |(_, record)| text(&record.adapter)),
        column(rows, |(_, record)| kept(record.last_report_time)),
        column(rows, |(_, record)| record.status.as_ref().map(|status| status.observed_generation)),
        Box::new(conditions),
        Box::new(data),
        Box::new(metadata),
        column(rows, |(_, record)| record.status.as_ref().map(|status| kept(status.created_time))),
        column(rows, |(_, record)| record.status.as_ref().map(|status| kept(status.last_updated_time))),
    ];
    Ok(Some(Bulk { sql: ADAPTERS, parameters }))
}

const TRIM: &str = "DELETE FROM status_log l USING unnest($1::text[], $2::bigint[]) AS u (id, last) \
    WHERE l.resource_id = u.id AND l.number <= u.last";

fn log<'a>(plan: &'a Plan<'_>) -> Result<Vec<Bulk<'a>>, StoreError> {
    let rows = &plan.log;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "INSERT INTO status_log (resource_id, number, received_time, entry) SELECT id, number, received_time, entry::json \
        FROM unnest($1::text[], $2::bigint[], $3::timestamptz[], $4::text[]) AS u (id, number, received_time, entry)";
    let entries = rows.iter().map(|(.., entry)| rows::log_json(entry)).collect::<Result<Vec<_>, _>>()?;
    let parameters: Vec<Column<'a>> = vec![
        column(rows, |(id, ..)| id.to_string()),
        column(rows, |(_, number, _)| *number),
        column(rows, |(.., entry)| kept(entry.received_time)),
        Box::new(entries),
    ];
    let mut bulks = vec![Bulk { sql, parameters }];
    let length = i64::try_from(LOG_LENGTH).unwrap_or(i64::MAX);
    let long = rows.iter().filter(|(_, number, _)| number % TRIM_EVERY == 0 && *number > length);
    let (ids, ends): (Vec<String>, Vec<i64>) =
        long.map(|(id, number, _)| (id.to_string(), number - length)).unzip();
    if !ids.is_empty() {
        bulks.push(Bulk { sql: TRIM, parameters: vec![Box::new(ids), Box::new(ends)] });
    }
    Ok(bulks)
}

/// Writes the states, and assigns revisions to all changes, in one statement.
const STATES: &str = "WITH base AS (UPDATE feed SET revision = revision + $1 RETURNING revision - $1 AS revision), \
    made AS (INSERT INTO resource_states (resource_id, created_revision, revision, logged, conditions) \
        SELECT u.id, base.revision + u.position, base.revision + u.position, u.logged, u.conditions \
        FROM base, unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[]) AS u (id, position, logged, conditions)), \
    moved AS (UPDATE resource_states s SET revision = coalesce(base.revision + u.position, s.revision), \
        logged = coalesce(u.logged, s.logged), conditions = coalesce(u.conditions, s.conditions) \
        FROM base, unnest($6::text[], $7::bigint[], $8::bigint[], $9::text[]) AS u (id, position, logged, conditions) \
        WHERE s.resource_id = u.id), \
    gone AS (INSERT INTO tombstones (revision, resource_id, kind, resource) \
        SELECT base.revision + u.position, u.id, u.kind, u.resource::json \
        FROM base, unnest($10::text[], $11::text[], $12::text[], $13::bigint[]) AS u (id, kind, resource, position)) \
    SELECT revision + $1 FROM base";

/// Where no resource changed: without a lock on the feed.
const LOGGED: &str = "WITH moved AS (UPDATE resource_states s SET logged = coalesce(u.logged, s.logged) \
    FROM unnest($1::text[], $2::bigint[]) AS u (id, logged) WHERE s.resource_id = u.id) SELECT revision FROM feed";

fn states<'a>(plan: &'a Plan<'_>) -> Result<Bulk<'a>, StoreError> {
    if plan.feed.is_empty() {
        let parameters = vec![
            column(&plan.states, |state| state.id.to_string()),
            column(&plan.states, |state| state.logged),
        ];
        return Ok(Bulk { sql: LOGGED, parameters });
    }
    let at = |wanted: Step| {
        let changes = (1_i64..).zip(&plan.feed).filter(move |(_, (step, _))| *step == wanted);
        changes.map(|(position, (_, resource))| (position, *resource)).collect::<Vec<_>>()
    };
    let (made, gone) = (at(Step::Created), at(Step::Removed));
    let new: HashSet<Id> = made.iter().map(|(_, resource)| resource.id).collect();
    let logged: HashMap<Id, i64> =
        plan.states.iter().filter_map(|state| Some((state.id, state.logged?))).collect();
    let moved: Vec<StateChange<'_>> =
        plan.states.iter().filter(|state| !new.contains(&state.id)).copied().collect();
    let ids = |rows: &[(i64, &Resource)]| -> Column<'a> {
        Box::new(rows.iter().map(|(_, resource)| resource.id.to_string()).collect::<Vec<_>>())
    };
    let positions = |rows: &[(i64, &Resource)]| -> Column<'a> {
        Box::new(rows.iter().map(|(position, _)| *position).collect::<Vec<_>>())
    };
    let made_logged: Vec<i64> =
        made.iter().map(|(_, resource)| logged.get(&resource.id).copied().unwrap_or_default()).collect();
    let made_conditions = made.iter().map(|(_, resource)| rows::conditions_json(&resource.status.conditions));
    let moved_conditions = moved.iter().map(|state| state.conditions.map(rows::conditions_json).transpose());
    let kinds: Vec<String> = gone.iter().map(|(_, resource)| text(&resource.kind).into_owned()).collect();
    let resources = gone.iter().map(|(_, resource)| rows::tombstone_json(resource));
    let count = i64::try_from(plan.feed.len()).unwrap_or(i64::MAX);
    let parameters: Vec<Column<'a>> = vec![
        Box::new(count),
        ids(&made),
        positions(&made),
        Box::new(made_logged),
        Box::new(made_conditions.collect::<Result<Vec<_>, _>>()?),
        Box::new(moved.iter().map(|state| state.id.to_string()).collect::<Vec<_>>()),
        Box::new(moved.iter().map(|state| state.position).collect::<Vec<_>>()),
        Box::new(moved.iter().map(|state| state.logged).collect::<Vec<_>>()),
        Box::new(moved_conditions.collect::<Result<Vec<_>, _>>()?),
        ids(&gone),
        Box::new(kinds),
        Box::new(resources.collect::<Result<Vec<_>, _>>()?),
        positions(&gone),
    ];
    Ok(Bulk { sql: STATES, parameters })
}

const PRUNE_LOG: &str = "WITH old AS (SELECT resource_id, number FROM status_log WHERE received_time < $1 ORDER BY received_time \
    LIMIT $2 FOR UPDATE SKIP LOCKED), gone AS (DELETE FROM status_log l USING old \
    WHERE l.resource_id = old.resource_id AND l.number = old.number RETURNING 1) \
    SELECT count(*) FROM gone";

const FORGET: &str = "WITH old AS (SELECT revision FROM tombstones WHERE revision <= \
        (SELECT revision FROM tombstones ORDER BY revision DESC OFFSET $1 LIMIT 1) ORDER BY revision LIMIT $2), \
    noted AS (UPDATE feed SET horizon = GREATEST(horizon, (SELECT max(revision) FROM old)) \
        WHERE EXISTS (SELECT 1 FROM old)), \
    gone AS (DELETE FROM tombstones t USING old WHERE t.revision = old.revision RETURNING 1) SELECT count(*) FROM gone";

/// Removes a limited number of expired rows, and returns whether there are more.
pub(super) async fn prune(
    connection: &Connection,
    log_before: Timestamp,
    tombstones: u64,
) -> Result<bool, StoreError> {
    let keep = i64::try_from(tombstones).unwrap_or(i64::MAX);
    let slices: [(&str, Parameters<'_>); 2] =
        [(PRUNE_LOG, &[&kept(log_before), &SLICE]), (FORGET, &[&keep, &SLICE])];
    let mut more = false;
    for (sql, parameters) in slices {
        for row in connection.query(sql, parameters).await? {
            more |= read::column::<i64>(&row, 0)? >= SLICE;
        }
    }
    Ok(more)
}
