//! Starts Sentinel as a process on the built-in queue, and reads its metrics.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use tempfile::TempDir;

use crate::bellwether::Bellwether;
use crate::fleet::server::{Connection, Server};
use crate::process::Process;

/// How often metrics are read while the benchmark waits for a change in them.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const RESOURCES: &str = "hyperfleet_sentinel_resources";
const SKIPPED: &str = "hyperfleet_sentinel_resources_skipped_total";
const PUBLISHED: &str = "hyperfleet_sentinel_events_published_total";
const CYCLES: &str = "hyperfleet_sentinel_poll_duration_seconds_count";
const CYCLE_SECONDS: &str = "hyperfleet_sentinel_poll_duration_seconds_sum";

/// A running Sentinel. On drop its process ends, and its directory is removed.
pub(super) struct Sentinel {
    pub(super) process: Process,
    /// The time when the process was started.
    pub(super) started: Instant,
    metrics: Connection,
    dir: TempDir,
}

impl Sentinel {
    /// Starts a Sentinel for the clusters of a fleet API, with the default configuration.
    pub(super) async fn start(bellwether: &Bellwether, fleet: &Server) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let (api, broker) =
            (format!("http://{}", fleet.address), format!("sqlite:{}", queue_path(&dir).display()));
        let mut arguments = vec!["run", "sentinel", "--resource-type", "clusters", "--listen", "127.0.0.1:0"];
        arguments.extend(["--api", &api, "--broker", &broker]);
        let started = Instant::now();
        let mut process = bellwether.spawn(&arguments, dir.path())?;
        let address = process.wait_for_address().await?;
        let metrics = Connection::open(address).await?;
        Ok(Self { process, started, metrics, dir })
    }

    /// The file of the queue.
    pub(super) fn queue(&self) -> PathBuf {
        queue_path(&self.dir)
    }

    /// Reads the metrics after a short wait. Fails if the process has ended.
    pub(super) async fn poll_metrics(&mut self) -> anyhow::Result<Metrics> {
        tokio::time::sleep(POLL_INTERVAL).await;
        self.process.check_running()?;
        let (status, body) = self.metrics.send_to(Method::GET, "/metrics", "").await?;
        anyhow::ensure!(status == StatusCode::OK, "GET /metrics of Sentinel: HTTP {status}");
        Ok(Metrics::parse(&String::from_utf8_lossy(&body)))
    }
}

fn queue_path(dir: &TempDir) -> PathBuf {
    dir.path().join("queue.db")
}

/// The metrics of a Sentinel at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Metrics {
    /// The number of resources at the end of the last cycle.
    pub(super) resources: f64,
    /// The number of evaluations that did not lead to a pulse, one for each change and one for each resource of a cycle.
    pub(super) skipped: f64,
    pub(super) published: f64,
    pub(super) cycles: f64,
    /// The duration of all cycles.
    pub(super) cycle_seconds: f64,
}

impl Metrics {
    fn parse(text: &str) -> Self {
        Self {
            resources: sum(text, RESOURCES),
            skipped: sum(text, SKIPPED),
            published: sum(text, PUBLISHED),
            cycles: sum(text, CYCLES),
            cycle_seconds: sum(text, CYCLE_SECONDS),
        }
    }
}

/// The sum of the samples of a metric.
fn sum(text: &str, name: &str) -> f64 {
    let samples = text
        .lines()
        .filter(|line| line.strip_prefix(name).is_some_and(|after| after.starts_with(['{', ' '])));
    // Values of labels may contain spaces; the value of the sample is the last word.
    samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_metric_are_added() {
        let text = r#"# TYPE hyperfleet_sentinel_resources gauge
hyperfleet_sentinel_resources{resource_type="clusters"} 7
hyperfleet_sentinel_resources_skipped_total{reason="message decision result is false"} 3
hyperfleet_sentinel_resources_skipped_total{reason="evaluation failed"} 2
hyperfleet_sentinel_poll_duration_seconds_sum{resource_type="clusters"} 0.25
hyperfleet_sentinel_poll_duration_seconds_count{resource_type="clusters"} 2
"#;
        let expected =
            Metrics { resources: 7.0, skipped: 5.0, published: 0.0, cycles: 2.0, cycle_seconds: 0.25 };
        assert_eq!(Metrics::parse(text), expected);
    }
}
