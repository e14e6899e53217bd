//! The benchmark as a command: it runs, prints what scripts read, and leaves nothing behind.

use crate::server::{bellwether, run};

#[test]
fn a_quick_run_prints_every_figure_as_json_and_leaves_nothing_behind() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bellwether(["bench", "apiserver", "--quick", "-o", "json"]);
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
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was left behind");
}

#[test]
fn assets_that_are_not_there_are_named() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = bellwether(["bench", "apiserver", "--quick", "--assets"]);
    let ended = run(command.arg(nowhere.path()));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("there is no kube-apiserver in"), "{}", ended.stderr);
    assert!(ended.stderr.contains("KUBEBUILDER_ASSETS"), "{}", ended.stderr);
}

#[test]
fn a_quick_run_of_heartbeats_finds_no_false_timeout() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bellwether(["bench", "heartbeat", "--quick", "-o", "json"]);
    let ended = run(command.env("TMPDIR", scratch.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let figure = |label: &str| {
        let figures = report["figures"].as_array().unwrap();
        let found = figures.iter().find(|figure| figure["figure"] == label);
        let found = found.unwrap_or_else(|| panic!("no {label:?} in {}", ended.stdout));
        found["bellwether"]["median"].as_f64().unwrap()
    };
    assert_eq!(figure("all well: false timeouts"), 0.0);
    assert_eq!(figure("all well: writes beside the beats"), 0.0);
    assert!(figure("silence at once: marked after, max") > 0.0);
    assert!(figure("restart: all silence marked") > 0.0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was left behind");
}

#[test]
fn a_quick_run_of_the_lifecycle_keeps_to_four_writes_and_to_none_while_nothing_changes() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = bellwether(["bench", "lifecycle", "--quick", "-o", "json"]);
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
        let writes = figure(&format!("{step}, writes for each cluster"));
        assert!(writes > 0.0 && writes <= 4.0, "{step}: {writes}");
    }
    assert_eq!(figure("writes while nothing changes"), 0.0);
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "a directory was left behind");
}
