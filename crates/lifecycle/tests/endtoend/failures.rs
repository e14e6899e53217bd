//! Failures: their messages name the cause, and other add-ons and clusters are not affected.

use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::fleet::{Addon, Environment, Fleet};

/// Installs and upgrades another add-on on the same clusters.
async fn assert_other_addon_is_unaffected(fleet: &Fleet<'_>, placement: &str, clusters: &[usize]) {
    let other = fleet.new_addon();
    other.create_versions(&["v1", "v2"]).await;
    for (version, last) in [("v1", ""), ("v2", "v1")] {
        other.set_placements(json!([other.placement_strategy(placement, version)])).await;
        for number in clusters {
            other.wait_for_success(*number, version, last).await;
            other.wait_for_running_version(*number, Some(version)).await;
        }
    }
}

/// Creates an add-on and waits until v1 is installed on all clusters of the fleet, which the placement `all`
/// selects.
async fn install_v1<'f>(fleet: &'f Fleet<'f>) -> Addon<'f> {
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    fleet.create_placement("all", json!({})).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in 1..=fleet.size() {
        addon.wait_for_success(number, "v1", "").await;
    }
    addon
}

pub(crate) async fn rendering_error_names_object_and_cause(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = install_v1(&fleet).await;
    addon.create_version_with("v2", json!([addon.config_map("more", json!({"level": "{{LEVEL}}"}))])).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    let expected = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: manifest 1 (ConfigMap {}): the variable {{{{LEVEL}}}} has no value",
        format_args!("{}-more-{{{{CLUSTER_NAME}}}}", addon.name)
    );
    addon.wait_for_status(1, &expected).await;
    addon.wait_for_progression("all", "False/Failed: 0 of 2 clusters have it, 2 failed.").await;
    for number in [1, 2] {
        assert_eq!(
            addon.running_version(number).await.as_deref(),
            Some("v1"),
            "the installed version does not change"
        );
    }
    assert_other_addon_is_unaffected(&fleet, "all", &[1, 2]).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in [1, 2] {
        addon.wait_for_success(number, "v1", "v2").await;
    }
}

pub(crate) async fn rejected_manifest_is_named_with_cluster_message(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    let addon = install_v1(&fleet).await;
    let mut bad = addon.config_map("bad", json!({}));
    bad["metadata"]["name"] = json!("Not_A_Name");
    addon.create_version_with("v2", json!([bad, addon.config_map("good", json!({}))])).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    let beginning = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: Failed to apply manifest work: \
         ConfigMap default/Not_A_Name: ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\"",
        addon.name
    );
    for number in [1, 2] {
        eventually("the status has the error of the cluster", async || {
            addon.status_line(number).await.starts_with(&beginning).then_some(())
        })
        .await;
        let good = fleet.spoke(number).get(addon.config_map_path("good", number)).await;
        assert_eq!(good.status, 200, "the valid manifest is applied");
    }
    addon.wait_for_progression("all", "False/Failed: 0 of 2 clusters have it, 2 failed.").await;
    assert_other_addon_is_unaffected(&fleet, "all", &[1, 2]).await;
    addon.create_versions(&["v3"]).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v3")])).await;
    for number in [1, 2] {
        addon.wait_for_success(number, "v3", "v2").await;
        eventually("the objects of v2 are deleted", async || {
            let good = fleet.spoke(number).get(addon.config_map_path("good", number)).await;
            (good.status == 404).then_some(())
        })
        .await;
    }
}

pub(crate) async fn ten_megabyte_version_is_rejected_and_reported(environment: &Environment) {
    let fleet = Fleet::new(environment, 1).await;
    let addon = install_v1(&fleet).await;
    let maps: Vec<Value> = (0..40)
        .map(|part| addon.config_map(&format!("p{part}"), json!({"x": "x".repeat(256 * 1024)})))
        .collect();
    let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": format!("{}-v2", addon.name)},
        "spec": {"addonName": addon.name, "version": "v2", "agentSpec": {"workload": {"manifests": maps}}}});
    let rejected = fleet.hub.post(format!("{}/addontemplates", crate::fleet::ADDONS), &template).await;
    assert_eq!(rejected.status, 413, "{}", rejected.text());
    addon.set_placements(json!([addon.placement_strategy("all", "v2")])).await;
    addon.wait_for_status(1, "C=unknown L=v1 False/Failed: could not upgrade to invalid version v2").await;
    let invalid_version = "False/InvalidVersion: version v2 does not exist; available versions: v1";
    addon.wait_for_condition(1, "Configured", invalid_version).await;
    assert_eq!(addon.running_version(1).await.as_deref(), Some("v1"));
    assert_other_addon_is_unaffected(&fleet, "all", &[1]).await;
    // A version that the hub accepts is installed, split into as many ManifestWorks as it needs.
    addon.create_version_with("v3", json!(maps[..4])).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v3")])).await;
    addon.wait_for_success(1, "v3", "unknown").await;
    for part in 0..4 {
        let found = fleet.spoke(1).get(addon.config_map_path(&format!("p{part}"), 1)).await;
        assert_eq!(found.status, 200);
    }
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    addon.wait_for_success(1, "v1", "v3").await;
    for part in 0..4 {
        eventually("the objects of v3 are deleted", async || {
            let found = fleet.spoke(1).get(addon.config_map_path(&format!("p{part}"), 1)).await;
            (found.status == 404).then_some(())
        })
        .await;
    }
}

pub(crate) async fn silent_cluster_does_not_block_others(environment: &Environment) {
    let fleet = Fleet::new(environment, 2).await;
    // Cluster 3 is accepted, but its agent has never started.
    fleet.create_cluster(3, json!({})).await;
    fleet.create_placement("all", json!({"tolerations": [{"operator": "Exists"}]})).await;
    fleet.create_placement("available", json!({})).await;
    let addon = fleet.new_addon();
    addon.create_versions(&["v1"]).await;
    addon.set_placements(json!([addon.placement_strategy("all", "v1")])).await;
    for number in [1, 2] {
        addon.wait_for_success(number, "v1", "").await;
    }
    addon.wait_for_status(3, "C=unknown L= True/Installing: Installing addon to version v1.").await;
    let expected = format!(
        "Unknown/WorkNotApplied: work addon-{}-deploy-0: the agent has not reported yet that all objects are available.",
        addon.name
    );
    addon.wait_for_condition(3, "Available", &expected).await;
    addon.wait_for_progression("all", "True/Progressing: 2 of 3 clusters have it, 1 change.").await;
    // With a deadline the change of cluster 3 times out. A placement without tolerations does not select
    // cluster 3.
    let limited = addon.fleet.new_addon();
    limited.create_versions(&["v1"]).await;
    let rollout = json!({"type": "All", "all": {"progressDeadline": "4s"}});
    limited.set_placements(json!([limited.placement_strategy_with_rollout("all", "v1", rollout)])).await;
    let expected = "C=unknown L= False/Failed: could not install version v1: timed out after 4s";
    limited.wait_for_status(3, expected).await;
    limited.wait_for_progression("all", "False/Failed: 2 of 3 clusters have it, 1 took too long.").await;
    assert_other_addon_is_unaffected(&fleet, "available", &[1, 2]).await;
    assert_eq!(fleet.hub.get(fleet.new_addon().addon_path(3)).await.status, 404);
    fleet.start_agent(3);
    addon.wait_for_success(3, "v1", "").await;
    limited.wait_for_success(3, "v1", "").await;
}
