//! Which changes around Addons concern which Addon. A heartbeat concerns none: of every object only a digest of what
//! matters is kept, and a change that leaves it as it was is not told.

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
use super::subject::{Instance, is_addon};
use crate::loose::Loose;
use crate::vocabulary::{self, INSTANCE};

/// Whom a change concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Concern {
    /// The Addons that own an instance, and those that would have it.
    Instance { target: Option<String>, owners: Vec<String> },
    /// The Addons that list a namespace, or are installed there.
    Namespace(String),
    /// All.
    Everybody,
}

impl Concern {
    fn is_of(&self, addon: &Loose<Addon>) -> bool {
        match self {
            Self::Everybody => true,
            Self::Namespace(name) => lists(addon, name) || is_installed_in(addon, name),
            Self::Instance { target, owners } => {
                addon.metadata.name.as_ref().is_some_and(|name| owners.contains(name))
                    || target.as_deref().is_some_and(|target| is_installed_in(addon, target))
            }
        }
    }
}

// Asked of every Addon at every change, and so without reading all of its spec. Too much is told rather than too little.

fn lists(addon: &Loose<Addon>, namespace: &str) -> bool {
    let listed = addon.spec.get("namespaces").and_then(Value::as_array);
    listed.into_iter().flatten().any(|listed| named(listed, "name", namespace))
}

fn is_installed_in(addon: &Loose<Addon>, namespace: &str) -> bool {
    let blocks = addon.spec.get("install").and_then(Value::as_object);
    blocks.into_iter().flat_map(|install| install.values()).any(|block| named(block, "namespace", namespace))
}

fn named(value: &Value, member: &str, name: &str) -> bool {
    value.get(member).and_then(Value::as_str) == Some(name)
}

/// An object whose changes may concern Addons.
pub(super) trait Watched: Resource<DynamicType = ()> {
    /// Whom it concerns.
    fn concern(&self) -> Concern;
    /// Feeds what matters of it.
    fn digest(&self, mirror: MirrorTimeouts, hasher: &mut DefaultHasher);
}

impl Watched for Loose<AddonInstance> {
    fn concern(&self) -> Concern {
        let owners = self.owner_references().iter().filter(|owner| is_addon(owner));
        Concern::Instance {
            target: self.namespace().filter(|_| self.name_any() == INSTANCE),
            owners: owners.map(|owner| owner.name.clone()).collect(),
        }
    }

    fn digest(&self, mirror: MirrorTimeouts, hasher: &mut DefaultHasher) {
        let instance = Instance::of(self);
        (&instance.period, instance.marked_for_deletion).hash(hasher);
        digest_owners(self.owner_references(), hasher);
        for type_ in [vocabulary::instance::INSTALLED, vocabulary::instance::READY_TO_BE_DELETED] {
            instance.says(&type_).hash(hasher);
        }
        if mirror == MirrorTimeouts::On {
            instance.timeout().map(|timeout| &timeout.message).hash(hasher);
        }
    }
}

impl Watched for PartialObjectMeta<Namespace> {
    fn concern(&self) -> Concern {
        Concern::Namespace(self.name_any())
    }

    fn digest(&self, _: MirrorTimeouts, hasher: &mut DefaultHasher) {
        (self.labels(), self.annotations()).hash(hasher);
        digest_owners(self.owner_references(), hasher);
    }
}

impl Watched for Loose<AddonOperator> {
    fn concern(&self) -> Concern {
        Concern::Everybody
    }

    fn digest(&self, _: MirrorTimeouts, hasher: &mut DefaultHasher) {
        pauses(self).hash(hasher);
    }
}

/// Whether the AddonOperator pauses all Addons.
pub(super) fn pauses(operator: &Loose<AddonOperator>) -> bool {
    operator.name_any() == vocabulary::addon::OPERATOR
        && operator.spec.get("pause") == Some(&Value::Bool(true))
}

fn digest_owners(owners: &[OwnerReference], hasher: &mut DefaultHasher) {
    for owner in owners {
        (&owner.uid, owner.controller).hash(hasher);
    }
}

/// What is remembered of the objects of a kind.
struct Memory {
    mirror: MirrorTimeouts,
    seen: HashMap<(Option<String>, String), Seen>,
    /// What a list that is under way has not shown yet.
    unconfirmed: HashSet<(Option<String>, String)>,
    listed: bool,
}

struct Seen {
    digest: u64,
    concern: Concern,
}

impl Memory {
    fn new(mirror: MirrorTimeouts) -> Self {
        Self { mirror, seen: HashMap::new(), unconfirmed: HashSet::new(), listed: false }
    }

    /// Whom an event concerns.
    fn note<W: Watched>(&mut self, event: &Event<W>) -> Vec<Concern> {
        match event {
            Event::Init => {
                self.unconfirmed = self.seen.keys().cloned().collect();
                Vec::new()
            }
            // What the first list shows is too much to be told one by one.
            Event::InitApply(object) => {
                let concerns = self.see(object);
                if self.listed { concerns } else { Vec::new() }
            }
            Event::InitDone if !self.listed => {
                self.listed = true;
                vec![Concern::Everybody]
            }
            Event::InitDone => {
                let gone = std::mem::take(&mut self.unconfirmed);
                gone.iter().filter_map(|key| self.seen.remove(key)).map(|seen| seen.concern).collect()
            }
            Event::Apply(object) => self.see(object),
            Event::Delete(object) => {
                let before = self.seen.remove(&key(object)).map(|seen| seen.concern);
                with(before, object.concern())
            }
        }
    }

    /// An object that changed may concern those it belonged to, and those it belongs to now.
    fn see<W: Watched>(&mut self, object: &W) -> Vec<Concern> {
        let key = key(object);
        self.unconfirmed.remove(&key);
        let mut hasher = DefaultHasher::new();
        (object.meta().uid.as_ref(), object.meta().deletion_timestamp.is_some()).hash(&mut hasher);
        object.digest(self.mirror, &mut hasher);
        let digest = hasher.finish();
        if self.seen.get(&key).is_some_and(|seen| seen.digest == digest) {
            return Vec::new();
        }
        let concern = object.concern();
        let before = self.seen.insert(key, Seen { digest, concern: concern.clone() });
        with(before.map(|seen| seen.concern), concern)
    }
}

fn with(before: Option<Concern>, now: Concern) -> Vec<Concern> {
    before.filter(|before| *before != now).into_iter().chain([now]).collect()
}

fn key(object: &impl Resource<DynamicType = ()>) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

/// The Addons that a watch concerns, as it goes on.
pub(super) fn concerned<W: Watched + Send + 'static>(
    events: impl Stream<Item = watcher::Result<Event<W>>> + Send + 'static,
    addons: Store<Loose<Addon>>,
    mirror: MirrorTimeouts,
) -> impl Stream<Item = ObjectRef<Loose<Addon>>> + Send + 'static {
    let mut memory = Memory::new(mirror);
    events.flat_map(move |event| {
        let concerns = match event {
            Ok(event) => memory.note(&event),
            // The watch begins again by itself, after a while.
            Err(error) => {
                tracing::debug!("a watch of {} was interrupted: {error}", W::plural(&()));
                Vec::new()
            }
        };
        stream::iter(those_in(&addons, &concerns))
    })
}

fn those_in(addons: &Store<Loose<Addon>>, concerns: &[Concern]) -> Vec<ObjectRef<Loose<Addon>>> {
    if concerns.is_empty() {
        return Vec::new();
    }
    let addons = addons.state().into_iter();
    addons
        .filter(|addon| concerns.iter().any(|concern| concern.is_of(addon)))
        .map(|addon| ObjectRef::from_obj(addon.as_ref()))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instance(change: impl FnOnce(&mut Value)) -> Loose<AddonInstance> {
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
                said("Healthy", "True", "ComponentsUp"), said("Installed", "True", "SetupComplete"),
            ]},
        });
        change(&mut body);
        serde_json::from_value(body).unwrap()
    }

    type Alter = fn(&mut Value);

    fn said(kind: &str, status: &str, reason: &str) -> Value {
        json!({
            "type": format!("addons.managed.openshift.io/{kind}"), "status": status, "reason": reason, "message": "m",
            "lastTransitionTime": "2024-05-01T10:00:00Z",
        })
    }

    fn of(owners: &[&str]) -> Concern {
        let owners = owners.iter().map(|name| (*name).to_owned()).collect();
        Concern::Instance { target: Some("ns".into()), owners }
    }

    /// A memory of a list of one.
    fn memory() -> Memory {
        memory_of(MirrorTimeouts::On)
    }

    fn memory_of(mirror: MirrorTimeouts) -> Memory {
        let mut memory = Memory::new(mirror);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::Init), []);
        assert_eq!(memory.note(&Event::InitApply(instance(|_| {}))), []);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::InitDone), [Concern::Everybody]);
        memory
    }

    #[test]
    fn only_what_matters_of_an_instance_is_told() {
        let rows: [(&str, Alter, bool); 13] = [
            ("nothing", |_| {}, false),
            ("a heartbeat", |i| i["status"]["lastHeartbeatTime"] = json!("2024-05-01T10:00:10Z"), false),
            ("a revision", |i| i["metadata"]["resourceVersion"] = json!("2"), false),
            (
                "its health",
                |i| i["status"]["conditions"][0] = said("Healthy", "False", "ComponentDown"),
                false,
            ),
            (
                "the reason of its installation",
                |i| i["status"]["conditions"][1]["reason"] = json!("X"),
                false,
            ),
            (
                "silence",
                |i| i["status"]["conditions"][0] = said("Healthy", "Unknown", "HeartbeatTimeout"),
                true,
            ),
            ("its installation", |i| i["status"]["conditions"][1]["status"] = json!("False"), true),
            ("its end", |i| i["status"]["conditions"][0] = said("ReadyToBeDeleted", "True", "X"), true),
            ("its period", |i| i["spec"]["heartbeatUpdatePeriod"] = json!("1h"), true),
            ("its mark", |i| i["spec"]["markedForDeletion"] = json!(true), true),
            ("its owner's role", |i| i["metadata"]["ownerReferences"][0]["controller"] = json!(false), true),
            ("its deletion", |i| i["metadata"]["deletionTimestamp"] = json!("2024-05-01T10:00:00Z"), true),
            ("all of it", |i| i["metadata"]["uid"] = json!("2"), true),
        ];
        for (name, change, told) in rows {
            let concerns = memory().note(&Event::Apply(instance(change)));
            assert_eq!(concerns, if told { vec![of(&["a"])] } else { Vec::new() }, "{name}");
        }
    }

    #[test]
    fn silence_that_nobody_mirrors_is_not_told() {
        let silent = instance(|instance| {
            instance["status"]["conditions"][0] = said("Healthy", "Unknown", "HeartbeatTimeout");
        });
        assert_eq!(memory_of(MirrorTimeouts::Off).note(&Event::Apply(silent)), []);
    }

    #[test]
    fn an_instance_that_goes_concerns_those_it_belonged_to() {
        let mut memory = memory();
        let moved = instance(|instance| instance["metadata"]["ownerReferences"][0]["name"] = json!("b"));
        let taken = instance(|instance| {
            instance["metadata"]["ownerReferences"][0]["name"] = json!("b");
            instance["metadata"]["ownerReferences"][0]["uid"] = json!("v");
        });
        assert_eq!(memory.note(&Event::Apply(taken)), [of(&["a"]), of(&["b"])]);
        assert_eq!(memory.note(&Event::Delete(moved)), [of(&["b"])]);
    }

    #[test]
    fn what_a_later_list_does_not_show_has_gone() {
        let mut memory = memory();
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::Init), []);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::InitDone), [of(&["a"])]);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::Init), []);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::InitDone), []);
    }

    #[test]
    fn what_a_later_list_shows_unchanged_is_not_told() {
        let mut memory = memory();
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::Init), []);
        assert_eq!(memory.note(&Event::InitApply(instance(|_| {}))), []);
        assert_eq!(memory.note(&Event::<Loose<AddonInstance>>::InitDone), []);
    }

    #[test]
    fn a_concern_finds_its_addons() {
        let addon = |name: &str, target: &str, listed: &str| -> Loose<Addon> {
            let install = json!({"type": "External", "external": {"namespace": target}});
            let spec = json!({"install": install, "namespaces": [{"name": listed}]});
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
        };
        let rows = [
            (Concern::Everybody, addon("x", "t", "l"), true),
            (Concern::Namespace("t".into()), addon("x", "t", "l"), true),
            (Concern::Namespace("l".into()), addon("x", "t", "l"), true),
            (Concern::Namespace("x".into()), addon("x", "t", "l"), false),
            (of(&["a"]), addon("a", "t", "l"), true),
            (of(&["a"]), addon("x", "ns", "l"), true),
            (of(&["a"]), addon("x", "t", "ns"), false),
        ];
        for (concern, addon, concerned) in rows {
            assert_eq!(concern.is_of(&addon), concerned, "{concern:?} {}", addon.name_any());
        }
    }

    #[test]
    fn instances_of_other_names_concern_their_owners_alone() {
        let other = instance(|instance| instance["metadata"]["name"] = json!("other"));
        assert_eq!(other.concern(), Concern::Instance { target: None, owners: vec!["a".into()] });
    }
}
