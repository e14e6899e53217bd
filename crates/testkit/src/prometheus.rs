//! Prometheus for tests, from the package of the distribution, on a free loopback port in a temporary directory. It stops when
//! it is dropped or the test process exits, even by SIGKILL.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::real::{GUARD, SWEEP, free_port, guard};

const START_TIMEOUT: Duration = Duration::from_secs(60);
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A Prometheus server.
pub struct Prometheus {
    port: u16,
    dir: PathBuf,
    flags: Vec<String>,
    /// Dropping the process closes its standard input, which stops the server.
    server: Option<Child>,
    _sweeper: Child,
}

impl Prometheus {
    /// Starts a server with a configuration file and further flags, and waits until it is ready.
    pub fn start(config: &str, flags: &[&str]) -> Self {
        let dir =
            tempfile::Builder::new().prefix("bellwether-prometheus-").tempdir().expect("a directory").keep();
        std::fs::write(dir.join("prometheus.yml"), config).expect("the configuration can be written");
        let sweeper = guard(SWEEP, &[dir.display().to_string()]);
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut prometheus = Self { port: free_port(), dir, flags, server: None, _sweeper: sweeper };
        prometheus.start_again();
        prometheus
    }

    /// The address, such as `http://127.0.0.1:9090`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Kills the server. Its data and its port stay.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            drop(server.stdin.take());
            server.wait().expect("the guard of the server ends");
        }
    }

    /// Starts the server after [`kill`](Self::kill), with its data and at its port.
    pub fn start_again(&mut self) {
        let path = |name: &str| self.dir.join(name).display().to_string();
        let mut arguments = vec![
            path("log"),
            binary().display().to_string(),
            format!("--config.file={}", path("prometheus.yml")),
            format!("--storage.tsdb.path={}", path("data")),
            format!("--web.listen-address=127.0.0.1:{}", self.port),
        ];
        arguments.extend(self.flags.iter().cloned());
        self.server = Some(guard(GUARD, &arguments));
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.is_ready() {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(
                Instant::now() < deadline,
                "Prometheus was not ready within {START_TIMEOUT:?}\n{}",
                log()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The result of an instant query: each element with its labels and its value.
    pub async fn query(&self, query: &str) -> Vec<Value> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/query?query={encoded}");
        let port = self.port;
        let response = tokio::task::spawn_blocking(move || get(port, &path)).await.expect("a thread runs");
        let (status, body) = response.expect("Prometheus answers");
        assert_eq!(status, 200, "{query}: {body}");
        let json: Value = serde_json::from_str(&body).expect("the response is JSON");
        json["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    fn is_ready(&self) -> bool {
        matches!(get(self.port, "/-/ready"), Some((200, _)))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends one request. Plain HTTP/1.0 needs no client library.
fn get(port: u16, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    let status = response.split_whitespace().nth(1)?.parse().ok()?;
    let (_, body) = response.split_once("\r\n\r\n")?;
    Some((status, body.to_owned()))
}

fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([Path::new("/usr/bin").to_owned()])
        .map(|directory| directory.join("prometheus"))
        .find(|program| program.is_file());
    found.expect("Prometheus is missing: run `make deps`, or install the package prometheus")
}
