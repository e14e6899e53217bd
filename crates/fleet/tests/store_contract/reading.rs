//! Lists, statuses and the log.

use std::collections::BTreeSet;

use bellwether_conditions::Status;
use bellwether_fleet::resource::Id;
use bellwether_fleet::store::{Changes, Column, Direction, LOG_LENGTH, Order, Page, Pending, Query, Store};

use crate::fixture::{
    accepted, at, cluster, condition, created, deleting, heard, line, node_pool, updated, write, write_all,
};

contract!(
    a_list_is_filtered_by_kind_owner_and_tenant,
    pages_follow_each_other_without_gap_or_repeat,
    a_list_goes_either_way,
    a_list_tells_the_revision_it_is_of,
    statuses_come_by_adapter_and_only_accepted_ones,
    the_log_is_newest_first_and_bounded,
    old_lines_of_the_log_are_pruned_in_slices,
    what_is_pending_is_told_by_kind,
    a_reader_sees_all_of_a_batch_or_nothing,
    the_database_answers,
);

async fn names(store: &dyn Store, query: Query) -> Vec<String> {
    let listing = store.list(&query).await.expect("a list");
    listing.items.into_iter().map(|resource| resource.name).collect()
}

fn by(column: Column, direction: Direction) -> Vec<Order> {
    vec![Order { column, direction }]
}

async fn a_list_is_filtered_by_kind_owner_and_tenant(store: &dyn Store) {
    let (a, mut b) = (cluster("a"), cluster("b"));
    b.tenancy = [("org".to_owned(), "acme".to_owned())].into();
    let (c, d) = (node_pool(&a, "c"), node_pool(&b, "d"));
    write(store, [&a, &b, &c, &d].map(created)).await;
    let kind = |kind: &str| Some(kind.to_owned());
    let rows = [
        (Query::default(), "a b c d"),
        (Query { kind: kind("Cluster"), ..Query::default() }, "a b"),
        (Query { kind: kind("NodePool"), owner: Some(a.id), ..Query::default() }, "c"),
        (Query { owner: Some(b.id), ..Query::default() }, "d"),
        (Query { tenancy: Some(b.tenancy.clone()), ..Query::default() }, "b"),
        (Query { tenancy: Some(a.tenancy.clone()), ..Query::default() }, "a c d"),
        (Query { kind: kind("Channel"), ..Query::default() }, ""),
    ];
    for (query, expected) in rows {
        let query = Query { order: by(Column::Name, Direction::Ascending), ..query };
        let listing = store.list(&query).await.expect("a list");
        let total = listing.total;
        assert_eq!(names(store, query.clone()).await.join(" "), expected, "{query:?}");
        assert_eq!(total, expected.split_whitespace().count() as u64, "{query:?}");
    }
}

async fn pages_follow_each_other_without_gap_or_repeat(store: &dyn Store) {
    let all: Vec<_> = (0..23).map(|number| cluster(&format!("c-{number:02}"))).collect();
    write(store, all.iter().map(created)).await;
    for order in
        [vec![], by(Column::CreatedTime, Direction::Descending), by(Column::Name, Direction::Ascending)]
    {
        let mut seen = Vec::new();
        for number in 1..=6 {
            let page = Page { number, size: 5 };
            let listing =
                store.list(&Query { page, order: order.clone(), ..Query::default() }).await.expect("a list");
            assert_eq!(listing.total, 23);
            seen.extend(listing.items.into_iter().map(|resource| resource.id));
        }
        assert_eq!(seen.len(), 23, "{order:?}");
        assert_eq!(seen.iter().collect::<BTreeSet<&Id>>().len(), 23, "{order:?}");
    }
}

async fn a_list_goes_either_way(store: &dyn Store) {
    let all: Vec<_> = ["b", "C", "a", "ä", "B"].into_iter().map(cluster).collect();
    write(store, all.iter().map(created)).await;
    let rows = [(Direction::Ascending, "B C a b ä"), (Direction::Descending, "ä b a C B")];
    for (direction, expected) in rows {
        let query = Query { order: by(Column::Name, direction), ..Query::default() };
        assert_eq!(names(store, query).await.join(" "), expected, "by the bytes of the text");
    }
}

async fn a_list_tells_the_revision_it_is_of(store: &dyn Store) {
    assert_eq!(store.list(&Query::default()).await.expect("a list").revision, 0);
    let revision = write(store, [created(&cluster("a")), created(&cluster("b"))]).await;
    assert_eq!(revision, 2);
    assert_eq!(store.list(&Query::default()).await.expect("a list").revision, 2);
}

async fn statuses_come_by_adapter_and_only_accepted_ones(store: &dyn Store) {
    let resource = cluster("reported");
    let records =
        [accepted("net", 3), heard("mute", 9), accepted("dns", 4), accepted("Zeta", 5), accepted("aws", 6)];
    let adapters = records.into_iter().map(|record| (resource.id, record)).collect();
    write_all(store, Changes { resources: vec![created(&resource)], adapters, ..Changes::default() }).await;
    let page = |number| Page { number, size: 3 };
    let (first, total) = store.statuses(resource.id, page(1)).await.expect("statuses");
    let (second, _) = store.statuses(resource.id, page(2)).await.expect("statuses");
    let adapters: Vec<_> = first.iter().chain(&second).map(|status| status.adapter.as_str()).collect();
    assert_eq!((adapters, total), (vec!["Zeta", "aws", "dns", "net"], 4));
    assert_eq!(Some(&first[2]), accepted("dns", 4).status.as_ref());
}

async fn the_log_is_newest_first_and_bounded(store: &dyn Store) {
    let resource = cluster("talkative");
    write(store, [created(&resource)]).await;
    let lines = i64::try_from(LOG_LENGTH).expect("a length") + 250;
    for begun in (0..lines).step_by(50) {
        let log = (begun..begun + 50).map(|number| (resource.id, line(number))).collect();
        write_all(store, Changes { log, ..Changes::default() }).await;
    }
    let (log, total) = store.log(resource.id, Page { number: 1, size: 3 }).await.expect("a log");
    assert_eq!(total, LOG_LENGTH);
    assert_eq!(log, [line(lines - 1), line(lines - 2), line(lines - 3)]);
    let (log, _) = store.log(resource.id, Page { number: 10, size: 100 }).await.expect("a log");
    assert_eq!(log.len(), 100);
    assert_eq!(log.last(), Some(&line(250)));
    let (log, _) = store.log(resource.id, Page { number: 11, size: 100 }).await.expect("a log");
    assert_eq!(log, [], "no more than it keeps");
}

async fn old_lines_of_the_log_are_pruned_in_slices(store: &dyn Store) {
    let resources: Vec<_> = (0..3).map(|number| cluster(&format!("c-{number}"))).collect();
    write(store, resources.iter().map(created)).await;
    for resource in &resources {
        let log = (0..600).map(|number| (resource.id, line(number))).collect();
        write_all(store, Changes { log, ..Changes::default() }).await;
    }
    let mut slices = 1;
    while store.prune(at(590), 10).await.expect("a slice") {
        slices += 1;
    }
    assert_eq!(slices, 2, "1,770 lines in slices of 1,000");
    for resource in &resources {
        let (log, total) = store.log(resource.id, Page { number: 1, size: 100 }).await.expect("a log");
        assert_eq!((total, log.last()), (10, Some(&line(590))));
    }
}

async fn what_is_pending_is_told_by_kind(store: &dyn Store) {
    let with = |name: &str, status: Status, seconds: i64| {
        let mut resource = cluster(name);
        resource.status.conditions =
            vec![condition("Available", Status::False, 1), condition("Ready", status, seconds)];
        resource
    };
    let (a, b) = (with("a", Status::False, 7), with("b", Status::Unknown, 3));
    let (c, d) = (with("c", Status::True, 5), with("d", Status::False, 4));
    let mut pool = node_pool(&a, "pool");
    pool.status.conditions = vec![condition("Ready", Status::False, 2)];
    let mut bare = cluster("bare");
    bare.status.conditions.clear();
    write(store, [&a, &b, &c, &d, &pool, &bare].map(created)).await;
    write(store, [updated(&d, &deleting(&d))]).await;
    let pending = |kind: &str, deleting, since: &[i64]| Pending {
        kind: kind.into(),
        deleting,
        since: since.iter().map(|seconds| at(*seconds)).collect(),
    };
    let expected = [
        pending("Cluster", false, &[3, 7]),
        pending("Cluster", true, &[4]),
        pending("NodePool", false, &[2]),
    ];
    assert_eq!(store.pending("Ready").await.expect("a count"), expected);
    assert_eq!(store.pending("Nothing").await.expect("a count"), []);
}

async fn a_reader_sees_all_of_a_batch_or_nothing(store: &dyn Store) {
    let mut before: Vec<_> = (0..10).map(|number| cluster(&format!("c-{number}"))).collect();
    write(store, before.iter().map(created)).await;
    let writing = async {
        for generation in 2..40 {
            let mut after = before.clone();
            after.iter_mut().for_each(|resource| resource.generation = generation);
            write(store, before.iter().zip(&after).map(|(before, after)| updated(before, after))).await;
            before = after;
        }
    };
    let reading = async {
        loop {
            let listing = store.list(&Query::default()).await.expect("a list");
            let generations: BTreeSet<_> = listing.items.iter().map(|resource| resource.generation).collect();
            assert_eq!((listing.items.len(), generations.len()), (10, 1), "{generations:?}");
            let generation = generations.into_iter().next();
            assert_eq!(generation.map(|generation| generation * 10), Some(listing.revision));
            if generation == Some(39) {
                return;
            }
        }
    };
    tokio::join!(writing, reading);
}

async fn the_database_answers(store: &dyn Store) {
    store.ping().await.expect("an answer");
}
