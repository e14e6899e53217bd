//! The part `collector`: what `bellwether run collector` costs per cycle, and what Prometheus in agent mode costs that forwards
//! the same series. They run one after the other.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use super::receiver::{ADDED_LABELS, Receiver};
use super::source::{ELIDED_LABELS, Source};
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Progress};
use crate::process::Process;
use crate::report::{Figure, Side, Unit};
use crate::server::free_port;
use crate::statistics::Latencies;

/// The number of steps, for the progress bar.
pub(super) const STEPS: u64 = 3;
/// The cycles before the measured ones: in the first one, Prometheus creates its series.
const WARM_UP_CYCLES: usize = 1;
/// How long the first request may take after the start of the process, in addition to an interval.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// The size of the part.
pub(super) struct Plan {
    pub(super) series: usize,
    pub(super) cycles: usize,
    pub(super) interval: Duration,
    pub(super) samples_per_send: Option<u32>,
}

impl Plan {
    pub(super) fn notes(&self, prometheus: Option<&Prometheus>) -> Vec<String> {
        let mut notes = vec![format!(
            "collector: {} series every {:?}; CPU is that of {} cycles after the first one, memory is the peak since the start. \
             Labels are removed from and added to every series; every series arrived exactly once per cycle with its value.",
            self.series, self.interval, self.cycles
        )];
        notes.push(match prometheus {
            Some(Prometheus { path, version, .. }) => format!(
                "collector: beside Prometheus {version} ({}) in agent mode, which federates the same series with {} samples per \
                 request. Target: at most its CPU and half its memory.",
                path.display(),
                self.samples_per_send.map_or("its default number of".to_owned(), |count| count.to_string())
            ),
            None => "collector: there is no Prometheus in PATH to compare with; install the package prometheus, or name it with \
                     --prometheus PATH."
                .to_owned(),
        });
        notes
    }
}

/// The Prometheus to compare with.
pub(super) struct Prometheus {
    path: PathBuf,
    version: String,
}

impl Prometheus {
    /// The binary at `path`, or else the one in PATH, if there is one.
    pub(super) fn find(path: Option<&Path>) -> anyhow::Result<Option<Self>> {
        let in_path = || {
            let directories = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&directories)
                .map(|directory| directory.join("prometheus"))
                .find(|program| program.is_file())
        };
        let Some(path) = path.map(Path::to_owned).or_else(in_path) else { return Ok(None) };
        let output = Command::new(&path)
            .arg("--version")
            .output()
            .with_context(|| format!("cannot run {} --version", path.display()))?;
        // Some versions write it to stderr.
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let version = text.split_once("version ").and_then(|(_, rest)| rest.split_whitespace().next());
        let version =
            version.with_context(|| format!("{} --version shows no version", path.display()))?.to_owned();
        Ok(Some(Self { path, version }))
    }

    /// The flag of the agent mode, which was an experimental feature up to version 2.
    fn agent_flag(&self) -> &'static str {
        match self.version.split('.').next() {
            Some("0" | "1" | "2") => "--enable-feature=agent",
            _ => "--agent",
        }
    }

    fn spawn(
        &self,
        source: &Source,
        receiver: &Receiver,
        plan: &Plan,
        dir: &Path,
    ) -> anyhow::Result<Process> {
        let interval = format!("{}s", plan.interval.as_secs());
        let mut remote_write = json!({"url": receiver.url()});
        if let (Some(count), Some(fields)) = (plan.samples_per_send, remote_write.as_object_mut()) {
            let queue = json!({"max_samples_per_send": count, "capacity": u64::from(count) * 5});
            fields.insert("queue_config".to_owned(), queue);
        }
        let added: serde_json::Map<_, _> =
            ADDED_LABELS.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        // JSON is YAML, too.
        let config = json!({
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "external_labels": added},
            "scrape_configs": [{
                "job_name": "federate",
                "honor_labels": true,
                "metrics_path": "/federate",
                "params": {"match[]": source.selectors()},
                "static_configs": [{"targets": [source.address().to_string()]}],
                "metric_relabel_configs": [{"action": "labeldrop", "regex": ELIDED_LABELS.join("|")}],
            }],
            "remote_write": [remote_write],
        });
        let path = dir.join("prometheus.yml");
        std::fs::write(&path, config.to_string())?;
        let arguments = [
            self.agent_flag().to_owned(),
            format!("--config.file={}", path.display()),
            format!("--storage.agent.path={}", dir.join("data").display()),
            format!("--web.listen-address=127.0.0.1:{}", free_port()?),
        ];
        Process::spawn(&self.path, &arguments, dir)
    }
}

/// Measures the collector, and Prometheus if there is one.
pub(super) async fn measure(
    bellwether: &Bellwether,
    prometheus: Option<&Prometheus>,
    plan: &Plan,
    progress: &Progress,
) -> anyhow::Result<Vec<(Side, Vec<Figure>)>> {
    progress.step("write the series");
    let source = Source::start(plan.series).await?;
    let receiver = Receiver::start(source.series()).await?;
    let mut measured = Vec::new();

    progress.step("bellwether");
    let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
    let process = spawn_collector(bellwether, &source, &receiver, plan, dir.path())?;
    measured.push((Side::Bellwether, measure_process(process, &source, &receiver, plan).await?));

    progress.step("Prometheus");
    if let Some(prometheus) = prometheus {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let process = prometheus.spawn(&source, &receiver, plan, dir.path())?;
        measured.push((Side::Prometheus, measure_process(process, &source, &receiver, plan).await?));
    }
    Ok(measured)
}

fn spawn_collector(
    bellwether: &Bellwether,
    source: &Source,
    receiver: &Receiver,
    plan: &Plan,
    dir: &Path,
) -> anyhow::Result<Process> {
    let (from, to) = (format!("http://{}", source.address()), receiver.url());
    let interval = format!("{}s", plan.interval.as_secs());
    let selectors = source.selectors();
    let added = ADDED_LABELS.map(|(name, value)| format!("{name}={value}"));
    let mut arguments = vec!["run", "collector", "--disable-status-reporting", "--listen", "127.0.0.1:0"];
    // The endpoint operator sets the same size limit by default.
    arguments.extend(["--from", &from, "--to-upload", &to, "--interval", &interval]);
    arguments.extend(["--limit-bytes", "1073741824"]);
    arguments.extend(selectors.iter().flat_map(|selector| ["--match", selector.as_str()]));
    arguments.extend(added.iter().flat_map(|label| ["--label", label.as_str()]));
    bellwether.spawn(&arguments, dir)
}

/// Measures a process that forwards the series of the source to the receiver, from its start on.
async fn measure_process(
    mut process: Process,
    source: &Source,
    receiver: &Receiver,
    plan: &Plan,
) -> anyhow::Result<Vec<Figure>> {
    source.reset();
    receiver.reset();
    // CPU is read at the beginning of cycles, so that it contains what a process does after it has sent everything.
    let timeout = plan.interval * 2 + START_TIMEOUT;
    wait_for_requests(source, WARM_UP_CYCLES + 1, timeout, &mut process).await?;
    let (cpu_before, traffic_before) = (process.cpu_time()?, receiver.traffic());
    let count = WARM_UP_CYCLES + plan.cycles + 1;
    let timeout = plan.interval * u32::try_from(plan.cycles)? + START_TIMEOUT;
    let served = wait_for_requests(source, count, timeout, &mut process).await?;
    let (cpu, traffic, peak) = (process.cpu_time()?, receiver.traffic(), process.peak_bytes()?);
    let mut durations = Latencies::default();
    for cycle in served.iter().take(WARM_UP_CYCLES + plan.cycles) {
        let arrived = receiver.wait_for_cycle(cycle.timestamp, plan.interval).await?;
        durations.add(arrived.saturating_duration_since(cycle.at));
    }
    let cycles = plan.cycles as f64;
    let mut figures = Figures::default();
    let cpu = cpu.saturating_sub(cpu_before).as_secs_f64();
    figures.add("collector, CPU per cycle", Unit::Milliseconds, cpu * 1000.0 / cycles);
    figures.add("collector, peak memory", Unit::Megabytes, peak as f64 / 1e6);
    for (name, part) in [("p50", 0.5), ("max", 1.0)] {
        let millis = durations.quantile_millis(part).context("no cycle was measured")?;
        figures.add(&format!("collector, duration of a cycle, {name}"), Unit::Milliseconds, millis);
    }
    let requests = (traffic.requests - traffic_before.requests) as f64;
    figures.add("collector, requests per cycle", Unit::Count, requests / cycles);
    let megabytes = (traffic.bytes - traffic_before.bytes) as f64 / 1e6;
    figures.add("collector, sent per cycle", Unit::Megabytes, megabytes / cycles);
    Ok(figures.0)
}

/// Waits for requests to the source while the process runs.
async fn wait_for_requests(
    source: &Source,
    count: usize,
    timeout: Duration,
    process: &mut Process,
) -> anyhow::Result<Vec<super::source::Served>> {
    let waited = tokio::time::timeout(timeout, source.wait_for_requests(count)).await;
    process.check_running()?;
    waited.with_context(|| format!("there were not {count} cycles within {timeout:?}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_mode_is_a_feature_up_to_version_2() {
        for (version, flag) in [("2.42.0+ds", "--enable-feature=agent"), ("3.5.0", "--agent")] {
            let prometheus = Prometheus { path: PathBuf::new(), version: version.to_owned() };
            assert_eq!(prometheus.agent_flag(), flag, "{version}");
        }
    }
}
