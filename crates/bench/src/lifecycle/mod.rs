//! `bellwether-bench lifecycle`: how long `bellwether run hub` takes to install an add-on on many clusters and to upgrade it, on
//! the embedded API server and on kube-apiserver. Server and hub are separate processes.

mod audit_log;
mod fleet;
mod work_status;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use self::audit_log::{AuditLog, Writes};
use self::fleet::Fleet;
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::process::Process;
use crate::report::{Figure, Report, Unit};
use crate::server::{Server, ServerKind};

/// The number of steps of a run, for the progress bar.
const STEPS: u64 = 4;
/// The user name of the hub in the audit log.
const HUB_USER: &str = "bench-hub";
/// How long the audit log may be delayed.
const AUDIT_LOG_DELAY: Duration = Duration::from_secs(1);
/// How long writes are counted while nothing changes.
const IDLE_TIME: Duration = Duration::from_secs(10);

/// Measure how long it takes to install an add-on on many clusters, and to upgrade it
///
/// Starts an API server and `bellwether run hub`, joins clusters, and reports their ManifestWorks as applied at once. Then
/// requests an add-on for all clusters, and afterwards its next version. If kube-apiserver and etcd are given, the same
/// hub is also measured on them.
///
/// Figures are comparable only if nothing else runs on the machine and both binaries are built with the profile `dist`.
///
///   bellwether-bench lifecycle --clusters 100,500,1000
///   KUBEBUILDER_ASSETS=DIR bellwether-bench lifecycle -o json
///
/// Exit codes: 0 measured; 1 error; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LifecycleArgs {
    /// The directory with the binaries kube-apiserver and etcd to compare with. Default: measure only the embedded server.
    #[arg(long, value_name = "DIR", env = "KUBEBUILDER_ASSETS")]
    assets: Option<PathBuf>,

    /// The numbers of clusters, from 1 to 50000. Each is measured separately.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_values_t = [100, 500, 1000],
        value_parser = clap::value_parser!(u32).range(1..=50_000)
    )]
    clusters: Vec<u32>,

    /// The number of runs, from 1 to 100. Figures are medians of all runs.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// One run with 5 clusters, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["clusters", "rounds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &LifecycleArgs) -> anyhow::Result<()> {
    let sizes = if arguments.quick { vec![5] } else { arguments.clusters.clone() };
    let report = run_until_signal(async {
        let servers = ServerKind::all(bellwether, arguments.assets.as_deref())?;
        let runs = u64::from(arguments.rounds) * (servers.len() * sizes.len()) as u64;
        let progress = Progress::new(runs * STEPS);
        let mut report = Report::default();
        for _ in 0..arguments.rounds {
            for size in &sizes {
                for (side, server) in &servers {
                    progress.part(&format!("{size} clusters, {}", server.name()));
                    report.add(*side, measure(bellwether, server, *size as usize, &progress).await?);
                }
            }
        }
        progress.bar.finish_and_clear();
        Ok(report)
    })?;
    print_report(&report, &notes(arguments), arguments.output);
    Ok(())
}

async fn measure(
    bellwether: &Bellwether,
    kind: &ServerKind,
    size: usize,
    progress: &Progress,
) -> anyhow::Result<Vec<Figure>> {
    progress.step("start");
    let server = kind.start().await?;
    let mut fleet = Fleet::new(&server, size).await?;
    let mut audit = AuditLog::new(server.audit_log(), HUB_USER);
    let hub = Hub::start(bellwether, &server)?;

    progress.step("join");
    fleet.join().await?;
    let mut figures = SizedFigures { size, figures: Figures::default() };
    for (step, version) in [("install", "v1"), ("upgrade", "v2")] {
        progress.step(step);
        tokio::time::sleep(AUDIT_LOG_DELAY).await;
        audit.read()?;
        let before = (hub.process.cpu_time()?, server.cpu_time()?);
        let failed_before = fleet.failed_reports();
        fleet.request_version(version).await?;
        let took = fleet.wait_until_all_run(version).await?;
        figures.add(step, Unit::Seconds, took.as_secs_f64());
        let cpu = (hub.process.cpu_time()? - before.0, server.cpu_time()? - before.1);
        figures.add(&format!("{step}, CPU of the hub"), Unit::Seconds, cpu.0.as_secs_f64());
        figures.add(&format!("{step}, CPU of the server"), Unit::Seconds, cpu.1.as_secs_f64());
        tokio::time::sleep(AUDIT_LOG_DELAY).await;
        let Writes { succeeded, conflicts } = audit.read()?;
        let per_cluster = succeeded as f64 / size as f64;
        figures.add(&format!("{step}, writes per cluster"), Unit::Count, per_cluster);
        figures.add(&format!("{step}, conflicts"), Unit::Count, conflicts as f64);
        let failed = fleet.failed_reports() - failed_before;
        figures.add(&format!("{step}, failed status reports of clusters"), Unit::Count, failed as f64);
    }
    tokio::time::sleep(IDLE_TIME).await;
    figures.add("writes while nothing changes", Unit::Count, audit.read()?.succeeded as f64);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    figures.add("memory of the hub", Unit::Megabytes, megabytes(hub.process.resident_bytes()?));
    figures.add("memory of the server", Unit::Megabytes, megabytes(server.resident_bytes()?));
    Ok(figures.figures.0)
}

/// Adds figures with the number of clusters.
struct SizedFigures {
    size: usize,
    figures: Figures,
}

impl SizedFigures {
    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.figures.add(&format!("{} clusters: {label}", self.size), unit, value);
    }
}

/// The process of `bellwether run hub`.
struct Hub {
    process: Process,
    _dir: tempfile::TempDir,
}

impl Hub {
    fn start(bellwether: &Bellwether, server: &Server) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let kubeconfig = server.write_kubeconfig(HUB_USER)?.display().to_string();
        let arguments =
            ["run", "hub", "--leader-election=false", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig];
        let process = bellwether.spawn(&arguments, dir.path())?;
        Ok(Self { process, _dir: dir })
    }
}

fn notes(arguments: &LifecycleArgs) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Median of {} run(s), each on new servers; {}.",
            arguments.rounds,
            build_note()
        ),
        "Times are from the write of the ClusterManagementAddOn until the last cluster reports Succeed. Each version has one ConfigMap; the load generator reports ManifestWorks as applied at once, with two writes for the first generation and one for each later one."
            .to_owned(),
        "Writes are those of the hub to ManagedClusterAddOns and ManifestWorks, from the server's audit log.".to_owned(),
    ];
    if arguments.assets.is_some() {
        notes.push("The same hub runs on both servers. Both sync every write, with RBAC, managedFields and an audit log.".to_owned());
    }
    notes
}
