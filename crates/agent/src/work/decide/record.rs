//! The record of what was made for a work: `status.appliedResources` of its AppliedManifestWork.
//!
//! It is written twice around every making, and that is why nothing is ever lost: an object is noted down, without its
//! uid, *before* it is made, and with it after. Whatever happens in between, the record names at least every object that
//! may exist. Whether an object of that name is ours is not for the record to say: an object that was made for the work
//! carries the work as its owner from its first moment on. So an entry without an object does no harm, nor does one whose
//! object somebody else made; both go when they are no longer wanted, and nothing that is not ours goes with them.

use std::collections::{BTreeMap, HashSet};

use bellwether_api::work::AppliedResource;

use super::manifest::ObjectId;

/// What is known of an object that a work wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is there and ours.
    Ours { uid: String },
    /// It is there, or is not to be, and is not ours.
    NotOurs,
    /// It is not there, or cannot be read.
    Unsure,
}

/// The object that an entry is about.
pub(crate) trait Named {
    /// Which one.
    fn id(&self) -> ObjectId;
}

impl Named for AppliedResource {
    fn id(&self) -> ObjectId {
        ObjectId {
            group: self.group.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }
}

/// The record with all that is about to be made; nothing, where it has that already.
pub(crate) fn before(
    record: &[AppliedResource],
    planned: &[(ObjectId, String)],
) -> Option<Vec<AppliedResource>> {
    let mut next = by_id(record);
    for (id, version) in planned {
        next.entry(id.clone()).or_insert_with(|| entry(id, version, ""));
    }
    (next.len() > record.len()).then(|| next.into_values().collect())
}

/// The record when all was done that could be: what is ours, what may be, and what is still to go.
pub(crate) fn after(
    record: &[AppliedResource],
    found: &[(ObjectId, String, Standing)],
    gone: &[ObjectId],
) -> Vec<AppliedResource> {
    let mut next = by_id(record);
    for id in gone {
        next.remove(id);
    }
    for (id, version, standing) in found {
        match standing {
            Standing::Ours { uid } => drop(next.insert(id.clone(), entry(id, version, uid))),
            Standing::NotOurs => drop(next.remove(id)),
            Standing::Unsure => {}
        }
    }
    next.into_values().collect()
}

/// What the record names and the work no longer does, where all that it names is known. An object that goes by another
/// name now is the same by its uid.
pub(crate) fn surplus(
    record: &[AppliedResource],
    wanted: &HashSet<&ObjectId>,
    uids: &HashSet<&str>,
) -> Vec<AppliedResource> {
    let is_wanted = |entry: &AppliedResource| {
        wanted.contains(&entry.id()) || (!entry.uid.is_empty() && uids.contains(entry.uid.as_str()))
    };
    record.iter().filter(|entry| !is_wanted(entry)).cloned().collect()
}

fn by_id(record: &[AppliedResource]) -> BTreeMap<ObjectId, AppliedResource> {
    record.iter().map(|entry| (entry.id(), entry.clone())).collect()
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

    fn noted(name: &str, uid: &str) -> AppliedResource {
        entry(&id(name), "v1", uid)
    }

    fn planned(names: &[&str]) -> Vec<(ObjectId, String)> {
        names.iter().map(|name| (id(name), "v1".to_owned())).collect()
    }

    #[test]
    fn what_is_about_to_be_made_is_noted_down_once() {
        assert_eq!(before(&[], &planned(&["b", "a"])), Some(vec![noted("a", ""), noted("b", "")]));
        assert_eq!(before(&[noted("a", "1")], &planned(&["a"])), None);
        assert_eq!(
            before(&[noted("a", "1")], &planned(&["a", "b"])),
            Some(vec![noted("a", "1"), noted("b", "")])
        );
        assert_eq!(before(&[noted("a", "1")], &[]), None);
    }

    #[test]
    fn the_record_follows_what_is_there() {
        let ours = |uid: &str| Standing::Ours { uid: uid.into() };
        let rows = [
            ("it was made", noted("a", ""), ours("1"), vec![noted("a", "1")]),
            ("it was made anew", noted("a", "1"), ours("2"), vec![noted("a", "2")]),
            ("it is not ours", noted("a", "1"), Standing::NotOurs, vec![]),
            ("it could not be made", noted("a", ""), Standing::Unsure, vec![noted("a", "")]),
            ("it could not be read", noted("a", "1"), Standing::Unsure, vec![noted("a", "1")]),
        ];
        for (sentence, entry, standing, wanted) in rows {
            let found = [(id("a"), "v1".to_owned(), standing)];
            assert_eq!(after(&[entry], &found, &[]), wanted, "{sentence}");
        }
        let going = [noted("a", "1"), noted("b", "2")];
        assert_eq!(
            after(&going, &[], &[id("a")]),
            [noted("b", "2")],
            "what is gone is forgotten, the rest is not"
        );
    }

    #[test]
    fn only_what_is_not_wanted_is_surplus() {
        let all = vec![noted("a", "1")];
        let rows = [
            ("nobody wants it", None, None, all.clone()),
            ("it is wanted", Some("a"), None, vec![]),
            ("another is", Some("b"), None, all.clone()),
            ("another version of it is", Some("a"), Some("9"), vec![]),
            ("it is the same object by another name", Some("b"), Some("1"), vec![]),
        ];
        for (sentence, wanted, uid, left) in rows {
            let wanted = wanted.map(id);
            let (wanted, uids) = (wanted.iter().collect(), uid.into_iter().collect());
            assert_eq!(surplus(&all, &wanted, &uids), left, "{sentence}");
        }
        let nameless = [noted("a", "")];
        assert_eq!(surplus(&nameless, &HashSet::new(), &HashSet::from([""])), nameless, "no uid is no uid");
    }

    proptest! {
        #[test]
        fn at_every_moment_the_record_names_all_that_may_exist(
            known in proptest::collection::btree_set(0..6_u8, 0..4),
            next in proptest::collection::btree_set(0..6_u8, 0..4),
            done in 0..5_usize,
        ) {
            let name = |n: &u8| id(&n.to_string());
            let record: Vec<_> = known.iter().map(|n| noted(&n.to_string(), "u")).collect();
            let plan: Vec<_> = next.iter().map(|n| (name(n), "v1".to_owned())).collect();
            let noted_down = before(&record, &plan).unwrap_or_else(|| record.clone());
            // Some were made, and then it ended.
            let made: Vec<ObjectId> = next.iter().take(done).map(name).collect();
            for id in known.iter().map(name).chain(made) {
                prop_assert!(noted_down.iter().any(|entry| entry.id() == id));
            }
            // And what is still wanted is never surplus.
            let wanted = plan.iter().map(|(id, _)| id).collect();
            let left = surplus(&noted_down, &wanted, &HashSet::new());
            for entry in &left {
                prop_assert!(!plan.iter().any(|(id, _)| *id == entry.id()));
            }
            prop_assert_eq!(left.len() + next.len(), known.union(&next).count());
        }
    }
}
