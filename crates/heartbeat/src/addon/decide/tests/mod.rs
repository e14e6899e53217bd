//! Every row of the decision, from a world where all is well and one change to it.

mod availability;
mod deletion;
mod repair;

use std::time::Duration;

use bellwether_runtime::Next;
use serde_json::{Value, json};

use super::*;
use crate::loose::Loose;

const NOW: &str = "2024-05-01T10:00:00Z";

/// What makes a row of a table different.
type Alter = fn(&mut World);

/// What a decision is made from, as JSON.
struct World {
    addon: Value,
    all_paused: bool,
    namespaces: Vec<Value>,
    instance: Option<Value>,
    refused: Refusals,
    mirror: MirrorTimeouts,
    now: Timestamp,
}

/// An Addon that has all it needs, and whose status is still to be written.
fn settled() -> World {
    let owner = json!([owner("u", true)]);
    World {
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
        refused: Refusals::new(),
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

fn stated(kind: &str, status: &str, reason: &str) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": "m",
        "lastTransitionTime": NOW, "observedGeneration": 3,
    })
}

impl World {
    fn spec(&mut self) -> &mut Value {
        &mut self.addon["spec"]
    }

    fn instance(&mut self) -> &mut Value {
        self.instance.as_mut().unwrap()
    }

    fn annotate(&mut self, name: &str, value: &str) {
        self.addon["metadata"]["annotations"][name] = value.into();
    }

    /// Something that the Addon says already.
    fn said(&mut self, kind: &str, status: &str, reason: &str) {
        let said = stated(kind, status, reason);
        match self.addon["status"]["conditions"].as_array_mut() {
            Some(conditions) => conditions.push(said),
            None => self.addon["status"]["conditions"] = json!([said]),
        }
    }

    /// Something that the instance says.
    fn says(&mut self, kind: &str, status: &str, reason: &str) {
        let kind = format!("addons.managed.openshift.io/{kind}");
        self.instance()["status"] = json!({"conditions": [stated(&kind, status, reason)]});
    }

    fn pass(&mut self, seconds: u64) {
        self.now = self.now.checked_add(Duration::from_secs(seconds)).unwrap();
    }

    fn subject(&self) -> Subject {
        Subject::of(&serde_json::from_value::<Loose<_>>(self.addon.clone()).unwrap())
    }

    fn decide(&self, subject: &Subject) -> Plan {
        let metadata = |value: &Value| serde_json::from_value::<ObjectMeta>(value.clone()).unwrap();
        let instance = self.instance.as_ref();
        decide(&Observed {
            subject,
            all_paused: self.all_paused,
            namespaces: self
                .namespaces
                .iter()
                .map(metadata)
                .map(|found| (found.name.clone().unwrap(), found))
                .collect(),
            instance: instance
                .map(|found| Instance::of(&serde_json::from_value::<Loose<_>>(found.clone()).unwrap())),
            refused: &self.refused,
            mirror: self.mirror,
            now: self.now,
        })
    }

    /// The plan; and once its status is written, there is nothing more to write.
    fn plan(&self) -> Plan {
        let mut subject = self.subject();
        let plan = self.decide(&subject);
        subject.status = plan.status.clone();
        assert_eq!(self.decide(&subject).status, plan.status, "what is written is written once");
        plan
    }
}

impl Plan {
    /// What a condition says, as `True/Reason`, or nothing.
    fn says(&self, kind: &str) -> String {
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

    /// The steps in words.
    fn steps(&self) -> Vec<String> {
        let words = |step: &Step| {
            let piece = match &step.piece {
                Piece::Addon => "addon".to_owned(),
                Piece::Namespace(name) => format!("namespace {name}"),
                Piece::Instance { namespace } => format!("instance in {namespace}"),
            };
            match step.change {
                Change::Create(_) => format!("create {piece}"),
                Change::Patch(_) => format!("patch {piece}"),
            }
        };
        self.steps.iter().map(words).collect()
    }

    /// The body of the only step.
    fn body(&self) -> &Value {
        match self.steps.as_slice() {
            [Step { change: Change::Create(body) | Change::Patch(body), .. }] => body,
            steps => panic!("there is not one step: {steps:?}"),
        }
    }
}
