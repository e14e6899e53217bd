//! Computes the desired condition `Heartbeat` of an add-on on the hub, from its AddonInstances. Pure.

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::{HEARTBEAT, NAME_LABEL, PROGRESSING, SUCCEED};
use bellwether_api::addons_managed::Addon;
use bellwether_clock::whole_seconds;
use bellwether_conditions::{
    Condition, ConditionSet, ConditionType, Desired, Reason, Status, kubernetes, shorten,
};
use bellwether_heartbeat::vocabulary::instance::HEALTHY;
use bellwether_heartbeat::vocabulary::reasons::{HEARTBEAT_TIMEOUT, RECEIVING_HEARTBEATS};
use jiff::Timestamp;
use kube::Resource as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const TYPE: ConditionType = ConditionType::constant(HEARTBEAT);
/// The reason if the one of the add-on is invalid.
const UNHEALTHY: Reason = Reason::constant("Unhealthy");
/// The maximum size of a mirrored message, in bytes.
const MAX_MESSAGE_BYTES: usize = 1024;

/// The add-on of an instance: the Addon that owns it, otherwise the add-on that its label names.
pub(crate) fn addon_of(instance: &DynamicObject) -> Option<&str> {
    let owners = instance.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        group == Some(&*Addon::group(&())) && owner.kind == Addon::kind(&())
    });
    let label = || instance.metadata.labels.as_ref()?.get(NAME_LABEL).map(String::as_str);
    owners.next().map(|owner| owner.name.as_str()).or_else(label).filter(|name| !name.is_empty())
}

/// The condition `Heartbeat` for an instance; nothing before its first heartbeat.
pub(crate) fn heartbeat_of(instance: &DynamicObject) -> Option<Condition> {
    let conditions = conditions(&instance.data);
    let healthy = conditions.get(&HEALTHY)?;
    let reason = match healthy.status {
        Status::True => RECEIVING_HEARTBEATS,
        Status::False => healthy.reason.as_str().parse().unwrap_or(UNHEALTHY),
        Status::Unknown => healthy.reason.as_str().parse().unwrap_or(HEARTBEAT_TIMEOUT),
    };
    let desired = Desired::new(TYPE, healthy.status, reason, shorten(&healthy.message, MAX_MESSAGE_BYTES));
    // The hub stores whole seconds; otherwise the two would always differ.
    Some(desired.since(whole_seconds(healthy.last_transition_time)))
}

/// The time of the last heartbeat, as the instance has it.
pub(crate) fn last_heartbeat_of(instance: &DynamicObject) -> Option<&str> {
    instance.data.pointer("/status/lastHeartbeatTime").and_then(Value::as_str)
}

/// The report for an add-on with several instances: the worst one, and of two that are equally bad the older one.
pub(crate) fn worst<'c>(all: impl Iterator<Item = &'c Condition>) -> Option<&'c Condition> {
    let severity = |status: Status| match status {
        Status::True => 0,
        Status::Unknown => 1,
        Status::False => 2,
    };
    all.max_by(|one, other| {
        let ages = || other.last_transition_time.cmp(&one.last_transition_time);
        severity(one.status).cmp(&severity(other.status)).then_with(ages)
    })
}

/// The state of an add-on's ManagedClusterAddOn on the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HubState {
    pub(crate) heartbeat: Option<Condition>,
    /// Whether this controller owns fields of the object, which it can remove.
    pub(crate) is_field_manager: bool,
    /// The version that is completely applied; nothing while one is being applied.
    pub(crate) applied: Option<AppliedVersion>,
    pub(crate) resource_version: String,
}

/// A version of an add-on that is completely applied, according to the hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedVersion {
    /// The generation of its ManagedClusterAddOn.
    generation: i64,
    /// Since when. It distinguishes two versions; no time is measured by it.
    since: Timestamp,
}

/// Whether all instances sent a heartbeat since the hub reported the add-on as applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeartbeatSince {
    Apply,
    /// At least one sent its last heartbeat before, or it is not known when.
    Unknown,
}

impl HubState {
    pub(crate) fn of(addon: &DynamicObject, manager: &str) -> Self {
        const CHANGE: ConditionType = ConditionType::constant(PROGRESSING);
        let managers = addon.metadata.managed_fields.iter().flatten();
        let mut managers = managers.filter_map(|entry| entry.manager.as_deref());
        let conditions = conditions(&addon.data);
        let done = conditions.get(&CHANGE).filter(|change| change.reason.as_str() == SUCCEED);
        Self {
            heartbeat: conditions.get(&TYPE).cloned(),
            is_field_manager: managers.any(|name| name == manager),
            applied: done.zip(addon.metadata.generation).map(|(change, generation)| AppliedVersion {
                generation,
                since: change.last_transition_time,
            }),
            resource_version: addon.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// Whether the applied version was not confirmed by a heartbeat yet.
    pub(crate) fn awaits_heartbeat(&self) -> bool {
        let confirmed = self.heartbeat.as_ref().and_then(|held| held.observed_generation);
        self.applied.as_ref().is_some_and(|applied| confirmed != Some(applied.generation))
    }

    /// The object to apply so that the hub has the wanted condition; nothing if it has it.
    ///
    /// `observedGeneration` confirms that heartbeats arrived since the apply. It is set once, by the first heartbeats
    /// after the apply, and the hub removes it when it begins to apply another version.
    pub(crate) fn correction(
        &self,
        addon: &str,
        namespace: &str,
        wanted: Option<&Condition>,
        since: HeartbeatSince,
    ) -> Option<Value> {
        let held = self.heartbeat.as_ref().and_then(|held| held.observed_generation);
        let generation = match (&self.applied, since) {
            (Some(applied), HeartbeatSince::Apply) => Some(applied.generation),
            _ => held,
        };
        let mut wanted = wanted.cloned();
        wanted.iter_mut().for_each(|wanted| wanted.observed_generation = generation);
        let differs = match (&self.heartbeat, &wanted) {
            (held, Some(wanted)) => held.as_ref() != Some(wanted),
            // A condition of another writer is not removed.
            (Some(_), None) => self.is_field_manager,
            (None, None) => false,
        };
        differs.then(|| {
            let mut body = json!({
                "apiVersion": ManagedClusterAddOn::api_version(&()),
                "kind": ManagedClusterAddOn::kind(&()),
                "metadata": {"name": addon, "namespace": namespace},
            });
            if let (Some(wanted), Some(body)) = (&wanted, body.as_object_mut()) {
                body.insert("status".into(), json!({"conditions": [wanted]}));
            }
            body
        })
    }
}

fn conditions(object: &Value) -> ConditionSet {
    kubernetes::parse_list(object.pointer("/status/conditions"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(metadata: Value, healthy: Option<(&str, &str, &str)>) -> DynamicObject {
        let conditions: Vec<Value> = healthy
            .map(|(status, reason, since)| {
                json!({"type": HEALTHY, "status": status, "reason": reason, "message": "m", "lastTransitionTime": since})
            })
            .into_iter()
            .collect();
        serde_json::from_value(json!({"metadata": metadata, "status": {"conditions": conditions}})).unwrap()
    }

    const SINCE: &str = "2024-05-01T10:00:00Z";

    fn brief(condition: &Condition) -> (Status, &str, String) {
        (condition.status, condition.reason.as_str(), condition.last_transition_time.to_string())
    }

    #[test]
    fn instance_belongs_to_its_owner_or_else_to_the_addon_of_its_label() {
        let owner = |group: &str, kind: &str| json!([{"apiVersion": format!("{group}/v1"), "kind": kind, "name": "owner", "uid": "u"}]);
        let label = json!({NAME_LABEL: "label"});
        let rows = [
            (json!({}), None),
            (json!({"labels": label}), Some("label")),
            (json!({"labels": {NAME_LABEL: ""}}), None),
            (json!({"ownerReferences": owner("addons.managed.openshift.io", "Addon")}), Some("owner")),
            (
                json!({"labels": label, "ownerReferences": owner("addons.managed.openshift.io", "Addon")}),
                Some("owner"),
            ),
            (json!({"labels": label, "ownerReferences": owner("apps", "Addon")}), Some("label")),
            (json!({"ownerReferences": owner("addons.managed.openshift.io", "Other")}), None),
        ];
        for (metadata, wanted) in rows {
            assert_eq!(addon_of(&instance(metadata.clone(), None)), wanted, "{metadata}");
        }
    }

    #[test]
    fn healthy_becomes_a_heartbeat_condition() {
        let rows = [
            (None, None),
            (Some(("True", "ComponentsUp", SINCE)), Some((Status::True, "ReceivingHeartbeats"))),
            (Some(("True", "ReceivingHeartbeats", SINCE)), Some((Status::True, "ReceivingHeartbeats"))),
            (Some(("Unknown", "HeartbeatTimeout", SINCE)), Some((Status::Unknown, "HeartbeatTimeout"))),
            (
                Some(("Unknown", "PendingFirstHeartbeat", SINCE)),
                Some((Status::Unknown, "PendingFirstHeartbeat")),
            ),
            (Some(("False", "ComponentDown", SINCE)), Some((Status::False, "ComponentDown"))),
            (Some(("False", "no reason", SINCE)), Some((Status::False, "Unhealthy"))),
            (Some(("", "", SINCE)), Some((Status::Unknown, "HeartbeatTimeout"))),
        ];
        for (healthy, wanted) in rows {
            let mirrored = heartbeat_of(&instance(json!({}), healthy));
            let wanted = wanted.map(|(status, reason)| (status, reason, SINCE.to_owned()));
            assert_eq!(mirrored.as_ref().map(brief), wanted, "{healthy:?}");
        }
    }

    #[test]
    fn worst_instance_decides() {
        let of = |status: &str, reason: &str, since: &str| {
            heartbeat_of(&instance(json!({}), Some((status, reason, since)))).unwrap()
        };
        let (up, silent, down) =
            (of("True", "X", SINCE), of("Unknown", "HeartbeatTimeout", SINCE), of("False", "Down", SINCE));
        let earlier = of("False", "DownBefore", "2024-05-01T09:00:00Z");
        assert_eq!(worst([].iter()), None);
        assert_eq!(worst([up.clone()].iter()), Some(&up));
        assert_eq!(worst([up.clone(), silent.clone(), up.clone()].iter()), Some(&silent));
        assert_eq!(worst([down.clone(), silent].iter()), Some(&down));
        assert_eq!(worst([down.clone(), earlier.clone(), up].iter()), Some(&earlier));
    }

    #[test]
    fn only_differences_are_written_and_only_own_conditions_removed() {
        let wanted = heartbeat_of(&instance(json!({}), Some(("True", "X", SINCE)))).unwrap();
        let other = heartbeat_of(&instance(json!({}), Some(("False", "X", SINCE)))).unwrap();
        let state = |heartbeat: Option<&Condition>, is_field_manager: bool| HubState {
            heartbeat: heartbeat.cloned(),
            is_field_manager,
            ..HubState::default()
        };
        let rows = [
            ("no condition yet", state(None, false), Some(&wanted), true),
            ("the same condition", state(Some(&wanted), true), Some(&wanted), false),
            ("another condition of ours", state(Some(&other), true), Some(&wanted), true),
            ("a condition of another writer", state(Some(&other), false), Some(&wanted), true),
            ("no report any more", state(Some(&wanted), true), None, true),
            ("no report, and a condition of another writer", state(Some(&wanted), false), None, false),
            ("no report and no condition", state(None, false), None, false),
        ];
        for (case, state, wanted, differs) in rows {
            assert_eq!(
                state.correction("a", "c", wanted, HeartbeatSince::Apply).is_some(),
                differs,
                "{case}"
            );
        }
        let body = state(None, false).correction("a", "c", Some(&wanted), HeartbeatSince::Apply).unwrap();
        assert_eq!(body["status"]["conditions"][0]["type"], "Heartbeat");
        assert_eq!(body["metadata"], json!({"name": "a", "namespace": "c"}));
        let removal = state(Some(&wanted), true).correction("a", "c", None, HeartbeatSince::Apply).unwrap();
        assert_eq!(removal.get("status"), None);
    }

    #[test]
    fn generation_is_confirmed_once_by_heartbeats_since_the_apply() {
        let reading = heartbeat_of(&instance(json!({}), Some(("True", "X", SINCE)))).unwrap();
        let of = |reason: &str, observed: Option<i64>| {
            let mut held = reading.clone();
            held.observed_generation = observed;
            let change = json!({"type": "Progressing", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": SINCE});
            let object = json!({"metadata": {"generation": 2, "resourceVersion": "7"},
                "status": {"conditions": [change, held]}});
            HubState::of(&serde_json::from_value(object).unwrap(), "m")
        };
        // Reason of Progressing, observedGeneration on the hub, heartbeats since, and what is written.
        let rows = [
            ("Succeed", None, HeartbeatSince::Unknown, None),
            ("Succeed", None, HeartbeatSince::Apply, Some(2)),
            ("Succeed", Some(1), HeartbeatSince::Unknown, None),
            ("Succeed", Some(1), HeartbeatSince::Apply, Some(2)),
            ("Succeed", Some(2), HeartbeatSince::Unknown, None),
            ("Succeed", Some(2), HeartbeatSince::Apply, None),
            ("Upgrading", None, HeartbeatSince::Apply, None),
            ("Failed", None, HeartbeatSince::Apply, None),
        ];
        for (reason, held, since, wanted) in rows {
            let state = of(reason, held);
            let written = state.correction("a", "c", Some(&reading), since);
            let generation =
                written.map(|body| body["status"]["conditions"][0]["observedGeneration"].clone());
            assert_eq!(
                generation,
                wanted.map(|generation: i64| json!(generation)),
                "{reason} {held:?} {since:?}"
            );
            assert_eq!(state.awaits_heartbeat(), reason == "Succeed" && held != Some(2), "{reason} {held:?}");
        }
    }
}
