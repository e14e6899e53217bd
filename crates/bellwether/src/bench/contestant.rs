//! Who is measured: ourselves, or kube-apiserver on etcd. Each start is a fresh server on a temporary directory.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use base64::Engine as _;
use bellwether_apiserver::pki::Pki;
use http::Method;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::json;
use tempfile::TempDir;

use super::connection::{Access, Connection, Content, Credentials};
use super::process::Process;
use super::report::Side;
use crate::endpoints::Addresses;

/// How long a server may take to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a starting server is asked.
const GLANCE: Duration = Duration::from_millis(2);
/// Where a server of ours keeps its data, in the directory that is made for it.
const DATA: &str = "data";

/// A line for every request, without its body.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

#[derive(Clone, Debug)]
pub(crate) enum Contestant {
    Ours,
    /// The directory of kube-apiserver and etcd.
    Kubernetes(PathBuf),
}

/// A server that is ready.
pub(crate) struct Contender {
    // Dropped in this order: nobody writes to the directory when it is removed.
    processes: Vec<Process>,
    _dir: TempDir,
    /// Where it keeps its certificates and its audit log.
    home: PathBuf,
    address: SocketAddr,
    pub(crate) access: Access,
    /// From the start of the process to a good /readyz.
    pub(crate) ready_after: Duration,
}

impl Contender {
    /// The memory of all its processes, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Process::resident_bytes).sum()
    }

    /// The time that all its processes have spent on processors.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.processes.iter().map(Process::cpu_time).sum()
    }

    /// Writes a kubeconfig for somebody whom no rule restrains, known by this name in the audit log.
    pub(crate) fn kubeconfig_of(&self, user: &str) -> anyhow::Result<PathBuf> {
        let Credentials { ca, certificate, key } = sign(&self.home.join("pki"), user)?;
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": user,
            "clusters": [{"name": user, "cluster": {
                "server": format!("https://{}", self.address), "certificate-authority-data": encode(&ca),
            }}],
            "users": [{"name": user, "user": {
                "client-certificate-data": encode(&certificate), "client-key-data": encode(&key),
            }}],
            "contexts": [{"name": user, "context": {"cluster": user, "user": user}}],
        });
        let path = self.home.join(format!("{user}.kubeconfig"));
        std::fs::write(&path, config.to_string())?;
        Ok(path)
    }

    /// Where a line is written for every request.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.home.join("audit.log")
    }
}

impl Contestant {
    /// Ourselves, and kube-apiserver on etcd where somebody says where they are.
    pub(crate) fn all(assets: Option<&Path>) -> anyhow::Result<Vec<(Side, Self)>> {
        let mut contestants = vec![(Side::Ours, Self::Ours)];
        if let Some(assets) = assets {
            for program in ["kube-apiserver", "etcd"] {
                anyhow::ensure!(
                    assets.join(program).is_file(),
                    "there is no {program} in {}: set KUBEBUILDER_ASSETS or --assets to a directory with \
                     kube-apiserver and etcd, or leave it unset to measure bellwether alone",
                    assets.display()
                );
            }
            contestants.push((Side::Theirs, Self::Kubernetes(assets.to_owned())));
        }
        Ok(contestants)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Ours => "bellwether",
            Self::Kubernetes(_) => "kube-apiserver + etcd",
        }
    }

    pub(crate) async fn start(&self) -> anyhow::Result<Contender> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        match self {
            Self::Ours => start_ours(dir).await,
            Self::Kubernetes(assets) => start_kubernetes(assets, dir).await,
        }
    }
}

async fn start_ours(dir: TempDir) -> anyhow::Result<Contender> {
    let data = dir.path().join(DATA);
    let program = std::env::current_exe().context("cannot find this program")?;
    let arguments = ["run", "apiserver", "--listen", "127.0.0.1:0", "--data-dir"].map(str::to_owned);
    let arguments = [&arguments[..], &[data.display().to_string()]].concat();
    let begun = Instant::now();
    let mut process = Process::spawn(&program, &arguments, dir.path())?;
    let text = until_some(&mut process, async || std::fs::read(data.join("endpoints.json")).ok()).await?;
    let addresses: Addresses = serde_json::from_slice(&text)?;
    let address = addresses.kubernetes.trim_start_matches("https://").parse()?;
    let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name));
    let credentials =
        Credentials { ca: read("ca.crt")?, certificate: read("admin.crt")?, key: read("admin.key")? };
    let access = Access::new(address, &credentials)?;
    until_some(&mut process, async || ready(&access).await.ok()).await?;
    let ready_after = begun.elapsed();
    Ok(Contender { processes: vec![process], _dir: dir, home: data, address, access, ready_after })
}

async fn start_kubernetes(assets: &Path, dir: TempDir) -> anyhow::Result<Contender> {
    let [client, peer, secure] = [free_port()?, free_port()?, free_port()?];
    let at = |name: &str| dir.path().join(name).display().to_string();
    let mut etcd = Process::spawn(
        &assets.join("etcd"),
        &[
            format!("--data-dir={}", at("etcd")),
            format!("--listen-client-urls=http://127.0.0.1:{client}"),
            format!("--advertise-client-urls=http://127.0.0.1:{client}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
            format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
            "--log-level=error".to_owned(),
        ],
        dir.path(),
    )?;
    until_some(&mut etcd, async || etcd_is_healthy(client).await.ok()).await?;

    let pki = dir.path().join("pki");
    Pki::load_or_create(&pki, &[Ipv4Addr::LOCALHOST.into()])?;
    let credentials = sign(&pki, "admin")?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, secure));
    let access = Access::new(address, &credentials)?;
    // What ours writes down of every request, the other side writes down, too.
    std::fs::write(dir.path().join("audit.yaml"), AUDIT_POLICY)?;
    // Time counts from here: that etcd is up already is to the advantage of the other side.
    let begun = Instant::now();
    let mut apiserver = Process::spawn(
        &assets.join("kube-apiserver"),
        &[
            format!("--etcd-servers=http://127.0.0.1:{client}"),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={secure}"),
            format!("--cert-dir={}", at("certificates")),
            format!("--tls-cert-file={}", at("pki/server.crt")),
            format!("--tls-private-key-file={}", at("pki/server.key")),
            format!("--client-ca-file={}", at("pki/ca.crt")),
            format!("--service-account-key-file={}", at("pki/server.crt")),
            format!("--service-account-signing-key-file={}", at("pki/server.key")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--audit-policy-file={}", at("audit.yaml")),
            format!("--audit-log-path={}", at("audit.log")),
            // In megabytes: it is read as one file.
            "--audit-log-maxsize=100000".to_owned(),
        ],
        dir.path(),
    )?;
    until_some(&mut apiserver, async || ready(&access).await.ok()).await?;
    let ready_after = begun.elapsed();
    let home = dir.path().to_owned();
    Ok(Contender { processes: vec![apiserver, etcd], _dir: dir, home, address, access, ready_after })
}

/// A certificate of somebody whom no rule restrains, as both servers know one.
fn sign(pki: &Path, user: &str) -> anyhow::Result<Credentials> {
    let read = |name: &str| std::fs::read_to_string(pki.join(name));
    let ca = read("ca.crt")?;
    let issuer = Issuer::from_ca_cert_pem(&ca, KeyPair::from_pem(&read("ca.key")?)?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Credentials { ca, certificate, key: key.serialize_pem() })
}

async fn etcd_is_healthy(port: u16) -> anyhow::Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    anyhow::ensure!(answer.contains(r#""health":"true""#), "etcd is not healthy yet");
    Ok(())
}

async fn ready(access: &Access) -> anyhow::Result<()> {
    access.connect().await?.get("/readyz").await?;
    Ok(())
}

/// Asks again and again, as long as the process lives.
async fn until_some<T>(process: &mut Process, ask: impl AsyncFn() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = ask().await {
            return Ok(found);
        }
        process.check_alive()?;
        anyhow::ensure!(Instant::now() < deadline, "the server was not ready within {PATIENCE:?}");
        tokio::time::sleep(GLANCE).await;
    }
}

/// A port that was free a moment ago. kube-apiserver and etcd do not say which one they picked themselves.
fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Makes a namespace.
pub(crate) async fn make_namespace(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let body = Content::Json(body.to_string().into_bytes());
    connection.send(Method::POST, "/api/v1/namespaces", body).await?;
    Ok(())
}

/// Defines all our kinds.
pub(crate) async fn define_all(connection: &mut Connection) -> anyhow::Result<()> {
    for definition in bellwether_api::crds() {
        let body = Content::Json(json!(definition.crd).to_string().into_bytes());
        connection
            .send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            .await?;
    }
    Ok(())
}
