//! A ManifestWork as the hub cache keeps it: what it is and what the agent reports, without its objects.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{NAME_LABEL, VERSION_LABEL};
use bellwether_api::work::vocabulary::{APPLIED, AVAILABLE, FEEDBACK_SYNCED, NO_FEEDBACK};
use bellwether_api::work::{ManifestCondition, ManifestWork, ManifestWorkSpec};
use bellwether_conditions::Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::render;
use crate::works::{Copies, Found, Reading, Workload, addon_of};

/// A work, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The add-on that it is of, by its name.
    pub addon: Option<Arc<str>>,
    /// The add-on that its label names, where it is not one of its works.
    pub claims: Option<Arc<str>>,
    /// What the decision sees of it.
    pub found: Found,
    /// The workloads in it.
    pub workloads: Vec<Workload>,
    /// Its resourceVersion.
    pub version: u64,
    /// Its identity.
    pub uid: String,
}

impl Work {
    /// Of a work that was read.
    pub fn of(work: &ManifestWork) -> Self {
        let name = work.name_any();
        let label = |label: &str| work.labels().get(label).cloned().unwrap_or_default();
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        let reading = |type_: &str| conditions.clone().find(|said| said.type_ == type_).map(reading);
        let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
        let found = Found {
            addon: label(NAME_LABEL),
            version: label(VERSION_LABEL),
            digest: render::digest(&work.spec),
            generation: work.metadata.generation.unwrap_or_default(),
            deleting: work.metadata.deletion_timestamp.is_some(),
            applied: reading(APPLIED),
            available: reading(AVAILABLE),
            name,
        };
        let addon = addon_of(&found.name);
        let claims = Some(found.addon.as_str()).filter(|label| !label.is_empty() && Some(*label) != addon);
        Self {
            claims: claims.map(Arc::from),
            addon: addon.map(Arc::from),
            found,
            workloads: manifests.filter_map(|manifest| workload(manifest, &work.spec)).collect(),
            version: work.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default(),
            uid: work.uid().unwrap_or_default(),
        }
    }
}

fn reading(condition: &Condition) -> Reading {
    Reading {
        status: Status::as_read(&condition.status),
        generation: condition.observed_generation.unwrap_or_default(),
        message: condition.message.clone(),
    }
}

/// A workload, if the object is one.
fn workload(manifest: &ManifestCondition, spec: &ManifestWorkSpec) -> Option<Workload> {
    let meta = &manifest.resource_meta;
    let value = |name: &str| {
        let values = manifest.status_feedback.values.iter();
        values.clone().find(|value| value.name == name)
    };
    let number = |name: &str| value(name).and_then(|value| value.field_value.integer);
    let looked = |said: &Condition| said.type_ == FEEDBACK_SYNCED && said.reason != NO_FEEDBACK;
    let watched = !manifest.status_feedback.values.is_empty() || manifest.conditions.iter().any(looked);
    // Agents may leave out what is zero, and what others do not report.
    let copies = |wanted: i64, ready: &str, new: &str, all: i64| Copies {
        wanted,
        ready: number(ready).unwrap_or_default(),
        renewed: number(new).map(|new| (new, all - new)),
    };
    let copies = match (meta.group.as_str(), meta.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") => {
            let asked =
                usize::try_from(meta.ordinal).ok().and_then(|place| spec.workload.manifests.get(place));
            let asked = asked.and_then(|asked| asked.pointer("/spec/replicas")).and_then(Value::as_i64);
            match (asked, number("Replicas")) {
                (Some(wanted), Some(all)) => Some(copies(wanted, "ReadyReplicas", "UpdatedReplicas", all)),
                (None, Some(all)) => Some(copies(all, "ReadyReplicas", "UpdatedReplicas", all)),
                (Some(0), None) => Some(Copies { wanted: 0, ready: 0, renewed: None }),
                (_, None) => None,
            }
        }
        ("apps", "DaemonSet") => number("DesiredNumberScheduled")
            .map(|wanted| copies(wanted, "NumberReady", "UpdatedNumberScheduled", wanted)),
        // One that has just begun says nothing of its end.
        ("batch", "Job") => watched.then(|| {
            let complete = value("JobComplete").and_then(|value| value.field_value.string.as_deref());
            Copies { wanted: 1, ready: i64::from(complete == Some("True")), renewed: None }
        }),
        _ => return None,
    };
    let place = if meta.namespace.is_empty() { String::new() } else { format!("{}/", meta.namespace) };
    Some(Workload { name: format!("{} {place}{}", meta.kind, meta.name), copies, watched })
}

#[cfg(test)]
mod tests {
    use bellwether_api::work::vocabulary::{FEEDBACK_FOUND, FEEDBACK_NOT_FOUND};
    use serde_json::json;

    use super::*;

    #[test]
    fn copies_are_what_was_asked_for_beside_what_is_reported() {
        let copies = |wanted, ready, renewed| Some(Copies { wanted, ready, renewed });
        let rows = [
            ("nobody has looked", "Deployment", Some(2), json!({}), None),
            ("none is wanted", "Deployment", Some(0), json!({}), copies(0, 0, None)),
            (
                "none new yet",
                "Deployment",
                Some(2),
                json!({"Replicas": 2, "ReadyReplicas": 2, "UpdatedReplicas": 0}),
                copies(2, 2, Some((0, 2))),
            ),
            (
                "old ones beside new ones",
                "Deployment",
                Some(2),
                json!({"Replicas": 4, "ReadyReplicas": 2, "UpdatedReplicas": 2}),
                copies(2, 2, Some((2, 2))),
            ),
            (
                "an agent that does not tell them apart",
                "Deployment",
                Some(2),
                json!({"Replicas": 2, "ReadyReplicas": 2}),
                copies(2, 2, None),
            ),
            (
                "others say how many",
                "StatefulSet",
                None,
                json!({"Replicas": 5, "ReadyReplicas": 4}),
                copies(5, 4, None),
            ),
            (
                "on every node",
                "DaemonSet",
                None,
                json!({"DesiredNumberScheduled": 3, "NumberReady": 3, "UpdatedNumberScheduled": 1}),
                copies(3, 3, Some((1, 2))),
            ),
        ];
        for (sentence, kind, replicas, reported, wanted) in rows {
            let spec = serde_json::from_value(json!({"workload": {"manifests": [
                {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "w"}, "spec": {"replicas": replicas}},
            ]}}))
            .unwrap();
            let values: Vec<Value> = reported
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| json!({"name": name, "fieldValue": {"type": "Integer", "integer": value}}))
                .collect();
            let manifest = serde_json::from_value(json!({
                "resourceMeta": {"ordinal": 0, "group": "apps", "kind": kind, "name": "w"},
                "statusFeedback": {"values": values},
            }))
            .unwrap();
            assert_eq!(workload(&manifest, &spec).unwrap().copies, wanted, "{sentence}");
        }
    }

    #[test]
    fn a_workload_is_watched_when_the_agent_says_that_it_looked_or_what_it_found() {
        let synced = |reason: &str| json!([{"type": FEEDBACK_SYNCED, "status": "True", "reason": reason, "message": ""}]);
        let complete = json!([{"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}}]);
        let ready = |ready| Some(Copies { wanted: 1, ready, renewed: None });
        let rows = [
            ("an agent that reports nothing", json!([]), json!([]), (false, None)),
            ("nothing is to be reported", synced(NO_FEEDBACK), json!([]), (false, None)),
            ("it looked, and there was nothing yet", synced(FEEDBACK_NOT_FOUND), json!([]), (true, ready(0))),
            ("it looked, and it is done", synced(FEEDBACK_FOUND), complete.clone(), (true, ready(1))),
            ("it says only what it found", json!([]), complete, (true, ready(1))),
        ];
        for (sentence, mut conditions, values, wanted) in rows {
            for condition in conditions.as_array_mut().unwrap() {
                condition["lastTransitionTime"] = json!("2024-05-01T10:00:00Z");
            }
            let manifest = serde_json::from_value(json!({
                "resourceMeta": {"ordinal": 0, "group": "batch", "kind": "Job", "name": "w"},
                "statusFeedback": {"values": values},
                "conditions": conditions,
            }))
            .unwrap();
            let found = workload(&manifest, &ManifestWorkSpec::default()).unwrap();
            assert_eq!((found.watched, found.copies), wanted, "{sentence}");
        }
    }
}
