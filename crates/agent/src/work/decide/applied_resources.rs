//! Computes the record of the objects that were applied for a ManifestWork: `status.appliedResources` of its
//! AppliedManifestWork.
//!
//! The record is written before and after every creation, so that no object is ever lost: an object is added without
//! its uid *before* it is created, and its uid is added afterwards. Wherever the agent crashes, the record lists at
//! least every object that may exist. The record does not decide whether an object of that name belongs to the
//! ManifestWork: an object that was created for the ManifestWork has the AppliedManifestWork as owner from its creation
//! on. An entry without an object, or whose object somebody else created, is therefore harmless: it is removed when it
//! is no longer wanted, and no object of others is deleted with it.

use std::collections::{BTreeMap, HashSet};

use bellwether_api::work::AppliedResource;

use super::manifest::ObjectId;

/// Whether the AppliedManifestWork owns an object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The object exists, and the AppliedManifestWork owns it.
    Owned { uid: String },
    /// The object exists without that owner, or the agent never creates it.
    NotOwned,
    /// The object does not exist yet, or reading it failed.
    Unknown,
}

/// Something that refers to an object.
pub(crate) trait HasObjectId {
    /// The object it refers to.
    fn object_id(&self) -> ObjectId;
}

impl HasObjectId for AppliedResource {
    fn object_id(&self) -> ObjectId {
        ObjectId {
            group: self.group.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// Adds the objects that are about to be created, without uids; nothing if the record already lists them all.
pub(crate) fn add_planned(
    record: &[AppliedResource],
    planned: &[(ObjectId, String)],
) -> Option<Vec<AppliedResource>> {
    let mut next = by_id(record);
    for (id, version) in planned {
        next.entry(id.clone()).or_insert_with(|| entry(id, version, ""));
    }
    (next.len() > record.len()).then(|| next.into_values().collect())
}

/// Updates the record after the writes: it lists the objects that are ours, those that may be ours, and those that are
/// still to be deleted.
pub(crate) fn update(
    record: &[AppliedResource],
    observed: &[(ObjectId, String, Ownership)],
    deleted: &[ObjectId],
) -> Vec<AppliedResource> {
    let mut next = by_id(record);
    for id in deleted {
        next.remove(id);
    }
    for (id, version, ownership) in observed {
        match ownership {
            Ownership::Owned { uid } => drop(next.insert(id.clone(), entry(id, version, uid))),
            Ownership::NotOwned => drop(next.remove(id)),
            Ownership::Unknown => {}
        }
    }
    next.into_values().collect()
}

/// The entries whose objects were removed from the ManifestWork. It must be called only when all its manifests are
/// resolved to objects. An object that is wanted under another group or resource is recognized by its uid.
pub(crate) fn find_removed(
    record: &[AppliedResource],
    wanted: &HashSet<&ObjectId>,
    uids: &HashSet<&str>,
) -> Vec<AppliedResource> {
    let is_wanted = |entry: &AppliedResource| {
        wanted.contains(&entry.object_id()) || (!entry.uid.is_empty() && uids.contains(entry.uid.as_str()))
    };
    record.iter().filter(|entry| !is_wanted(entry)).cloned().collect()
}

fn by_id(record: &[AppliedResource]) -> BTreeMap<ObjectId, AppliedResource> {
    record.iter().map(|entry| (entry.object_id(), entry.clone())).collect()
}

fn entry(id: &ObjectId, version: &str, uid: &str) -> AppliedResource {
    AppliedResource {
        group: id.group.clone(),
        version: version.to_owned(),
        resource: id.resource.clone(),
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        uid: uid.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn id(name: &str) -> ObjectId {
        ObjectId {
            group: String::new(),
            resource: "configmaps".into(),
            namespace: "ns".into(),
            name: name.into(),
        }
    }

    fn recorded(name: &str, uid: &str) -> AppliedResource {
        entry(&id(name), "v1", uid)
    }

    fn planned(names: &[&str]) -> Vec<(ObjectId, String)> {
        names.iter().map(|name| (id(name), "v1".to_owned())).collect()
    }

    #[test]
    fn planned_objects_are_recorded_once() {
        assert_eq!(add_planned(&[], &planned(&["b", "a"])), Some(vec![recorded("a", ""), recorded("b", "")]));
        assert_eq!(add_planned(&[recorded("a", "1")], &planned(&["a"])), None);
        assert_eq!(
            add_planned(&[recorded("a", "1")], &planned(&["a", "b"])),
            Some(vec![recorded("a", "1"), recorded("b", "")])
        );
        assert_eq!(add_planned(&[recorded("a", "1")], &[]), None);
    }

    #[test]
    fn record_follows_the_observed_objects() {
        let owned = |uid: &str| Ownership::Owned { uid: uid.into() };
        let rows = [
            ("the object was created", recorded("a", ""), owned("1"), vec![recorded("a", "1")]),
            ("the object was created again", recorded("a", "1"), owned("2"), vec![recorded("a", "2")]),
            ("somebody else owns the object", recorded("a", "1"), Ownership::NotOwned, vec![]),
            (
                "the object could not be created",
                recorded("a", ""),
                Ownership::Unknown,
                vec![recorded("a", "")],
            ),
            (
                "the object could not be read",
                recorded("a", "1"),
                Ownership::Unknown,
                vec![recorded("a", "1")],
            ),
        ];
        for (case, entry, ownership, wanted) in rows {
            let found = [(id("a"), "v1".to_owned(), ownership)];
            assert_eq!(update(&[entry], &found, &[]), wanted, "{case}");
        }
        let record = [recorded("a", "1"), recorded("b", "2")];
        assert_eq!(
            update(&record, &[], &[id("a")]),
            [recorded("b", "2")],
            "only deleted objects are removed from the record"
        );
    }

    #[test]
    fn only_unwanted_objects_are_removed() {
        let all = vec![recorded("a", "1")];
        let rows = [
            ("no object is wanted", None, None, all.clone()),
            ("the object is wanted", Some("a"), None, vec![]),
            ("another object is wanted", Some("b"), None, all.clone()),
            ("the object is wanted, and another uid is owned", Some("a"), Some("9"), vec![]),
            ("the same object is wanted under another name", Some("b"), Some("1"), vec![]),
        ];
        for (case, wanted, uid, left) in rows {
            let wanted = wanted.map(id);
            let (wanted, uids) = (wanted.iter().collect(), uid.into_iter().collect());
            assert_eq!(find_removed(&all, &wanted, &uids), left, "{case}");
        }
        let without_uid = [recorded("a", "")];
        assert_eq!(
            find_removed(&without_uid, &HashSet::new(), &HashSet::from([""])),
            without_uid,
            "an empty uid identifies no object"
        );
    }

    proptest! {
        #[test]
        fn record_lists_every_object_that_may_exist_after_a_crash(
            known in proptest::collection::btree_set(0..6_u8, 0..4),
            next in proptest::collection::btree_set(0..6_u8, 0..4),
            done in 0..5_usize,
        ) {
            let name = |n: &u8| id(&n.to_string());
            let record: Vec<_> = known.iter().map(|n| recorded(&n.to_string(), "u")).collect();
            let plan: Vec<_> = next.iter().map(|n| (name(n), "v1".to_owned())).collect();
            let recorded_before = add_planned(&record, &plan).unwrap_or_else(|| record.clone());
            // Some objects were created, and then the agent crashed.
            let created: Vec<ObjectId> = next.iter().take(done).map(name).collect();
            for id in known.iter().map(name).chain(created) {
                prop_assert!(recorded_before.iter().any(|entry| entry.object_id() == id));
            }
            // A wanted object is never removed.
            let wanted = plan.iter().map(|(id, _)| id).collect();
            let left = find_removed(&recorded_before, &wanted, &HashSet::new());
            for entry in &left {
                prop_assert!(!plan.iter().any(|(id, _)| *id == entry.object_id()));
            }
            prop_assert_eq!(left.len() + next.len(), known.union(&next).count());
        }
    }
}
