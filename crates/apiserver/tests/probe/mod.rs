//! The differential probe: the same raw requests to our server and to kube-apiserver, good and bad, on every kind.
//! The answers must be equal once what is random or a matter of time is taken out. It finds what nobody thought of.

pub(crate) mod access;
mod config;
mod events;
mod kinds;
mod options;
mod passive;
mod protobuf;

use bellwether_testkit::{Answer, Call, Cluster};
use serde_json::{Value, json};

use crate::behaviour::difference::Difference;

/// The namespace that the probe works in.
pub(crate) const NAMESPACE: &str = "probe";

/// One request, and the deliberate difference it meets, if any.
pub(crate) struct Step {
    call: Call,
    differs: Option<Difference>,
}

impl Step {
    /// The answers to this one differ, and that is on purpose.
    fn unlike(mut self, difference: Difference) -> Self {
        self.differs = Some(difference);
        self
    }

    fn accept(mut self, media: &str) -> Self {
        self.call = self.call.accept(media);
        self
    }

    fn raw(mut self, media: &str, body: impl Into<bytes::Bytes>) -> Self {
        self.call = self.call.body(media, body);
        self
    }
}

impl From<Call> for Step {
    fn from(call: Call) -> Self {
        Self { call, differs: None }
    }
}

fn get(path: impl Into<String>) -> Step {
    Call::get(path).into()
}

fn post(path: impl Into<String>, body: Value) -> Step {
    Call::post(path, &body).into()
}

fn put(path: impl Into<String>, body: Value) -> Step {
    Call::put(path, &body).into()
}

fn merge(path: impl Into<String>, body: Value) -> Step {
    Call::merge(path, &body).into()
}

fn json_patch(path: impl Into<String>, body: Value) -> Step {
    Call::json_patch(path, &body).into()
}

fn delete(path: impl Into<String>) -> Step {
    Call::delete(path).into()
}

/// A path inside the probe's namespace.
fn inside(path: &str) -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/{path}")
}

fn object(kind: &str, name: &str, rest: Value) -> Value {
    let mut object = json!({"kind": kind, "apiVersion": "v1", "metadata": {"name": name}});
    merge_into(&mut object, rest);
    object
}

fn merge_into(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge_into(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// Every request, in order: later ones build on earlier ones.
fn steps() -> Vec<Step> {
    let mut steps = config::steps();
    steps.extend(kinds::steps());
    steps.extend(events::steps());
    steps.extend(options::steps());
    steps.extend(passive::steps());
    steps.extend(protobuf::steps());
    steps
}

/// Sends everything to both and panics with all that differs.
pub(crate) async fn compare(kubernetes: &Cluster, ours: &Cluster) {
    let namespace = json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": NAMESPACE}});
    kubernetes.post("/api/v1/namespaces", &namespace).await.expect(201);
    ours.post("/api/v1/namespaces", &namespace).await.expect(201);
    let mut unequal = Vec::new();
    let steps = steps();
    let count = steps.len();
    for step in steps {
        let request = format!("{:?}", step.call);
        let (theirs, own) = (kubernetes.send(step.call.clone()).await, ours.send(step.call).await);
        let (theirs, own) = (normalised(&theirs), normalised(&own));
        match step.differs {
            None if theirs != own => {
                unequal.push(format!("{request}\n  kubernetes: {theirs}\n  ours:       {own}"));
            }
            Some(difference) if theirs == own => {
                unequal.push(format!("{request}\n  is listed as {difference:?}, but the answers are equal"));
            }
            _ => {}
        }
    }
    assert!(unequal.is_empty(), "{} of {count} answers differ:\n\n{}", unequal.len(), unequal.join("\n\n"));
}

/// An answer without what is random, a matter of time, or of no interest.
fn normalised(answer: &Answer) -> Value {
    // A watch is a document a line.
    let lines = serde_json::Deserializer::from_slice(&answer.body).into_iter::<Value>();
    let body = match lines.collect::<Result<Vec<Value>, _>>() {
        Ok(mut documents) => {
            documents.iter_mut().for_each(|document| strip(document, ""));
            documents.into()
        }
        Err(_) => Value::from(answer.text()),
    };
    let warnings: Vec<&str> =
        answer.headers.get_all("warning").iter().filter_map(|value| value.to_str().ok()).collect();
    json!({
        "status": answer.status,
        "type": answer.header("content-type"),
        "warnings": warnings,
        "body": body,
    })
}

fn strip(value: &mut Value, key: &str) {
    const RANDOM: [&str; 7] = [
        "ca.crt",
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "lastTransitionTime",
        "continue",
    ];
    match value {
        Value::Object(map) => {
            map.remove("managedFields");
            without_repetition(map.get_mut("causes"));
            // What is absent or null must be so on both; what is there is only known to be there.
            for (key, value) in map {
                if RANDOM.contains(&key.as_str()) && value.as_str().is_some_and(|text| !text.is_empty()) {
                    *value = "…".into();
                } else {
                    strip(value, key);
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                strip(item, key);
            }
        }
        Value::String(text) if key == "cells" && is_age(text) => *text = "<age>".into(),
        // The two servers may be asked on both sides of a second.
        Value::String(text) if key == "cells" && is_time(text) => *text = "<time>".into(),
        Value::String(_) if key == "description" => *value = "".into(),
        Value::String(text) if key == "message" => *text = comparable(text),
        _ => {}
    }
}

/// Kubernetes validates some things twice, and then names each cause twice.
fn without_repetition(causes: Option<&mut Value>) {
    let Some(Value::Array(causes)) = causes else { return };
    let mut seen: Vec<Value> = Vec::new();
    causes.retain(|cause| {
        let new = !seen.contains(cause);
        seen.push(cause.clone());
        new
    });
}

fn is_time(text: &str) -> bool {
    text.len() == "2006-01-02T15:04:05Z".len() && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// A message without the uids and revisions that it quotes, and without the lines of Kubernetes' source.
fn comparable(text: &str) -> String {
    let text = text.replace(" in scheme \"pkg/runtime/scheme.go:111\"", "");
    // Ours does not quote a patched object back.
    let text = match (text.find("Invalid value: \"{"), text.rfind("}\": ")) {
        (Some(start), Some(end)) if text.contains("patch: ") || text.starts_with("Invalid value: \"{") => {
            format!("{}Invalid value: \"<patched object>{}", &text[..start], &text[end + 1..])
        }
        _ => text,
    };
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let is_uid = bare.len() == 36 && bare.matches('-').count() == 4;
        let is_revision =
            word.starts_with('(') && !bare.is_empty() && bare.bytes().all(|b| b.is_ascii_digit());
        words.push(if is_uid || is_revision { word.replace(bare, "…") } else { word.into() });
    }
    words.join(" ")
}
