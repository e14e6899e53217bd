//! Bellwether's own Kubernetes types, one module for each API group, and the definitions generated from them.
//! A type comes with the job that uses it. What its objects mean is not known here.
//!
//! The definitions are also kept in `deploy/crds`; after changing a type, write them again with
//! `BELLWETHER_WRITE_CRDS=1 cargo test -p bellwether-api`.
#![allow(clippy::duplicated_attributes, reason = "two columns of a table may be of one type")]

pub mod addons_managed;
mod definition;
mod schemas;

pub use definition::{Definition, Place, crds};
