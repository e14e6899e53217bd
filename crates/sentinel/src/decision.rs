//! Whether a resource is due for a pulse, and the data of the pulse: expressions in CEL, compiled once. Pure.

use bellwether_cel::{CompileError, Environment, EvaluationError, Expression, ResultType, VariableType};
use bellwether_fleet::vocabulary::is_current;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::config::MessageDecision;
use crate::projection::Projection;

/// What one evaluation may cost: a fraction of a millisecond.
const COST_LIMIT: u64 = 10_000;
/// The largest number of params, and the deepest nesting of the message data.
const MAX_PARAMS: usize = 100;
const MAX_DEPTH: usize = 16;
/// The value of `reason` in message data.
pub(crate) const REASON: &str = "message decision matched";

/// The decision if the configuration has none: the current generation was not pulsed and nobody has reported about it; or the
/// last report and pulse are older than the TTL.
const DEFAULT_PARAMS: [(&str, &str); 6] = [
    ("ref_time", r#"condition("Ready").last_updated_time"#),
    ("is_ready", r#"condition("Ready").status == "True""#),
    ("has_ref_time", r#"ref_time != """#),
    ("is_new_generation", r#"resource.generation > condition("Ready").observed_generation"#),
    ("ready_and_stale", r#"is_ready && has_ref_time && now - timestamp(ref_time) > duration("30m")"#),
    (
        "not_ready_and_debounced",
        r#"!is_ready && has_ref_time && now - timestamp(ref_time) > duration("10s")"#,
    ),
];
const DEFAULT_RESULT: &str = "is_new_generation || ready_and_stale || not_ready_and_debounced";

/// Why an expression of the configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub enum ExpressionError {
    /// A param.
    #[error("the expression of the param {name} is invalid: {cause}")]
    Param {
        /// Its position in the list.
        index: usize,
        /// Its name.
        name: String,
        /// The cause.
        cause: String,
    },
    /// The name of a param.
    #[error(
        "the name of a param must be new, begin with a letter or '_', and have only letters, digits and '_'; found {name:?}"
    )]
    Name {
        /// Its position in the list.
        index: usize,
        /// The name.
        name: String,
    },
    /// The result.
    #[error("the expression of result is invalid: {0}")]
    Result(String),
    /// A member of the message data.
    #[error("the expression of message_data{path} is invalid: {cause}")]
    Data {
        /// The path of the member.
        path: String,
        /// The cause.
        cause: String,
    },
}

/// Why a decision or message data could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} cannot be evaluated: {cause}")]
pub struct DecisionError {
    what: String,
    cause: EvaluationError,
}

/// A member of the message data.
#[derive(Debug)]
enum Data {
    Expression(Expression),
    Map(Vec<(String, Data)>),
}

/// When a resource is due, and the data of its pulse.
#[derive(Debug)]
pub struct Decision {
    params: Vec<(String, Expression)>,
    result: Expression,
    data: Data,
    data_text: Map<String, Value>,
    projection: Projection,
}

impl Decision {
    /// Compiles the expressions of a configuration, or the default ones.
    pub(crate) fn compile(
        decision: Option<&MessageDecision>,
        data: Option<&Map<String, Value>>,
    ) -> Result<Self, ExpressionError> {
        let base = environment();
        let given = decision.map(|decision| {
            let params =
                decision.params.iter().map(|param| (param.name.value.as_str(), param.expr.value.as_str()));
            (params.collect(), decision.result.value.as_str())
        });
        let (params, result): (Vec<_>, _) =
            given.unwrap_or_else(|| (DEFAULT_PARAMS.to_vec(), DEFAULT_RESULT));
        let mut compiled: Vec<(String, Expression)> = Vec::new();
        let mut scope = base.clone().with_variable("now", VariableType::Timestamp);
        for (index, (name, text)) in params.into_iter().enumerate() {
            let is_taken =
                ["resource", "now"].contains(&name) || compiled.iter().any(|(other, _)| other == name);
            if is_taken || !is_identifier(name) || index >= MAX_PARAMS {
                return Err(ExpressionError::Name { index, name: name.to_owned() });
            }
            let cause = |error: CompileError| ExpressionError::Param {
                index,
                name: name.to_owned(),
                cause: error.to_string(),
            };
            compiled.push((name.to_owned(), scope.compile(text).map_err(cause)?));
            scope = scope.with_variable(name, VariableType::Json);
        }
        let result = scope.compile(result).map_err(|error| ExpressionError::Result(error.to_string()))?;
        let found = match result.result_type() {
            ResultType::Bool | ResultType::Dynamic => None,
            ResultType::String => Some("a string"),
            ResultType::Other => Some("of another type"),
        };
        if let Some(found) = found {
            return Err(ExpressionError::Result(format!("it must be a bool, and is {found}")));
        }
        let data_text = data.cloned().unwrap_or_else(default_data);
        let scope = base.with_variable("reason", VariableType::Json);
        let data = compile_data(&scope, &data_text, "", 0)?;
        let mut texts: Vec<&str> = compiled.iter().map(|(_, expression)| expression.text()).collect();
        texts.push(result.text());
        data.collect_texts(&mut texts);
        let projection = Projection::of(texts.into_iter());
        Ok(Self { params: compiled, result, data, data_text, projection })
    }

    /// Whether a resource is due. `resource` is the JSON of [`View`](crate::index::View).
    pub fn is_due(&self, resource: &Value, now: Timestamp) -> Result<bool, DecisionError> {
        let now = json!(now);
        let failed = |what: &str, cause| DecisionError { what: what.to_owned(), cause };
        let mut values: Vec<Value> = Vec::with_capacity(self.params.len());
        for (name, expression) in &self.params {
            let value = expression.evaluate(&self.inputs(resource, &now, &values));
            values.push(value.map_err(|cause| failed(&format!("the param {name:?}"), cause))?);
        }
        let due = self.result.evaluate(&self.inputs(resource, &now, &values));
        Ok(due.map_err(|cause| failed("the result", cause))? == Value::Bool(true))
    }

    fn inputs<'a>(
        &'a self,
        resource: &'a Value,
        now: &'a Value,
        values: &'a [Value],
    ) -> Vec<(&'a str, &'a Value)> {
        let params = self.params.iter().map(|(name, _)| name.as_str()).zip(values);
        [("resource", resource), ("now", now)].into_iter().chain(params).collect()
    }

    /// The data of a pulse, and the members that could not be evaluated; those and null ones are left out.
    pub fn message_data(&self, resource: &Value) -> (Value, Vec<DecisionError>) {
        let mut errors = Vec::new();
        let data = self.data.evaluate(resource, "message_data", &mut errors);
        (data.unwrap_or_default(), errors)
    }

    /// Which parts of a resource the expressions can read.
    pub(crate) fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The names and texts of the params.
    pub fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.params.iter().map(|(name, expression)| (name.as_str(), expression.text()))
    }

    /// The text of the result.
    pub fn result(&self) -> &str {
        self.result.text()
    }

    /// The texts of the message data.
    pub fn data(&self) -> &Map<String, Value> {
        &self.data_text
    }
}

impl Data {
    fn evaluate(&self, resource: &Value, path: &str, errors: &mut Vec<DecisionError>) -> Option<Value> {
        match self {
            Self::Expression(expression) => {
                let reason = json!(REASON);
                match expression.evaluate(&[("resource", resource), ("reason", &reason)]) {
                    Ok(value) => Some(value).filter(|value| !value.is_null()),
                    Err(cause) => {
                        errors.push(DecisionError { what: path.to_owned(), cause });
                        None
                    }
                }
            }
            Self::Map(members) => {
                let evaluated = members.iter().filter_map(|(name, data)| {
                    Some((name.clone(), data.evaluate(resource, &format!("{path}.{name}"), errors)?))
                });
                Some(Value::Object(evaluated.collect()))
            }
        }
    }

    fn collect_texts<'a>(&'a self, texts: &mut Vec<&'a str>) {
        match self {
            Self::Expression(expression) => texts.push(expression.text()),
            Self::Map(members) => members.iter().for_each(|(_, data)| data.collect_texts(texts)),
        }
    }
}

fn environment() -> Environment {
    Environment::new()
        .with_cost_limit(COST_LIMIT)
        .with_variable("resource", VariableType::Json)
        .with_json_functions()
        .with_function("condition", 1, |call| {
            let type_ = call
                .arguments()
                .first()
                .and_then(Value::as_str)
                .ok_or("condition() takes the type of a condition")?;
            Ok(condition(call.variable("resource").unwrap_or(&Value::Null), type_))
        })
}

/// The condition of a type, with empty values for what is missing. The two names of the condition for the current generation,
/// `Ready` and `Reconciled`, mean the same.
fn condition(resource: &Value, type_: &str) -> Value {
    let conditions = resource.pointer("/status/conditions").and_then(Value::as_array);
    let named = |wanted: &dyn Fn(&str) -> bool| {
        conditions
            .into_iter()
            .flatten()
            .find(|one| one.get("type").and_then(Value::as_str).is_some_and(wanted))
    };
    let found =
        named(&|name| name == type_).or_else(|| if is_current(type_) { named(&is_current) } else { None });
    let member = |name: &str, default: Value| found.and_then(|one| one.get(name)).cloned().unwrap_or(default);
    json!({
        "status": member("status", json!("")),
        "observed_generation": member("observed_generation", json!(0)),
        "last_updated_time": member("last_updated_time", json!("")),
        "last_transition_time": member("last_transition_time", json!("")),
        "reason": member("reason", json!("")),
        "message": member("message", json!("")),
    })
}

fn default_data() -> Map<String, Value> {
    let expressions =
        ["id", "kind", "href", "generation"].map(|name| (name.to_owned(), json!(format!("resource.{name}"))));
    expressions.into_iter().collect()
}

fn compile_data(
    scope: &Environment,
    data: &Map<String, Value>,
    path: &str,
    depth: usize,
) -> Result<Data, ExpressionError> {
    let members = data.iter().map(|(name, value)| {
        let path = format!("{path}.{name}");
        let invalid =
            |path: String, cause: &str| Err(ExpressionError::Data { path, cause: cause.to_owned() });
        let data = match value {
            Value::String(text) => match scope.compile(text) {
                Ok(expression) => Data::Expression(expression),
                Err(error) => return invalid(path, &error.to_string()),
            },
            Value::Object(_) if depth >= MAX_DEPTH => return invalid(path, "the maps are nested too deep"),
            Value::Object(members) => compile_data(scope, members, &path, depth + 1)?,
            _ => return invalid(path, "it must be a string with an expression, or a map of those"),
        };
        Ok((name.clone(), data))
    });
    Ok(Data::Map(members.collect::<Result<_, _>>()?))
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.bytes();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == b'_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    fn decision(text: &str) -> Decision {
        Config::parse(&format!("resource_type: clusters\n{text}"), "s.yaml", Overrides::default())
            .unwrap()
            .decision
    }

    #[test]
    fn condition_that_is_missing_has_empty_values() {
        let empty = json!({
            "status": "", "observed_generation": 0, "last_updated_time": "", "last_transition_time": "", "reason": "", "message": "",
        });
        for resource in
            [json!({}), json!({"status": {"conditions": [{"type": "Available", "status": "True"}]}})]
        {
            assert_eq!(condition(&resource, "Ready"), empty);
        }
        let resource = json!({"status": {"conditions": [{"type": "Reconciled", "status": "True"}]}});
        assert_eq!(condition(&resource, "Ready")["status"], "True");
        assert_eq!(condition(&resource, "Available")["status"], "");
    }

    #[test]
    fn expression_that_fails_at_evaluation_is_an_error_and_not_a_pulse() {
        let decision = decision(
            "message_decision: {params: [{name: age, expr: 'now - timestamp(resource.name)'}], result: 'age > duration(\"1s\")'}",
        );
        let error = decision.is_due(&json!({"name": "abc"}), Timestamp::UNIX_EPOCH).unwrap_err().to_string();
        assert!(error.starts_with("the param \"age\" cannot be evaluated: line 1, column "), "{error}");
        let expensive = "message_decision: {result: 'resource.spec.a.all(x, resource.spec.a.all(y, resource.spec.a.all(z, x + y + z >= 0)))'}";
        let many = json!({"spec": {"a": (0..1_000).collect::<Vec<_>>()}});
        let error = super::tests::decision(expensive).is_due(&many, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!(error.to_string(), "the result cannot be evaluated: the cost limit of 10000 was exceeded");
    }

    #[test]
    fn message_data_leaves_out_what_is_missing() {
        let decision = decision(
            "message_data: {id: resource.id, owner: {id: resource.owner_references.id, why: reason}, none: 'null'}",
        );
        let (data, errors) = decision.message_data(&json!({"id": "1"}));
        assert_eq!(data, json!({"id": "1", "owner": {"why": REASON}}));
        assert_eq!(errors.len(), 1);
        assert!(
            errors[0].to_string().starts_with("message_data.owner.id cannot be evaluated: "),
            "{}",
            errors[0]
        );
        let (data, errors) = decision.message_data(&json!({"id": "1", "owner_references": {"id": "2"}}));
        assert_eq!((data, errors), (json!({"id": "1", "owner": {"id": "2", "why": REASON}}), vec![]));
    }
}
