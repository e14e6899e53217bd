//! `bellwether-bench sentinel`: what the evaluation of many resources costs, and how fast a created resource is pulsed. Fleet API and
//! Sentinel are processes of their own; the subscriber is the process of the benchmark.

mod cycle;
mod process;
mod pulses;

use std::time::Duration;

use clap::Args;

use self::process::Sentinel;
use self::pulses::{CreatePlan, Pulses};
use crate::bellwether::Bellwether;
use crate::fleet::clusters::create_clusters;
use crate::fleet::reports::report_all;
use crate::fleet::server::Server;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::report::{Report, Side, Unit};

/// The number of steps, for the progress bar.
const STEPS: u64 = 5;
/// How many connections create the resources.
const CONNECTIONS: usize = 64;
const ADAPTER: &str = "validation";
/// How many cycles are measured.
const CYCLES: usize = 5;

const CYCLE_TARGET: f64 = 2_000.0;
const MEMORY_TARGET: f64 = 200.0;
const PULSE_P99_TARGET: f64 = 1_000.0;

/// Measure Sentinel: decision cycles over many resources, and the delay from a create to its pulse
///
/// Starts `bellwether run fleet-api` on SQLite, creates clusters, and reports that they are Ready. Then starts `bellwether run
/// sentinel` with the built-in queue, waits until it has evaluated every cluster, and measures decision cycles, in which no cluster
/// is due. Then creates more clusters at a rate; a subscriber of the queue in another process measures when their pulses
/// arrive, and reports that the clusters are Ready.
///
///   bellwether-bench sentinel --quick
///   bellwether-bench sentinel --resources 20000 --rate 200 --seconds 10
///
/// Exit codes: 0 measured; 1 error, or a pulse was lost; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct SentinelArgs {
    /// The number of resources, from 1 to 10000000.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    resources: u32,

    /// The number of creates per second whose pulses are measured, from 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rate: u16,

    /// How long pulses are measured, in seconds, from 1 to 3600.
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// 200 resources, and two seconds of creates, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["resources", "rate", "seconds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The size of the benchmark.
struct Plan {
    resources: usize,
    creates: CreatePlan,
    cycles: usize,
}

impl Plan {
    fn of(arguments: &SentinelArgs) -> Self {
        let (resources, rate, seconds, cycles) = if arguments.quick {
            (200, 20, 2, 1)
        } else {
            (arguments.resources, arguments.rate, arguments.seconds, CYCLES)
        };
        let resources = resources as usize;
        let count = usize::from(rate) * usize::from(seconds);
        Self { resources, creates: CreatePlan { first: resources, count, per_second: rate.into() }, cycles }
    }

    fn notes(&self) -> [String; 3] {
        [
            format!(
                "{} clusters that are Ready, on SQLite; the built-in queue; the default configuration, in which a cycle begins \
                 every 5 s; {}.",
                self.resources,
                build_note()
            ),
            format!(
                "A cycle is measured by Sentinel's own metric, {} cycles. Pulses: {} creates at {} /s; the subscriber is another \
                 process than Sentinel, and reports after every pulse.",
                self.cycles, self.creates.count, self.creates.per_second
            ),
            "CPU is in percent of one core. The load generator runs on the same machine.".to_owned(),
        ]
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &SentinelArgs) -> anyhow::Result<()> {
    let plan = Plan::of(arguments);
    let mut figures = Figures::default();
    let lost = run_until_signal(measure(bellwether, &plan, &mut figures))?;
    let mut report = Report::default();
    report.add(Side::Bellwether, figures.0);
    print_report(&report, &plan.notes(), arguments.output);
    anyhow::ensure!(lost == 0, "{lost} of {} pulses were lost", plan.creates.count);
    Ok(())
}

/// Measures everything, and returns the number of lost pulses.
async fn measure(bellwether: &Bellwether, plan: &Plan, figures: &mut Figures) -> anyhow::Result<usize> {
    let progress = Progress::new(STEPS);
    progress.part("sentinel");
    progress.step("create clusters");
    let fleet = Server::start(bellwether, &[ADAPTER], None).await?;
    let created = create_clusters(&fleet, plan.resources, CONNECTIONS).await?;
    progress.step("report about all clusters");
    report_all(&fleet, &created.ids, &[ADAPTER], CONNECTIONS, |_| true).await?.check_all_accepted()?;

    progress.step("start Sentinel");
    let mut sentinel = Sentinel::start(bellwether, &fleet).await?;
    let synced = cycle::wait_for_sync(&mut sentinel, plan.resources).await?;
    figures.add("start until all resources are evaluated", Unit::Seconds, synced.as_secs_f64());

    progress.step("decision cycles");
    let mut cycles = cycle::measure_cycles(&mut sentinel, plan.cycles).await?;
    let millis = |duration: Duration| duration.as_secs_f64() * 1000.0;
    if let (Some(p50), Some(max)) =
        (cycles.durations.quantile_millis(0.5), cycles.durations.quantile_millis(1.0))
    {
        figures.add("decision cycle, p50", Unit::Milliseconds, p50);
        figures.add_with_target("decision cycle, max", Unit::Milliseconds, max, CYCLE_TARGET);
    }
    figures.add("CPU time per cycle", Unit::Milliseconds, millis(cycles.cpu_per_cycle));
    figures.add("CPU while all resources are Ready", Unit::Percent, cycles.cpu_share * 100.0);

    progress.step("pulses");
    let pulses = pulses::measure(&sentinel, &fleet, &plan.creates, ADAPTER).await?;
    let lost = add_pulses(figures, pulses);
    let peak = sentinel.process.peak_bytes()? as f64 / 1e6;
    figures.add_with_target("memory, peak", Unit::Megabytes, peak, MEMORY_TARGET);
    progress.bar.finish_and_clear();
    Ok(lost)
}

fn add_pulses(figures: &mut Figures, mut pulses: Pulses) -> usize {
    figures.add("creates", Unit::PerSecond, pulses.creates_per_second);
    for (name, part, target) in
        [("p50", 0.5, None), ("p99", 0.99, Some(PULSE_P99_TARGET)), ("max", 1.0, None)]
    {
        let label = format!("create to pulse at the subscriber, {name}");
        match (pulses.to_arrived.quantile_millis(part), target) {
            (Some(millis), Some(target)) => {
                figures.add_with_target(&label, Unit::Milliseconds, millis, target);
            }
            (Some(millis), None) => figures.add(&label, Unit::Milliseconds, millis),
            (None, _) => {}
        }
    }
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(millis) = pulses.to_published.quantile_millis(part) {
            figures.add(&format!("create to publication by Sentinel, {name}"), Unit::Milliseconds, millis);
        }
    }
    figures.add_with_target("pulses lost", Unit::Count, pulses.lost as f64, 0.0);
    figures.add("pulses repeated", Unit::Count, pulses.duplicates as f64);
    pulses.lost
}
