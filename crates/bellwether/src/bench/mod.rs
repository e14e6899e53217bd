//! `bellwether bench`: which loads, in which order, for whom. How a load is made is in the files beside.

mod connection;
mod contestant;
mod definitions;
mod fanout;
pub(crate) mod fleet;
pub(crate) mod heartbeat;
pub(crate) mod lifecycle;
mod load;
mod process;
mod report;
mod statistics;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::{BenchArgs, Output};
use crate::signals::StopSignals;
use connection::Access;
use contestant::{Contender, Contestant, make_namespace};
use fanout::{Fanout, Pace};
use load::{Load, NAMESPACE, Until, Work, collection, fill};
use report::{Figure, Report, Unit};
use statistics::Latencies;

/// How long an idle server may settle before its memory is read.
const SETTLE: Duration = Duration::from_millis(500);
/// The steps of a round, for the progress bar.
const STEPS: u64 = 12;
const LISTS: usize = 5;
const WRITERS: usize = 4;

/// How much is measured.
struct Plan {
    rounds: u16,
    lasts: Duration,
    objects: usize,
    definitions: usize,
    crowds: [Crowd; 2],
}

/// Watchers, and at which pace their latency is measured: one that both servers keep up with.
#[derive(Clone, Copy)]
struct Crowd {
    watchers: usize,
    writes_per_second: u32,
    paced_namespace: &'static str,
    flat_out_namespace: &'static str,
}

impl Plan {
    fn of(arguments: &BenchArgs) -> Self {
        let crowd = |watchers, writes_per_second| Crowd {
            watchers,
            writes_per_second,
            paced_namespace: "paced",
            flat_out_namespace: "flat-out",
        };
        let second =
            |crowd| Crowd { paced_namespace: "paced-crowd", flat_out_namespace: "flat-out-crowd", ..crowd };
        if arguments.quick {
            return Self {
                rounds: 1,
                lasts: Duration::from_millis(200),
                objects: 300,
                definitions: 5,
                crowds: [crowd(10, 50), second(crowd(60, 20))],
            };
        }
        Self {
            rounds: arguments.rounds,
            lasts: Duration::from_secs(arguments.seconds.into()),
            objects: 10_000,
            definitions: 200,
            crowds: [crowd(100, 50), second(crowd(1000, 10))],
        }
    }
}

pub(crate) fn run(arguments: &BenchArgs) -> anyhow::Result<()> {
    let report = interruptible(measure(arguments))?;
    print(&report, &notes(arguments), arguments.output);
    Ok(())
}

/// Runs a measurement to its end, or until somebody has had enough of it.
fn interruptible<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = StopSignals::listen()?;
        tokio::select! {
            measured = measurement => measured,
            // Dropping the measurement ends the servers and removes their directories.
            () = stop.next() => anyhow::bail!("interrupted; nothing was left behind"),
        }
    })
}

fn print(report: &Report, notes: &[String], output: Output) {
    match output {
        Output::Table => print!("{}", report.table(notes)),
        Output::Json => println!("{:#}", report.json(notes)),
    }
}

async fn measure(arguments: &BenchArgs) -> anyhow::Result<Report> {
    let plan = Plan::of(arguments);
    let contestants = Contestant::all(arguments.assets.as_deref())?;
    let progress = Progress::new(u64::from(plan.rounds) * contestants.len() as u64 * STEPS);
    let mut report = Report::default();
    for round in 1..=plan.rounds {
        for (side, contestant) in &contestants {
            progress.part(&format!("round {round} of {}, {}", plan.rounds, contestant.name()));
            report.add(*side, round_of(contestant, &plan, &progress).await?);
        }
    }
    progress.bar.finish_and_clear();
    Ok(report)
}

/// Where we are: a bar on a terminal, a line for each part elsewhere.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
}

impl Progress {
    fn new(steps: u64) -> Self {
        // Hides itself when stderr is no terminal.
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {prefix}: {msg} [{elapsed}, {eta} left]") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, terminal: std::io::stderr().is_terminal() }
    }

    fn part(&self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        if !self.terminal {
            eprintln!("{name}");
        }
    }

    fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
    }
}

async fn round_of(contestant: &Contestant, plan: &Plan, progress: &Progress) -> anyhow::Result<Vec<Figure>> {
    progress.step("start");
    let contender = contestant.start().await?;
    let mut figures = Figures::default();
    figures.add("start to /readyz", Unit::Milliseconds, contender.ready_after.as_secs_f64() * 1000.0);
    make_namespace(&mut contender.access.connect().await?, NAMESPACE).await?;

    progress.step("fill");
    measure_memory(&contender, plan, &mut figures).await?;
    progress.step("list");
    measure_lists(&contender.access, plan, &mut figures).await?;
    let loads = [
        ("create, 1 client", Work::Create("one"), 1),
        ("create, 16 clients", Work::Create("some"), 16),
        ("create, 64 clients", Work::Create("many"), 64),
        ("merge patch, 16 clients", Work::Patch, 16),
        ("get, 16 clients", Work::Get(plan.objects), 16),
    ];
    for (label, work, clients) in loads {
        progress.step(label);
        let load = Load { work, clients, until: Until::Elapsed(plan.lasts) };
        let ran = load.run(&contender.access).await?;
        figures.add(label, Unit::PerSecond, ran.per_second());
        figures.add_quantiles(label, ran.latencies);
    }
    for crowd in plan.crowds {
        progress.step(&format!("{} watchers", crowd.watchers));
        measure_watches(&contender.access, plan, crowd, &mut figures).await?;
    }
    drop(contender);
    progress.step("custom kinds");
    measure_definitions(&contestant.start().await?, plan, &mut figures).await?;
    progress.step("stop");
    Ok(figures.0)
}

async fn measure_memory(contender: &Contender, plan: &Plan, figures: &mut Figures) -> anyhow::Result<()> {
    tokio::time::sleep(SETTLE).await;
    let idle = contender.resident_bytes()? as f64;
    fill(plan.objects).run(&contender.access).await?;
    let filled = contender.resident_bytes()? as f64;
    figures.add("memory, idle", Unit::Megabytes, idle / 1e6);
    figures.add(&format!("memory, {} objects", plan.objects), Unit::Megabytes, filled / 1e6);
    let each = (filled - idle).max(0.0) / plan.objects as f64;
    figures.add("memory, each object", Unit::Kilobytes, each / 1e3);
    Ok(())
}

/// On a server of its own: memory that other loads let go would be taken first.
async fn measure_definitions(
    contender: &Contender,
    plan: &Plan,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let count = plan.definitions;
    let ran = definitions::run(contender, count).await?;
    figures.add(&format!("{count} custom kinds"), Unit::Milliseconds, ran.total.as_secs_f64() * 1000.0);
    figures.add_quantiles("custom kind, defined to served", ran.served);
    figures.add("memory, each custom kind", Unit::Kilobytes, ran.bytes_each / 1e3);
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
    crowd: Crowd,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let Crowd { watchers, writes_per_second, .. } = crowd;
    let lasts = plan.lasts;
    let pace = Pace::Writes(writes_per_second);
    let paced = Fanout { namespace: crowd.paced_namespace, watchers, pace, lasts }.run(access).await?;
    figures.add_quantiles(&format!("watch delivery, {watchers} at {writes_per_second}/s"), paced.latencies);
    let pace = Pace::FlatOut { writers: WRITERS };
    let flat_out = Fanout { namespace: crowd.flat_out_namespace, watchers, pace, lasts }.run(access).await?;
    figures.add(&format!("watch events, {watchers}"), Unit::PerSecond, flat_out.per_second());
    Ok(())
}

/// The figures of a round in the making.
#[derive(Default)]
struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.0.push(Figure { label: label.to_owned(), unit, value });
    }

    fn add_quantiles(&mut self, label: &str, mut latencies: Latencies) {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            if let Some(millis) = latencies.quantile_millis(part) {
                self.add(&format!("{label}, {name}"), Unit::Milliseconds, millis);
            }
        }
    }
}

fn notes(arguments: &BenchArgs) -> Vec<String> {
    let plan = Plan::of(arguments);
    let mut notes = vec![
        format!(
            "Median of {} round(s), {:?} per load, release build: {}.",
            plan.rounds,
            plan.lasts,
            if cfg!(debug_assertions) { "no, so the figures mean nothing" } else { "yes" }
        ),
        "Load: ConfigMaps with 1 KB, JSON, HTTP/2 over TLS on loopback; one connection for each client, up to 50 watchers share one.".to_owned(),
        "Watch delivery is from sending a write to the arrival of its event, at the given pace of writes; watch events are with 4 writers flat out.".to_owned(),
        "bellwether: every write synced to disk before its answer; RBAC (by a ClusterRoleBinding), managedFields, audit log; no admission plugins.".to_owned(),
    ];
    if arguments.assets.is_some() {
        notes.push("kube-apiserver + etcd: every write synced to disk by etcd; RBAC (as system:masters), managedFields, audit log, admission plugins. Started after etcd was up; memory is that of both.".to_owned());
    }
    notes
}
