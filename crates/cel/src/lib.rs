//! The Common Expression Language for Bellwether: an expression is compiled once, type-checked, and evaluated many times
//! on JSON, each time within a cost limit.
//!
//! ```
//! use bellwether_cel::{Environment, EvaluationError, VariableType};
//! use serde_json::json;
//!
//! let environment = Environment::new().with_variable("resource", VariableType::Json).with_cost_limit(1_000);
//! let expression = environment.compile("resource.spec.replicas > 2")?;
//!
//! let resource = json!({"spec": {"replicas": 3}});
//! assert_eq!(expression.evaluate(&[("resource", &resource)])?, json!(true));
//!
//! // Errors name the place in the text.
//! let error = environment.compile("resource.spec.replicas > limit").unwrap_err();
//! assert_eq!(error.to_string(), "line 1, column 26: undeclared reference to 'limit' (in container '')");
//!
//! // An evaluation ends when it has cost more than the limit, whatever the values.
//! let expression = environment.compile("resource.all(x, resource.all(y, x + y >= 0))")?;
//! let items = json!((0..1_000).collect::<Vec<_>>());
//! let error = expression.evaluate(&[("resource", &items)]).unwrap_err();
//! assert_eq!(error, EvaluationError::CostLimitExceeded { limit: 1_000 });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The functions are those of Kubernetes, with `toJson` and `dig` where an environment asks for them, and functions that
//! an environment adds. Costs follow Kubernetes' model.
//!
//! Values that have a schema, such as the objects of custom resources, are evaluated by a [`Program`] through the trait
//! [`Schema`]. Nothing here does input or output.

mod check;
mod environment;
mod error;
mod eval;
mod failure;
mod functions;
mod json;
mod library;
mod macros;
mod names;
mod native;
mod operators;
mod position;
mod program;
mod schema;
#[cfg(test)]
mod tests;
mod typed;
mod types;
mod url;
mod value;
#[cfg(test)]
mod vectors;

pub use environment::{Environment, Expression, VariableType};
pub use error::{CompileError, CompileErrorKind, EvaluationError, Position};
pub use failure::Failure;
pub use functions::Call;
pub use program::Program;
pub use schema::{ListIdentity, ObjectKind, Schema, ValueType};
pub use typed::{Estimate, Evaluated, Input, Output, ResultType, Variable};
