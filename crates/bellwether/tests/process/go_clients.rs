//! Add-ons written in Go: their client library (controller-runtime) against this server and against real Kubernetes.

use std::path::Path;
use std::process::{Command, Stdio};

use bellwether_testkit::real;

use crate::agent::Agent;
use crate::server::{Server, bellwether, run, up};

const BUILD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/go/build");

#[test]
fn go_clients_beat_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0"]));
    all_pass(&dir.join("kubeconfig"));
}

#[test]
fn go_clients_beat_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubeconfig = runtime.block_on(real::kubeconfig("go"));
    let installed = run(bellwether(["crds", "--install", "--kubeconfig"]).arg(&kubeconfig));
    assert_eq!(installed.code, Some(0), "{}", installed.stderr);
    let parent = tempfile::tempdir().unwrap();
    let _agent = Agent::start(&parent.path().join("agent"), &kubeconfig, &["--leader-election=false"]);
    all_pass(&kubeconfig);
}

/// Runs all Go tests on a cluster with a heartbeat checker.
fn all_pass(kubeconfig: &Path) {
    let tests = Command::new(program())
        .arg("-test.v")
        .env("KUBECONFIG", kubeconfig)
        .env("BELLWETHER_CHECKER", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{said}\n{}", String::from_utf8_lossy(&tests.stderr));
    assert!(
        said.contains("--- PASS: TestAPulseArrivesAndAStaleCopyConflicts") && !said.contains("--- SKIP"),
        "all tests were run:\n{said}"
    );
}

/// Builds the Go tests, unless they are built already.
fn program() -> String {
    let built = Command::new(BUILD).stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    String::from_utf8(built.stdout).unwrap().trim_end().to_owned()
}
