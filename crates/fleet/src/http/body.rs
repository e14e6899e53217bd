//! Parses and validates request bodies. All errors of fields are collected, so that the response lists all of them.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bellwether_conditions::Status;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};

use super::labels;
use super::layers::TooLarge;
use super::problem::{Code, Constraint, FieldError, Problem};
use super::routes::Operation;
use crate::decide::Patch;
use crate::kinds::Kind;
use crate::resource::{Report, ReportedCondition};
use crate::search::literal::is_rfc3339;
use crate::writer::microseconds;

/// The default limit of bodies in bytes.
pub(crate) const LARGEST: usize = 1024 * 1024;
/// How far in the future an observed time may be.
pub(crate) const AHEAD: SignedDuration = SignedDuration::from_mins(5);
/// How far in the past an observed time may be.
pub(crate) const BEHIND: SignedDuration = SignedDuration::from_mins(30);
/// The maximum number of conditions of a report.
pub(crate) const MOST_CONDITIONS: usize = 100;
/// The maximum length of the name of an adapter or condition.
pub(crate) const LONGEST_NAME: usize = 253;
/// The maximum length of the reason of a force-delete.
pub(crate) const LONGEST_REASON: usize = 1024;
/// The pattern of text that is not only white space.
pub(crate) const NOT_BLANK: &str =
    r"[^\u0009-\u000d\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";
/// The pattern of the name of a resource.
pub(crate) const NAME_PATTERN: &str = "^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$";
/// The largest generation, and the largest number of attempts.
pub(crate) const LARGEST_COUNT: i64 = i32::MAX as i64;
/// Fields that the server sets. They are accepted and ignored in new resources, so that the response of a GET can be posted again.
pub(crate) const SET_BY_SERVER: [&str; 12] = [
    "id",
    "href",
    "generation",
    "status",
    "tenancy",
    "owner_references",
    "created_time",
    "created_by",
    "updated_time",
    "updated_by",
    "deleted_time",
    "deleted_by",
];
/// The fields of the metadata of a report: strings, and a number.
pub(crate) const METADATA_TEXT: [&str; 5] =
    ["job_name", "job_namespace", "started_time", "completed_time", "duration"];
pub(crate) const METADATA_COUNT: &str = "attempt";

/// The media types of the body of an operation.
pub(crate) const fn media_types(operation: Operation) -> &'static [&'static str] {
    match operation {
        Operation::Create | Operation::ForceDelete | Operation::Report => &["application/json"],
        Operation::Patch => &["application/json", "application/merge-patch+json"],
        _ => &[],
    }
}

/// Reads the JSON object of a request body.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    operation: Operation,
) -> Result<Map<String, Value>, Problem> {
    // Only JSON is accepted: a browser sends other media types to another site without a preflight request.
    let media_type =
        headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if !media_types(operation).contains(&essence.as_str()) {
        return Err(Problem::new(
            Code::MediaType,
            format!(
                "the body must be JSON with the header Content-Type: application/json, not {media_type:?}"
            ),
        ));
    }
    let bytes =
        body.collect().await.map_err(|error| match error.into_inner().downcast_ref::<TooLarge>() {
            Some(too_large) => Problem::new(Code::TooLarge, too_large.to_string()),
            None => malformed("the body ended before it was complete"),
        })?;
    let bytes = bytes.to_bytes();
    if bytes.is_empty() {
        return Err(malformed("the body is empty; a JSON object is expected"));
    }
    let value: Value = serde_json::from_slice(&bytes)
        .map_err(|error| malformed(format!("the body is not JSON: {error}")))?;
    match value {
        Value::Object(members) if !has_nul(&members) => Ok(members),
        Value::Object(_) => Err(malformed("the body contains the character U+0000, which cannot be stored")),
        other => Err(malformed(format!("the body is {}; a JSON object is expected", name_of(&other)))),
    }
}

fn has_nul(members: &Map<String, Value>) -> bool {
    fn in_value(value: &Value) -> bool {
        match value {
            Value::String(text) => text.contains('\0'),
            Value::Array(items) => items.iter().any(in_value),
            Value::Object(members) => has_nul(members),
            _ => false,
        }
    }
    members.iter().any(|(key, value)| key.contains('\0') || in_value(value))
}

fn malformed(detail: impl Into<String>) -> Problem {
    Problem::new(Code::Malformed, detail)
}

fn name_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The members of an object, which are removed one by one, and the errors of fields.
struct Members {
    members: Map<String, Value>,
    /// The prefix of the names of fields.
    path: String,
    errors: Vec<FieldError>,
}

impl Members {
    fn of(members: Map<String, Value>) -> Self {
        Self { members, path: String::new(), errors: Vec::new() }
    }

    fn wrong(&mut self, field: &str, constraint: Constraint, message: impl Into<String>) {
        self.wrong_value(field, None, constraint, message);
    }

    fn wrong_value(
        &mut self,
        field: &str,
        value: Option<Value>,
        constraint: Constraint,
        message: impl Into<String>,
    ) {
        let field = format!("{}{field}", self.path);
        self.errors.push(FieldError { field, message: message.into(), value, constraint: Some(constraint) });
    }

    /// Removes a member that is present and not null.
    fn take(&mut self, field: &str) -> Option<Value> {
        self.members.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &str) -> Option<String> {
        match self.take(field)? {
            Value::String(text) => Some(text),
            _ => {
                let message = format!("field '{}{field}' must be a string", self.path);
                self.wrong(field, Constraint::Format, message);
                None
            }
        }
    }

    fn object(&mut self, field: &str) -> Option<Map<String, Value>> {
        match self.take(field)? {
            Value::Object(members) => Some(members),
            _ => {
                let message = format!("field '{}{field}' must be an object", self.path);
                self.wrong(field, Constraint::Format, message);
                None
            }
        }
    }

    /// A required string that is not empty.
    fn name(&mut self, field: &str) -> Option<String> {
        let absent = self.members.get(field).is_none_or(Value::is_null);
        let text = self.text(field);
        match &text {
            Some(name) if name.is_empty() => {
                self.wrong(field, Constraint::Required, format!("{}{field} must not be empty", self.path));
                None
            }
            Some(name) if name.chars().count() > LONGEST_NAME => {
                let message = format!("{}{field} must have at most {LONGEST_NAME} characters", self.path);
                self.wrong(field, Constraint::MaxLength, message);
                None
            }
            None if absent => {
                self.wrong(field, Constraint::Required, format!("{}{field} is required", self.path));
                None
            }
            _ => text,
        }
    }

    /// The error for the first unknown member.
    fn unknown(&self) -> Option<Problem> {
        let (first, _) = self.members.iter().next()?;
        Some(malformed(format!("unknown field '{}{first}'", self.path)))
    }

    fn finish<T>(self, made: Option<T>) -> Result<T, Problem> {
        match made {
            Some(made) if self.errors.is_empty() => Ok(made),
            _ => Err(Problem::of_fields(Code::Validation, self.errors)),
        }
    }
}

/// The fields of a new resource.
#[derive(Debug, PartialEq)]
pub(crate) struct NewResource {
    pub(crate) name: String,
    pub(crate) spec: Map<String, Value>,
    pub(crate) labels: BTreeMap<String, String>,
}

/// The kind in a body.
pub(crate) fn kind_of(members: &Map<String, Value>) -> Result<&str, Problem> {
    let wrong = |message: &str, constraint| {
        let error = FieldError {
            field: "kind".to_owned(),
            message: message.to_owned(),
            value: None,
            constraint: Some(constraint),
        };
        Problem::of_fields(Code::Validation, vec![error])
    };
    match members.get("kind") {
        None | Some(Value::Null) => Err(wrong("kind is required", Constraint::Required)),
        Some(Value::String(kind)) if kind.is_empty() => Err(wrong("kind is required", Constraint::Required)),
        Some(Value::String(kind)) => Ok(kind),
        Some(_) => Err(wrong("field 'kind' must be a string", Constraint::Format)),
    }
}

/// A new resource of a kind.
pub(crate) fn create(members: Map<String, Value>, kind: &Kind) -> Result<NewResource, Problem> {
    if kind_of(&members)? != kind.name {
        let error = FieldError {
            field: "kind".to_owned(),
            message: format!("kind must be '{}'", kind.name),
            value: members.get("kind").cloned(),
            constraint: Some(Constraint::Enum),
        };
        return Err(Problem::of_fields(Code::Validation, vec![error]));
    }
    let mut members = Members::of(members);
    for field in SET_BY_SERVER.into_iter().chain(["kind"]) {
        members.members.remove(field);
    }
    let name = name(&mut members, kind);
    let spec = required_spec(&mut members, kind);
    let labels = labels_of(&mut members).unwrap_or_default();
    if let Some(problem) = members.unknown() {
        return Err(problem);
    }
    let made = match (name, spec) {
        (Some(name), Some(spec)) => Some(NewResource { name, spec, labels }),
        _ => None,
    };
    members.finish(made)
}

fn name(members: &mut Members, kind: &Kind) -> Option<String> {
    let name = members.name("name")?;
    let length = name.chars().count();
    let (least, most) = (*kind.name_length.start(), *kind.name_length.end());
    let edge = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let inner = |letter: char| edge(letter) || letter == '-';
    let well_formed = name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner);
    let (constraint, message) = if length < least {
        (Constraint::MinLength, format!("name must have at least {least} characters"))
    } else if length > most {
        (Constraint::MaxLength, format!("name must have at most {most} characters"))
    } else if !well_formed {
        let message = "name must consist of lower-case letters, digits and dashes, and begin and end with a letter or a digit";
        (Constraint::Pattern, message.to_owned())
    } else {
        return Some(name);
    };
    members.wrong_value("name", Some(Value::String(name)), constraint, message);
    None
}

fn required_spec(members: &mut Members, kind: &Kind) -> Option<Map<String, Value>> {
    if !members.members.contains_key("spec") {
        members.wrong("spec", Constraint::Required, "spec is required");
        return None;
    }
    spec(members, kind)
}

fn spec(members: &mut Members, kind: &Kind) -> Option<Map<String, Value>> {
    let value = members.members.remove("spec")?;
    if !value.is_object() {
        members.wrong("spec", Constraint::Format, "spec field must be an object");
        return None;
    }
    if let Some(schema) = &kind.spec_schema {
        for error in schema.iter_errors(&value) {
            let path = error.instance_path().as_str().replace('/', ".");
            let message = format!("Invalid {}Spec: {error}", kind.name);
            members.errors.push(FieldError {
                field: format!("spec{path}"),
                message,
                value: None,
                constraint: None,
            });
        }
    }
    match value {
        Value::Object(spec) => Some(spec),
        _ => None,
    }
}

fn labels_of(members: &mut Members) -> Option<BTreeMap<String, String>> {
    let given = members.object("labels")?;
    let mut labels = BTreeMap::new();
    for (key, value) in given {
        let field = format!("labels.{key}");
        let Value::String(text) = value else {
            members.wrong(&field, Constraint::Format, format!("the value of label {key:?} must be a string"));
            continue;
        };
        if let Some(message) = labels::wrong_key(&key).or_else(|| labels::wrong_value(&text)) {
            members.wrong_value(
                &field,
                Some(Value::String(text)),
                Constraint::Pattern,
                format!("label {key:?}: {message}"),
            );
            continue;
        }
        labels.insert(key, text);
    }
    Some(labels)
}

/// Parses a change of a resource.
pub(crate) fn patch(members: Map<String, Value>, kind: &Kind) -> Result<Patch, Problem> {
    let mut members = Members::of(members);
    // Null means no change.
    members.members.retain(|field, value| !value.is_null() || !matches!(field.as_str(), "spec" | "labels"));
    let patch = Patch { spec: spec(&mut members, kind), labels: labels_of(&mut members) };
    if let Some(problem) = members.unknown() {
        return Err(problem);
    }
    if patch == Patch::default() && members.errors.is_empty() {
        let detail = "at least one field must be provided for update: spec or labels";
        return Err(Problem::new(Code::BadRequest, detail));
    }
    members.finish(Some(patch))
}

/// Parses the reason of a force-delete.
pub(crate) fn force_delete(members: Map<String, Value>) -> Result<String, Problem> {
    let mut members = Members::of(members);
    let reason = members.text("reason").unwrap_or_default();
    if let Some(problem) = members.unknown() {
        return Err(problem);
    }
    if members.errors.is_empty() && reason.trim().is_empty() {
        members.wrong("reason", Constraint::Required, "reason is required: why no cleanup is needed");
    }
    if reason.chars().count() > LONGEST_REASON {
        let message = format!("reason must have at most {LONGEST_REASON} characters");
        members.wrong("reason", Constraint::MaxLength, message);
    }
    members.finish(Some(reason))
}

/// Parses a report. Unknown members are ignored: a report must not be lost because an adapter knows more fields.
pub(crate) fn report(members: Map<String, Value>, now: Timestamp) -> Result<Report, Problem> {
    let mut members = Members::of(members);
    let adapter = members.name("adapter");
    let observed_generation = observed_generation(&mut members);
    let observed_time = observed_time(&mut members, now);
    let conditions = conditions(&mut members);
    let data = members.object("data");
    let metadata = metadata(&mut members);
    let made = match (adapter, observed_generation, observed_time, conditions) {
        (Some(adapter), Some(observed_generation), Some(observed_time), Some(conditions)) => {
            Some(Report { adapter, observed_generation, observed_time, conditions, data, metadata })
        }
        _ => None,
    };
    members.finish(made)
}

/// An integer; in JSON 1.0 is an integer, too.
fn integer(value: &Value) -> Option<i64> {
    let from_float = || value.as_f64().filter(|float| float.fract() == 0.0).map(|float| float as i64);
    value.as_i64().or_else(from_float)
}

fn observed_generation(members: &mut Members) -> Option<i64> {
    const FIELD: &str = "observed_generation";
    let Some(value) = members.take(FIELD) else {
        members.wrong(FIELD, Constraint::Required, "observed_generation is required");
        return None;
    };
    match integer(&value) {
        Some(generation @ 1..=LARGEST_COUNT) => return Some(generation),
        Some(generation) if generation < 1 => {
            members.wrong_value(
                FIELD,
                Some(value),
                Constraint::Min,
                "observed_generation must be at least 1",
            );
        }
        Some(_) => {
            members.wrong_value(
                FIELD,
                Some(value),
                Constraint::Max,
                format!("observed_generation must be at most {LARGEST_COUNT}"),
            );
        }
        None => members.wrong_value(
            FIELD,
            Some(value),
            Constraint::Format,
            "observed_generation must be an integer",
        ),
    }
    None
}

fn observed_time(members: &mut Members, now: Timestamp) -> Option<Timestamp> {
    const FIELD: &str = "observed_time";
    if members.members.get(FIELD).is_none_or(Value::is_null) {
        members.members.remove(FIELD);
        return Some(now);
    }
    let text = members.text(FIELD)?;
    let parsed = Some(&text).filter(|text| is_rfc3339(text)).and_then(|text| text.parse::<Timestamp>().ok());
    let (constraint, message) = match parsed.map(microseconds) {
        None => (Constraint::Format, "observed_time must be a time such as 2026-05-01T06:07:53Z"),
        Some(time) if time.duration_since(now) > AHEAD => {
            (Constraint::Max, "observed_time must not be more than 5m0s in the future")
        }
        Some(time) if now.duration_since(time) > BEHIND => {
            (Constraint::Min, "observed_time must not be more than 30m0s in the past")
        }
        Some(time) => return Some(time),
    };
    members.wrong_value(FIELD, Some(Value::String(text)), constraint, message);
    None
}

fn conditions(members: &mut Members) -> Option<Vec<ReportedCondition>> {
    const FIELD: &str = "conditions";
    let items = match members.take(FIELD) {
        Some(Value::Array(items)) => items,
        Some(_) => {
            members.wrong(FIELD, Constraint::Format, "field 'conditions' must be a list");
            return None;
        }
        None => {
            members.wrong(FIELD, Constraint::Required, "conditions is required");
            return None;
        }
    };
    if items.len() > MOST_CONDITIONS {
        let message = format!("conditions must have at most {MOST_CONDITIONS} items");
        members.wrong(FIELD, Constraint::Max, message);
        return None;
    }
    let mut conditions: Vec<ReportedCondition> = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let path = format!("conditions[{index}]");
        let Value::Object(item) = item else {
            members.wrong(&path, Constraint::Format, format!("field '{path}' must be an object"));
            continue;
        };
        let mut item = Members { members: item, path: format!("{path}."), errors: Vec::new() };
        let condition = condition(&mut item);
        members.errors.append(&mut item.errors);
        let Some(condition) = condition else { continue };
        if conditions.iter().any(|other| other.type_ == condition.type_) {
            let message = format!("duplicate condition type '{}'", condition.type_);
            members.wrong(&format!("{path}.type"), Constraint::Unique, message);
            continue;
        }
        conditions.push(condition);
    }
    Some(conditions)
}

fn condition(item: &mut Members) -> Option<ReportedCondition> {
    let type_ = item.name("type");
    let status = item.name("status");
    let (reason, message) = (item.text("reason"), item.text("message"));
    let status = match status?.as_str() {
        "True" => Status::True,
        "False" => Status::False,
        "Unknown" => Status::Unknown,
        other => {
            let message = format!("{}status must be True, False or Unknown", item.path);
            item.wrong_value("status", Some(Value::String(other.to_owned())), Constraint::Enum, message);
            return None;
        }
    };
    Some(ReportedCondition { type_: type_?, status, reason, message })
}

fn metadata(members: &mut Members) -> Option<Map<String, Value>> {
    let given = members.object("metadata")?;
    let mut given = Members { members: given, path: "metadata.".to_owned(), errors: Vec::new() };
    let mut metadata = Map::new();
    for field in METADATA_TEXT {
        if let Some(text) = given.text(field) {
            metadata.insert(field.to_owned(), Value::String(text));
        }
    }
    match given.take(METADATA_COUNT).map(|count| integer(&count)) {
        Some(Some(count @ 0..=LARGEST_COUNT)) => {
            metadata.insert(METADATA_COUNT.to_owned(), Value::from(count));
        }
        Some(_) => {
            let message = format!("field 'metadata.attempt' must be an integer from 0 to {LARGEST_COUNT}");
            given.wrong(METADATA_COUNT, Constraint::Format, message);
        }
        None => {}
    }
    members.errors.append(&mut given.errors);
    Some(metadata)
}
