//! Asking both servers the same and telling what differs.
//!
//! What is taken out before comparing: uids, resourceVersions, times and managedFields; the order of causes, which is
//! that of Go's maps, and that of warnings of formats; the internal form of a definition and the patched object that a
//! cause quotes; and, where there are causes, the message of the Status, which repeats them.

use std::collections::BTreeMap;

use bellwether_testkit::{Answer, Call, Cluster};
use futures::StreamExt as _;
use serde_json::{Value, json};

use crate::exceptions::Exception;

/// How many requests are on their way at once.
const AT_ONCE: usize = 16;

/// Both servers.
pub(crate) struct Both {
    pub(crate) kubernetes: Cluster,
    pub(crate) ours: Cluster,
}

/// The same request to both.
pub(crate) struct Pair {
    /// What sort of pair it is, for counting.
    pub(crate) sort: &'static str,
    /// What a reader needs to know to understand a difference: seed, schema, value.
    pub(crate) about: String,
    pub(crate) call: Call,
}

/// What came of many pairs.
#[derive(Default)]
pub(crate) struct Tally {
    /// Of each sort: how many pairs, and how many of them both servers accepted.
    ran: BTreeMap<&'static str, (usize, usize)>,
    excepted: BTreeMap<&'static str, usize>,
    differences: Vec<String>,
}

impl Both {
    /// Does the same with both.
    pub(crate) async fn each(&self, ask: impl AsyncFn(&Cluster) -> Answer) -> (Answer, Answer) {
        (ask(&self.kubernetes).await, ask(&self.ours).await)
    }

    /// Sends pairs, several at once, and tells which of them both servers accepted.
    pub(crate) async fn compare(&self, pairs: Vec<Pair>, tally: &mut Tally) -> Vec<bool> {
        let mut accepted = Vec::new();
        let mut answers = futures::stream::iter(pairs)
            .map(|pair| async move {
                let (theirs, ours) =
                    tokio::join!(self.kubernetes.send(pair.call.clone()), self.ours.send(pair.call.clone()));
                (pair, theirs, ours)
            })
            .buffered(AT_ONCE);
        while let Some((pair, theirs, ours)) = answers.next().await {
            tally.judge(pair.sort, &pair.about, &theirs, &ours);
            accepted.push(theirs.status < 300 && ours.status < 300);
        }
        accepted
    }
}

impl Tally {
    /// Compares two answers.
    pub(crate) fn judge(&mut self, sort: &'static str, about: &str, theirs: &Answer, ours: &Answer) {
        let ran = self.ran.entry(sort).or_default();
        ran.0 += 1;
        ran.1 += usize::from(theirs.status < 300 && ours.status < 300);
        self.compare(sort, about, &judgement(theirs), &judgement(ours));
    }

    /// Compares two answers with who owns what in them, whether what was there stayed as it was, and a note.
    pub(crate) fn judge_owners(
        &mut self,
        sort: &'static str,
        about: &str,
        theirs: &Owned<'_>,
        ours: &Owned<'_>,
    ) {
        let ran = self.ran.entry(sort).or_default();
        ran.0 += 1;
        ran.1 += usize::from(theirs.answer.status < 300 && ours.answer.status < 300);
        self.compare(sort, about, &theirs.judgement(), &ours.judgement());
    }

    fn compare(&mut self, sort: &'static str, about: &str, theirs: &Value, ours: &Value) {
        if theirs == ours {
            return;
        }
        match Exception::covering(about, theirs, ours) {
            Some(exception) => *self.excepted.entry(exception.name).or_default() += 1,
            None => self.differences.push(format!("{sort}: {about}\n{}", contrast(theirs, ours))),
        }
    }

    /// Says what ran, and panics with all that differs.
    pub(crate) fn finish(self, at_least: usize) {
        let total: usize = self.ran.values().map(|(pairs, _)| pairs).sum();
        for (sort, (pairs, accepted)) in &self.ran {
            println!("{pairs:6} pairs of {sort}, {accepted} accepted by both");
        }
        for (exception, count) in &self.excepted {
            println!("{count:6} answers differ as {exception} says");
        }
        println!("{total:6} pairs in all, {} differ", self.differences.len());
        assert!(total >= at_least, "only {total} pairs ran");
        assert!(
            self.differences.is_empty(),
            "{} of {total} answers differ:\n\n{}",
            self.differences.len(),
            self.differences.join("\n\n")
        );
    }
}

/// An answer whose managedFields count.
pub(crate) struct Owned<'a> {
    pub(crate) answer: &'a Answer,
    /// The object as it was before.
    pub(crate) before: &'a Value,
}

impl Owned<'_> {
    fn judgement(&self) -> Value {
        let mut judgement = judgement(self.answer);
        let body = self.answer.json();
        let revision = |object: &Value| object["metadata"]["resourceVersion"].clone();
        judgement["managed"] = masked(&body["metadata"]["managedFields"]);
        judgement["unchanged"] = (revision(&body) == revision(self.before)).into();
        judgement
    }
}

/// Entries with every time of today as one, and without what Kubernetes' admission adds to pods.
fn masked(entries: &Value) -> Value {
    let mut entries = entries.clone();
    for entry in entries.as_array_mut().into_iter().flatten() {
        if let Some(Value::Object(spec)) = entry.pointer_mut("/fieldsV1/f:spec") {
            spec.retain(|key, _| !["f:priority", "f:preemptionPolicy"].contains(&key.as_str()));
        }
        if entry["time"].as_str().is_some_and(|time| !time.starts_with("2020-")) {
            entry["time"] = "now".into();
        }
    }
    entries
}

/// Only what differs between two judgements.
fn contrast(theirs: &Value, ours: &Value) -> String {
    let mut lines = Vec::new();
    for key in ["code", "warnings", "causes", "body", "managed", "unchanged"] {
        let (theirs, ours) = (&theirs[key], &ours[key]);
        match (theirs.as_array(), ours.as_array()) {
            _ if theirs == ours => {}
            (Some(theirs), Some(ours)) => {
                let only = |mine: &[Value], others: &[Value]| {
                    mine.iter().filter(|one| !others.contains(one)).cloned().collect::<Value>()
                };
                lines.push(format!("    kubernetes' {key}: {}", only(theirs, ours)));
                lines.push(format!("    our         {key}: {}", only(ours, theirs)));
            }
            _ => {
                lines.push(format!("    kubernetes' {key}: {theirs}"));
                lines.push(format!("    our         {key}: {ours}"));
            }
        }
    }
    lines.join("\n")
}

/// An answer without what is random or a matter of order.
pub(crate) fn judgement(answer: &Answer) -> Value {
    let mut body = answer.json();
    if body.is_null() {
        body = answer.text().into();
    }
    strip(&mut body);
    let mut causes = body["details"]["causes"].take();
    if let Value::Array(causes) = &mut causes {
        for cause in causes.iter_mut() {
            unquote(cause);
        }
        causes.sort_by_key(Value::to_string);
        let message = body["message"].as_str().unwrap_or_default();
        let lead = message.split(" is invalid: ").next().unwrap_or_default().to_owned();
        body["message"] = lead.into();
    }
    let warnings = answer.headers.get_all("warning").iter().map(|value| value.as_bytes());
    let mut warnings: Vec<String> =
        warnings.map(|warning| String::from_utf8_lossy(warning).into_owned()).collect();
    // Formats are found in the order of Go's maps.
    if warnings.iter().any(|warning| warning.contains("unrecognized format")) {
        warnings.sort();
    }
    json!({"code": answer.status, "warnings": warnings, "causes": causes, "body": body})
}

/// Where Kubernetes quotes its internal form of a definition, only what it says of it counts.
fn unquote(cause: &mut Value) {
    let field = cause["field"].as_str().unwrap_or_default();
    // Nor does ours quote the object that a failed patch would have made.
    if field == "patch" {
        let message = cause["message"].as_str().unwrap_or_default();
        let said = message
            .split_once("}\": ")
            .or(message.split_once("<patched object>\": "))
            .map(|(_, said)| said.to_owned());
        cause["message"] = said.into();
        return;
    }
    // Nor what changed in a pod that cannot.
    if let Some((said, _)) = cause["message"].as_str().and_then(|message| message.split_once("\n@@ ")) {
        cause["message"] = said.into();
        return;
    }
    let whole = field == "spec.versions" || field.ends_with(".openAPIV3Schema");
    let message = cause["message"].as_str().unwrap_or_default();
    let said = match (message.find(": "), message.rfind("]: ").or(message.rfind("}: "))) {
        (Some(start), Some(end)) if whole && end > start => {
            format!("{}{}", &message[..start], &message[end + 1..])
        }
        _ => return,
    };
    cause["message"] = said.into();
}

fn strip(value: &mut Value) {
    const RANDOM: [&str; 5] =
        ["uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime"];
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.remove("managedFields");
        metadata.retain(|key, _| !RANDOM.contains(&key.as_str()));
    }
    // What Kubernetes' admission adds to pods.
    if value["kind"] == "Pod"
        && let Some(Value::Object(spec)) = value.get_mut("spec")
    {
        spec.retain(|key, _| !["priority", "preemptionPolicy"].contains(&key.as_str()));
    }
    if let Some(Value::Array(conditions)) = value.pointer_mut("/status/conditions") {
        for condition in conditions {
            if let Value::Object(condition) = condition {
                condition.remove("lastTransitionTime");
            }
        }
    }
}
