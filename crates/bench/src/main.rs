//! The `bellwether-bench` binary: which benchmark to run. Each benchmark is a module; `server` starts the measured servers,
//! `connection` sends requests to them, and `report` prints the figures.

mod apiserver;
mod bellwether;
mod connection;
mod fleet;
mod heartbeat;
mod lifecycle;
mod measurement;
mod memory;
mod observability;
mod process;
mod report;
mod sentinel;
mod server;
mod statistics;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bellwether::Bellwether;

/// Measure the published figures of Bellwether on this machine
///
/// Every benchmark starts `bellwether` processes on temporary directories and on free ports of the loopback interface, and
/// removes them at the end. Build the measured binary first:
///
///   cargo build --profile dist
///   cargo run --profile dist -p bellwether-bench -- apiserver --quick
///
/// Figures are comparable only if nothing else runs on the machine and both binaries are built with the profile `dist`.
///
/// Exit codes: 0 measured; 1 error; 2 invalid usage.
#[derive(Debug, Parser)]
#[command(name = "bellwether-bench", version, verbatim_doc_comment)]
struct Cli {
    /// The `bellwether` binary to measure. Default: the file `bellwether` next to this binary.
    #[arg(long, global = true, value_name = "PATH")]
    bellwether: Option<PathBuf>,

    #[command(subcommand)]
    benchmark: Benchmark,
}

#[derive(Debug, Subcommand)]
enum Benchmark {
    Apiserver(apiserver::ApiserverArgs),
    Heartbeat(heartbeat::HeartbeatArgs),
    Fleet(fleet::FleetArgs),
    Lifecycle(lifecycle::LifecycleArgs),
    Observability(observability::ObservabilityArgs),
    Sentinel(sentinel::SentinelArgs),
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> anyhow::Result<()> {
    let bellwether = Bellwether::find(cli.bellwether)?;
    match cli.benchmark {
        Benchmark::Apiserver(arguments) => apiserver::run(&bellwether, &arguments),
        Benchmark::Heartbeat(arguments) => heartbeat::run(&bellwether, &arguments),
        Benchmark::Fleet(arguments) => fleet::run(&bellwether, &arguments),
        Benchmark::Lifecycle(arguments) => lifecycle::run(&bellwether, &arguments),
        Benchmark::Observability(arguments) => observability::run(&bellwether, &arguments),
        Benchmark::Sentinel(arguments) => sentinel::run(&bellwether, &arguments),
    }
}
