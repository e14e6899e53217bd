//! Conditions that the configuration adds: expressions in the Common Expression Language over what adapters reported. An
//! expression that fails marks its condition and loses nothing else.
//!
//! The text of an expression, the nesting of its loops and the cost of an evaluation are limited, so that a mistake in the
//! configuration cannot stop the writer.

use std::collections::BTreeMap;

use bellwether_cel::{
    CompileError, CompileErrorKind, Environment, EvaluationError, Expression, VariableType,
};
use bellwether_conditions::{Status, shorten};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json, json};

use crate::resource::{AdapterStatus, Resource, ResourceCondition};

/// How long an expression may be, in bytes.
const MAX_LENGTH: usize = 4096;
/// How deep loops may nest: each level multiplies the cost by the length of a list.
const MAX_LOOP_DEPTH: usize = 2;
/// What one evaluation of an expression may cost.
const COST_LIMIT: u64 = 1_000_000;
/// How long a reason may be, in characters.
const MAX_REASON: usize = 256;
/// How long a message may be; the rest is left out.
const MAX_MESSAGE: usize = 2048;
/// How long the type of a condition may be.
const MAX_TYPE: usize = 100;
/// The reason of a condition whose expression failed.
const EXPRESSION_FAILED: &str = "ExpressionFailed";
/// The replacement of the values of members whose names indicate secrets.
const MASKED: &str = "***";
const SECRETS: [&str; 7] = ["password", "secret", "token", "api_key", "apikey", "credential", "private_key"];

/// A condition as the configuration declares it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MappingConfig {
    /// The type of the condition.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether the condition applies.
    pub when: ExpressionConfig,
    /// Its status, reason and message.
    pub output: OutputConfig,
}

/// The status, reason and message of a condition.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// Gives `True` or `False`.
    pub status: ExpressionConfig,
    /// Gives the reason.
    #[serde(default)]
    pub reason: Option<ExpressionConfig>,
    /// Gives the message.
    #[serde(default)]
    pub message: Option<ExpressionConfig>,
}

/// One expression.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExpressionConfig {
    /// Its text.
    pub expression: String,
}

/// Why a condition cannot be computed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MappingError {
    #[error("its type must have 1 to {MAX_TYPE} letters and digits, beginning with a capital")]
    Type,
    #[error("{place} has more than {MAX_LENGTH} bytes")]
    TooLong { place: &'static str },
    #[error("{place} cannot be parsed: {error}")]
    Syntax { place: &'static str, error: Box<CompileError> },
    #[error("{place} nests loops deeper than {MAX_LOOP_DEPTH} levels")]
    TooDeep { place: &'static str },
    #[error("{place} names {name:?}; the variables are `resource` and `statuses`: {error}")]
    Undeclared { place: &'static str, name: String, error: Box<CompileError> },
    #[error("{place} is invalid: {error}")]
    Invalid { place: &'static str, error: Box<CompileError> },
    #[error("{place} exceeds its cost limit even on the smallest values: {error}; simplify the expression")]
    TooExpensive { place: &'static str, error: Box<CompileError> },
}

/// One of the expressions of a condition.
#[derive(Debug)]
struct Part {
    /// Where in the configuration it is.
    place: &'static str,
    expression: Expression,
}

impl Part {
    fn compile(place: &'static str, config: &ExpressionConfig) -> Result<Self, MappingError> {
        let environment = Environment::new()
            .with_variable("resource", VariableType::Json)
            .with_variable("statuses", VariableType::Json)
            .with_json_functions()
            .with_max_length(MAX_LENGTH)
            .with_max_loop_depth(MAX_LOOP_DEPTH)
            .with_cost_limit(COST_LIMIT);
        let compiled = environment.compile(&config.expression);
        let expression = compiled.map_err(|error| {
            let (kind, error) = (error.kind().clone(), Box::new(error));
            match kind {
                CompileErrorKind::TooLong => MappingError::TooLong { place },
                CompileErrorKind::Syntax => MappingError::Syntax { place, error },
                CompileErrorKind::LoopsTooDeep => MappingError::TooDeep { place },
                CompileErrorKind::Undeclared { name } => MappingError::Undeclared { place, name, error },
                CompileErrorKind::TooDeep | CompileErrorKind::Type => MappingError::Invalid { place, error },
                CompileErrorKind::CostLimitExceeded { .. } => MappingError::TooExpensive { place, error },
            }
        })?;
        Ok(Self { place, expression })
    }

    /// The value of the expression; the error is the message of the condition.
    fn evaluate(&self, context: &Context) -> Result<Json, String> {
        let inputs = [("resource", &context.resource), ("statuses", &context.statuses)];
        self.expression.evaluate(&inputs).map_err(|error| match error {
            EvaluationError::CostLimitExceeded { limit } => format!(
                "{}: the evaluation was cut off, because its cost limit of {limit} was exceeded; simplify the expression {}",
                self.place,
                self.expression.text(),
            ),
            error => format!("{}: {error}", self.place),
        })
    }

    /// The value of an expression that has to be a string.
    fn evaluate_text(&self, context: &Context) -> Result<String, String> {
        match self.evaluate(context)? {
            Json::String(text) => Ok(text),
            other => Err(format!("{} gives {}, not a string", self.place, type_name(&other))),
        }
    }
}

/// A condition that is computed from what adapters reported.
#[derive(Debug)]
pub struct Mapping {
    type_: String,
    when: Part,
    status: Part,
    reason: Option<Part>,
    message: Option<Part>,
}

impl Mapping {
    /// Compiles the expressions.
    pub fn compile(config: MappingConfig) -> Result<Self, MappingError> {
        let type_ = config.type_;
        let capital = type_.starts_with(|first: char| first.is_ascii_uppercase());
        if !capital || type_.len() > MAX_TYPE || !type_.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(MappingError::Type);
        }
        let optional = |place, config: Option<ExpressionConfig>| {
            config.map(|config| Part::compile(place, &config)).transpose()
        };
        Ok(Self {
            type_,
            when: Part::compile("when.expression", &config.when)?,
            status: Part::compile("output.status.expression", &config.output.status)?,
            reason: optional("output.reason.expression", config.output.reason)?,
            message: optional("output.message.expression", config.output.message)?,
        })
    }

    /// The condition as it now is; `None` where it does not apply.
    pub fn evaluate(
        &self,
        resource: &Resource,
        statuses: &BTreeMap<&str, &AdapterStatus>,
        cause: Timestamp,
    ) -> Option<ResourceCondition> {
        let before = resource.status.conditions.iter().find(|condition| condition.type_ == self.type_);
        let (status, reason, message) = match self.output(&Context::new(resource, statuses)) {
            Ok(output) => output?,
            Err(message) => {
                let reason = EXPRESSION_FAILED.to_owned();
                (Status::Unknown, Some(reason), Some(shorten(&message, MAX_MESSAGE)))
            }
        };
        let observed_generation = resource.generation;
        let mut condition = ResourceCondition {
            type_: self.type_.clone(),
            status,
            reason,
            message,
            observed_generation,
            created_time: before.map_or(cause, |before| before.created_time),
            last_updated_time: cause,
            last_transition_time: cause,
        };
        if let Some(before) = before {
            condition.last_transition_time = match before.status == status {
                true => before.last_transition_time,
                false => cause.max(before.last_transition_time),
            };
            let unchanged =
                ResourceCondition { last_updated_time: before.last_updated_time, ..condition.clone() };
            if unchanged == *before {
                return Some(unchanged);
            }
        }
        Some(condition)
    }

    /// The condition's status, reason and message; `None` where it does not apply.
    fn output(&self, context: &Context) -> Result<Option<Output>, String> {
        match self.when.evaluate(context)? {
            Json::Bool(true) => {}
            Json::Bool(false) => return Ok(None),
            other => return Err(format!("{} gives {}, not a boolean", self.when.place, type_name(&other))),
        }
        let status = match self.status.evaluate(context)? {
            Json::String(word) if word.eq_ignore_ascii_case("true") => Status::True,
            Json::String(word) if word.eq_ignore_ascii_case("false") => Status::False,
            Json::Bool(holds) => holds.into(),
            _ => return Err(format!("{} gives neither True nor False", self.status.place)),
        };
        let text = |part: &Option<Part>| match part {
            None => Ok(None),
            Some(part) => part.evaluate_text(context).map(Some),
        };
        let reason = text(&self.reason)?;
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > MAX_REASON) {
            return Err(format!("output.reason.expression gives more than {MAX_REASON} characters"));
        }
        let message = text(&self.message)?.map(|message| shorten(&message, MAX_MESSAGE));
        Ok(Some((status, reason, message)))
    }
}

type Output = (Status, Option<String>, Option<String>);

/// The variables of the expressions, without secrets.
struct Context {
    resource: Json,
    statuses: Json,
}

impl Context {
    fn new(resource: &Resource, statuses: &BTreeMap<&str, &AdapterStatus>) -> Self {
        let status = |status: &&AdapterStatus| {
            let known = status.conditions.iter().filter(|condition| condition.status != Status::Unknown);
            json!({
                "adapter": status.adapter,
                "observed_generation": status.observed_generation,
                "conditions": known.collect::<Vec<_>>(),
                "data": status.data,
            })
        };
        let mut context = Self {
            resource: json!(resource),
            statuses: Json::Array(statuses.values().map(status).collect()),
        };
        mask(&mut context.resource);
        mask(&mut context.statuses);
        context
    }
}

fn type_name(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a boolean",
        Json::Number(_) => "a number",
        Json::String(_) => "a string",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}

fn mask(value: &mut Json) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(mask),
        Json::Object(members) => {
            for (name, member) in members {
                let name = name.to_ascii_lowercase();
                if SECRETS.iter().any(|secret| name.contains(secret)) {
                    *member = Json::String(MASKED.to_owned());
                } else {
                    mask(member);
                }
            }
        }
        _ => {}
    }
}
