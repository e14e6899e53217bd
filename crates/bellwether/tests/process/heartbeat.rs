//! `bellwether heartbeat`: what it sends, what it says, how it ends, and what a watch of it sees.

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

use crate::server::{Ended, PATIENCE, Server, bellwether, run, up};

const NAMESPACE: &str = "reference-addon";
pub(crate) const UP: &str = "Healthy=True:ComponentsUp:All is well: see the log.";
const DOWN: &str = "Healthy=False:ComponentDown:Component X is down!";

pub(crate) struct Place {
    _parent: tempfile::TempDir,
    server: Server,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) instances: Api<DynamicObject>,
}

impl Place {
    /// A server with a namespace that has no instance yet.
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
        let place = Self::new().await;
        place.install("addon-instance", period).await;
        place
    }

    pub(crate) async fn install(&self, name: &str, period: &str) {
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

    /// The Addons of a cluster.
    pub(crate) async fn addons(&self, context: &str) -> Api<DynamicObject> {
        Api::all_with(self.server.client(context).await, &resource::<Addon>())
    }

    pub(crate) fn send(&self, more: &[&str]) -> Ended {
        run(self.command(&["send", "--namespace", NAMESPACE]).args(more))
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

/// A command that goes on, and its lines as they come.
pub(crate) struct Running {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = lines(child.stderr.take().unwrap());
        Self { child, stdout, stderr }
    }

    /// The next line, without the time that it begins with.
    pub(crate) fn line(&self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE).unwrap();
        line.split_once(' ').unwrap().1.to_owned()
    }

    /// Asks it to stop, and returns its code and what it still said.
    pub(crate) fn stop(mut self, signal: Signal) -> (Option<i32>, Vec<String>) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        let code = self.child.wait().unwrap().code();
        (code, self.stdout.iter().collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

#[tokio::test]
async fn a_beat_is_sent_and_told() {
    let place = Place::with_instance("10s").await;
    let sent = place.send(&["--condition", DOWN]);
    assert_eq!((sent.code, sent.stderr.as_str()), (Some(0), ""));
    let (time, words) = sent.stdout.trim_end().split_once(' ').unwrap();
    assert_eq!(time.len(), "14:03:22".len());
    assert_eq!(words, "sent reference-addon/addon-instance with Healthy=False (ComponentDown)");
    let status = place.status().await;
    assert!(status["lastHeartbeatTime"].is_string());
    assert_eq!(
        (&healthy(&status)["status"], &healthy(&status)["message"]),
        (&json!("False"), &json!("Component X is down!"))
    );

    let sent = place.send(&["-o", "json", "--condition", UP]);
    let line: Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(line["sent"], "reference-addon/addon-instance");
    assert_eq!(line["conditions"], json!(["addons.managed.openshift.io/Healthy"]));
    assert_eq!(healthy(&place.status().await)["message"], "All is well: see the log.");
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said() {
    let place = Place::new().await;
    let missing = place.send(&[]);
    assert_eq!((missing.code, missing.stdout.as_str()), (Some(1), ""));
    for words in
        ["there is no AddonInstance reference-addon/addon-instance", "is the Addon installed", "https://"]
    {
        assert!(missing.stderr.contains(words), "{}", missing.stderr);
    }
    assert_eq!(missing.stderr.lines().count(), 1, "{}", missing.stderr);

    let rows: [(&[&str], &str); 3] = [
        (&["--condition", "Healthy=Maybe:R:m"], "\"Maybe\" is not a status"),
        (&["--condition", "Healthy"], "TYPE=STATUS:REASON:MESSAGE"),
        (&["--every", "500ms"], "at least 1s"),
    ];
    for (arguments, words) in rows {
        let refused = place.send(arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[tokio::test]
async fn with_every_it_beats_at_the_instances_period_until_a_signal_and_says_a_last_word() {
    let place = Place::with_instance("1s").await;
    for signal in [Signal::TERM, Signal::INT] {
        let sending = place.command(&["send", "-n", NAMESPACE, "--condition", UP, "--every"]);
        let sending = Running::start(&mut { sending });
        for _ in 0..3 {
            let line = sending.line();
            let wanted = "sent reference-addon/addon-instance with Healthy=True (ComponentsUp), next in ";
            let seconds = line.strip_prefix(wanted).and_then(|rest| rest.strip_suffix(" s")).unwrap();
            assert!((0.0..=1.0).contains(&seconds.parse::<f64>().unwrap()), "{line}");
        }
        let (code, last) = sending.stop(signal);
        assert_eq!(code, Some(0));
        assert!(last.last().unwrap().ends_with(", stopped"), "{last:?}");
    }
}

#[tokio::test]
async fn the_last_word_repeats_the_conditions() {
    let place = Place::with_instance("1h").await;
    let sending =
        Running::start(&mut place.command(&["send", "-n", NAMESPACE, "--condition", UP, "--every", "10m"]));
    assert!(sending.line().contains("next in "));
    let lost = Patch::Merge(json!({"status": {"conditions": null, "lastHeartbeatTime": null}}));
    place.instances.patch_status("addon-instance", &PatchParams::default(), &lost).await.unwrap();
    assert_eq!(sending.stop(Signal::TERM).0, Some(0));
    let status = place.status().await;
    assert!(status["lastHeartbeatTime"].is_string(), "{status}");
    assert_eq!(healthy(&status)["reason"], "ComponentsUp");
}

#[tokio::test]
async fn with_every_it_goes_on_until_the_instance_is_there() {
    let place = Place::new().await;
    let sending = Running::start(&mut place.command(&["send", "-n", NAMESPACE, "--every"]));
    let complaint = sending.stderr.recv_timeout(PATIENCE).unwrap();
    assert!(
        complaint.contains("is the Addon installed") && complaint.contains("; trying again in "),
        "{complaint}"
    );
    place.install("addon-instance", "10s").await;
    assert!(sending.line().starts_with("sent reference-addon/addon-instance, next in "));
}

#[tokio::test]
async fn the_table_is_printed_once() {
    let place = Place::with_instance("0s").await;
    let empty = run(&mut place.command(&["watch", "--once", "-n", "default"]));
    assert_eq!(
        (empty.code, empty.stdout.as_str()),
        (Some(0), "There are no AddonInstances.\n"),
        "{}",
        empty.stderr
    );

    place.send(&["--condition", DOWN]);
    let table = run(&mut place.command(&["watch", "--once"]));
    assert_eq!((table.code, table.stderr.as_str()), (Some(0), ""));
    let lines: Vec<&str> = table.stdout.lines().collect();
    assert!(lines[0].starts_with("NAMESPACE"), "{}", table.stdout);
    for words in [NAMESPACE, "addon-instance", "10s (not \"0s\")", "Down", "ComponentDown"] {
        assert!(lines[1].contains(words), "{}", table.stdout);
    }
    let json = run(&mut place.command(&["watch", "--once", "-o", "json"]));
    let rows: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&rows[0]["state"], &rows[0]["message"]), (&json!("Down"), &json!("Component X is down!")));
    assert_eq!(rows[0]["periodSeconds"], 10.0);
}

#[tokio::test]
async fn a_watch_tells_what_changes() {
    let place = Place::with_instance("10s").await;
    let watching = Running::start(&mut place.command(&["watch"]));
    assert_eq!(watching.line(), "reference-addon/addon-instance Never");
    place.send(&["--condition", UP]);
    assert_eq!(watching.line(), "reference-addon/addon-instance Never → Alive (ComponentsUp)");
    place.send(&["--condition", DOWN]);
    assert_eq!(watching.line(), "reference-addon/addon-instance Alive (ComponentsUp) → Down (ComponentDown)");
    place.instances.delete("addon-instance", &DeleteParams::default()).await.unwrap();
    assert_eq!(watching.line(), "reference-addon/addon-instance gone");
    assert_eq!(watching.stop(Signal::INT).0, Some(0));
}

#[tokio::test]
async fn a_watch_outlives_the_server() {
    let mut place = Place::with_instance("10s").await;
    let watching = Running::start(&mut place.command(&["watch", "-o", "json"]));
    let first: Value = serde_json::from_str(&watching.stdout.recv_timeout(PATIENCE).unwrap()).unwrap();
    assert_eq!(first["state"], "Never");
    place.server.kill();
    let complaint = eventually("a complaint", || async { watching.stderr.try_recv().ok() }).await;
    assert!(
        complaint.contains("cannot watch AddonInstances") && complaint.contains("trying again"),
        "{complaint}"
    );
    assert_eq!(watching.stop(Signal::TERM).0, Some(0));
}
