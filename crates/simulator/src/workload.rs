//! The common interface of the simulated kinds, which the controller uses.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::behaviour::Stage;
use crate::decide::{Inputs, daemon_set, deployment, job, stateful_set};

/// The kinds that are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
}

/// A kind that is simulated.
pub(crate) trait Workload:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + Unpin
    + 'static
{
    const KIND: Kind;

    fn template(&self) -> Option<&PodTemplateSpec>;

    /// Whether the workload is paused or suspended.
    fn is_held(&self) -> bool {
        false
    }

    /// The object with the status of a stage. It is `None` if the status does not change.
    fn at_stage(&self, stage: Stage, inputs: &Inputs) -> Option<Self>;
}

impl Workload for Deployment {
    const KIND: Kind = Kind::Deployment;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn is_held(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
    }

    fn at_stage(&self, stage: Stage, inputs: &Inputs) -> Option<Self> {
        let status = changed(self.status.as_ref(), deployment::status(self, stage, inputs))?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Workload for StatefulSet {
    const KIND: Kind = Kind::StatefulSet;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn at_stage(&self, stage: Stage, _: &Inputs) -> Option<Self> {
        let status = changed(self.status.as_ref(), stateful_set::status(self, stage))?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Workload for DaemonSet {
    const KIND: Kind = Kind::DaemonSet;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn at_stage(&self, stage: Stage, inputs: &Inputs) -> Option<Self> {
        let status = changed(self.status.as_ref(), daemon_set::status(self, stage, inputs))?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Workload for Job {
    const KIND: Kind = Kind::Job;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn is_held(&self) -> bool {
        job::is_suspended(self)
    }

    fn at_stage(&self, stage: Stage, inputs: &Inputs) -> Option<Self> {
        let status = changed(self.status.as_ref(), job::status(self, stage, inputs)?)?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

/// The new status, if it differs from the old one. A zero equals an absent field: servers differ in which of them they store.
fn changed<S: Serialize>(old: Option<&S>, new: S) -> Option<S> {
    let normalized =
        |status: Option<&S>| status.and_then(|status| serde_json::to_value(status).ok()).map(without_empty);
    let same =
        normalized(old).unwrap_or_else(|| Value::Object(serde_json::Map::new())) == normalized(Some(&new))?;
    (!same).then_some(new)
}

/// Removes fields that are null, zero or empty.
fn without_empty(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, without_empty(value)))
            .filter(|(_, value)| !is_empty(value))
            .collect(),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
