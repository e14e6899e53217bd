//! Tables of decisions. Each row changes one thing in the fixture of an Addon that is ready.

mod availability;
mod deletion;
mod repair;

use std::time::Duration;

use bellwether_runtime::Next;
use serde_json::{Value, json};

use super::*;
use crate::lenient::LenientObject;

const NOW: &str = "2024-05-01T10:00:00Z";

/// The change that a row makes to the fixture.
type Edit = fn(&mut Fixture);

/// The inputs of a decision, as JSON.
struct Fixture {
    addon: Value,
    all_paused: bool,
    namespaces: Vec<Value>,
    instance: Option<Value>,
    rejections: Rejections,
    mirror: MirrorTimeouts,
    now: Timestamp,
}

/// An Addon whose objects all exist, and whose status is not written yet.
fn ready_addon() -> Fixture {
    let owner = json!([owner("u", true)]);
    Fixture {
        addon: json!({
            "metadata": {
                "name": "a", "uid": "u", "generation": 3, "resourceVersion": "7",
                "finalizers": ["addons.managed.openshift.io/cache"], "annotations": {},
            },
            "spec": {
                "displayName": "A", "namespaces": [{"name": "ns"}],
                "install": {"type": "External", "external": {"namespace": "ns"}},
            },
            "status": {"phase": "Pending"},
        }),
        all_paused: false,
        namespaces: vec![json!({"name": "ns", "resourceVersion": "5", "ownerReferences": owner})],
        instance: Some(json!({
            "metadata": {"name": "addon-instance", "namespace": "ns", "resourceVersion": "6", "ownerReferences": owner},
            "spec": {"heartbeatUpdatePeriod": "10s"},
        })),
        rejections: Rejections::new(),
        mirror: MirrorTimeouts::Off,
        now: NOW.parse().unwrap(),
    }
}

fn owner(uid: &str, controller: bool) -> Value {
    json!({
        "apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": format!("addon-{uid}"),
        "uid": uid, "controller": controller, "blockOwnerDeletion": true,
    })
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": NOW, "observedGeneration": 3,
    })
}

impl Fixture {
    fn spec(&mut self) -> &mut Value {
        &mut self.addon["spec"]
    }

    fn instance(&mut self) -> &mut Value {
        self.instance.as_mut().unwrap()
    }

    fn annotate(&mut self, name: &str, value: &str) {
        self.addon["metadata"]["annotations"][name] = value.into();
    }

    /// Adds a condition to the status of the Addon.
    fn set_addon_condition(&mut self, kind: &str, status: &str, reason: &str) {
        let condition = condition(kind, status, reason);
        match self.addon["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(condition),
            None => self.addon["status"]["conditions"] = json!([condition]),
        }
    }

    /// Sets the only condition of the instance.
    fn set_instance_condition(&mut self, kind: &str, status: &str, reason: &str) {
        let kind = format!("addons.managed.openshift.io/{kind}");
        self.instance()["status"] = json!({"conditions": [condition(&kind, status, reason)]});
    }

    fn advance_clock(&mut self, seconds: u64) {
        self.now = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
    }

    fn addon(&self) -> AddonObject {
        AddonObject::read(&serde_json::from_value::<LenientObject<_>>(self.addon.clone()).unwrap())
    }

    fn decide(&self, addon: &AddonObject) -> Plan {
        let metadata = |value: &Value| serde_json::from_value::<ObjectMeta>(value.clone()).unwrap();
        let instance = self.instance.as_ref();
        decide(&Observed {
            addon,
            all_paused: self.all_paused,
            namespaces: self
                .namespaces
                .iter()
                .map(metadata)
                .map(|found| (found.name.clone().unwrap(), found))
                .collect(),
            instance: instance.map(|found| {
                InstanceObject::read(&serde_json::from_value::<LenientObject<_>>(found.clone()).unwrap())
            }),
            rejections: &self.rejections,
            mirror: self.mirror,
            now: self.now,
        })
    }

    /// The plan. It also checks that deciding again, after the status is written, does not change the status.
    fn plan(&self) -> Plan {
        let mut addon = self.addon();
        let plan = self.decide(&addon);
        addon.status = plan.status.clone();
        assert_eq!(self.decide(&addon).status, plan.status, "a second decision changes the status");
        plan
    }
}

impl Plan {
    /// A condition of the status as `True/Reason`, or an empty string.
    fn condition(&self, kind: &str) -> String {
        let condition = self.status.conditions.iter().find(|condition| condition.type_.as_str() == kind);
        condition.map(|held| format!("{}/{}", held.status, held.reason)).unwrap_or_default()
    }

    fn message(&self, kind: &str) -> String {
        let condition = self.status.conditions.iter().find(|condition| condition.type_.as_str() == kind);
        condition.map(|held| held.message.clone()).unwrap_or_default()
    }

    fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    /// The steps as text, such as `create namespace ns`.
    fn steps(&self) -> Vec<String> {
        let describe = |step: &Step| {
            let object = match &step.object {
                ManagedObject::Addon => "addon".to_owned(),
                ManagedObject::Namespace(name) => format!("namespace {name}"),
                ManagedObject::Instance { namespace } => format!("instance in {namespace}"),
            };
            match step.change {
                Change::Create(_) => format!("create {object}"),
                Change::Patch(_) => format!("patch {object}"),
            }
        };
        self.steps.iter().map(describe).collect()
    }

    /// The body of the only step.
    fn body(&self) -> &Value {
        match self.steps.as_slice() {
            [Step { change: Change::Create(body) | Change::Patch(body), .. }] => body,
            steps => panic!("expected exactly one step: {steps:?}"),
        }
    }
}
