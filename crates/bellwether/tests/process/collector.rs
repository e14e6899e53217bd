//! `bellwether run collector` as a process: its arguments, its endpoints, and its stop. What it forwards is tested in
//! `crates/observability`.

use bellwether_testkit::eventually;

use crate::server::{Server, bellwether, get, run};

/// An address at which nothing listens.
const NOWHERE: &str = "http://127.0.0.1:9";

#[test]
fn invalid_arguments_exit_with_2_and_say_why() {
    let upload = ["--to-upload", NOWHERE];
    let rows: [(&[&str], &str); 9] = [
        (&["--match", "up"], "--to-upload <URL>"),
        (&upload, "there is nothing to collect: add --match, --match-file or --recordingrule"),
        (
            &["--to-upload", NOWHERE, "--match", "up", "--worker-number", "2"],
            "--worker-number 2 is larger than the number of selectors, which is 1",
        ),
        (&["--to-upload", NOWHERE, "--match", "sum(up)"], "must be a series selector"),
        (&["--to-upload", NOWHERE, "--match", "up", "--label", "cluster"], "must be NAME=VALUE"),
        (&["--to-upload", NOWHERE, "--match", "up", "--failure-threshold", "0"], "--failure-threshold"),
        (&["--to-upload", NOWHERE, "--match", "up", "--interval", "1ms"], "must be at least 1s"),
        (&["--to-upload", NOWHERE, "--match", "up", "--to-upload-cert", "tls.crt"], "--to-upload-key <FILE>"),
        (&["--to-upload", "http://me:secret@hub", "--match", "up"], "must not contain a user or a password"),
    ];
    for (arguments, message) in rows {
        let ended = run(bellwether(["run", "collector"]).args(arguments));
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn file_that_cannot_be_read_exits_with_1() {
    let rows = [
        ("--match-file", "cannot read --match-file /nowhere"),
        ("--to-upload-token-file", "cannot read the bearer token from /nowhere"),
    ];
    for (option, message) in rows {
        let arguments = ["--disable-status-reporting", "--listen", "127.0.0.1:0", "--match", "up"];
        let mut command = bellwether(["run", "collector", "--to-upload", NOWHERE, option, "/nowhere"]);
        let ended = run(command.args(arguments));
        assert_eq!(ended.code, Some(1), "{option}: {}", ended.stderr);
        assert!(ended.stderr.contains(message), "{option}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn collector_without_prometheus_is_healthy_and_ready_and_stops() {
    let dir = tempfile::tempdir().unwrap();
    let mut command =
        bellwether(["run", "collector", "--disable-status-reporting", "--listen", "127.0.0.1:0"]);
    command.args(["--from", NOWHERE, "--to-upload", NOWHERE, "--match", "up", "--component", "uwl"]);
    let mut collector = Server::launch(&dir.path().join("collector"), &mut command);
    let line = collector.line();
    assert!(line.starts_with("The collector of http://127.0.0.1:9/federate is up; "), "{line}");
    let (_, rest) = line.split_once("; http://").unwrap();
    let address = rest.split_once(' ').unwrap().0;
    eventually("the first cycle", || async { (get(address, "/readyz").0 == 200).then_some(()) }).await;
    assert_eq!(get(address, "/healthz").0, 200);
    let metrics = get(address, "/metrics").1;
    let failed = r#"acm_uwl_metrics_collector_federate_requests_total{type="federate",status_code="0"} 1"#;
    assert!(metrics.contains(failed), "{metrics}");
    assert_eq!(collector.terminate().code(), Some(0));
    let log = collector.log();
    assert!(
        log.contains("Failed to retrieve metrics: cannot connect to http://127.0.0.1:9/federate"),
        "{log}"
    );
}
