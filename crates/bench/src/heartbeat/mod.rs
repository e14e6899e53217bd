//! `bellwether-bench heartbeat`: thousands of add-ons send heartbeats, stop, and return, while the heartbeat checker watches
//! them. Server and checker are separate processes, so that each is measured alone.

mod fleet;

use std::time::{Duration, Instant};

use clap::Args;
use tempfile::TempDir;

use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::process::Process;
use crate::report::{Figure, Report, Side, Unit};
use crate::server::{Server, ServerKind};
use crate::statistics::Latencies;

use self::fleet::{Fleet, Reported};

/// The number of steps of a run, for the progress bar.
const STEPS: u64 = 7;
/// The number of periods without a heartbeat after which the checker reports a timeout.
const TIMEOUT_MULTIPLIER: u32 = 3;
/// How much longer than expected a step may take before the benchmark fails.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Measure the heartbeat checker: regular heartbeats, silence and return of all add-ons, restart of the checker
///
/// Starts an embedded API server and a checker, creates AddonInstances, and sends heartbeats for them: first spread over
/// the period, then none, then all at once. Shows what the checker writes while all add-ons send heartbeats (nothing), how
/// long after the threshold it reports timeouts and after a heartbeat the recovery, and the CPU and memory of both processes.
///
///   bellwether-bench heartbeat
///   bellwether-bench heartbeat --instances 50000 --seconds 120 -o json
///
/// Exit codes: 0 measured; 1 error; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct HeartbeatArgs {
    /// The number of add-ons, from 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    instances: u32,

    /// The heartbeat period of each add-on in seconds, from 1 to 600.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    period: u16,

    /// How long regular heartbeats are measured, in seconds, from 1 to 3600.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// 50 add-ons for a few seconds, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["instances", "period", "seconds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// The size of the benchmark.
struct Plan {
    instances: usize,
    period: Duration,
    steady: Duration,
}

impl Plan {
    fn of(arguments: &HeartbeatArgs) -> Self {
        if arguments.quick {
            let second = Duration::from_secs(1);
            return Self { instances: 50, period: second, steady: 3 * second };
        }
        Self {
            instances: arguments.instances as usize,
            period: Duration::from_secs(arguments.period.into()),
            steady: Duration::from_secs(arguments.seconds.into()),
        }
    }

    fn threshold(&self) -> Duration {
        self.period * TIMEOUT_MULTIPLIER
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &HeartbeatArgs) -> anyhow::Result<()> {
    let plan = Plan::of(arguments);
    let figures = run_until_signal(measure(bellwether, &plan))?;
    let mut report = Report::default();
    report.add(Side::Bellwether, figures);
    let notes = [
        format!(
            "{} AddonInstances with a period of {:?}, on the embedded API server over TLS; {}.",
            plan.instances,
            plan.period,
            build_note()
        ),
        format!(
            "The threshold is {:?}. \"timeout delay\" is the time from the threshold until a watch shows the timeout; \
             \"recovery delay\" is the time from sending the heartbeat until a watch shows the recovery.",
            plan.threshold()
        ),
        "CPU is in percent of one core; the load generator and its watch run on the same machine.".to_owned(),
    ];
    print_report(&report, &notes, arguments.output);
    Ok(())
}

async fn measure(bellwether: &Bellwether, plan: &Plan) -> anyhow::Result<Vec<Figure>> {
    let progress = Progress::new(STEPS);
    let mut figures = Figures::default();
    progress.step("start");
    let server = ServerKind::Bellwether(bellwether.clone()).start().await?;
    let fleet = Fleet::new(&server.access, plan.instances, plan.period).await?;
    let mut checker = Checker::start(bellwether, &server)?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let idle = [checker.process.resident_bytes()?, server.resident_bytes()?];

    progress.step("create, and send heartbeats for two periods");
    fleet.create().await?;
    fleet.send_for(plan.period * 2).await?;
    fleet.wait_until_all(Reported::Receiving, STEP_TIMEOUT).await?;

    progress.step("regular heartbeats");
    let (before, revision) = (Usage::of(&server, &checker)?, fleet.revision().await?);
    let heartbeats = fleet.send_for(plan.steady).await?;
    let written = fleet.revision().await? - revision;
    let used = Usage::of(&server, &checker)?.since(&before);
    figures.add("heartbeats", Unit::PerSecond, heartbeats as f64 / used.took.as_secs_f64());
    figures.add("steady: writes other than heartbeats", Unit::Count, written as f64 - heartbeats as f64);
    figures.add("steady: false timeouts", Unit::Count, fleet.timeouts() as f64);
    used.add_to(&mut figures, "steady");
    for (label, process, idle) in [
        ("checker", checker.process.resident_bytes()?, idle[0]),
        ("server", server.resident_bytes()?, idle[1]),
    ] {
        figures.add(&format!("memory of the {label}"), Unit::Megabytes, process as f64 / 1e6);
        let per_instance = process.saturating_sub(idle) as f64 / plan.instances as f64;
        figures.add(&format!("memory of the {label} per instance"), Unit::Kilobytes, per_instance / 1e3);
    }

    progress.step("all stop, spread over a period");
    let before = Usage::of(&server, &checker)?;
    let timeouts = fleet.wait_until_all(Reported::TimedOut, plan.threshold() + STEP_TIMEOUT).await?;
    add_delays(&mut figures, "silence, spread: timeout delay", timeouts, plan.threshold());
    Usage::of(&server, &checker)?.since(&before).add_to(&mut figures, "silence, spread");

    progress.step("all return at once");
    let (before, begun) = (Usage::of(&server, &checker)?, Instant::now());
    fleet.send_all().await?;
    let recoveries = fleet.wait_until_all(Reported::Receiving, STEP_TIMEOUT).await?;
    figures.add("return at once: all recovered", Unit::Seconds, begun.elapsed().as_secs_f64());
    add_delays(&mut figures, "return at once: recovery delay", recoveries, Duration::ZERO);
    Usage::of(&server, &checker)?.since(&before).add_to(&mut figures, "return at once");

    progress.step("all stop at once");
    let before = Usage::of(&server, &checker)?;
    let timeouts = fleet.wait_until_all(Reported::TimedOut, plan.threshold() + STEP_TIMEOUT).await?;
    add_delays(&mut figures, "silence at once: timeout delay", timeouts, plan.threshold());
    Usage::of(&server, &checker)?.since(&before).add_to(&mut figures, "silence at once");

    progress.step("the checker restarts");
    fleet.send_all().await?;
    fleet.wait_until_all(Reported::Receiving, STEP_TIMEOUT).await?;
    drop(checker);
    tokio::time::sleep(plan.threshold() + Duration::from_secs(2)).await;
    let begun = Instant::now();
    checker = Checker::start(bellwether, &server)?;
    fleet.wait_until_all(Reported::TimedOut, STEP_TIMEOUT).await?;
    figures.add("restart: all timeouts reported", Unit::Seconds, begun.elapsed().as_secs_f64());
    drop(checker);
    progress.bar.finish_and_clear();
    Ok(figures.0)
}

/// Adds quantiles of how much longer than `expected` each time was.
fn add_delays(figures: &mut Figures, label: &str, mut times: Latencies, expected: Duration) {
    for (name, part) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
        if let Some(millis) = times.quantile_millis(part) {
            let delay = millis / 1000.0 - expected.as_secs_f64();
            figures.add(&format!("{label}, {name}"), Unit::Seconds, delay);
        }
    }
}

/// The process of the heartbeat checker.
struct Checker {
    process: Process,
    _dir: TempDir,
}

impl Checker {
    fn start(bellwether: &Bellwether, server: &Server) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let kubeconfig = server.write_kubeconfig("checker")?.display().to_string();
        let multiplier = TIMEOUT_MULTIPLIER.to_string();
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
        let mut process = bellwether.spawn(&arguments, dir.path())?;
        process.check_running()?;
        Ok(Self { process, _dir: dir })
    }
}

/// The CPU time that both processes have used at an instant.
struct Usage {
    at: Instant,
    server: Duration,
    checker: Duration,
}

impl Usage {
    fn of(server: &Server, checker: &Checker) -> anyhow::Result<Self> {
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

/// The CPU time that both processes have used in an interval.
struct Used {
    took: Duration,
    server: Duration,
    checker: Duration,
}

impl Used {
    fn add_to(&self, figures: &mut Figures, label: &str) {
        for (name, used) in [("checker", self.checker), ("server", self.server)] {
            let percent = 100.0 * used.as_secs_f64() / self.took.as_secs_f64();
            figures.add(&format!("{label}: CPU of the {name}"), Unit::Percent, percent);
        }
    }
}
