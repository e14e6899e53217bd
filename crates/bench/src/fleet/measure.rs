//! The measurement on one database, part by part, with the targets of the figures.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::reports::{ADAPTERS, is_kept_unready, report_all, send_at_rate, send_reports};
use super::server::Server;
use super::{Part, Plan, clusters, reads};
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Progress};
use crate::memory::MemorySampler;
use crate::process::own_cpu_time;
use crate::report::Unit;
use crate::statistics::Latencies;

/// The number of steps of a run on one database, for the progress bar.
pub(super) const STEPS: u64 = 7;
/// How many connections send requests concurrently.
pub(super) const CONNECTIONS: usize = 64;
/// The loads of reports that are measured.
const REPORT_LOADS: [ReportLoad; 2] = [
    ReportLoad { connections: CONNECTIONS, rate_target: 5_000.0, p99_target: Some(50.0) },
    ReportLoad { connections: 16, rate_target: 3_500.0, p99_target: None },
];
/// How many reports are sent per second while reads are measured, and over how many connections.
pub(super) const BACKGROUND_REPORTS: u32 = 500;
const BACKGROUND_CONNECTIONS: usize = 16;

const CREATES_TARGET: f64 = 6_000.0;
const READ_P50_TARGET: f64 = 20.0;
const SQLITE_MEMORY_TARGET: f64 = 200.0;

/// How many connections send reports, and the targets.
struct ReportLoad {
    connections: usize,
    rate_target: f64,
    /// In milliseconds.
    p99_target: Option<f64>,
}

/// A database to measure.
#[derive(Clone, Copy)]
pub(super) enum Target<'a> {
    Sqlite,
    /// The URL of an empty database.
    Postgres(&'a str),
}

impl<'a> Target<'a> {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "SQLite",
            Self::Postgres(_) => "PostgreSQL",
        }
    }

    fn postgres(self) -> Option<&'a str> {
        match self {
            Self::Sqlite => None,
            Self::Postgres(url) => Some(url),
        }
    }
}

/// Measures the parts of a plan on a database.
pub(super) async fn measure(
    bellwether: &Bellwether,
    target: Target<'_>,
    plan: &Plan,
    progress: &Progress,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    progress.part(target.name());
    progress.step("start");
    let server = Server::start(bellwether, &ADAPTERS, target.postgres()).await?;
    let memory = MemorySampler::start(&server.process);
    let mut run = Run { server: &server, plan, progress, figures, name: target.name() };
    let ids = run.create_clusters().await?;
    if plan.has(Part::Reports) {
        for load in &REPORT_LOADS {
            run.send_reports(&ids, load).await?;
        }
    }
    if plan.has(Part::Reads) {
        run.read(&ids).await?;
    }
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    let peak = megabytes(server.process.peak_bytes()?);
    match target {
        Target::Sqlite => run.add_with_target("memory, peak", Unit::Megabytes, peak, SQLITE_MEMORY_TARGET),
        Target::Postgres(_) => run.add("memory, peak", Unit::Megabytes, peak),
    }
    run.add("memory of its own, peak", Unit::Megabytes, megabytes(memory.peak().anonymous));
    run.add("memory of mapped files, peak", Unit::Megabytes, megabytes(memory.peak().files));
    Ok(())
}

/// The measurement of a server, and its figures.
struct Run<'a> {
    server: &'a Server,
    plan: &'a Plan,
    progress: &'a Progress,
    figures: &'a mut Figures,
    /// The name of the database.
    name: &'static str,
}

impl Run<'_> {
    /// Creates the clusters, which every part needs, and returns their IDs.
    async fn create_clusters(&mut self) -> anyhow::Result<Vec<String>> {
        self.progress.step("create clusters");
        let cpu = Cpu::begin(self.server)?;
        let mut created = clusters::create_clusters(self.server, self.plan.clusters, CONNECTIONS).await?;
        self.add_with_target("creates", Unit::PerSecond, created.per_second(), CREATES_TARGET);
        self.add("creates, first tenth", Unit::PerSecond, created.first_tenth_per_second());
        self.add("creates, last tenth", Unit::PerSecond, created.last_tenth_per_second());
        self.add_quantile("create, p50", &mut created.latencies, 0.5);
        self.add_quantile("create, p99", &mut created.latencies, 0.99);
        self.add_cpu("creates", &cpu)?;
        Ok(created.ids)
    }

    async fn send_reports(&mut self, ids: &[String], load: &ReportLoad) -> anyhow::Result<()> {
        self.progress.step("report");
        let cpu = Cpu::begin(self.server)?;
        let connections = load.connections;
        let mut sent = send_reports(self.server, ids, connections, self.plan.report_duration).await?;
        sent.check_all_accepted()?;
        let label = format!("reports, {connections} connections");
        self.add_with_target(&label, Unit::PerSecond, sent.per_second(), load.rate_target);
        self.add_quantile(&format!("{label}, p50"), &mut sent.latencies, 0.5);
        self.add_quantile_with_target(&format!("{label}, p99"), &mut sent.latencies, 0.99, load.p99_target);
        self.add_quantile(&format!("{label}, max"), &mut sent.latencies, 1.0);
        self.add_cpu(&label, &cpu)
    }

    async fn read(&mut self, ids: &[String]) -> anyhow::Result<()> {
        self.progress.step("report about all clusters");
        let is_reported = |number| !is_kept_unready(number);
        let sent = report_all(self.server, ids, &ADAPTERS, CONNECTIONS, is_reported).await?;
        sent.check_all_accepted()?;
        self.add("a report of each adapter for each cluster", Unit::PerSecond, sent.per_second());

        self.progress.step("read");
        let reads = reads::reads(ids)?;
        let quiet = reads::measure_all(self.server, &reads, self.plan.reads).await?;
        for (read, mut latencies) in reads.iter().zip(quiet) {
            let label = format!("{}, p50", read.label);
            self.add_quantile_with_target(&label, &mut latencies, 0.5, Some(READ_P50_TARGET));
            self.add_quantile(&format!("{}, p99", read.label), &mut latencies, 0.99);
        }

        self.progress.step("read while reports are sent");
        let (accepted, begun) = (AtomicUsize::new(0), Instant::now());
        let background =
            send_at_rate(self.server, ids, BACKGROUND_CONNECTIONS, BACKGROUND_REPORTS, &accepted);
        let busy = tokio::select! {
            measured = reads::measure_all(self.server, &reads, self.plan.reads) => measured?,
            failed = background => return failed,
        };
        let rate = accepted.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64();
        self.add("reports while clusters are read", Unit::PerSecond, rate);
        for (read, mut latencies) in reads.iter().zip(busy) {
            let label = format!("{} while reports are sent, p50", read.label);
            self.add_quantile_with_target(&label, &mut latencies, 0.5, Some(READ_P50_TARGET));
        }
        Ok(())
    }

    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.figures.add(&format!("{}: {label}", self.name), unit, value);
    }

    fn add_with_target(&mut self, label: &str, unit: Unit, value: f64, target: f64) {
        self.figures.add_with_target(&format!("{}: {label}", self.name), unit, value, target);
    }

    fn add_quantile(&mut self, label: &str, latencies: &mut Latencies, part: f64) {
        self.add_quantile_with_target(label, latencies, part, None);
    }

    fn add_quantile_with_target(
        &mut self,
        label: &str,
        latencies: &mut Latencies,
        part: f64,
        target: Option<f64>,
    ) {
        match (latencies.quantile_millis(part), target) {
            (Some(millis), Some(target)) => self.add_with_target(label, Unit::Milliseconds, millis, target),
            (Some(millis), None) => self.add(label, Unit::Milliseconds, millis),
            (None, _) => {}
        }
    }

    fn add_cpu(&mut self, label: &str, since: &Cpu) -> anyhow::Result<()> {
        let now = Cpu::begin(self.server)?;
        let elapsed = since.begun.elapsed().as_secs_f64();
        for (who, before, after) in
            [("the server", since.server, now.server), ("the load generator", since.own, now.own)]
        {
            let percent = after.saturating_sub(before).as_secs_f64() / elapsed * 100.0;
            self.add(&format!("{label}, CPU of {who}"), Unit::Percent, percent);
        }
        Ok(())
    }
}

/// The CPU time that the server and the load generator have used up to a moment.
struct Cpu {
    begun: Instant,
    server: Duration,
    own: Duration,
}

impl Cpu {
    fn begin(server: &Server) -> anyhow::Result<Self> {
        Ok(Self { begun: Instant::now(), server: server.process.cpu_time()?, own: own_cpu_time()? })
    }
}
