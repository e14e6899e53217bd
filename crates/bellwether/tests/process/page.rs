//! Walks a page of the documentation as its reader would: types every command of its `console` blocks, from the root of
//! the repository, and compares what is printed, errors too, with what the page shows.
//!
//! A command that only looks is repeated until it shows what the page does, for a while. Others are typed once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether_testkit::real;

use crate::masks::masked;
use crate::server::run;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// How long the reader looks for what the page shows.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the commands begin that change nothing.
const LOOKS: [&str; 5] = [
    "kubectl get ",
    "kubectl --context spoke-",
    "bellwether heartbeat watch --once",
    "bellwether cluster get",
    "bellwether addon status",
];

/// A command of a page, and what the page says that it prints.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    command: String,
    shown: String,
}

/// Walks a page with these variables of the environment.
pub(crate) fn walk(page: &str, variables: &[(&str, &str)]) {
    let steps = steps(&std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap());
    assert!(!steps.is_empty(), "{page} has no commands");
    for step in steps {
        let wanted = masked(&step.shown);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let printed = type_in(&step.command, variables);
            if masked(&printed) == wanted {
                break;
            }
            let looks = LOOKS.iter().any(|start| step.command.starts_with(start));
            assert!(
                looks && Instant::now() < deadline,
                "{page}:{}: $ {}\n--- the page shows\n{}--- it printed\n{printed}",
                step.line,
                step.command,
                step.shown
            );
        }
    }
}

fn type_in(command: &str, variables: &[(&str, &str)]) -> String {
    let assets = std::env::var_os(real::ASSETS).expect("kubectl is among the assets");
    let ours = Path::new(env!("CARGO_BIN_EXE_bellwether")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = [PathBuf::from(assets), ours].into_iter().chain(std::env::split_paths(&path));
    let mut shell = Command::new("bash");
    shell
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(ROOT)
        .envs(variables.iter().copied())
        .env("PATH", std::env::join_paths(places).unwrap())
        .env_remove("RUST_LOG");
    run(&mut shell).stdout
}

/// The commands of a page, each with the lines below it.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (number, line) in page.lines().enumerate() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if inside {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    steps.push(Step { line: number + 1, command: command.into(), shown: String::new() });
                }
                (None, Some(step)) => step.shown.extend([line, "\n"]),
                (None, None) => panic!("line {} is in front of all commands: {line}", number + 1),
            }
        }
    }
    steps
}

#[test]
fn a_page_is_read_as_commands_and_what_they_print() {
    let page = "Text\n```sh\nnot this\n```\n```console\n$ one\nA\n  B\n$ two\n```\nText\n```console\n$ three\nC\n```\n";
    let step = |line, command: &str, shown: &str| Step { line, command: command.into(), shown: shown.into() };
    assert_eq!(steps(page), [step(6, "one", "A\n  B\n"), step(9, "two", ""), step(13, "three", "C\n")]);
}
