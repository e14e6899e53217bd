//! `bellwether-bench observability`: how fast the status of the observability add-on reaches the hub from thousands of clusters,
//! and what the metrics collector costs beside Prometheus in agent mode. Hub, collector and Prometheus are processes of their own.

mod changes;
mod collector;
mod receiver;
mod source;
mod spokes;
mod status;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::bellwether::Bellwether;
use crate::measurement::{Output, Progress, build_note, print_report, run_until_signal};
use crate::report::{Report, Side};

use self::collector::Prometheus;

/// Measure the status of the observability add-on on thousands of clusters, and the metrics collector
///
/// Part status: starts a hub, `bellwether run apiserver`, and simulates clusters in this process. Each has its own API, its
/// own status controller, and its own identity and TLS connection on the hub. Collectors of random clusters report other
/// states; a watch on the hub shows when each arrives. Then nothing changes for a while, and the hub must not be written.
/// Then the hub is killed twice and started again: for a short time, and for so long that all retries have the longest
/// backoff.
///
/// Part collector: runs `bellwether run collector`, and after it Prometheus in agent mode, between a source that answers
/// /federate and a receiver of remote write, and compares CPU and memory. Both read the same series and change the same
/// labels. The receiver checks that each series arrives exactly once per cycle, with its value.
///
/// Figures are comparable only if nothing else runs on the machine and both binaries are built with the profile `dist`.
///
///   bellwether-bench observability --quick
///   bellwether-bench observability --part status --spokes 1000 --seconds 30 --idle 60
///   bellwether-bench observability --part collector --series 100000 --cycles 20 -o json
///
/// Exit codes: 0 measured; 1 error, or something was lost; 2 invalid usage.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct ObservabilityArgs {
    /// The part to measure. Default: both.
    #[arg(long, value_enum)]
    part: Option<Part>,

    /// Part status: the number of clusters, from 1 to 20000. Each has an open connection to the hub.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    spokes: u32,

    /// Part status: the number of changes per second, from 1 to 10000.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    changes: u16,

    /// Part status: how long changes are measured, in seconds, from 1 to 3600.
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3600))]
    seconds: u16,

    /// Part status: how long writes are counted while nothing changes, in seconds, from 1 to 3600. After 330 s, every cluster
    /// has compared its status with that of the hub.
    #[arg(long, value_name = "S", default_value_t = 330, value_parser = clap::value_parser!(u16).range(1..=3600))]
    idle: u16,

    /// Part status: the duration of the long outage of the hub in seconds, from 1 to 3600. After 240 s, retries have the
    /// longest backoff. All clusters change during it.
    #[arg(long, value_name = "S", default_value_t = 240, value_parser = clap::value_parser!(u16).range(1..=3600))]
    outage: u16,

    /// Part collector: the number of series, from 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    series: u32,

    /// Part collector: the number of measured cycles, from 1 to 1000. One more comes before them.
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..=1000))]
    cycles: u16,

    /// Part collector: the time between the beginnings of two cycles in seconds, from 1 to 600.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=600))]
    interval: u16,

    /// Part collector: the Prometheus to compare with. Default: `prometheus` in PATH; without one only the collector is
    /// measured.
    #[arg(long, value_name = "PATH")]
    prometheus: Option<PathBuf>,

    /// Part collector: how many samples Prometheus sends in one request. Default: that of Prometheus; the collector sends
    /// 10000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples_per_send: Option<u32>,

    /// 200 clusters and 10000 series for a few seconds, to check that the benchmark works. Its figures are not comparable.
    #[arg(long, conflicts_with_all = ["spokes", "changes", "seconds", "idle", "outage", "series", "cycles", "interval"])]
    quick: bool,

    /// The output format.
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    Status,
    Collector,
}

impl ObservabilityArgs {
    fn has(&self, part: Part) -> bool {
        self.part.is_none_or(|only| only == part)
    }

    fn status_plan(&self) -> status::Plan {
        let seconds = |seconds: u16| Duration::from_secs(seconds.into());
        if self.quick {
            return status::Plan {
                spokes: 200,
                changes_per_second: 50,
                changing: seconds(5),
                idle: seconds(5),
                outage: seconds(10),
            };
        }
        status::Plan {
            spokes: self.spokes as usize,
            changes_per_second: self.changes.into(),
            changing: seconds(self.seconds),
            idle: seconds(self.idle),
            outage: seconds(self.outage),
        }
    }

    fn collector_plan(&self) -> collector::Plan {
        let (series, cycles, interval) =
            if self.quick { (10_000, 3, 2) } else { (self.series as usize, self.cycles, self.interval) };
        let interval = Duration::from_secs(interval.into());
        collector::Plan { series, cycles: cycles.into(), interval, samples_per_send: self.samples_per_send }
    }
}

pub(crate) fn run(bellwether: &Bellwether, arguments: &ObservabilityArgs) -> anyhow::Result<()> {
    let (status_plan, collector_plan) = (arguments.status_plan(), arguments.collector_plan());
    let mut report = Report::default();
    let mut notes = vec![format!("The load generator runs on the same machine; {}.", build_note())];
    run_until_signal(async {
        let progress = Progress::new(status::STEPS + collector::STEPS);
        if arguments.has(Part::Status) {
            progress.part("status");
            report.add(Side::Bellwether, status::measure(bellwether, &status_plan, &progress).await?);
            notes.extend(status_plan.notes());
        }
        if arguments.has(Part::Collector) {
            progress.part("collector");
            let prometheus = Prometheus::find(arguments.prometheus.as_deref())?;
            let measured =
                collector::measure(bellwether, prometheus.as_ref(), &collector_plan, &progress).await?;
            for (side, figures) in measured {
                report.add(side, figures);
            }
            notes.extend(collector_plan.notes(prometheus.as_ref()));
        }
        progress.bar.finish_and_clear();
        Ok(())
    })?;
    print_report(&report, &notes, arguments.output);
    Ok(())
}
