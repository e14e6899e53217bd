//! A work as the world keeps it: what it is and what the agent says of it, without its objects.

use std::sync::Arc;

use bellwether_api::addon::vocabulary::{NAME_LABEL, VERSION_LABEL};
use bellwether_api::work::vocabulary::{APPLIED, AVAILABLE};
use bellwether_api::work::{ManifestCondition, ManifestWork};
use bellwether_conditions::Status;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use crate::addon::decide::available::Workload;
use crate::addon::decide::works::{Found, Reading, addon_of};
use crate::render;

/// A work, in short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// The add-on that it is of, by its name.
    pub addon: Option<Arc<str>>,
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
        Self {
            addon: addon_of(&found.name).map(Arc::from),
            found,
            workloads: manifests.filter_map(workload).collect(),
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
fn workload(manifest: &ManifestCondition) -> Option<Workload> {
    let meta = &manifest.resource_meta;
    let value = |name: &str| {
        let values = manifest.status_feedback.values.iter();
        values.clone().find(|value| value.name == name)
    };
    let number = |name: &str| value(name).and_then(|value| value.field_value.integer);
    let ready = match (meta.group.as_str(), meta.kind.as_str()) {
        ("apps", "Deployment" | "StatefulSet") => {
            // Zero is left out of a status that has none ready.
            number("Replicas").map(|wanted| (number("ReadyReplicas").unwrap_or_default(), wanted))
        }
        ("apps", "DaemonSet") => {
            number("DesiredNumberScheduled").map(|wanted| (number("NumberReady").unwrap_or_default(), wanted))
        }
        ("batch", "Job") => {
            let complete = value("JobComplete").and_then(|value| value.field_value.string.as_deref());
            Some((i64::from(complete == Some("True")), 1))
        }
        _ => return None,
    };
    let place = if meta.namespace.is_empty() { String::new() } else { format!("{}/", meta.namespace) };
    Some(Workload { name: format!("{} {place}{}", meta.kind, meta.name), ready })
}
