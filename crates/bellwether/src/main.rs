//! The `bellwether` binary: arguments and wiring only. What it does lives in the crates it wires.

mod addon;
mod agent;
mod bench;
mod cli;
mod controllers;
mod crds;
mod endpoints;
mod fleet;
mod fleet_api;
mod heartbeat;
mod hub;
mod kubeconfig;
mod logging;
mod outcome;
mod output;
mod role;
mod screen;
mod signals;
mod target;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

use crate::outcome::NotDone;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.log_format);
    let outcome = match cli.command {
        cli::Command::Up(arguments) => up::run(arguments),
        cli::Command::Crds(arguments) => crds::run(&arguments),
        cli::Command::Addon(action) => addon::run(action),
        cli::Command::Heartbeat(action) => heartbeat::run(action),
        cli::Command::Cluster(arguments) => fleet::run_cluster(arguments),
        cli::Command::Nodepool(arguments) => fleet::run_nodepool(arguments),
        cli::Command::Bench { subject: cli::Subject::Apiserver(arguments) } => bench::run(&arguments),
        cli::Command::Bench { subject: cli::Subject::Heartbeat(arguments) } => {
            bench::heartbeat::run(&arguments)
        }
        cli::Command::Bench { subject: cli::Subject::Fleet(arguments) } => bench::fleet::run(&arguments),
        cli::Command::Bench { subject: cli::Subject::Lifecycle(arguments) } => {
            bench::lifecycle::run(&arguments)
        }
        cli::Command::Run { role: cli::Role::Apiserver(arguments) } => up::run_apiserver(arguments),
        cli::Command::Run { role: cli::Role::Hub(arguments) } => hub::run(&arguments),
        cli::Command::Run { role: cli::Role::Agent(arguments) } => agent::run(&arguments),
        cli::Command::Run { role: cli::Role::FleetApi(arguments) } => fleet_api::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", words(&error));
            error.downcast_ref::<NotDone>().map_or(ExitCode::FAILURE, |cause| cause.exit_code().into())
        }
    }
}

/// An error and its causes, each said once: some name their cause in words of their own.
fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::words;

    #[test]
    fn a_cause_is_said_once() {
        let error =
            anyhow!("No space left").context("cannot write x: No space left").context("no kubeconfig");
        assert_eq!(words(&error), "no kubeconfig: cannot write x: No space left");
    }
}
