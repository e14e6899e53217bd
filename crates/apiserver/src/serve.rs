//! The TLS port: HTTP/2 and HTTP/1.1, limits on everything a stranger can send, and the identity of whoever shows a
//! certificate of our CA.

use std::convert::Infallible;
use std::io::Cursor;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::answer::Caller;
use crate::identity::{AUTHENTICATED, Identity};
use crate::pki::Pki;
use crate::server::{HUB, Server};

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(32);
const STREAMS: u32 = 250;
const HEADER_BYTES: u32 = 64 * 1024;
const CONNECTIONS: usize = 10_000;
/// How long connections may take to finish when the server stops.
const DRAIN: Duration = Duration::from_secs(3);

/// What the TLS port needs.
#[derive(Clone)]
pub struct TlsSettings(Arc<rustls::ServerConfig>);

/// Why the TLS port cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("the certificates cannot be used: {0}")]
pub struct TlsError(String);

impl TlsSettings {
    /// Serves with the server's certificate, and knows clients by the CA.
    pub fn new(pki: &Pki) -> Result<Self, TlsError> {
        let bad = |error: &dyn std::fmt::Display| TlsError(error.to_string());
        let read = |pem: &str| -> Result<Vec<CertificateDer<'static>>, TlsError> {
            CertificateDer::pem_reader_iter(Cursor::new(pem.as_bytes()))
                .collect::<Result<_, _>>()
                .map_err(|error| bad(&error))
        };
        let mut roots = RootCertStore::empty();
        for certificate in read(&pki.ca)? {
            roots.add(certificate).map_err(|error| bad(&error))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|error| bad(&error))?;
        let key = PrivateKeyDer::from_pem_slice(pki.serving.key.as_bytes()).map_err(|error| bad(&error))?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error))?
            .with_client_cert_verifier(clients)
            .with_single_cert(read(&pki.serving.certificate)?, key)
            .map_err(|error| bad(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }
}

/// Accepts connections until the server closes, then waits for those at work.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener, settings: TlsSettings) {
    let acceptor = TlsAcceptor::from(settings.0);
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let slot = tokio::select! {
            slot = slots.clone().acquire_owned() => slot,
            () = server.closed() => break,
        };
        let Ok(slot) = slot else { return };
        let (stream, peer) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: give others time to finish.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = server.closed() => break,
        };
        let (server, acceptor) = (server.clone(), acceptor.clone());
        tokio::spawn(async move {
            if let Err(error) = connection(server, acceptor, stream, peer.ip()).await {
                tracing::debug!(%error, "a connection ended badly");
            }
            drop(slot);
        });
    }
    drop(listener);
    // All slots free: nobody is connected any more.
    let all = u32::try_from(CONNECTIONS).unwrap_or(u32::MAX).saturating_sub(1);
    let _ = tokio::time::timeout(DRAIN, slots.acquire_many(all)).await;
}

type ConnectionError = Box<dyn std::error::Error + Send + Sync>;

async fn connection(
    server: Arc<Server>,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: IpAddr,
) -> Result<(), ConnectionError> {
    stream.set_nodelay(true)?;
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let identity =
        stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).and_then(identity_of);
    let caller = Caller { identity, address: Some(address.to_canonical()) };
    // Whoever connects and then says nothing holds a place that others need.
    let mut stream = BufReader::new(stream);
    tokio::time::timeout(HEADERS, stream.fill_buf()).await??;
    let closed = {
        let server = server.clone();
        async move { server.closed().await }
    };
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let (server, caller) = (server.clone(), caller.clone());
        async move { Ok::<_, Infallible>(server.answer(HUB, caller, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(HEADER_BYTES as usize * 4)
        .pipeline_flush(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_BYTES)
        .max_pending_accept_reset_streams(Some(50))
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = closed => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Whom a certificate of our CA names: the user and the groups. One without a name is nobody's.
fn identity_of(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = x509_parser::parse_x509_certificate(certificate).ok()?;
    let subject = parsed.subject();
    let user = subject.iter_common_name().next()?.as_str().ok().filter(|name| !name.is_empty())?;
    let groups = subject.iter_organization().map(|group| group.as_str().map(str::to_owned));
    let mut groups = groups.collect::<Result<Vec<String>, _>>().ok()?;
    groups.push(AUTHENTICATED.into());
    Some(Identity { user: user.to_owned(), groups, ..Identity::default() })
}
