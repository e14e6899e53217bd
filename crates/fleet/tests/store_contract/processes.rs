//! Several processes on one PostgreSQL.

use std::collections::BTreeMap;

use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::search::Filter;
use bellwether_fleet::store::postgres::Postgres;
use bellwether_fleet::store::{
    Changed, Changes, Column, Direction, Event, EventKind, NameKey, Needs, Order, Page, Query, Revision,
    Store, StoreError,
};
use bellwether_testkit::postgres::Postgres as Server;

use crate::fixture::{
    at, cluster, created, everything, get, lineages, node_pool, removed, try_write, updated, write,
};

async fn processes<const COUNT: usize>() -> [Postgres; COUNT] {
    let server = Server::start();
    let opening = (0..COUNT).map(|_| Postgres::connect(server.url()));
    let stores = futures::future::try_join_all(opening).await.expect("replicas that start together open");
    stores.try_into().unwrap_or_else(|_| panic!("as many as were asked for"))
}

/// Adds one to the generation, as a client would: read, decide, write.
async fn bump(store: &Postgres, id: Id) -> Result<Revision, StoreError> {
    let (transaction, loaded) = store.begin(&lineages([id])).await?;
    let before = &loaded.resources[&id].resource;
    let after = Resource { generation: before.generation + 1, ..before.clone() };
    transaction.commit(&Changes { resources: vec![updated(before, &after)], ..Changes::default() }).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_update_is_lost_and_revisions_are_seen_in_order_without_gaps() {
    let [one, two, reader] = processes().await;
    let clusters: Vec<_> = (0..3).map(|number| cluster(&format!("c-{number}"))).collect();
    let begin = write(&one, clusters.iter().map(created)).await;
    let bumps = 60;
    let writing = async |store: &Postgres| {
        for number in 0..bumps {
            bump(store, clusters[number % clusters.len()].id).await.expect("a commit");
        }
    };
    let last = begin + 2 * i64::try_from(bumps).expect("a count");
    let reading = async {
        let mut revision = begin;
        while revision < last {
            let changed = reader.changes(revision, 1000).await.expect("changes");
            let Changed::Since { events, through } = changed else { panic!("{changed:?}") };
            // A writer that commits late under a smaller revision would be a resource that follows nobody.
            for resource in everything(&reader).await {
                let told = events.iter().find(|event| event.resource.id == resource.id);
                assert!(told.is_none_or(|event| event.resource.generation <= resource.generation));
            }
            revision = through;
        }
    };
    tokio::join!(writing(&one), writing(&two), reading);
    let generations: i64 = everything(&reader).await.iter().map(|resource| resource.generation - 1).sum();
    assert_eq!(generations, last - begin, "every bump counts");
    assert_eq!(
        reader.list(&Query::default()).await.expect("a list").revision,
        last,
        "every revision is a bump"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_follows_ends_with_what_is_there_while_others_write() {
    let [one, two, reader] = processes().await;
    let writing = async |store: &Postgres, name: &str| {
        for number in 0..40 {
            let top = cluster(&format!("{name}-{number}"));
            let pool = node_pool(&top, "pool");
            write(store, [created(&top), created(&pool)]).await;
            if number % 2 == 0 {
                write(store, [removed(&pool), updated(&top, &Resource { generation: 2, ..top.clone() })])
                    .await;
            }
        }
    };
    let last = 2 * (40 * 2 + 20 * 2);
    let mut followed: BTreeMap<Id, Resource> = BTreeMap::new();
    let following = async {
        let mut latest = reader.revision();
        let mut revision = 0;
        while revision < last {
            let changed = reader.changes(revision, 7).await.expect("changes");
            let Changed::Since { events, through } = changed else { panic!("{changed:?}") };
            assert!(events.is_sorted_by_key(|event| event.revision));
            let idle = events.is_empty();
            events.into_iter().for_each(|event| apply(&mut followed, event));
            revision = through;
            if idle && revision < last {
                latest.wait_for(|latest| *latest > revision).await.expect("the store is open");
            }
        }
    };
    tokio::join!(writing(&one, "a"), writing(&two, "b"), following);
    let there: BTreeMap<_, _> = everything(&reader).await.into_iter().map(|it| (it.id, it)).collect();
    assert_eq!(followed, there);
}

fn apply(state: &mut BTreeMap<Id, Resource>, event: Event) {
    match event.kind {
        EventKind::Deleted => state.remove(&event.resource.id),
        EventKind::Added | EventKind::Modified => {
            state.insert(event.resource.id, event.resource.as_ref().clone())
        }
    };
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_is_not_changed_while_another_process_writes_in_its_tree() {
    let [one, two] = processes().await;
    let top = cluster("top");
    let (pool, other) = (node_pool(&top, "pool"), cluster("other"));
    write(&one, [created(&top), created(&pool), created(&other)]).await;

    let (held, _) = one.begin(&lineages([top.id])).await.expect("a transaction");
    bump(&two, other.id).await.expect("another tree is free");
    let waiting = bump(&two, pool.id);
    tokio::pin!(waiting);
    for _ in 0..5 {
        assert!(futures::poll!(&mut waiting).is_pending(), "the tree is held");
        get(&one, pool.id).await.expect("readers do not wait");
    }
    let after = Resource { generation: 9, ..pool.clone() };
    let changes = Changes { resources: vec![updated(&pool, &after)], ..Changes::default() };
    held.commit(&changes).await.expect("a commit");
    waiting.await.expect("its turn");
    assert_eq!(get(&one, pool.id).await.map(|pool| pool.generation), Some(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_two_that_take_a_name_is_told_of_the_conflict() {
    let [one, two] = processes().await;
    for number in 0..10 {
        let make = |store| {
            let resources = vec![created(&cluster(&format!("same-{number}")))];
            try_write(store, Changes { resources, ..Changes::default() })
        };
        let (first, second) = tokio::join!(make(&one), make(&two));
        let refused =
            [&first, &second].into_iter().filter(|it| matches!(it, Err(StoreError::Conflict(_)))).count();
        assert_eq!((refused, first.is_ok() || second.is_ok()), (1, true), "{first:?} {second:?}");
    }
    assert_eq!(everything(&one).await.len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_revision_moves_when_another_process_writes() {
    let [one, two] = processes().await;
    let mut latest = two.revision();
    let revision = write(&one, [created(&cluster("a"))]).await;
    let told = latest.wait_for(|latest| *latest >= revision).await.expect("the store is open");
    assert_eq!(*told, revision);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn name_check_reads_one_row_per_name_on_tables_without_statistics() {
    let server = Server::start();
    let store = Postgres::connect(server.url()).await.expect("PostgreSQL opens");
    let observer = observer(server.url()).await;
    observer.batch_execute("ALTER TABLE resources SET (autovacuum_enabled = false)").await.expect("a table");
    let (batches, size) = (40, 50);
    for batch in 0..batches {
        let new: Vec<_> = (0..size).map(|number| cluster(&format!("c-{batch}-{number}"))).collect();
        let names = new.iter().map(name_key).collect();
        let (transaction, loaded) =
            store.begin(&Needs { names, ..Needs::default() }).await.expect("a transaction");
        assert_eq!(loaded.taken.len(), 0);
        let resources = new.iter().map(created).collect();
        transaction.commit(&Changes { resources, ..Changes::default() }).await.expect("a commit");
    }
    // All names again: each is found, by reading its row.
    let again = (0..size).map(|number| name_key(&cluster(&format!("c-0-{number}")))).collect();
    let (_, loaded) = store.begin(&Needs { names: again, ..Needs::default() }).await.expect("a transaction");
    assert_eq!(loaded.taken.len(), size);
    drop(store);
    let rows = rows_read(&observer).await;
    assert!(rows <= 100, "{rows} rows were read to check {} names", size * (batches + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_reads_only_the_rows_of_its_page() {
    let server = Server::start();
    let store = Postgres::connect(server.url()).await.expect("PostgreSQL opens");
    let observer = observer(server.url()).await;
    for batch in 0..20 {
        let clusters = (0..100).map(|number| {
            let mut cluster = cluster(&format!("c-{batch}-{number}"));
            cluster.created_time = at(batch * 100 + number);
            // As wide as real ones, so that reading all rows is not the cheapest plan.
            cluster.spec.insert("text".into(), "x".repeat(1500).into());
            cluster
        });
        write(&store, clusters.map(|cluster| created(&cluster))).await;
    }
    drop(store);
    // What autovacuum does by itself some time after so many writes.
    observer.batch_execute("VACUUM ANALYZE").await.expect("statistics");
    let before = rows_read(&observer).await;
    let store = Postgres::connect(server.url()).await.expect("PostgreSQL opens");
    let newest = vec![Order { column: Column::CreatedTime, direction: Direction::Descending }];
    let searches = ["", "labels.team = 'red'", "status.conditions.Ready = 'False'", "spec.region = 'eu'"];
    for search in searches {
        for number in [1, 50, 100] {
            let query = Query {
                kind: Some("Cluster".into()),
                search: (!search.is_empty()).then(|| Filter::parse(search).expect("a search")),
                order: newest.clone(),
                page: Page { number, size: 20 },
                ..Query::default()
            };
            let listing = store.list(&query).await.expect("a list");
            assert_eq!((listing.total, listing.items.len()), (2000, 20), "{search:?}");
        }
    }
    drop(store);
    let rows = rows_read(&observer).await - before;
    let wanted = 20 * 3 * i64::try_from(searches.len()).expect("a count");
    assert!((wanted..wanted * 2).contains(&rows), "{rows} rows were read for {wanted} rows of pages");
}

fn name_key(resource: &Resource) -> NameKey {
    let (kind, name) = (resource.kind.clone(), resource.name.clone());
    NameKey { kind, owner: None, tenancy: resource.tenancy.clone(), name }
}

async fn observer(url: &str) -> tokio_postgres::Client {
    let (client, connection) =
        tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// The rows of `resources` that were read, by whatever plan. The server has counted all of them when no connection is left.
async fn rows_read(observer: &tokio_postgres::Client) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND backend_type = 'client backend' AND pid <> pg_backend_pid()";
    bellwether_testkit::eventually("all connections of the store are closed", async || {
        let row = observer.query_one(others, &[]).await.expect("connections");
        (row.get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    let sql = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'resources'";
    observer.query_one(sql, &[]).await.expect("statistics").get(0)
}
