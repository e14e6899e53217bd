//! The AppliedManifestWork of a work: that it is there before anything is made, and what it notes down.

use std::collections::BTreeMap;

use bellwether_api::work::{
    AppliedManifestWork, AppliedManifestWorkSpec, AppliedManifestWorkStatus, AppliedResource, vocabulary,
};
use kube::Resource as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::decide::manifest::ObjectId;
use super::decide::owners::Owner;
use super::hub::Work;
use super::spoke::{Address, Propagation, Spoke, text};
use super::trouble::Failure;
use crate::Agent;

/// The record of what was made for a work, as it was last read or written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ledger {
    pub(crate) owner: Owner,
    pub(crate) revision: String,
    /// Whether somebody deletes it, though its work is wanted.
    pub(crate) is_being_deleted: bool,
    pub(crate) resources: Vec<AppliedResource>,
    labels: BTreeMap<String, String>,
    finalizers: Vec<String>,
    spec: AppliedManifestWorkSpec,
}

impl Ledger {
    fn of(object: &Value) -> Self {
        let status: AppliedManifestWorkStatus = part(object, "/status");
        Self {
            owner: Owner {
                name: text(object, "/metadata/name").into(),
                uid: text(object, "/metadata/uid").into(),
            },
            revision: text(object, "/metadata/resourceVersion").into(),
            is_being_deleted: !text(object, "/metadata/deletionTimestamp").is_empty(),
            resources: status.applied_resources,
            labels: part(object, "/metadata/labels"),
            finalizers: part(object, "/metadata/finalizers"),
            spec: part(object, "/spec"),
        }
    }

    /// Whether it says what it should of its work, and waits for us at its end.
    pub(crate) fn is_of(&self, work: &Work, agent: &Agent) -> bool {
        self.labels == work.labels && self.spec == spec(work, agent) && self.is_held()
    }

    fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == vocabulary::APPLIED_FINALIZER)
    }

    /// What makes it say that.
    fn correction(&self, work: &Work, agent: &Agent) -> Value {
        // A merge leaves what it does not name.
        let dropped = self.labels.keys().filter(|label| !work.labels.contains_key(*label));
        let mut labels: Map<String, Value> = dropped.map(|label| (label.clone(), Value::Null)).collect();
        labels.extend(work.labels.iter().map(|(label, value)| (label.clone(), value.as_str().into())));
        let mut finalizers = self.finalizers.clone();
        if !self.is_held() {
            finalizers.push(vocabulary::APPLIED_FINALIZER.to_owned());
        }
        json!({
            "metadata": {"labels": labels, "finalizers": finalizers, "resourceVersion": self.revision},
            "spec": spec(work, agent),
        })
    }
}

/// A part of an object as a type; what cannot be read is written anew.
fn part<T: DeserializeOwned + Default>(object: &Value, pointer: &str) -> T {
    object.pointer(pointer).and_then(|part| T::deserialize(part).ok()).unwrap_or_default()
}

/// Where the record of a work is.
pub(crate) fn address(work: &str, agent: &Agent) -> Address {
    let id = ObjectId {
        group: AppliedManifestWork::group(&()).into_owned(),
        resource: AppliedManifestWork::plural(&()).into_owned(),
        namespace: String::new(),
        name: format!("{}-{work}", agent.hub_hash.as_str()),
    };
    Address::new(&id, &AppliedManifestWork::version(&()))
}

fn spec(work: &Work, agent: &Agent) -> AppliedManifestWorkSpec {
    AppliedManifestWorkSpec {
        hub_hash: agent.hub_hash.as_str().to_owned(),
        agent_id: agent.agent_id.to_string(),
        manifest_work_name: work.name.clone(),
    }
}

/// The records of a cluster.
pub(crate) struct Ledgers<'a> {
    pub(crate) spoke: &'a Spoke,
    pub(crate) agent: &'a Agent,
}

impl Ledgers<'_> {
    pub(crate) async fn read(&self, work: &str) -> Result<Option<Ledger>, Failure> {
        let found = self.spoke.read(&address(work, self.agent)).await;
        Ok(found.map_err(|error| failed("reading", error))?.as_ref().map(Ledger::of))
    }

    /// The record of a work, made or corrected where it has to be. One that is being deleted is left as it is.
    pub(crate) async fn provide(&self, work: &Work) -> Result<Ledger, Failure> {
        let at = address(&work.name, self.agent);
        let Some(found) = self.read(&work.name).await? else {
            let object = json!({
                "apiVersion": AppliedManifestWork::api_version(&()),
                "kind": AppliedManifestWork::kind(&()),
                "metadata": {
                    "name": at.id.name,
                    "labels": work.labels,
                    "finalizers": [vocabulary::APPLIED_FINALIZER],
                },
                "spec": spec(work, self.agent),
            });
            let made = self.spoke.create(&at, &object).await;
            return made.map(|made| Ledger::of(&made)).map_err(|error| failed("making", error));
        };
        if found.is_being_deleted || found.is_of(work, self.agent) {
            return Ok(found);
        }
        let written = self.spoke.merge(&at, &found.correction(work, self.agent)).await;
        written.map(|written| Ledger::of(&written)).map_err(|error| failed("correcting", error))
    }

    /// Notes down what was made, or is about to be.
    pub(crate) async fn write(
        &self,
        work: &str,
        ledger: &Ledger,
        resources: &[AppliedResource],
    ) -> Result<Ledger, Failure> {
        let patch = json!({
            "metadata": {"resourceVersion": ledger.revision},
            "status": {"appliedResources": resources},
        });
        let written = self.spoke.merge_status(&address(work, self.agent), &patch).await;
        written.map(|written| Ledger::of(&written)).map_err(|error| failed("writing", error))
    }

    /// Ends a record of which nothing is left.
    pub(crate) async fn close(&self, work: &str, ledger: &Ledger) -> Result<(), Failure> {
        let at = address(work, self.agent);
        if !ledger.is_being_deleted {
            let (uid, revision) = (ledger.owner.uid.clone(), ledger.revision.clone());
            let deleted = self.spoke.delete(&at, uid, revision, Propagation::Background).await;
            deleted.or_else(gone_is_well).map_err(|error| failed("deleting", error))?;
        }
        let Some(ledger) = self.read(work).await?.filter(|left| left.owner == ledger.owner) else {
            return Ok(());
        };
        let others = ledger.finalizers.iter().filter(|name| *name != vocabulary::APPLIED_FINALIZER);
        let finalizers: Vec<&String> = others.collect();
        let patch = json!({"metadata": {"resourceVersion": ledger.revision, "finalizers": finalizers}});
        let released = self.spoke.merge(&at, &patch).await.map(drop);
        released.or_else(gone_is_well).map_err(|error| failed("releasing", error))
    }
}

fn gone_is_well(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        error => Err(error),
    }
}

fn failed(doing: &str, error: kube::Error) -> Failure {
    Failure::spoke(format!("{doing} the AppliedManifestWork"), error)
}
