//! What the kinds have in common, so that the controller is written once.

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
use crate::decide::{World, daemon_set, deployment, job, stateful_set};

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

    /// Whether somebody asked for it to wait.
    fn is_held(&self) -> bool {
        false
    }

    /// The object as it should be; nothing if that is how it is.
    fn at_stage(&self, stage: Stage, world: &World) -> Option<Self>;
}

impl Workload for Deployment {
    const KIND: Kind = Kind::Deployment;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn is_held(&self) -> bool {
        self.spec.as_ref().is_some_and(|spec| spec.paused == Some(true))
    }

    fn at_stage(&self, stage: Stage, world: &World) -> Option<Self> {
        let status = changed(self.status.as_ref(), deployment::status(self, stage, world))?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Workload for StatefulSet {
    const KIND: Kind = Kind::StatefulSet;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn at_stage(&self, stage: Stage, _: &World) -> Option<Self> {
        let status = changed(self.status.as_ref(), stateful_set::status(self, stage))?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

impl Workload for DaemonSet {
    const KIND: Kind = Kind::DaemonSet;

    fn template(&self) -> Option<&PodTemplateSpec> {
        self.spec.as_ref().map(|spec| &spec.template)
    }

    fn at_stage(&self, stage: Stage, world: &World) -> Option<Self> {
        let status = changed(self.status.as_ref(), daemon_set::status(self, stage, world))?;
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

    fn at_stage(&self, stage: Stage, world: &World) -> Option<Self> {
        let status = changed(self.status.as_ref(), job::status(self, stage, world)?)?;
        Some(Self { status: Some(status), ..self.clone() })
    }
}

/// The new status, if it says anything that the old one does not. A zero and an absent field say the same: servers
/// differ in which of them they keep.
fn changed<S: Serialize>(old: Option<&S>, new: S) -> Option<S> {
    let said = |status: Option<&S>| status.and_then(|status| serde_json::to_value(status).ok()).map(spoken);
    let same = said(old).unwrap_or_else(|| Value::Object(serde_json::Map::new())) == said(Some(&new))?;
    (!same).then_some(new)
}

fn spoken(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .map(|(name, value)| (name, spoken(value)))
            .filter(|(_, value)| !is_silent(value))
            .collect(),
        other => other,
    }
}

fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}
