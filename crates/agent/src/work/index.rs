//! What watches say of the objects that works want: which revision was last seen of each. So a change is known to
//! concern a work, and an object that has not changed need not be read again. Of all other objects nothing is kept.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Event;

use super::spoke::Address;

/// An object, known by its metadata alone.
pub(crate) type Glimpse = PartialObjectMeta<DynamicObject>;

/// Namespace and name.
type Place = (String, String);

/// What was last heard of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Heard {
    /// Nothing since somebody asked for it.
    #[default]
    Nothing,
    At(String),
    Gone,
}

#[derive(Default)]
struct Object {
    heard: Heard,
    works: BTreeSet<Arc<str>>,
}

#[derive(Default)]
struct Kind {
    /// Which asking for it this is: a watch is of one, and not of the next.
    serial: u64,
    /// Whether a list was complete, and all changes since are known.
    is_complete: bool,
    objects: HashMap<Place, Object>,
    /// What a list that is under way has not shown yet.
    unconfirmed: HashSet<Place>,
}

/// The objects that works want, by kind.
#[derive(Default)]
pub(crate) struct Index {
    kinds: HashMap<ApiResource, Kind>,
    works: HashMap<Arc<str>, Vec<Address>>,
    /// Works whose wishes have not been looked at yet.
    expected: HashSet<Arc<str>>,
    serial: u64,
}

impl Index {
    /// From now on these are the objects of a work.
    pub(crate) fn attend(&mut self, work: &Arc<str>, objects: Vec<Address>) {
        let before = self.works.insert(work.clone(), objects.clone()).unwrap_or_default();
        for address in &objects {
            let kind = self.kinds.entry(address.resource()).or_insert_with(|| {
                self.serial += 1;
                Kind { serial: self.serial, ..Kind::default() }
            });
            kind.objects.entry(place(address)).or_default().works.insert(work.clone());
        }
        let kept: HashSet<&Address> = objects.iter().collect();
        for address in before.iter().filter(|address| !kept.contains(address)) {
            self.release(work, address);
        }
    }

    /// A work asks for something that has not been looked at yet.
    pub(crate) fn expect(&mut self, work: &Arc<str>) {
        self.expected.insert(work.clone());
    }

    /// What a work asks for was looked at.
    pub(crate) fn has_been_brought(&mut self, work: &str) {
        self.expected.remove(work);
    }

    /// Whether another work may ask for what this one lets go of. An object that moves from work to work must not go in
    /// between.
    pub(crate) fn may_be_wanted_besides(&self, work: &str) -> bool {
        self.expected.iter().any(|expected| **expected != *work)
    }

    /// A work wants nothing any more.
    pub(crate) fn forget(&mut self, work: &str) {
        self.expected.remove(work);
        if let Some((work, objects)) = self.works.remove_entry(work) {
            objects.iter().for_each(|address| self.release(&work, address));
        }
    }

    fn release(&mut self, work: &str, address: &Address) {
        let resource = address.resource();
        let Some(kind) = self.kinds.get_mut(&resource) else { return };
        let place = place(address);
        if let Some(object) = kind.objects.get_mut(&place) {
            object.works.remove(work);
            if object.works.is_empty() {
                kind.objects.remove(&place);
            }
        }
        if kind.objects.is_empty() {
            self.kinds.remove(&resource);
        }
    }

    /// The kinds of which some work wants an object, each with a number that changes when it was not wanted in between.
    pub(crate) fn kinds(&self) -> HashMap<ApiResource, u64> {
        self.kinds.iter().map(|(resource, kind)| (resource.clone(), kind.serial)).collect()
    }

    /// Whether an object is surely still as it was read: at a revision, or not there.
    pub(crate) fn is_unchanged(&self, address: &Address, revision: Option<&str>) -> bool {
        let Some(kind) = self.kinds.get(&address.resource()).filter(|kind| kind.is_complete) else {
            return false;
        };
        match (kind.objects.get(&place(address)).map(|object| &object.heard), revision) {
            (Some(Heard::Nothing), _) => true,
            (Some(Heard::At(heard)), Some(revision)) => heard == revision,
            (Some(Heard::Gone), None) => true,
            _ => false,
        }
    }

    /// Whether changes of all objects of a work are heard of.
    pub(crate) fn hears_of(&self, work: &str) -> bool {
        let mut objects = self.works.get(work).into_iter().flatten();
        objects.all(|address| self.kinds.get(&address.resource()).is_some_and(|kind| kind.is_complete))
    }

    /// Nobody listens to a kind any more.
    pub(crate) fn lose(&mut self, resource: &ApiResource) {
        if let Some(kind) = self.kinds.get_mut(resource) {
            kind.is_complete = false;
        }
    }

    /// The works that an event concerns.
    pub(crate) fn note(&mut self, resource: &ApiResource, event: &Event<Glimpse>) -> BTreeSet<Arc<str>> {
        let Some(kind) = self.kinds.get_mut(resource) else { return BTreeSet::new() };
        match event {
            Event::Init => {
                kind.is_complete = false;
                kind.unconfirmed = kind.objects.keys().cloned().collect();
                BTreeSet::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let place = place_of(object);
                kind.unconfirmed.remove(&place);
                kind.hear(&place, Heard::At(object.resource_version().unwrap_or_default()))
            }
            Event::Delete(object) => kind.hear(&place_of(object), Heard::Gone),
            Event::InitDone => {
                kind.is_complete = true;
                let gone = std::mem::take(&mut kind.unconfirmed);
                gone.iter().flat_map(|place| kind.hear(place, Heard::Gone)).collect()
            }
        }
    }
}

impl Kind {
    fn hear(&mut self, place: &Place, heard: Heard) -> BTreeSet<Arc<str>> {
        match self.objects.get_mut(place) {
            Some(object) if object.heard != heard => {
                object.heard = heard;
                object.works.clone()
            }
            _ => BTreeSet::new(),
        }
    }
}

fn place(address: &Address) -> Place {
    (address.id.namespace.clone(), address.id.name.clone())
}

fn place_of(object: &Glimpse) -> Place {
    (object.namespace().unwrap_or_default(), object.name_any())
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

    fn object(name: &str, revision: &str) -> Glimpse {
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "ns", "resourceVersion": revision}}),
        )
        .unwrap()
    }

    fn work(name: &str) -> Arc<str> {
        name.into()
    }

    fn named(works: &BTreeSet<Arc<str>>) -> Vec<&str> {
        works.iter().map(AsRef::as_ref).collect()
    }

    /// Where one list has shown objects.
    fn listed(index: &mut Index, objects: &[(&str, &str)]) -> Vec<String> {
        let resource = address("a").resource();
        let mut woken = index.note(&resource, &Event::Init);
        for (name, revision) in objects {
            woken.extend(index.note(&resource, &Event::InitApply(object(name, revision))));
        }
        woken.extend(index.note(&resource, &Event::InitDone));
        woken.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_objects_of_works_are_heard_of() {
        let mut index = Index::default();
        let resource = address("a").resource();
        index.attend(&work("one"), vec![address("a"), address("b")]);
        index.attend(&work("two"), vec![address("b")]);
        assert_eq!(listed(&mut index, &[("a", "1"), ("b", "2"), ("c", "3")]), ["one", "two"]);
        assert_eq!(named(&index.note(&resource, &Event::Apply(object("c", "4")))), [""; 0]);
        assert_eq!(named(&index.note(&resource, &Event::Apply(object("b", "5")))), ["one", "two"]);
        assert_eq!(named(&index.note(&resource, &Event::Apply(object("b", "5")))), [""; 0]);
        assert_eq!(named(&index.note(&resource, &Event::Delete(object("a", "6")))), ["one"]);
        index.forget("one");
        assert_eq!(named(&index.note(&resource, &Event::Apply(object("b", "7")))), ["two"]);
        index.forget("two");
        assert!(index.kinds().is_empty());
    }

    #[test]
    fn an_object_is_unchanged_while_nothing_else_is_heard_of_it() {
        let mut index = Index::default();
        let resource = address("a").resource();
        index.attend(&work("one"), vec![address("a"), address("b")]);
        assert!(!index.is_unchanged(&address("a"), Some("1")), "nobody listens yet");
        assert!(!index.hears_of("one"));
        listed(&mut index, &[("a", "1")]);
        assert!(index.hears_of("one"));
        assert!(index.is_unchanged(&address("a"), Some("1")));
        assert!(!index.is_unchanged(&address("a"), Some("2")));
        assert!(index.is_unchanged(&address("b"), None), "what was not listed is not there");
        assert!(!index.is_unchanged(&address("b"), Some("1")));
        index.attend(&work("one"), vec![address("a"), address("b"), address("c")]);
        assert!(index.is_unchanged(&address("c"), Some("9")), "a change would have been heard of");
        index.note(&resource, &Event::Apply(object("c", "10")));
        assert!(!index.is_unchanged(&address("c"), Some("9")));
        assert!(index.is_unchanged(&address("c"), Some("10")));
        index.note(&resource, &Event::Init);
        assert!(!index.is_unchanged(&address("c"), Some("10")), "a new list may show anything");
        index.lose(&resource);
        assert!(!index.hears_of("one"));
    }

    #[test]
    fn others_may_want_something_until_they_were_looked_at() {
        let mut index = Index::default();
        index.expect(&work("one"));
        assert!(!index.may_be_wanted_besides("one"));
        assert!(index.may_be_wanted_besides("two"));
        index.has_been_brought("one");
        assert!(!index.may_be_wanted_besides("two"));
        index.expect(&work("one"));
        index.forget("one");
        assert!(!index.may_be_wanted_besides("two"));
    }

    #[test]
    fn what_a_later_list_does_not_show_is_gone() {
        let mut index = Index::default();
        index.attend(&work("one"), vec![address("a")]);
        listed(&mut index, &[("a", "1")]);
        assert_eq!(listed(&mut index, &[("a", "1")]), [""; 0]);
        assert_eq!(listed(&mut index, &[]), ["one"]);
        assert!(index.is_unchanged(&address("a"), None));
    }
}
