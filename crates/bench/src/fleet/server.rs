//! Starts the fleet API as a process, and connects to it with a client that does as little as possible per request.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::bellwether::Bellwether;
use crate::process::Process;

const BASE_PATH: &str = "/api/hyperfleet/v1";
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Two required adapters, so that conditions are combined.
const CONFIG: &str = "entities:
  - kind: Cluster
    plural: clusters
    name_min_len: 3
    name_max_len: 53
    required_adapters: [validation, dns]
";

/// The server. On drop its process ends, and its directory is removed.
pub(super) struct Server {
    pub(super) process: Process,
    pub(super) address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    /// Starts the server on a PostgreSQL database, or on SQLite in a temporary directory.
    pub(super) async fn start(bellwether: &Bellwether, postgres: Option<&str>) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let config = dir.path().join("fleet.yaml");
        std::fs::write(&config, CONFIG)?;
        let database = match postgres {
            Some(url) => url.to_owned(),
            None => format!("sqlite:{}", dir.path().join("fleet.db").display()),
        };
        let config = config.display().to_string();
        let arguments =
            ["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", &database, "--config", &config];
        let mut process = bellwether.spawn(&arguments, dir.path())?;
        let address = wait_for_address(&mut process, &dir.path().join("bellwether.log")).await?;
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

/// Waits until the server has logged its address.
async fn wait_for_address(process: &mut Process, log: &Path) -> anyhow::Result<SocketAddr> {
    let begun = Instant::now();
    while begun.elapsed() < START_TIMEOUT {
        process.check_running()?;
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let after = text.split_once("http://").and_then(|(_, after)| after.split_once('/'));
        if let Some(address) = after.and_then(|(address, _)| address.parse().ok()) {
            return Ok(address);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    anyhow::bail!("the fleet API was not up within {START_TIMEOUT:?}")
}

/// An HTTP/1.1 connection, with one request at a time.
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
