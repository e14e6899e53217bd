//! `bellwether bench heartbeat`: thousands of add-ons beat, stop and come back, on the embedded API server, under the
//! heartbeat checker. Server, checker and add-ons are processes of their own, so that each is measured apart.

mod fleet;

use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use tempfile::TempDir;

use super::contestant::{Contender, Contestant};
use super::process::Process;
use super::report::{Report, Side, Unit};
use super::statistics::Latencies;
use super::{Figures, Progress, interruptible, print};
use crate::cli::Output;

use self::fleet::{Fleet, Said};

/// The steps of a run, for the progress bar.
const STEPS: u64 = 7;
/// How many periods of silence the checker tolerates.
const MULTIPLIER: u32 = 3;
/// How long beyond its time something may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Measure the heartbeat checker: beats, mass silence, mass return, restart.
///
/// Starts an embedded API server and a checker as processes of their own, creates AddonInstances, and lets their
/// add-ons beat: first evenly, then not at all, then all at once. Shows what the checker writes while all is well
/// (nothing), how long after its time silence is marked and a return is noticed, and what both processes cost.
///
///   bellwether bench heartbeat
///   bellwether bench heartbeat --instances 50000 --seconds 120 -o json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct HeartbeatArgs {
    /// How many add-ons beat.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    instances: u32,

    /// How often each of them beats, in seconds.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    period: u16,

    /// How many seconds all is well while that is measured.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// A few add-ons for a few seconds: shows that everything works, and no more.
    #[arg(long, conflicts_with_all = ["instances", "period", "seconds"])]
    quick: bool,

    /// How to print the figures.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How much is measured.
struct Plan {
    instances: usize,
    period: Duration,
    well: Duration,
}

impl Plan {
    fn of(arguments: &HeartbeatArgs) -> Self {
        if arguments.quick {
            let second = Duration::from_secs(1);
            return Self { instances: 50, period: second, well: 3 * second };
        }
        Self {
            instances: arguments.instances as usize,
            period: Duration::from_secs(arguments.period.into()),
            well: Duration::from_secs(arguments.seconds.into()),
        }
    }

    fn threshold(&self) -> Duration {
        self.period * MULTIPLIER
    }
}

pub(crate) fn run(arguments: &HeartbeatArgs) -> anyhow::Result<()> {
    let plan = Plan::of(arguments);
    let figures = interruptible(measure(&plan))?;
    let mut report = Report::default();
    report.add(Side::Ours, figures);
    let notes = [
        format!(
            "{} AddonInstances with a period of {:?}, on the embedded API server over TLS; release build: {}.",
            plan.instances,
            plan.period,
            if cfg!(debug_assertions) { "no, so the figures mean nothing" } else { "yes" }
        ),
        format!(
            "Silence counts after {:?}. \"marked after\" is what passes beyond that until a watch shows it; \"noticed \
             after\" runs from sending the beat.",
            plan.threshold()
        ),
        "CPU is in percent of one core; the add-ons and their witness run on the same machine.".to_owned(),
    ];
    print(&report, &notes, arguments.output);
    Ok(())
}

async fn measure(plan: &Plan) -> anyhow::Result<Vec<super::report::Figure>> {
    let progress = Progress::new(STEPS);
    let mut figures = Figures::default();
    progress.step("start");
    let server = Contestant::Ours.start().await?;
    let fleet = Fleet::new(&server.access, plan.instances, plan.period).await?;
    let mut checker = Checker::start(&server).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = [checker.process.resident_bytes()?, server.resident_bytes()?];

    progress.step("create, and beat for two periods");
    fleet.create().await?;
    fleet.beat_for(plan.period * 2).await?;
    fleet.until_all_are(Said::Receiving, PATIENCE).await?;

    progress.step("all is well");
    let (before, revision) = (Usage::of(&server, &checker)?, fleet.revision().await?);
    let beats = fleet.beat_for(plan.well).await?;
    let written = fleet.revision().await? - revision;
    let used = Usage::of(&server, &checker)?.since(&before);
    figures.add("beats", Unit::PerSecond, beats as f64 / used.took.as_secs_f64());
    figures.add("all well: writes beside the beats", Unit::Count, written as f64 - beats as f64);
    figures.add("all well: false timeouts", Unit::Count, fleet.timeouts() as f64);
    used.report("all well", &mut figures);
    for (label, process, idle) in [
        ("checker", checker.process.resident_bytes()?, idle[0]),
        ("server", server.resident_bytes()?, idle[1]),
    ] {
        figures.add(&format!("memory of the {label}"), Unit::Megabytes, process as f64 / 1e6);
        let each = process.saturating_sub(idle) as f64 / plan.instances as f64;
        figures.add(&format!("memory of the {label}, each instance"), Unit::Kilobytes, each / 1e3);
    }

    progress.step("all fall silent, one after the other");
    let before = Usage::of(&server, &checker)?;
    let marked = fleet.until_all_are(Said::TimedOut, plan.threshold() + PATIENCE).await?;
    add_times(&mut figures, "silence, spread: marked after", marked, plan.threshold());
    Usage::of(&server, &checker)?.since(&before).report("silence, spread", &mut figures);

    progress.step("all return at once");
    let (before, begun) = (Usage::of(&server, &checker)?, Instant::now());
    fleet.beat_at_once().await?;
    let noticed = fleet.until_all_are(Said::Receiving, PATIENCE).await?;
    figures.add("return at once: all noticed", Unit::Seconds, begun.elapsed().as_secs_f64());
    add_times(&mut figures, "return at once: noticed after", noticed, Duration::ZERO);
    Usage::of(&server, &checker)?.since(&before).report("return at once", &mut figures);

    progress.step("all fall silent at once");
    let before = Usage::of(&server, &checker)?;
    let marked = fleet.until_all_are(Said::TimedOut, plan.threshold() + PATIENCE).await?;
    add_times(&mut figures, "silence at once: marked after", marked, plan.threshold());
    Usage::of(&server, &checker)?.since(&before).report("silence at once", &mut figures);

    progress.step("the checker restarts");
    fleet.beat_at_once().await?;
    fleet.until_all_are(Said::Receiving, PATIENCE).await?;
    drop(checker);
    tokio::time::sleep(plan.threshold() + Duration::from_secs(2)).await;
    let begun = Instant::now();
    checker = Checker::start(&server).await?;
    fleet.until_all_are(Said::TimedOut, PATIENCE).await?;
    figures.add("restart: all silence marked", Unit::Seconds, begun.elapsed().as_secs_f64());
    drop(checker);
    progress.bar.finish_and_clear();
    Ok(figures.0)
}

/// How long beyond `due` things took.
fn add_times(figures: &mut Figures, label: &str, mut times: Latencies, due: Duration) {
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(millis) = times.quantile_millis(part) {
            let beyond = millis / 1000.0 - due.as_secs_f64();
            figures.add(&format!("{label}, {name}"), Unit::Seconds, beyond);
        }
    }
}

/// A checker as a process of its own.
struct Checker {
    process: Process,
    _dir: TempDir,
}

impl Checker {
    async fn start(server: &Contender) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let kubeconfig = server.kubeconfig_of("checker")?.display().to_string();
        let multiplier = MULTIPLIER.to_string();
        let arguments = [
            "run",
            "agent",
            "--controllers",
            "heartbeat-checker",
            "--leader-election",
            "false",
            "--listen",
            "127.0.0.1:0",
            "--timeout-multiplier",
            &multiplier,
            "--kubeconfig",
            &kubeconfig,
        ];
        let mut process = Process::spawn(&program, &arguments.map(str::to_owned), dir.path())?;
        process.check_alive()?;
        Ok(Self { process, _dir: dir })
    }
}

/// The time that both processes have used up.
struct Usage {
    at: Instant,
    server: Duration,
    checker: Duration,
}

impl Usage {
    fn of(server: &Contender, checker: &Checker) -> anyhow::Result<Self> {
        Ok(Self { at: Instant::now(), server: server.cpu_time()?, checker: checker.process.cpu_time()? })
    }

    fn since(&self, before: &Self) -> Used {
        Used {
            took: self.at.duration_since(before.at),
            server: self.server.saturating_sub(before.server),
            checker: self.checker.saturating_sub(before.checker),
        }
    }
}

struct Used {
    took: Duration,
    server: Duration,
    checker: Duration,
}

impl Used {
    fn report(&self, label: &str, figures: &mut Figures) {
        for (name, used) in [("checker", self.checker), ("server", self.server)] {
            let percent = 100.0 * used.as_secs_f64() / self.took.as_secs_f64();
            figures.add(&format!("{label}: CPU of the {name}"), Unit::Percent, percent);
        }
    }
}
