//! Programs written in Go: the client library of add-ons, client-go and controller-runtime, against this server and
//! against real Kubernetes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bellwether_testkit::real;

use crate::agent::Agent;
use crate::server::{Server, bellwether, run, up};

const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/go/build");
/// What needs nothing but Kubernetes.
const CLIENTS: [&str; 3] = ["typed", "manager", "apply"];

#[test]
fn go_clients_beat_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0"]));
    all_pass("addoninstance", &dir.join("kubeconfig"));
}

#[test]
fn go_clients_beat_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubeconfig = runtime.block_on(real::kubeconfig("go"));
    let installed = run(bellwether(["crds", "--install", "--kubeconfig"]).arg(&kubeconfig));
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let parent = tempfile::tempdir().unwrap();
    let _agent = Agent::start(&parent.path().join("agent"), &kubeconfig, &["--leader-election=false"]);
    all_pass("addoninstance", &kubeconfig);
}

#[test]
fn client_go_and_controller_runtime_work_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Nobody but the tests writes the status of their workloads.
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0", "--no-demo"]));
    for package in CLIENTS {
        all_pass(package, &dir.join("kubeconfig"));
    }
}

#[test]
fn client_go_and_controller_runtime_work_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubeconfig = runtime.block_on(real::kubeconfig("go-clients"));
    for package in CLIENTS {
        all_pass(package, &kubeconfig);
    }
}

/// Runs all tests of a Go package on a cluster.
fn all_pass(package: &str, kubeconfig: &Path) {
    let program = programs().join(format!("{package}.test"));
    let go = |arguments: &[&str]| {
        let tests = Command::new(&program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("BELLWETHER_CHECKER", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&tests.stdout).into_owned();
        assert!(tests.status.success(), "{said}\n{}", String::from_utf8_lossy(&tests.stderr));
        said
    };
    let listed = go(&["-test.list", "^Test"]);
    let said = go(&["-test.v"]);
    let missing: Vec<&str> =
        listed.lines().filter(|name| !said.contains(&format!("--- PASS: {name} "))).collect();
    assert!(!listed.is_empty() && missing.is_empty(), "not all tests were run, but for {missing:?}:\n{said}");
}

/// Builds the Go tests, unless they are built already.
fn programs() -> PathBuf {
    let built = Command::new(BUILD).stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).unwrap().trim_end().into()
}
