//! What goes wrong says why, and harms nothing else.

use bellwether_testkit::eventually;
use serde_json::{Value, json};

use crate::fleet::{Addon, Fleet, Theatre};

/// Another add-on on the same clusters comes, changes and stays as if nothing were wrong.
async fn goes_well_beside(fleet: &Fleet<'_>, placement: &str, clusters: &[usize]) {
    let other = fleet.addon();
    other.publish(&["v1", "v2"]).await;
    for (version, last) in [("v1", ""), ("v2", "v1")] {
        other.place(json!([other.placed(placement, version)])).await;
        for number in clusters {
            other.until_done(*number, version, last).await;
            other.until_runs(*number, Some(version)).await;
        }
    }
}

/// An add-on at its first version on all clusters, by the placement `all`.
async fn at_v1<'f>(fleet: &'f Fleet<'f>) -> Addon<'f> {
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    fleet.placement("all", json!({})).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in 1..=fleet.size() {
        addon.until_done(number, "v1", "").await;
    }
    addon
}

pub(crate) async fn rendering_error_names_object_and_cause(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = at_v1(&fleet).await;
    addon.publish_with("v2", json!([addon.map("more", json!({"level": "{{LEVEL}}"}))])).await;
    addon.place(json!([addon.placed("all", "v2")])).await;
    let words = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: manifest 1 (ConfigMap {}): the variable {{{{LEVEL}}}} has no value",
        format_args!("{}-more-{{{{CLUSTER_NAME}}}}", addon.name)
    );
    addon.until_said(1, &words).await;
    addon.until_progression("all", "False/Failed: 0 of 2 clusters have it, 2 failed.").await;
    for number in [1, 2] {
        assert_eq!(addon.runs(number).await.as_deref(), Some("v1"), "what runs stays");
    }
    goes_well_beside(&fleet, "all", &[1, 2]).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in [1, 2] {
        addon.until_done(number, "v1", "v2").await;
    }
}

pub(crate) async fn rejected_manifest_is_named_with_cluster_message(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    let addon = at_v1(&fleet).await;
    let mut bad = addon.map("bad", json!({}));
    bad["metadata"]["name"] = json!("Not_A_Name");
    addon.publish_with("v2", json!([bad, addon.map("good", json!({}))])).await;
    addon.place(json!([addon.placed("all", "v2")])).await;
    let beginning = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: Failed to apply manifest work: \
         ConfigMap default/Not_A_Name: ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \"Not_A_Name\"",
        addon.name
    );
    for number in [1, 2] {
        eventually("the refusal is told", async || {
            addon.said(number).await.starts_with(&beginning).then_some(())
        })
        .await;
        let good = fleet.spoke(number).get(addon.map_path("good", number)).await;
        assert_eq!(good.status, 200, "the rest is there");
    }
    addon.until_progression("all", "False/Failed: 0 of 2 clusters have it, 2 failed.").await;
    goes_well_beside(&fleet, "all", &[1, 2]).await;
    addon.publish(&["v3"]).await;
    addon.place(json!([addon.placed("all", "v3")])).await;
    for number in [1, 2] {
        addon.until_done(number, "v3", "v2").await;
        eventually("what came with the bad version goes with it", async || {
            let good = fleet.spoke(number).get(addon.map_path("good", number)).await;
            (good.status == 404).then_some(())
        })
        .await;
    }
}

pub(crate) async fn ten_megabyte_version_is_rejected_and_reported(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 1).await;
    let addon = at_v1(&fleet).await;
    let maps: Vec<Value> =
        (0..40).map(|part| addon.map(&format!("p{part}"), json!({"x": "x".repeat(256 * 1024)}))).collect();
    let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
        "metadata": {"name": format!("{}-v2", addon.name)},
        "spec": {"addonName": addon.name, "version": "v2", "agentSpec": {"workload": {"manifests": maps}}}});
    let refused = fleet.hub.post(format!("{}/addontemplates", crate::fleet::ADDONS), &template).await;
    assert_eq!(refused.status, 413, "{}", refused.text());
    addon.place(json!([addon.placed("all", "v2")])).await;
    addon.until_said(1, "C=unknown L=v1 False/Failed: could not upgrade to invalid version v2").await;
    let choice = "False/InvalidVersion: version v2 does not exist; available versions: v1";
    addon.until_condition(1, "Configured", choice).await;
    assert_eq!(addon.runs(1).await.as_deref(), Some("v1"));
    goes_well_beside(&fleet, "all", &[1]).await;
    // What a hub takes comes to the cluster, in as many works as it needs.
    addon.publish_with("v3", json!(maps[..4])).await;
    addon.place(json!([addon.placed("all", "v3")])).await;
    addon.until_done(1, "v3", "unknown").await;
    for part in 0..4 {
        let found = fleet.spoke(1).get(addon.map_path(&format!("p{part}"), 1)).await;
        assert_eq!(found.status, 200);
    }
    addon.place(json!([addon.placed("all", "v1")])).await;
    addon.until_done(1, "v1", "v3").await;
    for part in 0..4 {
        eventually("what came with the large version goes", async || {
            let found = fleet.spoke(1).get(addon.map_path(&format!("p{part}"), 1)).await;
            (found.status == 404).then_some(())
        })
        .await;
    }
}

pub(crate) async fn silent_cluster_does_not_block_others(theatre: &Theatre) {
    let fleet = Fleet::new(theatre, 2).await;
    // It was accepted, and nobody has ever heard of it.
    fleet.join(3, json!({})).await;
    fleet.placement("all", json!({"tolerations": [{"operator": "Exists"}]})).await;
    fleet.placement("careful", json!({})).await;
    let addon = fleet.addon();
    addon.publish(&["v1"]).await;
    addon.place(json!([addon.placed("all", "v1")])).await;
    for number in [1, 2] {
        addon.until_done(number, "v1", "").await;
    }
    addon.until_said(3, "C=unknown L= True/Installing: Installing addon to version v1.").await;
    let words = format!(
        "Unknown/WorkNotApplied: work addon-{}-deploy-0: the agent has not reported yet that all objects are available.",
        addon.name
    );
    addon.until_condition(3, "Available", &words).await;
    addon.until_progression("all", "True/Progressing: 2 of 3 clusters have it, 1 change.").await;
    // With a patience it is told that it took too long; one that does not want to wait does not choose it.
    let limited = addon.fleet.addon();
    limited.publish(&["v1"]).await;
    let pace = json!({"type": "All", "all": {"progressDeadline": "4s"}});
    limited.place(json!([limited.paced("all", "v1", pace)])).await;
    let words = "C=unknown L= False/Failed: could not install version v1: timed out after 4s";
    limited.until_said(3, words).await;
    limited.until_progression("all", "False/Failed: 2 of 3 clusters have it, 1 took too long.").await;
    goes_well_beside(&fleet, "careful", &[1, 2]).await;
    assert_eq!(fleet.hub.get(fleet.addon().path(3)).await.status, 404);
    fleet.employ(3);
    addon.until_done(3, "v1", "").await;
    limited.until_done(3, "v1", "").await;
}
