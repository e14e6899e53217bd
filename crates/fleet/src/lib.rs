//! The fleet API: clusters and node pools, and whether their current generation is ready.

pub mod client;
pub mod config;
pub mod decide;
pub mod feed;
mod fleet;
pub mod http;
pub mod kinds;
pub mod mapping;
mod measured;
mod recompute;
pub mod resource;
pub mod search;
pub mod serve;
pub mod store;
pub mod vocabulary;
pub mod writer;

pub use fleet::Fleet;
pub use measured::Measured;
pub use recompute::RecomputeError;
