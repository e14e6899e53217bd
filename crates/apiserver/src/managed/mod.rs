//! managedFields and server-side apply: who owns which field of an object, and what becomes of both when somebody
//! writes. `element`, `set` and `fields` are sets of paths and how they are written; `types` says how values merge;
//! `compare` and `merge` follow the types; `update` decides who owns what; `record` is what the rest of the server
//! calls. All of it is pure.

mod compare;
mod element;
mod endpoint;
mod entries;
mod fields;
mod merge;
#[cfg(test)]
mod properties;
mod prune;
mod reconcile;
mod record;
mod scale;
mod set;
mod types;
mod update;
mod validate;

pub(crate) use endpoint::Endpoint;
pub(crate) use record::{Applying, Refused, apply, differ_in_times_only, record};
pub(crate) use scale::Scaled;
