//! `bellwether cluster` and `bellwether nodepool`: output, exit codes and error messages.

use std::process::Command;

use axum::http::Method;
use bellwether_fleet::resource::Resource;
use bellwether_testkit::eventually;
use jiff::Timestamp;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::server::{Ended, FleetApi, Server, bellwether, fleet_api, run, up};

const CONFIG: &str = "
entities:
  - {kind: Cluster, plural: clusters, required_adapters: [validation, dns]}
  - {kind: NodePool, plural: nodepools, parent_kind: Cluster, on_parent_delete: cascade}
";

/// A running fleet API, and commands that use it.
struct Fixture {
    dir: TempDir,
    api: FleetApi,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("config.yaml");
        std::fs::write(&config, CONFIG).unwrap();
        let database = format!("sqlite:{}", dir.path().join("fleet.db").display());
        let api =
            FleetApi::start(&dir.path().join("fleet"), fleet_api(&database).arg("--config").arg(&config));
        Self { dir, api }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = bellwether(arguments.iter().copied());
        command.env("BELLWETHER_API", self.api.address()).current_dir(self.dir.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        run(&mut self.command(arguments))
    }

    /// Runs a command that must succeed, and returns its output.
    fn stdout(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.stderr, "", "{arguments:?}");
        ended.stdout
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.stdout(arguments)).unwrap()
    }

    /// Reports as an adapter.
    async fn report(&self, cluster: &str, adapter: &str, message: &str) {
        let found: Resource =
            serde_json::from_value(self.json(&["cluster", "get", cluster, "-o", "json"])).unwrap();
        let conditions = ["Available", "Applied", "Health"]
            .map(|type_| json!({"type": type_, "status": "True", "reason": "Done", "message": message}));
        let body = json!({
            "adapter": adapter,
            "observed_generation": found.generation,
            "observed_time": Timestamp::now(),
            "conditions": conditions,
        });
        let path = format!("/clusters/{}/statuses", found.id);
        self.api.client().call_raw(Method::PUT, &path, Some(&body)).await.unwrap();
    }
}

/// Splits a line of a table into its cells.
pub(crate) fn cells(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_is_created_reported_updated_and_deleted() {
    let fixture = Fixture::new();
    assert_eq!(fixture.run(&["cluster", "get"]).stderr, "No clusters found.\n");
    let create = ["cluster", "create", "demo", "--spec", "{region: eu}", "-l", "env=prod", "-l", "tier=1"];
    assert_eq!(fixture.stdout(&create), "cluster/demo created (generation 1)\n");

    let table = fixture.stdout(&["cluster", "get"]);
    let lines: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(lines[0], ["NAME", "READY", "AVAILABLE", "GENERATION", "AGE"]);
    assert_eq!(lines[1][..4], ["demo", "False", "False", "1"]);

    assert_eq!(fixture.run(&["cluster", "statuses", "demo"]).stderr, "No adapter has reported.\n");
    assert_eq!(fixture.run(&["cluster", "log", "demo"]).stderr, "No adapter has reported.\n");
    fixture.report("demo", "validation", "all checks passed").await;
    fixture.report("demo", "dns", "names resolve").await;
    let table = fixture.stdout(&["cluster", "get", "demo"]);
    assert_eq!(table.lines().map(cells).nth(1).unwrap()[..4], ["demo", "True", "True", "1"]);

    let update =
        ["cluster", "update", "demo", "--spec", r#"{"region": "us"}"#, "-l", "tier-", "-l", "new=yes"];
    assert_eq!(fixture.stdout(&update), "cluster/demo updated (generation 2)\n");
    assert_eq!(fixture.stdout(&update), "cluster/demo unchanged (generation 2)\n");
    let found = fixture.json(&["cluster", "get", "demo", "-o", "json"]);
    assert_eq!(found["spec"], json!({"region": "us"}));
    assert_eq!(found["labels"], json!({"env": "prod", "new": "yes"}));
    let table = fixture.stdout(&["cluster", "get"]);
    assert_eq!(table.lines().map(cells).nth(1).unwrap()[..4], ["demo", "False", "True@1", "2"]);

    let statuses = fixture.stdout(&["cluster", "statuses", "demo"]);
    let adapters: Vec<_> = statuses.lines().skip(1).map(|line| cells(line)[..3].join(" ")).collect();
    assert_eq!(adapters, ["dns 1 True", "validation 1 True"]);
    let log = fixture.stdout(&["cluster", "log", "demo", "--last", "1"]);
    assert!(log.contains("dns") && log.contains("Accepted") && !log.contains("validation"), "{log}");

    let details = fixture.stdout(&["cluster", "describe", "demo"]);
    for expected in
        ["Name:", "demo", "env=prod, new=yes", "Generation:  2", "region", "Conditions:", "names resolve"]
    {
        assert!(details.contains(expected), "{expected:?} is missing in {details}");
    }

    assert_eq!(fixture.stdout(&["cluster", "delete", "demo"]), "cluster/demo is being deleted\n");
    let table = fixture.stdout(&["cluster", "get"]);
    assert_eq!(table.lines().map(cells).nth(1).unwrap()[1], "False (deleting)");
    let late = fixture.run(&["cluster", "delete", "demo", "--wait", "--timeout", "1s"]);
    assert_eq!(late.code, Some(3), "{}", late.stderr);
    assert!(late.stderr.contains("cluster/demo was not removed within 1s"), "{}", late.stderr);
    let force = ["cluster", "delete", "demo", "--force", "--reason", "a test"];
    assert_eq!(fixture.stdout(&force), "cluster/demo force-deleted\n");
    assert_eq!(fixture.run(&["cluster", "get"]).stderr, "No clusters found.\n");
}

#[test]
fn node_pools_belong_to_clusters() {
    let fixture = Fixture::new();
    for cluster in ["a", "b"] {
        fixture.stdout(&["cluster", "create", cluster]);
        let create = ["nodepool", "create", "workers", "--cluster", cluster, "--spec", r#"{"replicas": 3}"#];
        assert_eq!(fixture.stdout(&create), "nodepool/workers created (generation 1)\n");
    }
    let table = fixture.stdout(&["nodepool", "get"]);
    let lines: Vec<_> = table.lines().map(cells).collect();
    assert_eq!(lines[0], ["CLUSTER", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE"]);
    let mut pools: Vec<_> = lines[1..].iter().map(|line| line[..2].join(" ")).collect();
    pools.sort();
    assert_eq!(pools, ["a workers", "b workers"]);
    assert_eq!(fixture.stdout(&["nodepool", "get", "--cluster", "b", "-o", "name"]), "nodepool/workers\n");

    let several = fixture.run(&["nodepool", "get", "workers"]);
    assert_eq!(several.code, Some(1));
    assert!(
        several.stderr.contains("2 nodepools are named workers; select one with --cluster"),
        "{}",
        several.stderr
    );
    let update = ["nodepool", "update", "workers", "--cluster", "b", "-l", "size=large"];
    assert_eq!(fixture.stdout(&update), "nodepool/workers updated (generation 2)\n");
    let details = fixture.stdout(&["nodepool", "describe", "workers", "--cluster", "b"]);
    assert!(details.contains("Cluster:     b") && details.contains("size=large"), "{details}");
    let delete = ["nodepool", "delete", "workers", "--cluster", "b", "--wait"];
    assert_eq!(fixture.stdout(&delete), "nodepool/workers deleted\n");
    assert_eq!(fixture.stdout(&["nodepool", "get", "workers", "-o", "name"]), "nodepool/workers\n");
}

#[test]
fn all_output_formats_have_the_same_content() {
    let fixture = Fixture::new();
    for name in ["b", "a"] {
        fixture.stdout(&["cluster", "create", name, "--label", &format!("is={name}")]);
    }
    let all = fixture.json(&["cluster", "get", "-o", "json"]);
    let one = fixture.json(&["cluster", "get", "a", "-o", "json"]);
    assert_eq!(all[0], one);
    for arguments in [&["cluster", "get", "-o", "yaml"][..], &["cluster", "get", "a", "b", "-o", "yaml"]] {
        let read: Value = serde_saphyr::from_str(&fixture.stdout(arguments)).unwrap();
        assert_eq!(read, all, "{arguments:?}");
    }
    assert_eq!(fixture.stdout(&["cluster", "get", "-o", "name"]), "cluster/a\ncluster/b\n");
    assert_eq!(
        fixture.stdout(&["cluster", "get", "--order", "name desc", "-o", "name"]),
        "cluster/b\ncluster/a\n"
    );
    assert_eq!(
        fixture.stdout(&["cluster", "get", "--search", "labels.is = 'b'", "-o", "name"]),
        "cluster/b\n"
    );
    assert_eq!(fixture.json(&["cluster", "get", "--search", "name = 'c'", "-o", "json"]), json!([]));
    let wide = fixture.stdout(&["cluster", "get", "-o", "wide"]);
    let lines: Vec<_> = wide.lines().map(cells).collect();
    assert_eq!(lines[0][5..], ["ID", "LABELS", "MESSAGE"]);
    assert_eq!(lines[1][5..7], [one["id"].as_str().unwrap(), "is=a"]);
    let by_id = fixture.stdout(&["cluster", "get", one["id"].as_str().unwrap(), "-o", "name"]);
    assert_eq!(by_id, "cluster/a\n");
}

#[test]
fn errors_have_a_cause_and_a_hint() {
    let fixture = Fixture::new();
    fixture.stdout(&["cluster", "create", "demo"]);
    let unknown = "01976b1e-5f0a-7c3e-8d2b-4a1f6e9c0b7d";
    let rows: [(&[&str], i32, &[&str]); 22] = [
        (&["cluster", "get", "nope"], 1, &["there is no cluster nope", "`bellwether cluster get` lists"]),
        (&["cluster", "describe", "nope"], 1, &["there is no cluster nope"]),
        (&["cluster", "delete", "it's"], 1, &["there is no cluster it's"]),
        (&["cluster", "get", unknown], 1, &[unknown]),
        (
            &["cluster", "create", "demo"],
            1,
            &["the cluster demo already exists", "`bellwether cluster update demo`"],
        ),
        (&["cluster", "create", "No_Such"], 1, &["name"]),
        (&["cluster", "create", "x", "-l", "env"], 1, &["\"env\" is not KEY=VALUE"]),
        (&["cluster", "create", "x", "-l", "env-"], 1, &["\"env-\" is not KEY=VALUE"]),
        (&["cluster", "update", "demo", "-l", "env"], 1, &["\"env\" is neither KEY=VALUE nor KEY-"]),
        (&["cluster", "create", "x", "-l", "a b=c"], 1, &["label"]),
        (&["cluster", "create", "x", "--spec", "[1]"], 1, &["--spec is not an object", "such as"]),
        (&["cluster", "create", "x", "--spec", "{a: "], 1, &["--spec is neither JSON nor YAML"]),
        (&["cluster", "create", "x", "-f", "missing.yaml"], 1, &["cannot read missing.yaml"]),
        (&["cluster", "create", "x", "--spec", "{}", "-f", "y"], 2, &["cannot be used with"]),
        (&["cluster", "update", "demo"], 1, &["nothing to change", "--spec"]),
        (&["cluster", "get", "--search", "colour = 'red'"], 1, &["colour"]),
        (&["cluster", "get", "--order", "colour"], 1, &["colour"]),
        (&["cluster", "delete", "demo", "--force"], 2, &["--reason"]),
        (&["cluster", "delete", "demo", "--timeout", "1s"], 2, &["--wait"]),
        (&["nodepool", "create", "workers"], 1, &["a node pool belongs to a cluster", "--cluster"]),
        (&["nodepool", "create", "workers", "--cluster", "nope"], 1, &["there is no cluster nope"]),
        (&["nodepool", "get", "nope"], 1, &["there is no nodepool nope"]),
    ];
    for (arguments, code, expected) in rows {
        let ended = fixture.run(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        for text in expected {
            assert!(ended.stderr.contains(text), "{arguments:?}: {text:?} is missing in {}", ended.stderr);
        }
        assert!(code == 2 || ended.stderr.lines().count() == 1, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{arguments:?}: {}", ended.stdout);
    }
    assert_eq!(
        fixture.stdout(&["cluster", "get", "-o", "name"]),
        "cluster/demo\n",
        "a failed command changed something"
    );
}

#[test]
fn unreachable_api_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let address = format!("http://{free}");
    let rows: [(&[&str], &[&str]); 3] = [
        (&["cluster", "get", "--api", &address], &[&address]),
        (
            &["cluster", "get", "--api", "somewhere"],
            &["\"somewhere\" is not an address", "http://127.0.0.1:8000"],
        ),
        (&["cluster", "get"], &["no fleet API is known", "--api", "BELLWETHER_API", "bellwether up"]),
    ];
    for (arguments, expected) in rows {
        let mut command = bellwether(arguments.iter().copied());
        let ended = run(command.env_remove("BELLWETHER_API").current_dir(dir.path()));
        assert_eq!(ended.code, Some(1), "{arguments:?}: {}", ended.stderr);
        for text in expected {
            assert!(ended.stderr.contains(text), "{arguments:?}: {text:?} is missing in {}", ended.stderr);
        }
    }
}

#[test]
fn api_of_up_is_found_in_its_directory() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join(".bellwether");
    let _server = Server::start(&dir, up(&dir).args(["--spokes", "2"]));
    let mut command = bellwether(["cluster", "get", "-o", "name"]);
    let ended = run(command.env_remove("BELLWETHER_API").current_dir(parent.path()));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "cluster/spoke-1\ncluster/spoke-2\n"),
        "{}",
        ended.stderr
    );
}

#[test]
fn watch_prints_all_clusters_and_then_every_change() {
    let fixture = Fixture::new();
    fixture.stdout(&["cluster", "create", "demo"]);
    let mut watch = Server::launch(
        &fixture.dir.path().join("watch"),
        &mut fixture.command(&["cluster", "get", "--watch"]),
    );
    let line = |watch: &Server| watch.line().split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(line(&watch), ["EVENT", "NAME", "READY", "AVAILABLE", "GENERATION", "AGE"]);
    assert_eq!(line(&watch)[..5], ["ADDED", "demo", "False", "False", "1"]);
    fixture.stdout(&["cluster", "update", "demo", "-l", "env=prod"]);
    assert_eq!(line(&watch)[..5], ["MODIFIED", "demo", "False", "False", "2"]);
    fixture.stdout(&["cluster", "create", "other"]);
    assert_eq!(line(&watch)[..2], ["ADDED", "other"]);
    fixture.stdout(&["cluster", "delete", "other", "--force", "--reason", "a test"]);
    // The event for the start of the deletion may be merged with the one for its end.
    let mut event = line(&watch);
    if event[0] == "MODIFIED" {
        event = line(&watch);
    }
    assert_eq!(event[..2], ["DELETED", "other"]);
    assert_eq!(watch.terminate().code(), Some(0), "{}", watch.log());
}

#[tokio::test]
async fn watch_of_a_name_waits_for_it_and_prints_no_other_changes() {
    let fixture = Fixture::new();
    let mut watch = Server::launch(
        &fixture.dir.path().join("watch"),
        &mut fixture.command(&["cluster", "get", "demo", "--watch", "-o", "name"]),
    );
    eventually("the watch waits", || async {
        (watch.log() == "there is no cluster demo yet; waiting for it\n").then_some(())
    })
    .await;
    fixture.stdout(&["cluster", "create", "other"]);
    fixture.stdout(&["cluster", "create", "demo"]);
    assert_eq!(watch.line(), "ADDED cluster/demo");
    fixture.stdout(&["cluster", "update", "other", "-l", "env=prod"]);
    fixture.stdout(&["cluster", "update", "demo", "-l", "env=prod"]);
    assert_eq!(watch.line(), "MODIFIED cluster/demo");
    assert_eq!(watch.terminate().code(), Some(0), "{}", watch.log());
}
