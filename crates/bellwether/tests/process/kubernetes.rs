//! A cluster of real Kubernetes, as a person with kubectl meets it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use bellwether_testkit::{eventually, real};
use serde_json::{Value, json};

use crate::server::{bellwether, run};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A cluster that has our definitions, met as its administrator.
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
        let assets = std::env::var(real::ASSETS).expect("kubectl is among the assets");
        let mut kubectl = Command::new(Path::new(&assets).join("kubectl"));
        let ended = run(kubectl.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig).current_dir(ROOT));
        if ended.code == Some(0) { Ok(ended.stdout) } else { Err(ended.stdout + &ended.stderr) }
    }

    /// What a person types.
    pub(crate) fn kubectl(&self, line: &str) -> String {
        self.try_kubectl(line.split(' ')).unwrap_or_else(|words| panic!("kubectl {line}: {words}"))
    }

    pub(crate) fn apply(&self, object: &Value) {
        let path = self.dir.path().join("object.json");
        std::fs::write(&path, object.to_string()).unwrap();
        self.kubectl(&format!("apply -f {}", path.display()));
    }

    /// Looks at an object until a member of it has a value.
    pub(crate) async fn until(&self, object: &str, member: &str, wanted: &str) {
        let line = format!("get {object} -o jsonpath={{{member}}}");
        eventually(&format!("{object} has {wanted} at {member}"), || async {
            (self.try_kubectl(line.split(' ')).is_ok_and(|found| found == wanted)).then_some(())
        })
        .await;
    }

    /// Looks until an object is gone.
    pub(crate) async fn until_gone(&self, object: &str) {
        let line = format!("get {object}");
        eventually(&format!("{object} is gone"), || async {
            self.try_kubectl(line.split(' ')).is_err_and(|words| words.contains("not found")).then_some(())
        })
        .await;
    }

    /// A kubeconfig of a ServiceAccount, in its namespace, by a token that the API server makes.
    pub(crate) fn kubeconfig_of(&self, account: &str, namespace: &str) -> PathBuf {
        let token = self.kubectl(&format!("create token {account} -n {namespace}"));
        let mut config: Value = serde_json::from_slice(&std::fs::read(&self.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({"token": token.trim_end()});
        config["contexts"][0]["context"]["namespace"] = json!(namespace);
        let path = self.dir.path().join(format!("{account}.kubeconfig"));
        std::fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// Whether a ServiceAccount may do something.
    pub(crate) fn may(&self, account: &str, namespace: &str, what: &str) -> bool {
        let line = format!("auth can-i {what} --as=system:serviceaccount:{namespace}:{account}");
        let answer = self.try_kubectl(line.split(' ')).unwrap_or_else(|words| words);
        answer.lines().any(|line| line == "yes")
    }
}
