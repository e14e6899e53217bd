//! `bellwether heartbeat send` and `watch`: requests, output, exit codes and signals.

use std::io::{BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use bellwether_api::addons_managed::{Addon, AddonInstance};
use bellwether_testkit::eventually;
use kube::Resource;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::server::{Ended, Server, WAIT_TIMEOUT, bellwether, run, up};

const NAMESPACE: &str = "reference-addon";
pub(crate) const UP: &str = "Healthy=True:ComponentsUp:All components are up: see the log.";
const DOWN: &str = "Healthy=False:ComponentDown:Component X is down!";

pub(crate) struct HeartbeatFixture {
    _parent: tempfile::TempDir,
    server: Server,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) instances: Api<DynamicObject>,
}

impl HeartbeatFixture {
    /// Starts a server with a namespace without an AddonInstance.
    async fn new() -> Self {
        Self::with_arguments(&["--spokes", "0"]).await
    }

    pub(crate) async fn with_arguments(arguments: &[&str]) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let server = Server::start(&dir, up(&dir).args(arguments));
        let client = server.client("hub").await;
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let instances = Api::namespaced_with(client, NAMESPACE, &resource::<AddonInstance>());
        Self { _parent: parent, server, kubeconfig: dir.join("kubeconfig"), instances }
    }

    async fn with_instance(period: &str) -> Self {
        let fixture = Self::new().await;
        fixture.create_instance("addon-instance", period).await;
        fixture
    }

    pub(crate) async fn create_instance(&self, name: &str, period: &str) {
        let data = json!({"spec": {"heartbeatUpdatePeriod": period}});
        let object = DynamicObject { data, ..DynamicObject::new(name, &resource::<AddonInstance>()) };
        self.instances.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn status(&self) -> Value {
        self.instances.get("addon-instance").await.unwrap().data["status"].take()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bellwether(["heartbeat"]);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// The API of Addons of a cluster.
    pub(crate) async fn addons(&self, context: &str) -> Api<DynamicObject> {
        Api::all_with(self.server.client(context).await, &resource::<Addon>())
    }

    pub(crate) fn send(&self, arguments: &[&str]) -> Ended {
        run(self.command(&["send", "--namespace", NAMESPACE]).args(arguments))
    }
}

pub(crate) fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

pub(crate) fn healthy(status: &Value) -> Value {
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let of_type = |condition: &Value| condition["type"] == "addons.managed.openshift.io/Healthy";
    conditions.into_iter().find(of_type).unwrap_or_default()
}

/// A command that is running, and the lines of its output.
pub(crate) struct Running {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = read_lines(child.stdout.take().unwrap());
        let stderr = read_lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// Waits for the next line of stdout, and returns it without its time.
    pub(crate) fn line(&self) -> String {
        let line = self.stdout.recv_timeout(WAIT_TIMEOUT).unwrap();
        line.split_once(' ').unwrap().1.to_owned()
    }

    /// Sends a signal, and returns the exit code and the remaining lines of stdout.
    pub(crate) fn stop(mut self, signal: Signal) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.stdout.iter().collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

#[tokio::test]
async fn send_writes_a_heartbeat_and_prints_it() {
    let fixture = HeartbeatFixture::with_instance("10s").await;
    let sent = fixture.send(&["--condition", DOWN]);
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""));
    let (time, text) = sent.stdout.trim_end().split_once(' ').unwrap();
    assert_eq!(time.len(), "14:03:22".len());
    assert_eq!(text, "sent reference-addon/addon-instance with Healthy=False (ComponentDown)");
    let status = fixture.status().await;
    assert!(status["lastHeartbeatTime"].is_string());
    assert_eq!(
        (&healthy(&status)["status"], &healthy(&status)["message"]),
        (&json!("False"), &json!("Component X is down!"))
    );

    let sent = fixture.send(&["-o", "json", "--condition", UP]);
    let line: Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(line["sent"], "reference-addon/addon-instance");
    assert_eq!(line["conditions"], json!(["addons.managed.openshift.io/Healthy"]));
    assert_eq!(healthy(&fixture.status().await)["message"], "All components are up: see the log.");
}

#[tokio::test]
async fn errors_have_a_cause_and_an_exit_code() {
    let fixture = HeartbeatFixture::new().await;
    let missing = fixture.send(&[]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""));
    for expected in [
        "AddonInstance reference-addon/addon-instance does not exist",
        "check that the Addon is installed",
        "https://",
    ] {
        assert!(missing.stderr.contains(expected), "{}", missing.stderr);
    }
    assert_eq!(missing.stderr.lines().count(), 1, "{}", missing.stderr);

    let rows: [(&[&str], &str); 3] = [
        (&["--condition", "Healthy=Maybe:R:m"], "\"Maybe\" is not a status"),
        (&["--condition", "Healthy"], "TYPE=STATUS:REASON:MESSAGE"),
        (&["--every", "500ms"], "at least 1s"),
    ];
    for (arguments, expected) in rows {
        let rejected = fixture.send(arguments);
        assert_eq!(rejected.code, Some(2), "{}", rejected.stderr);
        assert!(rejected.stderr.contains(expected), "{}", rejected.stderr);
    }
}

#[tokio::test]
async fn send_every_uses_the_period_of_the_instance_until_a_signal() {
    let fixture = HeartbeatFixture::with_instance("1s").await;
    for signal in [Signal::TERM, Signal::INT] {
        let sending = fixture.command(&["send", "-n", NAMESPACE, "--condition", UP, "--every"]);
        let sending = Running::start(&mut { sending });
        for _ in 0..3 {
            let line = sending.line();
            let expected = "sent reference-addon/addon-instance with Healthy=True (ComponentsUp), next in ";
            let seconds = line.strip_prefix(expected).and_then(|rest| rest.strip_suffix(" s")).unwrap();
            assert!((0.0..=1.0).contains(&seconds.parse::<f64>().unwrap()), "{line}");
        }
        let (code, last) = sending.stop(signal);
        assert_eq!(code, Some(0));
        assert!(last.last().unwrap().ends_with(", stopped"), "{last:?}");
    }
}

#[tokio::test]
async fn last_heartbeat_repeats_the_conditions() {
    let fixture = HeartbeatFixture::with_instance("1h").await;
    let sending =
        Running::start(&mut fixture.command(&["send", "-n", NAMESPACE, "--condition", UP, "--every", "10m"]));
    assert!(sending.line().contains("next in "));
    let removal = Patch::Merge(json!({"status": {"conditions": null, "lastHeartbeatTime": null}}));
    fixture.instances.patch_status("addon-instance", &PatchParams::default(), &removal).await.unwrap();
    assert_eq!(sending.stop(Signal::TERM).0, Some(0));
    let status = fixture.status().await;
    assert!(status["lastHeartbeatTime"].is_string(), "{status}");
    assert_eq!(healthy(&status)["reason"], "ComponentsUp");
}

#[tokio::test]
async fn send_every_retries_until_the_instance_exists() {
    let fixture = HeartbeatFixture::new().await;
    let sending = Running::start(&mut fixture.command(&["send", "-n", NAMESPACE, "--every"]));
    let error = sending.stderr.recv_timeout(WAIT_TIMEOUT).unwrap();
    assert!(
        error.contains("check that the Addon is installed") && error.contains("; trying again in "),
        "{error}"
    );
    fixture.create_instance("addon-instance", "10s").await;
    assert!(sending.line().starts_with("sent reference-addon/addon-instance, next in "));
}

#[tokio::test]
async fn watch_once_prints_the_table() {
    let fixture = HeartbeatFixture::with_instance("0s").await;
    let empty = run(&mut fixture.command(&["watch", "--once", "-n", "default"]));
    assert_eq!(
        (empty.code, empty.stdout.as_str()),
        (Some(0), "There are no AddonInstances.\n"),
        "{}",
        empty.stderr
    );

    fixture.send(&["--condition", DOWN]);
    let table = run(&mut fixture.command(&["watch", "--once"]));
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE"), "{}", table.stdout);
    for expected in [NAMESPACE, "addon-instance", "10s (not \"0s\")", "Down", "ComponentDown"] {
        assert!(lines[1].contains(expected), "{}", table.stdout);
    }
    let json = run(&mut fixture.command(&["watch", "--once", "-o", "json"]));
    let rows: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&rows[0]["state"], &rows[0]["message"]), (&json!("Down"), &json!("Component X is down!")));
    assert_eq!(rows[0]["periodSeconds"], 10.0);
}

#[tokio::test]
async fn watch_prints_changes_of_state() {
    let fixture = HeartbeatFixture::with_instance("10s").await;
    let watching = Running::start(&mut fixture.command(&["watch"]));
    assert_eq!(watching.line(), "reference-addon/addon-instance Never");
    fixture.send(&["--condition", UP]);
    assert_eq!(watching.line(), "reference-addon/addon-instance Never → Alive (ComponentsUp)");
    fixture.send(&["--condition", DOWN]);
    assert_eq!(watching.line(), "reference-addon/addon-instance Alive (ComponentsUp) → Down (ComponentDown)");
    fixture.instances.delete("addon-instance", &DeleteParams::default()).await.unwrap();
    assert_eq!(watching.line(), "reference-addon/addon-instance gone");
    assert_eq!(watching.stop(Signal::INT).0, Some(0));
}

#[tokio::test]
async fn watch_survives_an_outage_of_the_server() {
    let mut fixture = HeartbeatFixture::with_instance("10s").await;
    let watching = Running::start(&mut fixture.command(&["watch", "-o", "json"]));
    let first: Value = serde_json::from_str(&watching.stdout.recv_timeout(WAIT_TIMEOUT).unwrap()).unwrap();
    assert_eq!(first["state"], "Never");
    fixture.server.kill();
    let error = eventually("an error", || async { watching.stderr.try_recv().ok() }).await;
    assert!(error.contains("cannot watch AddonInstances") && error.contains("trying again"), "{error}");
    assert_eq!(watching.stop(Signal::TERM).0, Some(0));
}
