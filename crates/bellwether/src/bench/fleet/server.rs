//! The fleet API as a process of its own, and connections to it that do no more than they must.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bellwether_fleet::kinds::BASE_PATH;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::bench::process::Process;

/// How long the server may take to be up.
const START: Duration = Duration::from_secs(30);
/// Two adapters, as few as make a difference.
const CONFIG: &str = "entities:
  - kind: Cluster
    plural: clusters
    name_min_len: 3
    name_max_len: 53
    required_adapters: [validation, dns]
";

/// The server, ended and its directory removed when dropped.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    /// Starts it on a database: `None` is SQLite in a directory that goes with the server.
    pub(super) async fn start(postgres: Option<&str>) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let program = std::env::current_exe().context("cannot find this program")?;
        let config = dir.path().join("fleet.yaml");
        std::fs::write(&config, CONFIG)?;
        let database = match postgres {
            Some(url) => url.to_owned(),
            None => format!("sqlite:{}", dir.path().join("fleet.db").display()),
        };
        let config = config.display().to_string();
        let arguments =
            ["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", &database, "--config", &config];
        let mut process = Process::spawn(&program, &arguments.map(str::to_owned), dir.path())?;
        let address = address(&mut process, &dir.path().join("bellwether.log")).await?;
        Ok(Self { process, address, _dir: dir })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, host: self.address.to_string() })
    }
}

/// What it says when it is up.
async fn address(process: &mut Process, log: &Path) -> anyhow::Result<SocketAddr> {
    let begun = Instant::now();
    while begun.elapsed() < START {
        process.check_alive()?;
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let after = text.split_once("http://").and_then(|(_, after)| after.split_once('/'));
        if let Some(address) = after.and_then(|(address, _)| address.parse().ok()) {
            return Ok(address);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("the fleet API was not up within {START:?}")
}

/// One connection, with one request at a time.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(super) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{BASE_PATH}{path}"))
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        self.sender.ready().await?;
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }
}
