//! Conditions that the configuration adds: expressions in the Common Expression Language over what adapters reported. An
//! expression that fails marks its condition and loses nothing else.
//!
//! Expressions are written by who runs the API, not by who uses it; still their text, the nesting of their loops and what
//! they make are bounded.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bellwether_conditions::{Status, shorten};
use cel::common::ast::{EntryExpr, Expr, IdedExpr};
use cel::parser::Parser;
use cel::{Context, ExecutionError, Value};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use crate::resource::{AdapterStatus, Resource, ResourceCondition};

/// How long an expression may be.
const LENGTH: usize = 4096;
/// How deep loops may nest: each level multiplies the work by the length of a list.
const LOOPS: usize = 2;
/// How long a reason may be.
const REASON: usize = 256;
/// How long a message may be; the rest is left out.
const MESSAGE: usize = 2048;
/// How long the type of a condition may be.
const TYPE: usize = 100;
/// How large a value that is made into text may be.
const TEXT: usize = 1024 * 1024;
/// The reason of a condition whose expression failed.
const FAILED: &str = "ExpressionFailed";
/// What is shown of members whose names say that they are nobody's business.
const MASKED: &str = "***";
const SECRETS: [&str; 7] = ["password", "secret", "token", "api_key", "apikey", "credential", "private_key"];

/// A condition as the configuration declares it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MappingConfig {
    /// What it is about.
    #[serde(rename = "type")]
    pub type_: String,
    /// Whether there is such a condition.
    pub when: ExpressionConfig,
    /// What it says.
    pub output: OutputConfig,
}

/// What a condition says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputConfig {
    /// `True` or `False`.
    pub status: ExpressionConfig,
    /// Why, in a word.
    #[serde(default)]
    pub reason: Option<ExpressionConfig>,
    /// Why, in words.
    #[serde(default)]
    pub message: Option<ExpressionConfig>,
}

/// One expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpressionConfig {
    /// Its text.
    pub expression: String,
}

/// Why a condition cannot be computed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs)]
pub enum MappingError {
    #[error("its type must have 1 to {TYPE} letters and digits, beginning with a capital")]
    Type,
    #[error("{place} has more than {LENGTH} bytes")]
    TooLong { place: &'static str },
    #[error("{place} cannot be parsed: {words}")]
    Syntax { place: &'static str, words: String },
    #[error("{place} nests loops deeper than {LOOPS} levels")]
    TooDeep { place: &'static str },
    #[error("{place} names {name:?}; there are `resource` and `statuses`")]
    UnknownVariable { place: &'static str, name: String },
}

/// A condition that is computed from what adapters reported.
#[derive(Debug)]
pub struct Mapping {
    type_: String,
    when: IdedExpr,
    status: IdedExpr,
    reason: Option<IdedExpr>,
    message: Option<IdedExpr>,
}

impl Mapping {
    /// Parses the expressions.
    pub fn compile(config: MappingConfig) -> Result<Self, MappingError> {
        let type_ = config.type_;
        let capital = type_.starts_with(|first: char| first.is_ascii_uppercase());
        if !capital || type_.len() > TYPE || !type_.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(MappingError::Type);
        }
        let optional = |place, expression: Option<ExpressionConfig>| {
            expression.map(|expression| parse(place, &expression.expression)).transpose()
        };
        Ok(Self {
            type_,
            when: parse("when.expression", &config.when.expression)?,
            status: parse("output.status.expression", &config.output.status.expression)?,
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
        // The library is not ours: should it panic, it must not take the writer with it.
        let said = catch_unwind(AssertUnwindSafe(|| self.say(resource, statuses)))
            .unwrap_or_else(|_| Err("the expression could not be evaluated".to_owned()));
        let (status, reason, message) = match said {
            Ok(said) => said?,
            Err(words) => (Status::Unknown, Some(FAILED.to_owned()), Some(shorten(&words, MESSAGE))),
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

    fn say(
        &self,
        resource: &Resource,
        statuses: &BTreeMap<&str, &AdapterStatus>,
    ) -> Result<Option<Said>, String> {
        let context = context(resource, statuses)?;
        let value = |expression: &IdedExpr| context.resolve(expression).map_err(|error| error.to_string());
        match value(&self.when)? {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(None),
            other => return Err(format!("when.expression gives {:?}, not a boolean", other.type_of())),
        }
        let text = |place: &str, expression: &Option<IdedExpr>| match expression {
            None => Ok(None),
            Some(expression) => match value(expression)? {
                Value::String(text) => Ok(Some(text.as_str().to_owned())),
                other => Err(format!("output.{place}.expression gives {:?}, not a string", other.type_of())),
            },
        };
        let status = match value(&self.status)? {
            Value::String(word) if word.eq_ignore_ascii_case("true") => Status::True,
            Value::String(word) if word.eq_ignore_ascii_case("false") => Status::False,
            Value::Bool(holds) => holds.into(),
            _ => return Err("output.status.expression gives neither True nor False".to_owned()),
        };
        let reason = text("reason", &self.reason)?;
        if reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON) {
            return Err(format!("output.reason.expression gives more than {REASON} characters"));
        }
        let message = text("message", &self.message)?.map(|message| shorten(&message, MESSAGE));
        Ok(Some((status, reason, message)))
    }
}

type Said = (Status, Option<String>, Option<String>);

/// What expressions see.
fn context(
    resource: &Resource,
    statuses: &BTreeMap<&str, &AdapterStatus>,
) -> Result<Context<'static, 'static>, String> {
    let status = |status: &&AdapterStatus| {
        let known = status.conditions.iter().filter(|condition| condition.status != Status::Unknown);
        json!({
            "adapter": status.adapter,
            "observed_generation": status.observed_generation,
            "conditions": known.collect::<Vec<_>>(),
            "data": status.data,
        })
    };
    let (mut whole, mut statuses) = (json!(resource), Json::Array(statuses.values().map(status).collect()));
    mask(&mut whole);
    mask(&mut statuses);
    let mut context = Context::default();
    let foreign = |value: &Json| cel::to_value(value).map_err(|error| error.to_string());
    context.add_variable_from_value("resource", foreign(&whole)?);
    context.add_variable_from_value("statuses", foreign(&statuses)?);
    let taken = |error| format!("a function is there already: {error:?}");
    context.add_function("toJson", to_json).map_err(taken)?;
    context.add_function("dig", dig).map_err(taken)?;
    Ok(context)
}

/// `toJson(x)`: a value as text.
fn to_json(value: Value) -> Result<Value, ExecutionError> {
    let json = value.json().map_err(|error| ExecutionError::function_error("toJson", error))?;
    let text = json.to_string();
    if text.len() > TEXT {
        return Err(ExecutionError::function_error("toJson", format!("the text has more than {TEXT} bytes")));
    }
    Ok(Value::String(Arc::new(text)))
}

/// `dig(x, "a.b.0")`: what is found by names and places, or null.
fn dig(value: Value, path: Arc<String>) -> Result<Value, ExecutionError> {
    let mut found = value.json().map_err(|error| ExecutionError::function_error("dig", error))?;
    for segment in path.split('.') {
        let next = match &mut found {
            Json::Object(members) => members.remove(segment),
            Json::Array(items) => {
                let place = segment.parse::<usize>().ok().filter(|place| *place < items.len());
                place.map(|place| items.swap_remove(place))
            }
            _ => None,
        };
        let Some(next) = next else { return Ok(Value::Null) };
        found = next;
    }
    cel::to_value(&found).map_err(|error| ExecutionError::function_error("dig", error))
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

fn parse(place: &'static str, text: &str) -> Result<IdedExpr, MappingError> {
    if text.len() > LENGTH {
        return Err(MappingError::TooLong { place });
    }
    let syntax = |words: String| MappingError::Syntax { place, words };
    let parsed = catch_unwind(|| Parser::new().enable_optional_syntax(true).parse(text));
    let expression = parsed
        .map_err(|_| syntax("it nests too deep".to_owned()))?
        .map_err(|errors| syntax(errors.to_string()))?;
    if loops(&expression) > LOOPS {
        return Err(MappingError::TooDeep { place });
    }
    let references = expression.references();
    let unknown = references
        .variables()
        .into_iter()
        .find(|name| !matches!(*name, "resource" | "statuses" | "optional") && !name.starts_with('@'));
    match unknown {
        Some(name) if !is_bound(&expression, name) => {
            Err(MappingError::UnknownVariable { place, name: name.to_owned() })
        }
        _ => Ok(expression),
    }
}

/// How deep loops nest.
fn loops(expression: &IdedExpr) -> usize {
    let deepest = parts(expression).into_iter().map(loops).max().unwrap_or_default();
    deepest + usize::from(matches!(expression.expr, Expr::Comprehension(_)))
}

/// Whether a loop of the expression gives a name its meaning.
fn is_bound(expression: &IdedExpr, name: &str) -> bool {
    let here =
        matches!(&expression.expr, Expr::Comprehension(it) if it.iter_var == name || it.accu_var == name);
    here || parts(expression).into_iter().any(|part| is_bound(part, name))
}

fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Select(select) => vec![&select.operand],
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::StructField(field) => vec![&field.value],
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
            })
            .collect(),
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) | Expr::Unspecified => Vec::new(),
    }
}
