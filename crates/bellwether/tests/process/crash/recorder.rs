//! What the server answered, kept outside of it, and the judgement of what a restarted server shows. It does not
//! write to the server, apart from its marks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectList, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::sync::Mutex;

/// The objects that all workers change, each worker a field of its own.
pub(crate) const SHARED: [&str; 2] = ["shared-1", "shared-2"];
const MARKER: &str = "marker";

/// A payload in short.
pub(crate) type Digest = u64;

pub(crate) fn digest(payload: &str) -> Digest {
    let mut hasher = DefaultHasher::new();
    payload.hash(&mut hasher);
    hasher.finish()
}

/// One state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) uid: String,
    pub(crate) revision: u64,
    pub(crate) data: BTreeMap<String, Digest>,
}

impl Version {
    pub(crate) fn of(object: &ConfigMap) -> Self {
        let revision = object.metadata.resource_version.as_deref().expect("a resourceVersion");
        Self {
            uid: object.metadata.uid.clone().expect("a uid"),
            revision: revision.parse().expect("a number as resourceVersion"),
            data: object.data.iter().flatten().map(|(field, text)| (field.clone(), digest(text))).collect(),
        }
    }
}

/// A list as the server answered it.
pub(crate) struct Shelf {
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<String, Version>,
}

impl Shelf {
    pub(crate) fn of(list: ObjectList<ConfigMap>) -> Self {
        let revision = list.metadata.resource_version.expect("a list has a resourceVersion");
        let name = |object: &ConfigMap| object.metadata.name.clone().expect("a name");
        Self {
            revision: revision.parse().expect("a number as resourceVersion"),
            objects: list.items.iter().map(|object| (name(object), Version::of(object))).collect(),
        }
    }
}

/// A write that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Intent {
    Write(Digest),
    Delete,
}

/// What is known of an object that only one worker writes.
#[derive(Debug, Default)]
struct Page {
    /// The state that was acknowledged last; nothing when that was a delete.
    known: Option<Version>,
    /// Sent after that, and not answered yet.
    intent: Option<Intent>,
}

impl Page {
    /// Whether the object may be in this state: exactly as acknowledged, or wholly as the unanswered write has it.
    fn allows(&self, found: Option<&Version>) -> bool {
        if found == self.known.as_ref() {
            return true;
        }
        match (self.intent, &self.known, found) {
            (Some(Intent::Delete), _, None) => true,
            (Some(Intent::Write(payload)), known, Some(found)) => {
                let continues = known
                    .as_ref()
                    .is_none_or(|known| found.uid == known.uid && found.revision > known.revision);
                continues && found.data == BTreeMap::from([(worker_field(), payload)])
            }
            _ => false,
        }
    }
}

/// The only field of an object that one worker owns.
pub(crate) fn worker_field() -> String {
    "payload".to_owned()
}

/// What is known of a worker's field in an object that it shares.
#[derive(Debug, Default)]
struct Field {
    known: Option<Digest>,
    intent: Option<Digest>,
}

#[derive(Default)]
pub(crate) struct Recorder(Mutex<Book>);

#[derive(Default)]
struct Book {
    pages: BTreeMap<String, Page>,
    fields: BTreeMap<(&'static str, String), Field>,
    shared: BTreeMap<&'static str, Version>,
    /// What every revision ever seen stood for.
    revisions: HashMap<u64, (String, Version)>,
    newest: u64,
    acknowledged: usize,
    came_true: usize,
    came_to_nothing: usize,
}

impl Book {
    /// A revision belongs to one write for ever.
    fn see(&mut self, name: &str, version: &Version) {
        let write = (name.to_owned(), version.clone());
        let first = self.revisions.entry(version.revision).or_insert_with(|| write.clone());
        assert_eq!(*first, write, "revision {} stands for two writes", version.revision);
    }

    fn acknowledge(&mut self, name: &str, version: &Version) {
        self.see(name, version);
        self.newest = self.newest.max(version.revision);
        self.acknowledged += 1;
    }

    fn judge_page(&mut self, name: &str, found: Option<&Version>) {
        let page = self.pages.entry(name.to_owned()).or_default();
        assert!(page.allows(found), "{name}: found {found:?}, recorded {page:?}");
        if page.intent.take().is_some() {
            let unchanged = page.known.as_ref() == found;
            self.came_true += usize::from(!unchanged);
            self.came_to_nothing += usize::from(unchanged);
        }
        page.known = found.cloned();
    }

    fn judge_shared(&mut self, name: &'static str, found: Option<&Version>) {
        let found = found.unwrap_or_else(|| panic!("{name} is gone, which nobody deleted"));
        let known = &self.shared[name];
        assert_eq!(found.uid, known.uid, "{name} is another object");
        assert!(found.revision >= known.revision, "{name} is at {} again", found.revision);
        for ((object, worker), field) in &mut self.fields {
            if *object != name {
                continue;
            }
            let value = found.data.get(worker).copied();
            let allowed = value == field.known || (field.intent.is_some() && value == field.intent);
            assert!(allowed, "{name}: {worker} is {value:?}, recorded {field:?}");
            *field = Field { known: value, intent: None };
        }
        self.shared.insert(name, found.clone());
    }
}

impl Recorder {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().expect("no judgement has failed before")
    }

    /// Makes the objects that nobody deletes.
    pub(crate) async fn prepare(&self, configmaps: &Api<ConfigMap>) {
        for name in SHARED.into_iter().chain([MARKER]) {
            let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
            let object = ConfigMap { metadata, ..ConfigMap::default() };
            let made = Version::of(&configmaps.create(&PostParams::default(), &object).await.unwrap());
            let mut book = self.book();
            book.acknowledge(name, &made);
            if name != MARKER {
                book.shared.insert(name, made);
            }
        }
    }

    /// Writes a mark when nobody else writes: a watcher that has seen it has seen everything before it.
    pub(crate) async fn mark(&self, configmaps: &Api<ConfigMap>, cycle: usize) -> u64 {
        let patch = json!({"data": {"cycle": cycle.to_string()}});
        let marked = configmaps.patch(MARKER, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let version = Version::of(&marked);
        self.book().acknowledge(MARKER, &version);
        version.revision
    }

    /// The state of an object that one worker owns, as it was answered last or found after a restart.
    pub(crate) fn known(&self, name: &str) -> Option<Version> {
        self.book().pages.get(name).and_then(|page| page.known.clone())
    }

    /// Notes a write before it is sent.
    pub(crate) fn intend(&self, name: &str, intent: Intent) {
        self.book().pages.entry(name.to_owned()).or_default().intent = Some(intent);
    }

    /// Notes an answered write; nothing for a delete.
    pub(crate) fn acknowledge(&self, name: &str, answered: Option<Version>) {
        let mut book = self.book();
        if let Some(version) = &answered {
            let page = &book.pages[name];
            assert!(page.allows(Some(version)), "{name}: answered {version:?}, recorded {page:?}");
            book.acknowledge(name, version);
        } else {
            book.acknowledged += 1;
        }
        book.pages.insert(name.to_owned(), Page { known: answered, intent: None });
    }

    pub(crate) fn intend_field(&self, name: &'static str, worker: &str, payload: Digest) {
        self.book().fields.entry((name, worker.to_owned())).or_default().intent = Some(payload);
    }

    pub(crate) fn acknowledge_field(&self, name: &'static str, worker: &str, answered: &Version) {
        let mut book = self.book();
        book.acknowledge(name, answered);
        let field = book.fields.entry((name, worker.to_owned())).or_default();
        let value = answered.data.get(worker).copied();
        assert_eq!(value, field.intent, "{name}: {worker} was answered with another value than it sent");
        *field = Field { known: value, intent: None };
        if answered.revision > book.shared[name].revision {
            book.shared.insert(name, answered.clone());
        }
    }

    /// Notes a state that a watcher saw.
    pub(crate) fn see(&self, name: &str, version: &Version) {
        self.book().see(name, version);
    }

    /// Holds what a restarted server shows against everything that was answered before.
    pub(crate) fn judge(&self, shelf: &Shelf) {
        let mut book = self.book();
        let newest = book.newest;
        assert!(shelf.revision >= newest, "the list is at {}, but {newest} was answered", shelf.revision);
        for (name, version) in &shelf.objects {
            book.see(name, version);
            let expected = book.pages.contains_key(name) || !name.starts_with("worker");
            assert!(expected, "{name} was never written");
        }
        for name in book.pages.keys().cloned().collect::<Vec<_>>() {
            book.judge_page(&name, shelf.objects.get(&name));
        }
        for name in SHARED {
            book.judge_shared(name, shelf.objects.get(name));
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.book().acknowledged
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let book = self.book();
        write!(
            f,
            "{} writes answered; of those cut off {} came true and {} did not; newest revision {}",
            book.acknowledged, book.came_true, book.came_to_nothing, book.newest
        )
    }
}
