//! TLS to PostgreSQL. `sslmode=require` checks the server's certificate, also against the name in the URL, by the roots of
//! the system or the file of `sslrootcert`; `prefer`, which is the default, encrypts where the server can and trusts any.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::store::OpenError;

/// Which certificates of a server to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any certificate.
    Any,
    /// Those of the system's CAs.
    System,
    /// Those of the CAs in a file.
    File(String),
}

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    pub(super) fn new(trust: &Trust) -> Result<Self, OpenError> {
        let provider = Arc::new(ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| OpenError::Address(error.to_string()))?;
        let config = match trust {
            Trust::Any => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider))),
            Trust::System => {
                builder.with_root_certificates(roots(rustls_native_certs::load_native_certs().certs)?)
            }
            Trust::File(path) => builder.with_root_certificates(roots(read(path)?)?),
        };
        Ok(Self(TlsConnector::from(Arc::new(config.with_no_client_auth()))))
    }
}

fn read(path: &str) -> Result<Vec<CertificateDer<'static>>, OpenError> {
    let certificates = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    certificates.map_err(|error| OpenError::Address(format!("sslrootcert={path}: {error}")))
}

fn roots(certificates: Vec<CertificateDer<'static>>) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(certificates);
    if good == 0 {
        return Err(OpenError::Address("there are no certificates to check the server's by".into()));
    }
    Ok(roots)
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = Encrypted;
    type TlsConnect = Handshake;
    type Error = rustls::pki_types::InvalidDnsNameError;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Handshake, Self::Error> {
        // A Unix socket has no name, and PostgreSQL does not support TLS on it.
        let name = if domain.is_empty() { "localhost" } else { domain };
        Ok(Handshake { connector: self.0.clone(), name: ServerName::try_from(name.to_owned())? })
    }
}

/// A connection during its TLS handshake.
pub(super) struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Encrypted>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move { self.connector.connect(self.name, socket).await.map(Encrypted) })
    }
}

/// An encrypted connection.
pub(super) struct Encrypted(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Encrypted {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Encrypted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Encrypted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

/// Trusts any certificate, as `sslmode=prefer` does in other clients: it protects against eavesdropping, but not against impersonation.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
