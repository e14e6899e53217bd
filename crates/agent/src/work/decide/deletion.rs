//! Decides how an object that is no longer wanted is deleted or released, and which objects are deleted first.

use std::collections::BTreeMap;

use bellwether_api::work::AppliedResource;
use serde_json::Value;

use super::object_options::DeletionPolicy;
use super::order::ApplyStage;
use super::owners::Owner;

/// The next step to delete an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DeletionAction {
    /// None: the object does not exist.
    AlreadyDeleted,
    /// None: the AppliedManifestWork does not own the object.
    NotOwned,
    /// The object is kept, and these are its remaining owners.
    Release { owners: Vec<Value> },
    /// The object has a deletion timestamp, and a finalizer keeps it.
    Wait,
    /// The object is deleted, if it still has this uid and resourceVersion.
    Delete { uid: String, resource_version: String },
}

/// Decides the next step to delete an object, from its state on the cluster.
pub(crate) fn decide_deletion(live: Option<&Value>, owner: &Owner, policy: DeletionPolicy) -> DeletionAction {
    let Some(live) = live else { return DeletionAction::AlreadyDeleted };
    if !owner.is_owner_of(live) {
        return DeletionAction::NotOwned;
    }
    if policy == DeletionPolicy::Orphan || owner.has_other_work_in(live) {
        return DeletionAction::Release { owners: owner.remaining_owners(live) };
    }
    let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if !text("/metadata/deletionTimestamp").is_empty() {
        return DeletionAction::Wait;
    }
    DeletionAction::Delete { uid: text("/metadata/uid"), resource_version: text("/metadata/resourceVersion") }
}

/// Groups the objects of a record by the order in which they are deleted, which is the reverse of the order in which
/// they are applied. The objects of one stage are deleted before those of the next.
pub(crate) fn deletion_stages(record: &[AppliedResource]) -> Vec<Vec<&AppliedResource>> {
    let mut stages: BTreeMap<ApplyStage, Vec<&AppliedResource>> = BTreeMap::new();
    for entry in record {
        stages.entry(ApplyStage::of(&entry.group, &entry.resource)).or_default().push(entry);
    }
    stages.into_values().rev().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn object_is_deleted_only_if_this_work_is_its_only_owner() {
        let work = |uid: &str| json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "AppliedManifestWork", "name": uid, "uid": uid});
        let live = |owners: &[Value], deletion_timestamp: Option<&str>| {
            Some(
                json!({"metadata": {"uid": "u", "resourceVersion": "7", "ownerReferences": owners, "deletionTimestamp": deletion_timestamp}}),
            )
        };
        let deleting = Some("2024-05-01T10:00:00Z");
        let us = Owner { name: "us".into(), uid: "us".into() };
        let delete = DeletionAction::Delete { uid: "u".into(), resource_version: "7".into() };
        let release = |owners: &[Value]| DeletionAction::Release { owners: owners.to_vec() };
        let rows = [
            ("the object does not exist", None, DeletionPolicy::Delete, DeletionAction::AlreadyDeleted),
            ("the object has no owner", live(&[], None), DeletionPolicy::Delete, DeletionAction::NotOwned),
            (
                "another ManifestWork owns the object",
                live(&[work("them")], None),
                DeletionPolicy::Delete,
                DeletionAction::NotOwned,
            ),
            ("this ManifestWork owns the object", live(&[work("us")], None), DeletionPolicy::Delete, delete),
            (
                "the object is being deleted",
                live(&[work("us")], deleting),
                DeletionPolicy::Delete,
                DeletionAction::Wait,
            ),
            (
                "another ManifestWork owns the object too",
                live(&[work("us"), work("them")], None),
                DeletionPolicy::Delete,
                release(&[work("them")]),
            ),
            ("the object is orphaned", live(&[work("us")], None), DeletionPolicy::Orphan, release(&[])),
            (
                "the object is orphaned and does not exist",
                None,
                DeletionPolicy::Orphan,
                DeletionAction::AlreadyDeleted,
            ),
        ];
        for (case, live, policy, expected) in rows {
            assert_eq!(decide_deletion(live.as_ref(), &us, policy), expected, "{case}");
        }
    }

    #[test]
    fn objects_are_deleted_in_reverse_order_of_creation() {
        let of = |group: &str, resource: &str| AppliedResource {
            group: group.into(),
            resource: resource.into(),
            ..AppliedResource::default()
        };
        let record = [
            of("", "namespaces"),
            of("apps", "deployments"),
            of("", "configmaps"),
            of("x.io", "widgets"),
            of("", "secrets"),
        ];
        let stages: Vec<Vec<&str>> = deletion_stages(&record)
            .into_iter()
            .map(|stage| stage.into_iter().map(|entry| entry.resource.as_str()).collect())
            .collect();
        assert_eq!(
            stages,
            [vec!["widgets"], vec!["deployments"], vec!["configmaps", "secrets"], vec!["namespaces"]]
        );
    }
}
