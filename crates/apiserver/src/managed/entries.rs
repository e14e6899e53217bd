//! The entries of managedFields: who wrote what, how, in which version and when. They are read as far as they are
//! needed; one that does not change is put back as it was.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::fields;
use super::set::Set;

/// More entries of updates than these are merged, the oldest first.
const MOST_UPDATERS: usize = 10;
/// More entries than these no client writes that knows what it does.
const MOST_ENTRIES: usize = 1_000;
/// Who owns what merged updates wrote.
const ANCIENT: &str = "ancient-changes";
const SORT_OF_FIELDS: &str = "FieldsV1";

/// How a manager wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What tells entries apart. One who applies has one entry, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Id<'e> {
    pub(crate) manager: Cow<'e, str>,
    pub(crate) operation: Operation,
    /// Empty for those who apply.
    api_version: Cow<'e, str>,
    pub(crate) subresource: Cow<'e, str>,
}

impl<'e> Id<'e> {
    pub(crate) fn new(
        manager: &'e str,
        operation: Operation,
        api_version: &'e str,
        subresource: &'e str,
    ) -> Self {
        let manager = if manager.is_empty() { "unknown" } else { manager };
        let api_version = if operation == Operation::Apply { "" } else { api_version };
        Self {
            manager: Cow::Borrowed(manager),
            operation,
            api_version: Cow::Borrowed(api_version),
            subresource: Cow::Borrowed(subresource),
        }
    }

    /// By which entries are sorted in messages.
    pub(super) fn text(&self) -> String {
        let mut text = String::from("{");
        let parts = [
            ("manager", &*self.manager),
            ("operation", self.operation.name()),
            ("apiVersion", &self.api_version),
            ("subresource", &self.subresource),
        ];
        for (key, part) in parts.into_iter().filter(|(_, part)| !part.is_empty()) {
            let comma = if text.len() > 1 { "," } else { "" };
            text.push_str(&format!("{comma}{key:?}:{}", Value::from(part)));
        }
        text + "}"
    }
}

/// As conflicts name it.
impl std::fmt::Display for Id<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.manager)?;
        if !self.subresource.is_empty() {
            write!(f, " with subresource {:?}", self.subresource)?;
        }
        match self.operation {
            Operation::Apply => Ok(()),
            Operation::Update => write!(f, " using {}", self.api_version),
        }
    }
}

/// What one manager wrote.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'e> {
    pub(crate) id: Id<'e>,
    pub(crate) api_version: Cow<'e, str>,
    pub(crate) time: Option<Cow<'e, str>>,
    fields: Fields<'e>,
    /// The place of the entry that this one still equals.
    origin: Option<usize>,
}

#[derive(Clone, Debug)]
enum Fields<'e> {
    Unread(&'e Value),
    Read(Set<'e>),
}

static NO_FIELDS: Value = Value::Null;

impl<'e> Entry<'e> {
    pub(crate) fn new(id: Id<'e>, api_version: impl Into<Cow<'e, str>>, set: Set<'e>) -> Self {
        Self { id, api_version: api_version.into(), time: None, fields: Fields::Read(set), origin: None }
    }

    fn read(value: &'e Value, at: usize) -> Result<Self, String> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let operation = match text("operation") {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err("operation must be `Apply` or `Update`".to_owned()),
        };
        if text("apiVersion").is_empty() {
            return Err("apiVersion must not be empty".to_owned());
        }
        match text("fieldsType") {
            SORT_OF_FIELDS => {}
            "" => return Err(format!("missing fieldsType in managed fields entry {at}")),
            other => return Err(format!("invalid fieldsType {other:?} in managed fields entry {at}")),
        }
        let api_version = if operation == Operation::Apply { "" } else { text("apiVersion") };
        Ok(Self {
            id: Id {
                manager: Cow::Borrowed(text("manager")),
                operation,
                api_version: Cow::Borrowed(api_version),
                subresource: Cow::Borrowed(text("subresource")),
            },
            api_version: Cow::Borrowed(text("apiVersion")),
            time: value.get("time").and_then(Value::as_str).map(Cow::Borrowed),
            fields: Fields::Unread(value.get("fieldsV1").unwrap_or(&NO_FIELDS)),
            origin: Some(at),
        })
    }

    /// The paths that the manager owns.
    pub(crate) fn set(&self) -> Cow<'_, Set<'e>> {
        match &self.fields {
            // What is kept was read when it came in.
            Fields::Unread(fields) => Cow::Owned(fields::read(fields).unwrap_or_default()),
            Fields::Read(set) => Cow::Borrowed(set),
        }
    }

    /// Whether the manager owns nothing.
    pub(crate) fn is_blank(&self) -> bool {
        match &self.fields {
            Fields::Unread(fields) => fields.as_object().is_none_or(Map::is_empty),
            Fields::Read(set) => set.is_empty(),
        }
    }

    pub(crate) fn set_fields(&mut self, set: Set<'e>) {
        self.fields = Fields::Read(set);
        self.origin = None;
    }

    pub(crate) fn set_time(&mut self, time: Option<Cow<'e, str>>) {
        self.time = time;
        self.origin = None;
    }

    /// Whether the manager owns any of these paths.
    pub(crate) fn touches(&self, paths: &Set<'_>) -> bool {
        match &self.fields {
            _ if paths.is_empty() => false,
            Fields::Unread(fields) => touches(fields, paths),
            Fields::Read(set) => !set.intersection(paths).is_empty(),
        }
    }

    /// Whether the manager owns all of these paths.
    pub(crate) fn covers(&self, paths: &Set<'_>) -> bool {
        match &self.fields {
            Fields::Unread(fields) => covers(fields, paths),
            Fields::Read(set) => paths.difference(set).is_empty(),
        }
    }

    fn encode(&self) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, text: &str| {
            if !text.is_empty() {
                entry.insert(key.to_owned(), text.into());
            }
        };
        put("manager", &self.id.manager);
        put("operation", self.id.operation.name());
        put("apiVersion", &self.api_version);
        put("time", self.time.as_deref().unwrap_or_default());
        put("fieldsType", SORT_OF_FIELDS);
        put("subresource", &self.id.subresource);
        let fields = match &self.fields {
            Fields::Unread(Value::Null) => Value::Object(Map::new()),
            Fields::Unread(fields) => (*fields).clone(),
            Fields::Read(set) => fields::write(set),
        };
        entry.insert("fieldsV1".to_owned(), fields);
        Value::Object(entry)
    }
}

/// Whether a path ends at what stands below its last element.
fn ends_here(below: &Value) -> bool {
    below.as_object().is_none_or(|map| map.is_empty() || map.contains_key("."))
}

fn touches(fields: &Value, paths: &Set<'_>) -> bool {
    paths.nodes().iter().any(|node| match fields.get(fields::element_key(&node.element)) {
        Some(below) => (node.member && ends_here(below)) || touches(below, &node.below),
        None => false,
    })
}

fn covers(fields: &Value, paths: &Set<'_>) -> bool {
    paths.nodes().iter().all(|node| match fields.get(fields::element_key(&node.element)) {
        Some(below) => (!node.member || ends_here(below)) && covers(below, &node.below),
        None => false,
    })
}

/// All entries of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed<'e> {
    pub(crate) entries: Vec<Entry<'e>>,
}

/// An entry as it is to be kept: one that was there, or a new one.
pub(crate) enum Kept {
    Unchanged(usize),
    New(Value),
}

/// Whether entries were read before.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    Checked,
    None,
}

impl<'e> Managed<'e> {
    /// Reads the entries; the error says in words what is wrong with one.
    pub(crate) fn read(values: &'e [Value], trust: Trust) -> Result<Self, String> {
        if trust == Trust::None && values.len() > MOST_ENTRIES {
            return Err(format!("more than {MOST_ENTRIES} entries"));
        }
        let mut managed = Self::default();
        for (at, value) in values.iter().enumerate() {
            let entry = Entry::read(value, at)?;
            if let (Trust::None, Fields::Unread(fields)) = (trust, &entry.fields) {
                fields::read(fields)?;
            }
            // Of two entries with one identity, the last counts.
            managed.entries.retain(|other| other.id != entry.id);
            managed.entries.push(entry);
        }
        Ok(managed)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn find(&self, id: &Id<'_>) -> Option<&Entry<'e>> {
        self.entries.iter().find(|entry| entry.id == *id)
    }

    pub(crate) fn find_mut(&mut self, id: &Id<'_>) -> Option<&mut Entry<'e>> {
        self.entries.iter_mut().find(|entry| entry.id == *id)
    }

    pub(crate) fn take(&mut self, id: &Id<'_>) -> Option<Entry<'e>> {
        let at = self.entries.iter().position(|entry| entry.id == *id)?;
        Some(self.entries.remove(at))
    }

    /// Merges the oldest updates of each version until there are few enough.
    pub(crate) fn cap(&mut self) {
        let mut updaters: Vec<Id<'e>> = self
            .entries
            .iter()
            .filter(|entry| entry.id.operation == Operation::Update)
            .map(|entry| entry.id.clone())
            .collect();
        if updaters.len() <= MOST_UPDATERS {
            return;
        }
        updaters.sort_by_cached_key(|id| (self.find(id).and_then(|entry| entry.time.clone()), id.text()));
        let mut left = updaters.len();
        let mut firsts: Vec<Entry<'e>> = Vec::new();
        for id in updaters {
            if left <= MOST_UPDATERS {
                return;
            }
            let Some(entry) = self.find(&id).cloned() else { continue };
            let Some(first) = firsts.iter().find(|first| first.api_version == entry.api_version).cloned()
            else {
                firsts.push(entry);
                continue;
            };
            let bucket = Id {
                manager: Cow::Borrowed(ANCIENT),
                operation: Operation::Update,
                api_version: entry.api_version.clone(),
                subresource: Cow::Borrowed(""),
            };
            if self.find(&bucket).is_none()
                && let Some(mut first) = self.take(&first.id)
            {
                first.id = bucket.clone();
                first.origin = None;
                self.entries.push(first);
            }
            if bucket != id {
                self.take(&id);
            }
            if let Some(ancient) = self.find_mut(&bucket) {
                let merged = entry.set().into_owned().union(&ancient.set());
                ancient.set_fields(merged);
                ancient.set_time(entry.time.clone());
            }
            left -= 1;
        }
    }

    /// The entries in their order: those who apply first, then by time and name.
    pub(crate) fn encode(mut self) -> Vec<Kept> {
        self.entries.sort_by(|a, b| {
            let key = |entry: &Entry<'e>| (entry.id.operation, entry.time.clone());
            key(a)
                .cmp(&key(b))
                .then_with(|| a.id.manager.cmp(&b.id.manager))
                .then_with(|| a.api_version.cmp(&b.api_version))
                .then_with(|| a.id.subresource.cmp(&b.id.subresource))
        });
        let kept = |entry: &Entry<'e>| match entry.origin {
            Some(at) => Kept::Unchanged(at),
            None => Kept::New(entry.encode()),
        };
        self.entries.iter().map(kept).collect()
    }
}

/// Puts encoded entries together with those that are kept.
pub(crate) fn assemble(kept: Vec<Kept>, mut old: Vec<Value>) -> Vec<Value> {
    let entry = |kept: Kept| match kept {
        Kept::New(entry) => entry,
        Kept::Unchanged(at) => old.get_mut(at).map(Value::take).unwrap_or_default(),
    };
    kept.into_iter().map(entry).collect()
}
