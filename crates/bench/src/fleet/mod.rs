//! `bellwether-bench fleet`: how many creates and reports the fleet API commits per second, and how fast it reads and searches many
//! clusters, on SQLite and on PostgreSQL. The server is a separate process.

pub(crate) mod clusters;
mod measure;
mod postgres;
mod reads;
pub(crate) mod reports;
pub(crate) mod server;

use std::time::Duration;

use clap::{Args, ValueEnum};

use self::measure::{BACKGROUND_REPORTS, CONNECTIONS, STEPS, Target, measure};
use crate::bellwether::Bellwether;
use crate::measurement::{Figures, Output, Progress, build_note, print_report, run_until_signal};
use crate::report::{Report, Side};

/// How often each read is measured.
const READS: usize = 200;

/// Measure the fleet API: creates, status reports, and reads and searches of many clusters
///
/// Starts `bellwether run fleet-api` on SQLite, and then on a PostgreSQL that it starts from the programs of this machine.
/// Creates clusters over 64 connections, reports their statuses over 64 and over 16 connections, and then gets, lists and
/// searches clusters one request at a time, also while 500 reports per second are sent. Every change is on disk before its
/// response, and a report that is not accepted is an error.
///
///   bellwether-bench fleet
///   bellwether-bench fleet --database sqlite --part reports
///   bellwether-bench fleet --database postgres --postgres postgres://postgres@127.0.0.1/bench -o json
///
/// Exit codes: 0 measured; 1 error, or a report was not accepted; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct FleetArgs {
    /// The databases to measure.
    #[arg(long, value_enum, default_value_t = Database::Both)]
    database: Database,

    /// The URL of an empty PostgreSQL database to measure. Its data is not removed afterwards. Default: a server is started, and
    /// removed at the end.
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,

    /// The part to measure. Clusters are created and measured in any case. Default: all.
    #[arg(long, value_enum)]
    part: Option<Part>,

    /// The number of clusters, from 200 to 10000000.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(200..=10_000_000))]
    clusters: u32,

    /// How long reports are sent over each number of connections, in seconds, from 1 to 3600.
    #[arg(long, value_name = "S", default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// 200 clusters for one second, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["clusters", "seconds"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Database {
    Sqlite,
    Postgres,
    Both,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Creates,
    Reports,
    Reads,
}

/// The parts and the size of the benchmark.
struct Plan {
    part: Option<Part>,
    clusters: usize,
    report_duration: Duration,
    reads: usize,
}

impl Plan {
    fn of(arguments: &FleetArgs) -> Self {
        let (clusters, seconds, reads) =
            if arguments.quick { (200, 1, 5) } else { (arguments.clusters, arguments.seconds, READS) };
        Self {
            part: arguments.part,
            clusters: clusters as usize,
            report_duration: Duration::from_secs(seconds.into()),
            reads,
        }
    }

    fn has(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    fn notes(&self) -> Vec<String> {
        vec![
            format!(
                "{} clusters with two required adapters; {CONNECTIONS} connections over loopback, plain HTTP/1.1; each change is \
                 synced to disk before its response; {}.",
                self.clusters,
                build_note()
            ),
            format!(
                "Reports are about random clusters, and all were accepted. Each kind of read was measured at most {} times in at \
                 most {:?}, on one connection; lists have pages of 100. In the background, {BACKGROUND_REPORTS} reports are \
                 sent per second.",
                self.reads,
                reads::MAX_DURATION
            ),
            "CPU is in percent of one core, and memory that of the fleet API. The load generator and PostgreSQL run on the same \
             machine."
                .to_owned(),
        ]
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &FleetArgs) -> anyhow::Result<()> {
    anyhow::ensure!(
        arguments.postgres.is_none() || arguments.database != Database::Sqlite,
        "--postgres URL is not used with --database sqlite; remove one of them"
    );
    let plan = Plan::of(arguments);
    let figures = run_until_signal(async {
        let postgres = match arguments.database {
            Database::Sqlite => None,
            Database::Postgres | Database::Both => {
                Some(postgres::database(arguments.postgres.as_deref()).await?)
            }
        };
        let sqlite = (arguments.database != Database::Postgres).then_some(Target::Sqlite);
        let targets: Vec<Target<'_>> =
            sqlite.into_iter().chain(postgres.as_deref().map(Target::Postgres)).collect();
        let progress = Progress::new(STEPS * targets.len() as u64);
        let mut figures = Figures::default();
        for target in targets {
            measure(bellwether, target, &plan, &progress, &mut figures).await?;
        }
        progress.bar.finish_and_clear();
        Ok(figures.0)
    })?;
    let mut report = Report::default();
    report.add(Side::Bellwether, figures);
    print_report(&report, &plan.notes(), arguments.output);
    Ok(())
}
