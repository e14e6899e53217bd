//! The agent mirrors the heartbeats of add-ons to the hub.

use bellwether_agent::mirror;
use bellwether_testkit::Tap;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::fixture::{Fixture, INSTANCES, condition};

fn start_mirror(fixture: &Fixture<'_>) -> (JoinSet<()>, Tap) {
    let (hub, tap) = Tap::on(fixture.hub.client());
    let mut tasks = JoinSet::new();
    tasks.spawn(mirror::run(fixture.agent_with(hub), fixture.context()));
    (tasks, tap)
}

pub(crate) async fn silent_addon_and_its_return_are_mirrored(fixture: &Fixture<'_>) {
    fixture.create_addon("metrics").await;
    fixture.create_instance("i", "metrics").await;
    let (_mirror, tap) = start_mirror(fixture);
    fixture.sleep(10).await;
    assert_eq!(tap.writes(), [], "an add-on without heartbeats is not mirrored");
    fixture.report_health("i", "True", "ComponentsUp", 1).await;
    let heartbeat = fixture.wait_for_heartbeat("metrics", "True", "ReceivingHeartbeats").await;
    assert_eq!(heartbeat["lastTransitionTime"], "2024-05-01T10:00:01Z");
    fixture.report_health("i", "Unknown", "HeartbeatTimeout", 31).await;
    let heartbeat = fixture.wait_for_heartbeat("metrics", "Unknown", "HeartbeatTimeout").await;
    assert_eq!(heartbeat["lastTransitionTime"], "2024-05-01T10:00:31Z");
    assert_eq!(heartbeat["message"], "message of HeartbeatTimeout");
    fixture.report_health("i", "True", "ReceivingHeartbeats", 41).await;
    fixture.wait_for_heartbeat("metrics", "True", "ReceivingHeartbeats").await;
    fixture.sleep(60).await;
    assert_eq!(tap.writes().len(), 3);
}

pub(crate) async fn reason_of_the_unhealthy_instance_is_mirrored(fixture: &Fixture<'_>) {
    fixture.create_addon("metrics").await;
    fixture.create_instance("one", "metrics").await;
    fixture.create_instance("two", "metrics").await;
    let _mirror = start_mirror(fixture);
    fixture.report_health("one", "True", "ComponentsUp", 1).await;
    fixture.report_health("two", "False", "ComponentDown", 2).await;
    let heartbeat = fixture.wait_for_heartbeat("metrics", "False", "ComponentDown").await;
    assert_eq!(heartbeat["message"], "message of ComponentDown");
    fixture.spoke.delete(fixture.instance_path("two")).await.expect(200);
    fixture.wait_for_heartbeat("metrics", "True", "ReceivingHeartbeats").await;
}

pub(crate) async fn single_heartbeats_are_not_mirrored(fixture: &Fixture<'_>) {
    fixture.create_addon("metrics").await;
    fixture.create_instance("i", "metrics").await;
    fixture.report_health("i", "True", "ComponentsUp", 1).await;
    let (_mirror, tap) = start_mirror(fixture);
    fixture.wait_for_heartbeat("metrics", "True", "ReceivingHeartbeats").await;
    for second in 10..20 {
        let status = json!({"status": {"lastHeartbeatTime": format!("2024-05-01T10:01:{second}Z")}});
        fixture.spoke.merge(format!("{}/status", fixture.instance_path("i")), &status).await.expect(200);
    }
    fixture.sleep(30).await;
    assert_eq!(tap.writes().len(), 1);
}

/// An add-on whose instances no other scenario creates, because all of them have to send heartbeats.
const CONFIRMED: &str = "confirmed";

/// Sets the condition `Progressing` of the add-on on the hub, and removes the confirmation, as the lifecycle controller
/// does.
async fn set_progressing(fixture: &Fixture<'_>, reason: &str, second: u32) {
    let change = json!({"type": "Progressing", "status": "False", "reason": reason, "message": "m",
        "lastTransitionTime": format!("2024-05-01T10:00:{second:02}Z")});
    let addon = fixture.hub.get(fixture.addon_path(CONFIRMED)).await.expect(200);
    let mut heartbeat = condition(&addon, "Heartbeat");
    heartbeat.as_object_mut().map(|heartbeat| heartbeat.remove("observedGeneration"));
    let all: Vec<Value> = [change, heartbeat].into_iter().filter(Value::is_object).collect();
    let patch = json!({"status": {"conditions": all}});
    fixture.hub.merge(format!("{}/status", fixture.addon_path(CONFIRMED)), &patch).await.expect(200);
}

pub(crate) async fn first_heartbeats_after_a_change_confirm_the_generation_once(fixture: &Fixture<'_>) {
    let send_heartbeat = async |name: &str, second: u32| {
        let status = json!({"status": {"lastHeartbeatTime": format!("2024-05-01T10:01:{second}Z")}});
        fixture.spoke.merge(format!("{}/status", fixture.instance_path(name)), &status).await.expect(200);
    };
    let confirmed_generation = async || {
        let addon = fixture.hub.get(fixture.addon_path(CONFIRMED)).await.expect(200);
        condition(&addon, "Heartbeat")["observedGeneration"].as_i64()
    };
    fixture.create_addon(CONFIRMED).await;
    for name in ["one", "two"] {
        fixture.create_instance(name, CONFIRMED).await;
        fixture.report_health(name, "True", "ComponentsUp", 1).await;
    }
    let (_mirror, tap) = start_mirror(fixture);
    fixture.wait_for_heartbeat(CONFIRMED, "True", "ReceivingHeartbeats").await;
    // During a change, and after one that failed, nothing is confirmed.
    for reason in ["Upgrading", "Failed"] {
        set_progressing(fixture, reason, 2).await;
        send_heartbeat("one", 10).await;
        send_heartbeat("two", 10).await;
        fixture.sleep(5).await;
        assert_eq!(confirmed_generation().await, None, "{reason}");
    }
    for (change, second) in [(1, 20_u32), (2, 30)] {
        set_progressing(fixture, "Succeed", second).await;
        fixture.sleep(5).await;
        assert_eq!(confirmed_generation().await, None, "earlier heartbeats do not count");
        send_heartbeat("one", second).await;
        fixture.sleep(5).await;
        assert_eq!(confirmed_generation().await, None, "one of two instances is not enough");
        send_heartbeat("two", second).await;
        let is_confirmed = |addon: &Value| {
            let confirmed =
                condition(addon, "Heartbeat")["observedGeneration"] == addon["metadata"]["generation"];
            confirmed.then_some(())
        };
        fixture.wait_for(&fixture.addon_path(CONFIRMED), "is confirmed", is_confirmed).await;
        for more in 1..5 {
            send_heartbeat("one", second + more).await;
        }
        fixture.sleep(30).await;
        assert_eq!(tap.writes().len(), 1 + change, "once for each change");
    }
}

pub(crate) async fn conditions_of_other_writers_are_kept(fixture: &Fixture<'_>) {
    fixture.create_addon("metrics").await;
    fixture.create_instance("i", "metrics").await;
    let others = json!([
        {"type": "Available", "status": "True", "reason": "X", "message": "m", "lastTransitionTime": "2024-05-01T10:00:00Z"},
        {"type": "Progressing", "status": "False", "reason": "Succeed", "message": "m", "lastTransitionTime": "2024-05-01T10:00:00Z"},
    ]);
    let status = json!({"status": {"conditions": others, "currentVersion": "v1"}});
    fixture.hub.merge(format!("{}/status", fixture.addon_path("metrics")), &status).await.expect(200);
    let _mirror = start_mirror(fixture);
    fixture.report_health("i", "Unknown", "HeartbeatTimeout", 1).await;
    fixture.wait_for_heartbeat("metrics", "Unknown", "HeartbeatTimeout").await;
    let addon = fixture.hub.get(fixture.addon_path("metrics")).await.expect(200);
    for kept in others.as_array().unwrap() {
        assert_eq!(condition(&addon, kept["type"].as_str().unwrap()), *kept);
    }
    assert_eq!(addon["status"]["currentVersion"], "v1");
    // Another writer changes its own condition, and keeps ours.
    let changed = json!({"type": "Available", "status": "Unknown", "reason": "HeartbeatTimeout", "message": "m",
        "lastTransitionTime": "2024-05-01T10:00:09Z"});
    let kept = [changed.clone(), others[1].clone(), condition(&addon, "Heartbeat")];
    fixture
        .hub
        .merge(format!("{}/status", fixture.addon_path("metrics")), &json!({"status": {"conditions": kept}}))
        .await
        .expect(200);
    fixture.report_health("i", "True", "ComponentsUp", 11).await;
    fixture.wait_for_heartbeat("metrics", "True", "ReceivingHeartbeats").await;
    let addon = fixture.hub.get(fixture.addon_path("metrics")).await.expect(200);
    assert_eq!(condition(&addon, "Available"), changed);
}

pub(crate) async fn condition_appears_with_the_addon_and_is_removed_with_its_instance(fixture: &Fixture<'_>) {
    let _mirror = start_mirror(fixture);
    // The owner takes precedence over the label.
    let addon = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon",
        "metadata": {"name": format!("policy-{}", fixture.namespace)},
        "spec": {"displayName": "P", "install": {"type": "External", "external": {"namespace": fixture.namespace}},
            "namespaces": [{"name": fixture.namespace}]}});
    let owner = fixture.spoke.post(format!("{INSTANCES}/addons"), &addon).await.expect(201);
    let name = owner["metadata"]["name"].as_str().unwrap();
    fixture.create_instance("i", "other").await;
    let reference = json!({"apiVersion": "addons.managed.openshift.io/v1alpha1", "kind": "Addon", "name": name,
        "uid": owner["metadata"]["uid"]});
    let owned = json!({"metadata": {"ownerReferences": [reference]}});
    fixture.spoke.merge(fixture.instance_path("i"), &owned).await.expect(200);
    fixture.report_health("i", "False", "ComponentDown", 1).await;
    fixture.sleep(5).await;
    fixture.create_addon(name).await;
    fixture.wait_for_heartbeat(name, "False", "ComponentDown").await;
    fixture.spoke.delete(fixture.instance_path("i")).await.expect(200);
    let is_removed = |addon: &Value| condition(addon, "Heartbeat").is_null().then_some(());
    fixture.wait_for(&fixture.addon_path(name), "has no Heartbeat", is_removed).await;
}
