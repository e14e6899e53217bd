//! What the server does about managedFields when somebody writes: whose entries count, what an update adds to them,
//! and how an apply comes about. The names and words are those that clients and people know from Kubernetes.

use serde_json::{Map, Value};

use super::entries::{Id, Managed, Operation, Trust, assemble};
use super::set::{Set, shown};
use super::update::{self, Apply, Conflict, Failure, Versions};
use super::validate::validate;

/// Owns what was there before somebody first applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The manager whose applies take over from applying on the client's side.
const KUBECTL: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ANNOTATION_LIMIT: usize = 256 * 1024;

/// Where and when is written.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) api_version: &'a str,
    /// Empty for the object itself.
    pub(crate) subresource: &'a str,
    pub(crate) now: &'a str,
    pub(crate) versions: &'a dyn Versions,
}

/// The object that is there, or the blank one that a new object begins as.
#[derive(Clone, Copy)]
pub(crate) enum Before<'a> {
    Live(&'a Value),
    Blank(&'a Value),
}

impl<'a> Before<'a> {
    fn value(self) -> &'a Value {
        match self {
            Self::Live(value) | Self::Blank(value) => value,
        }
    }
}

fn entries_of(object: &Value) -> &[Value] {
    let entries = object.get("metadata").and_then(|meta| meta.get("managedFields"));
    entries.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn take_entries(object: &mut Value) -> Option<Vec<Value>> {
    match object.get_mut("metadata").and_then(Value::as_object_mut)?.remove("managedFields")? {
        Value::Array(entries) => Some(entries),
        _ => None,
    }
}

fn put_entries(object: &mut Value, entries: Vec<Value>) {
    if entries.is_empty() {
        return;
    }
    let Value::Object(object) = object else { return };
    let meta = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(meta) = meta {
        meta.insert("managedFields".to_owned(), Value::Array(entries));
    }
}

/// No entries, or one that says nothing, mean that nobody owns anything any more.
fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [only] => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// The entries that an update begins with: the author's own, if they make sense, else those that are there.
fn base(scene: Scene<'_>, live: &Value, given: Option<Vec<Value>>) -> (Vec<Value>, Trust) {
    let there = entries_of(live);
    match given {
        Some(given) if scene.subresource.is_empty() => {
            if is_reset(&given) {
                return (Vec::new(), Trust::Checked);
            }
            if given == there {
                return (given, Trust::Checked);
            }
            match Managed::read(&given, Trust::None) {
                Ok(_) => (given, Trust::Checked),
                Err(_) => (there.to_vec(), Trust::Checked),
            }
        }
        _ => (there.to_vec(), Trust::Checked),
    }
}

/// Records in an object that an update by a manager made it of what was there.
pub(crate) fn record(scene: Scene<'_>, before: Before<'_>, object: &mut Value, manager: &str) {
    let given = take_entries(object);
    let (entries, trust) = base(scene, before.value(), given);
    let kept = {
        let managed = Managed::read(&entries, trust).unwrap_or_default();
        // Nobody is tracked on an object whose entries were taken away, until somebody applies.
        if managed.is_empty() && matches!(before, Before::Live(_)) {
            return;
        }
        // An object whose type cannot be told has no entries rather than wrong ones.
        match updated(scene, managed, before.value(), object, manager) {
            Ok(managed) => managed.encode(),
            Err(_) => return,
        }
    };
    put_entries(object, assemble(kept, entries));
}

fn updated<'e>(
    scene: Scene<'e>,
    managed: Managed<'e>,
    old: &'e Value,
    new: &'e Value,
    manager: &'e str,
) -> Result<Managed<'e>, String> {
    let id = Id::new(manager, Operation::Update, scene.api_version, scene.subresource);
    let when = (scene.api_version, scene.now);
    let mut managed = update::update(managed, (old, new), id, when, scene.versions)?;
    managed.cap();
    Ok(managed)
}

/// What is applied, by whom and how.
#[derive(Clone, Copy)]
pub(crate) struct Applying<'a> {
    pub(crate) applied: &'a Value,
    pub(crate) manager: &'a str,
    pub(crate) force: bool,
}

/// Why nothing was applied.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Conflicts {
        message: String,
        /// With whom, and on which path.
        causes: Vec<(String, String)>,
    },
    /// What is applied is not what can be.
    Wrong(String),
}

/// Applies to what is there, or to a blank object; the result is the object with its entries.
pub(crate) fn apply(
    scene: Scene<'_>,
    before: Before<'_>,
    blank: &Value,
    applying: Applying<'_>,
) -> Result<Value, Refused> {
    let Applying { applied, manager, .. } = applying;
    check(scene, applied)?;
    let live = before.value();
    let entries = entries_of(live);
    let read = Managed::read(entries, Trust::Checked);
    let mut managed =
        read.map_err(|why| Refused::Wrong(format!("failed to decode managed fields: {why}")))?;
    if managed.is_empty() {
        managed = updated(scene, managed, blank, live, BEFORE_FIRST_APPLY)
            .map_err(|why| Refused::Wrong(format!("failed to create manager for existing fields: {why}")))?;
    }
    let wanted = Apply {
        applied,
        id: Id::new(manager, Operation::Apply, scene.api_version, scene.subresource),
        api_version: scene.api_version,
        force: applying.force,
        now: scene.now,
    };
    let done = match update::apply(managed.clone(), live, wanted.clone(), scene.versions) {
        Err(Failure::Conflicts(conflicts)) => {
            let left = unforeseen(scene, live, manager, conflicts);
            if !left.is_empty() {
                return Err(refusal(&left));
            }
            update::apply(managed, live, Apply { force: true, ..wanted }, scene.versions)
        }
        done => done,
    };
    let done = done.map_err(|failure| match failure {
        Failure::Conflicts(conflicts) => refusal(&conflicts),
        Failure::Other(why) => Refused::Wrong(why),
    })?;
    let kept = assemble(done.managed.encode(), entries.to_vec());
    let mut object = done.object.unwrap_or_else(|| live.clone());
    take_entries(&mut object);
    if manager == KUBECTL {
        follow_last_applied(&mut object, applied);
    }
    put_entries(&mut object, kept);
    Ok(object)
}

/// What is applied must be of its type, and cannot say who owns it.
fn check(scene: Scene<'_>, applied: &Value) -> Result<(), Refused> {
    let meta = |key: &str| applied.get("metadata").and_then(|meta| meta.get(key));
    if meta("managedFields").is_some_and(Value::is_array) {
        return Err(Refused::Wrong("metadata.managedFields must be nil".to_owned()));
    }
    let kind = scene.versions.kind(scene.api_version);
    let kind = kind.ok_or_else(|| Refused::Wrong("the version is not known".to_owned()))?;
    validate(applied, kind).map_err(|why| {
        let text = |key: &str| meta(key).and_then(Value::as_str).unwrap_or_default();
        let kind = applied.get("kind").and_then(Value::as_str).unwrap_or_default();
        let group = if scene.api_version.contains('/') { "" } else { "/" };
        Refused::Wrong(format!(
            "failed to create typed patch object ({}/{}; {group}{}, Kind={kind}): {why}",
            text("namespace"),
            text("name"),
            scene.api_version,
        ))
    })
}

/// The conflicts that stay when kubectl takes over what it applied from the client's side before.
fn unforeseen<'e>(
    scene: Scene<'_>,
    live: &Value,
    manager: &str,
    conflicts: Vec<Conflict<'e>>,
) -> Vec<Conflict<'e>> {
    let Some(last) = (manager == KUBECTL).then(|| last_applied(live)).flatten() else { return conflicts };
    if last.get("apiVersion").and_then(Value::as_str) != Some(scene.api_version) {
        return conflicts;
    }
    let allowed = match scene.versions.kind(scene.api_version) {
        Some(kind) if validate(&last, kind).is_ok() => {
            update::still_applied(&last, live, kind).unwrap_or_default()
        }
        _ => Set::default(),
    };
    conflicts.into_iter().filter(|conflict| !allowed.has_path(&conflict.path)).collect()
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

fn last_applied(live: &Value) -> Option<Value> {
    serde_json::from_str(annotation(live)?).ok()
}

/// Keeps the annotation of applying on the client's side in step, where there is one.
fn follow_last_applied(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut said = applied.clone();
    if let Some(Value::Object(annotations)) =
        said.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"))
    {
        annotations.remove(LAST_APPLIED);
    }
    let mut text = String::new();
    for c in crate::numbers::json_text(&said).chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => text.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('\n');
    let annotations = object.get_mut("metadata").and_then(|meta| meta.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.insert(LAST_APPLIED.to_owned(), text.into());
        let size: usize =
            annotations.iter().map(|(key, value)| key.len() + value.as_str().unwrap_or_default().len()).sum();
        if size > ANNOTATION_LIMIT {
            annotations.remove(LAST_APPLIED);
        }
    }
}

/// Conflicts in words.
fn refusal(conflicts: &[Conflict<'_>]) -> Refused {
    let causes = conflicts
        .iter()
        .map(|conflict| (format!("conflict with {}", conflict.id), shown(&conflict.path)))
        .collect();
    let message = match conflicts {
        [only] => {
            format!("Apply failed with 1 conflict: conflict with {}: {}", only.id, shown(&only.path))
        }
        many => {
            let mut lines = Vec::new();
            let mut last = None;
            for conflict in many {
                if last != Some(&conflict.id) {
                    lines.push(format!("conflicts with {}:", conflict.id));
                    last = Some(&conflict.id);
                }
                lines.push(format!("- {}", shown(&conflict.path)));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    Refused::Conflicts { message, causes }
}

/// Whether two lists of entries are the same but for times, and these do differ.
pub(crate) fn differ_in_times_only(old: Option<&Value>, new: Option<&Value>) -> bool {
    let (Some(Value::Array(old)), Some(Value::Array(new))) = (old, new) else { return false };
    fn timeless(entry: &Value) -> impl Iterator<Item = (&String, &Value)> {
        entry.as_object().into_iter().flatten().filter(|field| field.0 != "time")
    }
    old.len() == new.len()
        && old != new
        && old.iter().zip(new).all(|(old, new)| timeless(old).eq(timeless(new)))
}

/// Entries as they are written by somebody who is sure of them.
pub(super) fn encoded(managed: Managed<'_>, old: &[Value]) -> Vec<Value> {
    assemble(managed.encode(), old.to_vec())
}
