//! What goes when its manager no longer applies it: what it applied last time and not now, unless somebody else owns it.

use serde_json::Value;

use super::compare::fields_of;
use super::entries::{Entry, Managed};
use super::merge::remove;
use super::set::Set;
use super::types::Type;
use super::update::Versions;

/// Takes out of a merged object what goes. `managed` has the manager's new entry, `last` is the one before.
pub(super) fn prune(
    merged: Value,
    managed: &Managed<'_>,
    api_version: &str,
    last: &Entry<'_>,
    versions: &dyn Versions,
) -> Result<Value, String> {
    let version = &*last.api_version;
    let Some(whole) = convert(versions, &merged, api_version, version) else { return Ok(merged) };
    let kind = versions.kind(version).ok_or("the version is not known")?;
    let applied = last.set().with_named_fields(kind);
    let left = remove(&whole, &applied, kind);
    let Some(left) = add_back_owned(&whole, left, version, managed, versions)? else { return Ok(merged) };
    let left = add_back_unapplied(&whole, &left, &applied, kind)?;
    Ok(convert(versions, &left, version, api_version).unwrap_or(merged))
}

fn convert(versions: &dyn Versions, object: &Value, from: &str, to: &str) -> Option<Value> {
    if from == to { Some(object.clone()) } else { versions.convert(object, from, to) }
}

/// All fields of an object, with those that lead to others.
fn every_field<'a>(object: &'a Value, kind: Type<'a>) -> Result<Set<'a>, String> {
    Ok(fields_of(object, kind)?.with_named_fields(kind))
}

/// Puts back what somebody owns, in the words of each version that somebody wrote in: first in that of the object.
fn add_back_owned(
    whole: &Value,
    left: Value,
    version: &str,
    managed: &Managed<'_>,
    versions: &dyn Versions,
) -> Result<Option<Value>, String> {
    let mut written_in: Vec<&str> = managed.entries.iter().map(|entry| &*entry.api_version).collect();
    written_in.sort_unstable();
    written_in.dedup();
    written_in.sort_by_key(|other| *other != version);
    let mut current = (whole.clone(), left, version);
    for other in written_in {
        let convert = |object: &Value| convert(versions, object, current.2, other);
        let (Some(kind), Some(all), Some(left)) =
            (versions.kind(other), convert(&current.0), convert(&current.1))
        else {
            continue;
        };
        let gone = {
            let kept = every_field(&left, kind)?.union(&owned_in(managed, other).with_named_fields(kind));
            every_field(&all, kind)?.difference(&kept)
        };
        let left = remove(&all, &gone, kind);
        current = (all, left, other);
    }
    Ok(convert(versions, &current.1, current.2, version))
}

/// What anybody owns in the words of a version.
fn owned_in<'e>(managed: &Managed<'e>, version: &str) -> Set<'e> {
    let entries = managed.entries.iter().filter(|entry| entry.api_version == version);
    entries.fold(Set::default(), |owned, entry| owned.union(&entry.set()))
}

/// Puts back what the manager did not apply last time: it was not its to take away.
fn add_back_unapplied(
    whole: &Value,
    left: &Value,
    applied: &Set<'_>,
    kind: Type<'_>,
) -> Result<Value, String> {
    let gone = every_field(whole, kind)?.difference(&every_field(left, kind)?).intersection(applied);
    Ok(remove(whole, &gone, kind))
}
