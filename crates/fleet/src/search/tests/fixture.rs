//! The resources of `tests/data/search.json` in a database of SQLite that has what searches need.

use rusqlite::{Connection, params, params_from_iter};
use serde::Deserialize;

use crate::resource::Resource;
use crate::search::keys::keys;
use crate::search::sql::Dialect;
use crate::search::{Filter, functions, parse_order};
use crate::store::query::{self, List, Statement};
use crate::store::rows::conditions_json;
use crate::store::{Page, Query};

/// The file.
#[derive(Deserialize)]
pub(super) struct Data {
    pub(super) resources: Vec<Resource>,
    /// Of clusters, by nothing but what a caller of the API sets: kind, name, spec and labels.
    searches: Vec<SearchRow>,
    /// Of all resources, also by times, generations, owners and conditions.
    stored_searches: Vec<SearchRow>,
    orders: Vec<OrderRow>,
}

#[derive(Deserialize)]
struct SearchRow {
    search: String,
    /// Sorted.
    names: Vec<String>,
}

#[derive(Deserialize)]
struct OrderRow {
    order: String,
    names: Vec<String>,
}

/// A list, what it is called, and the names it gives.
pub(super) struct Case {
    pub(super) title: String,
    pub(super) query: Query,
    pub(super) names: Vec<String>,
}

pub(super) fn data() -> Data {
    serde_json::from_str(include_str!("../../../tests/data/search.json")).unwrap()
}

/// Every row of the file.
pub(super) fn cases(data: &Data) -> Vec<Case> {
    let search = |kind: Option<&str>, row: &SearchRow| Case {
        title: row.search.clone(),
        query: Query { kind: kind.map(str::to_owned), ..searching(&row.search) },
        names: row.names.clone(),
    };
    let order = |row: &OrderRow| Case {
        title: format!("order {}", row.order),
        query: Query {
            order: if row.order.is_empty() { vec![] } else { parse_order(&[&row.order]).unwrap() },
            page: Page { number: 1, size: 100 },
            ..Query::default()
        },
        names: row.names.clone(),
    };
    let of_clusters = data.searches.iter().map(|row| search(Some("Cluster"), row));
    let of_all = data.stored_searches.iter().map(|row| search(None, row));
    of_clusters.chain(of_all).chain(data.orders.iter().map(order)).collect()
}

/// All that match, by name.
pub(super) fn searching(search: &str) -> Query {
    Query {
        search: Some(Filter::parse(search).unwrap_or_else(|error| panic!("{search}: {error}"))),
        order: parse_order(&["name"]).unwrap(),
        page: Page { number: 1, size: 100 },
        ..Query::default()
    }
}

/// A database with these resources.
pub(super) fn sqlite(resources: &[Resource]) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    functions::register(&connection).unwrap();
    connection.execute_batch(SCHEMA).unwrap();
    for resource in resources {
        insert(&connection, resource);
    }
    connection
}

/// The names and the total that a list gives.
pub(super) fn ask(connection: &Connection, query: &Query) -> (Vec<String>, usize) {
    ask_list(connection, &List::of(query))
}

/// The names on the page of a list, and how many resources match.
pub(super) fn ask_list(connection: &Connection, list: &List<'_>) -> (Vec<String>, usize) {
    let total: i64 = rows(connection, &list.total(Dialect::Sqlite), 0).remove(0);
    let items = list.items(u64::try_from(total).unwrap(), "", Dialect::Sqlite);
    (items.map_or_else(Vec::new, |items| rows(connection, &items, 2)), usize::try_from(total).unwrap())
}

fn rows<T: rusqlite::types::FromSql>(
    connection: &Connection,
    statement: &Statement,
    column: usize,
) -> Vec<T> {
    let mut prepared = connection.prepare(&statement.sql).unwrap();
    let rows = prepared.query_map(params_from_iter(&statement.parameters), |row| row.get(column)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

const SCHEMA: &str = "
    CREATE TABLE resources (
        id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, href TEXT NOT NULL,
        owner_id TEXT, owner_kind TEXT, owner_href TEXT, spec TEXT NOT NULL, labels TEXT NOT NULL, tenancy TEXT NOT NULL,
        generation INTEGER NOT NULL, created_time INTEGER NOT NULL, created_by TEXT NOT NULL,
        updated_time INTEGER NOT NULL, updated_by TEXT NOT NULL, deleted_time INTEGER, deleted_by TEXT
    ) STRICT;
    CREATE INDEX resources_newest ON resources (kind, created_time, id);
    CREATE INDEX resources_by_name ON resources (kind, name, id);
    CREATE TABLE resource_keys (
        field TEXT NOT NULL, value TEXT NOT NULL, kind TEXT NOT NULL, created_time INTEGER NOT NULL, resource_id TEXT NOT NULL,
        PRIMARY KEY (field, value, kind, created_time, resource_id)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE resource_states (resource_id TEXT NOT NULL PRIMARY KEY, conditions TEXT NOT NULL) STRICT;
";

fn insert(connection: &Connection, resource: &Resource) {
    let id = resource.id.to_string();
    let owner = resource.owner_references.as_ref();
    connection
        .execute(
            "INSERT INTO resources VALUES
             (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
            params![
                id,
                resource.kind,
                resource.name,
                resource.href,
                owner.map(|owner| owner.id.to_string()),
                owner.map(|owner| &owner.kind),
                owner.map(|owner| &owner.href),
                serde_json::to_string(&resource.spec).unwrap(),
                serde_json::to_string(&resource.labels).unwrap(),
                query::tenancy_text(&resource.tenancy),
                resource.generation,
                resource.created_time.as_microsecond(),
                resource.created_by,
                resource.updated_time.as_microsecond(),
                resource.updated_by,
                resource.deleted_time.map(|time| time.as_microsecond()),
                resource.deleted_by,
            ],
        )
        .unwrap();
    let created = resource.created_time.as_microsecond();
    for key in keys(resource) {
        let row = params![key.field, key.value, resource.kind, created, id];
        connection.execute("INSERT INTO resource_keys VALUES (?1, ?2, ?3, ?4, ?5)", row).unwrap();
    }
    let conditions = conditions_json(&resource.status.conditions).unwrap();
    connection.execute("INSERT INTO resource_states VALUES (?1, ?2)", params![id, conditions]).unwrap();
}
