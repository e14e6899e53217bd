//! `bellwether bench lifecycle`: an add-on goes to many clusters, and then from one version to the next, under `bellwether
//! run hub`, on the embedded API server and on kube-apiserver. Server and hub are processes of their own.

mod answers;
mod audit;
mod fleet;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use self::audit::{Audit, Writes};
use self::fleet::Fleet;
use super::contestant::{Contender, Contestant};
use super::process::Process;
use super::report::{Figure, Report, Unit};
use super::{Figures, Progress, interruptible, print};
use crate::cli::Output;

/// The steps of a run, for the progress bar.
const STEPS: u64 = 4;
/// Who the hub is, in the audit log.
const HUB: &str = "bench-hub";
/// How long the audit log may lag behind.
const SETTLE: Duration = Duration::from_secs(1);
/// How long nothing happens while writes are counted.
const QUIET: Duration = Duration::from_secs(10);

/// Measure the lifecycle of an add-on: how long it takes to install on many clusters, and to upgrade there.
///
/// Starts an API server and `bellwether run hub` as processes of their own, joins clusters, and answers the works for them
/// at once. Then places an add-on on all of them, and after that its next version. Where kube-apiserver and etcd are at
/// hand, the same hub does the same on them.
///
/// Figures mean something when nothing else runs on the machine and this binary is a release build.
///
///   bellwether bench lifecycle --clusters 100,500,1000
///   KUBEBUILDER_ASSETS=DIR bellwether bench lifecycle -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct LifecycleArgs {
    /// The directory with the programs kube-apiserver and etcd to run on as well. Without it: the embedded server alone.
    #[arg(long, value_name = "DIR", env = "KUBEBUILDER_ASSETS")]
    assets: Option<PathBuf>,

    /// How many clusters there are, one run for each number.
    #[arg(
        long,
        value_name = "N,…",
        value_delimiter = ',',
        default_values_t = [100, 500, 1000],
        value_parser = clap::value_parser!(u32).range(1..=50_000)
    )]
    clusters: Vec<u32>,

    /// How many rounds to take the median of.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// A few clusters: shows that everything works, and no more.
    #[arg(long, conflicts_with_all = ["clusters", "rounds"])]
    quick: bool,

    /// How to print the figures.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(crate) fn run(arguments: &LifecycleArgs) -> anyhow::Result<()> {
    let sizes = if arguments.quick { vec![5] } else { arguments.clusters.clone() };
    let report = interruptible(async {
        let contestants = Contestant::all(arguments.assets.as_deref())?;
        let runs = u64::from(arguments.rounds) * (contestants.len() * sizes.len()) as u64;
        let progress = Progress::new(runs * STEPS);
        let mut report = Report::default();
        for _ in 0..arguments.rounds {
            for size in &sizes {
                for (side, contestant) in &contestants {
                    progress.part(&format!("{size} clusters, {}", contestant.name()));
                    report.add(*side, measure(contestant, *size as usize, &progress).await?);
                }
            }
        }
        progress.bar.finish_and_clear();
        Ok(report)
    })?;
    print(&report, &notes(arguments), arguments.output);
    Ok(())
}

async fn measure(contestant: &Contestant, size: usize, progress: &Progress) -> anyhow::Result<Vec<Figure>> {
    progress.step("start");
    let server = contestant.start().await?;
    let mut fleet = Fleet::new(&server, size).await?;
    let mut audit = Audit::new(server.audit_log(), HUB);
    let hub = Hub::start(&server)?;

    progress.step("join");
    fleet.join().await?;
    let mut figures = Labelled { size, figures: Figures::default() };
    for (step, version) in [("install", "v1"), ("upgrade", "v2")] {
        progress.step(step);
        tokio::time::sleep(SETTLE).await;
        audit.read()?;
        let before = (hub.process.cpu_time()?, server.cpu_time()?);
        let refused = fleet.answers_refused();
        fleet.place(version).await?;
        let took = fleet.until_all_run(version).await?;
        figures.add(step, Unit::Seconds, took.as_secs_f64());
        let cpu = (hub.process.cpu_time()? - before.0, server.cpu_time()? - before.1);
        figures.add(&format!("{step}, CPU of the hub"), Unit::Seconds, cpu.0.as_secs_f64());
        figures.add(&format!("{step}, CPU of the server"), Unit::Seconds, cpu.1.as_secs_f64());
        tokio::time::sleep(SETTLE).await;
        let Writes { of_clusters, conflicts } = audit.read()?;
        let each = of_clusters as f64 / size as f64;
        figures.add(&format!("{step}, writes for each cluster"), Unit::Count, each);
        figures.add(&format!("{step}, conflicts"), Unit::Count, conflicts as f64);
        let refused = fleet.answers_refused() - refused;
        figures.add(&format!("{step}, answers of clusters refused"), Unit::Count, refused as f64);
    }
    tokio::time::sleep(QUIET).await;
    figures.add("writes while nothing changes", Unit::Count, audit.read()?.of_clusters as f64);
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    figures.add("memory of the hub", Unit::Megabytes, megabytes(hub.process.resident_bytes()?));
    figures.add("memory of the server", Unit::Megabytes, megabytes(server.resident_bytes()?));
    Ok(figures.figures.0)
}

/// Figures of one size.
struct Labelled {
    size: usize,
    figures: Figures,
}

impl Labelled {
    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.figures.add(&format!("{} clusters: {label}", self.size), unit, value);
    }
}

/// The hub as a process of its own.
struct Hub {
    process: Process,
    _dir: tempfile::TempDir,
}

impl Hub {
    fn start(server: &Contender) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let kubeconfig = server.kubeconfig_of(HUB)?.display().to_string();
        let arguments =
            ["run", "hub", "--leader-election=false", "--listen", "127.0.0.1:0", "--kubeconfig", &kubeconfig];
        let process = Process::spawn(&program, &arguments.map(str::to_owned), dir.path())?;
        Ok(Self { process, _dir: dir })
    }
}

fn notes(arguments: &LifecycleArgs) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Median of {} round(s), each on fresh servers; release build: {}.",
            arguments.rounds,
            if cfg!(debug_assertions) { "no, so the figures mean nothing" } else { "yes" }
        ),
        "From the write of the add-on's strategy until the last cluster says Succeed. One ConfigMap a version; works are answered at once, by two writes at first and by one after that, from the process that measures."
            .to_owned(),
        "Writes are those of the hub to ManagedClusterAddOns and ManifestWorks, from the server's audit log.".to_owned(),
    ];
    if arguments.assets.is_some() {
        notes.push("The same hub on both. The server is kube-apiserver with etcd on the one side; both sync every write, with RBAC, managedFields and an audit log.".to_owned());
    }
    notes
}
