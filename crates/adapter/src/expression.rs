//! CEL with the functions of the adapter framework. Programs are compiled when the configuration is loaded.

use std::sync::Arc;

use bellwether_cel::{Call, CompileError, Environment, EvaluationError, VariableType};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// The name of the variable that carries the time into functions. Expressions cannot name it.
const NOW: &str = "now()";

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression(Arc<bellwether_cel::Expression>);

impl Expression {
    /// Parses and type-checks an expression that uses these variables.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let declared = variables.iter();
        let environment = declared
            .fold(environment(), |environment, name| environment.with_variable(*name, VariableType::Json));
        environment.compile(text).map(|expression| Self(Arc::new(expression)))
    }

    /// Like [`compile`](Self::compile), where every name is a variable: the fields of a response are only known at run time.
    pub fn compile_open(text: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let program = bellwether_cel::Program::parse(text)?;
        let found = program.identifiers().iter().map(String::as_str);
        let mut names: Vec<&str> = variables.iter().copied().chain(found).collect();
        names.sort_unstable();
        names.dedup();
        Self::compile(text, &names)
    }

    /// The text of the expression.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// Evaluates the expression.
    pub fn evaluate(&self, variables: &Map<String, Value>, now: Timestamp) -> Result<Value, EvaluationError> {
        let now = json!(now.to_string());
        let mut inputs: Vec<(&str, &Value)> =
            variables.iter().map(|(name, value)| (name.as_str(), value)).collect();
        inputs.push((NOW, &now));
        self.0.evaluate(&inputs)
    }

    /// Evaluates an expression whose value must be a bool.
    pub fn evaluate_bool(&self, variables: &Map<String, Value>, now: Timestamp) -> Result<bool, String> {
        match self.evaluate(variables, now) {
            Ok(Value::Bool(value)) => Ok(value),
            Ok(other) => Err(format!(
                "the expression {:?} must be true or false, and it is {other}",
                self.text().trim()
            )),
            Err(error) => Err(format!("the expression {:?} failed: {error}", self.text().trim())),
        }
    }
}

/// A function that expressions can call.
type Function = fn(&Call<'_>) -> Result<Value, String>;

/// The functions of the framework, with the number of their arguments.
const FUNCTIONS: [(&str, usize, Function); 6] = [
    ("now", 0, |call| Ok(call.variable(NOW).cloned().unwrap_or_default())),
    ("conditionStatus", 2, condition_status),
    ("conditionAge", 2, condition_age),
    ("stableFor", 3, stable_for),
    ("statusFeedbackValue", 2, status_feedback_value),
    ("triState", 2, tri_state),
];
/// The functions that the environment adds for JSON.
const JSON_FUNCTIONS: [&str; 2] = ["toJson", "dig"];

/// The names of the functions beside those of CEL in Kubernetes.
pub fn function_names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|(name, _, _)| *name).chain(JSON_FUNCTIONS).collect()
}

fn environment() -> Environment {
    FUNCTIONS
        .iter()
        .fold(Environment::new().with_json_functions(), |environment, (name, arguments, function)| {
            environment.with_function(*name, *arguments, *function)
        })
}

fn argument(call: &Call<'_>, index: usize) -> Value {
    call.arguments().get(index).cloned().unwrap_or_default()
}

fn condition_status(call: &Call<'_>) -> Result<Value, String> {
    let condition = condition(&argument(call, 0), &argument(call, 1), "conditionStatus")?;
    Ok(json!(condition.as_ref().and_then(status).unwrap_or("Unknown")))
}

fn condition_age(call: &Call<'_>) -> Result<Value, String> {
    let condition = condition(&argument(call, 0), &argument(call, 1), "conditionAge")?;
    Ok(json!(condition.as_ref().and_then(|condition| age(condition, call)).unwrap_or(-1)))
}

fn stable_for(call: &Call<'_>) -> Result<Value, String> {
    let condition = condition(&argument(call, 0), &argument(call, 1), "stableFor")?;
    let seconds = argument(call, 2).as_f64().ok_or("stableFor() takes seconds as its third argument")?;
    let is_stable = condition.is_some_and(|condition| {
        status(&condition) == Some("True") && age(&condition, call).is_some_and(|age| age as f64 >= seconds)
    });
    Ok(json!(is_stable))
}

fn status_feedback_value(call: &Call<'_>) -> Result<Value, String> {
    let name = argument(call, 1);
    let name = name.as_str().ok_or("statusFeedbackValue() takes a name as its second argument")?;
    Ok(json!(feedback_value(&argument(call, 0), name)))
}

fn tri_state(call: &Call<'_>) -> Result<Value, String> {
    match (argument(call, 0).as_bool(), argument(call, 1).as_bool()) {
        (Some(true), _) => Ok(json!("True")),
        (_, Some(true)) => Ok(json!("False")),
        (Some(_), Some(_)) => Ok(json!("Unknown")),
        _ => Err("triState() takes two bools".to_owned()),
    }
}

/// The condition of a type; conditions that are no list have none.
fn condition(conditions: &Value, kind: &Value, function: &str) -> Result<Option<Value>, String> {
    let kind =
        kind.as_str().ok_or_else(|| format!("{function}() takes a condition type as its second argument"))?;
    let found = conditions.as_array().into_iter().flatten();
    let mut found = found.filter(|condition| condition.get("type").and_then(Value::as_str) == Some(kind));
    Ok(found.next().cloned())
}

fn status(condition: &Value) -> Option<&str> {
    condition.get("status")?.as_str()
}

/// Seconds since the last transition, in the field name of the fleet API or of Kubernetes.
fn age(condition: &Value, call: &Call<'_>) -> Option<i64> {
    let time = condition.get("last_transition_time").or_else(|| condition.get("lastTransitionTime"))?;
    let since: Timestamp = time.as_str()?.parse().ok()?;
    let now: Timestamp = call.variable(NOW)?.as_str()?.parse().ok()?;
    Some(now.duration_since(since).as_secs())
}

/// The value of a status feedback as text; empty if there is none.
fn feedback_value(feedback: &Value, name: &str) -> String {
    let values = feedback.get("values").and_then(Value::as_array).into_iter().flatten();
    let found =
        values.filter(|value| value.get("name").and_then(Value::as_str) == Some(name)).find_map(|value| {
            let field = value.get("fieldValue")?;
            match field.get("type").and_then(Value::as_str) {
                Some("Integer") => field.get("integer").map(ToString::to_string),
                Some("Boolean") => field.get("boolean").map(ToString::to_string),
                Some("JsonRaw") => field.get("jsonRaw")?.as_str().map(str::to_owned),
                _ => field.get("string")?.as_str().map(str::to_owned),
            }
        });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Map<String, Value> {
        let conditions = json!([
            {"type": "Ready", "status": "True", "last_transition_time": "2026-01-01T00:00:00Z"},
            {"type": "Health", "status": "False", "lastTransitionTime": "2026-01-01T00:09:00Z"},
            {"type": "NoTime", "status": "True"},
        ]);
        let feedback = json!({"values": [
            {"name": "phase", "fieldValue": {"type": "String", "string": "Active"}},
            {"name": "replicas", "fieldValue": {"type": "Integer", "integer": 3}},
        ]});
        let value = json!({"conds": conditions, "fb": feedback, "resources": {"ns": {"metadata": {"name": "n"}}},
            "cluster": {"deleted_time": "2026-01-01T00:00:00Z", "generation": 2}, "adapter": {}});
        value.as_object().cloned().unwrap()
    }

    fn evaluate(text: &str) -> Result<Value, EvaluationError> {
        let expression =
            Expression::compile(text, &["conds", "fb", "resources", "cluster", "adapter"]).unwrap();
        expression.evaluate(&variables(), "2026-01-01T00:10:00Z".parse().unwrap())
    }

    #[test]
    fn functions_of_the_framework() {
        for (text, expected) in [
            ("now()", json!("2026-01-01T00:10:00Z")),
            ("(timestamp(now()) - timestamp('2026-01-01T00:00:00Z')).getSeconds() >= 600", json!(true)),
            ("conditionStatus(conds, 'Ready')", json!("True")),
            ("conditionStatus(conds, 'Nope')", json!("Unknown")),
            ("conditionAge(conds, 'Ready')", json!(600)),
            ("conditionAge(conds, 'Health')", json!(60)),
            ("conditionAge(conds, 'Nope')", json!(-1)),
            ("stableFor(conds, 'Ready', 300)", json!(true)),
            ("stableFor(conds, 'Ready', 601)", json!(false)),
            ("stableFor(conds, 'Health', 1)", json!(false)),
            ("stableFor(conds, 'NoTime', 1)", json!(false)),
            ("statusFeedbackValue(fb, 'phase')", json!("Active")),
            ("statusFeedbackValue(fb, 'replicas')", json!("3")),
            ("statusFeedbackValue(fb, 'nope')", json!("")),
            ("triState(true, false)", json!("True")),
            ("triState(false, true)", json!("False")),
            ("triState(false, false)", json!("Unknown")),
            ("toJson(resources.ns)", json!(r#"{"metadata":{"name":"n"}}"#)),
            ("dig(resources, 'ns.metadata.name')", json!("n")),
        ] {
            assert_eq!(evaluate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn optional_types_work_on_json() {
        for (text, expected) in [
            ("resources.?ns.hasValue()", json!(true)),
            ("!resources.?job.hasValue()", json!(true)),
            ("cluster.?deleted_time.hasValue()", json!(true)),
            ("resources.?ns.?metadata.?name.orValue('')", json!("n")),
            ("resources.?job.?status.?phase.orValue('none')", json!("none")),
            ("resources.?job.?status.?conditions.orValue([]).exists(c, c.type == 'Complete')", json!(false)),
            (
                "adapter.?executionError.?message.orValue(adapter.?errorMessage.orValue('no details'))",
                json!("no details"),
            ),
            ("optional.of(1).value()", json!(1)),
            ("optional.none().or(optional.of('x')).value()", json!("x")),
            ("resources[?'ns'].optMap(o, o.metadata.name).orValue('-')", json!("n")),
            ("has(resources.ns) && has(resources.ns.metadata)", json!(true)),
            ("'a,b'.split(',')", json!(["a", "b"])),
        ] {
            assert_eq!(evaluate(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn type_errors_and_unknown_names_are_found_at_compilation() {
        for (text, message) in [
            ("resource.ns", "undeclared reference to 'resource'"),
            ("'a' + 1 == 'b'", "line 1, column 5"),
            ("conditionStatus(conds)", "conditionStatus"),
            ("1 +", "line 1, column 4"),
        ] {
            let error = Expression::compile(text, &["conds", "resources"]).expect_err(text).to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(Expression::compile_open("status.conditions[0].status == region", &["region"]).is_ok());
    }
}
