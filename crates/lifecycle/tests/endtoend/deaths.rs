//! The hub, or an agent, dies at every one of its writes in a canary rollout over five clusters: just before the server
//! hears of it, and just after the server did it. Who comes after it brings everything to the same end.

use std::collections::BTreeMap;

use bellwether_testkit::{Fuse, Moment, eventually, on_paused_time};
use serde_json::{Map, Value, json};

use crate::fleet::{Addon, DONE, Fleet};

const CLUSTERS: usize = 5;
/// The canary, and the one whose agent dies; the other agent that dies is one of the rest.
const CANARY: usize = 2;

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mortal {
    Hub,
    Agent(usize),
}

/// One rollout, from the version that all have to the other, with the canary first and then two at a time.
async fn ask(addon: &Addon<'_>, version: &str) {
    let pace = json!({"type": "Progressive", "progressive": {
        "maxConcurrency": 2, "mandatoryDecisionGroups": [{"groupName": "canary"}]}});
    addon.place(json!([addon.paced("all", version, pace)])).await;
}

async fn is_over(addon: &Addon<'_>, version: &str) -> bool {
    let whole = addon.fleet.hub.get(addon.management_path()).await.json();
    let one = &whole["status"]["installProgressions"][0];
    if one["version"] != version || one["conditions"][0]["reason"] != "Completed" {
        return false;
    }
    for number in 1..=CLUSTERS {
        let said = addon.said(number).await;
        if !said.starts_with(&format!("C={version} ")) || !said.ends_with(DONE) {
            return false;
        }
    }
    true
}

/// Without times, and with generations only as far as they are those of the object.
fn timeless(value: &Value, generation: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields
                .iter()
                .filter(|(name, _)| !["lastTransitionTime", "managedFields"].contains(&name.as_str()));
            let kept = kept.map(|(name, value)| match name.as_str() {
                "observedGeneration" => (name.clone(), json!(value == generation)),
                _ => (name.clone(), timeless(value, generation)),
            });
            Value::Object(kept.collect::<Map<_, _>>())
        }
        Value::Array(items) => items.iter().map(|item| timeless(item, generation)).collect(),
        other => other.clone(),
    }
}

fn in_short(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let status = timeless(&object["status"], &metadata["generation"]);
    json!({"spec": object["spec"], "status": status, "data": object["data"], "labels": metadata["labels"],
        "annotations": metadata["annotations"], "finalizers": metadata["finalizers"]})
}

/// All that there is at the end: on the hub, and on the clusters.
async fn state(addon: &Addon<'_>) -> BTreeMap<String, Value> {
    let fleet = addon.fleet;
    let mut state = BTreeMap::new();
    let whole = fleet.hub.get(addon.management_path()).await.expect(200);
    state.insert("the add-on".to_owned(), in_short(&whole));
    for number in 1..=CLUSTERS {
        state.insert(format!("c{number}"), in_short(&addon.read(number).await));
        let works = fleet.hub.get(addon.works_path(number)).await.expect(200);
        for work in works["items"].as_array().unwrap() {
            state.insert(format!("c{number}: work {}", work["metadata"]["name"]), in_short(work));
        }
        for kind in ["/api/v1/namespaces/default/configmaps", "/apis/apps/v1/namespaces/default/deployments"]
        {
            let list = fleet.spoke(number).get(kind).await.expect(200);
            for object in list["items"].as_array().unwrap() {
                let name = object["metadata"]["name"].as_str().unwrap();
                if name.starts_with(&addon.name) {
                    state.insert(format!("c{number}: {kind}/{name}"), in_short(object));
                }
            }
        }
        let records = "/apis/work.open-cluster-management.io/v1/appliedmanifestworks";
        let list = fleet.spoke(number).get(records).await.expect(200);
        let count = list["items"].as_array().unwrap().len();
        state.insert(format!("c{number}: records"), json!(count));
    }
    state
}

/// Dies at its `writes`th write of a rollout, is followed by another, and says whether it did.
async fn rollout(addon: &Addon<'_>, version: &str, mortal: Mortal, fuse: &Fuse) -> bool {
    let fleet = addon.fleet;
    match mortal {
        Mortal::Hub => fleet.start(|_| fuse.on(fleet.hub.client())),
        Mortal::Agent(number) => {
            fleet.employ_by(number, fuse.on(fleet.hub.client()), fuse.on(fleet.spoke(number).client()));
        }
    }
    ask(addon, version).await;
    let died = eventually("it is over, or somebody dies", async || {
        if fuse.is_blown() {
            return Some(true);
        }
        is_over(addon, version).await.then_some(false)
    })
    .await;
    match mortal {
        Mortal::Hub => fleet.start(|_| fleet.hub.client()),
        Mortal::Agent(number) => fleet.employ(number),
    }
    eventually(&format!("all have {version}"), async || is_over(addon, version).await.then_some(())).await;
    fleet.pass(5).await;
    died
}

/// Back and forth between two versions, with a death in each, until there is no write left to die at.
fn at_every_write(mortal: Mortal, least: usize) {
    on_paused_time(async {
        let theatre = crate::embedded().await;
        let fleet = Fleet::new(&theatre, CLUSTERS).await;
        fleet.label(CANARY, json!({"canary": "true"})).await;
        fleet.grouped_placement("all", json!("100%")).await;
        let addon = fleet.addon();
        for (version, part) in [("v1", "old"), ("v2", "new")] {
            // Nothing runs it, so that there is no copy to wait for.
            let mut workload = addon.deployment("d", &format!("example/main:{version}"));
            workload["spec"]["replicas"] = json!(0);
            addon.publish_with(version, json!([addon.map(part, json!({})), workload])).await;
        }
        ask(&addon, "v1").await;
        eventually("all have v1", async || is_over(&addon, "v1").await.then_some(())).await;
        // What it comes to when nobody dies, there and back.
        let endless = Fuse::new(usize::MAX, Moment::BeforeTheWrite);
        let mut undisturbed = BTreeMap::new();
        for version in ["v2", "v1"] {
            assert!(!rollout(&addon, version, mortal, &endless).await);
            undisturbed.insert(version, state(&addon).await);
        }
        let mut versions = ["v2", "v1"].into_iter().cycle();
        for moment in [Moment::BeforeTheWrite, Moment::AfterTheWrite] {
            let mut deaths = 0;
            loop {
                let version = versions.next().unwrap();
                let fuse = Fuse::new(deaths + 1, moment);
                let died = rollout(&addon, version, mortal, &fuse).await;
                let found = state(&addon).await;
                for (what, wanted) in &undisturbed[version] {
                    let found = found.get(what).unwrap_or(&Value::Null);
                    assert_eq!(
                        found,
                        wanted,
                        "{what}, where the {mortal:?} died at write {} ({moment:?})",
                        deaths + 1
                    );
                }
                assert_eq!(found.len(), undisturbed[version].len(), "{mortal:?} {moment:?} {deaths}");
                if !died {
                    break;
                }
                deaths += 1;
            }
            println!("{mortal:?} {moment:?}: {deaths} deaths");
            assert!(deaths >= least, "only {deaths} writes");
        }
    });
}

#[test]
fn hub_crash_at_any_write_reaches_same_state() {
    at_every_write(Mortal::Hub, 20);
}

#[test]
fn agent_crash_at_any_write_reaches_same_state() {
    at_every_write(Mortal::Agent(CANARY), 5);
    at_every_write(Mortal::Agent(4), 5);
}
