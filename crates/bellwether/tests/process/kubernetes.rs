//! A cluster of real Kubernetes with our CRDs, used with kubectl.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use bellwether_testkit::{eventually, real};
use serde_json::{Value, json};

use crate::server::{bellwether, run};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A cluster with our CRDs, and the kubeconfig of its administrator.
pub(crate) struct Kubernetes {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) kubeconfig: PathBuf,
}

impl Kubernetes {
    pub(crate) async fn new(name: &str) -> Self {
        let kubeconfig = real::kubeconfig(name).await;
        let installed = run(bellwether(["crds", "--install", "--kubeconfig"]).arg(&kubeconfig));
        assert_eq!(installed.code, Some(0), "{}", installed.stderr);
        Self { dir: tempfile::tempdir().unwrap(), kubeconfig }
    }

    pub(crate) fn try_kubectl<A: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<String, String> {
        let assets = std::env::var(real::ASSETS).expect("KUBEBUILDER_ASSETS is set");
        let mut kubectl = Command::new(Path::new(&assets).join("kubectl"));
        let ended = run(kubectl.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig).current_dir(ROOT));
        if ended.code == Some(0) { Ok(ended.stdout) } else { Err(ended.stdout + &ended.stderr) }
    }

    /// Runs kubectl with the arguments of a line.
    pub(crate) fn kubectl(&self, line: &str) -> String {
        self.try_kubectl(line.split(' ')).unwrap_or_else(|output| panic!("kubectl {line}: {output}"))
    }

    pub(crate) fn apply(&self, object: &Value) {
        let path = self.dir.path().join("object.json");
        std::fs::write(&path, object.to_string()).unwrap();
        self.kubectl(&format!("apply -f {}", path.display()));
    }

    /// Waits until a JSONPath of an object has a value.
    pub(crate) async fn wait_for(&self, object: &str, path: &str, expected: &str) {
        let line = format!("get {object} -o jsonpath={{{path}}}");
        eventually(&format!("{path} of {object} is {expected}"), || async {
            (self.try_kubectl(line.split(' ')).is_ok_and(|found| found == expected)).then_some(())
        })
        .await;
    }

    /// Waits until an object does not exist any more.
    pub(crate) async fn wait_for_deletion(&self, object: &str) {
        let line = format!("get {object}");
        eventually(&format!("{object} is deleted"), || async {
            self.try_kubectl(line.split(' ')).is_err_and(|output| output.contains("not found")).then_some(())
        })
        .await;
    }

    /// Writes a kubeconfig of a ServiceAccount, with its namespace and a token from the API server.
    pub(crate) fn kubeconfig_of(&self, account: &str, namespace: &str) -> PathBuf {
        let token = self.kubectl(&format!("create token {account} -n {namespace}"));
        let mut config: Value = serde_json::from_slice(&std::fs::read(&self.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim_end()});
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        let path = self.dir.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Whether a ServiceAccount has a permission, such as `get secrets -n default`.
    pub(crate) fn can(&self, account: &str, namespace: &str, permission: &str) -> bool {
        let line = format!("auth can-i {permission} --as=system:serviceaccount:{namespace}:{account}");
        let output = self.try_kubectl(line.split(' ')).unwrap_or_else(|output| output);
        output.lines().any(|line| line == "yes")
    }
}
