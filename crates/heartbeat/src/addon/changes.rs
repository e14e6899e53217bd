//! Maps changes of AddonInstances, Namespaces and AddonOperators to the Addons that must be reconciled. A heartbeat affects
//! no Addon: a hash of the relevant fields of every object is kept, and an event that does not change it is dropped.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use bellwether_api::addons_managed::{Addon, AddonInstance, AddonOperator};
use futures::stream::{self, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Event};
use kube::{Resource, ResourceExt as _};
use serde_json::Value;

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
pub(super) trait WatchedObject: Resource<DynamicType = ()> {
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

/// Drops the watch events of one kind that do not change a relevant field.
struct ChangeFilter {
    mirror: MirrorTimeouts,
    known: HashMap<(Option<String>, String), KnownObject>,
    /// The known objects that the current list has not contained so far.
    unlisted: HashSet<(Option<String>, String)>,
    /// Whether the first list is complete.
    synced: bool,
}

struct KnownObject {
    hash: u64,
    affected: AffectedAddons,
}

impl ChangeFilter {
    fn new(mirror: MirrorTimeouts) -> Self {
        Self { mirror, known: HashMap::new(), unlisted: HashSet::new(), synced: false }
    }

    /// Returns the Addons that an event affects.
    fn on_event<W: WatchedObject>(&mut self, event: &Event<W>) -> Vec<AffectedAddons> {
        match event {
            Event::Init => {
                self.unlisted = self.known.keys().cloned().collect();
                Vec::new()
            }
            // The objects of the first list are not reported one by one: at its end, all Addons are reconciled once.
            Event::InitApply(object) => {
                let affected = self.on_apply(object);
                if self.synced { affected } else { Vec::new() }
            }
            Event::InitDone if !self.synced => {
                self.synced = true;
                vec![AffectedAddons::All]
            }
            Event::InitDone => {
                let deleted = std::mem::take(&mut self.unlisted);
                deleted.iter().filter_map(|key| self.known.remove(key)).map(|known| known.affected).collect()
            }
            Event::Apply(object) => self.on_apply(object),
            Event::Delete(object) => {
                let before = self.known.remove(&key(object)).map(|known| known.affected);
                before_and_after(before, object.affected_addons())
            }
        }
    }

    /// A changed object affects its previous owners and its current ones.
    fn on_apply<W: WatchedObject>(&mut self, object: &W) -> Vec<AffectedAddons> {
        let key = key(object);
        self.unlisted.remove(&key);
        let mut hasher = DefaultHasher::new();
        (object.meta().uid.as_ref(), object.meta().deletion_timestamp.is_some()).hash(&mut hasher);
        object.hash_relevant_fields(self.mirror, &mut hasher);
        let hash = hasher.finish();
        if self.known.get(&key).is_some_and(|known| known.hash == hash) {
            return Vec::new();
        }
        let affected = object.affected_addons();
        let before = self.known.insert(key, KnownObject { hash, affected: affected.clone() });
        before_and_after(before.map(|known| known.affected), affected)
    }
}

fn before_and_after(before: Option<AffectedAddons>, after: AffectedAddons) -> Vec<AffectedAddons> {
    before.filter(|before| *before != after).into_iter().chain([after]).collect()
}

fn key(object: &impl Resource<DynamicType = ()>) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

/// Turns the events of a watch into the Addons that must be reconciled.
pub(super) fn affected_addons<W: WatchedObject + Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<W>>> + Send + 'static,
    addons: Store<LenientObject<Addon>>,
    mirror: MirrorTimeouts,
) -> impl Stream<Item = ObjectRef<LenientObject<Addon>>> + Send + 'static {
    let mut filter = ChangeFilter::new(mirror);
    events.flat_map(move |event| {
        let affected = match event {
            Ok(event) => filter.on_event(&event),
            // The watcher restarts by itself, with backoff.
            Err(error) => {
                tracing::debug!("the watch of {} failed and is restarted: {error}", W::plural(&()));
                Vec::new()
            }
        };
        stream::iter(select_addons(&addons, &affected))
    })
}

fn select_addons(
    addons: &Store<LenientObject<Addon>>,
    affected: &[AffectedAddons],
) -> Vec<ObjectRef<LenientObject<Addon>>> {
    if affected.is_empty() {
        return Vec::new();
    }
    let addons = addons.state().into_iter();
    addons
        .filter(|addon| affected.iter().any(|affected| affected.include(addon)))
        .map(|addon| ObjectRef::from_obj(addon.as_ref()))
        .collect()
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

    /// A filter that is synced with one instance.
    fn filter() -> ChangeFilter {
        filter_with(MirrorTimeouts::On)
    }

    fn filter_with(mirror: MirrorTimeouts) -> ChangeFilter {
        let mut filter = ChangeFilter::new(mirror);
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::Init), []);
        assert_eq!(filter.on_event(&Event::InitApply(instance(|_| {}))), []);
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::InitDone), [AffectedAddons::All]);
        filter
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
            let affected = filter().on_event(&Event::Apply(instance(change)));
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
        assert_eq!(filter_with(MirrorTimeouts::Off).on_event(&Event::Apply(silent)), []);
    }

    #[test]
    fn instance_with_new_owner_affects_both_owners() {
        let mut filter = filter();
        let renamed = instance(|instance| instance["metadata"]["ownerReferences"][0]["name"] = json!("b"));
        let new_owner = instance(|instance| {
            instance["metadata"]["ownerReferences"][0]["name"] = json!("b");
            instance["metadata"]["ownerReferences"][0]["uid"] = json!("v");
        });
        assert_eq!(
            filter.on_event(&Event::Apply(new_owner)),
            [addons_of_instance(&["a"]), addons_of_instance(&["b"])]
        );
        assert_eq!(filter.on_event(&Event::Delete(renamed)), [addons_of_instance(&["b"])]);
    }

    #[test]
    fn object_missing_from_a_later_list_is_deleted() {
        let mut filter = filter();
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::Init), []);
        assert_eq!(
            filter.on_event(&Event::<LenientObject<AddonInstance>>::InitDone),
            [addons_of_instance(&["a"])]
        );
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::Init), []);
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::InitDone), []);
    }

    #[test]
    fn object_unchanged_in_a_later_list_affects_no_addon() {
        let mut filter = filter();
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::Init), []);
        assert_eq!(filter.on_event(&Event::InitApply(instance(|_| {}))), []);
        assert_eq!(filter.on_event(&Event::<LenientObject<AddonInstance>>::InitDone), []);
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
