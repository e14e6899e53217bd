//! Reads and writes the AppliedManifestWork of a ManifestWork: the record, on the cluster, of the objects that were
//! applied for it, and their owner. What the record contains is computed in `decide::applied_resources`.

use std::collections::BTreeMap;

use bellwether_api::work::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource, vocabulary,
};
use kube::Resource as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::decide::manifest::ObjectId;
use super::decide::owners::Owner;
use super::error::WorkError;
use super::hub::Work;
use super::spoke::{Address, Propagation, SpokeClient, string_at};
use crate::Agent;

/// An AppliedManifestWork as it was last read or written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AppliedWork {
    /// The AppliedManifestWork as owner of the applied objects.
    pub(crate) owner: Owner,
    pub(crate) resource_version: String,
    /// Whether it has a deletion timestamp, although its ManifestWork may still exist.
    pub(crate) is_being_deleted: bool,
    pub(crate) resources: Vec<AppliedResource>,
    labels: BTreeMap<String, String>,
    finalizers: Vec<String>,
    spec: AppliedManifestWorkSpec,
}

impl AppliedWork {
    fn from_object(object: &Value) -> Self {
        let status: AppliedManifestWorkStatus = parse_or_default(object, "/status");
        Self {
            owner: Owner {
                name: string_at(object, "/metadata/name").into(),
                uid: string_at(object, "/metadata/uid").into(),
            },
            resource_version: string_at(object, "/metadata/resourceVersion").into(),
            is_being_deleted: !string_at(object, "/metadata/deletionTimestamp").is_empty(),
            resources: status.applied_resources,
            labels: parse_or_default(object, "/metadata/labels"),
            finalizers: parse_or_default(object, "/metadata/finalizers"),
            spec: parse_or_default(object, "/spec"),
        }
    }

    /// Whether its labels, its spec and its finalizer are what the ManifestWork requires.
    pub(crate) fn is_current_for(&self, work: &Work, agent: &Agent) -> bool {
        self.labels == work.labels && self.spec == desired_spec(work, agent) && self.has_finalizer()
    }

    fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == vocabulary::APPLIED_FINALIZER)
    }

    /// The merge patch that makes it current for the ManifestWork.
    fn correction_patch(&self, work: &Work, agent: &Agent) -> Value {
        // A merge patch removes a label only if the label is null.
        let removed = self.labels.keys().filter(|label| !work.labels.contains_key(*label));
        let mut labels: Map<String, Value> = removed.map(|label| (label.clone(), Value::Null)).collect();
        labels.extend(work.labels.iter().map(|(label, value)| (label.clone(), value.as_str().into())));
        let mut finalizers = self.finalizers.clone();
        if !self.has_finalizer() {
            finalizers.push(vocabulary::APPLIED_FINALIZER.to_owned());
        }
        json!({
            "metadata": {"labels": labels, "finalizers": finalizers, "resourceVersion": self.resource_version},
            "spec": desired_spec(work, agent),
        })
    }
}

/// Parses a part of an object. A part that is invalid counts as empty, and the next write replaces it.
fn parse_or_default<T: DeserializeOwned + Default>(object: &Value, pointer: &str) -> T {
    object.pointer(pointer).and_then(|part| T::deserialize(part).ok()).unwrap_or_default()
}

/// The address of the AppliedManifestWork of a ManifestWork.
pub(crate) fn address_of(work: &str, agent: &Agent) -> Address {
    let id = ObjectId {
        group: AppliedManifestWork::group(&()).into_owned(),
        resource: AppliedManifestWork::plural(&()).into_owned(),
        namespace: String::new(),
        name: format!("{}-{work}", agent.hub_hash.as_str()),
    };
    Address::new(&id, &AppliedManifestWork::version(&()))
}

fn desired_spec(work: &Work, agent: &Agent) -> AppliedManifestWorkSpec {
    AppliedManifestWorkSpec {
        hub_hash: agent.hub_hash.as_str().to_owned(),
        agent_id: agent.agent_id.to_string(),
        manifest_work_name: work.name.clone(),
    }
}

/// The AppliedManifestWorks of a cluster.
pub(crate) struct AppliedWorks<'a> {
    pub(crate) spoke: &'a SpokeClient,
    pub(crate) agent: &'a Agent,
}

impl AppliedWorks<'_> {
    pub(crate) async fn get(&self, work: &str) -> Result<Option<AppliedWork>, WorkError> {
        let found = self.spoke.get_opt(&address_of(work, self.agent)).await;
        Ok(found.map_err(|error| request_error("reading", error))?.as_ref().map(AppliedWork::from_object))
    }

    /// Creates the AppliedManifestWork of a ManifestWork, or corrects it if necessary. One that is being deleted is
    /// returned unchanged.
    pub(crate) async fn ensure(&self, work: &Work) -> Result<AppliedWork, WorkError> {
        let address = address_of(&work.name, self.agent);
        let Some(found) = self.get(&work.name).await? else {
            let object = json!({
                "apiVersion": AppliedManifestWork::api_version(&()),
                "kind": AppliedManifestWork::kind(&()),
                "metadata": {
                    "name": address.id.name,
                    "labels": work.labels,
                    "finalizers": [vocabulary::APPLIED_FINALIZER],
                },
                "spec": desired_spec(work, self.agent),
            });
            let created = self.spoke.create(&address, &object).await;
            return created
                .map(|created| AppliedWork::from_object(&created))
                .map_err(|error| request_error("creating", error));
        };
        if found.is_being_deleted || found.is_current_for(work, self.agent) {
            return Ok(found);
        }
        let patched = self.spoke.merge_patch(&address, &found.correction_patch(work, self.agent)).await;
        patched
            .map(|patched| AppliedWork::from_object(&patched))
            .map_err(|error| request_error("correcting", error))
    }

    /// Writes the list of applied resources.
    pub(crate) async fn write_resources(
        &self,
        work: &str,
        applied_work: &AppliedWork,
        resources: &[AppliedResource],
    ) -> Result<AppliedWork, WorkError> {
        let patch = json!({
            "metadata": {"resourceVersion": applied_work.resource_version},
            "status": {"appliedResources": resources},
        });
        let written = self.spoke.merge_patch_status(&address_of(work, self.agent), &patch).await;
        written
            .map(|written| AppliedWork::from_object(&written))
            .map_err(|error| request_error("writing the status of", error))
    }

    /// Deletes an AppliedManifestWork whose objects are all deleted or released, and removes its finalizer.
    pub(crate) async fn delete(&self, work: &str, applied_work: &AppliedWork) -> Result<(), WorkError> {
        let address = address_of(work, self.agent);
        if !applied_work.is_being_deleted {
            let uid = applied_work.owner.uid.clone();
            let resource_version = applied_work.resource_version.clone();
            let deleted = self.spoke.delete(&address, uid, resource_version, Propagation::Background).await;
            deleted.or_else(ignore_not_found).map_err(|error| request_error("deleting", error))?;
        }
        let remaining = self.get(work).await?;
        let Some(remaining) = remaining.filter(|remaining| remaining.owner == applied_work.owner) else {
            return Ok(());
        };
        let others = remaining.finalizers.iter().filter(|name| *name != vocabulary::APPLIED_FINALIZER);
        let finalizers: Vec<&String> = others.collect();
        let patch =
            json!({"metadata": {"resourceVersion": remaining.resource_version, "finalizers": finalizers}});
        let released = self.spoke.merge_patch(&address, &patch).await.map(drop);
        released.or_else(ignore_not_found).map_err(|error| request_error("removing the finalizer of", error))
    }
}

fn ignore_not_found(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error),
    }
}

fn request_error(doing: &str, error: kube::Error) -> WorkError {
    WorkError::spoke(format!("{doing} the AppliedManifestWork"), error)
}
