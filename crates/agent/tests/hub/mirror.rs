//! The hub learns which add-ons beat.

use bellwether_agent::mirror;
use bellwether_testkit::Tap;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{INSTANCES, Stage, condition};

fn run(stage: &Stage<'_>) -> (JoinSet<()>, Tap) {
    let (hub, tap) = Tap::on(stage.hub.client());
    let mut tasks = JoinSet::new();
    tasks.spawn(mirror::run(stage.agent_by(hub), stage.context()));
    (tasks, tap)
}

pub(crate) async fn an_add_on_that_falls_silent_and_comes_back_is_told_of(stage: &Stage<'_>) {
    stage.install("metrics").await;
    stage.instance("i", "metrics").await;
    let (_mirror, tap) = run(stage);
    stage.pass(10).await;
    assert_eq!(tap.writes(), [], "one that has never beaten is not told of");
    stage.say("i", "True", "ComponentsUp", 1).await;
    let told = stage.until_told("metrics", "True", "ReceivingHeartbeats").await;
    assert_eq!(told["lastTransitionTime"], "2024-05-01T10:00:01Z");
    stage.say("i", "Unknown", "HeartbeatTimeout", 31).await;
    let told = stage.until_told("metrics", "Unknown", "HeartbeatTimeout").await;
    assert_eq!(told["lastTransitionTime"], "2024-05-01T10:00:31Z");
    assert_eq!(told["message"], "HeartbeatTimeout it is");
    stage.say("i", "True", "ReceivingHeartbeats", 41).await;
    stage.until_told("metrics", "True", "ReceivingHeartbeats").await;
    stage.pass(60).await;
    assert_eq!(tap.writes().len(), 3);
}

pub(crate) async fn an_add_on_that_is_not_well_says_why(stage: &Stage<'_>) {
    stage.install("metrics").await;
    stage.instance("one", "metrics").await;
    stage.instance("two", "metrics").await;
    let _mirror = run(stage);
    stage.say("one", "True", "ComponentsUp", 1).await;
    stage.say("two", "False", "ComponentDown", 2).await;
    let told = stage.until_told("metrics", "False", "ComponentDown").await;
    assert_eq!(told["message"], "ComponentDown it is");
    stage.spoke.delete(stage.instance_path("two")).await.expect(200);
    stage.until_told("metrics", "True", "ReceivingHeartbeats").await;
}

pub(crate) async fn heartbeats_alone_are_not_told(stage: &Stage<'_>) {
    stage.install("metrics").await;
    stage.instance("i", "metrics").await;
    stage.say("i", "True", "ComponentsUp", 1).await;
    let (_mirror, tap) = run(stage);
    stage.until_told("metrics", "True", "ReceivingHeartbeats").await;
    for second in 10..20 {
        let beat = json!({"status": {"lastHeartbeatTime": format!("2024-05-01T10:01:{second}Z")}});
        stage.spoke.merge(format!("{}/status", stage.instance_path("i")), &beat).await.expect(200);
    }
    stage.pass(30).await;
    assert_eq!(tap.writes().len(), 1);
}

/// An add-on that no other scenario has instances of: all of them have to beat.
const VOUCHED: &str = "vouched";

/// What the hub says of the change of an add-on.
async fn progress(stage: &Stage<'_>, reason: &str, second: u32) {
    let change = json!({"type": "Progressing", "status": "False", "reason": reason, "message": "m",
        "lastTransitionTime": format!("2024-05-01T10:00:{second:02}Z")});
    let addon = stage.hub.get(stage.addon_path(VOUCHED)).await.expect(200);
    let mut held = condition(&addon, "Heartbeat");
    held.as_object_mut().map(|held| held.remove("observedGeneration"));
    let all: Vec<Value> = [change, held].into_iter().filter(Value::is_object).collect();
    let patch = json!({"status": {"conditions": all}});
    stage.hub.merge(format!("{}/status", stage.addon_path(VOUCHED)), &patch).await.expect(200);
}

pub(crate) async fn the_first_heartbeats_after_a_change_vouch_for_it_once(stage: &Stage<'_>) {
    let beat = async |name: &str, second: u32| {
        let beat = json!({"status": {"lastHeartbeatTime": format!("2024-05-01T10:01:{second}Z")}});
        stage.spoke.merge(format!("{}/status", stage.instance_path(name)), &beat).await.expect(200);
    };
    let vouched = async || {
        let addon = stage.hub.get(stage.addon_path(VOUCHED)).await.expect(200);
        condition(&addon, "Heartbeat")["observedGeneration"].as_i64()
    };
    stage.install(VOUCHED).await;
    for name in ["one", "two"] {
        stage.instance(name, VOUCHED).await;
        stage.say(name, "True", "ComponentsUp", 1).await;
    }
    let (_mirror, tap) = run(stage);
    stage.until_told(VOUCHED, "True", "ReceivingHeartbeats").await;
    // Between, and after what failed, nothing is vouched for.
    for reason in ["Upgrading", "Failed"] {
        progress(stage, reason, 2).await;
        beat("one", 10).await;
        beat("two", 10).await;
        stage.pass(5).await;
        assert_eq!(vouched().await, None, "{reason}");
    }
    for (round, second) in [(1, 20_u32), (2, 30)] {
        progress(stage, "Succeed", second).await;
        stage.pass(5).await;
        assert_eq!(vouched().await, None, "what was heard before does not count");
        beat("one", second).await;
        stage.pass(5).await;
        assert_eq!(vouched().await, None, "nor does one of two");
        beat("two", second).await;
        let there = |addon: &Value| {
            let vouched =
                condition(addon, "Heartbeat")["observedGeneration"] == addon["metadata"]["generation"];
            vouched.then_some(())
        };
        stage.until(&stage.addon_path(VOUCHED), "is vouched for", there).await;
        for more in 1..5 {
            beat("one", second + more).await;
        }
        stage.pass(30).await;
        assert_eq!(tap.writes().len(), 1 + round, "once for each change");
    }
}

pub(crate) async fn conditions_of_others_stay_as_they_are(stage: &Stage<'_>) {
    stage.install("metrics").await;
    stage.instance("i", "metrics").await;
    let others = json!([
        {"type": "Available", "status": "True", "reason": "X", "message": "m", "lastTransitionTime": "2024-05-01T10:00:00Z"},
        {"type": "Progressing", "status": "False", "reason": "Succeed", "message": "m", "lastTransitionTime": "2024-05-01T10:00:00Z"},
    ]);
    let status = json!({"status": {"conditions": others, "currentVersion": "v1"}});
    stage.hub.merge(format!("{}/status", stage.addon_path("metrics")), &status).await.expect(200);
    let _mirror = run(stage);
    stage.say("i", "Unknown", "HeartbeatTimeout", 1).await;
    stage.until_told("metrics", "Unknown", "HeartbeatTimeout").await;
    let addon = stage.hub.get(stage.addon_path("metrics")).await.expect(200);
    for kept in others.as_array().unwrap() {
        assert_eq!(condition(&addon, kept["type"].as_str().unwrap()), *kept);
    }
    assert_eq!(addon["status"]["currentVersion"], "v1");
    // Another writes its own condition, and ours stays.
    let changed = json!({"type": "Available", "status": "Unknown", "reason": "HeartbeatTimeout", "message": "m",
        "lastTransitionTime": "2024-05-01T10:00:09Z"});
    let kept = [changed.clone(), others[1].clone(), condition(&addon, "Heartbeat")];
    stage
        .hub
        .merge(format!("{}/status", stage.addon_path("metrics")), &json!({"status": {"conditions": kept}}))
        .await
        .expect(200);
    stage.say("i", "True", "ComponentsUp", 11).await;
    stage.until_told("metrics", "True", "ReceivingHeartbeats").await;
    let addon = stage.hub.get(stage.addon_path("metrics")).await.expect(200);
    assert_eq!(condition(&addon, "Available"), changed);
}

pub(crate) async fn an_add_on_that_comes_later_is_told_of_and_one_that_goes_is_taken_back(stage: &Stage<'_>) {
    let _mirror = run(stage);
    // Owned by an Addon, whatever its label says.
    let addon = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon",
        "metadata": {"name": format!("policy-{}", stage.namespace)},
        "spec": {"displayName": "P", "install": {"type": "External", "external": {"namespace": stage.namespace}},
            "namespaces": [{"name": stage.namespace}]}});
    let made = stage.spoke.post(format!("{INSTANCES}/addons"), &addon).await.expect(201);
    let name = made["metadata"]["name"].as_str().unwrap();
    stage.instance("i", "other").await;
    let owner = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": name,
        "uid": made["metadata"]["uid"]});
    let owned = json!({"metadata": {"ownerReferences": [owner]}});
    stage.spoke.merge(stage.instance_path("i"), &owned).await.expect(200);
    stage.say("i", "False", "ComponentDown", 1).await;
    stage.pass(5).await;
    stage.install(name).await;
    stage.until_told(name, "False", "ComponentDown").await;
    stage.spoke.delete(stage.instance_path("i")).await.expect(200);
    let silent = |addon: &Value| condition(addon, "Heartbeat").is_null().then_some(());
    stage.until(&stage.addon_path(name), "has no Heartbeat", silent).await;
}
