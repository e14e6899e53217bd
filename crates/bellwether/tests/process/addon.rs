//! `bellwether addon`, against the add-on of the demonstration: what it shows, what it changes, what it refuses, and how it
//! ends.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use bellwether_api::addon::{AddOnTemplate, ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_testkit::eventually;
use kube::api::{Api, Patch, PatchParams, PostParams};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::heartbeat::Running;
use crate::server::{Ended, PATIENCE, Server, bellwether, run, up};

const HELLO: &str = "helloworld";
/// A version that no cluster accepts.
const BROKEN: &str = include_str!("../../../../deploy/examples/helloworld-v3.yaml");

struct Fleet {
    parent: tempfile::TempDir,
    server: Server,
    kubeconfig: PathBuf,
}

impl Fleet {
    /// Three spokes that all have v1, the first of them a canary.
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("data");
        let server = Server::start(&dir, up(&dir).args(["--spokes", "3", "--simulate-delay", "100ms"]));
        let fleet = Self { parent, server, kubeconfig: dir.join("kubeconfig") };
        fleet.finishes();
        fleet
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bellwether(["addon"]);
        command.args(arguments).arg("--kubeconfig").arg(&self.kubeconfig);
        command
    }

    /// A command that does what it should; what it prints.
    fn does(&self, arguments: &[&str]) -> String {
        let Ended { code, stdout, stderr } = run(&mut self.command(arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {stdout}{stderr}");
        stdout
    }

    /// A command that does not, and ends like this; its last words.
    fn does_not(&self, arguments: &[&str], wanted: i32) -> String {
        let Ended { code, stdout, stderr } = run(&mut self.command(arguments));
        assert_eq!(code, Some(wanted), "{arguments:?}: {stdout}{stderr}");
        let last = stderr.lines().last().unwrap_or_default();
        last.strip_prefix("error: ").unwrap_or_else(|| panic!("{arguments:?}: {stderr}")).to_owned()
    }

    /// The rollout comes to a good end.
    fn finishes(&self) {
        self.does(&["rollout", HELLO, "--watch", "--timeout", "25s"]);
    }

    /// The words of the table of the fleet, without ages, by cluster.
    fn status(&self) -> Vec<String> {
        let mut rows: Vec<String> = self.does(&["status", HELLO]).lines().skip(1).map(without_age).collect();
        rows.sort();
        rows
    }

    async fn addons(&self) -> Api<ClusterManagementAddOn> {
        Api::all(self.server.client("hub").await)
    }

    /// What is asked for, and how often that has changed.
    async fn generation(&self) -> i64 {
        self.addons().await.get(HELLO).await.unwrap().metadata.generation.unwrap()
    }

    /// Brings a version that no cluster accepts.
    async fn publish_broken(&self) {
        let templates: Api<AddOnTemplate> = Api::all(self.server.client("hub").await);
        let template: Value = serde_saphyr(BROKEN);
        templates.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
        let addons = self.addons().await;
        eventually("it is among the versions", async || {
            let status = addons.get(HELLO).await.unwrap().status.unwrap_or_default();
            status.supported_versions.contains(&"v3".to_owned()).then_some(())
        })
        .await;
    }

    /// Sets the version of a cluster by hand.
    async fn set_by_hand(&self, cluster: &str, version: &str) {
        let instances: Api<ManagedClusterAddOn> = Api::namespaced(self.server.client("hub").await, cluster);
        let patch = Patch::Merge(json!({"spec": {"installVersion": version}}));
        let by_hand = PatchParams { field_manager: Some("kubectl-patch".into()), ..PatchParams::default() };
        instances.patch(HELLO, &by_hand, &patch).await.unwrap();
    }
}

fn serde_saphyr(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// A row of the table with one space between words, and without the SINCE of the seventh column.
fn without_age(row: &str) -> String {
    let words: Vec<&str> = row.split_whitespace().collect();
    let [before @ .., _] = &words[..6] else { panic!("{row}") };
    [before, &words[6..]].concat().join(" ")
}

#[tokio::test]
async fn a_fleet_is_shown_in_every_form() {
    let fleet = Fleet::new();
    let table = fleet.does(&["status"]);
    let header: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(header, ["ADD-ON", "CLUSTER", "DESIRED", "CURRENT", "LAST", "STATE", "SINCE", "WHY"]);
    assert_eq!(table.lines().count(), 4, "{table}");
    eventually("all are up", async || {
        let well = ["spoke-1", "spoke-2", "spoke-3"].map(|spoke| format!("{spoke} v1 v1 - Succeed -"));
        (fleet.status() == well).then_some(())
    })
    .await;
    let wide = fleet.does(&["status", HELLO, "-o", "wide"]);
    assert!(wide.contains("default/canary-placement") && wide.contains("True/ProbeAvailable"), "{wide}");
    let names = ["spoke-1", "spoke-2", "spoke-3"]
        .map(|spoke| format!("managedclusteraddon.addon.open-cluster-management.io/{HELLO} -n {spoke}\n"));
    assert_eq!(fleet.does(&["status", "-o", "name"]), names.concat());
    let list: Value = serde_json::from_str(&fleet.does(&["status", "-o", "json"])).unwrap();
    assert_eq!((&list["apiVersion"], &list["kind"]), (&json!("v1"), &json!("List")));
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert_eq!(
        (&items[0]["kind"], &items[0]["metadata"]["managedFields"]),
        (&json!("ManagedClusterAddOn"), &Value::Null)
    );
    assert_eq!(serde_saphyr(&fleet.does(&["status", "-o", "yaml"])), list);

    let rollout = fleet.does(&["rollout", HELLO]);
    let rows: Vec<String> =
        rollout.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rows,
        [
            "PLACEMENT GROUP VERSION TOTAL DONE IN PROGRESS WAITING FAILED TIMED OUT STATE",
            "default/global-placement 0 v1 2 2 0 0 0 0 Completed",
            "default/canary-placement 0 v1 1 1 0 0 0 0 Completed",
            "",
            "default/global-placement: spoke-1 goes by default/canary-placement",
        ]
    );
    let json: Value = serde_json::from_str(&fleet.does(&["rollout", HELLO, "-o", "json"])).unwrap();
    assert_eq!((&json["addon"], &json["placements"][0]["total"]["done"]), (&json!(HELLO), &json!(2)));
    assert_eq!(serde_saphyr(&fleet.does(&["rollout", HELLO, "-o", "yaml"])), json);
    let name = "clustermanagementaddon.addon.open-cluster-management.io/helloworld\n";
    assert_eq!(fleet.does(&["rollout", HELLO, "-o", "name"]), name);
}

#[tokio::test]
async fn what_is_not_there_or_not_allowed_is_told() {
    let fleet = Fleet::new();
    for command in ["status", "rollout", "upgrade", "rollback", "pause", "resume"] {
        let words = fleet.does_not(&[command, "nope"], 1);
        assert_eq!(words, "there is no add-on nope; there are: helloworld", "{command}");
    }
    let words = fleet.does_not(&["status", "--context", "spoke-1"], 1);
    assert!(words.contains("does not serve them; `bellwether crds --install`"), "{words}");
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
async fn a_canary_is_upgraded_alone_and_back_and_then_all_are() {
    let fleet = Fleet::new();
    let canary = ["upgrade", HELLO, "--version", "v2", "--placement", "canary-placement"];
    let before = fleet.generation().await;
    let radius = fleet.does(&[&canary[..], &["--dry-run"]].concat());
    assert_eq!(
        radius,
        "helloworld to v2: 1 cluster changes.\n\n\
         CLUSTER  FROM  TO  DIRECTION  PLACEMENT                 STRATEGY\n\
         spoke-1  v1    v2  upgrade    default/canary-placement  all at once\n"
    );
    let words = fleet.does_not(&canary, 4);
    assert!(words.contains("no terminal") && words.contains("--yes"), "{words}");
    assert_eq!(fleet.generation().await, before, "nothing was written");

    let done = fleet.does(&[&canary[..], &["--yes"]].concat());
    assert!(done.starts_with(&radius), "{done}");
    assert!(done.ends_with("\nhelloworld: default/canary-placement asks for v2, v1 before\n"), "{done}");
    fleet.finishes();
    let versions = || {
        fleet
            .status()
            .iter()
            .map(|row| row.split(' ').take(4).collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    assert_eq!(versions(), ["spoke-1 v2 v2 v1", "spoke-2 v1 v1 -", "spoke-3 v1 v1 -"]);
    let before = fleet.generation().await;
    assert_eq!(fleet.does(&canary), "Nothing to do: v2 of helloworld is asked for already.\n");
    assert_eq!(fleet.generation().await, before);

    let back = fleet.does(&["rollback", HELLO, "--yes"]);
    assert!(back.contains("helloworld to v1: 1 of 3 clusters changes."), "{back}");
    fleet.finishes();
    assert_eq!(versions(), ["spoke-1 v1 v1 v2", "spoke-2 v1 v1 -", "spoke-3 v1 v1 -"]);

    fleet.does(&["upgrade", HELLO, "--yes"]);
    fleet.finishes();
    assert_eq!(versions(), ["spoke-1 v2 v2 v1", "spoke-2 v2 v2 v1", "spoke-3 v2 v2 v1"]);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_nothing_is_written() {
    let fleet = Fleet::new();
    fleet.does(&["upgrade", HELLO, "--placement", "canary-placement", "--yes"]);
    fleet.finishes();
    let before = fleet.generation().await;
    let rows: [(&[&str], i32, &str); 6] = [
        (&["upgrade", HELLO, "--version", "v9"], 4, "helloworld has no version v9; there are: v1, v2"),
        (&["rollback", HELLO, "--version", "v9"], 4, "there are: v1, v2"),
        (
            &["upgrade", HELLO, "--version", "v1", "--placement", "default/canary-placement"],
            4,
            "v1 is earlier than what there is on spoke-1 (v2); `bellwether addon rollback helloworld --version v1 \
             --placement default/canary-placement` goes there",
        ),
        (
            &["rollback", HELLO, "--version", "v2", "--placement", "global-placement"],
            4,
            "v2 is later than what there is on spoke-2 (v1), spoke-3 (v1); `bellwether addon upgrade",
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
    for (arguments, code, wanted) in rows {
        let words = fleet.does_not(&[arguments, &["--yes"]].concat(), code);
        assert!(words.contains(wanted), "{arguments:?}: {words}");
    }
    assert_eq!(fleet.generation().await, before);

    let manual = json!({"metadata": {"name": "by-hand"}, "spec": {"installStrategy": {"type": "Manual"}}});
    let manual = serde_json::from_value(manual).unwrap();
    fleet.addons().await.create(&PostParams::default(), &manual).await.unwrap();
    for command in ["rollout", "upgrade", "rollback", "pause", "resume"] {
        let words = fleet.does_not(&[command, "by-hand"], 4);
        assert!(words.contains("kubectl patch managedclusteraddon by-hand -n CLUSTER"), "{command}: {words}");
    }
    let by_hand = fleet.addons().await;
    eventually("it has a status like any other", async || by_hand.get("by-hand").await.unwrap().status).await;
    let nowhere = run(&mut fleet.command(&["status", "by-hand"]));
    assert_eq!((nowhere.code, nowhere.stdout.as_str()), (Some(0), ""));
    assert!(nowhere.stderr.starts_with("by-hand is on no cluster"), "{}", nowhere.stderr);
}

#[tokio::test]
async fn a_version_that_fails_stops_the_rollout_and_the_way_back_is_found() {
    let fleet = Fleet::new();
    fleet.publish_broken().await;
    let canary = ["--placement", "canary-placement", "--yes"];
    fleet.does(&[&["upgrade", HELLO, "--version", "v2"][..], &canary].concat());
    fleet.finishes();
    fleet.does(&[&["upgrade", HELLO][..], &canary].concat());
    let words = fleet.does_not(&["rollout", HELLO, "--watch"], 4);
    assert_eq!(
        words,
        "the rollout of helloworld has stopped: 1 of 3 clusters failed: spoke-1; `bellwether addon status helloworld` \
         says why, `bellwether addon rollback helloworld --placement default/canary-placement` goes back"
    );
    let failed = fleet.status().swap_remove(0);
    assert!(
        failed.starts_with("spoke-1 v3 unknown v2 Failed could not upgrade to version v3: work"),
        "{failed}"
    );
    assert!(failed.contains("does not match template"), "{failed}");
    let rollout = fleet.does(&["rollout", HELLO]);
    assert!(rollout.contains("default/canary-placement: spoke-1 failed: could not upgrade"), "{rollout}");

    fleet.does(&["upgrade", HELLO, "--version", "v2", "--placement", "global-placement", "--yes"]);
    eventually("the others have it", async || {
        fleet.status().iter().skip(1).all(|row| row.contains(" v2 v2 v1 Succeed -")).then_some(())
    })
    .await;
    let words = fleet.does_not(&["rollback", HELLO, "--yes"], 4);
    assert!(words.contains("v1 on spoke-2, spoke-3; v2 on spoke-1; say which by --version"), "{words}");
    let back = fleet.does(&[&["rollback", HELLO][..], &canary].concat());
    assert!(back.contains("spoke-1  v3 (failed)  v2  rollback"), "{back}");
    fleet.finishes();
    assert!(fleet.status().iter().all(|row| row.contains(" v2 v2 ")), "{:?}", fleet.status());
}

#[tokio::test]
async fn a_version_that_a_person_has_set_is_left_alone() {
    let fleet = Fleet::new();
    fleet.set_by_hand("spoke-3", "v2").await;
    let theirs = "its version is set by kubectl-patch, not by its placement";
    eventually("it has it", async || {
        fleet.status().contains(&format!("spoke-3 v2 v2 v1 Succeed {theirs}")).then_some(())
    })
    .await;
    let radius = fleet.does(&["upgrade", HELLO, "--dry-run"]);
    assert!(radius.starts_with("helloworld to v2: 2 of 3 clusters change."), "{radius}");
    assert!(
        radius.ends_with(&format!("NOT TOUCHED  VERSION  WHY\nspoke-3      v2       {theirs}\n")),
        "{radius}"
    );
    fleet.set_by_hand("spoke-3", "v1").await;
    fleet.does(&["upgrade", HELLO, "--yes"]);
    fleet.finishes();
    eventually("only it stays", async || {
        let versions: Vec<String> =
            fleet.status().iter().map(|row| row.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
        (versions == ["spoke-1 v2 v2", "spoke-2 v2 v2", "spoke-3 v1 v1"]).then_some(())
    })
    .await;
    let rollout = fleet.does(&["rollout", HELLO]);
    assert!(rollout.contains("1 cluster goes by a version that a person has set"), "{rollout}");
}

#[tokio::test]
async fn who_is_paused_waits_and_goes_on_when_resumed() {
    let fleet = Fleet::new();
    let global = ["--placement", "global-placement"];
    let pause = [&["pause", HELLO][..], &global].concat();
    assert_eq!(fleet.does(&pause), "helloworld: default/global-placement is paused\n");
    let before = fleet.generation().await;
    assert_eq!(fleet.does(&pause), "helloworld: default/global-placement was paused already\n");
    assert_eq!(fleet.generation().await, before, "it is not written again");

    let done = fleet.does(&["upgrade", HELLO, "--yes"]);
    assert!(done.starts_with("helloworld to v2: 1 of 3 clusters changes."), "{done}");
    assert!(done.contains("default/global-placement is paused; it changes after"), "{done}");
    let words = fleet.does_not(&["rollout", HELLO, "--watch", "--timeout", "2s"], 3);
    assert!(words.starts_with("the rollout of helloworld is not finished after 2s"), "{words}");
    let waiting =
        ["spoke-2", "spoke-3"].map(|spoke| format!("{spoke} v2 v1 - Waiting the rollout is paused"));
    assert_eq!(fleet.status()[1..], waiting);
    assert!(fleet.does(&["rollout", HELLO]).contains("spoke-2, spoke-3 wait: the rollout is paused"));

    let watching = Running::start(&mut fleet.command(&["rollout", HELLO, "--watch"]));
    assert_eq!(watching.line(), "default/global-placement v2: 0 of 2 clusters done, 2 waiting; Paused");
    assert_eq!(watching.stop(Signal::INT).0, Some(0));

    let resumed = run(&mut fleet.command(&["resume", HELLO]));
    assert_eq!(
        resumed.stdout,
        "helloworld: default/global-placement goes on\nhelloworld: default/canary-placement was not paused\n"
    );
    assert!(resumed.stderr.starts_with("2 clusters waited, and may begin now."), "{}", resumed.stderr);
    fleet.finishes();
    assert!(fleet.status().iter().all(|row| row.contains(" v2 v2 v1 ")), "{:?}", fleet.status());
}

#[tokio::test]
async fn on_a_terminal_a_person_is_asked_and_sees_a_picture() {
    let fleet = Fleet::new();
    let before = fleet.generation().await;
    let (code, words) = on_a_terminal(&fleet, "upgrade helloworld", "n\n");
    assert_eq!(code, Some(4));
    assert!(words.contains("Upgrade 3 clusters? [y/N]") && words.contains("nothing was changed"), "{words}");
    assert_eq!(fleet.generation().await, before);
    let (code, words) = on_a_terminal(&fleet, "upgrade helloworld", "y\n");
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("bellwether addon rollout helloworld --watch"), "{words}");
    let (code, picture) = on_a_terminal(&fleet, "rollout helloworld --watch", "");
    assert_eq!(code, Some(0), "{picture}");
    let last = picture.rsplit("\u{1b}[?2026h").next().unwrap();
    assert!(last.contains("3 of 3 clusters done") && last.contains("████████████████████ 2/2"), "{last}");
    assert!(last.trim_end().ends_with("\u{1b}[?25h"), "the cursor is given back: {last:?}");
}

#[tokio::test]
async fn what_somebody_else_changes_while_a_person_thinks_is_shown_first() {
    let fleet = Fleet::new();
    let mut terminal = Terminal::open(&fleet, "upgrade helloworld --version v2");
    let shown = terminal.until("[y/N] ");
    assert!(shown.contains("3 clusters change."), "{shown}");
    let theirs = json!([{"op": "replace", "path": "/spec/installStrategy/placements/1/addonTemplate/installVersion", "value": "v2"}]);
    let theirs: Patch<()> = Patch::Json(serde_json::from_value(theirs).unwrap());
    fleet.addons().await.patch(HELLO, &PatchParams::default(), &theirs).await.unwrap();
    let after = fleet.generation().await;
    terminal.answer("y\n");
    let again = terminal.until("[y/N] ");
    assert!(again.contains("Somebody has changed helloworld meanwhile; nothing was written."), "{again}");
    assert!(again.contains("2 of 3 clusters change."), "{again}");
    terminal.answer("n\n");
    assert_eq!(terminal.end().0, Some(4));
    assert_eq!(fleet.generation().await, after);
}

/// Types a command at a terminal, and an answer to it.
fn on_a_terminal(fleet: &Fleet, command: &str, answer: &str) -> (Option<i32>, String) {
    let mut terminal = Terminal::open(fleet, command);
    terminal.answer(answer);
    terminal.end()
}

/// A command at a terminal.
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
        let mut script = script.expect("script, of bsdutils, makes a terminal");
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

    /// What is shown up to these words.
    fn until(&self, words: &str) -> String {
        let mut shown = String::new();
        while !shown.ends_with(words) {
            let more = self.screen.recv_timeout(PATIENCE);
            shown.push_str(&more.unwrap_or_else(|_| panic!("it did not come to {words:?}: {shown}")));
        }
        shown
    }

    /// How it ended, and what it still showed.
    fn end(mut self) -> (Option<i32>, String) {
        drop(self.script.stdin.take());
        let mut shown = String::new();
        while let Ok(more) = self.screen.recv_timeout(PATIENCE) {
            shown.push_str(&more);
        }
        (self.script.wait().unwrap().code(), shown)
    }
}
