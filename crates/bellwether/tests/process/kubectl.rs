//! Runs kubectl scripts on this server and on real Kubernetes, and compares their output.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use bellwether_testkit::real;

use crate::masks::masked;
use crate::server::{Server, up};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kubectl");

#[test]
fn kubectl_output_for_objects_is_the_same_on_both_servers() {
    compare("objects");
}

#[test]
fn kubectl_output_for_create_is_the_same_on_both_servers() {
    compare("create");
}

#[test]
fn kubectl_output_for_workloads_is_the_same_on_both_servers() {
    compare("workloads");
}

#[test]
fn kubectl_output_for_custom_resources_is_the_same_on_both_servers() {
    compare("custom");
}

#[test]
fn kubectl_output_for_rbac_is_the_same_on_both_servers() {
    compare("access");
}

#[test]
fn kubectl_output_for_server_side_apply_is_the_same_on_both_servers() {
    compare("apply");
}

fn compare(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // On real Kubernetes no controller makes workloads ready.
    let _server = Server::start(&data, up(&data).arg("--no-demo"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubernetes = dir.path().join("kubernetes.kubeconfig");
    // A copy, because the scripts change the namespace of the context.
    std::fs::copy(runtime.block_on(real::kubeconfig("kubectl")), &kubernetes).unwrap();

    let (kubernetes_output, our_output) = thread::scope(|scope| {
        let kubernetes_output = scope.spawn(|| run_script(name, &kubernetes));
        let our_output = run_script(name, &data.join("kubeconfig"));
        (kubernetes_output.join().unwrap(), our_output)
    });

    assert!(
        kubernetes_output.ends_with("--- end\n"),
        "the script did not reach its end:\n{kubernetes_output}"
    );
    let (our_output, kubernetes_output) = (masked(&our_output), masked(&kubernetes_output));
    if our_output != kubernetes_output {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let diff = Command::new("diff")
            .args(["-u"])
            .args([write("kubernetes", &kubernetes_output), write("bellwether", &our_output)])
            .output()
            .unwrap();
        panic!("the output differs:\n{}", String::from_utf8_lossy(&diff.stdout));
    }
}

/// Runs a script and returns its output.
fn run_script(name: &str, kubeconfig: &Path) -> String {
    let assets = std::env::var(real::ASSETS).expect("KUBEBUILDER_ASSETS is set");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .arg(format!("{SCRIPTS}/{name}.sh"))
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", format!("{assets}:{path}"))
        .stdin(Stdio::null())
        .output()
        .expect("bash can be started");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
