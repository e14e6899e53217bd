//! The load generator's side of the wire: one HTTP/2 connection over TLS, with the windows of a Go client. It does
//! no more work per request than it must, because it shares the machine with what it measures.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context as _;
use bytes::Bytes;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, IpAddr, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// What Go's clients announce; smaller windows would make a large list wait for the client.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// Certificates as PEM: whom to trust, and who we are.
pub(crate) struct Credentials {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// Where a server is, and how to be let in.
#[derive(Clone)]
pub(crate) struct Access {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
}

impl Access {
    pub(crate) fn new(address: SocketAddr, credentials: &Credentials) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(credentials.ca.as_bytes())?)?;
        let chain = vec![CertificateDer::from_pem_slice(credentials.certificate.as_bytes())?];
        let key = PrivateKeyDer::from_pem_slice(credentials.key.as_bytes())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self { address, tls: Arc::new(tls) })
    }

    pub(crate) async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(IpAddr::from(self.address.ip()));
        let stream = TlsConnector::from(self.tls.clone()).connect(name, stream).await?;
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .handshake(TokioIo::new(stream))
            .await?;
        // Its end is seen by whoever sends the next request.
        tokio::spawn(connection);
        Ok(Connection { authority: self.address.to_string(), sender })
    }
}

/// A request that was answered with anything but a success.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path} was answered with {status}: {message}")]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    method: Method,
    path: String,
    message: String,
}

/// A body, and what it is.
pub(crate) enum Content {
    None,
    Json(Vec<u8>),
    MergePatch(Vec<u8>),
}

/// A connection. Clones share it, each request is a stream.
#[derive(Clone)]
pub(crate) struct Connection {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends a request and returns as soon as the answer begins; any status but a success is an error.
    pub(crate) async fn begin(
        &mut self,
        method: Method,
        path: &str,
        content: Content,
    ) -> anyhow::Result<Incoming> {
        let (kind, body) = match content {
            Content::None => (None, Vec::new()),
            Content::Json(body) => (Some("application/json"), body),
            Content::MergePatch(body) => (Some("application/merge-patch+json"), body),
        };
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("https://{}{path}", self.authority))
            .header(header::ACCEPT, "application/json");
        if let Some(kind) = kind {
            request = request.header(header::CONTENT_TYPE, kind);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer.into_body());
        }
        Err(refused(method, path, status, answer.into_body()).await.into())
    }

    /// Sends a request and reads all of the answer.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content: Content,
    ) -> anyhow::Result<Bytes> {
        let body = self.begin(method, path, content).await?;
        Ok(body.collect().await.context("the answer broke off")?.to_bytes())
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.send(Method::GET, path, Content::None).await
    }
}

/// Gives every whole line of a stream to `read`, for as long as it lasts. The connection is held so that it does.
pub(crate) async fn each_line(mut stream: Incoming, _held: Connection, mut read: impl FnMut(&[u8])) {
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = stream.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        rest.extend_from_slice(&bytes);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = rest.drain(..=end).collect();
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut read);
    }
}

async fn refused(method: Method, path: &str, status: StatusCode, body: Incoming) -> Refusal {
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .and_then(|status| status.get("message")?.as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    Refusal { status, method, path: path.to_owned(), message }
}

#[cfg(test)]
impl Refusal {
    /// An answer with a status, and no words.
    pub(crate) fn of(code: u16) -> Self {
        let status = StatusCode::from_u16(code).unwrap_or_default();
        Self { status, method: Method::PATCH, path: "/".to_owned(), message: String::new() }
    }
}
