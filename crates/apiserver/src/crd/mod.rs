//! CustomResourceDefinitions: reading one, checking it, and what it makes the server serve.

mod check;
mod definition;
mod rules;
pub(crate) mod serve;
mod shared;
mod versions;

pub(crate) use check::{Candidate, check, check_status, check_update};
pub(crate) use definition::{PrinterColumn, Scale, Version};
pub(crate) use shared::Schemas;
pub(crate) use versions::unrecognised_formats;

/// The keyspace of definitions, below a logical cluster.
pub(crate) const SPACE: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Holds a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
