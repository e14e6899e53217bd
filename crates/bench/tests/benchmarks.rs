//! The benchmarks as commands: each runs, prints the JSON that scripts read, and removes its directories.
//!
//! They measure the binary `bellwether` next to `bellwether-bench`. `cargo test --workspace` builds both; before
//! `cargo test -p bellwether-bench`, run `cargo build`.

// Clippy allows these in tests, but not in the functions that tests share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const RUN_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A command line of the binary.
fn bench<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether-bench"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// The exit code and the output of a command that has ended.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs a command to its end, for at most `RUN_TIMEOUT`.
fn run(command: &mut Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let read = |mut stream: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text).unwrap()
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let deadline = Instant::now() + RUN_TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the benchmark did not end within {RUN_TIMEOUT:?}");
        }
        thread::sleep(POLL_INTERVAL);
    };
    Ended { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

#[test]
fn missing_bellwether_binary_is_an_error_that_names_its_path_and_the_build_command() {
    let empty = tempfile::tempdir().unwrap();
    let path = empty.path().join("bellwether");
    let ended = run(bench(["apiserver", "--quick", "--bellwether"]).arg(&path));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message =
        format!("there is no bellwether binary at {}; build it: cargo build --profile dist", path.display());
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
}

#[test]
fn apiserver_benchmark_prints_all_figures_as_json_and_removes_its_directories() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bench(["apiserver", "--quick", "-o", "json"]);
    let ended = run(command.env_remove("KUBEBUILDER_ASSETS").env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    for label in [
        "start to /readyz",
        "memory, idle",
        "list of 300, p50",
        "create, 1 client",
        "create, 64 clients, p99",
        "merge patch, 16 clients",
        "get, 16 clients",
        "watch delivery, 10 at 50/s, p99",
        "watch events, 60",
    ] {
        let figure = figures.iter().find(|figure| figure["figure"] == label);
        let figure = figure.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        assert!(figure["bellwether"]["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(figure["kubernetes"].is_null(), "{figure}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was not removed");
}

#[test]
fn missing_kubernetes_binary_is_an_error_that_names_its_directory() {
    let empty = tempfile::tempdir().unwrap();
    let mut command = bench(["apiserver", "--quick", "--assets"]);
    let ended = run(command.arg(empty.path()));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("there is no kube-apiserver in"), "{}", ended.stderr);
    assert!(ended.stderr.contains("KUBEBUILDER_ASSETS"), "{}", ended.stderr);
}

#[test]
fn heartbeat_benchmark_finds_no_false_timeout() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bench(["heartbeat", "--quick", "-o", "json"]);
    let ended = run(command.env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figure = |label: &str| {
        let figures = report["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["figure"] == label);
        let found = found.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        found["bellwether"]["median"].as_f64().unwrap()
    };
    assert_eq!(figure("steady: false timeouts"), 0.0);
    assert_eq!(figure("steady: writes other than heartbeats"), 0.0);
    assert!(figure("silence at once: timeout delay, max") > 0.0);
    assert!(figure("restart: all timeouts reported") > 0.0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was not removed");
}

#[test]
fn lifecycle_benchmark_finds_at_most_four_writes_per_cluster_and_none_while_nothing_changes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bench(["lifecycle", "--quick", "-o", "json"]);
    let ended = run(command.env_remove("KUBEBUILDER_ASSETS").env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figure = |label: &str| {
        let figures = report["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["figure"] == format!("5 clusters: {label}"));
        let found = found.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        found["bellwether"]["median"].as_f64().unwrap()
    };
    for step in ["install", "upgrade"] {
        assert!(figure(step) > 0.0, "{}", ended.stdout);
        let writes = figure(&format!("{step}, writes per cluster"));
        assert!(writes > 0.0 && writes <= 4.0, "{step}: {writes}");
    }
    assert_eq!(figure("writes while nothing changes"), 0.0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was not removed");
}

#[test]
fn fleet_benchmark_prints_creates_reports_and_reads_with_their_targets() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bench(["fleet", "--quick", "--database", "sqlite", "-o", "json"]);
    let ended = run(command.env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figures = report["figures"].as_array().unwrap();
    for (label, target) in [
        ("creates", Some(6000.0)),
        ("creates, first tenth", None),
        ("reports, 64 connections", Some(5000.0)),
        ("reports, 64 connections, p99", Some(50.0)),
        ("reports, 16 connections", Some(3500.0)),
        ("list, last page, p50", Some(20.0)),
        ("search by condition, 0.5 %, p99", None),
        ("search in spec, 50 % while reports are sent, p50", Some(20.0)),
        ("memory, peak", Some(200.0)),
    ] {
        let figure = figures.iter().find(|figure| figure["figure"] == format!("SQLite: {label}"));
        let figure = figure.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        assert!(figure["bellwether"]["median"].as_f64().unwrap() > 0.0, "{figure}");
        assert_eq!(figure["target"].as_f64(), target, "{figure}");
    }
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was not removed");
}

#[test]
fn fleet_benchmark_of_one_part_leaves_out_the_others() {
    let ended = run(&mut bench(["fleet", "--quick", "--database", "sqlite", "--part", "creates"]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("SQLite: creates"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("SQLite: reports"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("SQLite: list"), "{}", ended.stdout);
}

#[test]
fn sentinel_benchmark_loses_no_pulse() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bench(["sentinel", "--quick", "-o", "json"]);
    let ended = run(command.env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figure = |label: &str| {
        let figures = report["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["figure"] == label);
        let found = found.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        found["bellwether"]["median"].as_f64().unwrap()
    };
    assert_eq!(figure("pulses lost"), 0.0);
    assert!(figure("create to pulse at the subscriber, p99") > 0.0);
    assert!(figure("decision cycle, max") > 0.0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was not removed");
}
