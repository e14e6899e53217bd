//! Starts the fleet API as a process, and connects to it with a client that does as little as possible per request.

use std::net::SocketAddr;
use std::time::Duration;

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
/// How long a response may take. The server answers within 30 s, also if the database is too slow.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// The server. On drop its process ends, and its directory is removed.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    /// Starts the server for clusters with these required adapters, on a PostgreSQL database, or on SQLite in a temporary
    /// directory.
    pub(crate) async fn start(
        bellwether: &Bellwether,
        adapters: &[&str],
        postgres: Option<&str>,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        let config = dir.path().join("fleet.yaml");
        std::fs::write(&config, config_with(adapters))?;
        let database = match postgres {
            Some(url) => url.to_owned(),
            None => format!("sqlite:{}", dir.path().join("fleet.db").display()),
        };
        let config = config.display().to_string();
        let arguments =
            ["run", "fleet-api", "--listen", "127.0.0.1:0", "--database", &database, "--config", &config];
        let mut process = bellwether.spawn(&arguments, dir.path())?;
        let address = process.wait_for_address().await?;
        Ok(Self { process, address, _dir: dir })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        Connection::open(self.address).await
    }
}

/// The configuration of the fleet API.
fn config_with(adapters: &[&str]) -> String {
    let adapters = adapters.join(", ");
    format!(
        "entities:
  - kind: Cluster
    plural: clusters
    name_min_len: 3
    name_max_len: 53
    required_adapters: [{adapters}]
"
    )
}

/// An HTTP/1.1 connection, with one request at a time.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // If the connection ends, the next request fails.
        tokio::spawn(connection);
        Ok(Self { sender, host: address.to_string() })
    }

    /// Sends a request to a path of the fleet API.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        self.send_to(method, &format!("{BASE_PATH}{path}"), body).await
    }

    /// Sends a request to a path of the server.
    pub(crate) async fn send_to(
        &mut self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder()
            .method(&method)
            .uri(path)
            .header(header::HOST, &self.host)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Full::new(body.into()))?;
        let answered = tokio::time::timeout(RESPONSE_TIMEOUT, async {
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            let status = response.status();
            Ok((status, response.into_body().collect().await?.to_bytes()))
        });
        let timed_out = |_| anyhow::anyhow!("{method} {path}: no response within {RESPONSE_TIMEOUT:?}");
        answered.await.map_err(timed_out)?
    }
}
