//! The feed: whoever follows it from any revision ends with what is there.

use std::collections::{BTreeMap, BTreeSet};

use bellwether_fleet::resource::{Id, Resource};
use bellwether_fleet::store::{Changed, Changes, Event, EventKind, Revision, Store};

use crate::fixture::{
    accepted, at, cluster, created, deleting, everything, line, node_pool, removed, updated, write, write_all,
};

contract!(
    following_from_any_revision_ends_with_what_is_there,
    each_resource_is_told_once_as_what_happened_since,
    changes_of_one_batch_have_revisions_in_its_order,
    a_revision_that_has_not_been_is_expired,
    forgotten_removals_expire_what_came_before,
    a_report_that_changes_no_resource_moves_nothing,
    the_latest_revision_is_told_at_once,
);

async fn since(store: &dyn Store, revision: Revision, limit: usize) -> (Vec<Event>, Revision) {
    match store.changes(revision, limit).await.expect("changes") {
        Changed::Since { events, through } => (events, through),
        Changed::Expired => panic!("revision {revision} is expired"),
    }
}

fn after(resource: &Resource, generation: i64) -> Resource {
    Resource { generation, ..resource.clone() }
}

/// A history with everything that can happen; what was there at each revision.
async fn history(store: &dyn Store) -> Vec<BTreeMap<Id, Resource>> {
    let clusters: Vec<_> = (0..4).map(|number| cluster(&format!("c-{number}"))).collect();
    let pool = node_pool(&clusters[0], "pool");
    let batches = vec![
        vec![created(&clusters[0])],
        vec![created(&clusters[1]), created(&clusters[2])],
        vec![created(&pool), updated(&clusters[0], &after(&clusters[0], 2))],
        vec![updated(&clusters[1], &deleting(&clusters[1]))],
        vec![removed(&deleting(&clusters[1])), created(&clusters[3])],
        vec![updated(&clusters[0], &after(&clusters[0], 3)), removed(&clusters[2])],
        vec![removed(&pool)],
        vec![updated(&clusters[3], &after(&clusters[3], 2))],
    ];
    let mut states = vec![BTreeMap::new()];
    for batch in batches {
        let count = batch.len();
        write(store, batch).await;
        let state: BTreeMap<_, _> = everything(store).await.into_iter().map(|it| (it.id, it)).collect();
        states.extend(vec![state; count]);
    }
    states
}

async fn following_from_any_revision_ends_with_what_is_there(store: &dyn Store) {
    let states = history(store).await;
    let last = states.last().expect("a state").clone();
    for (begin, state) in states.iter().enumerate() {
        for limit in [1, 2, 3, 100] {
            let mut state = state.clone();
            let mut revision = Revision::try_from(begin).expect("a revision");
            loop {
                let (events, through) = since(store, revision, limit).await;
                assert!(events.len() <= limit && through >= revision);
                if events.is_empty() {
                    break;
                }
                assert!(events.is_sorted_by_key(|event| event.revision));
                assert!(events.iter().all(|event| event.revision > revision && event.revision <= through));
                for event in events {
                    let resource = event.resource.as_ref();
                    match event.kind {
                        EventKind::Deleted => state.remove(&resource.id),
                        EventKind::Added | EventKind::Modified => state.insert(resource.id, resource.clone()),
                    };
                }
                revision = through;
            }
            assert_eq!(state, last, "from {begin}, {limit} at a time");
        }
    }
}

async fn each_resource_is_told_once_as_what_happened_since(store: &dyn Store) {
    let (a, b, c) = (cluster("a"), cluster("b"), cluster("c"));
    let before = write(store, [created(&a), created(&b)]).await;
    write(store, [updated(&a, &after(&a, 2))]).await;
    write(store, [created(&c)]).await;
    write(store, [updated(&a, &after(&a, 3)), updated(&c, &after(&c, 2))]).await;
    let head = write(store, [removed(&b)]).await;

    let (events, through) = since(store, before, 100).await;
    assert_eq!(through, head);
    let told: Vec<_> = events.iter().map(|event| (event.resource.name.as_str(), event.kind)).collect();
    assert_eq!(told, [("a", EventKind::Modified), ("c", EventKind::Added), ("b", EventKind::Deleted)]);
    assert_eq!(*events[0].resource, after(&a, 3));
    assert_eq!(*events[2].resource, b, "as it last was");
    assert_eq!(since(store, head, 100).await, (vec![], head));
    assert_eq!(since(store, before, 0).await, (vec![], before));
}

async fn changes_of_one_batch_have_revisions_in_its_order(store: &dyn Store) {
    let (a, b, c) = (cluster("a"), cluster("b"), cluster("c"));
    write(store, [created(&a), created(&b)]).await;
    let head = write(store, [removed(&b), created(&c), updated(&a, &after(&a, 2))]).await;
    assert_eq!(head, 5);
    let (events, _) = since(store, 2, 100).await;
    let told: Vec<_> = events.iter().map(|event| (event.revision, event.resource.name.as_str())).collect();
    assert_eq!(told, [(3, "b"), (4, "c"), (5, "a")]);
}

async fn a_revision_that_has_not_been_is_expired(store: &dyn Store) {
    let head = write(store, [created(&cluster("a"))]).await;
    assert_eq!(store.changes(head + 1, 10).await.expect("changes"), Changed::Expired);
    assert_eq!(store.changes(-1, 10).await.expect("changes"), Changed::Expired);
}

async fn forgotten_removals_expire_what_came_before(store: &dyn Store) {
    let clusters: Vec<_> = (0..5).map(|number| cluster(&format!("c-{number}"))).collect();
    write(store, clusters.iter().map(created)).await;
    write(store, clusters.iter().map(removed)).await;
    assert!(!store.prune(at(0), 2).await.expect("a slice"), "there is no more");
    for revision in 0..8 {
        assert_eq!(store.changes(revision, 10).await.expect("changes"), Changed::Expired, "{revision}");
    }
    let (events, through) = since(store, 8, 10).await;
    assert_eq!((events.len(), through), (2, 10));
    assert!(!store.prune(at(0), 2).await.expect("a slice"));
    assert_eq!(since(store, 8, 10).await.0.len(), 2, "pruning again forgets no more");
}

async fn a_report_that_changes_no_resource_moves_nothing(store: &dyn Store) {
    let resource = cluster("steady");
    let head = write(store, [created(&resource)]).await;
    let changes = Changes {
        adapters: vec![(resource.id, accepted("dns", 1))],
        log: vec![(resource.id, line(1))],
        ..Changes::default()
    };
    assert_eq!(write_all(store, changes).await, head);
    assert_eq!(since(store, head, 10).await, (vec![], head));
}

async fn the_latest_revision_is_told_at_once(store: &dyn Store) {
    let mut latest = store.revision();
    let mut seen = BTreeSet::from([*latest.borrow_and_update()]);
    for number in 1..=3 {
        let head = write(store, [created(&cluster(&format!("c-{number}")))]).await;
        latest.changed().await.expect("the store is open");
        assert_eq!(*latest.borrow_and_update(), head);
        seen.insert(head);
    }
    assert_eq!(seen, [0, 1, 2, 3].into());
}
