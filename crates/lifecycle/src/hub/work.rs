//! The part of a ManifestWork that the hub cache keeps: its identity and what the agent reports, without its manifests.
//! Whether that is what a version needs is decided in `works`.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{NAME_LABEL, VERSION_LABEL};
use bellwether_api::work::vocabulary::{APPLIED, AVAILABLE, FEEDBACK_SYNCED, NO_FEEDBACK};
use bellwether_api::work::{ManifestCondition, ManifestWork, ManifestWorkSpec};
use bellwether_conditions::Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::render;
use crate::works::{ObservedWork, Replicas, ReportedCondition, Workload, addon_of_work_name};

/// A cached ManifestWork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The add-on that it was created for, parsed from its name.
    pub addon: Option<Arc<str>>,
    /// The add-on that its label names, if it was not created for that add-on.
    pub foreign_label: Option<Arc<str>>,
    /// The part that is compared with the desired ManifestWork.
    pub observed: ObservedWork,
    /// The workloads in it.
    pub workloads: Vec<Workload>,
    /// Its resourceVersion.
    pub version: u64,
    /// Its UID.
    pub uid: String,
}

impl Work {
    /// Keeps the needed part of a ManifestWork.
    pub fn of(work: &ManifestWork) -> Self {
        let name = work.name_any();
        let label = |label: &str| work.labels().get(label).cloned().unwrap_or_default();
        let conditions = work.status.iter().flat_map(|status| &status.conditions);
        let reported = |type_: &str| {
            conditions.clone().find(|condition| condition.type_ == type_).map(reported_condition)
        };
        let manifests = work.status.iter().flat_map(|status| &status.resource_status.manifests);
        let observed = ObservedWork {
            addon: label(NAME_LABEL),
            version: label(VERSION_LABEL),
            digest: render::digest(&work.spec),
            generation: work.metadata.generation.unwrap_or_default(),
            deleting: work.metadata.deletion_timestamp.is_some(),
            applied: reported(APPLIED),
            available: reported(AVAILABLE),
            name,
        };
        let addon = addon_of_work_name(&observed.name);
        let foreign_label =
            Some(observed.addon.as_str()).filter(|label| !label.is_empty() && Some(*label) != addon);
        Self {
            foreign_label: foreign_label.map(Arc::from),
            addon: addon.map(Arc::from),
            observed,
            workloads: manifests.filter_map(|manifest| read_workload(manifest, &work.spec)).collect(),
            version: work.resource_version().and_then(|text| text.parse().ok()).unwrap_or_default(),
            uid: work.uid().unwrap_or_default(),
        }
    }
}

fn reported_condition(condition: &Condition) -> ReportedCondition {
    ReportedCondition {
        status: Status::as_read(&condition.status),
        generation: condition.observed_generation.unwrap_or_default(),
        message: condition.message.clone(),
    }
}

/// Reads the state of a workload from its status feedback; `None` if the object is not a workload.
fn read_workload(manifest: &ManifestCondition, spec: &ManifestWorkSpec) -> Option<Workload> {
    let meta = &manifest.resource_meta;
    let value = |name: &str| {
        let values = manifest.status_feedback.values.iter();
        values.clone().find(|value| value.name == name)
    };
    let number = |name: &str| value(name).and_then(|value| value.field_value.integer);
    let is_synced =
        |condition: &Condition| condition.type_ == FEEDBACK_SYNCED && condition.reason != NO_FEEDBACK;
    let has_feedback =
        !manifest.status_feedback.values.is_empty() || manifest.conditions.iter().any(is_synced);
    // Agents may omit values that are zero, and older agents do not report updated replicas.
    let replicas = |desired: i64, ready: &str, updated: &str, total: i64| Replicas {
        desired,
        ready: number(ready).unwrap_or_default(),
        updated_and_old: number(updated).map(|updated| (updated, total - updated)),
    };
    let replicas = match (meta.group.as_str(), meta.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") => {
            let manifest =
                usize::try_from(meta.ordinal).ok().and_then(|ordinal| spec.workload.manifests.get(ordinal));
            let desired =
                manifest.and_then(|manifest| manifest.pointer("/spec/replicas")).and_then(Value::as_i64);
            match (desired, number("Replicas")) {
                (Some(desired), Some(total)) => {
                    Some(replicas(desired, "ReadyReplicas", "UpdatedReplicas", total))
                }
                (None, Some(total)) => Some(replicas(total, "ReadyReplicas", "UpdatedReplicas", total)),
                (Some(0), None) => Some(Replicas { desired: 0, ready: 0, updated_and_old: None }),
                (_, None) => None,
            }
        }
        ("apps", "DaemonSet") => number("DesiredNumberScheduled")
            .map(|desired| replicas(desired, "NumberReady", "UpdatedNumberScheduled", desired)),
        // A Job that has just started has no condition Complete yet; it counts as not ready.
        ("batch", "Job") => has_feedback.then(|| {
            let complete = value("JobComplete").and_then(|value| value.field_value.string.as_deref());
            Replicas { desired: 1, ready: i64::from(complete == Some("True")), updated_and_old: None }
        }),
        _ => return None,
    };
    let namespace = if meta.namespace.is_empty() { String::new() } else { format!("{}/", meta.namespace) };
    Some(Workload { name: format!("{} {namespace}{}", meta.kind, meta.name), replicas, has_feedback })
}

#[cfg(test)]
mod tests {
    use bellwether_api::work::vocabulary::{FEEDBACK_FOUND, FEEDBACK_NOT_FOUND};
    use serde_json::json;

    use super::*;

    #[test]
    fn replicas_combine_spec_and_feedback() {
        let replicas = |desired, ready, updated_and_old| Some(Replicas { desired, ready, updated_and_old });
        let rows = [
            ("no feedback", "Deployment", Some(2), json!({}), None),
            ("zero replicas desired", "Deployment", Some(0), json!({}), replicas(0, 0, None)),
            (
                "no replica updated yet",
                "Deployment",
                Some(2),
                json!({"Replicas": 2, "ReadyReplicas": 2, "UpdatedReplicas": 0}),
                replicas(2, 2, Some((0, 2))),
            ),
            (
                "old replicas beside updated ones",
                "Deployment",
                Some(2),
                json!({"Replicas": 4, "ReadyReplicas": 2, "UpdatedReplicas": 2}),
                replicas(2, 2, Some((2, 2))),
            ),
            (
                "agent without UpdatedReplicas",
                "Deployment",
                Some(2),
                json!({"Replicas": 2, "ReadyReplicas": 2}),
                replicas(2, 2, None),
            ),
            (
                "spec.replicas is not set",
                "StatefulSet",
                None,
                json!({"Replicas": 5, "ReadyReplicas": 4}),
                replicas(5, 4, None),
            ),
            (
                "DaemonSet",
                "DaemonSet",
                None,
                json!({"DesiredNumberScheduled": 3, "NumberReady": 3, "UpdatedNumberScheduled": 1}),
                replicas(3, 3, Some((1, 2))),
            ),
        ];
        for (case, kind, replicas, reported, wanted) in rows {
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
            assert_eq!(read_workload(&manifest, &spec).unwrap().replicas, wanted, "{case}");
        }
    }

    #[test]
    fn workload_has_feedback_if_agent_reports_values_or_feedback_condition() {
        let synced = |reason: &str| json!([{"type": FEEDBACK_SYNCED, "status": "True", "reason": reason, "message": ""}]);
        let complete = json!([{"name": "JobComplete", "fieldValue": {"type": "String", "string": "True"}}]);
        let ready = |ready| Some(Replicas { desired: 1, ready, updated_and_old: None });
        let rows = [
            ("no conditions and no values", json!([]), json!([]), (false, None)),
            ("no feedback rules", synced(NO_FEEDBACK), json!([]), (false, None)),
            ("feedback synced, no value yet", synced(FEEDBACK_NOT_FOUND), json!([]), (true, ready(0))),
            ("feedback synced, Job complete", synced(FEEDBACK_FOUND), complete.clone(), (true, ready(1))),
            ("values without a condition", json!([]), complete, (true, ready(1))),
        ];
        for (case, mut conditions, values, wanted) in rows {
            for condition in conditions.as_array_mut().unwrap() {
                condition["lastTransitionTime"] = json!("2024-05-01T10:00:00Z");
            }
            let manifest = serde_json::from_value(json!({
                "resourceMeta": {"ordinal": 0, "group": "batch", "kind": "Job", "name": "w"},
                "statusFeedback": {"values": values},
                "conditions": conditions,
            }))
            .unwrap();
            let found = read_workload(&manifest, &ManifestWorkSpec::default()).unwrap();
            assert_eq!((found.has_feedback, found.replicas), wanted, "{case}");
        }
    }
}
