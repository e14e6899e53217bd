//! What the hub is told of an add-on's heartbeats, from what its AddonInstances say. Pure.

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addon::vocabulary::{HEARTBEAT, NAME_LABEL, PROGRESSING, SUCCEED};
use bellwether_api::addons_managed::Addon;
use bellwether_clock::whole_seconds;
use bellwether_conditions::{Condition, ConditionSet, ConditionType, Desired, Reason, Status, shorten};
use bellwether_heartbeat::vocabulary::instance::HEALTHY;
use bellwether_heartbeat::vocabulary::reasons::{HEARTBEAT_TIMEOUT, RECEIVING_HEARTBEATS};
use jiff::Timestamp;
use kube::Resource as _;
use kube::api::DynamicObject;
use serde_json::{Value, json};

const TYPE: ConditionType = ConditionType::constant(HEARTBEAT);
/// Where an add-on gives no reason that could be passed on.
const UNHEALTHY: Reason = Reason::constant("Unhealthy");
/// The most that is passed on of a message, in bytes.
const LONGEST: usize = 1024;

/// The add-on that an instance is of: the Addon that owns it, else what its label says.
pub(crate) fn addon_of(instance: &DynamicObject) -> Option<&str> {
    let owners = instance.metadata.owner_references.iter().flatten();
    let mut owners = owners.filter(|owner| {
        let group = owner.api_version.split_once('/').map(|(group, _)| group);
        group == Some(&*Addon::group(&())) && owner.kind == Addon::kind(&())
    });
    let label = || instance.metadata.labels.as_ref()?.get(NAME_LABEL).map(String::as_str);
    owners.next().map(|owner| owner.name.as_str()).or_else(label).filter(|name| !name.is_empty())
}

/// What an instance says, in the words of the hub; nothing, where it has never beaten.
pub(crate) fn heartbeat_of(instance: &DynamicObject) -> Option<Condition> {
    let conditions = conditions(&instance.data);
    let healthy = conditions.get(&HEALTHY)?;
    let reason = match healthy.status {
        Status::True => RECEIVING_HEARTBEATS,
        Status::False => healthy.reason.as_str().parse().unwrap_or(UNHEALTHY),
        Status::Unknown => healthy.reason.as_str().parse().unwrap_or(HEARTBEAT_TIMEOUT),
    };
    let desired = Desired::new(TYPE, healthy.status, reason, shorten(&healthy.message, LONGEST));
    // As the hub keeps it, so that it compares.
    Some(desired.since(whole_seconds(healthy.last_transition_time)))
}

/// When an instance last beat, as it says itself.
pub(crate) fn beat_of(instance: &DynamicObject) -> Option<&str> {
    instance.data.pointer("/status/lastHeartbeatTime").and_then(Value::as_str)
}

/// What is said of an add-on that has several instances: the worst of them, and of two that are as bad the one that has
/// been so for longer.
pub(crate) fn worst<'c>(all: impl Iterator<Item = &'c Condition>) -> Option<&'c Condition> {
    let badness = |status: Status| match status {
        Status::True => 0,
        Status::Unknown => 1,
        Status::False => 2,
    };
    all.max_by(|one, other| {
        let ages = || other.last_transition_time.cmp(&one.last_transition_time);
        badness(one.status).cmp(&badness(other.status)).then_with(ages)
    })
}

/// What the hub says by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) heartbeat: Option<Condition>,
    /// Whether we have said something there, which we could take back.
    pub(crate) by_us: bool,
    /// The version that has come to the cluster; nothing while one is on its way.
    pub(crate) applied: Option<Applied>,
    /// Its resourceVersion.
    pub(crate) revision: String,
}

/// An add-on whose objects have all come, as the hub knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    /// The generation of its ManagedClusterAddOn.
    generation: i64,
    /// Since when, by which two are told apart; nothing is measured by it.
    since: Timestamp,
}

/// Whether all instances have beaten since the hub said that all was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beats {
    Since,
    /// Or it is not known.
    Before,
}

impl Told {
    pub(crate) fn of(addon: &DynamicObject, manager: &str) -> Self {
        const CHANGE: ConditionType = ConditionType::constant(PROGRESSING);
        let managers = addon.metadata.managed_fields.iter().flatten();
        let mut managers = managers.filter_map(|entry| entry.manager.as_deref());
        let conditions = conditions(&addon.data);
        let done = conditions.get(&CHANGE).filter(|change| change.reason.as_str() == SUCCEED);
        Self {
            heartbeat: conditions.get(&TYPE).cloned(),
            by_us: managers.any(|name| name == manager),
            applied: done
                .zip(addon.metadata.generation)
                .map(|(change, generation)| Applied { generation, since: change.last_transition_time }),
            revision: addon.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// Whether the hub waits for a heartbeat of what was applied last.
    pub(crate) fn waits_for_a_beat(&self) -> bool {
        let vouched = self.heartbeat.as_ref().and_then(|held| held.observed_generation);
        self.applied.as_ref().is_some_and(|applied| vouched != Some(applied.generation))
    }

    /// What is to be applied, so that the hub says what is wanted; nothing, where it does.
    ///
    /// The generation is what vouches for a reading: it is said once for all that is applied, by the first heartbeats
    /// after that, and the hub takes it back when it begins to bring something else.
    pub(crate) fn correction(
        &self,
        addon: &str,
        namespace: &str,
        wanted: Option<&Condition>,
        beats: Beats,
    ) -> Option<Value> {
        let held = self.heartbeat.as_ref().and_then(|held| held.observed_generation);
        let generation = match (&self.applied, beats) {
            (Some(applied), Beats::Since) => Some(applied.generation),
            _ => held,
        };
        let mut wanted = wanted.cloned();
        wanted.iter_mut().for_each(|wanted| wanted.observed_generation = generation);
        let differs = match (&self.heartbeat, &wanted) {
            (held, Some(wanted)) => held.as_ref() != Some(wanted),
            // What somebody else said is not ours to take back.
            (Some(_), None) => self.by_us,
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
    let held = object.pointer("/status/conditions").cloned().unwrap_or_default();
    serde_json::from_value(held).unwrap_or_default()
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
    fn an_instance_is_of_the_addon_that_owns_it_else_of_its_label() {
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
    fn the_hub_is_told_in_its_own_words() {
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
            let told = heartbeat_of(&instance(json!({}), healthy));
            let wanted = wanted.map(|(status, reason)| (status, reason, SINCE.to_owned()));
            assert_eq!(told.as_ref().map(brief), wanted, "{healthy:?}");
        }
    }

    #[test]
    fn the_worst_instance_speaks_for_all() {
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
    fn only_what_is_new_is_told_and_only_our_own_is_taken_back() {
        let wanted = heartbeat_of(&instance(json!({}), Some(("True", "X", SINCE)))).unwrap();
        let other = heartbeat_of(&instance(json!({}), Some(("False", "X", SINCE)))).unwrap();
        let told = |heartbeat: Option<&Condition>, by_us: bool| Told {
            heartbeat: heartbeat.cloned(),
            by_us,
            ..Told::default()
        };
        let rows = [
            ("it is new", told(None, false), Some(&wanted), true),
            ("it was told", told(Some(&wanted), true), Some(&wanted), false),
            ("it is otherwise now", told(Some(&other), true), Some(&wanted), true),
            ("somebody else said it", told(Some(&other), false), Some(&wanted), true),
            ("it is gone", told(Some(&wanted), true), None, true),
            ("what is gone was not ours", told(Some(&wanted), false), None, false),
            ("there was never anything", told(None, false), None, false),
        ];
        for (sentence, told, wanted, differs) in rows {
            assert_eq!(told.correction("a", "c", wanted, Beats::Since).is_some(), differs, "{sentence}");
        }
        let body = told(None, false).correction("a", "c", Some(&wanted), Beats::Since).unwrap();
        assert_eq!(body["status"]["conditions"][0]["type"], "Heartbeat");
        assert_eq!(body["metadata"], json!({"name": "a", "namespace": "c"}));
        let gone = told(Some(&wanted), true).correction("a", "c", None, Beats::Since).unwrap();
        assert_eq!(gone.get("status"), None);
    }

    #[test]
    fn a_reading_is_vouched_for_once_by_heartbeats_since_the_apply() {
        let reading = heartbeat_of(&instance(json!({}), Some(("True", "X", SINCE)))).unwrap();
        let of = |reason: &str, observed: Option<i64>| {
            let mut held = reading.clone();
            held.observed_generation = observed;
            let change = json!({"type": "Progressing", "status": "False", "reason": reason, "message": "",
                "lastTransitionTime": SINCE});
            let object = json!({"metadata": {"generation": 2, "resourceVersion": "7"},
                "status": {"conditions": [change, held]}});
            Told::of(&serde_json::from_value(object).unwrap(), "m")
        };
        // Reason of Progressing, what the hub has, whether it was heard since, and what is written.
        let rows = [
            ("Succeed", None, Beats::Before, None),
            ("Succeed", None, Beats::Since, Some(2)),
            ("Succeed", Some(1), Beats::Before, None),
            ("Succeed", Some(1), Beats::Since, Some(2)),
            ("Succeed", Some(2), Beats::Before, None),
            ("Succeed", Some(2), Beats::Since, None),
            ("Upgrading", None, Beats::Since, None),
            ("Failed", None, Beats::Since, None),
        ];
        for (reason, held, beats, wanted) in rows {
            let told = of(reason, held);
            let written = told.correction("a", "c", Some(&reading), beats);
            let generation =
                written.map(|body| body["status"]["conditions"][0]["observedGeneration"].clone());
            assert_eq!(
                generation,
                wanted.map(|generation: i64| json!(generation)),
                "{reason} {held:?} {beats:?}"
            );
            assert_eq!(told.waits_for_a_beat(), reason == "Succeed" && held != Some(2), "{reason} {held:?}");
        }
    }
}
