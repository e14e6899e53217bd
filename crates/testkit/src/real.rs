//! Real Kubernetes as a test cluster: etcd, kube-apiserver and kube-controller-manager from
//! `KUBEBUILDER_ASSETS`, on free loopback ports in a temporary directory. Clusters of one test process share
//! an etcd, each with its own prefix. They start at their first use and stop when the process exits, even by
//! SIGKILL.

use std::collections::HashMap;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::cluster::{Cluster, Flavour};
use crate::request::Call;

/// The environment variable with the directory of the binaries.
pub const ASSETS: &str = "KUBEBUILDER_ASSETS";
const TOKEN: &str = "secret-token";
const START_TIMEOUT: Duration = Duration::from_secs(60);
const CONTROLLERS: &str = "namespace-controller,garbage-collector-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller";

/// Lets the programs of Kubernetes collect garbage less often: tests wait for their CPU, not for memory.
const GO_RUNTIME: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "2GiB")];

/// Runs a program as long as standard input is open, so that it is killed when this process exits, even by
/// SIGKILL.
pub(crate) const GUARD: &str =
    r#"log=$1; shift; "$@" >"$log" 2>&1 </dev/null & pid=$!; cat >/dev/null; kill -9 $pid; wait"#;
/// Removes a directory when this process exits, after the programs that write there have been killed.
pub(crate) const SWEEP: &str = r#"cat >/dev/null; sleep 1; rm -rf "$1""#;

/// The control planes of all clusters of a test process.
static CONTROL_PLANES: LazyLock<Mutex<ControlPlanes>> = LazyLock::new(|| Mutex::new(ControlPlanes::start()));

struct ControlPlanes {
    assets: PathBuf,
    dir: PathBuf,
    etcd_port: u16,
    clusters: HashMap<String, Address>,
    /// Dropping a process closes its standard input, which stops the program.
    guards: Vec<Child>,
}

/// The port and the CA certificate of a cluster.
#[derive(Clone)]
struct Address {
    port: u16,
    ca: String,
}

/// The real Kubernetes cluster with this name, which is started if it does not run yet.
pub async fn cluster(name: &str) -> Cluster {
    let name = name.to_owned();
    let address = tokio::task::spawn_blocking(move || {
        CONTROL_PLANES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).cluster(&name)
    })
    .await
    .expect("real Kubernetes starts");
    let anonymous = client_as(&address, json!({})).await;
    Cluster::new(Flavour::Kubernetes, client(&address).await, anonymous, None)
}

/// The path of the kubeconfig of a real Kubernetes cluster, which is started if it does not run yet.
pub async fn kubeconfig(name: &str) -> PathBuf {
    cluster(name).await;
    CONTROL_PLANES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).kubeconfig(name)
}

async fn client(address: &Address) -> kube::Client {
    client_as(address, json!({"token": TOKEN})).await
}

async fn client_as(address: &Address, user: Value) -> kube::Client {
    let ca = base64::engine::general_purpose::STANDARD.encode(&address.ca);
    client_from(
        json!({"server": format!("https://127.0.0.1:{}", address.port), "certificate-authority-data": ca}),
        user,
    )
    .await
}

/// A client from the parts of a kubeconfig, which does not retry requests.
pub(crate) async fn client_from(cluster: Value, user: Value) -> kube::Client {
    let kubeconfig: Kubeconfig = serde_json::from_value(json!({
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }))
    .expect("the kubeconfig is well formed");
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("the kubeconfig is complete");
    config.default_retry = false;
    kube::Client::try_from(config).expect("the client can be created")
}

/// Compacts etcd's history up to the current revision, through the JSON gateway of its API. The revision is
/// also written to the key in which kube-apiserver keeps its last compaction.
pub async fn compact() {
    let port = CONTROL_PLANES.lock().unwrap_or_else(std::sync::PoisonError::into_inner).etcd_port;
    let key = base64::engine::general_purpose::STANDARD.encode("/");
    let range = etcd(port, "/v3/kv/range", &json!({"key": key, "limit": 1})).await;
    let revision = range["header"]["revision"].as_str().expect("etcd returns its revision").to_owned();
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let compacted = json!({"key": encode("compact_rev_key"), "value": encode(&revision)});
    etcd(port, "/v3/kv/put", &compacted).await;
    etcd(port, "/v3/kv/compaction", &json!({"revision": revision, "physical": true})).await;
}

/// Sends one request to etcd. Plain HTTP/1.0 needs no client library.
async fn etcd(port: u16, path: &str, body: &Value) -> Value {
    let body = body.to_string();
    let mut stream =
        tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("etcd is reachable");
    let request = format!("POST {path} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("etcd receives the request");
    let mut response = String::new();
    stream.read_to_string(&mut response).await.expect("etcd responds");
    assert!(response.split_whitespace().nth(1) == Some("200"), "etcd rejected {path}: {response}");
    let (_, json) = response.split_once("\r\n\r\n").expect("the response of etcd has a body");
    serde_json::from_str(json).expect("the response of etcd is JSON")
}

impl ControlPlanes {
    fn start() -> Self {
        let assets = std::env::var_os(ASSETS).map(PathBuf::from).unwrap_or_else(|| {
            panic!(
                "{ASSETS} is not set: tests against real Kubernetes need its binaries. Run `make test`, or set it to what tests/kube/build prints"
            )
        });
        let dir = tempfile::Builder::new().prefix("bellwether-kube-").tempdir().expect("a directory").keep();
        let etcd_port = free_port();
        let mut planes = Self { assets, dir, etcd_port, clusters: HashMap::new(), guards: Vec::new() };
        planes.guards.push(guard(SWEEP, &[planes.dir.display().to_string()]));
        planes.write_secrets();
        let url = format!("http://127.0.0.1:{etcd_port}");
        let data = format!("--data-dir={}", planes.dir.join("etcd").display());
        planes.run(
            "etcd",
            "etcd",
            &[
                &data,
                "--unsafe-no-fsync",
                &format!("--listen-client-urls={url}"),
                &format!("--advertise-client-urls={url}"),
                "--listen-peer-urls=http://127.0.0.1:0",
                "--log-level=warn",
            ],
        );
        planes
    }

    /// Writes the keys that sign ServiceAccount tokens, and the token of the administrator.
    fn write_secrets(&self) {
        let key = rcgen::KeyPair::generate().expect("a key can be generated");
        let write = |name: &str, text: String| std::fs::write(self.dir.join(name), text).expect("a file");
        write("sa.key", key.serialize_pem());
        write("sa.pub", key.public_key_pem());
        write("tokens.csv", format!("{TOKEN},admin,admin,\"system:masters\"\n"));
    }

    fn cluster(&mut self, name: &str) -> Address {
        if let Some(address) = self.clusters.get(name) {
            return address.clone();
        }
        let port = free_port();
        let certificates = self.dir.join(name);
        let at = |file: &str| self.dir.join(file).display().to_string();
        let flags = [
            format!("--etcd-servers=http://127.0.0.1:{}", self.etcd_port),
            format!("--etcd-prefix=/{name}"),
            "--bind-address=127.0.0.1".into(),
            format!("--secure-port={port}"),
            format!("--cert-dir={}", certificates.display()),
            "--service-account-issuer=https://kubernetes.default.svc".into(),
            format!("--service-account-signing-key-file={}", at("sa.key")),
            format!("--service-account-key-file={}", at("sa.pub")),
            "--authorization-mode=RBAC".into(),
            format!("--token-auth-file={}", at("tokens.csv")),
            "--advertise-address=127.0.0.1".into(),
            "--endpoint-reconciler-type=none".into(),
        ];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        self.run("kube-apiserver", &format!("{name}-apiserver"), &flags);
        let address = Address { port, ca: self.await_ready(name, &certificates.join("apiserver.crt"), port) };
        self.start_controllers(name, &certificates.join("apiserver.crt"), port);
        self.clusters.insert(name.to_owned(), address.clone());
        address
    }

    /// Starts kube-controller-manager with the controllers that clients rely on.
    fn start_controllers(&mut self, name: &str, ca: &Path, port: u16) {
        let kubeconfig = self.kubeconfig(name);
        let config = json!({
            "kind": "Config", "apiVersion": "v1", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {
                "server": format!("https://127.0.0.1:{port}"), "certificate-authority": ca,
            }}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        });
        std::fs::write(&kubeconfig, config.to_string()).expect("a kubeconfig");
        self.run(
            "kube-controller-manager",
            &format!("{name}-controllers"),
            &[
                &format!("--kubeconfig={}", kubeconfig.display()),
                "--leader-elect=false",
                "--secure-port=0",
                "--use-service-account-credentials=false",
                &format!("--root-ca-file={}", ca.display()),
                &format!("--controllers={CONTROLLERS}"),
            ],
        );
    }

    fn run(&mut self, program: &str, log: &str, flags: &[&str]) {
        let program = self.assets.join(program);
        assert!(program.is_file(), "{} is missing: see {ASSETS}", program.display());
        let mut arguments = vec![self.log(log).display().to_string(), program.display().to_string()];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        self.guards.push(guard(GUARD, &arguments));
    }

    fn kubeconfig(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.kubeconfig"))
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// Waits until a server is ready, and returns the certificates that it has generated, which clients must
    /// trust.
    fn await_ready(&self, name: &str, ca: &Path, port: u16) -> String {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Ok(ca) = std::fs::read_to_string(ca) {
                let ready = runtime.block_on(async {
                    let client = client(&Address { port, ca: ca.clone() }).await;
                    let response = client.send(Call::get("/readyz").into_request()).await;
                    response.is_ok_and(|response| response.status().is_success())
                });
                if ready {
                    return ca;
                }
            }
            if Instant::now() > deadline {
                let log = std::fs::read_to_string(self.log(&format!("{name}-apiserver"))).unwrap_or_default();
                let etcd = std::fs::read_to_string(self.log("etcd")).unwrap_or_default();
                panic!("kube-apiserver was not ready within {START_TIMEOUT:?}\n{etcd}\n{log}");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Starts a shell script that ends when this process exits.
pub(crate) fn guard(script: &str, arguments: &[String]) -> Child {
    Command::new("sh")
        .args(["-c", script, "guard"])
        .args(arguments)
        .envs(GO_RUNTIME)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // A signal to the process group of the test, such as Ctrl-C, must not end the script before it has
        // cleaned up.
        .process_group(0)
        .spawn()
        .expect("a shell can be started")
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    listener.local_addr().expect("the listener has an address").port()
}
