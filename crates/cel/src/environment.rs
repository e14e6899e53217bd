//! Expressions over JSON: an environment declares variables, functions and limits, and compiles expressions that can be
//! evaluated many times.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::check::{Declarations, Literals, check};
use crate::error::{CompileError, CompileErrorKind, EvaluationError};
use crate::eval::Evaluation;
use crate::failure::Failure;
use crate::functions::{Call, CustomFunction, Functions};
use crate::position::Positions;
use crate::program::{Limits, Program};
use crate::schema::AnyTimestamp;
use crate::typed::ResultType;
use crate::types::Type;
use crate::value::Value;

/// What one evaluation may cost, unless an environment says otherwise: the limit that Kubernetes has for one evaluation
/// of a rule. It takes a fraction of a second.
const DEFAULT_COST_LIMIT: u64 = 1_000_000;
/// The estimate takes every list, map and text of unknown size to have one element: larger ones only cost more.
const ASSUMED_SIZE: u64 = 1;

/// What a variable holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableType {
    /// Any JSON, whose types are known only at evaluation.
    Json,
    /// A timestamp, given as a string in RFC 3339.
    Timestamp,
}

/// Declares what expressions can use, and compiles them.
#[derive(Clone, Debug)]
pub struct Environment {
    variables: Vec<(String, VariableType)>,
    functions: Functions,
    limits: Limits,
    cost_limit: u64,
}

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// An environment without variables, with the functions of Kubernetes and a cost limit of 1,000,000.
    pub fn new() -> Self {
        Self {
            variables: Vec::new(),
            functions: Functions::default(),
            limits: Limits::default(),
            cost_limit: DEFAULT_COST_LIMIT,
        }
    }

    /// Declares a variable.
    #[must_use]
    pub fn with_variable(mut self, name: impl Into<String>, variable_type: VariableType) -> Self {
        self.variables.push((name.into(), variable_type));
        self
    }

    /// Adds `toJson(x)`, the text of a value as JSON, and `dig(x, 'a.b.0')`, the value at a path or null.
    #[must_use]
    pub fn with_json_functions(mut self) -> Self {
        self.functions.json = true;
        self
    }

    /// Adds a function. It is called as `name(…)` with this many arguments, and its error becomes the message of the
    /// evaluation's. What it does itself is not charged.
    ///
    /// ```
    /// use bellwether_cel::{Environment, VariableType};
    /// use serde_json::json;
    ///
    /// let environment = Environment::new()
    ///     .with_variable("resource", VariableType::Json)
    ///     .with_function("label", 1, |call| {
    ///         let name = call.arguments()[0].as_str().ok_or("label() takes a string")?;
    ///         let labels = call.variable("resource").and_then(|resource| resource.get("labels"));
    ///         Ok(labels.and_then(|labels| labels.get(name)).cloned().unwrap_or_default())
    ///     });
    /// let expression = environment.compile("label('tier') == 'gold'")?;
    /// let resource = json!({"labels": {"tier": "gold"}});
    /// assert_eq!(expression.evaluate(&[("resource", &resource)])?, json!(true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_function(
        mut self,
        name: impl Into<String>,
        parameters: usize,
        implementation: impl Fn(&Call<'_>) -> Result<Json, String> + Send + Sync + 'static,
    ) -> Self {
        let function = CustomFunction { parameters, implementation: Arc::new(implementation) };
        self.functions.custom.insert(name.into(), function);
        self
    }

    /// Limits the length of an expression, in bytes. The default, and the most, is 16 KiB.
    #[must_use]
    pub fn with_max_length(mut self, bytes: usize) -> Self {
        self.limits.max_length = bytes;
        self
    }

    /// Limits how deep loops (`all`, `exists`, `map`, `filter` and their like) nest in one another.
    #[must_use]
    pub fn with_max_loop_depth(mut self, depth: usize) -> Self {
        self.limits.max_loop_depth = depth;
        self
    }

    /// Limits what one evaluation may cost.
    #[must_use]
    pub fn with_cost_limit(mut self, cost: u64) -> Self {
        self.cost_limit = cost;
        self
    }

    /// Parses and checks an expression. Rejects one that exceeds the cost limit even if every value of unknown size has
    /// one element and the costlier branch of every condition is taken.
    pub fn compile(&self, text: &str) -> Result<Expression, CompileError> {
        let program = Program::parse_within(text, &self.limits)?;
        let variables = self.variables.iter().map(|(name, variable_type)| {
            let kind = match variable_type {
                VariableType::Json => Type::Dyn(ASSUMED_SIZE),
                VariableType::Timestamp => Type::Timestamp,
            };
            (name.as_str(), kind)
        });
        let declarations = Declarations {
            variables: variables.collect(),
            functions: &self.functions,
            literals: Literals::Mixed,
            dynamic_size: ASSUMED_SIZE,
        };
        let checked = check(&program, declarations)?;
        let (result_type, estimate) = (ResultType::of(&checked.kind), checked.cost);
        if estimate > self.cost_limit {
            let limit = self.cost_limit;
            let message = format!("the estimated cost of {estimate} exceeds the cost limit of {limit}");
            return Err(CompileError::new(CompileErrorKind::CostLimitExceeded { estimate, limit }, message));
        }
        let positions = program.positions();
        Ok(Expression {
            program,
            positions,
            result_type,
            variables: self.variables.clone(),
            functions: self.functions.clone(),
            cost_limit: self.cost_limit,
        })
    }
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    program: Program,
    positions: Option<Positions>,
    result_type: ResultType,
    variables: Vec<(String, VariableType)>,
    functions: Functions,
    cost_limit: u64,
}

impl Expression {
    /// The text of the expression.
    pub fn text(&self) -> &str {
        self.program.text()
    }

    /// The type of the result, as far as it is known before an evaluation.
    pub fn result_type(&self) -> ResultType {
        self.result_type
    }

    /// Evaluates the expression with these values of its variables.
    ///
    /// Timestamps and durations in the result become strings, bytes become base64, and an empty optional becomes null.
    pub fn evaluate(&self, inputs: &[(&str, &Json)]) -> Result<Json, EvaluationError> {
        let mut variables = Vec::with_capacity(inputs.len());
        for (name, json) in inputs {
            variables.push((*name, self.input(name, json)?));
        }
        let mut evaluation = Evaluation::new(&self.program, variables, self.cost_limit);
        evaluation.functions = &self.functions;
        evaluation.inputs = inputs;
        let outcome = evaluation.run().and_then(|value| evaluation.json_of(&value));
        outcome.map_err(|failure| match failure {
            Failure::CostLimitExceeded => EvaluationError::CostLimitExceeded { limit: self.cost_limit },
            failure => {
                let part = evaluation.failed_part;
                let position = part.and_then(|part| self.positions.as_ref()?.of(self.text(), part));
                EvaluationError::Failed { message: failure.to_string(), position }
            }
        })
    }

    fn input<'a>(&self, name: &str, json: &'a Json) -> Result<Value<'a>, EvaluationError> {
        let declared = self.variables.iter().find(|(declared, _)| declared == name);
        match declared {
            Some((_, VariableType::Timestamp)) => match Value::of(json, &AnyTimestamp) {
                Some(timestamp @ Value::Library(_)) => Ok(timestamp),
                _ => Err(EvaluationError::InvalidTimestamp { variable: name.to_owned() }),
            },
            _ => Ok(Value::dynamic(json)),
        }
    }
}
