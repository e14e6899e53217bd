//! `bellwether run agent` as a process: start, stop, and restart after a crash. Permissions and leader election need real
//! Kubernetes: see `agent_rbac`.

use std::path::Path;

use bellwether_api::addons_managed::Addon;
use bellwether_testkit::eventually;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use crate::heartbeat::{HeartbeatFixture, UP, healthy, resource};
use crate::server::{Server, bellwether, get, metric, run, up};

/// A running agent. On drop it is killed, as in a crash.
pub(crate) struct Agent {
    pub(crate) process: Server,
    http: String,
}

impl Agent {
    /// Starts an agent, and waits until it prints that it is up. Its log is `dir` with the extension `log`.
    pub(crate) fn start(dir: &Path, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut command = bellwether(["run", "agent", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(kubeconfig).args(arguments).env("RUST_LOG", "info,bellwether_heartbeat=debug");
        let process = Server::launch(dir, &mut command);
        let http = process.role_address("agent");
        Self { process, http }
    }

    /// Whether `/readyz` returns 200.
    pub(crate) fn is_ready(&self) -> bool {
        get(&self.http, "/readyz").0 == 200
    }

    /// The value of a metric, by its name with labels.
    pub(crate) fn metric(&self, name: &str) -> Option<String> {
        metric(&self.http, name)
    }
}

const NO_ELECTION: &str = "--leader-election=false";
const SILENT: &str = r#"bellwether_heartbeat_instances{cluster="local",state="silent"}"#;

/// Starts a server without the controllers that the agent runs.
async fn start_fixture() -> HeartbeatFixture {
    HeartbeatFixture::with_arguments(&["--spokes", "1", "--controllers=-addon-controller,-heartbeat-checker"])
        .await
}

#[tokio::test]
async fn agent_killed_after_a_timeout_writes_nothing_after_its_restart() {
    let (fixture, dir) = (start_fixture().await, tempfile::tempdir().unwrap());
    fixture.create_instance("addon-instance", "1s").await;
    let log = dir.path().join("agent");
    let mut agent = Agent::start(&log, &fixture.kubeconfig, &[NO_ELECTION]);
    assert_eq!(fixture.send(&["--condition", UP]).code, Some(0));
    let silent = wait_for_timeout(&fixture, "addon-instance").await;
    agent.process.kill();

    let agent = Agent::start(&log, &fixture.kubeconfig, &[NO_ELECTION]);
    // After it has reported the timeout of a new instance, it has checked all.
    fixture.create_instance("other", "1s").await;
    let long_ago = Patch::Merge(json!({"status": {"lastHeartbeatTime": "2024-05-01T10:00:00Z"}}));
    fixture.instances.patch_status("other", &PatchParams::default(), &long_ago).await.unwrap();
    wait_for_timeout(&fixture, "other").await;
    assert_eq!(fixture.instances.get("addon-instance").await.unwrap(), silent);
    assert_eq!(agent.metric(SILENT).as_deref(), Some("2"));
    assert!(!agent.process.log().contains("WARN"), "{}", agent.process.log());
}

async fn wait_for_timeout(fixture: &HeartbeatFixture, name: &str) -> DynamicObject {
    eventually(name, || async {
        let instance = fixture.instances.get(name).await.unwrap();
        (healthy(&instance.data["status"])["reason"] == "HeartbeatTimeout").then_some(instance)
    })
    .await
}

#[tokio::test]
async fn signal_stops_the_agent_cleanly() {
    let (fixture, dir) = (start_fixture().await, tempfile::tempdir().unwrap());
    for signal in [Signal::TERM, Signal::INT] {
        let mut agent = Agent::start(&dir.path().join("agent"), &fixture.kubeconfig, &[NO_ELECTION]);
        let status = agent.process.signal(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", agent.process.log());
    }
}

#[tokio::test]
async fn agent_makes_an_addon_ready_only_on_its_cluster() {
    let (fixture, dir) = (start_fixture().await, tempfile::tempdir().unwrap());
    let _agent =
        Agent::start(&dir.path().join("agent"), &fixture.kubeconfig, &[NO_ELECTION, "--context", "spoke-1"]);
    for (context, wanted) in [("hub", "Pending"), ("spoke-1", "Ready")] {
        let addons = fixture.addons(context).await;
        let data = json!({"spec": {
            "displayName": "A", "namespaces": [{"name": "a"}],
            "install": {"type": "External", "external": {"namespace": "a"}},
        }});
        let addon = DynamicObject { data, ..DynamicObject::new("a", &resource::<Addon>()) };
        addons.create(&PostParams::default(), &addon).await.unwrap();
        eventually(context, || async {
            (addons.get("a").await.unwrap().data["status"]["phase"] == wanted).then_some(())
        })
        .await;
    }
}

#[test]
fn cluster_without_crds_is_an_error() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut apiserver = bellwether(["run", "apiserver", "--listen", "127.0.0.1:0", "--data-dir"]);
    let _server = Server::start(&dir, apiserver.arg(&dir));
    let ended =
        run(bellwether(["run", "agent", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(dir.join("kubeconfig")));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for expected in
        ["does not serve addoninstances.addons.managed.openshift.io", "`bellwether crds --install`"]
    {
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn unreachable_cluster_is_an_error_that_names_it() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut server = Server::start(&dir, up(&dir).args(["--spokes", "0"]));
    let address = server.address("kubernetes");
    server.kill();
    let ended =
        run(bellwether(["run", "agent", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(dir.join("kubeconfig")));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(
        ended.stderr.contains(&address) && ended.stderr.contains("is the cluster running?"),
        "{}",
        ended.stderr
    );
}
