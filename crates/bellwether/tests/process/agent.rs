//! `bellwether run agent` as a process: how it starts, how it ends, and what it does after a crash. What it may do, and
//! how copies of it agree, needs real Kubernetes: see `agent_rights`.

use std::path::Path;

use bellwether_api::addons_managed::Addon;
use bellwether_testkit::eventually;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::json;

use crate::heartbeat::{HeartbeatFixture, UP, healthy, resource};
use crate::server::{Server, bellwether, get, run, up};

/// A running agent. It is killed when dropped, as by a crash.
pub(crate) struct Agent {
    pub(crate) process: Server,
    http: String,
}

impl Agent {
    /// Starts an agent, and waits until it says that it is up. Its log is beside `dir`.
    pub(crate) fn start(dir: &Path, kubeconfig: &Path, arguments: &[&str]) -> Self {
        let mut command = bellwether(["run", "agent", "--listen", "127.0.0.1:0", "--kubeconfig"]);
        command.arg(kubeconfig).args(arguments).env("RUST_LOG", "info,bellwether_heartbeat=debug");
        let process = Server::launch(dir, &mut command);
        let line = process.line();
        let (_, rest) = line.split_once("http://").expect("the agent says where it can be asked");
        let http = rest.split_once(' ').unwrap().0.to_owned();
        Self { process, http }
    }

    /// Whether `/readyz` says so.
    pub(crate) fn is_ready(&self) -> bool {
        get(&self.http, "/readyz").0 == 200
    }

    /// The value of a metric that is written so, with its labels.
    pub(crate) fn metric(&self, name: &str) -> Option<String> {
        let (_, metrics) = get(&self.http, "/metrics");
        metrics.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    }
}

const ALONE: &str = "--leader-election=false";
const SILENT: &str = r#"bellwether_heartbeat_instances{cluster="local",state="silent"}"#;

/// A server that leaves the controllers to the agent.
async fn place() -> HeartbeatFixture {
    HeartbeatFixture::with_arguments(&["--spokes", "1", "--controllers=-addon-controller,-heartbeat-checker"])
        .await
}

#[tokio::test]
async fn one_that_is_killed_during_a_timeout_writes_nothing_more_when_it_is_back() {
    let (place, dir) = (place().await, tempfile::tempdir().unwrap());
    place.create_instance("addon-instance", "1s").await;
    let log = dir.path().join("agent");
    let mut agent = Agent::start(&log, &place.kubeconfig, &[ALONE]);
    assert_eq!(place.send(&["--condition", UP]).code, Some(0));
    let silent = timed_out(&place, "addon-instance").await;
    agent.process.kill();

    let agent = Agent::start(&log, &place.kubeconfig, &[ALONE]);
    // Once it has judged a newcomer, it has judged all.
    place.create_instance("other", "1s").await;
    let long_ago = Patch::Merge(json!({"status": {"lastHeartbeatTime": "2024-05-01T10:00:00Z"}}));
    place.instances.patch_status("other", &PatchParams::default(), &long_ago).await.unwrap();
    timed_out(&place, "other").await;
    assert_eq!(place.instances.get("addon-instance").await.unwrap(), silent);
    assert_eq!(agent.metric(SILENT).as_deref(), Some("2"));
    assert!(!agent.process.log().contains("WARN"), "{}", agent.process.log());
}

async fn timed_out(place: &HeartbeatFixture, name: &str) -> DynamicObject {
    eventually(name, || async {
        let instance = place.instances.get(name).await.unwrap();
        (healthy(&instance.data["status"])["reason"] == "HeartbeatTimeout").then_some(instance)
    })
    .await
}

#[tokio::test]
async fn it_ends_cleanly_when_asked_to() {
    let (place, dir) = (place().await, tempfile::tempdir().unwrap());
    for signal in [Signal::TERM, Signal::INT] {
        let mut agent = Agent::start(&dir.path().join("agent"), &place.kubeconfig, &[ALONE]);
        let status = agent.process.signal(signal);
        assert_eq!(status.code(), Some(0), "{signal:?}: {}", agent.process.log());
    }
}

#[tokio::test]
async fn it_makes_an_addon_ready_on_one_cluster_of_many() {
    let (place, dir) = (place().await, tempfile::tempdir().unwrap());
    let _agent = Agent::start(&dir.path().join("agent"), &place.kubeconfig, &[ALONE, "--context", "spoke-1"]);
    for (context, wanted) in [("hub", "Pending"), ("spoke-1", "Ready")] {
        let addons = place.addons(context).await;
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
fn a_cluster_without_our_definitions_is_told_apart_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let mut apiserver = bellwether(["run", "apiserver", "--listen", "127.0.0.1:0", "--data-dir"]);
    let _server = Server::start(&dir, apiserver.arg(&dir));
    let ended =
        run(bellwether(["run", "agent", "--listen", "127.0.0.1:0", "--kubeconfig"])
            .arg(dir.join("kubeconfig")));
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    for words in ["does not serve addoninstances.addons.managed.openshift.io", "`bellwether crds --install`"]
    {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

#[test]
fn a_cluster_that_is_not_there_is_named_at_once() {
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
