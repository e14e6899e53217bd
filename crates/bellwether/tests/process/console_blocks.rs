//! Runs every command in the `console` blocks of a documentation page, in the root directory of the repository, and compares
//! stdout and stderr with the page.
//!
//! A command that only reads is repeated until its output matches, for a while. Other commands are run once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether_testkit::real;

use crate::masks::masked;
use crate::server::run;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// How long a reading command is repeated.
const MATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The beginnings of commands that only read.
const READING_COMMANDS: [&str; 7] = [
    "kubectl get ",
    "kubectl --context spoke-",
    "bellwether heartbeat watch --once",
    "bellwether cluster get",
    "bellwether addon status",
    "bellwether observability status",
    "curl -s ",
];

/// A command of a page, with the output that the page shows.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    output: String,
}

/// Runs the commands of a page about `up` with these environment variables, where `up` has this HTTP address instead of the
/// default.
pub(crate) fn run_page_at(page: &str, variables: &[(&str, &str)], http: &str) {
    let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
    run_text(page, &text.replace("http://127.0.0.1:8000", http), variables);
}

/// Runs the commands of a page with these environment variables.
pub(crate) fn run_page(page: &str, variables: &[(&str, &str)]) {
    run_text(page, &std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap(), variables);
}

fn run_text(page: &str, text: &str, variables: &[(&str, &str)]) {
    let steps = parse_steps(text);
    assert!(!steps.is_empty(), "{page} has no commands");
    for step in steps {
        let expected = masked(&step.output);
        let deadline = Instant::now() + MATCH_TIMEOUT;
        loop {
            let printed = run_command(&step.command, variables);
            if masked(&printed) == expected {
                break;
            }
            let only_reads = READING_COMMANDS.iter().any(|start| step.command.starts_with(start));
            assert!(
                only_reads && Instant::now() < deadline,
                "{page}:{}: $ {}\n--- expected by the page\n{}--- printed\n{printed}",
                step.line,
                step.command,
                step.output
            );
        }
    }
}

fn run_command(command: &str, variables: &[(&str, &str)]) -> String {
    let assets = std::env::var_os(real::ASSETS).expect("KUBEBUILDER_ASSETS is set");
    let binaries = Path::new(env!("CARGO_BIN_EXE_bellwether")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = [PathBuf::from(assets), binaries].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(ROOT)
        .envs(variables.iter().copied())
        .env("PATH", std::env::join_paths(directories).unwrap())
        .env_remove("RUST_LOG");
    run(&mut shell).stdout
}

/// Parses the commands of a page, each with the lines below it.
fn parse_steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: number + 1, command: command.into(), output: String::new() });
                }
                (None, Some(step)) => step.output.extend([line, "\n"]),
                (None, None) => panic!("line {} comes before the first command: {line}", number + 1),
            }
        }
    }
    steps
}

#[test]
fn page_is_parsed_into_commands_and_their_output() {
    let page = "Text\n```sh\nnot this\n```\n```console\n$ one\nA\n  B\n$ two\n```\nText\n```console\n$ three\nC\n```\n";
    let step =
        |line, command: &str, output: &str| Step { line, command: command.into(), output: output.into() };
    assert_eq!(parse_steps(page), [step(6, "one", "A\n  B\n"), step(9, "two", ""), step(13, "three", "C\n")]);
}
