//! Runs tests with the official Python client, on this server and on real Kubernetes.

use std::path::Path;
use std::process::{Command, Stdio};

use bellwether_testkit::real;

use crate::server::{Server, up};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/python");

#[test]
fn python_client_works_on_this_server() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    // Without the simulator, only the tests write the status of workloads.
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "0", "--no-demo"]));
    run_all_tests(&dir.join("kubeconfig"));
}

#[test]
fn python_client_works_on_real_kubernetes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    run_all_tests(&runtime.block_on(real::kubeconfig("python")));
}

/// Runs all Python tests on a cluster.
fn run_all_tests(kubeconfig: &Path) {
    let tests = Command::new(install_client())
        .args(["-B", "flow.py", "-v"])
        .current_dir(PYTHON)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&tests.stderr);
    assert!(tests.status.success(), "{output}");
    assert!(
        output.contains("\nOK\n") && output.contains("test_a_config_map_lives_its_whole_life"),
        "{output}"
    );
}

/// Installs the client, unless it is installed already, and returns the Python interpreter.
fn install_client() -> String {
    let install = format!("{PYTHON}/install");
    let installed = Command::new(install).stdin(Stdio::null()).output().unwrap();
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    String::from_utf8(installed.stdout).unwrap().trim_end().to_owned()
}
