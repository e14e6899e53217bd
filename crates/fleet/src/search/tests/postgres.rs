//! That PostgreSQL answers as SQLite does.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls};

use super::fixture::{Case, ask, cases, data, searching, sqlite};
use super::rows::largest_searches;
use crate::resource::Resource;
use crate::search::Filter;
use crate::search::keys::keys;
use crate::search::sql::Dialect;
use crate::store::Query;
use crate::store::query::{self, List, Statement};
use crate::store::rows::conditions_json;

#[tokio::test]
async fn every_row_of_the_table_is_found() {
    let data = data();
    let client = postgres(&data.resources).await;
    let mut wrong = Vec::new();
    for Case { title, query, names } in cases(&data) {
        let (found, total) = ask_postgres(&client, &query).await;
        if found != names || total != names.len() {
            wrong.push(format!("{title}: {found:?} instead of {names:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn the_largest_searches_are_answered() {
    let client = postgres(&data().resources).await;
    for search in largest_searches() {
        ask_postgres(&client, &searching(&search)).await;
    }
}

#[tokio::test]
async fn all_fields_by_all_comparisons_are_answered_alike() {
    let data = data();
    let connection = sqlite(&data.resources);
    let client = postgres(&data.resources).await;
    let mut asked = 0;
    for search in combinations().iter().filter(|search| Filter::parse(search).is_ok()) {
        let query = searching(search);
        assert_eq!(ask_postgres(&client, &query).await, ask(&connection, &query), "{search}");
        asked += 1;
    }
    assert!(asked > 3000, "{asked}");
}

/// Every field with every comparison and every value, plain and below `not`, including invalid combinations.
fn combinations() -> Vec<String> {
    const FIELDS: &[&str] = &[
        "id",
        "name",
        "created_by",
        "deleted_by",
        "owner_kind",
        "generation",
        "created_time",
        "deleted_time",
        "labels.env",
        "labels.tier",
        "spec.note",
        "spec.city",
        "spec.region",
        "spec.replicas",
        "spec.release",
        "spec.release.version",
        "spec.ha",
        "spec.big",
        "spec.small",
        "spec.large",
        "spec.list",
        "spec.list.0",
        "spec.version",
        "spec.0",
        "spec.missing",
        "status.conditions.Ready",
        "status.conditions.Available.observed_generation",
        "status.conditions.Reconciled.last_updated_time",
    ];
    const VALUES: &[&str] = &[
        "''",
        "'a'",
        "'A'",
        "'prod'",
        "'True'",
        "'3'",
        "'é'",
        "'%'",
        "'_%a%'",
        "'%A_%'",
        r"'a\_b'",
        r"'\\'",
        "'2026-01-05'",
        "'0.0000001'",
        "0",
        "3",
        "-1.5",
        "9.5",
        "10P",
        "0.0000001",
        "9007199254740992",
        "true",
        "false",
        "2026-01-05",
    ];
    let mut tests: Vec<String> = vec!["is null".to_owned(), "is not null".to_owned()];
    for value in VALUES {
        tests.extend(
            ["=", "!=", "<", "<=", ">", ">=", "like", "ilike"].map(|operator| format!("{operator} {value}")),
        );
        tests.push(format!("between {value} and {value}"));
        tests.push(format!("in [{value}, {value}]"));
    }
    let each = FIELDS.iter().flat_map(|field| tests.iter().map(move |test| format!("{field} {test}")));
    each.flat_map(|search| [format!("not {search}"), format!("not ({search} or name = 'eta')"), search])
        .collect()
}

async fn ask_postgres(client: &Client, query: &Query) -> (Vec<String>, usize) {
    let list = List::of(query);
    let total: i64 = run(client, &list.total(Dialect::Postgres)).await[0].get(0);
    let items = match list.items(u64::try_from(total).unwrap(), "", Dialect::Postgres) {
        Some(items) => run(client, &items).await,
        None => Vec::new(),
    };
    (items.iter().map(|row| row.get(2)).collect(), usize::try_from(total).unwrap())
}

async fn run(client: &Client, statement: &Statement) -> Vec<tokio_postgres::Row> {
    let parameters: Vec<&(dyn ToSql + Sync)> =
        statement.parameters.iter().map(super::super::sql::Parameter::as_postgres).collect();
    let rows = client.query(&statement.sql, &parameters).await;
    rows.unwrap_or_else(|error| panic!("{error:?}\n{}", statement.sql.chars().take(2000).collect::<String>()))
}

const SCHEMA: &str = "
    CREATE TEMPORARY TABLE resources (
        id TEXT NOT NULL PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, href TEXT NOT NULL,
        owner_id TEXT, owner_kind TEXT, owner_href TEXT, spec JSONB NOT NULL, labels JSONB NOT NULL, tenancy TEXT NOT NULL,
        generation BIGINT NOT NULL, created_time TIMESTAMPTZ NOT NULL, created_by TEXT NOT NULL,
        updated_time TIMESTAMPTZ NOT NULL, updated_by TEXT NOT NULL, deleted_time TIMESTAMPTZ, deleted_by TEXT
    );
    CREATE TEMPORARY TABLE resource_keys (
        field TEXT COLLATE \"C\" NOT NULL, value TEXT COLLATE \"C\" NOT NULL, kind TEXT NOT NULL,
        created_time TIMESTAMPTZ NOT NULL, resource_id TEXT NOT NULL,
        PRIMARY KEY (field, value, kind, created_time, resource_id)
    );
    CREATE TEMPORARY TABLE resource_states (resource_id TEXT NOT NULL PRIMARY KEY, conditions TEXT NOT NULL);
";

async fn postgres(resources: &[Resource]) -> Client {
    let server = bellwether_testkit::postgres::Postgres::start();
    let (client, connection) = tokio_postgres::connect(server.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute(SCHEMA).await.unwrap();
    for resource in resources {
        insert(&client, resource).await;
    }
    client
}

async fn insert(client: &Client, resource: &Resource) {
    let id = resource.id.to_string();
    let owner = resource.owner_references.as_ref();
    let insert_resource = "INSERT INTO resources VALUES
        ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
    let resource_row: [&(dyn ToSql + Sync); 17] = [
        &id,
        &resource.kind,
        &resource.name,
        &resource.href,
        &owner.map(|owner| owner.id.to_string()),
        &owner.map(|owner| &owner.kind),
        &owner.map(|owner| &owner.href),
        &serde_json::Value::Object(resource.spec.clone()),
        &serde_json::to_value(&resource.labels).unwrap(),
        &query::tenancy_text(&resource.tenancy),
        &resource.generation,
        &resource.created_time,
        &resource.created_by,
        &resource.updated_time,
        &resource.updated_by,
        &resource.deleted_time,
        &resource.deleted_by,
    ];
    client.execute(insert_resource, &resource_row).await.unwrap();
    for key in keys(resource) {
        let row: [&(dyn ToSql + Sync); 5] =
            [&key.field, &key.value, &resource.kind, &resource.created_time, &id];
        client.execute("INSERT INTO resource_keys VALUES ($1, $2, $3, $4, $5)", &row).await.unwrap();
    }
    let conditions = conditions_json(&resource.status.conditions).unwrap();
    client.execute("INSERT INTO resource_states VALUES ($1, $2)", &[&id, &conditions]).await.unwrap();
}
