//! Expressions over values that have a schema: the checks of a [`Program`] against declared types, and its evaluation on
//! values that are read through their schemas.

use serde_json::{Map, Value as Json};

use crate::check::{Declarations, Literals, check};
use crate::error::CompileError;
use crate::eval::Evaluation;
use crate::failure::Failure;
use crate::functions::Functions;
use crate::program::Program;
use crate::schema::{ObjectKind, Schema};
use crate::types::Type;
use crate::value::Value;

/// A variable whose values have a schema.
#[derive(Clone, Debug)]
pub struct Variable<'s> {
    name: &'s str,
    kind: Type<'s>,
}

impl<'s> Variable<'s> {
    /// Declares a variable; `None` if expressions cannot see values of the schema.
    pub fn new(name: &'s str, schema: &'s dyn Schema, kind: ObjectKind) -> Option<Self> {
        Some(Self { name, kind: Type::of_object(schema, kind)? })
    }

    /// The same variable as an optional.
    #[must_use]
    pub fn into_optional(self) -> Self {
        Self { kind: Type::Optional(Box::new(self.kind)), ..self }
    }
}

/// The type of the result of an expression, as far as users of typed expressions tell types apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultType {
    /// `true` or `false`.
    Bool,
    /// A string.
    String,
    /// Any type, known only at evaluation.
    Dynamic,
    /// Any other type.
    Other,
}

impl ResultType {
    pub(crate) fn of(kind: &Type<'_>) -> Self {
        match kind {
            Type::Bool => Self::Bool,
            Type::Text(_) => Self::String,
            Type::Dyn(_) => Self::Dynamic,
            _ => Self::Other,
        }
    }
}

/// What the check of an expression tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The type of the result.
    pub result: ResultType,
    /// The most that an evaluation costs.
    pub cost: u64,
}

/// The value of a variable.
#[derive(Clone, Debug)]
pub struct Input<'a>(Value<'a>);

impl<'a> Input<'a> {
    /// A value with a schema; `None` if the schema hides it.
    pub fn new(json: &'a Json, schema: &'a dyn Schema, kind: ObjectKind) -> Option<Self> {
        Value::of_kind(json, schema, kind).map(Self)
    }

    /// An object with a schema; `None` if the schema hides it.
    pub fn object(object: &'a Map<String, Json>, schema: &'a dyn Schema, kind: ObjectKind) -> Option<Self> {
        Value::of_object(object, schema, kind).map(Self)
    }

    /// An optional value.
    pub fn optional(value: Option<Self>) -> Self {
        Self(Value::Optional(value.map(|Self(value)| value.into())))
    }
}

/// The result of an evaluation.
#[derive(Clone, Debug)]
pub struct Output<'a>(Value<'a>);

impl Output<'_> {
    /// The result, if it is a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        match self.0 {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// The result, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_str()
    }
}

/// How an evaluation ended.
#[derive(Clone, Debug)]
pub struct Evaluated<'a> {
    /// The result.
    pub outcome: Result<Output<'a>, Failure>,
    /// What the evaluation has cost.
    pub cost: u64,
}

impl Program {
    /// Checks the expression with the rules of Kubernetes: the items of a list literal have one type, and the cost is
    /// estimated for the largest values that the schemas allow.
    pub fn check(&self, variables: &[Variable<'_>]) -> Result<Estimate, CompileError> {
        let variables = variables.iter().map(|variable| (variable.name, variable.kind.clone()));
        let declarations = Declarations {
            variables: variables.collect(),
            functions: Functions::NONE,
            literals: Literals::Uniform,
            dynamic_size: Type::DYN.max_size(),
        };
        let checked = check(self, declarations)?;
        Ok(Estimate { result: ResultType::of(&checked.kind), cost: checked.cost })
    }

    /// Evaluates the expression with these variables, and ends it when it has cost more than the limit.
    pub fn evaluate<'a>(&'a self, variables: &[(&'a str, Input<'a>)], cost_limit: u64) -> Evaluated<'a> {
        let variables = variables.iter().map(|(name, Input(value))| (*name, value.clone()));
        let mut evaluation = Evaluation::new(self, variables, cost_limit);
        let outcome = evaluation.run().map(Output);
        Evaluated { outcome, cost: evaluation.cost }
    }
}
