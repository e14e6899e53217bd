//! The `bellwether` binary: parses arguments and starts the command. What the commands do is in the other crates.

mod adapter;
mod addon;
mod agent;
mod broker;
mod cli;
mod collector;
mod controllers;
mod crds;
mod endpoints;
mod fleet;
mod fleet_api;
mod heartbeat;
mod hub;
mod kubeconfig;
mod lists;
mod logging;
mod observability;
mod outcome;
mod output;
mod role;
mod screen;
mod sentinel;
mod signals;
mod target;
mod up;

use std::process::ExitCode;

use clap::Parser as _;

use crate::outcome::Unfinished;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    logging::start(cli.log_format);
    let outcome = match cli.command {
        cli::Command::Up(arguments) => up::run(arguments),
        cli::Command::Crds(arguments) => crds::run(&arguments),
        cli::Command::Addon(action) => addon::run(action),
        cli::Command::Heartbeat(action) => heartbeat::run(action),
        cli::Command::Observability(action) => observability::run(action),
        cli::Command::Broker(action) => broker::run(action),
        cli::Command::Cluster(arguments) => fleet::run_cluster(arguments),
        cli::Command::Nodepool(arguments) => fleet::run_nodepool(arguments),
        cli::Command::Run { role: cli::Role::Apiserver(arguments) } => up::run_apiserver(arguments),
        cli::Command::Run { role: cli::Role::Hub(arguments) } => hub::run(&arguments),
        cli::Command::Run { role: cli::Role::Agent(arguments) } => agent::run(&arguments),
        cli::Command::Run { role: cli::Role::Collector(arguments) } => collector::run(&arguments),
        cli::Command::Run { role: cli::Role::FleetApi(arguments) } => fleet_api::run(&arguments),
        cli::Command::Run { role: cli::Role::Sentinel(arguments) } => sentinel::run(&arguments),
        cli::Command::Run { role: cli::Role::Adapter(arguments) } => adapter::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", format_error(&error));
            error.downcast_ref::<Unfinished>().map_or(ExitCode::FAILURE, |cause| cause.exit_code().into())
        }
    }
}

/// Formats an error with its causes. A cause that the message already contains is left out.
fn format_error(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::format_error;

    #[test]
    fn each_cause_is_printed_once() {
        let error =
            anyhow!("No space left").context("cannot write x: No space left").context("no kubeconfig");
        assert_eq!(format_error(&error), "no kubeconfig: cannot write x: No space left");
    }
}
