//! The index of the heartbeat mirror: the reports of AddonInstances and the state of their add-ons on the hub. It
//! decides which add-ons have to be written.

use std::collections::HashMap;
use std::sync::Arc;

use bellwether_conditions::Condition;
use bellwether_runtime::{DirtyKeys, ObjectName, Origin};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use super::NAME;
use super::decide::{
    AppliedVersion, HeartbeatSince, HubState, addon_of, heartbeat_of, last_heartbeat_of, worst,
};
use crate::ClusterName;

/// The name of an add-on, which is that of its ManagedClusterAddOn.
pub(super) type AddonName = Arc<str>;

/// Counts events, so that two of different watches can be ordered.
type EventNumber = u64;

/// A write that corrects the condition `Heartbeat` on the hub.
pub(super) struct Correction {
    /// The object to apply.
    pub(super) body: Value,
    /// The resourceVersion of the ManagedClusterAddOn that it was decided by.
    pub(super) resource_version: String,
}

pub(super) struct Index {
    cluster: ClusterName,
    /// The add-on of each instance, and what the instance reports.
    instances: HashMap<ObjectName, (AddonName, Condition)>,
    /// The time of the last heartbeat of each instance, as the instance reports it, and the event that reported it.
    heartbeats: HashMap<ObjectName, (Option<String>, EventNumber)>,
    /// The state of each add-on on the hub.
    hub: HashMap<AddonName, HubState>,
    /// The version of each add-on that is completely applied, and the event that reported it.
    applied: HashMap<AddonName, (AppliedVersion, EventNumber)>,
    events: EventNumber,
    pub(super) dirty: DirtyKeys<AddonName>,
}

impl Index {
    pub(super) fn new(cluster: ClusterName) -> Self {
        Self {
            cluster,
            instances: HashMap::new(),
            heartbeats: HashMap::new(),
            hub: HashMap::new(),
            applied: HashMap::new(),
            events: 0,
            dirty: DirtyKeys::default(),
        }
    }

    /// Every add-on that the hub has on this cluster.
    pub(super) fn addons(&self) -> Vec<AddonName> {
        self.hub.keys().cloned().collect()
    }

    pub(super) fn apply_instance(&mut self, instance: &DynamicObject, origin: Origin) {
        let name = ObjectName::of(instance);
        // A heartbeat in a list may be from any time before.
        let event = (origin == Origin::Watch).then(|| self.next_event());
        let reported = addon_of(instance).map(AddonName::from).zip(heartbeat_of(instance));
        self.record_heartbeat(&name, last_heartbeat_of(instance), event);
        if let Some((addon, _)) = &reported
            && self.hub.get(addon).is_some_and(HubState::awaits_heartbeat)
        {
            self.dirty.enqueue(addon.clone());
        }
        self.set_report(name, reported);
    }

    pub(super) fn delete_instance(&mut self, name: ObjectName) {
        self.heartbeats.remove(&name);
        self.set_report(name, None);
    }

    pub(super) fn apply_addon(&mut self, addon: &DynamicObject) {
        let name = AddonName::from(addon.name_any());
        let state = HubState::of(addon, NAME);
        match &state.applied {
            Some(applied) if self.applied.get(&name).is_none_or(|(known, _)| known != applied) => {
                let event = self.next_event();
                self.applied.insert(name.clone(), (applied.clone(), event));
            }
            Some(_) => {}
            None => drop(self.applied.remove(&name)),
        }
        self.hub.insert(name.clone(), state);
        if self.correction(&name).is_some() {
            self.dirty.enqueue(name);
        }
    }

    pub(super) fn delete_addon(&mut self, addon: &str) {
        self.hub.remove(addon);
        self.applied.remove(addon);
        self.dirty.forget(addon.into());
    }

    /// The write that an add-on needs; nothing if it is not on the hub, or its condition is as it should be.
    pub(super) fn correction(&self, addon: &AddonName) -> Option<Correction> {
        let state = self.hub.get(addon)?;
        let instances = || self.instances.iter().filter(|(_, (of, _))| of == addon);
        let applied = self.applied.get(addon).map(|(_, event)| *event);
        let is_since = |name: &ObjectName| self.heartbeats.get(name).map(|(_, event)| *event) > applied;
        let all_since = applied.is_some() && instances().all(|(name, _)| is_since(name));
        let since = if all_since { HeartbeatSince::Apply } else { HeartbeatSince::Unknown };
        let reported = worst(instances().map(|(_, (_, heartbeat))| heartbeat));
        let body = state.correction(addon, self.cluster.as_str(), reported, since)?;
        Some(Correction { body, resource_version: state.resource_version.clone() })
    }

    fn next_event(&mut self) -> EventNumber {
        self.events += 1;
        self.events
    }

    fn record_heartbeat(&mut self, name: &ObjectName, heartbeat: Option<&str>, event: Option<EventNumber>) {
        match self.heartbeats.get_mut(name) {
            Some((known, _)) if known.as_deref() == heartbeat => {}
            Some((known, at)) => {
                *known = heartbeat.map(str::to_owned);
                *at = event.unwrap_or(*at);
            }
            None => {
                let first = (heartbeat.map(str::to_owned), event.unwrap_or_default());
                self.heartbeats.insert(name.clone(), first);
            }
        }
    }

    fn set_report(&mut self, name: ObjectName, reported: Option<(AddonName, Condition)>) {
        if self.instances.get(&name) == reported.as_ref() {
            return;
        }
        let before = match reported.clone() {
            Some(reported) => self.instances.insert(name, reported),
            None => self.instances.remove(&name),
        };
        for (addon, _) in before.into_iter().chain(reported) {
            self.dirty.enqueue(addon);
        }
    }
}
