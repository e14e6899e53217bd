//! Rollouts under unusual conditions: distant deadlines, recreated templates, timeouts and requests that
//! hang.

use std::time::Duration;

use bellwether_lifecycle::addon;
use bellwether_testkit::{Cluster, Tap, eventually};
use http::Method;
use serde_json::json;

use crate::fleet::{AgentBehaviour, Fleet};
use crate::rollouts::{fleet_at_v1, progressive_placement};

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";
const UPGRADING: &str = "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.";
const AVAILABLE: &str = "True/WorkApplied: All objects are available.";

pub(crate) async fn changed_strategy_takes_effect_during_soak_time(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    let soaking = |version: &str| {
        progressive_placement(&fleet, version, json!({"maxConcurrency": 1, "minSuccessTime": "1h"}))
    };
    fleet.set_placements(json!([soaking("v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    fleet.wait_for_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    // The plan is made by now, and its next deadline is the end of the soak time in an hour.
    fleet.sleep(Duration::from_secs(1)).await;
    let mut paused = soaking("v2");
    paused["paused"] = json!(true);
    fleet.set_placements(json!([paused])).await;
    fleet.wait_for_condition("c2", "Configured", "False/WaitingForTurn: the rollout is paused").await;
    fleet.create_version("v3").await;
    eventually("v3 is a supported version", async || {
        let found = hub.get(fleet.management_addon_path()).await.json();
        (found["status"]["supportedVersions"] == json!(["v1", "v2", "v3"])).then_some(())
    })
    .await;
    fleet.set_placements(json!([soaking("v3")])).await;
    fleet.wait_for_status("c1", &format!("C=v3 L=v2 {SUCCEEDED}")).await;
    assert_eq!(fleet.status_line("c2").await, format!("C=v1 L= {SUCCEEDED}"));
    fleet.set_placements(json!([progressive_placement(&fleet, "v3", json!({"maxConcurrency": 1}))])).await;
    for cluster in ["c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v3 L=v1 {SUCCEEDED}")).await;
    }
}

pub(crate) async fn success_before_deadline_lets_next_cluster_start(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 2).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let mut strategy =
        progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1, "progressDeadline": "10m"}));
    strategy["rolloutStrategy"]["successCriteria"] = json!("WorkloadAvailable");
    fleet.set_placements(json!([strategy])).await;
    fleet.wait_for_status("c1", UPGRADING).await;
    fleet.wait_for_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    // The plan is made by now, and its next deadline is in ten minutes.
    fleet.sleep(Duration::from_secs(1)).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}

pub(crate) async fn recreated_template_is_rolled_out(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 3).await;
    let mut paused = fleet.placement_strategy("global", "v1");
    paused["paused"] = json!(true);
    fleet.set_placements(json!([paused])).await;
    let before = [fleet.get_work("c1").await, fleet.get_work("c2").await, fleet.get_work("c3").await];
    fleet.delete_version("v1").await;
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "hello", "namespace": "default"}, "data": {"version": "v1", "recreated": "true"}});
    fleet.create_version_with_manifests("v1", json!([other])).await.expect(201);
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_condition(cluster, "Configured", "False/WaitingForTurn: the rollout is paused").await;
        assert_eq!(fleet.status_line(cluster).await, format!("C=v1 L= {SUCCEEDED}"));
    }
    let works = [fleet.get_work("c1").await, fleet.get_work("c2").await, fleet.get_work("c3").await];
    assert_eq!(works, before, "a paused rollout changes no ManifestWork");
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.set_placements(json!([progressive_placement(&fleet, "v1", json!({"maxConcurrency": 1}))])).await;
    fleet.wait_for_status("c1", "C=unknown L= True/Installing: Installing addon to version v1.").await;
    for cluster in ["c2", "c3"] {
        fleet.wait_for_condition(cluster, "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    }
    assert_eq!(
        [fleet.get_work("c2").await, fleet.get_work("c3").await],
        before[1..],
        "c2 and c3 wait for c1"
    );
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    for cluster in ["c1", "c2", "c3"] {
        eventually("the ManifestWork has the manifests of the recreated template", async || {
            let data = &fleet.get_work(cluster).await["spec"]["workload"]["manifests"][0]["data"];
            (data["recreated"] == "true").then_some(())
        })
        .await;
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
}

pub(crate) async fn identical_recreated_template_starts_nothing(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 1).await;
    let (work, since) = (fleet.get_work("c1").await, progressing_since(&fleet, "c1").await);
    fleet.delete_version("v1").await;
    let expected = "True/VersionUnsupported: version v1 is no longer supported: no AddOnTemplate provides it";
    fleet.wait_for_condition("c1", "Degraded", expected).await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v1 L= {SUCCEEDED}"));
    fleet.create_version("v1").await;
    fleet.wait_for_condition("c1", "Degraded", "/: ").await;
    fleet.sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v1 L= {SUCCEEDED}"));
    assert_eq!((fleet.get_work("c1").await, progressing_since(&fleet, "c1").await), (work, since));
}

async fn progressing_since(fleet: &Fleet<'_>, cluster: &str) -> serde_json::Value {
    let object = fleet.get_addon(cluster).await;
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|condition| condition["type"] == "Progressing");
    found.unwrap_or_default()["lastTransitionTime"].clone()
}

pub(crate) async fn progress_of_other_clusters_causes_no_writes(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 20).await;
    let tap = fleet.start_controllers();
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 2}))])).await;
    for number in 1..=20 {
        fleet.wait_for_status(&format!("c{number}"), &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
    for number in 1..=20 {
        let path = fleet.addon_path(&format!("c{number}"));
        let writes: Vec<_> = tap.writes().into_iter().filter(|sent| sent.path.starts_with(&path)).collect();
        assert!(writes.len() <= 5, "{} writes to the add-on of one cluster: {writes:#?}", writes.len());
    }
}

pub(crate) async fn waiting_cluster_reports_actual_availability(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 2).await;
    assert_eq!(fleet.condition("c2", "Available").await, AVAILABLE);
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    fleet.wait_for_condition("c2", "Configured", "False/WaitingForTurn: at most 1 at a time").await;
    fleet.sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.condition("c2", "Available").await, AVAILABLE);
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c2", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v9")])).await;
    fleet.wait_for_status("c2", "C=unknown L=v2 False/Failed: could not upgrade to invalid version v9").await;
    fleet.sleep(Duration::from_secs(1)).await;
    assert_eq!(
        fleet.condition("c2", "Available").await,
        AVAILABLE,
        "the installed version is still available"
    );
}

pub(crate) async fn longer_deadline_restarts_timed_out_change(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 1).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let rollout = |deadline: &str| {
        progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1, "progressDeadline": deadline}))
    };
    fleet.set_placements(json!([rollout("2s")])).await;
    let timed_out = "C=unknown L=v1 False/Failed: could not upgrade to version v2: timed out after 2s";
    fleet.wait_for_status("c1", timed_out).await;
    fleet.start_controllers();
    fleet.sleep(Duration::from_secs(1)).await;
    assert_eq!(fleet.status_line("c1").await, timed_out, "a restart does not extend the deadline");
    fleet.set_placements(json!([rollout("4s")])).await;
    fleet.wait_for_status("c1", UPGRADING).await;
    fleet.wait_for_status("c1", &timed_out.replace("2s", "4s")).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}

pub(crate) async fn configuration_change_restarts_deadline(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1-levelled"]).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let config = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "level"}, "spec": {"customizedVariables": [{"name": "LEVEL", "value": "info"}]}});
    hub.post(fleet.deployment_configs_path(), &config).await.expect(201);
    let rollout = json!({"maxConcurrency": 1, "progressDeadline": "10s"});
    let mut strategy = progressive_placement(&fleet, "v1-levelled", rollout);
    strategy["addonTemplate"]["configs"] = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "level"}]);
    fleet.set_placements(json!([strategy])).await;
    let installing = "C=unknown L= True/Installing: Installing addon to version v1-levelled.";
    fleet.wait_for_status("c1", installing).await;
    fleet.sleep(Duration::from_secs(6)).await;
    let updated = json!({"spec": {"customizedVariables": [{"name": "LEVEL", "value": "debug"}]}});
    hub.merge(format!("{}/level", fleet.deployment_configs_path()), &updated).await.expect(200);
    fleet.sleep(Duration::from_secs(8)).await;
    assert_eq!(fleet.status_line("c1").await, installing);
    assert_eq!(fleet.get_work("c1").await["spec"]["workload"]["manifests"][0]["data"]["level"], "debug");
    fleet.sleep(Duration::from_secs(4)).await;
    let timed_out = "C=unknown L= False/Failed: could not install version v1-levelled: timed out after 10s";
    assert_eq!(fleet.status_line("c1").await, timed_out);
}

pub(crate) async fn hanging_reconcile_releases_slot(hub: &Cluster) {
    let fleet = fleet_at_v1(hub, 2).await;
    let (client, tap) = Tap::on(hub.client());
    fleet.start_controllers_with(
        |controller| if controller == addon::NAME { client.clone() } else { hub.client() },
    );
    tap.before(Method::PATCH, "/managedclusteraddons/", std::future::pending);
    fleet.set_placements(json!([progressive_placement(&fleet, "v2", json!({"maxConcurrency": 1}))])).await;
    eventually("a reconcile hangs", async || (!tap.is_set()).then_some(())).await;
    fleet.sleep(Duration::from_secs(31)).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    }
}
