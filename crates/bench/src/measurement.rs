//! What every benchmark shares: running until an interrupt, progress on stderr, collecting figures, and printing them.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};

use crate::report::{Figure, Report, Unit};
use crate::statistics::Latencies;

/// The output formats of the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

/// Runs a measurement to its end, or until SIGINT or SIGTERM.
pub(crate) fn run_until_signal<T>(measurement: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        tokio::select! {
            measured = measurement => return measured,
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        // The measurement was dropped, which ends the servers and removes their directories.
        anyhow::bail!("stopped by a signal; all servers and their directories were removed")
    })
}

/// A note for the report: whether the figures of this build are comparable.
pub(crate) fn build_note() -> &'static str {
    if cfg!(debug_assertions) { "debug build, so the figures are not comparable" } else { "release build" }
}

pub(crate) fn print_report(report: &Report, notes: &[String], output: Output) {
    match output {
        Output::Table => print!("{}", report.table(notes)),
        Output::Json => println!("{:#}", report.json(notes)),
    }
}

/// The progress on stderr: a bar on a terminal, otherwise a line for each part.
pub(crate) struct Progress {
    pub(crate) bar: ProgressBar,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        // It is hidden if stderr is not a terminal.
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {prefix}: {msg} [{elapsed}, {eta} left]") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, terminal: std::io::stderr().is_terminal() }
    }

    pub(crate) fn part(&self, name: &str) {
        self.bar.set_prefix(name.to_owned());
        if !self.terminal {
            eprintln!("{name}");
        }
    }

    pub(crate) fn step(&self, name: &str) {
        self.bar.set_message(name.to_owned());
        self.bar.inc(1);
    }
}

/// The figures of one run.
#[derive(Default)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Figures {
    pub(crate) fn add(&mut self, label: &str, unit: Unit, value: f64) {
        self.0.push(Figure { label: label.to_owned(), unit, value, target: None });
    }

    /// Adds a figure with the value that is aimed at: the least rate, or the largest value of other units.
    pub(crate) fn add_with_target(&mut self, label: &str, unit: Unit, value: f64, target: f64) {
        self.0.push(Figure { label: label.to_owned(), unit, value, target: Some(target) });
    }

    pub(crate) fn add_quantiles(&mut self, label: &str, mut latencies: Latencies) {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            if let Some(millis) = latencies.quantile_millis(part) {
                self.add(&format!("{label}, {name}"), Unit::Milliseconds, millis);
            }
        }
    }
}
