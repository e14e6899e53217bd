//! The namespaces of an Addon: made where they are missing, used where they are there.
//!
//! **Only what was made for an Addon is owned by one**, and so goes with it: a namespace that was there before stays.
//! One that several Addons list goes with the last of them.

use std::collections::BTreeMap;

use bellwether_api::addons_managed::AddonSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use super::{Change, Observed, Piece, Step};
use crate::addon::subject::{Role, Subject, is_addon};

/// What to do about the namespaces, and what there is to wait for.
pub(super) struct Namespaces {
    pub(super) steps: Vec<Step>,
    pub(super) unready: Vec<String>,
}

type Texts = BTreeMap<String, String>;

/// A namespace as the Addon lists it.
#[derive(Default)]
struct Wanted {
    labels: Texts,
    annotations: Texts,
}

pub(super) fn provide(observed: &Observed<'_>, spec: &AddonSpec, target: Option<&str>) -> Namespaces {
    let wanted = listed(spec);
    let mut namespaces = Namespaces { steps: Vec::new(), unready: Vec::new() };
    for (name, wanted) in &wanted {
        let found = observed.namespaces.get(*name);
        let piece = Piece::Namespace((*name).to_owned());
        match found {
            Some(found) if found.deletion_timestamp.is_some() => {
                namespaces.unready.push(format!("{name:?} is being deleted"));
            }
            found => {
                let change = change(observed.subject, name, wanted, found);
                match observed.refused.get(&piece) {
                    Some(words) => namespaces.unready.push(format!("{name:?} cannot be provided: {words}")),
                    None => namespaces.steps.extend(change.map(|change| Step { piece, change })),
                }
            }
        }
    }
    let target = target.filter(|target| !wanted.contains_key(target));
    namespaces.unready.extend(target.and_then(|target| unlisted(observed, target)));
    namespaces
}

fn listed(spec: &AddonSpec) -> BTreeMap<&str, Wanted> {
    let mut wanted: BTreeMap<&str, Wanted> = BTreeMap::new();
    for listed in spec.namespaces.iter().filter(|listed| !listed.name.is_empty()) {
        let wanted = wanted.entry(&listed.name).or_default();
        wanted.labels.extend(spec.common_labels.clone());
        wanted.labels.extend(listed.labels.clone());
        wanted.annotations.extend(spec.common_annotations.clone());
        wanted.annotations.extend(listed.annotations.clone());
    }
    wanted
}

/// What there is to wait for in a namespace that nobody asked us to make.
fn unlisted(observed: &Observed<'_>, target: &str) -> Option<String> {
    match observed.namespaces.get(target) {
        None => Some(format!("{target:?} does not exist: create it, or list it in .spec.namespaces")),
        Some(found) if found.deletion_timestamp.is_some() => Some(format!("{target:?} is being deleted")),
        Some(_) => None,
    }
}

fn change(subject: &Subject, name: &str, wanted: &Wanted, found: Option<&ObjectMeta>) -> Option<Change> {
    match found {
        None => Some(Change::Create(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "labels": wanted.labels, "annotations": wanted.annotations,
                "ownerReferences": [subject.as_owner(Role::Controller)],
            },
        }))),
        Some(found) => repair(subject, wanted, found).map(Change::Patch),
    }
}

/// A merge patch for what a namespace lacks.
fn repair(subject: &Subject, wanted: &Wanted, found: &ObjectMeta) -> Option<Value> {
    let owners = found.owner_references.as_deref().unwrap_or_default();
    let ours = owners.iter().find(|owner| owner.uid == subject.uid());
    // Where two Addons, or an Addon and somebody else, want different values, one of them has the say; else there
    // would be no end to it.
    let say = if ours.is_some_and(|ours| ours.controller == Some(true)) { Say::All } else { Say::Missing };
    let mut metadata = Map::new();
    for (field, wanted, found) in
        [("labels", &wanted.labels, &found.labels), ("annotations", &wanted.annotations, &found.annotations)]
    {
        let lacking = lacking(wanted, found.as_ref(), say);
        if !lacking.is_empty() {
            metadata.insert(field.into(), json!(lacking));
        }
    }
    if ours.is_none() && owners.iter().any(is_addon) {
        let mut owners: Vec<OwnerReference> = owners.to_vec();
        owners.push(subject.as_owner(Role::Member));
        metadata.insert("ownerReferences".into(), json!(owners));
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".into(), json!(found.resource_version));
    Some(json!({"metadata": metadata}))
}

/// Whose values count where there are others already.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Say {
    All,
    Missing,
}

fn lacking<'w>(wanted: &'w Texts, found: Option<&Texts>, say: Say) -> BTreeMap<&'w str, &'w str> {
    let held = |name: &String| found.and_then(|found| found.get(name));
    wanted
        .iter()
        .filter(|(name, value)| match held(name) {
            None => true,
            Some(held) => say == Say::All && held != *value,
        })
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}
