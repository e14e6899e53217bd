//! What happened to an event, phase by phase: the result of an execution, and the trace of a dry run.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

/// A phase of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Reading params.
    ParamExtraction,
    /// Checking preconditions.
    Preconditions,
    /// Applying and deleting resources.
    Resources,
    /// Building payloads and reporting.
    PostActions,
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::ParamExtraction => "param_extraction",
            Self::Preconditions => "preconditions",
            Self::Resources => "resources",
            Self::PostActions => "post_actions",
        })
    }
}

/// Whether something succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It succeeded.
    #[default]
    Success,
    /// It failed.
    Failed,
}

/// What was done with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// It was created.
    Create,
    /// It was updated.
    Update,
    /// It was deleted and created again.
    Recreate,
    /// It was left as it is.
    Skip,
    /// It was deleted.
    Delete,
}

/// The result of an execution.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Trace {
    /// The event.
    pub event: TracedEvent,
    /// Whether all phases succeeded.
    pub status: Status,
    /// The params and captured variables.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub params: Map<String, Value>,
    /// The preconditions that were checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preconditions: Vec<TracedPrecondition>,
    /// The resources that were handled.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<TracedResource>,
    /// The objects that were found, as `resources.*` in expressions.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub discovered_resources: Map<String, Value>,
    /// The post actions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub post_actions: Vec<TracedPostAction>,
    /// The error of each phase that failed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub errors: BTreeMap<Phase, String>,
    /// The API calls, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_requests: Vec<TracedRequest>,
    /// The operations on clusters, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transport_operations: Vec<TracedOperation>,
    /// Why resources were skipped, if they were.
    #[serde(skip)]
    pub skip_reason: Option<String>,
    /// Whether the report was delivered.
    #[serde(skip)]
    pub report: Report,
    /// Values of payloads that could not be computed.
    #[serde(skip)]
    pub payload_errors: Vec<String>,
}

impl Trace {
    /// Whether there is more to report soon: an object is being deleted, or a Job has neither succeeded nor failed.
    pub fn is_unfinished(&self) -> bool {
        let is_deleted = |resource: &TracedResource| {
            resource.operation == Operation::Delete && resource.status == Status::Success
        };
        self.resources.iter().any(is_deleted) || self.has_running_job()
    }

    /// Whether one of the objects is a Job that has neither succeeded nor failed.
    pub fn has_running_job(&self) -> bool {
        let is_job = |object: &&Value| object.get("kind").and_then(Value::as_str) == Some("Job");
        self.discovered_resources.values().filter(is_job).any(|job| !is_finished_job(job))
    }
}

fn is_finished_job(job: &Value) -> bool {
    let is_finished = |condition: &Value| {
        let member = |name: &str| condition.get(name).and_then(Value::as_str);
        matches!(member("type"), Some("Complete" | "Failed")) && member("status") == Some("True")
    };
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    // Inside a ManifestWork, the status of the Job is its feedback.
    let has_feedback = |name: &str| job.pointer(name).and_then(Value::as_str) == Some("True");
    conditions.is_some_and(|conditions| conditions.iter().any(is_finished))
        || has_feedback("/status/JobComplete")
        || has_feedback("/status/JobFailed")
}

/// Whether the report of an event was delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Report {
    /// All post actions ran, or were skipped on purpose.
    #[default]
    Delivered,
    /// The resource does not exist any more, so that there is nothing to report on.
    ResourceGone,
    /// The API does not respond, so that the event must be delivered again.
    Undelivered,
}

/// An event.
#[derive(Clone, Debug, Default, Serialize)]
pub struct TracedEvent {
    /// Its ID.
    pub id: String,
    /// Its type.
    #[serde(rename = "type")]
    pub event_type: String,
}

/// A precondition that was checked.
#[derive(Clone, Debug, Serialize)]
pub struct TracedPrecondition {
    /// Its name.
    pub name: String,
    /// Whether it could be checked.
    pub status: Status,
    /// Whether it is met.
    pub matched: bool,
    /// Why it is not met or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A resource that was handled.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedResource {
    /// Its name in the configuration.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// Whether it succeeded.
    pub status: Status,
    /// What was done.
    pub operation: Operation,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A post action.
#[derive(Clone, Debug, Serialize)]
pub struct TracedPostAction {
    /// Its name.
    pub name: String,
    /// Whether it succeeded.
    pub status: Status,
    /// Whether it was skipped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// Why it was skipped.
    #[serde(skip)]
    pub skip_reason: Option<String>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An API call of a dry run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TracedRequest {
    /// The method.
    pub method: String,
    /// The URL.
    pub url: String,
    /// The status of the response.
    pub status_code: u16,
    /// The body of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_body: Option<String>,
    /// The body of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_body: Option<String>,
}

/// An operation on a cluster in a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct TracedOperation {
    /// `discover`, `apply` or `delete`.
    pub operation: String,
    /// The kind.
    pub kind: String,
    /// The namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name.
    pub name: String,
    /// What came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The manifest of `apply`.
    #[serde(skip)]
    pub manifest: Option<Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn job_runs_until_a_condition_or_its_feedback_says_otherwise() {
        let ended = |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
        for (kind, status, is_running) in [
            ("Job", json!(null), true),
            ("Job", ended("Complete", "True"), false),
            ("Job", ended("Failed", "True"), false),
            ("Job", ended("Complete", "False"), true),
            ("Job", ended("Suspended", "True"), true),
            ("Job", json!({"JobComplete": "True"}), false),
            ("Job", json!({"JobFailed": "True"}), false),
            ("Job", json!({"active": 1}), true),
            ("ConfigMap", json!(null), false),
        ] {
            let object = json!({"kind": kind, "status": status});
            let discovered_resources = Map::from_iter([("x".to_owned(), object)]);
            let trace = Trace { discovered_resources, ..Trace::default() };
            assert_eq!(trace.has_running_job(), is_running, "{kind} {status}");
        }
    }
}
