//! One way to start the binary and to know when it is ready or gone. What it should do is in the tests.

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

/// How long anything may take before the test gives up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(5);

/// A command line of the binary.
pub(crate) fn bellwether<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bellwether"));
    command.args(arguments).env_remove("RUST_LOG").stdin(Stdio::null());
    command
}

/// `bellwether up` on a directory and on ports that are free.
pub(crate) fn up(dir: &Path) -> Command {
    let mut command = bellwether(["up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data-dir"]);
    command.arg(dir);
    command
}

/// `bellwether run fleet-api` on a database and on a port that is free.
pub(crate) fn fleet_api(database: &str) -> Command {
    bellwether(["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", database])
}

/// How a command that ends by itself ended.
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
    let status = end_of(&mut child);
    Ended { code: status.code(), stdout: stdout.join().unwrap(), stderr: stderr.join().unwrap() }
}

fn end_of(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the process did not end within {PATIENCE:?}");
        }
        thread::sleep(GLANCE);
    }
}

/// Asks a plain HTTP port, and returns status and body.
pub(crate) fn get(address: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// A running server. It is killed when dropped, as by a crash.
pub(crate) struct Server {
    child: Child,
    dir: PathBuf,
    log: PathBuf,
    banner: mpsc::Receiver<String>,
}

impl Server {
    /// Starts a server and does not wait for it.
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

    /// Starts a server and waits until it says that it is up.
    pub(crate) fn start(dir: &Path, command: &mut Command) -> Self {
        let server = Self::launch(dir, command);
        let line = server.line();
        assert!(line.starts_with("Bellwether is up"), "{line}");
        server
    }

    /// The next line that it prints.
    pub(crate) fn line(&self) -> String {
        match self.banner.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(_) => panic!("not a line within {PATIENCE:?}: {}", self.log()),
        }
    }

    /// What it wrote to stderr, also in earlier lives.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// An address of `endpoints.json`.
    pub(crate) fn address(&self, name: &str) -> String {
        let text = std::fs::read(self.dir.join("endpoints.json")).unwrap();
        let addresses: serde_json::Value = serde_json::from_slice(&text).unwrap();
        addresses[name].as_str().unwrap().to_owned()
    }

    /// How to reach a context of the kubeconfig. Nothing is tried twice: every error is seen by the test.
    pub(crate) async fn config(&self, context: &str) -> kube::Config {
        let kubeconfig = Kubeconfig::read_from(self.dir.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions { context: Some(context.into()), ..KubeConfigOptions::default() };
        let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        config.default_retry = false;
        config.proxy_url = None;
        config
    }

    /// A client of a context, with a connection of its own.
    pub(crate) async fn client(&self, context: &str) -> kube::Client {
        kube::Client::try_from(self.config(context).await).unwrap()
    }

    /// Ends it at once, with no chance to tidy up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to stop, and waits for that.
    pub(crate) fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM)
    }

    /// Sends a signal that ends it, and waits for that.
    pub(crate) fn signal(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        end_of(&mut self.child)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A running fleet API. It is killed when dropped, as by a crash.
pub(crate) struct FleetApi {
    server: Server,
    address: String,
}

impl FleetApi {
    /// Starts one and waits until it says that it is up. What it logs is beside `place`.
    pub(crate) fn start(place: &Path, command: &mut Command) -> Self {
        let server = Server::launch(place, command);
        let line = server.line();
        let address = line
            .strip_prefix("The fleet API is up at ")
            .and_then(|rest| rest.strip_suffix("/api/hyperfleet/v1."));
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { server, address }
    }

    /// Where it is, such as `http://127.0.0.1:8000`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A client with connections of its own.
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
