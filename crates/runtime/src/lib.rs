//! What every controller of Bellwether shares, so that a controller is its decisions and little else.
//!
//! | item | what it provides |
//! |---|---|
//! | [`Context`] | the cluster a controller works on, and the process it runs in |
//! | [`Reconciler`], [`run`] | the plain controller: one function per object of a kind |
//! | [`IndexedReconciler`], [`run_indexed`] | the controller over an index in memory: watches → index → dirty keys → reconcile |
//! | [`Watches`], [`Watch`], [`DirtyKeys`] | how watches fill an index, and how the index enqueues keys |
//! | [`Objects`], [`ObjectIndex`] | caches of whole objects, and the index of the plain controller |
//! | [`BackoffPolicy`] | growing delays after failures |
//! | [`Leadership`], [`Election`] | which of several replicas acts |
//! | [`Metrics`], [`Health`], [`http`] | what the process reports about itself |
//! | [`reloading`](fn@reloading) | a client that reads its credentials again when they change |
//! | [`yaml`] | strict configuration files, with the place of an error |
//! | [`Shutdown`] | a stop that finishes what is running |
//!
//! **Nothing here knows one of our kinds.** Both controllers bound their concurrency, never reconcile a key twice at the
//! same time, retry with backoff, and turn a panic or a timeout of a reconcile into a logged, counted retry of its key.

mod backoff;
mod client;
mod context;
mod dirty;
mod election;
mod guard;
mod health;
pub mod http;
mod indexed;
mod leadership;
pub mod metrics;
mod objects;
mod reconciler;
mod reloading;
mod shutdown;
mod timers;
mod watches;
mod work_queue;
pub mod yaml;

pub use backoff::BackoffPolicy;
pub use context::Context;
pub use dirty::DirtyKeys;
pub use election::Election;
pub use health::{Component, Health, describe_watch_error};
pub use indexed::{IndexedReconciler, run_indexed};
pub use leadership::Leadership;
pub use metrics::Metrics;
pub use objects::{ObjectIndex, Objects};
pub use reconciler::{IndexOf, Next, ReconcileError, Reconciler, Retry, run};
pub use reloading::{Loaded, reloading};
pub use shutdown::Shutdown;
pub use watches::{
    Deleted, DynamicWatches, IndexSource, Listing, ObjectName, Origin, SharedWatches, Subscription, Watch,
    WatchHandle, Watches,
};
pub use work_queue::Lane;
