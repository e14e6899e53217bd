//! Works on the hub: how they are read, whatever stands there, and how their finalizer and their status are written.
//! Works are read leniently, one by one, so that one that makes no sense spoils nothing but itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use bellwether_api::work::{ManifestWork, ManifestWorkSpec, vocabulary};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::NAME;
use super::decide::report::WorkStatus;
use crate::ClusterName;

/// A work as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) revision: String,
    pub(crate) generation: i64,
    pub(crate) deleted: Option<Timestamp>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) labels: BTreeMap<String, String>,
    /// What is asked for, or why that cannot be read.
    pub(crate) spec: Result<Arc<ManifestWorkSpec>, String>,
    pub(crate) status: WorkStatus,
}

impl Work {
    /// Reads a work.
    pub(crate) fn of(mut object: DynamicObject) -> Self {
        let mut take = |part: &str| object.data.get_mut(part).map(Value::take).unwrap_or_default();
        let (spec, status) = (take("spec"), take("status"));
        Self {
            name: object.name_any(),
            uid: object.uid().unwrap_or_default(),
            revision: object.resource_version().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            deleted: object.metadata.deletion_timestamp.take().map(|time| time.0),
            finalizers: object.metadata.finalizers.take().unwrap_or_default(),
            labels: object.metadata.labels.take().unwrap_or_default(),
            spec: read_spec(spec).map(Arc::new).map_err(|words| format!(".spec cannot be read: {words}")),
            status: WorkStatus::read(&status),
        }
    }

    /// Whether it waits for us at its end.
    pub(crate) fn is_held(&self) -> bool {
        self.finalizers.iter().any(|finalizer| finalizer == vocabulary::FINALIZER)
    }

    /// Whether two readings of a work ask for the same.
    pub(crate) fn asks_for_the_same_as(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.generation == other.generation
            && self.deleted.is_some() == other.deleted.is_some()
    }

    /// Whether this is surely older than another reading of the same work. Revisions of a server are numbers that grow.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        let number = |work: &Self| work.revision.parse::<u64>().ok();
        self.uid == other.uid
            && match (number(self), number(other)) {
                (Some(this), Some(other)) => this < other,
                _ => self.generation < other.generation,
            }
    }
}

/// What asks for nothing is taken at its word, and all goes that was made; so nothing else may be read as that.
fn read_spec(spec: Value) -> Result<ManifestWorkSpec, String> {
    let is_section = |value: &Value| value.is_object() || value.is_null();
    if !is_section(&spec) || !spec.get("workload").is_none_or(is_section) {
        return Err("it is not an object".into());
    }
    serde_json::from_value(spec).map_err(|error| error.to_string())
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Written {
    /// It was written, and now it is this.
    Now(Box<Work>),
    /// It has changed since it was read.
    Conflict,
    /// It is gone.
    Gone,
}

/// The works of a cluster.
#[derive(Clone)]
pub(crate) struct Hub {
    works: Api<DynamicObject>,
}

impl Hub {
    pub(crate) fn new(client: Client, cluster: &ClusterName) -> Self {
        let resource = ApiResource::erase::<ManifestWork>(&());
        Self { works: Api::namespaced_with(client, cluster.as_str(), &resource) }
    }

    pub(crate) fn works(&self) -> Api<DynamicObject> {
        self.works.clone()
    }

    pub(crate) async fn read(&self, name: &str) -> Result<Option<Work>, kube::Error> {
        Ok(self.works.get_opt(name).await?.map(Work::of))
    }

    /// Has the work wait for us at its end, or no longer.
    pub(crate) async fn hold(&self, work: &Work, hold: bool) -> Result<Written, kube::Error> {
        let others = work.finalizers.iter().filter(|finalizer| *finalizer != vocabulary::FINALIZER);
        let mut finalizers: Vec<&str> = others.map(String::as_str).collect();
        if hold {
            finalizers.push(vocabulary::FINALIZER);
        }
        let patch = json!({"metadata": {"resourceVersion": work.revision, "finalizers": finalizers}});
        written(self.works.patch(&work.name, &by_us(), &Patch::Merge(&patch)).await)
    }

    /// Writes the status, whose only writer we are.
    pub(crate) async fn tell(&self, work: &Work, status: &WorkStatus) -> Result<Written, kube::Error> {
        let patch = json!({"metadata": {"resourceVersion": work.revision}, "status": status});
        written(self.works.patch_status(&work.name, &by_us(), &Patch::Merge(&patch)).await)
    }
}

fn by_us() -> PatchParams {
    PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() }
}

fn written(answer: Result<DynamicObject, kube::Error>) -> Result<Written, kube::Error> {
    match answer {
        Ok(object) => Ok(Written::Now(Box::new(Work::of(object)))),
        Err(kube::Error::Api(status)) if status.is_conflict() => Ok(Written::Conflict),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Written::Gone),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(object: Value) -> Work {
        Work::of(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn whatever_stands_there_is_read() {
        let plain = work(json!({"metadata": {"name": "a", "resourceVersion": "7", "generation": 2}}));
        assert_eq!(plain.spec, Ok(Arc::default()));
        assert!(!plain.is_held());
        for spec in [json!(7), json!({"workload": []}), json!({"workload": {"manifests": {}}}), json!([])] {
            let read = work(json!({"metadata": {"name": "a"}, "spec": spec, "status": "x"}));
            assert!(read.spec.unwrap_err().starts_with(".spec cannot be read: "), "{spec}");
        }
    }

    #[test]
    fn a_reading_that_is_older_is_known_by_its_revision() {
        let at = |uid: &str, revision: &str, generation: i64| {
            work(json!({"metadata": {"uid": uid, "resourceVersion": revision, "generation": generation}}))
        };
        assert!(at("u", "9", 1).is_older_than(&at("u", "10", 1)));
        assert!(!at("u", "10", 1).is_older_than(&at("u", "10", 1)));
        assert!(!at("v", "9", 1).is_older_than(&at("u", "10", 2)), "another of that name is another");
        assert!(at("u", "x", 1).is_older_than(&at("u", "y", 2)));
        assert!(!at("u", "x", 2).is_older_than(&at("u", "y", 2)));
    }
}
