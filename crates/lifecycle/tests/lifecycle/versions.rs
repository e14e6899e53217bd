//! Version changes: the examples of the design document with their exact messages, and errors.

use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::fleet::{AgentBehaviour, Fleet};

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn fresh_install_uses_default_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.set_placements(json!([fleet.placement_strategy("global", "")])).await;
    fleet.wait_for_status("c1", "C=unknown L= True/Installing: Installing addon to version v1.").await;
    let work = eventually("the ManifestWork exists", async || {
        let work = fleet.get_work("c1").await;
        (work["kind"] == "ManifestWork").then_some(work)
    })
    .await;
    assert_eq!(
        work["metadata"]["labels"]["open-cluster-management.io/addon-name"],
        fleet.addon_name.as_str()
    );
    assert_eq!(work["metadata"]["labels"]["open-cluster-management.io/addon-version"], "v1");
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    assert_eq!(
        fleet.condition("c1", "ManifestApplied").await,
        "True/AddonManifestApplied: manifests of addon are applied successfully"
    );
    assert_eq!(fleet.condition("c1", "Available").await, "True/WorkApplied: All objects are available.");
    let management = eventually("the ClusterManagementAddOn reports Completed", async || {
        let found = hub.get(fleet.management_addon_path()).await.json();
        (found["status"]["conditions"][0]["reason"] == "Completed").then_some(found)
    })
    .await;
    assert_eq!(management["status"]["supportedVersions"], json!(["v1"]));
    assert_eq!(management["status"]["defaultVersion"], "v1");
    assert_eq!(management["status"]["installProgressions"][0]["counts"]["succeeded"], 1);
}

pub(crate) async fn new_default_upgrades_clusters_without_requested_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    let before = fleet.get_work("c1").await["metadata"]["generation"].as_i64().unwrap();
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.create_version("v2").await;
    fleet.wait_for_status("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    eventually("the ManifestWork has version v2", async || {
        let work = fleet.get_work("c1").await;
        let label = &work["metadata"]["labels"]["open-cluster-management.io/addon-version"];
        (label == "v2" && work["metadata"]["generation"] == before + 1).then_some(())
    })
    .await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}

pub(crate) async fn canary_upgrades_first_and_rolls_back(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1", "v2"]).await;
    fleet.select_clusters("canary", &["c1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    let others = [fleet.get_work("c2").await, fleet.get_work("c3").await];
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet
        .set_placements(json!([
            fleet.placement_strategy("global", "v1"),
            fleet.placement_strategy("canary", "v2")
        ]))
        .await;
    fleet.wait_for_status("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    assert_eq!(
        [fleet.get_work("c2").await, fleet.get_work("c3").await],
        others,
        "the other clusters do not change"
    );

    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet
        .set_placements(json!([
            fleet.placement_strategy("global", "v1"),
            fleet.placement_strategy("canary", "v1")
        ]))
        .await;
    fleet.wait_for_status("c1", "C=unknown L=v2 True/Rollingback: Rollingback addon to version v1.").await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v1 L=v2 {SUCCEEDED}")).await;
}

pub(crate) async fn unknown_version_fails_and_changes_nothing(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    let work = fleet.get_work("c1").await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v3")])).await;
    fleet.wait_for_status("c1", "C=unknown L=v1 False/Failed: could not upgrade to invalid version v3").await;
    assert_eq!(
        fleet.condition("c1", "Configured").await,
        "False/InvalidVersion: version v3 does not exist; available versions: v1, v2"
    );
    assert_eq!(fleet.get_work("c1").await, work, "the installed version does not change");
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L=unknown {SUCCEEDED}")).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v0")])).await;
    fleet
        .wait_for_status("c1", "C=unknown L=v2 False/Failed: could not rollback to invalid version v0")
        .await;
}

pub(crate) async fn failed_apply_is_reported_and_recovers(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Rejects("v2"));
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    let expected = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: ConfigMap hello was refused",
        fleet.addon_name
    );
    fleet.wait_for_status("c1", &expected).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}

pub(crate) async fn report_on_older_generation_is_ignored(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Behind);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    eventually("the agent has reported generation 1 of a ManifestWork with generation 2", async || {
        let work = fleet.get_work("c1").await;
        (work["metadata"]["generation"] == 2 && work["status"]["conditions"][1]["observedGeneration"] == 1)
            .then_some(())
    })
    .await;
    fleet.wait_for_status("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
}

pub(crate) async fn large_version_is_split_and_smaller_one_deletes_surplus_works(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    let map = |number: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("large-{number}"), "namespace": "default"}, "data": {"x": "x".repeat(300 * 1024)}})
    };
    fleet.create_version_with_manifests("v2", json!([map(0), map(1), map(2)])).await.expect(201);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L= {SUCCEEDED}")).await;
    hub.get(fleet.work_path("c1", 2)).await.expect(200);
    hub.get(fleet.work_path("c1", 3)).await.expect(404);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L=v2 {SUCCEEDED}")).await;
    hub.get(fleet.work_path("c1", 1)).await.expect(404);
}

pub(crate) async fn rendering_error_is_reported(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v1-levelled"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1-levelled")])).await;
    let expected = "C=unknown L= False/Failed: could not install version v1-levelled: manifest 0 (ConfigMap hello): the variable {{LEVEL}} has no value";
    fleet.wait_for_status("c1", expected).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    // Other versions of the add-on can still be installed.
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L=v1-levelled {SUCCEEDED}")).await;
}

pub(crate) async fn changed_configuration_starts_new_change(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1-levelled"]).await;
    let config = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "level"}, "spec": {"agentInstallNamespace": "", "customizedVariables": [{"name": "LEVEL", "value": "info"}]}});
    let mut strategy = fleet.placement_strategy("global", "v1-levelled");
    strategy["addonTemplate"]["configs"] = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "level"}]);
    fleet.set_placements(json!([strategy])).await;
    let missing = format!(
        "C=unknown L= False/Failed: could not install version v1-levelled: there is no AddOnDeploymentConfig {}/level",
        fleet.namespace
    );
    fleet.wait_for_status("c1", &missing).await;
    hub.post(fleet.deployment_configs_path(), &config).await.expect(201);
    fleet.wait_for_status("c1", &format!("C=v1-levelled L= {SUCCEEDED}")).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    let updated = json!({"spec": {"customizedVariables": [{"name": "LEVEL", "value": "debug"}]}});
    hub.merge(format!("{}/level", fleet.deployment_configs_path()), &updated).await.expect(200);
    fleet
        .wait_for_status("c1", "C=unknown L= True/Installing: Installing addon to version v1-levelled.")
        .await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_status("c1", &format!("C=v1-levelled L= {SUCCEEDED}")).await;
    assert_eq!(fleet.get_work("c1").await["spec"]["workload"]["manifests"][0]["data"]["level"], "debug");
}

pub(crate) async fn removed_version_in_use_stays_installed(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L= {SUCCEEDED}")).await;
    let work = fleet.get_work("c1").await;
    fleet.delete_version("v2").await;
    let expected = "True/VersionUnsupported: version v2 is no longer supported: no AddOnTemplate provides it";
    fleet.wait_for_condition("c1", "Degraded", expected).await;
    assert_eq!(fleet.status_line("c1").await, format!("C=v2 L= {SUCCEEDED}"));
    assert_eq!(fleet.get_work("c1").await, work);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L=v2 {SUCCEEDED}")).await;
    assert_eq!(fleet.condition("c1", "Degraded").await, "/: ", "Degraded is removed");
}

pub(crate) async fn foreign_work_with_addon_label_is_ignored_and_reported(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    let foreign_work = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "theirs", "labels": {"open-cluster-management.io/addon-name": fleet.addon_name,
            "open-cluster-management.io/addon-version": "v0"}}, "spec": {}});
    let works_path = fleet.work_path("c1", 0).rsplit_once('/').unwrap().0.to_owned();
    hub.post(&works_path, &foreign_work).await.expect(201);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    let expected = "True/ConfigurationsConfigured: version v1 is requested; ManifestWork theirs has the label of the add-on but was not created for it, and is ignored";
    fleet.wait_for_condition("c1", "Configured", expected).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    fleet.wait_for_status("c1", &format!("C=v2 L=v1 {SUCCEEDED}")).await;
    // The placement still selects the cluster, so that the add-on is installed again.
    let work = fleet.get_work("c1").await;
    hub.delete(fleet.addon_path("c1")).await.expect(200);
    fleet.wait_for_deletion_of(fleet.work_path("c1", 0), &work).await;
    let path = format!("{works_path}/theirs");
    assert_eq!(hub.get(&path).await.expect(200)["metadata"]["deletionTimestamp"], json!(null));
}
