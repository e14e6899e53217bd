//! Reads the rows that a writer needs, in its transaction, after the trees are locked.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::FutureExt as _;
use tokio_postgres::Row;

use super::connection::{Connection, Parameters, pipelined};
use super::read;
use crate::resource::Id;
use crate::store::plan::{Stored, StoredById};
use crate::store::query::{COLUMNS, FROM};
use crate::store::rows;
use crate::store::{Entry, Loaded, NameKey, Needs, StoreError};

/// A writer locks the row of the root of a tree, so that no other writer changes the tree.
const LOCK: &str = "SELECT s.resource_id FROM resource_states s \
    WHERE s.resource_id IN (SELECT root_id FROM resources WHERE id = ANY($1::text[])) ORDER BY s.resource_id FOR UPDATE";

/// The ids of lineages and of descendants, and whether each is one of the latter.
const TREE: &str = "WITH RECURSIVE \
    above AS (SELECT id, owner_id FROM resources WHERE id = ANY($1::text[]) \
        UNION SELECT r.id, r.owner_id FROM above a JOIN resources r ON r.id = a.owner_id), \
    below AS (SELECT id FROM resources WHERE id = ANY($2::text[]) \
        UNION SELECT r.id FROM below b JOIN resources r ON r.owner_id = b.id) \
    SELECT id, bool_or(is_below) FROM (SELECT id, false AS is_below FROM above UNION ALL SELECT id, true FROM below) t \
    GROUP BY id";

const CHILDREN: &str = "SELECT c.owner_id, c.id FROM resources p JOIN resources c ON c.owner_id = p.id \
    WHERE p.id = ANY($1::text[]) AND (p.deleted_time IS NOT NULL OR p.id = ANY($2::text[]))";

const ADAPTERS: &str = "SELECT adapter, last_report_time, observed_generation, conditions, data, metadata, created_time, \
    last_updated_time, resource_id FROM adapter_statuses WHERE resource_id = ANY($1::text[])";

/// One key per name: the expression of the index `resources_names`, which no other index has.
const TAKEN: &str = "SELECT kind || '/' || COALESCE(owner_id, '') || '/' || tenancy || '/' || name FROM resources \
    WHERE kind || '/' || COALESCE(owner_id, '') || '/' || tenancy || '/' || name = ANY($1::text[]) AND deleted_time IS NULL";

/// Starts a transaction, locks the trees, and reads.
pub(super) async fn begin(
    connection: &Connection,
    needs: &Needs,
) -> Result<(Loaded, StoredById), StoreError> {
    let members = lock(connection, needs).await?;
    let ids: Vec<&str> = members.keys().map(String::as_str).collect();
    let below: Vec<&str> =
        members.iter().filter(|(_, is_below)| **is_below).map(|(id, _)| id.as_str()).collect();
    let names = needs.names.iter().map(|key| Ok((name_text(key)?, key)));
    let names = names.collect::<Result<HashMap<String, &NameKey>, StoreError>>()?;
    let asked: Vec<&str> = names.keys().map(String::as_str).collect();
    let resources = format!(
        "SELECT {COLUMNS}, r.spec_exact, r.root_id, s.logged FROM {FROM} WHERE r.id = ANY($1::text[])"
    );
    let statements: [(&str, Parameters<'_>, bool); 4] = [
        (&resources, &[&ids], !ids.is_empty()),
        (ADAPTERS, &[&ids], !ids.is_empty()),
        (CHILDREN, &[&ids, &below], !ids.is_empty()),
        (TAKEN, &[&asked], !asked.is_empty()),
    ];
    let answers = all(connection, &statements).await?;
    let [resources, adapters, children, taken] =
        <[Vec<Row>; 4]>::try_from(answers).map_err(|_| StoreError::Failed("an answer is missing".into()))?;

    let (mut loaded, stored) = entries(&resources, &adapters)?;
    loaded.children = children_of(&loaded, &below, &children)?;
    for row in &taken {
        let text: &str = read::column(row, 0)?;
        loaded.taken.extend(names.get(text).map(|key| (*key).clone()));
    }
    Ok((loaded, stored))
}

/// Runs the statements that have parameters, pipelined; the others return no rows.
async fn all(
    connection: &Connection,
    statements: &[(&str, Parameters<'_>, bool)],
) -> Result<Vec<Vec<Row>>, StoreError> {
    let mut requests = Vec::new();
    for (sql, parameters, asked) in statements {
        if *asked {
            let statement = connection.prepare(sql).await?;
            requests.push(async move { connection.send(&statement, parameters).await }.boxed());
        } else {
            requests.push(std::future::ready(Ok(Vec::new())).boxed());
        }
    }
    pipelined(requests).await
}

/// Starts a transaction and locks the trees. Returns the resources to read, and which of them because of their descendants.
async fn lock(connection: &Connection, needs: &Needs) -> Result<BTreeMap<String, bool>, StoreError> {
    let ids: Vec<String> = needs.lineages.union(&needs.descendants).map(Id::to_string).collect();
    if ids.is_empty() {
        connection.run("BEGIN").await?;
        return Ok(BTreeMap::new());
    }
    let descendants: Vec<String> = needs.descendants.iter().map(Id::to_string).collect();
    let (lock, tree) = (connection.prepare(LOCK).await?, connection.prepare(TREE).await?);
    let (locked, members): (Parameters<'_>, Parameters<'_>) = (&[&ids], &[&ids, &descendants]);
    let answers = pipelined(vec![
        async { connection.run("BEGIN").await.map(|()| Vec::new()) }.boxed(),
        async { connection.send(&lock, locked).await }.boxed(),
        async { connection.send(&tree, members).await }.boxed(),
    ])
    .await?;
    let members = answers.last().into_iter().flatten();
    members.map(|row| Ok((read::column(row, 0)?, read::column(row, 1)?))).collect()
}

fn entries(resources: &[Row], adapters: &[Row]) -> Result<(Loaded, StoredById), StoreError> {
    let (mut loaded, mut stored) = (Loaded::default(), StoredById::new());
    for row in resources {
        let resource = read::resource(row)?;
        let (root, logged) = (rows::id(read::column(row, 19)?)?, read::column(row, 20)?);
        stored.insert(resource.id, Stored { root, logged });
        loaded.resources.insert(resource.id, Entry { resource, adapters: BTreeMap::new() });
    }
    for row in adapters {
        if let Some(entry) = loaded.resources.get_mut(&rows::id(read::column(row, 8)?)?) {
            let record = read::adapter(row)?;
            entry.adapters.insert(record.adapter.clone(), record);
        }
    }
    Ok((loaded, stored))
}

fn children_of(
    loaded: &Loaded,
    below: &[&str],
    children: &[Row],
) -> Result<HashMap<Id, BTreeSet<Id>>, StoreError> {
    let deleting = loaded.resources.values().filter(|entry| entry.resource.is_deleting());
    let mut known: HashMap<Id, BTreeSet<Id>> =
        deleting.map(|entry| (entry.resource.id, BTreeSet::new())).collect();
    for id in below {
        known.entry(rows::id(id)?).or_default();
    }
    for row in children {
        known.entry(rows::id(read::column(row, 0)?)?).or_default().insert(rows::id(read::column(row, 1)?)?);
    }
    Ok(known)
}

/// A name as the index `resources_names` has it. Kinds, IDs and names have no `/`.
fn name_text(key: &NameKey) -> Result<String, StoreError> {
    let owner = key.owner.map(|owner| owner.to_string()).unwrap_or_default();
    Ok(format!("{}/{owner}/{}/{}", key.kind, rows::json(&key.tenancy)?, key.name))
}
