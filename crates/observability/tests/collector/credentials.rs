//! Tokens and certificates from files, and their rotation while the collector runs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bellwether_observability::collector::config::CredentialFiles;
use bellwether_testkit::eventually;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Running, config};
use crate::server::{Answer, Request, Server};

async fn source() -> Server {
    Server::start(|_, _| Answer::ok("up 1\n")).await
}

#[tokio::test]
async fn token_is_read_again_when_its_file_changes() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "first\n").unwrap();
    let authorized = |expected: &'static str| {
        move |_, request: &Request| match request.header("authorization") {
            Some(value) if value == expected => Answer::ok(""),
            _ => Answer::status(401),
        }
    };
    let (source, receiver) = (source().await, Server::start(authorized("bearer first")).await);
    let mut config = config(&source.url(), &receiver.url());
    config.receiver_files.token = Some(token.clone());
    let collector = Running::start(config).await;
    collector.await_reason("ForwardSuccessful").await;

    receiver.answer(authorized("bearer second"));
    collector.await_reason("ForwardFailure").await;
    std::fs::write(&token, "second token").unwrap();
    collector.await_reason("ForwardFailure").await;
    std::fs::write(&token, "second").unwrap();
    collector.await_reason("ForwardSuccessful").await;
}

#[tokio::test]
async fn token_of_prometheus_is_read_again_after_a_401() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("token");
    std::fs::write(&token, "aaaa").unwrap();
    let changed = std::fs::metadata(&token).unwrap().modified().unwrap();
    let path = token.clone();
    // The file changes while the request is on its way, and keeps its length and time.
    let source = Server::start(move |number, request| {
        if number == 0 {
            std::fs::write(&path, "bbbb").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
        }
        match request.header("authorization") {
            Some("bearer bbbb") => Answer::ok("up 1\n"),
            _ => Answer::status(401),
        }
    })
    .await;
    let receiver = Server::start(|_, _| Answer::ok("")).await;
    let mut config = config(&source.url(), &receiver.url());
    config.source.files.token = Some(token);
    config.interval = Duration::from_secs(60);
    let collector = Running::start(config).await;
    assert_eq!(collector.report().await, "ForwardSuccessful: Cluster metrics sent successfully");
    assert_eq!(source.requests().len(), 2);
}

/// A CA that signs certificates.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// The certificate and the key of a server or client.
    fn sign(&self, usage: ExtendedKeyUsagePurpose) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }

    /// TLS of a server that accepts only clients with a certificate of `clients`.
    fn acceptor(&self, clients: &Self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(clients.roots()), provider.clone()).build();
        let (certificate, key) = self.sign(ExtendedKeyUsagePurpose::ServerAuth);
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.unwrap())
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            );
        TlsAcceptor::from(Arc::new(config.unwrap()))
    }
}

fn write_client_certificate(dir: &Path, clients: &Authority) {
    let (certificate, key) = clients.sign(ExtendedKeyUsagePurpose::ClientAuth);
    std::fs::write(dir.join("tls.crt"), certificate).unwrap();
    std::fs::write(dir.join("tls.key"), key).unwrap();
}

#[tokio::test]
async fn client_certificate_is_read_again_when_its_files_change() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, clients, untrusted) =
        (Authority::new("servers"), Authority::new("clients"), Authority::new("untrusted"));
    std::fs::write(dir.path().join("ca.crt"), &servers.pem).unwrap();
    write_client_certificate(dir.path(), &untrusted);
    let source = source().await;
    let receiver = Server::start_tls(servers.acceptor(&clients), |_, _| Answer::ok("")).await;
    let mut config = config(&source.url(), &receiver.url());
    config.receiver_files = CredentialFiles {
        ca: Some(dir.path().join("ca.crt")),
        certificate: Some(dir.path().join("tls.crt")),
        key: Some(dir.path().join("tls.key")),
        token: None,
    };
    let collector = Running::start(config).await;
    let report = collector.report().await;
    assert!(report.starts_with("ForwardFailure: Failed to send metrics: "), "{report}");
    assert!(report.contains(&receiver.url()), "{report}");
    assert!(receiver.requests().is_empty());

    // A half-written file keeps the certificate before.
    std::fs::write(dir.path().join("tls.crt"), "-----BEGIN").unwrap();
    let failures = || collector.metric("forward_cycles_total{result=\"failure\"}");
    let before = failures();
    eventually("another cycle", || async { (failures() > before).then_some(()) }).await;
    write_client_certificate(dir.path(), &clients);
    collector.await_reason("ForwardSuccessful").await;
}

#[tokio::test]
async fn server_of_an_unknown_authority_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, others) = (Authority::new("servers"), Authority::new("others"));
    std::fs::write(dir.path().join("ca.crt"), &others.pem).unwrap();
    let source = source().await;
    let receiver = Server::start_tls(servers.acceptor(&others), |_, _| Answer::ok("")).await;
    let mut config = config(&source.url(), &receiver.url());
    config.receiver_files.ca = Some(dir.path().join("ca.crt"));
    let collector = Running::start(config).await;
    let report = collector.report().await;
    assert!(report.contains(&format!("cannot connect to {}/api/v1/write: ", receiver.url())), "{report}");
    assert!(report.contains("invalid peer certificate"), "{report}");
}
