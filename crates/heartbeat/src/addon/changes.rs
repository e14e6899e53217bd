//! Maps changes of AddonInstances, Namespaces and AddonOperators to the Addons that must be reconciled. A heartbeat affects
//! no Addon: a hash of the relevant fields of every object is kept, and an event that does not change it is dropped.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use bellwether_api::addons_managed::{Addon, AddonInstance, AddonOperator};
use bellwether_runtime::{IndexOf, ObjectName, Watch};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::controller::AddonReconciler;
use super::decide::MirrorTimeouts;
use super::object::{InstanceObject, is_addon};
use crate::lenient::LenientObject;
use crate::vocabulary::{self, INSTANCE_NAME};

/// The Addons that a change affects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AffectedAddons {
    /// The Addons that own an instance, and those with its namespace as their target namespace.
    OfInstance {
        target: Option<String>,
        owners: Vec<String>,
    },
    /// The Addons that list a namespace or have it as their target namespace.
    OfNamespace(String),
    All,
}

impl AffectedAddons {
    fn include(&self, addon: &LenientObject<Addon>) -> bool {
        match self {
            Self::All => true,
            Self::OfNamespace(name) => lists_namespace(addon, name) || is_installed_in(addon, name),
            Self::OfInstance { target, owners } => {
                addon.metadata.name.as_ref().is_some_and(|name| owners.contains(name))
                    || target.as_deref().is_some_and(|target| is_installed_in(addon, target))
            }
        }
    }
}

// These functions run for every Addon at every relevant change, so they do not parse the whole spec. A superfluous
// reconcile does no harm, a missing one does.

fn lists_namespace(addon: &LenientObject<Addon>, namespace: &str) -> bool {
    let listed = addon.spec.get("namespaces").and_then(Value::as_array);
    listed.into_iter().flatten().any(|listed| has_value(listed, "name", namespace))
}

fn is_installed_in(addon: &LenientObject<Addon>, namespace: &str) -> bool {
    let blocks = addon.spec.get("install").and_then(Value::as_object);
    blocks
        .into_iter()
        .flat_map(|install| install.values())
        .any(|block| has_value(block, "namespace", namespace))
}

fn has_value(object: &Value, field: &str, value: &str) -> bool {
    object.get(field).and_then(Value::as_str) == Some(value)
}

/// An object whose changes may affect Addons.
pub(super) trait WatchedObject:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    fn affected_addons(&self) -> AffectedAddons;
    /// Hashes the fields that the reconcile of an Addon depends on.
    fn hash_relevant_fields(&self, mirror: MirrorTimeouts, hasher: &mut DefaultHasher);
}

impl WatchedObject for LenientObject<AddonInstance> {
    fn affected_addons(&self) -> AffectedAddons {
        let owners = self.owner_references().iter().filter(|owner| is_addon(owner));
        AffectedAddons::OfInstance {
            target: self.namespace().filter(|_| self.name_any() == INSTANCE_NAME),
            owners: owners.map(|owner| owner.name.clone()).collect(),
        }
    }

    fn hash_relevant_fields(&self, mirror: MirrorTimeouts, hasher: &mut DefaultHasher) {
        let instance = InstanceObject::read(self);
        (&instance.period, instance.marked_for_deletion).hash(hasher);
        hash_owners(self.owner_references(), hasher);
        for type_ in [vocabulary::instance::INSTALLED, vocabulary::instance::READY_TO_BE_DELETED] {
            instance.is_true(&type_).hash(hasher);
        }
        if mirror == MirrorTimeouts::On {
            instance.heartbeat_timeout().map(|timeout| &timeout.message).hash(hasher);
        }
    }
}

impl WatchedObject for PartialObjectMeta<Namespace> {
    fn affected_addons(&self) -> AffectedAddons {
        AffectedAddons::OfNamespace(self.name_any())
    }

    fn hash_relevant_fields(&self, _: MirrorTimeouts, hasher: &mut DefaultHasher) {
        (self.labels(), self.annotations()).hash(hasher);
        hash_owners(self.owner_references(), hasher);
    }
}

impl WatchedObject for LenientObject<AddonOperator> {
    fn affected_addons(&self) -> AffectedAddons {
        AffectedAddons::All
    }

    fn hash_relevant_fields(&self, _: MirrorTimeouts, hasher: &mut DefaultHasher) {
        pauses_all_addons(self).hash(hasher);
    }
}

/// Whether the AddonOperator pauses all Addons.
pub(super) fn pauses_all_addons(operator: &LenientObject<AddonOperator>) -> bool {
    operator.name_any() == vocabulary::addon::OPERATOR_NAME
        && operator.spec.get("pause") == Some(&Value::Bool(true))
}

fn hash_owners(owners: &[OwnerReference], hasher: &mut DefaultHasher) {
    for owner in owners {
        (&owner.uid, owner.controller).hash(hasher);
    }
}

/// Watches a kind, and enqueues the Addons that a change of a relevant field affects.
pub(super) fn watch<W: WatchedObject>(
    client: &Client,
    mirror: MirrorTimeouts,
) -> Watch<IndexOf<AddonReconciler>, W> {
    Watch::new(client, Api::<W>::all)
        .on_apply(move |index: &mut IndexOf<AddonReconciler>, object: W| {
            let affected = index.related.apply(&object, mirror);
            if !affected.is_empty() {
                index.enqueue_where(|addon| affected.iter().any(|affected| affected.include(addon)));
            }
        })
        .on_delete(|index, deleted| {
            if let Some(affected) = index.related.delete::<W>(deleted.name) {
                index.enqueue_where(|addon| affected.include(addon));
            }
        })
}

/// The objects that may affect Addons, by kind and name.
#[derive(Default)]
pub struct KnownObjects(HashMap<(TypeId, ObjectName), KnownObject>);

struct KnownObject {
    hash: u64,
    affected: AffectedAddons,
}

impl KnownObjects {
    /// Returns the Addons that a change affects: those of the object before and after it.
    fn apply<W: WatchedObject>(&mut self, object: &W, mirror: MirrorTimeouts) -> Vec<AffectedAddons> {
        let key = (TypeId::of::<W>(), ObjectName::of(object));
        let mut hasher = DefaultHasher::new();
        (object.meta().uid.as_ref(), object.meta().deletion_timestamp.is_some()).hash(&mut hasher);
        object.hash_relevant_fields(mirror, &mut hasher);
        let hash = hasher.finish();
        if self.0.get(&key).is_some_and(|known| known.hash == hash) {
            return Vec::new();
        }
        let affected = object.affected_addons();
        let before = self.0.insert(key, KnownObject { hash, affected: affected.clone() });
        let before = before.map(|known| known.affected).filter(|before| *before != affected);
        before.into_iter().chain([affected]).collect()
    }

    fn delete<W: WatchedObject>(&mut self, name: ObjectName) -> Option<AffectedAddons> {
        self.0.remove(&(TypeId::of::<W>(), name)).map(|known| known.affected)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(change: impl FnOnce(&mut Value)) -> LenientObject<AddonInstance> {
        let mut body = json!({
            "metadata": {
                "name": "addon-instance", "namespace": "ns", "uid": "1", "resourceVersion": "1",
                "ownerReferences": [{
                    "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": "a", "uid": "u",
                    "controller": true,
                }],
            },
            "spec": {"heartbeatUpdatePeriod": "10s"},
            "status": {"lastHeartbeatTime": "2024-05-01T10:00:00Z", "conditions": [
                condition("Healthy", "True", "ComponentsUp"), condition("Installed", "True", "SetupComplete"),
            ]},
        });
        change(&mut body);
        serde_json::from_value(body).unwrap()
    }

    type Change = fn(&mut Value);

    fn condition(kind: &str, status: &str, reason: &str) -> Value {
        json!({
            "type": format!("addons.managed.openshift.io/{kind}"), "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2024-05-01T10:00:00Z",
        })
    }

    fn addons_of_instance(owners: &[&str]) -> AffectedAddons {
        let owners = owners.iter().map(|name| (*name).to_owned()).collect();
        AffectedAddons::OfInstance { target: Some("ns".into()), owners }
    }

    /// The Addons that a change of a known instance affects.
    fn affected_by_change(
        instance_after: &LenientObject<AddonInstance>,
        mirror: MirrorTimeouts,
    ) -> Vec<AffectedAddons> {
        let mut known = KnownObjects::default();
        assert_eq!(known.apply(&instance(|_| {}), mirror), [addons_of_instance(&["a"])]);
        known.apply(instance_after, mirror)
    }

    #[test]
    fn only_changes_of_relevant_fields_affect_addons() {
        let rows: [(&str, Change, bool); 13] = [
            ("no change", |_| {}, false),
            ("heartbeat", |i| i["status"]["lastHeartbeatTime"] = json!("2024-05-01T10:00:10Z"), false),
            ("resourceVersion", |i| i["metadata"]["resourceVersion"] = json!("2"), false),
            (
                "reported health",
                |i| i["status"]["conditions"][0] = condition("Healthy", "False", "ComponentDown"),
                false,
            ),
            ("reason of Installed", |i| i["status"]["conditions"][1]["reason"] = json!("X"), false),
            (
                "heartbeat timeout",
                |i| i["status"]["conditions"][0] = condition("Healthy", "Unknown", "HeartbeatTimeout"),
                true,
            ),
            ("status of Installed", |i| i["status"]["conditions"][1]["status"] = json!("False"), true),
            (
                "ReadyToBeDeleted",
                |i| i["status"]["conditions"][0] = condition("ReadyToBeDeleted", "True", "X"),
                true,
            ),
            ("period", |i| i["spec"]["heartbeatUpdatePeriod"] = json!("1h"), true),
            ("markedForDeletion", |i| i["spec"]["markedForDeletion"] = json!(true), true),
            (
                "controller flag of the owner",
                |i| i["metadata"]["ownerReferences"][0]["controller"] = json!(false),
                true,
            ),
            (
                "deletionTimestamp",
                |i| i["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z"),
                true,
            ),
            ("new object of the same name", |i| i["metadata"]["uid"] = json!("2"), true),
        ];
        for (name, change, is_relevant) in rows {
            let affected = affected_by_change(&instance(change), MirrorTimeouts::On);
            assert_eq!(
                affected,
                if is_relevant { vec![addons_of_instance(&["a"])] } else { Vec::new() },
                "{name}"
            );
        }
    }

    #[test]
    fn heartbeat_timeout_affects_no_addon_unless_mirrored() {
        let silent = instance(|instance| {
            instance["status"]["conditions"][0] = condition("Healthy", "Unknown", "HeartbeatTimeout");
        });
        assert_eq!(affected_by_change(&silent, MirrorTimeouts::Off), []);
    }

    #[test]
    fn instance_with_new_owner_affects_both_owners() {
        let mut known = KnownObjects::default();
        known.apply(&instance(|_| {}), MirrorTimeouts::On);
        let new_owner = instance(|instance| {
            instance["metadata"]["ownerReferences"][0]["name"] = json!("b");
            instance["metadata"]["ownerReferences"][0]["uid"] = json!("v");
        });
        assert_eq!(
            known.apply(&new_owner, MirrorTimeouts::On),
            [addons_of_instance(&["a"]), addons_of_instance(&["b"])]
        );
        let name = ObjectName::of(&new_owner);
        assert_eq!(
            known.delete::<LenientObject<AddonInstance>>(name.clone()),
            Some(addons_of_instance(&["b"]))
        );
        assert_eq!(known.delete::<LenientObject<AddonInstance>>(name), None);
    }

    #[test]
    fn objects_of_different_kinds_may_have_the_same_name() {
        let body = json!({"metadata": {"name": "addon-operator"}});
        let operator: LenientObject<AddonOperator> = serde_json::from_value(body.clone()).unwrap();
        let namespace: PartialObjectMeta<Namespace> = serde_json::from_value(body).unwrap();
        let mut known = KnownObjects::default();
        assert_eq!(known.apply(&operator, MirrorTimeouts::On), [AffectedAddons::All]);
        let of_namespace = AffectedAddons::OfNamespace("addon-operator".into());
        assert_eq!(known.apply(&namespace, MirrorTimeouts::On), [of_namespace]);
    }

    #[test]
    fn affected_addons_are_found_by_namespace_and_owner() {
        let addon = |name: &str, target: &str, listed: &str| -> LenientObject<Addon> {
            let install = json!({"type": "External", "external": {"namespace": target}});
            let spec = json!({"install": install, "namespaces": [{"name": listed}]});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let rows = [
            (AffectedAddons::All, addon("x", "t", "l"), true),
            (AffectedAddons::OfNamespace("t".into()), addon("x", "t", "l"), true),
            (AffectedAddons::OfNamespace("l".into()), addon("x", "t", "l"), true),
            (AffectedAddons::OfNamespace("x".into()), addon("x", "t", "l"), false),
            (addons_of_instance(&["a"]), addon("a", "t", "l"), true),
            (addons_of_instance(&["a"]), addon("x", "ns", "l"), true),
            (addons_of_instance(&["a"]), addon("x", "t", "ns"), false),
        ];
        for (affected, addon, expected) in rows {
            assert_eq!(affected.include(&addon), expected, "{affected:?} {}", addon.name_any());
        }
    }

    #[test]
    fn instance_with_another_name_affects_only_its_owners() {
        let other = instance(|instance| instance["metadata"]["name"] = json!("other"));
        assert_eq!(
            other.affected_addons(),
            AffectedAddons::OfInstance { target: None, owners: vec!["a".into()] }
        );
    }
}
