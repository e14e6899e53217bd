//! `bellwether run collector` as a process: its arguments, its endpoints, and its stop. What it forwards is tested in
//! `crates/observability`.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

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
    let address = collector.role_address("collector of http://127.0.0.1:9/federate");
    eventually("the first cycle", || async { (get(&address, "/readyz").0 == 200).then_some(()) }).await;
    assert_eq!(get(&address, "/healthz").0, 200);
    let metrics = get(&address, "/metrics").1;
    let failed = r#"acm_uwl_metrics_collector_federate_requests_total{type="federate",status_code="0"} 1"#;
    assert!(metrics.contains(failed), "{metrics}");
    assert_eq!(collector.terminate().code(), Some(0));
    let log = collector.log();
    assert!(
        log.contains("Failed to retrieve metrics: cannot connect to http://127.0.0.1:9/federate"),
        "{log}"
    );
}

type Handler = fn(TcpStream);

/// A server that handles each connection on a thread, until the test process ends.
fn serve(handle: Handler) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            std::thread::spawn(move || handle(connection));
        }
    });
    format!("http://{address}")
}

fn read_request_head(connection: &mut TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && connection.read(&mut byte).is_ok_and(|count| count > 0) {
        head.push(byte[0]);
    }
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";

/// Sends series with different labels as long as somebody reads them.
fn send_endless_series(mut connection: TcpStream) {
    read_request_head(&mut connection);
    let mut sent = connection.write_all(OK);
    for start in (0_u64..).step_by(1_000) {
        let lines: String =
            (start..start + 1_000).map(|number| format!("up{{pod=\"p{number}\"}} 1\n")).collect();
        sent = sent.and_then(|()| connection.write_all(lines.as_bytes()));
        if sent.is_err() {
            return;
        }
    }
}

/// Sends one line that does not end.
fn send_endless_line(mut connection: TcpStream) {
    read_request_head(&mut connection);
    let mut sent = connection.write_all(OK);
    while sent.is_ok() {
        sent = connection.write_all(&[b'a'; 64 * 1024]);
    }
}

/// Accepts everything.
fn accept(mut connection: TcpStream) {
    let mut buffer = vec![0; 1024 * 1024];
    let text = |buffer: &[u8]| String::from_utf8_lossy(buffer).to_lowercase();
    let mut received = Vec::new();
    while let Ok(count) = connection.read(&mut buffer) {
        if count == 0 {
            return;
        }
        received.extend_from_slice(&buffer[..count]);
        let Some(end) = received.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = text(&received[..end]);
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        if received.len() >= end + 4 + length.unwrap_or(0) {
            received.clear();
            if connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").is_err() {
                return;
            }
        }
    }
}

#[tokio::test]
async fn memory_is_bounded_by_the_size_limit_whatever_prometheus_sends() {
    const LIMIT_KIB: u64 = 16 * 1024;
    // What the process needs by itself, and the batch that is being sent.
    const OTHERWISE_KIB: u64 = 48 * 1024;
    let rows: [(Handler, &str); 2] = [
        (send_endless_series, "is larger than the limit of 16777216 bytes"),
        (send_endless_line, "it is longer than 1 MiB"),
    ];
    for (source, message) in rows {
        let dir = tempfile::tempdir().unwrap();
        let mut command =
            bellwether(["run", "collector", "--disable-status-reporting", "--listen", "127.0.0.1:0"]);
        command.args(["--from", &serve(source), "--to-upload", &serve(accept), "--match", "up"]);
        command.args(["--limit-bytes", &(LIMIT_KIB * 1024).to_string()]);
        let collector = Server::launch(&dir.path().join("collector"), &mut command);
        let address = collector.role_address("collector");
        eventually("the first cycle", || async { (get(&address, "/readyz").0 == 200).then_some(()) }).await;
        assert!(collector.log().contains(message), "{}", collector.log());
        let peak = collector.peak_memory_kib();
        assert!(peak < LIMIT_KIB + OTHERWISE_KIB, "{peak} KiB");
    }
}
