//! Rules in the Common Expression Language, as custom resources have them. The parser and the functions of Kubernetes'
//! libraries are `kube-cel`'s; the evaluation, its budget, and what is told of a failure are ours, so that no rule takes
//! more than its share whatever the object.
//!
//! Nothing here does input or output: a schema, an object and its past in, errors out.

mod check;
mod eval;
mod examine;
mod failure;
mod functions;
mod library;
mod names;
mod native;
mod operators;
mod paths;
mod program;
mod rules;
#[cfg(test)]
mod tests;
mod types;
mod url;
mod value;
#[cfg(test)]
mod vectors;

pub(crate) use examine::{cardinality, examine};
pub(crate) use paths::normalised as field_path;
#[cfg(test)]
use program::Program;
pub(crate) use rules::{Draft, Rules};
pub(crate) use types::bound;
pub(crate) use value::Place;
