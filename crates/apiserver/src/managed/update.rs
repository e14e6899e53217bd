//! Who owns what after a write: an update takes what it changes from everybody else, an apply says all that its
//! manager wants to own and may not take what others own unless it is told to. Pure: objects and entries in, entries
//! (and, for an apply, the merged object) out.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::{Comparison, compare, fields_of};
use super::element::{Element, same};
use super::entries::{Entry, Id, Managed};
use super::merge::merge;
use super::prune::prune;
use super::reconcile::reconcile;
use super::set::Set;
use super::types::Type;

/// What nobody owns, because everybody must say it or nobody can.
static NEVER_OWNED: LazyLock<Set<'static>> = LazyLock::new(|| {
    Set::of(&[
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// The versions of a kind, as managers wrote in them.
pub(crate) trait Versions {
    /// The type of a version; nothing, if there is no such version any more.
    fn kind(&self, api_version: &str) -> Option<Type<'_>>;
    /// An object in the words of another version.
    fn convert(&self, object: &Value, from: &str, to: &str) -> Option<Value>;
    /// What the endpoint that is written through does not change.
    fn ignored(&self, api_version: &str) -> &Set<'_>;
    /// Whether the types changed since the entries were written.
    fn changed(&self) -> bool;
}

/// A path that an apply wants to change and somebody else owns.
#[derive(Clone, Debug)]
pub(crate) struct Conflict<'e> {
    pub(crate) id: Id<'e>,
    pub(crate) path: Vec<Element<'e>>,
}

/// Why nothing was applied.
#[derive(Debug)]
pub(crate) enum Failure<'e> {
    Conflicts(Vec<Conflict<'e>>),
    /// In words.
    Other(String),
}

impl From<String> for Failure<'_> {
    fn from(why: String) -> Self {
        Self::Other(why)
    }
}

/// An object before and after, in all versions that somebody wrote in.
struct Views<'e> {
    of: Vec<View<'e>>,
}

struct View<'e> {
    version: Cow<'e, str>,
    objects: Option<(Value, Value)>,
}

impl<'e> Views<'e> {
    /// The other versions of the entries.
    fn new(managed: &Managed<'e>, written: &str, old: &Value, new: &Value, versions: &dyn Versions) -> Self {
        let mut of: Vec<View<'e>> = Vec::new();
        for entry in &managed.entries {
            let version = &entry.api_version;
            if version == written || of.iter().any(|view| view.version == *version) {
                continue;
            }
            let convert = |object: &Value| versions.convert(object, written, version);
            let objects = convert(old).zip(convert(new));
            of.push(View { version: version.clone(), objects });
        }
        Self { of }
    }
}

/// What changed, in the words of one version.
struct Changes<'c> {
    version: Cow<'c, str>,
    removed: Set<'c>,
    written: Set<'c>,
}

impl<'c> Changes<'c> {
    fn new(version: Cow<'c, str>, comparison: Comparison<'c>) -> Self {
        let written = comparison.written();
        Self { version, removed: comparison.removed, written }
    }
}

fn changes<'c>(views: &'c Views<'_>, versions: &'c dyn Versions) -> Result<Vec<Changes<'c>>, String> {
    let mut changes = Vec::new();
    for view in &views.of {
        let (Some((old, new)), Some(kind)) = (&view.objects, versions.kind(&view.version)) else { continue };
        let comparison = compare(old, new, kind)?.without(versions.ignored(&view.version));
        changes.push(Changes::new(Cow::Borrowed(&*view.version), comparison));
    }
    Ok(changes)
}

/// Drops entries of versions that are gone, and follows what changed in the types.
pub(crate) fn settle_types(managed: &mut Managed<'_>, versions: &dyn Versions) {
    managed.entries.retain(|entry| !entry.is_blank() && versions.kind(&entry.api_version).is_some());
    if !versions.changed() {
        return;
    }
    for entry in &mut managed.entries {
        let Some(kind) = versions.kind(&entry.api_version) else { continue };
        let reconciled = reconcile(&entry.set(), kind);
        if let Some(set) = reconciled {
            entry.set_fields(set);
        }
    }
}

/// Takes what was written and what is gone from everybody but one.
fn take(managed: &mut Managed<'_>, changes: &[Changes<'_>], but: Option<&Id<'_>>) {
    managed.entries.retain_mut(|entry| {
        if but == Some(&entry.id) {
            return true;
        }
        let Some(change) = changes.iter().find(|change| change.version == entry.api_version) else {
            return false;
        };
        if !entry.touches(&change.written) && !entry.touches(&change.removed) {
            return true;
        }
        let left = entry.set().difference(&change.written).difference(&change.removed);
        let stays = !left.is_empty();
        entry.set_fields(left);
        stays
    });
}

/// Records an update that made `new` of `old`.
pub(crate) fn update<'e>(
    mut managed: Managed<'e>,
    (old, new): (&'e Value, &'e Value),
    id: Id<'e>,
    (api_version, now): (&'e str, &'e str),
    versions: &'e dyn Versions,
) -> Result<Managed<'e>, String> {
    settle_types(&mut managed, versions);
    let kind = versions.kind(api_version).ok_or("the version is not known")?;
    let comparison = compare(old, new, kind)?.without(versions.ignored(api_version));
    if comparison.is_empty() {
        return Ok(managed);
    }
    let own = Changes::new(Cow::Borrowed(api_version), comparison);
    let gained = own.written.difference(&NEVER_OWNED);
    let mut before = match gained.is_empty() {
        true => None,
        false => managed.take(&id),
    };
    {
        let views = Views::new(&managed, api_version, old, new, versions);
        let mut all = changes(&views, versions)?;
        all.push(Changes {
            version: Cow::Borrowed(api_version),
            removed: own.removed.clone(),
            written: own.written.clone(),
        });
        take(&mut managed, &all, None);
    }
    if gained.is_empty() {
        return Ok(managed);
    }
    let unowned = own.written.intersection(&NEVER_OWNED);
    let entry = match before.take() {
        Some(mut entry) => {
            let loses = entry.touches(&own.removed) || entry.touches(&unowned);
            if loses || !entry.covers(&gained) {
                let left = entry.set().difference(&own.written).difference(&own.removed);
                entry.set_fields(left.union(&gained));
            }
            entry
        }
        None => Entry::new(id, api_version, gained),
    };
    let mut entry = entry;
    entry.set_time(Some(Cow::Borrowed(now)));
    managed.entries.push(entry);
    Ok(managed)
}

/// What came of an apply.
pub(crate) struct Applied<'e> {
    pub(crate) managed: Managed<'e>,
    /// The merged object; nothing, if it is what it was.
    pub(crate) object: Option<Value>,
}

/// An apply: what is applied, by whom, and whether it takes what others own.
#[derive(Clone)]
pub(crate) struct Apply<'e> {
    pub(crate) applied: &'e Value,
    pub(crate) id: Id<'e>,
    pub(crate) api_version: &'e str,
    pub(crate) force: bool,
    pub(crate) now: &'e str,
}

/// Applies to a live object.
pub(crate) fn apply<'e>(
    mut managed: Managed<'e>,
    live: &'e Value,
    wanted: Apply<'e>,
    versions: &'e dyn Versions,
) -> Result<Applied<'e>, Failure<'e>> {
    let Apply { applied, id, api_version, force, now } = wanted;
    settle_types(&mut managed, versions);
    let kind = versions.kind(api_version).ok_or_else(|| "the version is not known".to_owned())?;
    let merged = merge(live, applied, kind).map_err(|why| format!("failed to merge config: {why}"))?;
    let last = managed.take(&id);
    let before = last.as_ref().and_then(|entry| entry.time.clone());
    let said = fields_of(applied, kind).map_err(|why| format!("failed to get field set: {why}"))?;
    let own = Entry::new(id.clone(), api_version, said.without(versions.ignored(api_version)));
    managed.entries.push(own);
    let object = match last {
        Some(last) if !last.set().is_empty() => prune(merged, &managed, api_version, &last, versions)
            .map_err(|why| format!("failed to prune fields: {why}"))?,
        _ => merged,
    };
    let kept = settle(&mut managed, (live, &object), api_version, &id, force, versions)?;
    let object = (!same(live, &object)).then_some(object);
    if let Some(mut own) = kept {
        let owned = own.set().difference(&NEVER_OWNED);
        if !owned.is_empty() {
            own.set_fields(owned);
            own.set_time(if object.is_some() { Some(Cow::Borrowed(now)) } else { before });
            managed.entries.push(own);
        }
    }
    Ok(Applied { managed, object })
}

/// Looks for conflicts and, if there are none or they do not matter, takes what changed from the others. The own entry
/// is taken out and handed back.
fn settle<'e>(
    managed: &mut Managed<'e>,
    (old, new): (&Value, &Value),
    api_version: &str,
    id: &Id<'e>,
    force: bool,
    versions: &dyn Versions,
) -> Result<Option<Entry<'e>>, Failure<'e>> {
    let own = managed.take(id);
    let kind = versions.kind(api_version).ok_or_else(|| "the version is not known".to_owned())?;
    let comparison = compare(old, new, kind).map_err(|why| format!("failed to compare objects: {why}"))?;
    let comparison = comparison.without(versions.ignored(api_version));
    let views = Views::new(managed, api_version, old, new, versions);
    let mut all = changes(&views, versions).map_err(|why| format!("failed to compare objects: {why}"))?;
    all.push(Changes::new(Cow::Borrowed(api_version), comparison));
    if !force {
        let conflicts = conflicts(managed, &all);
        if !conflicts.is_empty() {
            return Err(Failure::Conflicts(conflicts));
        }
    }
    take(managed, &all, None);
    Ok(own.filter(|own| !own.set().is_empty()))
}

fn conflicts<'e>(managed: &Managed<'e>, changes: &[Changes<'_>]) -> Vec<Conflict<'e>> {
    let mut conflicts = Vec::new();
    for entry in &managed.entries {
        let Some(change) = changes.iter().find(|change| change.version == entry.api_version) else {
            continue;
        };
        if !entry.touches(&change.written) {
            continue;
        }
        let contested = entry.set().intersection(&change.written);
        conflicts.extend(contested.paths().into_iter().map(|path| Conflict { id: entry.id.clone(), path }));
    }
    conflicts.sort_by_cached_key(|conflict| conflict.id.text());
    conflicts
}

/// The paths of an object that its author last applied on the client's side and that still are as they were.
pub(crate) fn still_applied<'e>(last: &'e Value, live: &'e Value, kind: Type<'e>) -> Result<Set<'e>, String> {
    let changed = compare(last, live, kind)?;
    let set = fields_of(last, kind)?;
    Ok(set.difference(&changed.written()).difference(&changed.removed))
}
