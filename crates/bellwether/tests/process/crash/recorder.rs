//! Records the responses of the server, and checks the state of a restarted server against them. It writes only the marker.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ObjectList, ObjectMeta, Patch, PatchParams, PostParams};
use serde_json::json;
use std::sync::Mutex;

/// The objects that all workers change. Each worker has its own field.
pub(crate) const SHARED: [&str; 2] = ["shared-1", "shared-2"];
const MARKER: &str = "marker";

/// The hash of a payload.
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

/// A list response of the server.
pub(crate) struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: BTreeMap<String, Version>,
}

impl Snapshot {
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

/// The record of an object that only one worker writes.
#[derive(Debug, Default)]
struct ObjectRecord {
    /// The last acknowledged state; `None` after a delete.
    acknowledged: Option<Version>,
    /// A write that was sent after that, and has no response yet.
    intent: Option<Intent>,
}

impl ObjectRecord {
    /// Whether the object may have this state: the acknowledged one, or that of the write without a response.
    fn allows(&self, found: Option<&Version>) -> bool {
        if found == self.acknowledged.as_ref() {
            return true;
        }
        match (self.intent, &self.acknowledged, found) {
            (Some(Intent::Delete), _, None) => true,
            (Some(Intent::Write(payload)), before, Some(found)) => {
                let continues = before
                    .as_ref()
                    .is_none_or(|before| found.uid == before.uid && found.revision > before.revision);
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

/// The record of a worker's field in a shared object.
#[derive(Debug, Default)]
struct FieldRecord {
    acknowledged: Option<Digest>,
    intent: Option<Digest>,
}

#[derive(Default)]
pub(crate) struct Recorder(Mutex<Records>);

#[derive(Default)]
struct Records {
    objects: BTreeMap<String, ObjectRecord>,
    fields: BTreeMap<(&'static str, String), FieldRecord>,
    shared: BTreeMap<&'static str, Version>,
    /// The write of every revision that was seen.
    revisions: HashMap<u64, (String, Version)>,
    newest: u64,
    acknowledged: usize,
    /// Writes without a response that were committed, and that were not.
    committed: usize,
    lost: usize,
}

impl Records {
    /// Checks that a revision belongs to only one write.
    fn see(&mut self, name: &str, version: &Version) {
        let write = (name.to_owned(), version.clone());
        let first = self.revisions.entry(version.revision).or_insert_with(|| write.clone());
        assert_eq!(*first, write, "revision {} belongs to two writes", version.revision);
    }

    fn acknowledge(&mut self, name: &str, version: &Version) {
        self.see(name, version);
        self.newest = self.newest.max(version.revision);
        self.acknowledged += 1;
    }

    fn check_object(&mut self, name: &str, found: Option<&Version>) {
        let record = self.objects.entry(name.to_owned()).or_default();
        assert!(record.allows(found), "{name}: found {found:?}, recorded {record:?}");
        if record.intent.take().is_some() {
            let unchanged = record.acknowledged.as_ref() == found;
            self.committed += usize::from(!unchanged);
            self.lost += usize::from(unchanged);
        }
        record.acknowledged = found.cloned();
    }

    fn check_shared(&mut self, name: &'static str, found: Option<&Version>) {
        let found = found.unwrap_or_else(|| panic!("{name} was not deleted, and does not exist any more"));
        let last = &self.shared[name];
        assert_eq!(found.uid, last.uid, "{name} is another object");
        assert!(found.revision >= last.revision, "{name} is back at revision {}", found.revision);
        for ((object, worker), field) in &mut self.fields {
            if *object != name {
                continue;
            }
            let value = found.data.get(worker).copied();
            let allowed = value == field.acknowledged || (field.intent.is_some() && value == field.intent);
            assert!(allowed, "{name}: {worker} is {value:?}, recorded {field:?}");
            *field = FieldRecord { acknowledged: value, intent: None };
        }
        self.shared.insert(name, found.clone());
    }
}

impl Recorder {
    fn records(&self) -> std::sync::MutexGuard<'_, Records> {
        self.0.lock().expect("no check has failed before")
    }

    /// Creates the objects that are not deleted.
    pub(crate) async fn prepare(&self, configmaps: &Api<ConfigMap>) {
        for name in SHARED.into_iter().chain([MARKER]) {
            let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
            let object = ConfigMap { metadata, ..ConfigMap::default() };
            let created = Version::of(&configmaps.create(&PostParams::default(), &object).await.unwrap());
            let mut records = self.records();
            records.acknowledge(name, &created);
            if name != MARKER {
                records.shared.insert(name, created);
            }
        }
    }

    /// Writes the marker while no worker writes: a watcher that has seen it has seen all earlier changes.
    pub(crate) async fn mark(&self, configmaps: &Api<ConfigMap>, cycle: usize) -> u64 {
        let patch = json!({"data": {"cycle": cycle.to_string()}});
        let marked = configmaps.patch(MARKER, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        let version = Version::of(&marked);
        self.records().acknowledge(MARKER, &version);
        version.revision
    }

    /// The state of an object of one worker, from the last response or from the check after a restart.
    pub(crate) fn acknowledged_version(&self, name: &str) -> Option<Version> {
        self.records().objects.get(name).and_then(|record| record.acknowledged.clone())
    }

    /// Records a write before it is sent.
    pub(crate) fn intend(&self, name: &str, intent: Intent) {
        self.records().objects.entry(name.to_owned()).or_default().intent = Some(intent);
    }

    /// Records the response to a write; `None` is a delete.
    pub(crate) fn acknowledge(&self, name: &str, response: Option<Version>) {
        let mut records = self.records();
        if let Some(version) = &response {
            let record = &records.objects[name];
            assert!(record.allows(Some(version)), "{name}: response {version:?}, recorded {record:?}");
            records.acknowledge(name, version);
        } else {
            records.acknowledged += 1;
        }
        records.objects.insert(name.to_owned(), ObjectRecord { acknowledged: response, intent: None });
    }

    pub(crate) fn intend_field(&self, name: &'static str, worker: &str, payload: Digest) {
        self.records().fields.entry((name, worker.to_owned())).or_default().intent = Some(payload);
    }

    pub(crate) fn acknowledge_field(&self, name: &'static str, worker: &str, response: &Version) {
        let mut records = self.records();
        records.acknowledge(name, response);
        let field = records.fields.entry((name, worker.to_owned())).or_default();
        let value = response.data.get(worker).copied();
        assert_eq!(value, field.intent, "{name}: the response to {worker} has another value than it sent");
        *field = FieldRecord { acknowledged: value, intent: None };
        if response.revision > records.shared[name].revision {
            records.shared.insert(name, response.clone());
        }
    }

    /// Records a state that a watcher saw.
    pub(crate) fn see(&self, name: &str, version: &Version) {
        self.records().see(name, version);
    }

    /// Checks the state of a restarted server against all recorded responses.
    pub(crate) fn check(&self, snapshot: &Snapshot) {
        let mut records = self.records();
        let newest = records.newest;
        assert!(
            snapshot.revision >= newest,
            "the list is at revision {}, but {newest} was acknowledged",
            snapshot.revision
        );
        for (name, version) in &snapshot.objects {
            records.see(name, version);
            let expected = records.objects.contains_key(name) || !name.starts_with("worker");
            assert!(expected, "{name} was never written");
        }
        for name in records.objects.keys().cloned().collect::<Vec<_>>() {
            records.check_object(&name, snapshot.objects.get(&name));
        }
        for name in SHARED {
            records.check_shared(name, snapshot.objects.get(name));
        }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.records().acknowledged
    }
}

impl fmt::Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = self.records();
        write!(
            f,
            "{} writes acknowledged; of those without a response {} were committed and {} were not; newest revision {}",
            records.acknowledged, records.committed, records.lost, records.newest
        )
    }
}
