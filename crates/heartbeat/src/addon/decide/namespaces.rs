//! Plans the namespaces of an Addon: missing ones are created, existing ones are used and labelled.
//!
//! **Invariant:** only namespaces that were created for an Addon get owner references. A namespace that existed before is
//! therefore kept when the Addon is deleted; one that several Addons list is deleted with the last of them.

use std::collections::BTreeMap;

use bellwether_api::addons_managed::AddonSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};

use super::{Change, ManagedObject, Observed, Step};
use crate::addon::object::{AddonObject, OwnerRole, is_addon};

/// The writes that the namespaces need, and why some namespaces are not ready.
pub(super) struct NamespacePlan {
    pub(super) steps: Vec<Step>,
    /// One message per namespace that is not ready.
    pub(super) unready: Vec<String>,
}

type StringMap = BTreeMap<String, String>;

/// The labels and annotations that the Addon lists for a namespace.
#[derive(Default)]
struct DesiredNamespace {
    labels: StringMap,
    annotations: StringMap,
}

pub(super) fn plan(observed: &Observed<'_>, spec: &AddonSpec, target: Option<&str>) -> NamespacePlan {
    let listed = listed_namespaces(spec);
    let mut plan = NamespacePlan { steps: Vec::new(), unready: Vec::new() };
    for (name, desired) in &listed {
        let found = observed.namespaces.get(*name);
        let object = ManagedObject::Namespace((*name).to_owned());
        match found {
            Some(found) if found.deletion_timestamp.is_some() => {
                plan.unready.push(format!("{name:?} is being deleted"));
            }
            found => {
                let change = required_change(observed.addon, name, desired, found);
                match observed.rejections.get(&object) {
                    Some(message) => {
                        plan.unready.push(format!("{name:?} cannot be created or changed: {message}"));
                    }
                    None => plan.steps.extend(change.map(|change| Step { object, change })),
                }
            }
        }
    }
    let unlisted_target = target.filter(|target| !listed.contains_key(target));
    plan.unready.extend(unlisted_target.and_then(|target| unready_message(observed, target)));
    plan
}

/// The listed namespaces by name. Entries with the same name are merged, entries without a name are ignored.
fn listed_namespaces(spec: &AddonSpec) -> BTreeMap<&str, DesiredNamespace> {
    let mut namespaces: BTreeMap<&str, DesiredNamespace> = BTreeMap::new();
    for listed in spec.namespaces.iter().filter(|listed| !listed.name.is_empty()) {
        let desired = namespaces.entry(&listed.name).or_default();
        desired.labels.extend(spec.common_labels.clone());
        desired.labels.extend(listed.labels.clone());
        desired.annotations.extend(spec.common_annotations.clone());
        desired.annotations.extend(listed.annotations.clone());
    }
    namespaces
}

/// Why a target namespace that is not listed is not ready. The controller does not create such a namespace.
fn unready_message(observed: &Observed<'_>, target: &str) -> Option<String> {
    match observed.namespaces.get(target) {
        None => Some(format!("{target:?} does not exist: create it, or list it in .spec.namespaces")),
        Some(found) if found.deletion_timestamp.is_some() => Some(format!("{target:?} is being deleted")),
        Some(_) => None,
    }
}

fn required_change(
    addon: &AddonObject,
    name: &str,
    desired: &DesiredNamespace,
    found: Option<&ObjectMeta>,
) -> Option<Change> {
    match found {
        None => Some(Change::Create(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "labels": desired.labels, "annotations": desired.annotations,
                "ownerReferences": [addon.owner_reference(OwnerRole::Controller)],
            },
        }))),
        Some(found) => repair_patch(addon, desired, found).map(Change::Patch),
    }
}

/// A merge patch with the missing labels, annotations and owner reference of a namespace; `None` if nothing is missing.
fn repair_patch(addon: &AddonObject, desired: &DesiredNamespace, found: &ObjectMeta) -> Option<Value> {
    let owners = found.owner_references.as_deref().unwrap_or_default();
    let own_reference = owners.iter().find(|owner| owner.uid == addon.uid());
    // Only the controlling Addon overwrites existing values. Otherwise two writers with different values would overwrite
    // each other for ever.
    let is_controller = own_reference.is_some_and(|owner| owner.controller == Some(true));
    let conflict = if is_controller { ExistingValue::Overwrite } else { ExistingValue::Keep };
    let mut metadata = Map::new();
    for (field, desired, found) in [
        ("labels", &desired.labels, &found.labels),
        ("annotations", &desired.annotations, &found.annotations),
    ] {
        let values = values_to_set(desired, found.as_ref(), conflict);
        if !values.is_empty() {
            metadata.insert(field.into(), json!(values));
        }
    }
    if own_reference.is_none() && owners.iter().any(is_addon) {
        let mut owners: Vec<OwnerReference> = owners.to_vec();
        owners.push(addon.owner_reference(OwnerRole::NonController));
        metadata.insert("ownerReferences".into(), json!(owners));
    }
    if metadata.is_empty() {
        return None;
    }
    metadata.insert("resourceVersion".into(), json!(found.resource_version));
    Some(json!({"metadata": metadata}))
}

/// What happens to a label or annotation that already has another value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExistingValue {
    Overwrite,
    Keep,
}

fn values_to_set<'d>(
    desired: &'d StringMap,
    found: Option<&StringMap>,
    conflict: ExistingValue,
) -> BTreeMap<&'d str, &'d str> {
    let existing = |name: &String| found.and_then(|found| found.get(name));
    desired
        .iter()
        .filter(|(name, value)| match existing(name) {
            None => true,
            Some(existing) => conflict == ExistingValue::Overwrite && existing != *value,
        })
        .map(|(name, value)| (name.as_str(), value.as_str()))
        .collect()
}
