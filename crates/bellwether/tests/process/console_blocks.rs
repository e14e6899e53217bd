//! Runs every command in the `console` blocks of a documentation page, and compares stdout and stderr with the page.
//!
//! A command that only reads is repeated until its output matches, for a while. Other commands are run once. A command of a block
//! that begins with "```console keeps-running" runs until the end of the page; only the beginning of its stdout is compared.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bellwether_testkit::real;

use crate::masks::masked;
use crate::server::{Server, run};

pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// How long a reading command is repeated.
const MATCH_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause before it is repeated.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// The beginnings of commands that only read.
const READING_COMMANDS: [&str; 9] = [
    "kubectl get ",
    "kubectl --context spoke-",
    "bellwether heartbeat watch --once",
    "bellwether cluster get",
    "bellwether cluster statuses",
    "bellwether broker status",
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
    keeps_running: bool,
}

/// Where the commands of a page run.
pub(crate) struct Surroundings<'a> {
    /// The current directory, such as a copy of the root directory of the repository.
    pub(crate) directory: &'a Path,
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// Texts of the page that are different here, such as addresses.
    pub(crate) replaced: &'a [(&'a str, &'a str)],
}

impl Surroundings<'_> {
    /// Runs the commands of a page.
    pub(crate) fn run_page(&self, page: &str) {
        let mut text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        for (shown, here) in self.replaced {
            text = text.replace(shown, here);
        }
        let steps = parse_steps(&text);
        assert!(!steps.is_empty(), "{page} has no commands");
        let mut running = Vec::new();
        for step in steps {
            if step.keeps_running {
                running.push(self.start(page, &step));
            } else {
                self.run_step(page, &step);
            }
        }
    }

    fn run_step(&self, page: &str, step: &Step) {
        let expected = masked(&step.output);
        let deadline = Instant::now() + MATCH_TIMEOUT;
        loop {
            let printed = run(&mut self.shell(&format!("exec 2>&1\n{}", step.command))).stdout;
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
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn start(&self, page: &str, step: &Step) -> Server {
        let log = self.directory.join(format!("line-{}", step.line));
        let server = Server::launch(&log, &mut self.shell(&format!("exec {}", step.command)));
        for expected in step.output.lines() {
            let printed = server.line();
            assert_eq!(masked(&printed), masked(expected), "{page}:{}: $ {}", step.line, step.command);
        }
        server
    }

    fn shell(&self, script: &str) -> Command {
        let assets = std::env::var_os(real::ASSETS).expect("KUBEBUILDER_ASSETS is set");
        let binaries = Path::new(env!("CARGO_BIN_EXE_bellwether")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let directories = [PathBuf::from(assets), binaries].into_iter().chain(std::env::split_paths(&path));
        let mut shell = Command::new("bash");
        shell
            .args(["-c", script])
            .current_dir(self.directory)
            .envs(self.variables.iter().copied())
            .env("PATH", std::env::join_paths(directories).unwrap())
            .env_remove("RUST_LOG");
        shell
    }
}

/// Parses the commands of a page, each with the lines below it.
fn parse_steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut block = None;
    for (number, line) in page.lines().enumerate() {
        if let Some(start) = line.strip_prefix("```") {
            block = start.strip_prefix("console").map(|words| words.trim() == "keeps-running");
        } else if let Some(keeps_running) = block {
            match (line.strip_prefix("$ "), steps.last_mut()) {
                (Some(command), _) => {
                    let (command, output) = (command.into(), String::new());
                    steps.push(Step { line: number + 1, command, output, keeps_running });
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
    let page = "Text\n```sh\nnot this\n```\n```console\n$ one\nA\n  B\n$ two\n```\nText\n```console keeps-running\n$ three\nC\n```\n";
    let step = |line, command: &str, output: &str| {
        let keeps_running = command == "three";
        Step { line, command: command.into(), output: output.into(), keeps_running }
    };
    assert_eq!(parse_steps(page), [step(6, "one", "A\n  B\n"), step(9, "two", ""), step(13, "three", "C\n")]);
}
