//! Test clusters with one interface, so that one suite runs against all of them:
//!
//! - [`embedded`]: the embedded API server in memory, in process on tokio's (paused) clock, or over TLS on a free port;
//! - [`real`]: etcd, kube-apiserver and kube-controller-manager from `KUBEBUILDER_ASSETS`.
//!
//! [`rights`] runs controllers with the deployed permissions. [`postgres`] starts PostgreSQL for tests of SQL
//! stores, [`prometheus`] starts Prometheus for tests of the metrics collector, [`nats`] and [`rabbitmq`] start message brokers.
//!
//! A [`Cluster`] gives a `kube::Client`, raw requests, and watch streams with a deadline. This crate is for
//! tests only: if something is missing or late, it panics with a message.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends with a panic"
)]

mod cluster;
mod crash;
pub mod embedded;
mod hub_and_spoke;
pub mod nats;
pub mod postgres;
pub mod prometheus;
pub mod rabbitmq;
pub mod real;
mod request;
pub mod rights;
mod scenarios;
mod tap;
mod wait;
mod watch;

pub use bellwether_clock::SteadyClock;
pub use cluster::{Cluster, Flavour};
pub use crash::{CrashAtWrite, CrashPoint};
pub use hub_and_spoke::HubAndSpoke;
pub use request::{Answer, Call};
pub use scenarios::{Scenario, run_in_lanes};
pub use tap::{RecordedRequest, Tap};
pub use wait::{WAIT_TIMEOUT, eventually, on_paused_time, on_real_time};
pub use watch::{Event, WatchStream};
