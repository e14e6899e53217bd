//! The entries of an object as those of its Scale, and back: a Scale has one field that anybody owns, the count, and
//! whoever sets it there owns the field of the object where the count stands.

use serde_json::Value;

use super::element::Element;
use super::entries::{Entry, Managed, Trust};
use super::record::encoded;
use super::set::Set;

const SCALE: &str = "autoscaling/v1";

/// Where the count of an object stands in the version through which it is scaled.
#[derive(Clone, Copy)]
pub(crate) struct Scaled<'a> {
    pub(crate) api_version: &'a str,
    pub(crate) count: &'a [&'a str],
}

impl<'a> Scaled<'a> {
    fn path(self) -> Vec<Element<'a>> {
        self.count.iter().map(|name| Element::field(name)).collect()
    }

    fn set(self) -> Set<'a> {
        Set::of(&[self.count])
    }

    fn owns(self, entry: &Entry<'_>) -> bool {
        entry.api_version == self.api_version && entry.set().has_path(&self.path())
    }

    /// The entries of an object that own its count, as entries of the Scale.
    pub(crate) fn to_scale(self, entries: &[Value]) -> Vec<Value> {
        let Ok(managed) = Managed::read(entries, Trust::Checked) else { return Vec::new() };
        let mut scale = Managed::default();
        for entry in managed.entries.into_iter().filter(|entry| self.owns(entry)) {
            let mut owned = Entry::new(entry.id.clone(), SCALE, Set::of(&[&["spec", "replicas"]]));
            owned.set_time(entry.time.clone());
            scale.entries.push(owned);
        }
        encoded(scale, &[])
    }

    /// The entries of the object, given those of its Scale after it was written.
    pub(crate) fn to_object(self, entries: &[Value], scale: &[Value]) -> Vec<Value> {
        let managed = Managed::read(entries, Trust::Checked).unwrap_or_default();
        let mut scale = Managed::read(scale, Trust::Checked).unwrap_or_default();
        let mut merged = Managed::default();
        for mut entry in managed.entries {
            if self.owns(&entry) && scale.take(&entry.id).is_none() {
                let left = entry.set().difference(&self.set());
                if left.is_empty() {
                    continue;
                }
                entry.set_fields(left);
            }
            merged.entries.push(entry);
        }
        let count = Set::of(&[&["spec", "replicas"]]);
        for entry in scale.entries.iter().filter(|entry| entry.covers(&count)) {
            merged.entries.push(Entry::new(entry.id.clone(), self.api_version, self.set()));
        }
        encoded(merged, entries)
    }
}
