//! Sessions at kubectl, once on this server and once on real Kubernetes: what a person sees must be the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use bellwether_testkit::real;

use crate::masks::masked;
use crate::server::{Server, up};

const SESSIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kubectl");

#[test]
fn objects_look_the_same_to_kubectl_on_both_servers() {
    compare("objects");
}

#[test]
fn what_kubectl_makes_itself_looks_the_same_on_both_servers() {
    compare("create");
}

#[test]
fn workloads_look_the_same_to_kubectl_on_both_servers() {
    compare("workloads");
}

#[test]
fn custom_kinds_look_the_same_to_kubectl_on_both_servers() {
    compare("custom");
}

#[test]
fn access_and_apply_look_the_same_to_kubectl_on_both_servers() {
    compare("access");
}

#[test]
fn applies_look_the_same_to_kubectl_on_both_servers() {
    compare("apply");
}

fn compare(name: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    // The other side has nobody who would make workloads ready.
    let _server = Server::start(&data, up(&data).arg("--no-demo"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let kubernetes = dir.path().join("kubernetes.kubeconfig");
    // A copy, because sessions change their namespace.
    std::fs::copy(runtime.block_on(real::kubeconfig("kubectl")), &kubernetes).unwrap();

    let (theirs, ours) = thread::scope(|scope| {
        let theirs = scope.spawn(|| session(name, &kubernetes));
        let ours = session(name, &data.join("kubeconfig"));
        (theirs.join().unwrap(), ours)
    });

    assert!(theirs.ends_with("--- end\n"), "the session came to its end:\n{theirs}");
    let (ours, theirs) = (masked(&ours), masked(&theirs));
    if ours != theirs {
        let write = |name: &str, text: &str| -> PathBuf {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let diff = Command::new("diff")
            .args(["-u"])
            .args([write("kubernetes", &theirs), write("bellwether", &ours)])
            .output()
            .unwrap();
        panic!("the sessions differ:\n{}", String::from_utf8_lossy(&diff.stdout));
    }
}

/// Runs a session and returns all it printed.
fn session(name: &str, kubeconfig: &Path) -> String {
    let assets = std::env::var(real::ASSETS).expect("kubectl is among the assets");
    let path = std::env::var("PATH").unwrap_or_default();
    let output = Command::new("bash")
        .arg(format!("{SESSIONS}/{name}.sh"))
        .env("KUBECONFIG", kubeconfig)
        .env("PATH", format!("{assets}:{path}"))
        .stdin(Stdio::null())
        .output()
        .expect("the session can be run");
    String::from_utf8_lossy(&output.stdout).into_owned()
}
