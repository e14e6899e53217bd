//! Metrics in the demo of `up`: every spoke has a built-in source of metrics and runs the collectors that its endpoint operator
//! deploys, and all of them write to one receiver. Source and receiver are on the plain HTTP address.
//!
//! | module | what it does |
//! |---|---|
//! | `exposition` | the metrics of a spoke as text, and which of them selectors match; pure |
//! | `source` | serves them at `/demo/prometheus/SPOKE/…`, as a Prometheus would federate them |
//! | `receiver` | accepts remote write, and shows the last value of each series |
//! | `runner` | runs the processes of the collectors' Deployments |
//! | `samples` | the objects that turn metrics on |

mod exposition;
mod receiver;
mod runner;
mod samples;
mod source;

use std::time::Duration;

use axum::Router;
use bellwether_apiserver::{ApiServer, Identity};

pub(crate) use self::runner::run as run_collectors;
pub(crate) use self::samples::create as create_samples;
use super::SIMULATOR;

const SOURCE_PATH: &str = "/demo/prometheus";
const RECEIVER_PATH: &str = "/demo/receiver";

/// The addresses of the source and the receiver, on the HTTP address of `up`.
#[derive(Clone, Debug)]
pub(crate) struct DemoMetrics {
    http: String,
    spokes: usize,
}

impl DemoMetrics {
    pub(crate) fn new(http: String, spokes: usize) -> Self {
        Self { http, spokes }
    }

    /// The metrics of the platform of a spoke.
    pub(crate) fn platform(&self, spoke: &str) -> String {
        format!("{}{SOURCE_PATH}/{spoke}/platform/federate", self.http)
    }

    /// The metrics of the user workloads of a spoke.
    pub(crate) fn user_workloads(&self, spoke: &str) -> String {
        format!("{}{SOURCE_PATH}/{spoke}/user-workloads/federate", self.http)
    }

    fn receiver(&self) -> String {
        format!("{}{RECEIVER_PATH}/api/v1/receive", self.http)
    }

    /// The time between two cycles of a collector: short, so that states change within seconds, and longer the more spokes there
    /// are, so that their collectors together need little CPU.
    pub(crate) fn interval(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_secs(2);
        const PER_SPOKE: Duration = Duration::from_millis(40);
        SHORTEST.max(PER_SPOKE * u32::try_from(self.spokes).unwrap_or(u32::MAX))
    }
}

/// The routes of the sources of all spokes and of the receiver.
pub(crate) fn routes(server: &ApiServer, spokes: &[String]) -> Router {
    let client_of = |spoke: &String| (spoke.clone(), server.client(spoke, Identity::controller(SIMULATOR)));
    let sources = source::routes(spokes.iter().map(client_of).collect());
    Router::new().nest(SOURCE_PATH, sources).nest(RECEIVER_PATH, receiver::routes())
}
