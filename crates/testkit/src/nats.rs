//! A NATS server with JetStream for tests, from the package of the distribution, on a free loopback port in a temporary directory.
//! It stops when it is dropped or the test process exits, even by SIGKILL.

use std::io::Read as _;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::real::{GUARD, SWEEP, free_port, guard};

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A NATS server.
pub struct Nats {
    port: u16,
    dir: PathBuf,
    /// Dropping the process closes its standard input, which stops the server.
    server: Option<Child>,
    _sweeper: Child,
}

impl Nats {
    /// Starts a server, and waits until it is ready.
    pub fn start() -> Self {
        let dir = tempfile::Builder::new().prefix("bellwether-nats-").tempdir().expect("a directory").keep();
        let sweeper = guard(SWEEP, &[dir.display().to_string()]);
        let mut nats = Self { port: free_port(), dir, server: None, _sweeper: sweeper };
        nats.start_again();
        nats
    }

    /// The address, such as `nats://127.0.0.1:4222`.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
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
        let port = self.port.to_string();
        let server =
            [binary().display().to_string(), "--jetstream".into(), "--store_dir".into(), path("data")];
        let listen = ["--addr", "127.0.0.1", "--port", &port].map(String::from);
        let arguments: Vec<String> = [path("log")].into_iter().chain(server).chain(listen).collect();
        self.server = Some(guard(GUARD, &arguments));
        let deadline = Instant::now() + START_TIMEOUT;
        while !self.is_ready() {
            let log = || std::fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "NATS was not ready within {START_TIMEOUT:?}\n{}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether the server greets a client.
    fn is_ready(&self) -> bool {
        let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)) else { return false };
        let mut greeting = [0; 4];
        stream.set_read_timeout(Some(Duration::from_secs(1))).is_ok()
            && stream.read_exact(&mut greeting).is_ok()
            && &greeting == b"INFO"
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        self.kill();
    }
}

fn binary() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").to_owned()])
        .map(|directory| directory.join("nats-server"))
        .find(|program| program.is_file());
    found.expect("NATS is missing: run `make deps`, or install the package nats-server")
}
