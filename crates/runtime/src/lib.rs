//! What every controller of Bellwether shares, so that a controller is what it decides and little else.
//!
//! | module | what it gives |
//! |---|---|
//! | [`Context`] | the cluster a controller works on, and the process it works in |
//! | [`Reconciler`], [`run`] | a controller from one function: bounded concurrency, backoff, leadership, metrics, health |
//! | [`Agenda`] | deadlines for objects too lively to be looked at at every change |
//! | [`Rounds`] | visits, a bounded number together, from what a controller keeps in memory |
//! | [`Backoff`], [`Growth`] | how long to leave an object alone after a failure |
//! | [`Leadership`] | which of several copies acts |
//! | [`Metrics`], [`Health`], [`http`] | what the process says of itself |
//! | [`Shutdown`] | an end that finishes what was begun |
//!
//! **Nothing here knows a kind of ours.** A controller that is called for every change uses [`run`]; one on objects that
//! change all the time watches by itself and keeps an [`Agenda`].

mod agenda;
mod backoff;
mod bound;
mod context;
mod controller;
mod health;
pub mod http;
mod leadership;
pub mod metrics;
mod rounds;
mod shutdown;

pub use agenda::Agenda;
pub use backoff::{Backoff, Growth};
pub use bound::heard;
pub use context::Context;
pub use controller::{Failure, Next, Reconciler, run};
pub use health::{Health, Part, in_words};
pub use leadership::{Election, Leadership};
pub use metrics::Metrics;
pub use rounds::Rounds;
pub use shutdown::Shutdown;
