//! `bellwether addon` with the add-on of the demo: output, changes, rejected changes, exit codes.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use bellwether_api::addon::{AddOnTemplate, ClusterManagementAddOn, InstallProgression, ManagedClusterAddOn};
use bellwether_api::cluster::ManagedCluster;
use bellwether_testkit::eventually;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::heartbeat::Running;
use crate::server::{Ended, Server, WAIT_TIMEOUT, bellwether, run, up};

const HELLO: &str = "helloworld";
/// How often agents renew their Lease; a cluster is unreachable after five times this duration.
const LEASE_SECONDS: i32 = 2;
/// The RoleBinding that lets the agent of a spoke renew its Lease and write the status of ManifestWorks.
const AGENT_BINDING: &str = "bellwether:spoke-agent";
/// A version whose objects every cluster rejects.
const BROKEN_TEMPLATE: &str = include_str!("../../../../deploy/examples/helloworld-v3.yaml");

struct Fleet {
    parent: tempfile::TempDir,
    server: Server,
    kubeconfig: PathBuf,
}

impl Fleet {
    /// Three spokes with v1; the first is the canary.
    fn new() -> Self {
        Self::with_spokes(3)
    }

    fn with_spokes(spokes: usize) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let server = start_server(&dir, spokes);
        let fleet = Self { parent, server, kubeconfig: dir.join("kubeconfig") };
        fleet.wait_for_rollout();
        fleet
    }

    /// Restarts the server with the same data, and so the agents of all spokes.
    fn restart(&mut self, spokes: usize) {
        self.server.terminate();
        self.server = start_server(&self.parent.path().join("data"), spokes);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bellwether(["addon"]);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// Runs a command that succeeds, and returns its output.
    fn run(&self, arguments: &[&str]) -> String {
        let Ended { code, stdout, stderr } = run(&mut self.command(arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {stdout}{stderr}");
        stdout
    }

    /// Runs a command that fails with an exit code, and returns its error message.
    fn run_failing(&self, arguments: &[&str], exit_code: i32) -> String {
        let Ended { code, stdout, stderr } = run(&mut self.command(arguments));
        assert_eq!(code, Some(exit_code), "{arguments:?}: {stdout}{stderr}");
        let last = stderr.lines().last().unwrap_or_default();
        last.strip_prefix("error: ").unwrap_or_else(|| panic!("{arguments:?}: {stderr}")).to_owned()
    }

    /// Waits until the rollouts are completed.
    fn wait_for_rollout(&self) {
        self.run(&["rollout", HELLO, "--watch", "--timeout", "25s"]);
    }

    /// The rows of `addon status` without ages, by cluster.
    fn status(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.run(&["status", HELLO]).lines().skip(1).map(without_age).collect();
        rows.sort();
        rows
    }

    async fn addons(&self) -> Api<ClusterManagementAddOn> {
        Api::all(self.server.client("hub").await)
    }

    /// The generation of the ClusterManagementAddOn.
    async fn generation(&self) -> i64 {
        self.addons().await.get(HELLO).await.unwrap().metadata.generation.unwrap()
    }

    /// Creates a version whose objects every cluster rejects.
    async fn create_broken_version(&self) {
        let templates: Api<AddOnTemplate> = Api::all(self.server.client("hub").await);
        let template: Value = parse_yaml(BROKEN_TEMPLATE);
        templates.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
        let addons = self.addons().await;
        eventually("the version is supported", async || {
            let status = addons.get(HELLO).await.unwrap().status.unwrap_or_default();
            status.supported_versions.contains(&"v3".to_owned()).then_some(())
        })
        .await;
    }

    /// Sets the version of a cluster as a user does with kubectl.
    async fn override_version(&self, cluster: &str, version: &str) {
        let addons: Api<ManagedClusterAddOn> = Api::namespaced(self.server.client("hub").await, cluster);
        let patch = Patch::Merge(json!({"spec": {"installVersion": version}}));
        let kubectl = PatchParams { field_manager: Some("kubectl-patch".into()), ..PatchParams::default() };
        addons.patch(HELLO, &kubectl, &patch).await.unwrap();
    }
}

fn start_server(dir: &Path, spokes: usize) -> Server {
    Server::start(dir, up(dir).args(["--spokes", &spokes.to_string(), "--simulate-delay", "100ms"]))
}

fn parse_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A row of the table with single spaces, and without the column SINCE.
fn without_age(row: &str) -> String {
    let words: Vec<&str> = row.split_whitespace().collect();
    let [before @ .., _] = &words[..6] else { panic!("{row}") };
    [before, &words[6..]].concat().join(" ")
}

#[tokio::test]
async fn status_and_rollout_print_every_format() {
    let fleet = Fleet::new();
    let table = fleet.run(&["status"]);
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["ADD-ON", "CLUSTER", "DESIRED", "CURRENT", "LAST", "STATE", "SINCE", "WHY"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    eventually("all add-ons are available", async || {
        let expected = ["spoke-1", "spoke-2", "spoke-3"].map(|spoke| format!("{spoke} v1 v1 - Succeed -"));
        (fleet.status() == expected).then_some(())
    })
    .await;
    let wide = fleet.run(&["status", HELLO, "-o", "wide"]);
    assert!(wide.contains("default/canary-placement") && wide.contains("True/ProbeAvailable"), "{wide}");
    let names = ["spoke-1", "spoke-2", "spoke-3"]
        .map(|spoke| format!("managedclusteraddon.addon.open-cluster-management.io/{HELLO} -n {spoke}\n"));
    assert_eq!(fleet.run(&["status", "-o", "name"]), names.concat());
    let list: Value = serde_json::from_str(&fleet.run(&["status", "-o", "json"])).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(
        (&items[0]["kind"], &items[0]["metadata"]["managedFields"]),
        (&json!("ManagedClusterAddOn"), &Value::Null)
    );
    assert_eq!(parse_yaml(&fleet.run(&["status", "-o", "yaml"])), list);

    let rollout = fleet.run(&["rollout", HELLO]);
    let rows: Vec<String> =
        rollout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "PLACEMENT GROUP VERSION TOTAL DONE IN PROGRESS WAITING FAILED TIMED OUT STATE",
            "default/global-placement 0 v1 2 2 0 0 0 0 Completed",
            "default/canary-placement 0 v1 1 1 0 0 0 0 Completed",
            "",
            "default/global-placement: spoke-1 is assigned to default/canary-placement",
        ]
    );
    let json: Value = serde_json::from_str(&fleet.run(&["rollout", HELLO, "-o", "json"])).unwrap();
    assert_eq!((&json["addon"], &json["placements"][0]["total"]["done"]), (&json!(HELLO), &json!(2)));
    assert_eq!(parse_yaml(&fleet.run(&["rollout", HELLO, "-o", "yaml"])), json);
    let name = "clustermanagementaddon.addon.open-cluster-management.io/helloworld\n";
    assert_eq!(fleet.run(&["rollout", HELLO, "-o", "name"]), name);
}

#[tokio::test]
async fn missing_and_forbidden_objects_are_reported() {
    let fleet = Fleet::new();
    for command in ["status", "rollout", "upgrade", "rollback", "pause", "resume"] {
        let message = fleet.run_failing(&[command, "nope"], 1);
        assert_eq!(message, "there is no add-on nope; there are: helloworld", "{command}");
    }
    let message = fleet.run_failing(&["status", "--context", "spoke-1"], 1);
    assert!(message.contains("does not serve them; `bellwether crds --install`"), "{message}");
    let agent = fleet.parent.path().join("data/agents/spoke-1.kubeconfig");
    let forbidden = run(bellwether(["addon", "status", "--kubeconfig"]).arg(agent));
    assert_eq!(forbidden.code, Some(1));
    assert!(
        forbidden.stderr.contains("cannot list") && forbidden.stderr.contains("forbidden"),
        "{}",
        forbidden.stderr
    );
    assert_eq!(run(&mut fleet.command(&["status", "Not_A_Name"])).code, Some(2));
    assert_eq!(run(&mut fleet.command(&["upgrade", HELLO, "--yes", "--dry-run"])).code, Some(2));
}

#[tokio::test]
async fn canary_is_upgraded_and_rolled_back_before_all_clusters_are_upgraded() {
    let fleet = Fleet::new();
    let canary = ["upgrade", HELLO, "--version", "v2", "--placement", "canary-placement"];
    let before = fleet.generation().await;
    let radius = fleet.run(&[&canary[..], &["--dry-run"]].concat());
    assert_eq!(
        radius,
        "helloworld to v2: 1 cluster changes.\n\n\
         CLUSTER  FROM  TO  DIRECTION  PLACEMENT                 STRATEGY\n\
         spoke-1  v1    v2  upgrade    default/canary-placement  all at once\n"
    );
    let message = fleet.run_failing(&canary, 4);
    assert!(message.contains("no terminal") && message.contains("--yes"), "{message}");
    assert_eq!(fleet.generation().await, before, "nothing was written");

    let done = fleet.run(&[&canary[..], &["--yes"]].concat());
    assert!(done.starts_with(&radius), "{done}");
    assert!(done.ends_with("\nhelloworld: default/canary-placement requests v2 (was v1)\n"), "{done}");
    fleet.wait_for_rollout();
    let versions = || {
        fleet
            .status()
            .iter()
            .map(|row| row.split(' ').take(4).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(versions(), ["spoke-1 v2 v2 v1", "spoke-2 v1 v1 -", "spoke-3 v1 v1 -"]);
    let before = fleet.generation().await;
    assert_eq!(fleet.run(&canary), "Nothing to do: the placements of helloworld already request v2.\n");
    assert_eq!(fleet.generation().await, before);

    let back = fleet.run(&["rollback", HELLO, "--yes"]);
    assert!(back.contains("helloworld to v1: 1 of 3 clusters changes."), "{back}");
    fleet.wait_for_rollout();
    assert_eq!(versions(), ["spoke-1 v1 v1 v2", "spoke-2 v1 v1 -", "spoke-3 v1 v1 -"]);

    fleet.run(&["upgrade", HELLO, "--yes"]);
    fleet.wait_for_rollout();
    assert_eq!(versions(), ["spoke-1 v2 v2 v1", "spoke-2 v2 v2 v1", "spoke-3 v2 v2 v1"]);
}

#[tokio::test]
async fn invalid_changes_are_rejected_and_nothing_is_written() {
    let fleet = Fleet::new();
    fleet.run(&["upgrade", HELLO, "--placement", "canary-placement", "--yes"]);
    fleet.wait_for_rollout();
    let before = fleet.generation().await;
    let rows: [(&[&str], i32, &str); 6] = [
        (&["upgrade", HELLO, "--version", "v9"], 4, "helloworld has no version v9; there are: v1, v2"),
        (&["rollback", HELLO, "--version", "v9"], 4, "there are: v1, v2"),
        (
            &["upgrade", HELLO, "--version", "v1", "--placement", "default/canary-placement"],
            4,
            "v1 is earlier than the version of spoke-1 (v2); use `bellwether addon rollback helloworld --version v1 \
             --placement default/canary-placement`",
        ),
        (
            &["rollback", HELLO, "--version", "v2", "--placement", "global-placement"],
            4,
            "v2 is later than the version of spoke-2 (v1), spoke-3 (v1); use `bellwether addon upgrade",
        ),
        (
            &["rollback", HELLO, "--placement", "global-placement"],
            4,
            "no cluster of helloworld had an earlier version",
        ),
        (
            &["upgrade", HELLO, "--placement", "x"],
            1,
            "it has: default/global-placement, default/canary-placement",
        ),
    ];
    for (arguments, code, expected) in rows {
        let message = fleet.run_failing(&[arguments, &["--yes"]].concat(), code);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert_eq!(fleet.generation().await, before);

    let manual = json!({"metadata": {"name": "by-hand"}, "spec": {"installStrategy": {"type": "Manual"}}});
    let manual = serde_json::from_value(manual).unwrap();
    fleet.addons().await.create(&PostParams::default(), &manual).await.unwrap();
    for command in ["rollout", "upgrade", "rollback", "pause", "resume"] {
        let message = fleet.run_failing(&[command, "by-hand"], 4);
        assert!(
            message.contains("kubectl patch managedclusteraddon by-hand -n CLUSTER"),
            "{command}: {message}"
        );
    }
    let addons = fleet.addons().await;
    eventually("it has a status", async || addons.get("by-hand").await.unwrap().status).await;
    let not_installed = run(&mut fleet.command(&["status", "by-hand"]));
    assert_eq!((not_installed.code, not_installed.stdout.as_str()), (Some(0), ""));
    assert!(not_installed.stderr.starts_with("by-hand is on no cluster"), "{}", not_installed.stderr);
}

#[tokio::test]
async fn failing_version_stops_the_rollout_and_can_be_rolled_back() {
    let fleet = Fleet::new();
    fleet.create_broken_version().await;
    let canary = ["--placement", "canary-placement", "--yes"];
    fleet.run(&[&["upgrade", HELLO, "--version", "v2"][..], &canary].concat());
    fleet.wait_for_rollout();
    fleet.run(&[&["upgrade", HELLO][..], &canary].concat());
    let message = fleet.run_failing(&["rollout", HELLO, "--watch"], 4);
    assert_eq!(
        message,
        "the rollout of helloworld has stopped: 1 of 3 clusters failed: spoke-1; `bellwether addon status helloworld` \
         shows why, `bellwether addon rollback helloworld --placement default/canary-placement` returns to the previous version"
    );
    let failed = fleet.status().swap_remove(0);
    assert!(
        failed.starts_with("spoke-1 v3 unknown v2 Failed could not upgrade to version v3: work"),
        "{failed}"
    );
    assert!(failed.contains("does not match template"), "{failed}");
    let rollout = fleet.run(&["rollout", HELLO]);
    assert!(rollout.contains("default/canary-placement: spoke-1 failed: could not upgrade"), "{rollout}");

    fleet.run(&["upgrade", HELLO, "--version", "v2", "--placement", "global-placement", "--yes"]);
    eventually("the other clusters have v2", async || {
        fleet.status().iter().skip(1).all(|row| row.contains(" v2 v2 v1 Succeed -")).then_some(())
    })
    .await;
    let message = fleet.run_failing(&["rollback", HELLO, "--yes"], 4);
    assert!(
        message.contains("v1 on spoke-2, spoke-3; v2 on spoke-1; select one with --version"),
        "{message}"
    );
    let back = fleet.run(&[&["rollback", HELLO][..], &canary].concat());
    assert!(back.contains("spoke-1  v3 (failed)  v2  rollback"), "{back}");
    fleet.wait_for_rollout();
    assert!(fleet.status().iter().all(|row| row.contains(" v2 v2 ")), "{:?}", fleet.status());
}

#[tokio::test]
async fn version_that_a_user_has_set_is_kept() {
    let fleet = Fleet::new();
    fleet.override_version("spoke-3", "v2").await;
    let why = "its version is set by kubectl-patch, not by its placement";
    eventually("spoke-3 has v2", async || {
        fleet.status().contains(&format!("spoke-3 v2 v2 v1 Succeed {why}")).then_some(())
    })
    .await;
    let radius = fleet.run(&["upgrade", HELLO, "--dry-run"]);
    assert!(radius.starts_with("helloworld to v2: 2 of 3 clusters change."), "{radius}");
    assert!(radius.ends_with(&format!("UNCHANGED  VERSION  WHY\nspoke-3    v2       {why}\n")), "{radius}");
    fleet.override_version("spoke-3", "v1").await;
    fleet.run(&["upgrade", HELLO, "--yes"]);
    fleet.wait_for_rollout();
    eventually("only spoke-3 keeps v1", async || {
        let versions: Vec<String> =
            fleet.status().iter().map(|row| row.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
        (versions == ["spoke-1 v2 v2", "spoke-2 v2 v2", "spoke-3 v1 v1"]).then_some(())
    })
    .await;
    let rollout = fleet.run(&["rollout", HELLO]);
    assert!(rollout.contains("1 cluster has a version that a user has set"), "{rollout}");
}

#[tokio::test]
async fn paused_clusters_wait_until_the_rollout_is_resumed() {
    let fleet = Fleet::new();
    let global = ["--placement", "global-placement"];
    let pause = [&["pause", HELLO][..], &global].concat();
    assert_eq!(fleet.run(&pause), "helloworld: default/global-placement is paused\n");
    let before = fleet.generation().await;
    assert_eq!(fleet.run(&pause), "helloworld: default/global-placement was already paused\n");
    assert_eq!(fleet.generation().await, before, "it is not written again");

    let done = fleet.run(&["upgrade", HELLO, "--yes"]);
    assert!(done.starts_with("helloworld to v2: 1 of 3 clusters changes."), "{done}");
    assert!(done.contains("default/global-placement is paused; the cluster changes after"), "{done}");
    let message = fleet.run_failing(&["rollout", HELLO, "--watch", "--timeout", "2s"], 3);
    assert!(message.starts_with("the rollout of helloworld is not finished after 2s"), "{message}");
    let waiting =
        ["spoke-2", "spoke-3"].map(|spoke| format!("{spoke} v2 v1 - Waiting the rollout is paused"));
    assert_eq!(fleet.status()[1..], waiting);
    assert!(fleet.run(&["rollout", HELLO]).contains("spoke-2, spoke-3 wait: the rollout is paused"));

    let watching = Running::start(&mut fleet.command(&["rollout", HELLO, "--watch"]));
    assert_eq!(watching.line(), "default/global-placement v2: 0 of 2 clusters done, 2 waiting; Paused");
    assert_eq!(watching.stop(Signal::INT).0, Some(0));

    let resumed = run(&mut fleet.command(&["resume", HELLO]));
    assert_eq!(
        resumed.stdout,
        "helloworld: default/global-placement is resumed\nhelloworld: default/canary-placement was not paused\n"
    );
    assert!(
        resumed.stderr.starts_with(
            "2 clusters were waiting; the rollout strategy of each placement decides when they start."
        ),
        "{}",
        resumed.stderr
    );
    fleet.wait_for_rollout();
    assert!(fleet.status().iter().all(|row| row.contains(" v2 v2 v1 ")), "{:?}", fleet.status());
}

#[tokio::test]
async fn terminal_shows_confirmation_and_live_view() {
    let fleet = Fleet::new();
    let before = fleet.generation().await;
    let (code, output) = on_a_terminal(&fleet, "upgrade helloworld", "n\n");
    assert_eq!(code, Some(4));
    assert!(
        output.contains("Upgrade 3 clusters? [y/N]") && output.contains("nothing was changed"),
        "{output}"
    );
    assert_eq!(fleet.generation().await, before);
    let (code, output) = on_a_terminal(&fleet, "upgrade helloworld", "y\n");
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("bellwether addon rollout helloworld --watch"), "{output}");
    let (code, output) = on_a_terminal(&fleet, "rollout helloworld --watch", "");
    assert_eq!(code, Some(0), "{output}");
    let last = output.rsplit("\u{1b}[?2026h").next().unwrap();
    assert!(last.contains("3 of 3 clusters done") && last.contains("████████████████████ 2/2"), "{last}");
    assert!(last.trim_end().ends_with("\u{1b}[?25h"), "the cursor is visible again: {last:?}");
}

#[tokio::test]
async fn change_by_another_client_before_confirmation_is_shown() {
    let fleet = Fleet::new();
    let mut terminal = Terminal::open(&fleet, "upgrade helloworld --version v2");
    let shown = terminal.until("[y/N] ");
    assert!(shown.contains("3 clusters change."), "{shown}");
    let patch = json!([{"op": "replace", "path": "/spec/installStrategy/placements/1/addonTemplate/installVersion", "value": "v2"}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    fleet.addons().await.patch(HELLO, &PatchParams::default(), &patch).await.unwrap();
    let after = fleet.generation().await;
    terminal.answer("y\n");
    let again = terminal.until("[y/N] ");
    assert!(
        again.contains("helloworld was changed by another client meanwhile; nothing was written."),
        "{again}"
    );
    assert!(again.contains("2 of 3 clusters change."), "{again}");
    terminal.answer("n\n");
    assert_eq!(terminal.end().0, Some(4));
    assert_eq!(fleet.generation().await, after);
}

/// What `addon rollout -o json` and the status have in common: version, counts and wait reasons of each placement.
fn shown_progress(rollout: &Value) -> Vec<Value> {
    let placements = rollout["placements"].as_array().unwrap().iter();
    let common = |one: &Value| json!({"placement": one["placement"], "version": one["version"], "counts": one["total"], "waiting": one["waiting"]});
    placements.map(common).collect()
}

fn reported_progress(addon: &ClusterManagementAddOn) -> Vec<Value> {
    let progressions = addon.status.iter().flat_map(|status| &status.install_progressions);
    let common = |one: &InstallProgression| {
        let counts = &one.counts;
        json!({
            "placement": format!("{}/{}", one.namespace, one.name),
            "version": one.version,
            "counts": {"total": counts.selected, "done": counts.succeeded, "inProgress": counts.progressing,
                "waiting": counts.waiting, "failed": counts.failed, "timedOut": counts.timed_out,
                "overridden": counts.overridden},
            "waiting": one.waiting,
        })
    };
    progressions.map(common).collect()
}

#[tokio::test]
async fn rollout_json_equals_status_while_clusters_are_lost() {
    let mut fleet = Fleet::with_spokes(5);
    let clusters: Api<ManagedCluster> = Api::all(fleet.server.client("hub").await);
    for number in 1..=5 {
        let patch = Patch::Merge(json!({"spec": {"leaseDurationSeconds": LEASE_SECONDS}}));
        clusters.patch(&format!("spoke-{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    // An agent reads the duration when it renews the Lease, and when it starts.
    fleet.restart(5);
    fleet.wait_for_rollout();
    let hub = fleet.server.client("hub").await;
    let addons = fleet.addons().await;
    // Waits until the first placement has these counts, in the output and in the status alike.
    let step = async |what: &str, counts: Value, unselected: &[&str]| {
        eventually(what, async || {
            let shown: Value = serde_json::from_str(&fleet.run(&["rollout", HELLO, "-o", "json"])).unwrap();
            let addon = addons.get(HELLO).await.unwrap();
            let first = addon.status.as_ref()?.install_progressions.first()?;
            let names: Vec<&str> = first.unselected.iter().map(|one| one.cluster.as_str()).collect();
            let shown = shown_progress(&shown);
            let found = shown[0]["counts"].as_object().unwrap();
            let has_counts = counts.as_object().unwrap().iter().all(|(key, count)| found[key] == *count);
            (has_counts && names == unselected && shown == reported_progress(&addon)).then_some(())
        })
        .await;
    };
    let agent_bindings = |spoke: &str| -> Api<RoleBinding> { Api::namespaced(hub.clone(), spoke) };
    let cut = async |spoke: &str| {
        let bindings = agent_bindings(spoke);
        let binding = bindings.get(AGENT_BINDING).await.unwrap();
        bindings.delete(AGENT_BINDING, &DeleteParams::default()).await.unwrap();
        binding
    };

    // One cluster of spoke-2 to spoke-5 at a time. The agents of two of them lose their rights before the upgrade.
    let strategy = json!({"type": "Progressive", "progressive": {"maxConcurrency": 1}});
    let patch = json!([{"op": "add", "path": "/spec/installStrategy/placements/0/rolloutStrategy", "value": strategy}]);
    let patch: Patch<()> = Patch::Json(serde_json::from_value(patch).unwrap());
    addons.patch(HELLO, &PatchParams::default(), &patch).await.unwrap();
    let binding = cut("spoke-2").await;
    fleet.run(&["upgrade", HELLO, "--version", "v2", "--placement", "global-placement", "--yes"]);
    step("spoke-2 changes", json!({"total": 4, "inProgress": 1, "waiting": 3}), &[]).await;
    step(
        "spoke-2 is lost and still counts",
        json!({"total": 4, "inProgress": 1, "waiting": 3}),
        &["spoke-2"],
    )
    .await;
    cut("spoke-5").await;
    step(
        "a cluster that has not started is lost",
        json!({"total": 3, "inProgress": 1, "waiting": 2}),
        &["spoke-2"],
    )
    .await;
    let radius = fleet.run(&["upgrade", HELLO, "--version", "v2", "--dry-run"]);
    assert!(radius.contains("spoke-2"), "{radius}");
    let binding = RoleBinding {
        metadata: ObjectMeta { name: binding.metadata.name, ..ObjectMeta::default() },
        ..binding
    };
    agent_bindings("spoke-2").create(&PostParams::default(), &binding).await.unwrap();
    step("all that are reachable have it", json!({"total": 3, "done": 3, "waiting": 0}), &[]).await;
}

/// Runs a command on a terminal and types an answer.
fn on_a_terminal(fleet: &Fleet, command: &str, answer: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::open(fleet, command);
    terminal.answer(answer);
    terminal.end()
}

/// A command that runs on a terminal.
struct Terminal {
    script: Child,
    screen: mpsc::Receiver<String>,
}

impl Terminal {
    fn open(fleet: &Fleet, command: &str) -> Self {
        let command = format!(
            "stty cols 120 rows 24 -echo; exec {} addon {command} --kubeconfig {}",
            env!("CARGO_BIN_EXE_bellwether"),
            fleet.kubeconfig.display()
        );
        let mut script = Command::new("script");
        script.args(["-qec", &command, "/dev/null"]).env_remove("NO_COLOR").env_remove("RUST_LOG");
        let script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut script = script.expect("`script` of the package bsdutils provides a terminal");
        let mut stdout = script.stdout.take().unwrap();
        let (sender, screen) = mpsc::channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut buffer) {
                let _ = sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned());
            }
        });
        Self { script, screen }
    }

    fn answer(&mut self, answer: &str) {
        self.script.stdin.as_mut().unwrap().write_all(answer.as_bytes()).unwrap();
    }

    /// The output up to a text.
    fn until(&self, text: &str) -> String {
        let mut shown = String::new();
        while !shown.ends_with(text) {
            let more = self.screen.recv_timeout(WAIT_TIMEOUT);
            shown.push_str(&more.unwrap_or_else(|_| panic!("{text:?} is not in the output: {shown}")));
        }
        shown
    }

    /// The exit code and the rest of the output.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.script.stdin.take());
        let mut shown = String::new();
        while let Ok(more) = self.screen.recv_timeout(WAIT_TIMEOUT) {
            shown.push_str(&more);
        }
        (self.script.wait().unwrap().code(), shown)
    }
}
