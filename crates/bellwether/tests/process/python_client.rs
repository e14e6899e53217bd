//! Programs written in Python: the official client library against this server and against real Kubernetes.

use std::path::Path;
use std::process::{Command, Stdio};

use bellwether_testkit::real;

use crate::server::{Server, up};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python");

#[test]
fn the_python_client_works_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Nobody but the tests writes the status of their workloads.
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0", "--no-demo"]));
    all_pass(&dir.join("kubeconfig"));
}

#[test]
fn the_python_client_works_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    all_pass(&runtime.block_on(real::kubeconfig("python")));
}

/// Runs all Python tests on a cluster.
fn all_pass(kubeconfig: &Path) {
    let tests = Command::new(interpreter())
        .args(["-B", "flow.py", "-v"])
        .current_dir(PYTHON)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&tests.stderr);
    assert!(tests.status.success(), "{said}");
    assert!(said.contains("\nOK\n") && said.contains("test_a_config_map_lives_its_whole_life"), "{said}");
}

/// Installs the client, unless it is installed already.
fn interpreter() -> String {
    let install = format!("{PYTHON}/install");
    let installed = Command::new(install).stdin(Stdio::null()).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    String::from_utf8(installed.stdout).unwrap().trim_end().to_owned()
}
