//! What is written is read as it was, or not at all.

use std::collections::BTreeMap;

use bellwether_conditions::Status;
use bellwether_fleet::resource::Resource;
use bellwether_fleet::store::{Changes, Page, Store, StoreError};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fixture::{
    accepted, at, cluster, condition, created, deleting, everything, get, line, lineages, node_pool, object,
    removed, try_write, updated, write, write_all,
};

contract!(
    any_spec_is_read_as_it_was_written,
    text_of_any_script_is_read_as_it_was_written,
    times_are_kept_to_the_microsecond,
    labels_are_replaced_and_removed,
    conditions_are_replaced_moved_and_removed,
    an_update_moves_every_column,
    what_is_removed_leaves_nothing_behind,
    reports_of_what_is_removed_are_not_kept,
    a_name_is_taken_once_per_kind_owner_and_tenant,
    a_name_is_free_once_its_holder_is_being_deleted,
    a_name_passes_on_within_one_batch,
    a_conflict_leaves_nothing_behind,
    a_dropped_transaction_changes_nothing,
    an_empty_batch_is_no_change,
    an_owner_and_its_child_are_made_in_any_order,
);

async fn is_kept(store: &dyn Store, resource: &Resource) {
    write(store, [created(resource)]).await;
    assert_eq!(get(store, resource.id).await.as_ref(), Some(resource));
    assert!(everything(store).await.contains(resource), "the list has it as it was written");
}

async fn any_spec_is_read_as_it_was_written(store: &dyn Store) {
    // As deep as a request can be: 128 levels, of which the body and the spec are two.
    let deep = (0..62).fold(json!("bottom"), |inner, _| json!({"in": [inner]}));
    let rows = [
        ("nothing", json!({})),
        ("empty things", json!({"": "", "o": {}, "l": [], "n": null})),
        ("other scripts", json!({"größe": "大きい", "emoji": "\u{1F600}", "quote": "\"\\/\u{8}\u{c}\n\r\t"})),
        ("zero characters", json!({"a\u{0}b": "\u{0}", "list": ["x\u{0}"]})),
        ("great numbers", json!({"u": u64::MAX, "i": i64::MIN, "f": f64::MAX, "e": 1e16, "e2": 1e300})),
        ("small numbers", json!({"f": f64::MIN_POSITIVE, "d": 5e-324, "t": 0.1, "s": 1.0e-7})),
        ("signs and points", json!({"a": -0.0, "b": 0.0, "c": 0, "d": 1.0, "e": 1, "f": -1.5})),
        ("awkward fractions", json!({"a": 0.1 + 0.2, "b": 1.0 / 3.0, "c": 2.225_073_858_507_201e-308})),
        ("depth", json!({"deep": deep})),
        ("width", json!({"wide": (0..2000).collect::<Vec<_>>()})),
        ("booleans", json!({"t": true, "f": false})),
    ];
    for (index, (what, spec)) in rows.into_iter().enumerate() {
        let mut resource = cluster(&format!("odd-{index}"));
        resource.spec = object(spec);
        write(store, [created(&resource)]).await;
        let read = get(store, resource.id).await.expect("it is there");
        let text = |resource: &Resource| serde_json::to_string(&resource.spec).expect("JSON");
        assert_eq!(text(&read), text(&resource), "{what}");
        assert_eq!(read, resource, "{what}");

        let mut after = resource.clone();
        after.spec.insert("more".into(), Value::Bool(true));
        write(store, [updated(&resource, &after)]).await;
        assert_eq!(get(store, after.id).await, Some(after), "{what}, updated");
    }
}

async fn text_of_any_script_is_read_as_it_was_written(store: &dyn Store) {
    let mut resource = cluster("scripts");
    resource.labels = BTreeMap::from([("größe".into(), "大".into()), ("empty".into(), String::new())]);
    resource.tenancy = BTreeMap::from([("org".into(), "é\"\\'".into()), ("a".into(), String::new())]);
    resource.created_by = "O'Brien; DROP TABLE resources; --".into();
    resource.updated_by = "\u{1F600}\u{202E}".into();
    let mut ready = condition("Ready", Status::Unknown, 3);
    ready.reason = None;
    ready.message = Some("two\nlines\t'and' \"quotes\" \u{1F600}".into());
    resource.status.conditions = vec![ready, condition("Ärger", Status::True, 4)];
    is_kept(store, &resource).await;
}

async fn times_are_kept_to_the_microsecond(store: &dyn Store) {
    let exact: Timestamp = "2026-01-02T03:04:05.123456789Z".parse().expect("an instant");
    let kept: Timestamp = "2026-01-02T03:04:05.123456Z".parse().expect("an instant");
    let with = |mut resource: Resource, instant: Timestamp| {
        resource.created_time = instant;
        resource.updated_time = instant;
        resource.deleted_time = Some(instant);
        for condition in &mut resource.status.conditions {
            condition.created_time = instant;
            condition.last_updated_time = instant;
            condition.last_transition_time = instant;
        }
        resource
    };
    let resource = cluster("exact");
    let mut record = accepted("dns", 1);
    let mut entry = line(1);
    record.last_report_time = exact;
    if let Some(status) = &mut record.status {
        status.created_time = exact;
        status.last_updated_time = exact;
        status.last_report_time = exact;
        status.conditions[0].last_transition_time = exact;
    }
    entry.received_time = exact;
    entry.observed_time = exact;
    let changes = Changes {
        resources: vec![created(&with(resource.clone(), exact))],
        adapters: vec![(resource.id, record)],
        log: vec![(resource.id, entry)],
    };
    write_all(store, changes).await;

    assert_eq!(get(store, resource.id).await, Some(with(resource.clone(), kept)));
    let (statuses, _) = store.statuses(resource.id, Page::default()).await.expect("statuses");
    let status = &statuses[0];
    assert_eq!([status.created_time, status.last_updated_time, status.last_report_time], [kept; 3]);
    assert_eq!(status.conditions[0].last_transition_time, kept);
    let (log, _) = store.log(resource.id, Page::default()).await.expect("a log");
    assert_eq!([log[0].received_time, log[0].observed_time], [kept; 2]);
}

async fn labels_are_replaced_and_removed(store: &dyn Store) {
    let before = cluster("labelled");
    write(store, [created(&before)]).await;
    let sets: [&[(&str, &str)]; 4] =
        [&[("team", "blue"), ("tier", "gold")], &[("tier", "gold")], &[], &[("team", "red")]];
    let mut before = before;
    for set in sets {
        let mut after = before.clone();
        after.labels = set.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        write(store, [updated(&before, &after)]).await;
        assert_eq!(get(store, after.id).await.as_ref(), Some(&after), "{set:?}");
        before = after;
    }
}

async fn conditions_are_replaced_moved_and_removed(store: &dyn Store) {
    let mut before = cluster("conditioned");
    before.status.conditions.clear();
    write(store, [created(&before)]).await;
    let (a, b, c) = ("Ready", "Available", "DnsSuccessful");
    let sets: [&[(&str, Status, i64)]; 7] = [
        &[(a, Status::False, 0), (b, Status::False, 0)],
        &[(a, Status::False, 0), (b, Status::True, 5)],
        &[(a, Status::False, 0), (b, Status::True, 5), (c, Status::Unknown, 6)],
        &[(c, Status::Unknown, 6), (a, Status::False, 0), (b, Status::True, 5)],
        &[(b, Status::True, 5)],
        &[(c, Status::True, 7), (b, Status::True, 8)],
        &[],
    ];
    for set in sets {
        let mut after = before.clone();
        after.status.conditions =
            set.iter().map(|(type_, status, seconds)| condition(type_, *status, *seconds)).collect();
        write(store, [updated(&before, &after)]).await;
        assert_eq!(get(store, after.id).await.as_ref(), Some(&after), "{set:?}");
        before = after;
    }
}

async fn an_update_moves_every_column(store: &dyn Store) {
    let before = cluster("before");
    write(store, [created(&before)]).await;
    let mut after = deleting(&before);
    after.name = "after".into();
    after.href = "/elsewhere".into();
    after.spec = object(json!({"new": 1}));
    after.tenancy = BTreeMap::from([("org".into(), "acme".into())]);
    after.generation = i64::from(i32::MAX) + 1;
    after.updated_time = at(9);
    after.updated_by = "eve@example.com".into();
    write(store, [updated(&before, &after)]).await;
    assert_eq!(get(store, after.id).await, Some(after));
}

async fn what_is_removed_leaves_nothing_behind(store: &dyn Store) {
    let resource = cluster("short-lived");
    let changes = Changes {
        resources: vec![created(&resource)],
        adapters: vec![(resource.id, accepted("dns", 1))],
        log: vec![(resource.id, line(1))],
    };
    write_all(store, changes).await;
    write(store, [removed(&resource)]).await;

    assert_eq!(get(store, resource.id).await, None);
    assert_eq!(everything(store).await, []);
    assert_eq!(store.statuses(resource.id, Page::default()).await.expect("statuses"), (vec![], 0));
    assert_eq!(store.log(resource.id, Page::default()).await.expect("a log"), (vec![], 0));
    assert_eq!(store.pending("Ready").await.expect("a count"), []);
}

async fn reports_of_what_is_removed_are_not_kept(store: &dyn Store) {
    let (gone, stays) = (cluster("gone"), cluster("stays"));
    write(store, [created(&gone), created(&stays)]).await;
    let changes = Changes {
        resources: vec![removed(&gone)],
        adapters: vec![
            (gone.id, accepted("dns", 1)),
            (stays.id, accepted("dns", 1)),
            (stays.id, accepted("dns", 2)),
        ],
        log: vec![(gone.id, line(1)), (stays.id, line(1)), (stays.id, line(2))],
    };
    write_all(store, changes).await;
    assert_eq!(store.log(gone.id, Page::default()).await.expect("a log"), (vec![], 0));
    assert_eq!(store.log(stays.id, Page::default()).await.expect("a log").1, 2);
    let (statuses, _) = store.statuses(stays.id, Page::default()).await.expect("statuses");
    assert_eq!(Some(&statuses[0]), accepted("dns", 2).status.as_ref(), "the last of a batch counts");
}

async fn a_name_is_taken_once_per_kind_owner_and_tenant(store: &dyn Store) {
    let first = cluster("same");
    let other = cluster("other");
    let (mut tenant, mut kind) = (cluster("same"), cluster("same"));
    tenant.tenancy = BTreeMap::from([("org".into(), "acme".into())]);
    kind.kind = "Channel".into();
    let (child, cousin) = (node_pool(&first, "same"), node_pool(&other, "same"));
    write(store, [&first, &other, &tenant, &kind, &child, &cousin].map(created)).await;
    for again in [cluster("same"), node_pool(&first, "same")] {
        let refused =
            try_write(store, Changes { resources: vec![created(&again)], ..Changes::default() }).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    }
}

async fn a_name_is_free_once_its_holder_is_being_deleted(store: &dyn Store) {
    let first = cluster("same");
    write(store, [created(&first)]).await;
    write(store, [updated(&first, &deleting(&first))]).await;
    let second = cluster("same");
    write(store, [created(&second)]).await;
    write(store, [updated(&second, &deleting(&second))]).await;
    write(store, [created(&cluster("same"))]).await;
    assert_eq!(everything(store).await.len(), 3);
}

async fn a_name_passes_on_within_one_batch(store: &dyn Store) {
    let (first, second, third) = (cluster("same"), cluster("same"), cluster("same"));
    write(store, [created(&first)]).await;
    write(store, [created(&second), updated(&first, &deleting(&first))]).await;
    write(store, [created(&third), removed(&second)]).await;
    assert_eq!(get(store, third.id).await, Some(third));
}

async fn a_conflict_leaves_nothing_behind(store: &dyn Store) {
    let first = cluster("same");
    let revision = write(store, [created(&first)]).await;
    let resources = vec![created(&cluster("fresh")), created(&cluster("same"))];
    let refused = try_write(store, Changes { resources, ..Changes::default() }).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    assert_eq!(everything(store).await, [first]);
    assert_eq!(write(store, [created(&cluster("next"))]).await, revision + 1, "no revision was lost");
}

async fn a_dropped_transaction_changes_nothing(store: &dyn Store) {
    let resource = cluster("steady");
    write(store, [created(&resource)]).await;
    let (transaction, _) = store.begin(&lineages([resource.id])).await.expect("a transaction");
    drop(transaction);
    let mut after = resource.clone();
    after.generation = 2;
    write(store, [updated(&resource, &after)]).await;
    assert_eq!(get(store, resource.id).await, Some(after), "the next one goes on");
}

async fn an_empty_batch_is_no_change(store: &dyn Store) {
    let revision = write(store, [created(&cluster("one"))]).await;
    assert_eq!(write_all(store, Changes::default()).await, revision);
}

async fn an_owner_and_its_child_are_made_in_any_order(store: &dyn Store) {
    let owner = cluster("owner");
    let child = node_pool(&owner, "child");
    let grandchild = node_pool(&child, "grandchild");
    write(store, [created(&grandchild), created(&owner), created(&child)]).await;
    let (_, loaded) = store.begin(&lineages([grandchild.id])).await.expect("a transaction");
    assert_eq!(loaded.resources.len(), 3);
}
