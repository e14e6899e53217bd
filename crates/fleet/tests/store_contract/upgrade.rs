//! A database of an earlier version: all that it has is there after this version has opened it.

use bellwether_conditions::Status;
use bellwether_fleet::resource::{AdapterRecord, AdapterStatus, Id, Resource};
use bellwether_fleet::search::Filter;
use bellwether_fleet::store::sqlite::Sqlite;
use bellwether_fleet::store::{Changed, Changes, Column, Direction, EventKind, Order, Page, Query, Store};

use crate::fixture::{
    accepted, at, cluster, condition, get, heard, line, lineages, node_pool, object, updated, write_all,
};

const FIRST_PAGE: Page = Page { number: 1, size: 100 };

/// What the database has.
struct Rows {
    top: Resource,
    pool: Resource,
    removed: Resource,
}

impl Rows {
    fn new() -> Self {
        let mut top = cluster("top");
        top.spec = object(serde_json::json!({"region": "eu", "release": {"version": "4.19"}, "nodes": 3}));
        top.labels.insert("quoted".into(), "it's".into());
        top.status.conditions.push(condition("Available", Status::True, 7));
        let pool = node_pool(&top, "pool");
        Self { top, pool, removed: cluster("removed") }
    }

    /// The statements that insert them into a database of version 2, which writes an instant by `time`.
    fn inserts(&self, time: impl Fn(i64) -> String) -> String {
        let mut sql = String::new();
        for (resource, created, revision) in [(&self.top, 1, 5), (&self.pool, 2, 2)] {
            sql += &insert_resource(resource, self.top.id, &time);
            let (id, kind) = (resource.id, &resource.kind);
            sql += &format!(
                "INSERT INTO resource_revisions VALUES ('{id}', '{kind}', {created}, {revision});\n"
            );
        }
        for record in [accepted("dns", 4), heard("mute", 9)] {
            sql += &insert_adapter(self.top.id, &record, &time);
        }
        for (id, seconds) in [(self.top.id, 1), (self.pool.id, 2), (self.top.id, 3), (self.top.id, 4)] {
            let (entry, received) = (quoted(&line(seconds)), time(seconds));
            sql += &format!(
                "INSERT INTO status_log (resource_id, received_time, entry) VALUES ('{id}', {received}, {entry});\n"
            );
        }
        let (id, json) = (self.removed.id, quoted(&self.removed));
        sql += &format!("INSERT INTO tombstones VALUES (4, '{id}', 'Cluster', {json});\n");
        sql + "UPDATE feed SET revision = 5;\nINSERT INTO computed_rules VALUES (1, 'rules of before');\n"
    }

    async fn assert_kept(&self, store: &dyn Store) {
        for resource in [&self.top, &self.pool] {
            assert_eq!(get(store, resource.id).await.as_ref(), Some(resource));
        }
        let (statuses, _) = store.statuses(self.top.id, FIRST_PAGE).await.expect("statuses");
        assert_eq!(statuses, accepted("dns", 4).status.into_iter().collect::<Vec<AdapterStatus>>());
        let (_, loaded) = store.begin(&lineages([self.top.id])).await.expect("a transaction");
        assert_eq!(loaded.resources[&self.top.id].adapters["mute"], heard("mute", 9));
        let (log, total) = store.log(self.top.id, FIRST_PAGE).await.expect("a log");
        assert_eq!((log, total), (vec![line(4), line(3), line(1)], 3));
        assert_eq!(store.computed_rules().await.expect("rules").as_deref(), Some("rules of before"));
        let Changed::Since { events, through } = store.changes(1, 100).await.expect("changes") else {
            panic!("the revision is expired");
        };
        let told: Vec<_> =
            events.iter().map(|event| (event.revision, event.kind, event.resource.id)).collect();
        let expected = [
            (2, EventKind::Added, self.pool.id),
            (4, EventKind::Deleted, self.removed.id),
            (5, EventKind::Modified, self.top.id),
        ];
        assert_eq!((told.as_slice(), through), (expected.as_slice(), 5));
    }

    /// Searches find old and new values, and the log goes on.
    async fn assert_writable(&self, store: &dyn Store) {
        let found = [
            "labels.team = 'red'",
            "labels.quoted = 'it\\'s'",
            "spec.region = 'eu'",
            "spec.release.version = '4.19'",
            "status.conditions.Ready = 'False'",
            "status.conditions.Available = 'True'",
        ];
        for search in found {
            assert_eq!(search_clusters(store, search).await, ["top"], "{search}");
        }
        let mut after = self.top.clone();
        after.labels.insert("team".into(), "blue".into());
        let changes = Changes {
            resources: vec![updated(&self.top, &after)],
            log: vec![(self.top.id, line(9))],
            ..Changes::default()
        };
        assert_eq!(write_all(store, changes).await, 6);
        assert_eq!(search_clusters(store, "labels.team = 'blue'").await, ["top"]);
        assert_eq!(search_clusters(store, "labels.team = 'red'").await, Vec::<String>::new());
        let (log, _) = store.log(self.top.id, Page { number: 1, size: 2 }).await.expect("a log");
        assert_eq!(log, [line(9), line(4)]);
    }
}

async fn search_clusters(store: &dyn Store, search: &str) -> Vec<String> {
    let query = Query {
        kind: Some("Cluster".into()),
        search: Some(Filter::parse(search).expect("a search")),
        order: vec![Order { column: Column::CreatedTime, direction: Direction::Descending }],
        ..Query::default()
    };
    let listing = store.list(&query).await.expect("a list");
    listing.items.into_iter().map(|resource| resource.name).collect()
}

fn quoted<T: serde::Serialize>(value: &T) -> String {
    format!("'{}'", serde_json::to_string(value).expect("JSON").replace('\'', "''"))
}

fn insert_resource(resource: &Resource, root: Id, time: &impl Fn(i64) -> String) -> String {
    let Resource { id, kind, name, href, .. } = resource;
    let owner = resource.owner_references.as_ref().map_or_else(
        || "NULL, NULL, NULL".to_owned(),
        |owner| format!("'{}', '{}', '{}'", owner.id, owner.kind, owner.href),
    );
    let (spec, labels, zero) = (quoted(&resource.spec), quoted(&resource.labels), time(0));
    let mut sql = format!(
        "INSERT INTO resources (id, kind, name, href, owner_id, owner_kind, owner_href, root_id, spec, labels, tenancy, \
         generation, created_time, created_by, updated_time, updated_by) VALUES ('{id}', '{kind}', '{name}', '{href}', {owner}, \
         '{root}', {spec}, {labels}, '{{}}', 1, {zero}, 'ann@example.com', {zero}, 'ann@example.com');\n"
    );
    for (key, value) in &resource.labels {
        let value = value.replace('\'', "''");
        sql += &format!("INSERT INTO resource_labels VALUES ('{id}', '{key}', '{value}');\n");
    }
    // In the opposite order: their positions count.
    for (position, is) in resource.status.conditions.iter().enumerate().rev() {
        let since = time(is.last_transition_time.duration_since(at(0)).as_secs());
        sql += &format!(
            "INSERT INTO resource_conditions VALUES ('{id}', {position}, '{}', '{}', 'Because', NULL, 1, {zero}, {since}, {since});\n",
            is.type_,
            is.status.as_str(),
        );
    }
    sql
}

fn insert_adapter(id: Id, record: &AdapterRecord, time: &impl Fn(i64) -> String) -> String {
    let adapter = &record.adapter;
    let heard = time(record.last_report_time.duration_since(at(0)).as_secs());
    let accepted = record.status.as_ref().map_or_else(
        || "NULL, NULL, NULL, NULL, NULL, NULL".to_owned(),
        |status| {
            let (conditions, data, metadata) =
                (quoted(&status.conditions), quoted(&status.data), quoted(&status.metadata));
            format!("1, {conditions}, {data}, {metadata}, {}, {heard}", time(0))
        },
    );
    format!("INSERT INTO adapter_statuses VALUES ('{id}', '{adapter}', {heard}, {accepted});\n")
}

#[tokio::test]
async fn sqlite_file_of_version_2_keeps_all_rows() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("fleet.db");
    let rows = Rows::new();
    let connection = rusqlite::Connection::open(&path).expect("a database");
    for sql in [
        include_str!("../../src/store/sqlite/migrations/001_resources.sql"),
        include_str!("../../src/store/sqlite/migrations/002_computed_rules.sql"),
        &rows.inserts(|seconds| at(seconds).as_microsecond().to_string()),
        "PRAGMA application_id = 0x666c7431; PRAGMA user_version = 2;",
    ] {
        connection.execute_batch(sql).expect("the database of before");
    }
    drop(connection);
    let store = Sqlite::open(&path).expect("the file is migrated");
    rows.assert_kept(&store).await;
    rows.assert_writable(&store).await;
    drop(store);
    let store = Sqlite::open(&path).expect("the file is opened again");
    assert_eq!(get(&store, rows.pool.id).await, Some(rows.pool));
}

#[cfg(feature = "real-postgres")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_database_of_version_2_keeps_all_rows() {
    use bellwether_fleet::store::postgres::Postgres;

    let server = bellwether_testkit::postgres::Postgres::start();
    let rows = Rows::new();
    let (client, connection) =
        tokio_postgres::connect(server.url(), tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    for sql in [
        include_str!("../../src/store/postgres/migrations/001_resources.sql"),
        include_str!("../../src/store/postgres/migrations/002_computed_rules.sql"),
        &rows.inserts(|seconds| format!("to_timestamp({})", at(seconds).as_second())),
        "CREATE TABLE fleet_migrations (version BIGINT PRIMARY KEY, applied_time TIMESTAMPTZ NOT NULL DEFAULT now()); \
         INSERT INTO fleet_migrations (version) VALUES (1), (2);",
    ] {
        client.batch_execute(sql).await.expect("the database of before");
    }
    let store = Postgres::connect(server.url()).await.expect("the database is migrated");
    rows.assert_kept(&store).await;
    rows.assert_writable(&store).await;
}
