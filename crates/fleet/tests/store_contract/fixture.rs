//! Resources to write, and short ways to write them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bellwether_conditions::Status;
use bellwether_fleet::resource::{
    AdapterCondition, AdapterRecord, AdapterStatus, Id, LogEntry, OwnerReference, ReportedCondition,
    Resource, ResourceCondition, ResourceStatus, Verdict,
};
use bellwether_fleet::store::{Change, Changes, Needs, Page, Query, Revision, Store, StoreError};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// An instant, so many seconds after the tests' beginning.
pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).expect("an instant")
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is not an object"),
    }
}

pub(crate) fn cluster(name: &str) -> Resource {
    let id = Id::at(Timestamp::now());
    Resource {
        id,
        kind: "Cluster".into(),
        name: name.into(),
        href: format!("/api/hyperfleet/v1/clusters/{id}"),
        owner_references: None,
        spec: object(json!({"region": "eu", "nodes": 3})),
        labels: BTreeMap::from([("team".into(), "red".into())]),
        tenancy: BTreeMap::new(),
        generation: 1,
        created_time: at(0),
        created_by: "ann@example.com".into(),
        updated_time: at(0),
        updated_by: "ann@example.com".into(),
        deleted_time: None,
        deleted_by: None,
        status: ResourceStatus { conditions: vec![condition("Ready", Status::False, 0)] },
    }
}

pub(crate) fn node_pool(owner: &Resource, name: &str) -> Resource {
    let mut pool = cluster(name);
    pool.kind = "NodePool".into();
    pool.href = format!("{}/nodepools/{}", owner.href, pool.id);
    pool.owner_references =
        Some(OwnerReference { id: owner.id, kind: owner.kind.clone(), href: owner.href.clone() });
    pool
}

pub(crate) fn condition(type_: &str, status: Status, seconds: i64) -> ResourceCondition {
    ResourceCondition {
        type_: type_.into(),
        status,
        reason: Some("Because".into()),
        message: None,
        observed_generation: 1,
        created_time: at(0),
        last_updated_time: at(seconds),
        last_transition_time: at(seconds),
    }
}

/// An adapter whose report was accepted.
pub(crate) fn accepted(adapter: &str, seconds: i64) -> AdapterRecord {
    let status = AdapterStatus {
        adapter: adapter.into(),
        observed_generation: 1,
        conditions: vec![AdapterCondition {
            type_: "Available".into(),
            status: Status::True,
            reason: None,
            message: Some("all is well \u{1F600}\u{0}".into()),
            last_transition_time: at(seconds),
        }],
        data: object(json!({"nodes": {"ready": seconds}})),
        metadata: Some(object(json!({"job_name": "check"}))),
        created_time: at(0),
        last_updated_time: at(seconds),
        last_report_time: at(seconds),
    };
    AdapterRecord { adapter: adapter.into(), last_report_time: at(seconds), status: Some(status) }
}

/// An adapter that was heard, and no more.
pub(crate) fn heard(adapter: &str, seconds: i64) -> AdapterRecord {
    AdapterRecord { adapter: adapter.into(), last_report_time: at(seconds), status: None }
}

pub(crate) fn line(seconds: i64) -> LogEntry {
    LogEntry {
        received_time: at(seconds),
        adapter: "dns".into(),
        verdict: Verdict::Discarded,
        why: "too old".into(),
        generation: 2,
        observed_generation: 1,
        observed_time: at(seconds - 1),
        conditions: vec![ReportedCondition {
            type_: "Available".into(),
            status: Status::Unknown,
            reason: None,
            message: None,
        }],
    }
}

pub(crate) fn deleting(resource: &Resource) -> Resource {
    let mut after = resource.clone();
    after.deleted_time = Some(at(50));
    after.deleted_by = Some("bob@example.com".into());
    after.generation += 1;
    after
}

pub(crate) fn created(resource: &Resource) -> Change {
    Change::Created(resource.clone())
}

pub(crate) fn updated(before: &Resource, after: &Resource) -> Change {
    Change::Updated { before: Arc::new(before.clone()), after: after.clone() }
}

pub(crate) fn removed(resource: &Resource) -> Change {
    Change::Removed { before: Arc::new(resource.clone()), last: resource.clone() }
}

pub(crate) fn lineages(ids: impl IntoIterator<Item = Id>) -> Needs {
    Needs { lineages: ids.into_iter().collect(), ..Needs::default() }
}

/// Everything that must be read before these changes are made.
fn needs_of(changes: &Changes) -> Needs {
    let mut ids = BTreeSet::new();
    for change in &changes.resources {
        let (Change::Created(resource)
        | Change::Updated { after: resource, .. }
        | Change::Removed { last: resource, .. }) = change;
        ids.insert(resource.id);
        ids.extend(resource.owner());
    }
    ids.extend(changes.adapters.iter().map(|(id, _)| *id));
    ids.extend(changes.log.iter().map(|(id, _)| *id));
    lineages(ids)
}

pub(crate) async fn try_write(store: &dyn Store, changes: Changes) -> Result<Revision, StoreError> {
    let (transaction, _) = store.begin(&needs_of(&changes)).await?;
    transaction.commit(&changes).await
}

pub(crate) async fn write_all(store: &dyn Store, changes: Changes) -> Revision {
    try_write(store, changes).await.expect("the changes are written")
}

pub(crate) async fn write(store: &dyn Store, resources: impl IntoIterator<Item = Change>) -> Revision {
    let resources = resources.into_iter().collect();
    write_all(store, Changes { resources, ..Changes::default() }).await
}

pub(crate) async fn get(store: &dyn Store, id: Id) -> Option<Resource> {
    store.get(id).await.expect("the store answers")
}

pub(crate) async fn everything(store: &dyn Store) -> Vec<Resource> {
    let page = Page { number: 1, size: 1000 };
    store.list(&Query { page, ..Query::default() }).await.expect("the store lists").items
}
