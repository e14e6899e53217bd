//! Test clusters with one interface, so that one suite runs against all of them:
//!
//! - [`embedded`]: our API server in memory, in process, on tokio's (paused) clock, or over TLS on a free port;
//! - [`real`]: etcd, kube-apiserver and kube-controller-manager from `KUBEBUILDER_ASSETS`.
//!
//! [`rights`] runs controllers with the rights that are deployed. [`postgres`] starts a PostgreSQL for those who keep rows.
//!
//! A [`Cluster`] gives a `kube::Client`, raw requests, and watch streams with a deadline. What is missing or late is
//! a panic with words: this crate is for tests only.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod cluster;
pub mod embedded;
mod fuse;
pub mod postgres;
pub mod real;
mod request;
pub mod rights;
mod scenarios;
mod tap;
mod wait;
mod watch;

pub use bellwether_clock::SteadyClock;
pub use cluster::{Cluster, Flavour};
pub use fuse::{Fuse, Moment};
pub use request::{Answer, Call};
pub use scenarios::{Scenario, in_lanes};
pub use tap::{Sent, Tap};
pub use wait::{PATIENCE, eventually, on_paused_time, on_real_time};
pub use watch::{Event, WatchStream};
