//! The `bellwether` binary: arguments and wiring only. What it does lives in the crates it wires.

mod bench;
mod cli;
mod endpoints;
mod kubeconfig;
mod logging;
mod signals;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.log_format);
    let outcome = match cli.command {
        cli::Command::Up(arguments) => up::run(arguments),
        cli::Command::Bench { subject: cli::Subject::Apiserver(arguments) } => bench::run(&arguments),
        cli::Command::Run { role: cli::Role::Apiserver(arguments) } => up::run_apiserver(arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
