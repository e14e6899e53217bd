//! Runs Go tests with the client library of add-ons, client-go and controller-runtime, on this server and on real Kubernetes.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bellwether_testkit::real;

use crate::agent::Agent;
use crate::server::{Server, bellwether, run, up};

const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/go/build");
/// The packages that need no CRDs and no agent.
const CLIENTS: [&str; 3] = ["typed", "manager", "apply"];

#[test]
fn go_clients_send_heartbeats_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0"]));
    run_all_tests("addoninstance", &dir.join("kubeconfig"));
}

#[test]
fn go_clients_send_heartbeats_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubeconfig = runtime.block_on(real::kubeconfig("go"));
    let installed = run(bellwether(["crds", "--install", "--kubeconfig"]).arg(&kubeconfig));
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let parent = tempfile::tempdir().unwrap();
    let _agent = Agent::start(&parent.path().join("agent"), &kubeconfig, &["--leader-election=false"]);
    run_all_tests("addoninstance", &kubeconfig);
}

#[test]
fn client_go_and_controller_runtime_work_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Without the simulator, only the tests write the status of workloads.
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0", "--no-demo"]));
    for package in CLIENTS {
        run_all_tests(package, &dir.join("kubeconfig"));
    }
}

#[test]
fn client_go_and_controller_runtime_work_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubeconfig = runtime.block_on(real::kubeconfig("go-clients"));
    for package in CLIENTS {
        run_all_tests(package, &kubeconfig);
    }
}

/// Runs all tests of a Go package on a cluster.
fn run_all_tests(package: &str, kubeconfig: &Path) {
    let program = build_tests().join(format!("{package}.test"));
    let go = |arguments: &[&str]| {
        let tests = Command::new(&program)
            .args(arguments)
            .env("KUBECONFIG", kubeconfig)
            .env("BELLWETHER_CHECKER", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&tests.stdout).into_owned();
        assert!(tests.status.success(), "{output}\n{}", String::from_utf8_lossy(&tests.stderr));
        output
    };
    let listed = go(&["-test.list", "^Test"]);
    let output = go(&["-test.v"]);
    let missing: Vec<&str> =
        listed.lines().filter(|name| !output.contains(&format!("--- PASS: {name} "))).collect();
    assert!(!listed.is_empty() && missing.is_empty(), "these tests did not pass: {missing:?}\n{output}");
}

/// Builds the Go tests, unless they are built already, and returns their directory.
fn build_tests() -> PathBuf {
    let built = Command::new(BUILD).stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).unwrap().trim_end().into()
}
