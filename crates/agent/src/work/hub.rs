//! ManifestWorks on the hub: parses them, and writes their finalizer and their status. Each object is parsed leniently,
//! so that an invalid ManifestWork does not affect the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_api::work::{ManifestWork, ManifestWorkSpec, vocabulary};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::NAME;
use super::decide::status::WorkStatus;
use crate::ClusterName;

/// A ManifestWork as it was last read or written.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) resource_version: String,
    pub(crate) generation: i64,
    pub(crate) deletion_timestamp: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// The spec, or why it is invalid.
    pub(crate) spec: Result<Arc<ManifestWorkSpec>, String>,
    pub(crate) status: WorkStatus,
}

impl Work {
    pub(crate) fn from_object(mut object: DynamicObject) -> Self {
        let mut take = |part: &str| object.data.get_mut(part).map(Value::take).unwrap_or_default();
        let (spec, status) = (take("spec"), take("status"));
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            resource_version: object.resource_version().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            deletion_timestamp: object.metadata.deletion_timestamp.take().map(|time| time.0),
            finalizers: object.metadata.finalizers.take().unwrap_or_default(),
            labels: object.metadata.labels.take().unwrap_or_default(),
            spec: parse_spec(spec).map(Arc::new).map_err(|error| format!(".spec is invalid: {error}")),
            status: WorkStatus::parse(&status),
        }
    }

    /// Whether it has the finalizer of the agent.
    pub(crate) fn has_finalizer(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == vocabulary::FINALIZER)
    }

    /// Whether two versions of a ManifestWork require the same objects on the cluster.
    pub(crate) fn has_same_desired_state_as(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.generation == other.generation
            && self.deletion_timestamp.is_some() == other.deletion_timestamp.is_some()
    }

    /// Whether this is certainly an older version of the same ManifestWork. A resourceVersion that is a number grows
    /// with every write.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        let number = |work: &Self| work.resource_version.parse::<u64>().ok();
        self.uid == other.uid
            && match (number(self), number(other)) {
                (Some(this), Some(other)) => this < other,
                _ => self.generation < other.generation,
            }
    }
}

/// Parses a spec. An empty spec is valid, and deletes all objects of the ManifestWork; therefore an invalid spec must
/// never be parsed as an empty one.
fn parse_spec(spec: Value) -> Result<ManifestWorkSpec, String> {
    let is_section = |value: &Value| value.is_object() || value.is_null();
    if !is_section(&spec) || !spec.get("workload").is_none_or(is_section) {
        return Err(".spec and .spec.workload must be objects".into());
    }
    serde_json::from_value(spec).map_err(|error| error.to_string())
}

/// The result of a write to a ManifestWork.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The write succeeded, and the ManifestWork now has this state.
    Written(Box<Work>),
    /// The ManifestWork has changed since it was read.
    Conflict,
    /// The ManifestWork no longer exists.
    NotFound,
}

/// Requests for the ManifestWorks of one cluster.
#[derive(Clone)]
pub(crate) struct HubClient {
    works: Api<DynamicObject>,
}

impl HubClient {
    pub(crate) fn new(client: Client, cluster: &ClusterName) -> Self {
        let resource = ApiResource::erase::<ManifestWork>(&());
        Self { works: Api::namespaced_with(client, cluster.as_str(), &resource) }
    }

    pub(crate) fn works(&self) -> Api<DynamicObject> {
        self.works.clone()
    }

    pub(crate) async fn get_opt(&self, name: &str) -> Result<Option<Work>, kube::Error> {
        Ok(self.works.get_opt(name).await?.map(Work::from_object))
    }

    /// Adds the finalizer of the agent.
    pub(crate) async fn add_finalizer(&self, work: &Work) -> Result<WriteResult, kube::Error> {
        let mut finalizers = finalizers_of_others(work);
        finalizers.push(vocabulary::FINALIZER);
        self.write_finalizers(work, &finalizers).await
    }

    /// Removes the finalizer of the agent.
    pub(crate) async fn remove_finalizer(&self, work: &Work) -> Result<WriteResult, kube::Error> {
        self.write_finalizers(work, &finalizers_of_others(work)).await
    }

    async fn write_finalizers(&self, work: &Work, finalizers: &[&str]) -> Result<WriteResult, kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": work.resource_version, "finalizers": finalizers}});
        write_result(self.works.patch(&work.name, &patch_params(), &Patch::Merge(&patch)).await)
    }

    /// Writes the status. The agent is its only writer.
    pub(crate) async fn write_status(
        &self,
        work: &Work,
        status: &WorkStatus,
    ) -> Result<WriteResult, kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": work.resource_version}, "status": status});
        write_result(self.works.patch_status(&work.name, &patch_params(), &Patch::Merge(&patch)).await)
    }
}

fn finalizers_of_others(work: &Work) -> Vec<&str> {
    let others = work.finalizers.iter().filter(|finalizer| *finalizer != vocabulary::FINALIZER);
    others.map(String::as_str).collect()
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() }
}

fn write_result(response: Result<DynamicObject, kube::Error>) -> Result<WriteResult, kube::Error> {
    match response {
        Ok(object) => Ok(WriteResult::Written(Box::new(Work::from_object(object)))),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(WriteResult::Conflict),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(WriteResult::NotFound),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(object: Value) -> Work {
        Work::from_object(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn invalid_spec_and_status_do_not_prevent_parsing() {
        let plain = work(json!({"metadata": {"name": "a", "resourceVersion": "7", "generation": 2}}));
        assert_eq!(plain.spec, Ok(Arc::default()));
        assert!(!plain.has_finalizer());
        for spec in [json!(7), json!({"workload": []}), json!({"workload": {"manifests": {}}}), json!([])] {
            let parsed = work(json!({"metadata": {"name": "a"}, "spec": spec, "status": "x"}));
            assert!(parsed.spec.unwrap_err().starts_with(".spec is invalid: "), "{spec}");
        }
    }

    #[test]
    fn older_version_is_recognized_by_its_resource_version() {
        let at = |uid: &str, resource_version: &str, generation: i64| {
            work(
                json!({"metadata": {"uid": uid, "resourceVersion": resource_version, "generation": generation}}),
            )
        };
        assert!(at("u", "9", 1).is_older_than(&at("u", "10", 1)));
        assert!(!at("u", "10", 1).is_older_than(&at("u", "10", 1)));
        assert!(
            !at("v", "9", 1).is_older_than(&at("u", "10", 2)),
            "a ManifestWork of the same name with another uid"
        );
        assert!(at("u", "x", 1).is_older_than(&at("u", "y", 2)));
        assert!(!at("u", "x", 2).is_older_than(&at("u", "y", 2)));
    }
}
