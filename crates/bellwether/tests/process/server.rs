//! Starts the binary, and waits until it is ready or has ended. Assertions about its behaviour are in the tests.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bellwether_fleet::client::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustix::process::{Pid, Signal, kill_process};

/// How long any step may take before the test fails.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// How often a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How much of the log of a process is printed if its test fails, in bytes.
const MAX_PRINTED_LOG: usize = 16 * 1024;

/// A command line of the binary.
pub(crate) fn bellwether<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// `bellwether up` on a data directory and on free ports.
pub(crate) fn up(dir: &Path) -> Command {
    let mut command = bellwether(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]);
    command.arg(dir);
    command
}

/// `bellwether run fleet-api` on a database and on a free port.
pub(crate) fn fleet_api(database: &str) -> Command {
    bellwether(["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", database])
}

/// The exit code and the output of a command that has ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let read = |mut stream: Box<dyn std::io::Read + Send>| {
        thread::spawn(move || {
            let mut text = String::new();
            stream.read_to_string(&mut text).map(|_| text).unwrap()
        })
    };
    let stdout = read(Box::new(child.stdout.take().unwrap()));
    let stderr = read(Box::new(child.stderr.take().unwrap()));
    let status = wait_for_exit(&mut child);
    Ended { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the process did not exit within {WAIT_TIMEOUT:?}");
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Sends a GET request over plain HTTP, and returns the status and the body.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The value of a metric of a process, by its name with labels.
pub(crate) fn metric(address: &str, name: &str) -> Option<String> {
    let (_, metrics) = get(address, "/metrics");
    metrics.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
}

/// A running server. On drop it is killed, as in a crash.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    log: PathBuf,
    banner: mpsc::Receiver<String>,
}

impl Server {
    /// Starts a server without waiting until it is up.
    pub(crate) fn launch(dir: &Path, command: &mut Command) -> Self {
        let log = dir.with_extension("log");
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (sender, banner) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self { child, dir: dir.to_owned(), log, banner }
    }

    /// Starts a server and waits until it prints that it is up.
    pub(crate) fn start(dir: &Path, command: &mut Command) -> Self {
        let server = Self::launch(dir, command);
        let line = server.line();
        assert!(line.starts_with("Bellwether is up"), "{line}");
        server
    }

    /// Waits for the next line of stdout.
    pub(crate) fn line(&self) -> String {
        match self.banner.recv_timeout(WAIT_TIMEOUT) {
            Ok(line) => line,
            Err(_) => panic!("no line on stdout within {WAIT_TIMEOUT:?}: {}", self.log()),
        }
    }

    /// Waits until a role prints that it is up, and returns its address for plain HTTP.
    pub(crate) fn role_address(&self, role: &str) -> String {
        let line = self.line();
        assert!(line.starts_with(&format!("The {role} ")), "{line}");
        let (_, rest) = line.rsplit_once("; http://").expect("a role prints its address");
        rest.split_once(' ').unwrap().0.to_owned()
    }

    /// The content of stderr, also of earlier processes on the same directory.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The kubeconfig of the administrator.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.dir.join("kubeconfig")
    }

    /// An address of `endpoints.json`.
    pub(crate) fn address(&self, name: &str) -> String {
        let text = std::fs::read(self.dir.join("endpoints.json")).unwrap();
        let addresses: serde_json::Value = serde_json::from_slice(&text).unwrap();
        addresses[name].as_str().unwrap().to_owned()
    }

    /// The client configuration of a context of the kubeconfig. Requests are not retried, so that the test sees every error.
    pub(crate) async fn config(&self, context: &str) -> kube::Config {
        let kubeconfig = Kubeconfig::read_from(self.dir.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() };
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        config.proxy_url = None;
        config
    }

    /// A client of a context, with its own connection.
    pub(crate) async fn client(&self, context: &str) -> kube::Client {
        kube::Client::try_from(self.config(context).await).unwrap()
    }

    /// The largest resident memory of the process so far.
    pub(crate) fn peak_memory_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// Kills the process with SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process with SIGTERM, and waits until it has exited.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM)
    }

    /// Sends a signal, and waits until the process has exited.
    pub(crate) fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        wait_for_exit(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let begin = log.len().saturating_sub(MAX_PRINTED_LOG);
            println!(
                "--- the end of {}\n{}",
                self.log.display(),
                String::from_utf8_lossy(&log.as_bytes()[begin..])
            );
        }
    }
}

/// A running fleet API. On drop it is killed, as in a crash.
pub(crate) struct FleetApi {
    server: Server,
    address: String,
}

impl FleetApi {
    /// Starts a fleet API and waits until it prints that it is up. Its log is `path` with the extension `log`.
    pub(crate) fn start(path: &Path, command: &mut Command) -> Self {
        let server = Server::launch(path, command);
        let line = server.line();
        let address = line
            .strip_prefix("The fleet API is up at ")
            .and_then(|rest| rest.strip_suffix("/api/hyperfleet/v1."));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { server, address }
    }

    /// The address, such as `http://127.0.0.1:8000`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A client with its own connections.
    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address, None).unwrap()
    }
}

impl std::ops::Deref for FleetApi {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl std::ops::DerefMut for FleetApi {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.server
    }
}
