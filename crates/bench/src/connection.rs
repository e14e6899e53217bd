//! The client of the load generators: an HTTP/2 connection over TLS, with the window sizes of a Go client. It does as little as
//! possible per request, because it shares the machine with the server that it measures.

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

/// The window sizes of Go's HTTP/2 client. With smaller windows, a large list would wait for the client.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 1 << 30;

/// The server's CA, and the client's certificate and key, as PEM.
pub(crate) struct Credentials {
    pub(crate) ca: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The address of a server, and the TLS configuration of its clients.
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
        // If the connection ends, the next request fails.
        tokio::spawn(connection);
        Ok(Connection { authority: self.address.to_string(), sender })
    }
}

/// A response with a status other than 2xx.
#[derive(Debug, thiserror::Error)]
#[error("{method} {path}: HTTP {status}: {message}")]
pub(crate) struct ResponseError {
    pub(crate) status: StatusCode,
    method: Method,
    path: String,
    message: String,
}

/// The body of a request, by its content type.
pub(crate) enum Content {
    None,
    Json(Vec<u8>),
    MergePatch(Vec<u8>),
}

/// An HTTP/2 connection. Clones share it; each request is a stream.
#[derive(Clone)]
pub(crate) struct Connection {
    authority: String,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends a request and returns the body as a stream. A status other than 2xx is an error.
    pub(crate) async fn stream(
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
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        Err(response_error(method, path, status, response.into_body()).await.into())
    }

    /// Sends a request and reads the whole body of the response.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        content: Content,
    ) -> anyhow::Result<Bytes> {
        let body = self.stream(method, path, content).await?;
        Ok(body.collect().await.context("the response was cut off")?.to_bytes())
    }

    pub(crate) async fn get(&mut self, path: &str) -> anyhow::Result<Bytes> {
        self.send(Method::GET, path, Content::None).await
    }
}

/// Calls `read` for every line of a stream until it ends. `_connection` keeps the connection open until then.
pub(crate) async fn for_each_line(
    mut stream: Incoming,
    _connection: Connection,
    mut read: impl FnMut(&[u8]),
) {
    let mut rest = Vec::new();
    while let Some(Ok(frame)) = stream.frame().await {
        let Ok(bytes) = frame.into_data() else { continue };
        rest.extend_from_slice(&bytes);
        let Some(end) = rest.iter().rposition(|byte| *byte == b'\n') else { continue };
        let lines: Vec<u8> = rest.drain(..=end).collect();
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).for_each(&mut read);
    }
}

async fn response_error(method: Method, path: &str, status: StatusCode, body: Incoming) -> ResponseError {
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let message = serde_json::from_slice::<serde_json::Value>(&body)
        .ok()
        .and_then(|status| status.get("message")?.as_str().map(str::to_owned))
        .unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    ResponseError { status, method, path: path.to_owned(), message }
}

#[cfg(test)]
impl ResponseError {
    /// A response with a status and an empty body.
    pub(crate) fn with_status(code: u16) -> Self {
        let status = StatusCode::from_u16(code).unwrap_or_default();
        Self { status, method: Method::PATCH, path: "/".to_owned(), message: String::new() }
    }
}
