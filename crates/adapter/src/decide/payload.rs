//! Builds the payload of a report. A value that cannot be computed never loses the report: it becomes its default or null,
//! and a condition that it belongs to says why.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::lookup::lookup;
use crate::config::{Build, ValueSource};

const EXPRESSION_FAILED: &str = "ExpressionFailed";

/// Why the execution failed before the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A word for the condition.
    pub reason: String,
    /// The error.
    pub message: String,
    /// Whether the object is not in the wanted state, so that it must not be reported as available.
    pub must_report_unavailable: bool,
}

/// A payload, and the values in it that could not be computed.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    /// The payload.
    pub payload: Value,
    /// Each error with the path of its value.
    pub errors: Vec<String>,
}

/// Builds a payload.
pub fn build_payload(
    build: &Build,
    variables: &Map<String, Value>,
    now: Timestamp,
    failure: Option<&Failure>,
) -> Built {
    let mut builder = Builder { scope: Value::Object(variables.clone()), variables, now, errors: Vec::new() };
    let mut payload = builder.build(build, "");
    let errors = builder.errors;
    if let Some(report) = payload.as_object_mut() {
        complete_report(report, variables, &errors, failure);
    }
    Built { payload, errors }
}

struct Builder<'v> {
    /// The variables as templates see them.
    scope: Value,
    variables: &'v Map<String, Value>,
    now: Timestamp,
    errors: Vec<String>,
}

impl Builder<'_> {
    fn build(&mut self, build: &Build, path: &str) -> Value {
        match build {
            Build::Literal(value) => value.clone(),
            Build::Text(template) => match template.render(&self.scope, self.now) {
                Ok(text) => Value::String(text),
                Err(error) => self.failed(path, &error.to_string(), None),
            },
            Build::Value(source, default) => self.value(source, default.as_ref(), path),
            Build::List(items) => {
                let items = items.iter().enumerate();
                Value::Array(
                    items.map(|(index, item)| self.build(item, &format!("{path}[{index}]"))).collect(),
                )
            }
            Build::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    (key.clone(), self.build(value, &path))
                });
                Value::Object(entries.collect())
            }
        }
    }

    fn value(&mut self, source: &ValueSource, default: Option<&Value>, path: &str) -> Value {
        let found = match source {
            ValueSource::Field(field) => Ok(lookup(self.variables, field).cloned().unwrap_or_default()),
            ValueSource::Expression(expression) => {
                expression.evaluate(self.variables, self.now).map_err(|error| error.to_string())
            }
        };
        match found {
            Ok(Value::Null) => default.cloned().unwrap_or_default(),
            Ok(value) => value,
            Err(error) => self.failed(path, &error, default),
        }
    }

    fn failed(&mut self, path: &str, error: &str, default: Option<&Value>) -> Value {
        if let Some(default) = default {
            return default.clone();
        }
        self.errors.push(format!("{path}: {error}"));
        Value::Null
    }
}

/// Makes a report complete: conditions have a status, and a failed execution is never available.
fn complete_report(
    report: &mut Map<String, Value>,
    variables: &Map<String, Value>,
    errors: &[String],
    failure: Option<&Failure>,
) {
    if report.get("observed_generation").is_some_and(Value::is_null)
        && let Some(generation) = lookup(variables, "event.generation").filter(|value| value.is_number())
    {
        report.insert("observed_generation".to_owned(), generation.clone());
    }
    let conditions = report.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten();
    for (index, condition) in conditions.enumerate() {
        let Some(condition) = condition.as_object_mut() else { continue };
        let prefix = format!("conditions[{index}]");
        let error = errors.iter().find(|error| error.starts_with(&prefix));
        complete_condition(condition, error.map(String::as_str), failure);
    }
}

fn complete_condition(condition: &mut Map<String, Value>, error: Option<&str>, failure: Option<&Failure>) {
    let kind = condition.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_mandatory = matches!(kind.as_str(), "Available" | "Applied" | "Health");
    let status = condition.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    let must_be_false = matches!(kind.as_str(), "Available" | "Health")
        && failure.is_some_and(|failure| failure.must_report_unavailable);
    if must_be_false && status != "False" {
        let failure = failure.cloned().unwrap_or(Failure {
            reason: EXPRESSION_FAILED.to_owned(),
            message: String::new(),
            must_report_unavailable: true,
        });
        condition.insert("status".to_owned(), json!("False"));
        condition.insert("reason".to_owned(), json!(failure.reason));
        condition.insert("message".to_owned(), json!(failure.message));
    } else if status.is_empty() && condition.contains_key("status") {
        condition.insert("status".to_owned(), json!(if is_mandatory { "False" } else { "Unknown" }));
    }
    let message = error.unwrap_or("the expression has no value");
    // Values that are missing because of the failure are explained by it.
    let (reason, message) = match failure.filter(|_| must_be_false) {
        Some(failure) => (failure.reason.as_str(), failure.message.as_str()),
        None => (EXPRESSION_FAILED, message),
    };
    for (field, value) in [("reason", reason), ("message", message)] {
        if condition.get(field).is_some_and(Value::is_null) {
            condition.insert(field.to_owned(), json!(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::Expression;
    use crate::template::Template;

    fn variables() -> Map<String, Value> {
        let value = json!({"event": {"generation": 4}, "name": "n", "resources": {}});
        value.as_object().cloned().unwrap()
    }

    fn expression(text: &str, default: Option<Value>) -> Build {
        let expression = Expression::compile(text, &["event", "name", "resources", "missing"]).unwrap();
        Build::Value(ValueSource::Expression(expression), default)
    }

    fn condition(kind: &str, status: Build) -> Build {
        let entry = |name: &str, value: Build| (name.to_owned(), value);
        let text = |text: &str| Build::Literal(json!(text));
        Build::Map(vec![
            entry("type", text(kind)),
            entry("status", status),
            entry("reason", expression("missing.reason", None)),
            entry("message", text("m")),
        ])
    }

    fn built(build: Build, failure: Option<&Failure>) -> Built {
        build_payload(&build, &variables(), Timestamp::UNIX_EPOCH, failure)
    }

    #[test]
    fn leaves_are_literals_templates_expressions_and_fields() {
        let field = |path: &str, default| Build::Value(ValueSource::Field(path.to_owned()), default);
        let build = Build::Map(vec![
            ("literal".to_owned(), Build::Literal(json!(1))),
            ("text".to_owned(), Build::Text(Template::compile("{{ .name }}!").unwrap())),
            ("number".to_owned(), expression("event.generation + 1", None)),
            ("default".to_owned(), expression("missing.x", Some(json!("d")))),
            ("field".to_owned(), field("event.generation", None)),
            ("absent".to_owned(), field("event.nope", Some(json!("f")))),
            ("list".to_owned(), Build::List(vec![Build::Literal(json!(true))])),
        ]);
        let Built { payload, errors } = built(build, None);
        let expected = json!({"literal": 1, "text": "n!", "number": 5, "default": "d", "field": 4, "absent": "f", "list": [true]});
        assert_eq!((payload, errors), (expected, Vec::<String>::new()));
    }

    #[test]
    fn expression_that_fails_marks_its_condition_and_keeps_the_report() {
        let build = Build::Map(vec![
            ("observed_generation".to_owned(), expression("missing", None)),
            (
                "conditions".to_owned(),
                Build::List(vec![
                    condition("Available", expression("missing.status", None)),
                    condition("Extra", expression("missing.status", None)),
                ]),
            ),
        ]);
        let Built { payload, errors } = built(build, None);
        assert_eq!(payload["observed_generation"], 4);
        assert_eq!(payload["conditions"][0]["status"], "False");
        assert_eq!(payload["conditions"][0]["reason"], "ExpressionFailed");
        assert_eq!(payload["conditions"][1]["status"], "Unknown");
        assert_eq!(errors.len(), 5, "{errors:?}");
        assert!(errors[1].starts_with("conditions[0].status: "), "{errors:?}");
    }

    #[test]
    fn failed_execution_is_never_available() {
        let failure = |must_report_unavailable| Failure {
            reason: "ParamFailed".to_owned(),
            message: "no cluster".to_owned(),
            must_report_unavailable,
        };
        let literal = |text: &str| Build::Literal(json!(text));
        for (kind, status, forced, expected) in [
            ("Available", "True", true, ("False", "ParamFailed")),
            ("Available", "Unknown", true, ("False", "ParamFailed")),
            ("Available", "False", true, ("False", "ParamFailed")),
            ("Health", "True", true, ("False", "ParamFailed")),
            ("Applied", "True", true, ("True", "ExpressionFailed")),
            ("Available", "Unknown", false, ("Unknown", "ExpressionFailed")),
            ("Available", "True", false, ("True", "ExpressionFailed")),
        ] {
            let build = Build::Map(vec![(
                "conditions".to_owned(),
                Build::List(vec![condition(kind, literal(status))]),
            )]);
            let built = built(build, Some(&failure(forced)));
            let condition = &built.payload["conditions"][0];
            let found = (condition["status"].as_str().unwrap(), condition["reason"].as_str().unwrap());
            assert_eq!(found, expected, "{kind} {status} {forced}");
        }
    }
}
