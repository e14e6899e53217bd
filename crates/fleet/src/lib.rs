//! The fleet API: clusters and node pools, and whether they are ready at the generation that was asked for.

pub mod resource;
pub mod search;
pub mod store;
