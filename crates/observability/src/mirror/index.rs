//! The index of the mirror: of each cluster, the state of the add-on and what its ManagedClusterAddOn shows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_conditions::ConditionSet;
use bellwether_conditions::kubernetes::parse_list;
use bellwether_runtime::DirtyKeys;
use kube::Resource as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::NAME;
use super::decide::{Management, shown_conditions};
use crate::vocabulary::{MANAGED_ADDON_NAME, StandardType};

/// The namespace of a cluster on the hub.
pub(super) type ClusterNamespace = Arc<str>;

/// What a ManagedClusterAddOn shows.
struct Shown {
    conditions: ConditionSet,
    /// The types of the conditions that this controller owns, which it can remove.
    owned: HashSet<String>,
}

#[derive(Default)]
pub(super) struct Index {
    addons: HashMap<ClusterNamespace, ConditionSet>,
    shown: HashMap<ClusterNamespace, Shown>,
    management: Management,
    pub(super) dirty: DirtyKeys<ClusterNamespace>,
}

impl Index {
    /// Every cluster that has a ManagedClusterAddOn.
    pub(super) fn clusters(&self) -> Vec<ClusterNamespace> {
        self.shown.keys().cloned().collect()
    }

    pub(super) fn apply_addon(&mut self, addon: &DynamicObject) {
        let cluster = namespace_of(addon);
        let conditions = standard_conditions(addon);
        if self.addons.get(&cluster) != Some(&conditions) {
            self.addons.insert(cluster.clone(), conditions);
            self.enqueue_if_different(cluster);
        }
    }

    pub(super) fn delete_addon(&mut self, cluster: &ClusterNamespace) {
        self.addons.remove(cluster);
        self.enqueue_if_different(cluster.clone());
    }

    pub(super) fn apply_shown(&mut self, addon: &DynamicObject) {
        let cluster = namespace_of(addon);
        let shown = Shown { conditions: standard_conditions(addon), owned: owned_types(addon) };
        self.shown.insert(cluster.clone(), shown);
        self.enqueue_if_different(cluster);
    }

    pub(super) fn delete_shown(&mut self, cluster: &ClusterNamespace) {
        self.shown.remove(cluster);
        self.dirty.forget(cluster.clone());
    }

    pub(super) fn set_managed(&mut self, is_managed: bool) {
        self.management =
            if is_managed { Management::ByClusterManagementAddOn } else { Management::Standalone };
        let clusters: HashSet<ClusterNamespace> = self.shown.keys().cloned().collect();
        clusters.into_iter().for_each(|cluster| self.enqueue_if_different(cluster));
    }

    fn enqueue_if_different(&mut self, cluster: ClusterNamespace) {
        if self.correction(&cluster).is_some() {
            self.dirty.enqueue(cluster);
        }
    }

    /// The object to apply so that the ManagedClusterAddOn shows the state; nothing if it does, or does not exist.
    pub(super) fn correction(&self, cluster: &ClusterNamespace) -> Option<Value> {
        let shown = self.shown.get(cluster)?;
        let no_conditions = ConditionSet::default();
        let addon = self.addons.get(cluster).unwrap_or(&no_conditions);
        let wanted = shown_conditions(addon, &shown.conditions, self.management);
        let is_shown = wanted.iter().all(|one| shown.conditions.get(&one.type_) == Some(one));
        let is_wanted = |type_: &String| wanted.iter().any(|one| one.type_.as_str() == type_);
        let has_unwanted = !shown.owned.iter().all(is_wanted);
        (!is_shown || has_unwanted).then(|| {
            json!({
                "apiVersion": ManagedClusterAddOn::api_version(&()),
                "kind": ManagedClusterAddOn::kind(&()),
                "metadata": {"name": MANAGED_ADDON_NAME, "namespace": &**cluster},
                "status": {"conditions": wanted},
            })
        })
    }
}

fn namespace_of(object: &DynamicObject) -> ClusterNamespace {
    object.metadata.namespace.as_deref().unwrap_or_default().into()
}

/// The types of the conditions that this controller has applied, by the managed fields of the object.
fn owned_types(object: &DynamicObject) -> HashSet<String> {
    let entries = object.metadata.managed_fields.iter().flatten();
    let own = entries.filter(|entry| entry.manager.as_deref() == Some(NAME));
    let fields =
        own.filter_map(|entry| entry.fields_v1.as_ref()?.0.pointer("/f:status/f:conditions")?.as_object());
    let type_of = |key: &String| -> Option<String> {
        let key: Value = serde_json::from_str(key.strip_prefix("k:")?).ok()?;
        Some(key.get("type")?.as_str()?.to_owned())
    };
    fields.flat_map(|conditions| conditions.keys()).filter_map(type_of).collect()
}

/// The standard conditions in the status of an object.
fn standard_conditions(object: &DynamicObject) -> ConditionSet {
    let all = parse_list(object.data.pointer("/status/conditions"));
    let is_standard = |type_: &bellwether_conditions::ConditionType| {
        StandardType::ALL.iter().any(|standard| standard.condition_type() == *type_)
    };
    ConditionSet::from(all.iter().filter(|one| is_standard(&one.type_)).cloned().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addon(conditions: Value) -> DynamicObject {
        object(json!({}), conditions)
    }

    fn object(fields: Value, conditions: Value) -> DynamicObject {
        let managed = json!([{"manager": NAME, "operation": "Apply", "subresource": "status",
            "fieldsV1": {"f:status": {"f:conditions": fields}}}]);
        serde_json::from_value(
            json!({"metadata": {"name": "a", "namespace": "spoke-1", "managedFields": managed},
            "status": {"conditions": conditions}}),
        )
        .unwrap()
    }

    fn condition(type_: &str, status: &str) -> Value {
        json!({"type": type_, "status": status, "reason": "ForwardFailure", "message": "m",
            "lastTransitionTime": "2024-06-13T10:00:00Z"})
    }

    /// The types that a correction applies.
    fn correction(index: &Index) -> Option<Vec<String>> {
        let body = index.correction(&"spoke-1".into())?;
        let list = body["status"]["conditions"].as_array().unwrap();
        Some(list.iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect())
    }

    #[test]
    fn conditions_are_applied_until_they_are_shown() {
        let mut index = Index::default();
        index.apply_addon(&addon(json!([condition("Degraded", "True")])));
        assert_eq!(correction(&index), None, "there is nothing to show it in");
        index.apply_shown(&object(json!({}), json!([])));
        assert_eq!(
            correction(&index),
            Some(vec!["Available".into(), "Progressing".into(), "Degraded".into()])
        );
        let all = json!([
            condition("Available", "False"),
            condition("Progressing", "False"),
            condition("Degraded", "True")
        ]);
        let owned = json!({"k:{\"type\":\"Available\"}": {}, "k:{\"type\":\"Progressing\"}": {}, "k:{\"type\":\"Degraded\"}": {}});
        index.apply_shown(&object(owned, all));
        assert_eq!(correction(&index), None);
        index.set_managed(true);
        assert_eq!(correction(&index), Some(vec!["Degraded".into()]), "the others are given up");
        index.set_managed(false);
        index.delete_addon(&"spoke-1".into());
        assert_eq!(correction(&index), Some(vec![]), "the state of a deleted add-on is removed");
    }
}
