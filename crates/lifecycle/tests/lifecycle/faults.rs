//! What rollouts must hold through: timers that are far away, templates that are made anew, answers that never come.

use std::time::Duration;

use bellwether_lifecycle::addon;
use bellwether_testkit::{Cluster, Tap, eventually};
use http::Method;
use serde_json::json;

use crate::fleet::{Fleet, Manner};
use crate::rollouts::{at_v1, progressive};

const DONE: &str = "False/Succeed: install completed with no errors.";
const UPGRADING: &str = "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
const UP: &str = "True/WorkApplied: All objects are available.";

pub(crate) async fn version_set_by_user_takes_effect_during_soak_time(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    let soaking =
        |version: &str| progressive(&fleet, version, json!({"maxConcurrency": 1, "minSuccessTime": "1h"}));
    fleet.place(json!([soaking("v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
    fleet.until_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    // All is planned by now, and the next look would be in an hour.
    fleet.pass(Duration::from_secs(1)).await;
    let mut paused = soaking("v2");
    paused["paused"] = json!(true);
    fleet.place(json!([paused])).await;
    fleet.until_condition("c2", "Configured", "False/WaitingForTurn: the rollout is paused").await;
    fleet.publish("v3").await;
    eventually("the new version is among those that there are", async || {
        let found = hub.get(fleet.management_path()).await.json();
        (found["status"]["supportedVersions"] == json!(["v1", "v2", "v3"])).then_some(())
    })
    .await;
    fleet.place(json!([soaking("v3")])).await;
    fleet.until_said("c1", &format!("C=v3 L=v2 {DONE}")).await;
    assert_eq!(fleet.said("c2").await, format!("C=v1 L= {DONE}"));
    fleet.place(json!([progressive(&fleet, "v3", json!({"maxConcurrency": 1}))])).await;
    for cluster in ["c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v3 L=v1 {DONE}")).await;
    }
}

pub(crate) async fn success_before_deadline_lets_next_cluster_start(hub: &Cluster) {
    let fleet = at_v1(hub, 2).await;
    fleet.behaves("c1", Manner::Silent);
    let mut placed = progressive(&fleet, "v2", json!({"maxConcurrency": 1, "progressDeadline": "10m"}));
    placed["rolloutStrategy"]["successCriteria"] = json!("WorkloadAvailable");
    fleet.place(json!([placed])).await;
    fleet.until_said("c1", UPGRADING).await;
    fleet.until_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    // All is planned by now, and the next look would be at the deadline.
    fleet.pass(Duration::from_secs(1)).await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
}

pub(crate) async fn recreated_template_is_rolled_out(hub: &Cluster) {
    let fleet = at_v1(hub, 3).await;
    let mut paused = fleet.placed("global", "v1");
    paused["paused"] = json!(true);
    fleet.place(json!([paused])).await;
    let before = [fleet.work("c1").await, fleet.work("c2").await, fleet.work("c3").await];
    fleet.withdraw("v1").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "hello", "namespace": "default"}, "data": {"version": "v1", "made": "anew"}});
    fleet.publish_with("v1", json!([other])).await.expect(201);
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_condition(cluster, "Configured", "False/WaitingForTurn: the rollout is paused").await;
        assert_eq!(fleet.said(cluster).await, format!("C=v1 L= {DONE}"));
    }
    let works = [fleet.work("c1").await, fleet.work("c2").await, fleet.work("c3").await];
    assert_eq!(works, before, "nobody changes");
    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([progressive(&fleet, "v1", json!({"maxConcurrency": 1}))])).await;
    fleet.until_said("c1", "C=unknown L= True/Installing: Installing addon to version v1.").await;
    for cluster in ["c2", "c3"] {
        fleet.until_condition(cluster, "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    }
    assert_eq!([fleet.work("c2").await, fleet.work("c3").await], before[1..], "one at a time");
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    for cluster in ["c1", "c2", "c3"] {
        eventually("it has what was made anew", async || {
            let data = &fleet.work(cluster).await["spec"]["workload"]["manifests"][0]["data"];
            (data["made"] == "anew").then_some(())
        })
        .await;
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
}

pub(crate) async fn identical_recreated_template_starts_nothing(hub: &Cluster) {
    let fleet = at_v1(hub, 1).await;
    let (work, since) = (fleet.work("c1").await, progressing_since(&fleet, "c1").await);
    fleet.withdraw("v1").await;
    let words = "True/VersionUnsupported: version v1 is no longer supported: no AddOnTemplate provides it";
    fleet.until_condition("c1", "Degraded", words).await;
    assert_eq!(fleet.said("c1").await, format!("C=v1 L= {DONE}"));
    fleet.publish("v1").await;
    fleet.until_condition("c1", "Degraded", "/: ").await;
    fleet.pass(Duration::from_secs(1)).await;
    assert_eq!(fleet.said("c1").await, format!("C=v1 L= {DONE}"));
    assert_eq!((fleet.work("c1").await, progressing_since(&fleet, "c1").await), (work, since));
}

async fn progressing_since(fleet: &Fleet<'_>, cluster: &str) -> serde_json::Value {
    let object = fleet.addon(cluster).await;
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|said| said["type"] == "Progressing");
    found.unwrap_or_default()["lastTransitionTime"].clone()
}

pub(crate) async fn progress_of_other_clusters_causes_no_writes(hub: &Cluster) {
    let fleet = at_v1(hub, 20).await;
    let tap = fleet.start();
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 2}))])).await;
    for number in 1..=20 {
        fleet.until_said(&format!("c{number}"), &format!("C=v2 L=v1 {DONE}")).await;
    }
    for number in 1..=20 {
        let path = fleet.path(&format!("c{number}"));
        let writes: Vec<_> = tap.writes().into_iter().filter(|sent| sent.path.starts_with(&path)).collect();
        assert!(writes.len() <= 5, "{} writes of one that waits its turn: {writes:#?}", writes.len());
    }
}

pub(crate) async fn waiting_cluster_reports_actual_availability(hub: &Cluster) {
    let fleet = at_v1(hub, 2).await;
    assert_eq!(fleet.condition("c2", "Available").await, UP);
    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    fleet.until_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    fleet.pass(Duration::from_secs(1)).await;
    assert_eq!(fleet.condition("c2", "Available").await, UP);
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c2", &format!("C=v2 L=v1 {DONE}")).await;
    fleet.place(json!([fleet.placed("global", "v9")])).await;
    fleet.until_said("c2", "C=unknown L=v2 False/Failed: could not upgrade to invalid version v9").await;
    fleet.pass(Duration::from_secs(1)).await;
    assert_eq!(fleet.condition("c2", "Available").await, UP, "what runs, runs");
}

pub(crate) async fn longer_deadline_restarts_timed_out_change(hub: &Cluster) {
    let fleet = at_v1(hub, 1).await;
    fleet.behaves("c1", Manner::Silent);
    let pace = |deadline: &str| {
        progressive(&fleet, "v2", json!({"maxConcurrency": 1, "progressDeadline": deadline}))
    };
    fleet.place(json!([pace("2s")])).await;
    let late = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 2s";
    fleet.until_said("c1", late).await;
    fleet.start();
    fleet.pass(Duration::from_secs(1)).await;
    assert_eq!(fleet.said("c1").await, late, "another process gives no more time");
    fleet.place(json!([pace("4s")])).await;
    fleet.until_said("c1", UPGRADING).await;
    fleet.until_said("c1", &late.replace("2s", "4s")).await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
}

pub(crate) async fn configuration_change_restarts_deadline(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1-levelled"]).await;
    fleet.behaves("c1", Manner::Silent);
    let config = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "level"}, "spec": {"customizedVariables": [{"name": "LEVEL", "value": "info"}]}});
    hub.post(fleet.config_path(), &config).await.expect(201);
    let pace = json!({"maxConcurrency": 1, "progressDeadline": "10s"});
    let mut placed = progressive(&fleet, "v1-levelled", pace);
    placed["addonTemplate"]["configs"] = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "level"}]);
    fleet.place(json!([placed])).await;
    let installing = "C=unknown L= True/Installing: Installing addon to version v1-levelled.";
    fleet.until_said("c1", installing).await;
    fleet.pass(Duration::from_secs(6)).await;
    let louder = json!({"spec": {"customizedVariables": [{"name": "LEVEL", "value": "debug"}]}});
    hub.merge(format!("{}/level", fleet.config_path()), &louder).await.expect(200);
    fleet.pass(Duration::from_secs(8)).await;
    assert_eq!(fleet.said("c1").await, installing);
    assert_eq!(fleet.work("c1").await["spec"]["workload"]["manifests"][0]["data"]["level"], "debug");
    fleet.pass(Duration::from_secs(4)).await;
    let late = "C=unknown L= False/Failed: could not install version v1-levelled: timed out after 10s";
    assert_eq!(fleet.said("c1").await, late);
}

pub(crate) async fn hanging_reconcile_releases_slot(hub: &Cluster) {
    let fleet = at_v1(hub, 2).await;
    let (client, tap) = Tap::on(hub.client());
    fleet.start_as(|controller| if controller == addon::NAME { client.clone() } else { hub.client() });
    tap.before(Method::PATCH, "/managedclusteraddons/", std::future::pending);
    fleet.place(json!([progressive(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    eventually("a visit hangs", async || (!tap.is_set()).then_some(())).await;
    fleet.pass(Duration::from_secs(31)).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
    }
}
