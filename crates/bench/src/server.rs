//! The API servers to measure: Bellwether's, and kube-apiserver with etcd. Each start is a new server on a temporary directory.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use bellwether_apiserver::pki::Pki;
use http::Method;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::bellwether::Bellwether;
use crate::connection::{Access, Connection, Content, Credentials};
use crate::process::Process;
use crate::report::Side;

const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a starting server is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// The data directory of Bellwether, in the temporary directory.
const DATA_DIR: &str = "data";

/// The group that has all permissions on both servers, and whose requests are not limited in number.
const MASTERS: &str = "system:masters";

/// Logs every request, without its body.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n";

/// A server to measure.
#[derive(Clone, Debug)]
pub(crate) enum ServerKind {
    Bellwether(Bellwether),
    /// kube-apiserver and etcd, from this directory.
    Kubernetes(PathBuf),
}

/// A server that is ready.
pub(crate) struct Server {
    // Dropped in this order: the processes have ended when the directory is removed.
    processes: Vec<Process>,
    dir: TempDir,
    /// The directory of its certificates and its audit log.
    home: PathBuf,
    address: SocketAddr,
    pub(crate) access: Access,
    /// The time from the start of the process until /readyz succeeded.
    pub(crate) ready_after: Duration,
}

impl Server {
    /// The resident memory of all processes of the server, in bytes.
    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        self.processes.iter().map(Process::resident_bytes).sum()
    }

    /// The CPU time that all processes of the server have used.
    pub(crate) fn cpu_time(&self) -> anyhow::Result<Duration> {
        self.processes.iter().map(Process::cpu_time).sum()
    }

    /// Kills the server. Its data, its address and its certificates stay.
    pub(crate) fn kill(&mut self) {
        self.processes.clear();
    }

    /// Starts Bellwether after [`kill`](Self::kill), on its data and at its address.
    pub(crate) async fn start_again(&mut self, bellwether: &Bellwether) -> anyhow::Result<()> {
        let begun = Instant::now();
        let mut process = spawn_bellwether(bellwether, self.address, &self.home, self.dir.path())?;
        poll_until_some(&mut process, async || check_ready(&self.access).await.ok()).await?;
        self.ready_after = begun.elapsed();
        self.processes.push(process);
        Ok(())
    }

    /// Writes a kubeconfig with all permissions. The audit log shows its requests with this user name.
    pub(crate) fn write_kubeconfig(&self, user: &str) -> anyhow::Result<PathBuf> {
        self.write_kubeconfig_of_group(user, MASTERS)
    }

    /// Writes a kubeconfig with the permissions of a group.
    pub(crate) fn write_kubeconfig_of_group(&self, user: &str, group: &str) -> anyhow::Result<PathBuf> {
        let Credentials { ca, certificate, key } = sign_certificate(&self.home.join("pki"), user, group)?;
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

    /// The path of the audit log, which has a line for every request.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.home.join("audit.log")
    }
}

impl ServerKind {
    /// Bellwether, and kube-apiserver with etcd if their directory is given.
    pub(crate) fn all(bellwether: &Bellwether, assets: Option<&Path>) -> anyhow::Result<Vec<(Side, Self)>> {
        let mut kinds = vec![(Side::Bellwether, Self::Bellwether(bellwether.clone()))];
        if let Some(assets) = assets {
            for program in ["kube-apiserver", "etcd"] {
                anyhow::ensure!(
                    assets.join(program).is_file(),
                    "there is no {program} in {}: set KUBEBUILDER_ASSETS or --assets to a directory with \
                     kube-apiserver and etcd, or unset it to measure only bellwether",
                    assets.display()
                );
            }
            kinds.push((Side::Kubernetes, Self::Kubernetes(assets.to_owned())));
        }
        Ok(kinds)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Bellwether(_) => "bellwether",
            Self::Kubernetes(_) => "kube-apiserver + etcd",
        }
    }

    pub(crate) async fn start(&self) -> anyhow::Result<Server> {
        let dir = tempfile::Builder::new().prefix("bellwether-bench-").tempdir()?;
        match self {
            Self::Bellwether(bellwether) => start_bellwether(bellwether, dir).await,
            Self::Kubernetes(assets) => start_kubernetes(assets, dir).await,
        }
    }
}

/// The part of `endpoints.json` that is used here.
#[derive(Deserialize)]
struct Endpoints {
    kubernetes: String,
}

async fn start_bellwether(bellwether: &Bellwether, dir: TempDir) -> anyhow::Result<Server> {
    let data = dir.path().join(DATA_DIR);
    let begun = Instant::now();
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut process = spawn_bellwether(bellwether, any_port, &data, dir.path())?;
    let text =
        poll_until_some(&mut process, async || std::fs::read(data.join("endpoints.json")).ok()).await?;
    let addresses: Endpoints = serde_json::from_slice(&text)?;
    let address = addresses.kubernetes.trim_start_matches("https://").parse()?;
    let read = |name: &str| std::fs::read_to_string(data.join("pki").join(name));
    let credentials =
        Credentials { ca: read("ca.crt")?, certificate: read("admin.crt")?, key: read("admin.key")? };
    let access = Access::new(address, &credentials)?;
    poll_until_some(&mut process, async || check_ready(&access).await.ok()).await?;
    let ready_after = begun.elapsed();
    Ok(Server { processes: vec![process], dir, home: data, address, access, ready_after })
}

fn spawn_bellwether(
    bellwether: &Bellwether,
    listen: SocketAddr,
    data: &Path,
    log_dir: &Path,
) -> anyhow::Result<Process> {
    let (listen, data) = (listen.to_string(), data.display().to_string());
    bellwether.spawn(&["run", "apiserver", "--listen", &listen, "--data-dir", &data], log_dir)
}

async fn start_kubernetes(assets: &Path, dir: TempDir) -> anyhow::Result<Server> {
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
    poll_until_some(&mut etcd, async || check_etcd(client).await.ok()).await?;

    let pki = dir.path().join("pki");
    Pki::load_or_create(&pki, &[Ipv4Addr::LOCALHOST.into()])?;
    let credentials = sign_certificate(&pki, "admin", MASTERS)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, secure));
    let access = Access::new(address, &credentials)?;
    // Bellwether has an audit log, too.
    std::fs::write(dir.path().join("audit.yaml"), AUDIT_POLICY)?;
    // Without the start of etcd, which is to the advantage of kube-apiserver.
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
            // In megabytes, so that the log is not rotated: it is read as one file.
            "--audit-log-maxsize=100000".to_owned(),
        ],
        dir.path(),
    )?;
    poll_until_some(&mut apiserver, async || check_ready(&access).await.ok()).await?;
    let ready_after = begun.elapsed();
    let home = dir.path().to_owned();
    Ok(Server { processes: vec![apiserver, etcd], dir, home, address, access, ready_after })
}

/// Signs a client certificate of a user in a group.
fn sign_certificate(pki: &Path, user: &str, group: &str) -> anyhow::Result<Credentials> {
    let read = |name: &str| std::fs::read_to_string(pki.join(name));
    let ca = read("ca.crt")?;
    let issuer = Issuer::from_ca_cert_pem(&ca, KeyPair::from_pem(&read("ca.key")?)?)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = params.signed_by(&key, &issuer)?.pem();
    Ok(Credentials { ca, certificate, key: key.serialize_pem() })
}

async fn check_etcd(port: u16) -> anyhow::Result<()> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    stream.write_all(b"GET /health HTTP/1.0\r\n\r\n").await?;
    let mut response = String::new();
    stream.read_to_string(&mut response).await?;
    anyhow::ensure!(response.contains(r#""health":"true""#), "etcd is not healthy yet");
    Ok(())
}

async fn check_ready(access: &Access) -> anyhow::Result<()> {
    access.connect().await?.get("/readyz").await?;
    Ok(())
}

/// Calls `poll` until it returns a value, while the process runs, for at most `START_TIMEOUT`.
async fn poll_until_some<T>(process: &mut Process, poll: impl AsyncFn() -> Option<T>) -> anyhow::Result<T> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        if let Some(found) = poll().await {
            return Ok(found);
        }
        process.check_running()?;
        anyhow::ensure!(Instant::now() < deadline, "the server was not ready within {START_TIMEOUT:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Finds a free port: kube-apiserver and etcd do not report a port that they select themselves.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Creates a namespace.
pub(crate) async fn create_namespace(connection: &mut Connection, name: &str) -> anyhow::Result<()> {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let body = Content::Json(body.to_string().into_bytes());
    connection.send(Method::POST, "/api/v1/namespaces", body).await?;
    Ok(())
}

/// Creates all our CRDs.
pub(crate) async fn create_crds(connection: &mut Connection) -> anyhow::Result<()> {
    for crd in bellwether_api::crds() {
        let body = Content::Json(json!(crd.crd).to_string().into_bytes());
        connection
            .send(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            .await?;
    }
    Ok(())
}
