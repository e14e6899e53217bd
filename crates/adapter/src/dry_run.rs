//! Dry runs: one event through the real executor, with recorded API responses and objects from files instead of servers.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bellwether_clock::Clock;
use parking_lot::Mutex;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::{Api, ApiError, ApiRequest, ApiResponse};
use crate::config::{Config, Propagation, read_limited};
use crate::execute::{Clients, Event, Executor};
use crate::trace::{Phase, Status, Trace, TracedOperation, TracedRequest};
use crate::transport::{KindName, ObjectKey, Transport, TransportError};

/// The files of a dry run.
#[derive(Clone, Debug, Default)]
pub struct DryRunFiles {
    /// The event: a CloudEvent, or its data alone.
    pub event: PathBuf,
    /// Responses of APIs. Without it, every call gets `200 {}`.
    pub api_responses: Option<PathBuf>,
    /// Objects that exist, by name.
    pub discovery: Option<PathBuf>,
}

/// Why a dry run cannot start.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {cause}; fix the file of the dry run")]
pub struct DryRunError {
    path: String,
    cause: String,
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, DryRunError> {
    let failed = |cause: String| DryRunError { path: path.display().to_string(), cause };
    let text = read_limited(path).map_err(failed)?;
    serde_json::from_str(&text).map_err(|error| failed(format!("the file is not valid JSON here: {error}")))
}

/// Runs one event without touching anything.
pub async fn dry_run(
    config: Arc<Config>,
    files: &DryRunFiles,
    env: impl IntoIterator<Item = (String, String)>,
    clock: Arc<dyn Clock>,
) -> Result<DryRun, DryRunError> {
    let event: Value = read_json(&files.event)?;
    let text = |field: &str| event.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_cloud_event =
        event.get("specversion").is_some() || event.get("data").is_some_and(Value::is_object);
    let event = Event {
        id: text("id"),
        event_type: text("type"),
        data: if is_cloud_event { event.get("data").cloned().unwrap_or_default() } else { event.clone() },
    };
    let api = Arc::new(match &files.api_responses {
        Some(path) => RecordedApi::new(read_json(path)?, path)?,
        None => RecordedApi::default(),
    });
    let objects: BTreeMap<String, Value> = match &files.discovery {
        Some(path) => read_json(path)?,
        None => BTreeMap::new(),
    };
    let objects = objects.into_iter().map(|(name, object)| RecordedObject { name, object }).collect();
    let transport =
        Arc::new(RecordedTransport { state: Mutex::new(State { objects, operations: Vec::new() }) });
    let clients = Clients { api: api.clone(), kubernetes: transport.clone(), hub: transport.clone(), clock };
    let mut trace = Executor::new(config, clients, env).execute(&event).await;
    trace.api_requests = api.requests.lock().clone();
    trace.transport_operations = transport.state.lock().operations.clone();
    Ok(DryRun { trace })
}

/// The result of a dry run.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// What would have happened.
    pub trace: Trace,
}

/// How much a trace shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What happened.
    Summary,
    /// Also bodies and manifests.
    Verbose,
}

impl DryRun {
    /// Whether the event would have succeeded.
    pub fn is_success(&self) -> bool {
        self.trace.status == Status::Success
    }

    /// The trace as JSON.
    pub fn json(&self, detail: Detail) -> String {
        let mut trace = self.trace.clone();
        if detail == Detail::Summary {
            for request in &mut trace.api_requests {
                (request.request_body, request.response_body) = (None, None);
            }
        }
        serde_json::to_string_pretty(&trace).unwrap_or_default()
    }

    /// The trace for people.
    pub fn text(&self, detail: Detail) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_text(&mut text, detail);
        text
    }

    fn write_text(&self, text: &mut String, detail: Detail) -> std::fmt::Result {
        let trace = &self.trace;
        writeln!(text, "Dry run of event {} ({})\n", trace.event.id, trace.event.event_type)?;
        self.write_phase(text, 1, "Params", Phase::ParamExtraction, "")?;
        for (name, value) in &trace.params {
            writeln!(text, "  {name:<20} = {value}")?;
        }
        let verdict = match (&trace.skip_reason, trace.preconditions.is_empty()) {
            (Some(_), _) => " (not met)",
            (None, false) => " (met)",
            (None, true) => "",
        };
        self.write_phase(text, 2, "Preconditions", Phase::Preconditions, verdict)?;
        for precondition in &trace.preconditions {
            let state = if precondition.matched { "met" } else { "not met" };
            writeln!(text, "  {:<30} {state}", precondition.name)?;
            if let Some(error) = &precondition.error {
                writeln!(text, "    {error}")?;
            }
        }
        self.write_phase(
            text,
            3,
            "Resources",
            Phase::Resources,
            if trace.skip_reason.is_some() { " (skipped)" } else { "" },
        )?;
        self.write_resources(text, detail)?;
        self.write_phase(text, 4, "Post actions", Phase::PostActions, "")?;
        for action in &trace.post_actions {
            let state = match (action.skipped, action.status) {
                (true, _) => "skipped",
                (false, Status::Success) => "done",
                (false, Status::Failed) => "failed",
            };
            writeln!(text, "  {:<30} {state}", action.name)?;
            if let Some(reason) = action.skip_reason.as_ref().or(action.error.as_ref()) {
                writeln!(text, "    {reason}")?;
            }
        }
        self.write_requests(text, detail)?;
        for error in &trace.payload_errors {
            writeln!(text, "  Payload: {error}")?;
        }
        let result = if self.is_success() { "success" } else { "failed" };
        writeln!(text, "\nResult: {result}")
    }

    fn write_phase(
        &self,
        text: &mut String,
        number: u32,
        title: &str,
        phase: Phase,
        note: &str,
    ) -> std::fmt::Result {
        let error = self.trace.errors.get(&phase);
        let status = if error.is_some() { "failed" } else { "ok" };
        writeln!(text, "{}Phase {number}: {title}: {status}{note}", if number > 1 { "\n" } else { "" })?;
        match error {
            Some(error) => writeln!(text, "  Error: {error}"),
            None => Ok(()),
        }
    }

    fn write_resources(&self, text: &mut String, detail: Detail) -> std::fmt::Result {
        let trace = &self.trace;
        if let Some(reason) = &trace.skip_reason {
            writeln!(text, "  {reason}")?;
        }
        for resource in &trace.resources {
            let operation = json!(resource.operation);
            writeln!(text, "  {:<30} {}", resource.name, operation.as_str().unwrap_or_default())?;
            let namespace = resource.namespace.as_deref().unwrap_or("-");
            writeln!(
                text,
                "    {} {namespace}/{}",
                resource.kind,
                resource.resource_name.as_deref().unwrap_or("-")
            )?;
            if let Some(reason) = resource.error.as_ref().or(resource.reason.as_ref()) {
                writeln!(text, "    {reason}")?;
            }
        }
        if detail == Detail::Verbose {
            let applied =
                trace.transport_operations.iter().filter_map(|operation| operation.manifest.as_ref());
            for manifest in applied {
                writeln!(
                    text,
                    "  Manifest:\n{}",
                    serde_json::to_string_pretty(manifest).unwrap_or_default()
                )?;
            }
        }
        for (name, object) in &trace.discovered_resources {
            writeln!(text, "  resources.{name} = {object}")?;
        }
        Ok(())
    }

    fn write_requests(&self, text: &mut String, detail: Detail) -> std::fmt::Result {
        if !self.trace.api_requests.is_empty() {
            writeln!(text, "\nAPI calls:")?;
        }
        for request in &self.trace.api_requests {
            writeln!(text, "  {} {} -> {}", request.method, request.url, request.status_code)?;
            if detail == Detail::Verbose {
                for (label, body) in
                    [("request", &request.request_body), ("response", &request.response_body)]
                {
                    if let Some(body) = body {
                        writeln!(text, "    {label}: {body}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ResponsesFile {
    responses: Vec<MatchedResponses>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MatchedResponses {
    #[serde(rename = "match")]
    matches: RequestMatch,
    responses: Vec<RecordedResponse>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RequestMatch {
    method: String,
    url_pattern: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RecordedResponse {
    status_code: u16,
    #[serde(default, rename = "headers")]
    _headers: Value,
    #[serde(default)]
    body: Value,
}

/// Answers calls from a file, and records them.
#[derive(Default)]
struct RecordedApi {
    rules: Vec<(String, Regex, Vec<RecordedResponse>)>,
    /// How often each rule has answered.
    answered: Mutex<BTreeMap<usize, usize>>,
    requests: Mutex<Vec<TracedRequest>>,
}

impl RecordedApi {
    fn new(file: ResponsesFile, path: &Path) -> Result<Self, DryRunError> {
        let mut rules = Vec::with_capacity(file.responses.len());
        for rule in file.responses {
            let pattern = Regex::new(&rule.matches.url_pattern).map_err(|error| DryRunError {
                path: path.display().to_string(),
                cause: format!(
                    "urlPattern {:?} is not a regular expression: {error}",
                    rule.matches.url_pattern
                ),
            })?;
            rules.push((rule.matches.method, pattern, rule.responses));
        }
        Ok(Self { rules, ..Self::default() })
    }

    /// The next response of the first rule that matches. The last response repeats.
    fn answer(&self, request: &ApiRequest) -> ApiResponse {
        let matching = self.rules.iter().enumerate().find(|(_, (method, pattern, _))| {
            (method == "*" || method.eq_ignore_ascii_case(&request.method)) && pattern.is_match(&request.url)
        });
        let Some((index, (_, _, responses))) = matching else {
            return match self.rules.is_empty() {
                true => ApiResponse { status: 200, body: "{}".to_owned() },
                false => {
                    let message = "no entry of the file of API responses matches this call";
                    ApiResponse {
                        status: 404,
                        body: json!({"code": "HYPERFLEET-NTF-000", "detail": message}).to_string(),
                    }
                }
            };
        };
        let mut answered = self.answered.lock();
        let count = answered.entry(index).or_insert(0);
        let response = responses.get(*count).or_else(|| responses.last());
        *count += 1;
        response.map_or(ApiResponse { status: 200, body: "{}".to_owned() }, |response| {
            let body = match &response.body {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                body => body.to_string(),
            };
            ApiResponse { status: response.status_code, body }
        })
    }
}

#[async_trait]
impl Api for RecordedApi {
    async fn call(&self, request: &ApiRequest) -> Result<ApiResponse, ApiError> {
        let response = self.answer(request);
        self.requests.lock().push(TracedRequest {
            method: request.method.clone(),
            url: request.url.clone(),
            status_code: response.status,
            request_body: request.body.clone(),
            response_body: Some(response.body.clone()).filter(|body| !body.is_empty()),
        });
        Ok(response)
    }
}

/// Objects in memory.
struct RecordedTransport {
    state: Mutex<State>,
}

struct State {
    objects: Vec<RecordedObject>,
    operations: Vec<TracedOperation>,
}

/// An object by its name, which the file of a dry run may choose freely.
struct RecordedObject {
    name: String,
    object: Value,
}

impl RecordedObject {
    fn has_kind(&self, kind: &KindName) -> bool {
        self.object.get("kind").and_then(Value::as_str) == Some(&kind.kind)
    }

    /// Objects of files and discoveries may leave out the namespace.
    fn is_in(&self, namespace: Option<&str>) -> bool {
        let found = self.object.pointer("/metadata/namespace").and_then(Value::as_str);
        namespace.is_none_or(|namespace| found.is_none_or(|found| found == namespace))
    }

    fn has_key(&self, key: &ObjectKey) -> bool {
        self.name == key.name && self.has_kind(&key.kind) && self.is_in(key.namespace.as_deref())
    }
}

impl State {
    /// Puts an object in the place of the one with its key.
    fn put(&mut self, key: &ObjectKey, object: Value) {
        self.objects.retain(|recorded| !recorded.has_key(key));
        self.objects.push(RecordedObject { name: key.name.clone(), object });
    }

    fn record(&mut self, operation: &str, key: &ObjectKey, result: Option<&str>, manifest: Option<&Value>) {
        self.operations.push(TracedOperation {
            operation: operation.to_owned(),
            kind: key.kind.kind.clone(),
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            result: result.map(str::to_owned),
            manifest: manifest.cloned(),
        });
    }
}

fn key_of(object: &Value) -> Result<ObjectKey, TransportError> {
    ObjectKey::of(object).ok_or_else(|| TransportError::Rejected {
        object: "the object".to_owned(),
        cause: "apiVersion, kind or metadata.name is missing".to_owned(),
    })
}

/// The object with the fields of a manifest on top, such as an API server keeps status and other fields.
fn merged(live: &Value, manifest: &Value) -> Value {
    match (live, manifest) {
        (Value::Object(live), Value::Object(manifest)) => {
            let mut result = live.clone();
            for (key, value) in manifest {
                let merged = live.get(key).map_or_else(|| value.clone(), |live| merged(live, value));
                result.insert(key.clone(), merged);
            }
            Value::Object(result)
        }
        (_, manifest) => manifest.clone(),
    }
}

#[async_trait]
impl Transport for RecordedTransport {
    async fn get(&self, key: &ObjectKey) -> Result<Option<Value>, TransportError> {
        let mut state = self.state.lock();
        let found = state.objects.iter().find(|recorded| recorded.has_key(key));
        let found = found.map(|recorded| recorded.object.clone());
        state.record("discover", key, Some(if found.is_some() { "found" } else { "not found" }), None);
        Ok(found)
    }

    async fn list(
        &self,
        kind: &KindName,
        namespace: Option<&str>,
        labels: &[(String, String)],
    ) -> Result<Vec<Value>, TransportError> {
        let mut state = self.state.lock();
        let matches = |recorded: &&RecordedObject| {
            let found = recorded.object.pointer("/metadata/labels");
            let label = |name: &str| found.and_then(|labels| labels.get(name)).and_then(Value::as_str);
            recorded.has_kind(kind)
                && recorded.is_in(namespace)
                && labels.iter().all(|(name, value)| label(name) == Some(value.as_str()))
        };
        let found: Vec<Value> =
            state.objects.iter().filter(matches).map(|recorded| recorded.object.clone()).collect();
        let selector: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let key = ObjectKey {
            kind: kind.clone(),
            namespace: namespace.map(str::to_owned),
            name: selector.join(","),
        };
        state.record("discover", &key, Some(if found.is_empty() { "not found" } else { "found" }), None);
        Ok(found)
    }

    async fn create(&self, manifest: &Value) -> Result<Value, TransportError> {
        let key = key_of(manifest)?;
        let mut state = self.state.lock();
        state.record("apply", &key, Some("create"), Some(manifest));
        state.put(&key, manifest.clone());
        Ok(manifest.clone())
    }

    async fn update(&self, manifest: &Value, live: &Value) -> Result<Value, TransportError> {
        let key = key_of(manifest)?;
        let mut state = self.state.lock();
        state.record("apply", &key, Some("update"), Some(manifest));
        let mut updated = merged(live, manifest);
        if let Some(metadata) = updated.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("resourceVersion");
        }
        state.put(&key, updated.clone());
        Ok(updated)
    }

    async fn delete(&self, live: &Value, _propagation: Propagation) -> Result<(), TransportError> {
        let key = key_of(live)?;
        let mut state = self.state.lock();
        state.record("delete", &key, Some("deleted"), None);
        state.objects.retain(|recorded| !recorded.has_key(&key));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn objects_of_one_name_differ_by_kind_and_namespace() {
        let object = |kind: &str, namespace: Option<&str>| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "c-1", "namespace": namespace}});
        let recorded = RecordedObject { name: "c-1".to_owned(), object: object("Secret", None) };
        let state = State { objects: vec![recorded], operations: Vec::new() };
        let transport = RecordedTransport { state: Mutex::new(state) };
        let created =
            [object("Namespace", None), object("ConfigMap", Some("a")), object("ConfigMap", Some("b"))];
        for object in &created {
            transport.create(object).await.unwrap();
        }
        for object in &created {
            let found = transport.get(&ObjectKey::of(object).unwrap()).await.unwrap();
            assert_eq!(found.as_ref(), Some(object));
        }
        let kind = KindName::of(&created[1]).unwrap();
        assert_eq!(transport.list(&kind, Some("b"), &[]).await.unwrap(), [created[2].clone()]);

        let secret = object("Secret", Some("a"));
        let live = transport.get(&ObjectKey::of(&secret).unwrap()).await.unwrap();
        let live = live.expect("the object of the file, which has no namespace");
        transport.update(&secret, &live).await.unwrap();
        transport.delete(&created[1], Propagation::Background).await.unwrap();
        let names: Vec<Value> =
            transport.state.lock().objects.iter().map(|recorded| recorded.object.clone()).collect();
        assert_eq!(names, [created[0].clone(), created[2].clone(), secret]);
    }
}
