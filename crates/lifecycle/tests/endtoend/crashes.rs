//! The hub controllers or an agent crash at each of their writes during a canary rollout over five clusters:
//! just before the server receives the write, and just after it has executed it. After a restart, the rollout
//! reaches the same state as without a crash.

use std::collections::BTreeMap;

use bellwether_testkit::{CrashAtWrite, CrashPoint, eventually, on_paused_time};
use serde_json::{Map, Value, json};

use crate::fleet::{Addon, Fleet, SUCCEEDED};

const CLUSTERS: usize = 5;
/// The canary is not the first cluster by name. Its agent crashes in one test, and the agent of another
/// cluster too.
const CANARY: usize = 2;

/// The process that crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Hub,
    Agent(usize),
}

/// Starts a rollout: the canary changes first, then two clusters at a time.
async fn start_rollout(addon: &Addon<'_>, version: &str) {
    let rollout = json!({"type": "Progressive", "progressive": {
        "maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "canary"}]}});
    addon.set_placements(json!([addon.placement_strategy_with_rollout("all", version, rollout)])).await;
}

async fn is_complete(addon: &Addon<'_>, version: &str) -> bool {
    let object = addon.fleet.hub.get(addon.management_addon_path()).await.json();
    let one = &object["status"]["installProgressions"][0];
    if one["version"] != version || one["conditions"][0]["reason"] != "Completed" {
        return false;
    }
    for number in 1..=CLUSTERS {
        let status = addon.status_line(number).await;
        if !status.starts_with(&format!("C={version} ")) || !status.ends_with(SUCCEEDED) {
            return false;
        }
    }
    true
}

/// Drops times and `managedFields`, and replaces `observedGeneration` by whether it is the generation of the
/// object: these differ from rollout to rollout.
fn without_times(value: &Value, generation: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| !["lastTransitionTime", "managedFields"].contains(&name.as_str()));
            let kept = kept.map(|(name, value)| match name.as_str() {
                "observedGeneration" => (name.clone(), json!(value == generation)),
                _ => (name.clone(), without_times(value, generation)),
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| without_times(item, generation)).collect(),
        other => other.clone(),
    }
}

/// The fields that must be equal after rollouts with and without a crash.
fn comparable_fields(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let status = without_times(&object["status"], &metadata["generation"]);
    json!({"spec": object["spec"], "status": status, "data": object["data"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "finalizers": metadata["finalizers"]})
}

/// The objects of the add-on on the hub and on the clusters.
async fn read_state(addon: &Addon<'_>) -> BTreeMap<String, Value> {
    let fleet = addon.fleet;
    let mut state = BTreeMap::new();
    let management_addon = fleet.hub.get(addon.management_addon_path()).await.expect(200);
    state.insert("ClusterManagementAddOn".to_owned(), comparable_fields(&management_addon));
    for number in 1..=CLUSTERS {
        state.insert(format!("c{number}"), comparable_fields(&addon.get_addon(number).await));
        let works = fleet.hub.get(addon.works_path(number)).await.expect(200);
        for work in works["items"].as_array().unwrap() {
            state.insert(format!("c{number}: work {}", work["metadata"]["name"]), comparable_fields(work));
        }
        for kind in ["/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"]
        {
            let list = fleet.spoke(number).get(kind).await.expect(200);
            for object in list["items"].as_array().unwrap() {
                let name = object["metadata"]["name"].as_str().unwrap();
                if name.starts_with(&addon.name) {
                    state.insert(format!("c{number}: {kind}/{name}"), comparable_fields(object));
                }
            }
        }
        let records = "/apis/work.open-cluster-management.io/v1/appliedmanifestworks";
        let list = fleet.spoke(number).get(records).await.expect(200);
        let count = list["items"].as_array().unwrap().len();
        state.insert(format!("c{number}: number of AppliedManifestWorks"), json!(count));
    }
    state
}

/// Runs a rollout with a process that crashes at the given write, restarts the process and waits for the end
/// of the rollout. Returns whether the process crashed.
async fn crash_during_rollout(
    addon: &Addon<'_>,
    version: &str,
    process: Process,
    crash: &CrashAtWrite,
) -> bool {
    let fleet = addon.fleet;
    match process {
        Process::Hub => fleet.start_controllers(|_| crash.wrap(fleet.hub.client())),
        Process::Agent(number) => {
            fleet.start_agent_with(
                number,
                crash.wrap(fleet.hub.client()),
                crash.wrap(fleet.spoke(number).client()),
            );
        }
    }
    start_rollout(addon, version).await;
    let has_crashed = eventually("the rollout is complete, or the process crashed", async || {
        if crash.has_crashed() {
            return Some(true);
        }
        is_complete(addon, version).await.then_some(false)
    })
    .await;
    match process {
        Process::Hub => fleet.start_controllers(|_| fleet.hub.client()),
        Process::Agent(number) => fleet.start_agent(number),
    }
    eventually(&format!("all have {version}"), async || is_complete(addon, version).await.then_some(()))
        .await;
    fleet.sleep(5).await;
    has_crashed
}

/// Rolls out two versions in turn, each time with a crash at the next write, until a rollout has fewer writes
/// than that.
fn crash_at_every_write(process: Process, min_crashes: usize) {
    on_paused_time(async {
        let environment = crate::embedded().await;
        let fleet = Fleet::new(&environment, CLUSTERS).await;
        fleet.label_cluster(CANARY, json!({"canary": "true"})).await;
        fleet.create_placement_with_groups("all", json!("100%")).await;
        let addon = fleet.new_addon();
        for (version, part) in [("v1", "old"), ("v2", "new")] {
            // No replicas, because no controller would report them available.
            let mut workload = addon.deployment("d", &format!("example/main:{version}"));
            workload["spec"]["replicas"] = json!(0);
            addon.create_version_with(version, json!([addon.config_map(part, json!({})), workload])).await;
        }
        start_rollout(&addon, "v1").await;
        eventually("all have v1", async || is_complete(&addon, "v1").await.then_some(())).await;
        // The state after rollouts in both directions without a crash.
        let no_crash = CrashAtWrite::new(usize::MAX, CrashPoint::BeforeWrite);
        let mut expected_states = BTreeMap::new();
        for version in ["v2", "v1"] {
            assert!(!crash_during_rollout(&addon, version, process, &no_crash).await);
            expected_states.insert(version, read_state(&addon).await);
        }
        let mut versions = ["v2", "v1"].into_iter().cycle();
        for point in [CrashPoint::BeforeWrite, CrashPoint::AfterWrite] {
            let mut crashes = 0;
            loop {
                let version = versions.next().unwrap();
                let crash = CrashAtWrite::new(crashes + 1, point);
                let has_crashed = crash_during_rollout(&addon, version, process, &crash).await;
                let found = read_state(&addon).await;
                for (what, wanted) in &expected_states[version] {
                    let found = found.get(what).unwrap_or(&Value::Null);
                    assert_eq!(
                        found,
                        wanted,
                        "{what} after a crash of {process:?} at write {} ({point:?})",
                        crashes + 1
                    );
                }
                assert_eq!(found.len(), expected_states[version].len(), "{process:?} {point:?} {crashes}");
                if !has_crashed {
                    break;
                }
                crashes += 1;
            }
            println!("{process:?} {point:?}: {crashes} crashes");
            assert!(crashes >= min_crashes, "only {crashes} writes");
        }
    });
}

#[test]
fn hub_crash_at_any_write_reaches_same_state() {
    crash_at_every_write(Process::Hub, 20);
}

#[test]
fn agent_crash_at_any_write_reaches_same_state() {
    crash_at_every_write(Process::Agent(CANARY), 5);
    crash_at_every_write(Process::Agent(4), 5);
}
