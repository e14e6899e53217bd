//! Rules of custom resources in the Common Expression Language: which rules apply to which values, and how a failure is
//! reported. Parsing, type check and evaluation are `bellwether_cel`'s; `view` shows it our schemas.
//!
//! Nothing here does input or output: a schema, an object and its past in, errors out.

mod examine;
mod paths;
mod rules;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use examine::{cardinality, examine};
pub(crate) use paths::normalised as field_path;
pub(crate) use rules::{Draft, Rules};
pub(crate) use view::bound;
