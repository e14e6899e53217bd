//! The index of applied objects: the last resourceVersion of each, as watches of their kinds report it. It maps a
//! change to the ManifestWorks of the object, and shows which objects did not change and need not be read. Other
//! objects are ignored.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bellwether_runtime::{Listing, ObjectName};
use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;

use super::spoke::Address;

/// An object of which only the metadata was read.
pub(crate) type ObjectMetadata = PartialObjectMeta<DynamicObject>;

/// The name of a ManifestWork.
pub(crate) type WorkName = Arc<str>;

/// What the watch last reported about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Seen {
    /// Nothing since a ManifestWork first listed the object.
    #[default]
    Nothing,
    At(String),
    Absent,
}

#[derive(Default)]
struct Object {
    seen: Seen,
    works: BTreeSet<WorkName>,
}

#[derive(Default)]
struct Kind {
    /// Is new each time the kind becomes needed, so that events of an earlier watch are ignored.
    serial: u64,
    /// Whether the watch has delivered its list, and every change since.
    is_synced: bool,
    objects: HashMap<ObjectName, Object>,
    /// The objects that the current list has not contained yet.
    unlisted: HashSet<ObjectName>,
}

/// The objects of ManifestWorks, by kind.
#[derive(Default)]
pub(crate) struct ObjectIndex {
    kinds: HashMap<ApiResource, Kind>,
    works: HashMap<WorkName, Vec<Address>>,
    /// ManifestWorks whose manifests were not reconciled yet.
    pending: HashSet<WorkName>,
    serial: u64,
    /// Whether the needed kinds changed since the last call of `take_kinds_changed`.
    kinds_changed: bool,
}

impl ObjectIndex {
    /// Sets the objects of a ManifestWork.
    pub(crate) fn set_objects(&mut self, work: &WorkName, objects: Vec<Address>) {
        let before = self.works.insert(work.clone(), objects.clone()).unwrap_or_default();
        for address in &objects {
            let kind = self.kinds.entry(address.resource()).or_insert_with(|| {
                self.serial += 1;
                self.kinds_changed = true;
                Kind { serial: self.serial, ..Kind::default() }
            });
            kind.objects.entry(name(address)).or_default().works.insert(work.clone());
        }
        let kept: HashSet<&Address> = objects.iter().collect();
        for address in before.iter().filter(|address| !kept.contains(address)) {
            self.release(work, address);
        }
    }

    /// Notes that a ManifestWork has manifests that were not reconciled yet.
    pub(crate) fn set_pending(&mut self, work: &WorkName) {
        self.pending.insert(work.clone());
    }

    /// Notes that the manifests of a ManifestWork were reconciled.
    pub(crate) fn clear_pending(&mut self, work: &str) {
        self.pending.remove(work);
    }

    /// Whether another ManifestWork may list objects that were removed from this one. An object that moves to another
    /// ManifestWork must not be deleted in between.
    pub(crate) fn may_be_claimed_by_others(&self, work: &str) -> bool {
        self.pending.iter().any(|pending| **pending != *work)
    }

    /// Removes a ManifestWork and its objects.
    pub(crate) fn delete_work(&mut self, work: &str) {
        self.pending.remove(work);
        if let Some((work, objects)) = self.works.remove_entry(work) {
            objects.iter().for_each(|address| self.release(&work, address));
        }
    }

    fn release(&mut self, work: &str, address: &Address) {
        let resource = address.resource();
        let Some(kind) = self.kinds.get_mut(&resource) else { return };
        let name = name(address);
        if let Some(object) = kind.objects.get_mut(&name) {
            object.works.remove(work);
            if object.works.is_empty() {
                kind.objects.remove(&name);
            }
        }
        if kind.objects.is_empty() {
            self.kinds.remove(&resource);
            self.kinds_changed = true;
        }
    }

    /// Whether the kinds that have to be watched changed since this was last called.
    pub(crate) fn take_kinds_changed(&mut self) -> bool {
        std::mem::take(&mut self.kinds_changed)
    }

    /// The kinds that have to be watched, each with its serial.
    pub(crate) fn kinds(&self) -> HashMap<ApiResource, u64> {
        self.kinds.iter().map(|(resource, kind)| (resource.clone(), kind.serial)).collect()
    }

    /// Whether an object is certainly as it was read: at this resourceVersion, or absent.
    pub(crate) fn is_unchanged(&self, address: &Address, version: Option<&str>) -> bool {
        let Some(kind) = self.kinds.get(&address.resource()).filter(|kind| kind.is_synced) else {
            return false;
        };
        match (kind.objects.get(&name(address)).map(|object| &object.seen), version) {
            (Some(Seen::Nothing), _) => true,
            (Some(Seen::At(seen)), Some(version)) => seen == version,
            (Some(Seen::Absent), None) => true,
            _ => false,
        }
    }

    /// Whether every object of a ManifestWork is watched.
    pub(crate) fn is_watched(&self, work: &str) -> bool {
        let mut objects = self.works.get(work).into_iter().flatten();
        objects.all(|address| self.kinds.get(&address.resource()).is_some_and(|kind| kind.is_synced))
    }

    /// Notes that a kind is not watched any more.
    pub(crate) fn stop_watch(&mut self, resource: &ApiResource) {
        if let Some(kind) = self.kinds.get_mut(resource) {
            kind.is_synced = false;
        }
    }

    /// Handles an object that was listed or changed. Returns the ManifestWorks of the object.
    pub(crate) fn apply(&mut self, kind: &WatchedKind, object: &ObjectMetadata) -> BTreeSet<WorkName> {
        let Some(kind) = self.kind(kind) else { return BTreeSet::new() };
        let name = ObjectName::of(object);
        kind.unlisted.remove(&name);
        kind.see(&name, Seen::At(object.resource_version().unwrap_or_default()))
    }

    /// Handles an object that was deleted. Returns the ManifestWorks of the object.
    pub(crate) fn delete(&mut self, kind: &WatchedKind, name: &ObjectName) -> BTreeSet<WorkName> {
        self.kind(kind).map(|kind| kind.see(name, Seen::Absent)).unwrap_or_default()
    }

    /// Handles the start or the end of a list. Returns the ManifestWorks with objects that the list does not contain.
    pub(crate) fn list(&mut self, kind: &WatchedKind, listing: Listing) -> BTreeSet<WorkName> {
        let Some(kind) = self.kind(kind) else { return BTreeSet::new() };
        kind.is_synced = listing == Listing::Completed;
        match listing {
            Listing::Started => {
                kind.unlisted = kind.objects.keys().cloned().collect();
                BTreeSet::new()
            }
            Listing::Completed => {
                let absent = std::mem::take(&mut kind.unlisted);
                absent.iter().flat_map(|name| kind.see(name, Seen::Absent)).collect()
            }
        }
    }

    fn kind(&mut self, watched: &WatchedKind) -> Option<&mut Kind> {
        self.kinds.get_mut(&watched.resource).filter(|kind| kind.serial == watched.serial)
    }
}

/// A kind that is watched.
#[derive(Clone, Debug)]
pub(crate) struct WatchedKind {
    pub(crate) resource: ApiResource,
    pub(crate) serial: u64,
}

impl Kind {
    fn see(&mut self, name: &ObjectName, seen: Seen) -> BTreeSet<WorkName> {
        match self.objects.get_mut(name) {
            Some(object) if object.seen != seen => {
                object.seen = seen;
                object.works.clone()
            }
            _ => BTreeSet::new(),
        }
    }
}

fn name(address: &Address) -> ObjectName {
    ObjectName::new(address.id.namespace.as_str(), address.id.name.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decide::manifest::ObjectId;
    use super::*;

    fn address(name: &str) -> Address {
        let id = ObjectId {
            group: String::new(),
            resource: "configmaps".into(),
            namespace: "ns".into(),
            name: name.into(),
        };
        Address::new(&id, "v1")
    }

    fn object(name: &str, version: &str) -> ObjectMetadata {
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": version}}),
        )
        .unwrap()
    }

    fn work(name: &str) -> WorkName {
        name.into()
    }

    fn names(works: &BTreeSet<WorkName>) -> Vec<&str> {
        works.iter().map(AsRef::as_ref).collect()
    }

    fn watched(index: &ObjectIndex) -> WatchedKind {
        let resource = address("a").resource();
        WatchedKind { serial: index.kinds()[&resource], resource }
    }

    /// Lists objects, and returns the ManifestWorks that are affected.
    fn listed(index: &mut ObjectIndex, objects: &[(&str, &str)]) -> Vec<String> {
        let kind = watched(index);
        let mut works = index.list(&kind, Listing::Started);
        for (name, version) in objects {
            works.extend(index.apply(&kind, &object(name, version)));
        }
        works.extend(index.list(&kind, Listing::Completed));
        works.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_changes_of_applied_objects_are_reported() {
        let mut index = ObjectIndex::default();
        index.set_objects(&work("one"), vec![address("a"), address("b")]);
        index.set_objects(&work("two"), vec![address("b")]);
        assert_eq!(listed(&mut index, &[("a", "1"), ("b", "2"), ("c", "3")]), ["one", "two"]);
        assert_eq!(names(&index.apply(&watched(&index), &object("c", "4"))), [""; 0]);
        assert_eq!(names(&index.apply(&watched(&index), &object("b", "5"))), ["one", "two"]);
        assert_eq!(names(&index.apply(&watched(&index), &object("b", "5"))), [""; 0]);
        assert_eq!(names(&index.delete(&watched(&index), &ObjectName::new("ns", "a"))), ["one"]);
        index.delete_work("one");
        assert_eq!(names(&index.apply(&watched(&index), &object("b", "7"))), ["two"]);
        index.delete_work("two");
        assert!(index.kinds().is_empty());
    }

    #[test]
    fn object_is_unchanged_until_a_watch_reports_otherwise() {
        let mut index = ObjectIndex::default();
        index.set_objects(&work("one"), vec![address("a"), address("b")]);
        assert!(!index.is_unchanged(&address("a"), Some("1")), "no watch yet");
        assert!(!index.is_watched("one"));
        listed(&mut index, &[("a", "1")]);
        assert!(index.is_watched("one"));
        assert!(index.is_unchanged(&address("a"), Some("1")));
        assert!(!index.is_unchanged(&address("a"), Some("2")));
        assert!(index.is_unchanged(&address("b"), None), "it was not listed");
        assert!(!index.is_unchanged(&address("b"), Some("1")));
        index.set_objects(&work("one"), vec![address("a"), address("b"), address("c")]);
        assert!(index.is_unchanged(&address("c"), Some("9")), "the watch would have reported a change");
        index.apply(&watched(&index), &object("c", "10"));
        assert!(!index.is_unchanged(&address("c"), Some("9")));
        assert!(index.is_unchanged(&address("c"), Some("10")));
        index.list(&watched(&index), Listing::Started);
        assert!(!index.is_unchanged(&address("c"), Some("10")), "a new list may show anything");
        index.stop_watch(&address("a").resource());
        assert!(!index.is_watched("one"));
    }

    #[test]
    fn other_works_may_claim_objects_until_they_were_reconciled() {
        let mut index = ObjectIndex::default();
        index.set_pending(&work("one"));
        assert!(!index.may_be_claimed_by_others("one"));
        assert!(index.may_be_claimed_by_others("two"));
        index.clear_pending("one");
        assert!(!index.may_be_claimed_by_others("two"));
        index.set_pending(&work("one"));
        index.delete_work("one");
        assert!(!index.may_be_claimed_by_others("two"));
    }

    #[test]
    fn object_missing_from_a_later_list_is_absent() {
        let mut index = ObjectIndex::default();
        index.set_objects(&work("one"), vec![address("a")]);
        listed(&mut index, &[("a", "1")]);
        assert_eq!(listed(&mut index, &[("a", "1")]), [""; 0]);
        assert_eq!(listed(&mut index, &[]), ["one"]);
        assert!(index.is_unchanged(&address("a"), None));
    }
}
