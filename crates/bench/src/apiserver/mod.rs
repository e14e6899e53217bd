//! `bellwether-bench apiserver`: the order of the loads on each server, and their figures. The loads are in the modules below.

mod crds;
mod fanout;
mod requests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use self::fanout::{Fanout, Pace};
use self::requests::{Load, NAMESPACE, Operation, StopAfter, collection, fill};
use crate::bellwether::Bellwether;
use crate::connection::Access;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::report::{Figure, Report, Unit};
use crate::server::{Server, ServerKind, create_namespace};
use crate::statistics::Latencies;

/// How long to wait before the memory of an idle server is read.
const SETTLE_TIME: Duration = Duration::from_millis(500);
/// The number of steps of a run on one server, for the progress bar.
const STEPS: u64 = 12;
const LISTS: usize = 5;
const WRITERS: usize = 4;

/// Measure the embedded Kubernetes API server, and kube-apiserver with etcd for comparison
///
/// Every run starts a new server on a temporary directory, and sends it the same requests over TLS: it waits for /readyz,
/// creates ConfigMaps of 1 KB, then lists, creates, patches, gets and watches, and at last creates CRDs. If kube-apiserver
/// and etcd are given, they are measured after each run of Bellwether. The table has the medians of all runs.
///
/// Figures are comparable only if nothing else runs on the machine and both binaries are built with the profile `dist`.
///
///   bellwether-bench apiserver --quick
///   KUBEBUILDER_ASSETS=DIR bellwether-bench apiserver --rounds 5
///   bellwether-bench apiserver -o json > figures.json
///
/// Exit codes: 0 measured; 1 error; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ApiserverArgs {
    /// The directory with the binaries kube-apiserver and etcd to compare with. Default: measure only Bellwether.
    #[arg(long, value_name = "DIR", env = "KUBEBUILDER_ASSETS")]
    assets: Option<PathBuf>,

    /// The number of runs, from 1 to 100. Figures are medians of all runs.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,

    /// The duration of each load in seconds, from 1 to 60.
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=60))]
    seconds: u16,

    /// One short run with few objects, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["rounds", "seconds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The size of the benchmark.
struct Plan {
    runs: u16,
    load_duration: Duration,
    objects: usize,
    crds: usize,
    watcher_groups: [WatcherGroup; 2],
}

/// Concurrent watchers, and the rate of writes at which their latency is measured. Both servers can sustain this rate.
#[derive(Clone, Copy)]
struct WatcherGroup {
    watchers: usize,
    writes_per_second: u32,
    paced_namespace: &'static str,
    unlimited_namespace: &'static str,
}

impl Plan {
    fn of(arguments: &ApiserverArgs) -> Self {
        let small = |watchers, writes_per_second| WatcherGroup {
            watchers,
            writes_per_second,
            paced_namespace: "paced-small",
            unlimited_namespace: "unlimited-small",
        };
        let large = |watchers, writes_per_second| WatcherGroup {
            watchers,
            writes_per_second,
            paced_namespace: "paced-large",
            unlimited_namespace: "unlimited-large",
        };
        if arguments.quick {
            return Self {
                runs: 1,
                load_duration: Duration::from_millis(200),
                objects: 300,
                crds: 5,
                watcher_groups: [small(10, 50), large(60, 20)],
            };
        }
        Self {
            runs: arguments.rounds,
            load_duration: Duration::from_secs(arguments.seconds.into()),
            objects: 10_000,
            crds: 200,
            watcher_groups: [small(100, 50), large(1000, 10)],
        }
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &ApiserverArgs) -> anyhow::Result<()> {
    let report = run_until_signal(measure(bellwether, arguments))?;
    print_report(&report, &notes(arguments), arguments.output);
    Ok(())
}

async fn measure(bellwether: &Bellwether, arguments: &ApiserverArgs) -> anyhow::Result<Report> {
    let plan = Plan::of(arguments);
    let servers = ServerKind::all(bellwether, arguments.assets.as_deref())?;
    let progress = Progress::new(u64::from(plan.runs) * servers.len() as u64 * STEPS);
    let mut report = Report::default();
    for run in 1..=plan.runs {
        for (side, server) in &servers {
            progress.part(&format!("run {run} of {}, {}", plan.runs, server.name()));
            report.add(*side, measure_server(server, &plan, &progress).await?);
        }
    }
    progress.bar.finish_and_clear();
    Ok(report)
}

async fn measure_server(kind: &ServerKind, plan: &Plan, progress: &Progress) -> anyhow::Result<Vec<Figure>> {
    progress.step("start");
    let server = kind.start().await?;
    let mut figures = Figures::default();
    figures.add("start to /readyz", Unit::Milliseconds, server.ready_after.as_secs_f64() * 1000.0);
    create_namespace(&mut server.access.connect().await?, NAMESPACE).await?;

    progress.step("fill");
    measure_memory(&server, plan, &mut figures).await?;
    progress.step("list");
    measure_lists(&server.access, plan, &mut figures).await?;
    let loads = [
        ("create, 1 client", Operation::Create("one"), 1),
        ("create, 16 clients", Operation::Create("some"), 16),
        ("create, 64 clients", Operation::Create("many"), 64),
        ("merge patch, 16 clients", Operation::Patch, 16),
        ("get, 16 clients", Operation::Get(plan.objects), 16),
    ];
    for (label, operation, clients) in loads {
        progress.step(label);
        let load = Load { operation, clients, stop_after: StopAfter::Elapsed(plan.load_duration) };
        let result = load.run(&server.access).await?;
        figures.add(label, Unit::PerSecond, result.per_second());
        figures.add_quantiles(label, result.latencies);
    }
    for group in plan.watcher_groups {
        progress.step(&format!("{} watchers", group.watchers));
        measure_watches(&server.access, plan, group, &mut figures).await?;
    }
    drop(server);
    progress.step("CRDs");
    measure_crds(&kind.start().await?, plan, &mut figures).await?;
    progress.step("stop");
    Ok(figures.0)
}

async fn measure_memory(server: &Server, plan: &Plan, figures: &mut Figures) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE_TIME).await;
    let idle = server.resident_bytes()? as f64;
    fill(plan.objects).run(&server.access).await?;
    let filled = server.resident_bytes()? as f64;
    figures.add("memory, idle", Unit::Megabytes, idle / 1e6);
    figures.add(&format!("memory, {} objects", plan.objects), Unit::Megabytes, filled / 1e6);
    let per_object = (filled - idle).max(0.0) / plan.objects as f64;
    figures.add("memory per object", Unit::Kilobytes, per_object / 1e3);
    Ok(())
}

/// Must run on a new server: otherwise CRDs would use memory that other loads have freed.
async fn measure_crds(server: &Server, plan: &Plan, figures: &mut Figures) -> anyhow::Result<()> {
    let count = plan.crds;
    let result = crds::run(server, count).await?;
    figures.add(&format!("{count} CRDs"), Unit::Milliseconds, result.total.as_secs_f64() * 1000.0);
    figures.add_quantiles("CRD, create to served", result.served);
    figures.add("memory per CRD", Unit::Kilobytes, result.bytes_per_crd / 1e3);
    Ok(())
}

async fn measure_lists(access: &Access, plan: &Plan, figures: &mut Figures) -> anyhow::Result<()> {
    let mut connection = access.connect().await?;
    let mut latencies = Latencies::default();
    for _ in 0..LISTS {
        let sent = Instant::now();
        connection.get(&collection(NAMESPACE)).await?;
        latencies.add(sent.elapsed());
    }
    let label = format!("list of {}, p50", plan.objects);
    figures.add(&label, Unit::Milliseconds, latencies.quantile_millis(0.5).unwrap_or_default());
    Ok(())
}

async fn measure_watches(
    access: &Access,
    plan: &Plan,
    group: WatcherGroup,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let WatcherGroup { watchers, writes_per_second, .. } = group;
    let duration = plan.load_duration;
    let pace = Pace::Writes(writes_per_second);
    let paced = Fanout { namespace: group.paced_namespace, watchers, pace, duration }.run(access).await?;
    figures.add_quantiles(&format!("watch delivery, {watchers} at {writes_per_second}/s"), paced.latencies);
    let pace = Pace::Unlimited { writers: WRITERS };
    let unlimited =
        Fanout { namespace: group.unlimited_namespace, watchers, pace, duration }.run(access).await?;
    figures.add(&format!("watch events, {watchers}"), Unit::PerSecond, unlimited.per_second());
    Ok(())
}

fn notes(arguments: &ApiserverArgs) -> Vec<String> {
    let plan = Plan::of(arguments);
    let mut notes = vec![
        format!(
            "Median of {} run(s), {:?} per load; {}.",
            plan.runs,
            plan.load_duration,
            build_note()
        ),
        "Load: ConfigMaps of 1 KB, JSON, HTTP/2 over TLS on loopback; each client has a connection, up to 50 watchers share one.".to_owned(),
        "Watch delivery is the time from sending a write to the arrival of its event, at the given rate of writes; watch events are with 4 writers without a rate limit.".to_owned(),
        "bellwether: every write is synced to disk before its response; RBAC (by a ClusterRoleBinding), managedFields, audit log; no admission plugins.".to_owned(),
    ];
    if arguments.assets.is_some() {
        notes.push("kube-apiserver + etcd: every write is synced to disk by etcd; RBAC (as system:masters), managedFields, audit log, admission plugins. The start is measured after etcd is up; memory is of both processes.".to_owned());
    }
    notes
}
