//! The examples of the design document, with their exact words, and what goes wrong.

use bellwether_testkit::{Cluster, eventually};
use serde_json::json;

use crate::fleet::{Fleet, Manner};

const DONE: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn fresh_install_uses_default_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([fleet.placed("global", "")])).await;
    fleet.until_said("c1", "C=unknown L= True/Installing: Installing addon to version v1.").await;
    let work = eventually("there is a work", async || {
        let work = fleet.work("c1").await;
        (work["kind"] == "ManifestWork").then_some(work)
    })
    .await;
    assert_eq!(work["metadata"]["labels"]["open-cluster-management.io/addon-name"], fleet.addon.as_str());
    assert_eq!(work["metadata"]["labels"]["open-cluster-management.io/addon-version"], "v1");
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    assert_eq!(
        fleet.condition("c1", "ManifestApplied").await,
        "True/AddonManifestApplied: manifests of addon are applied successfully"
    );
    assert_eq!(fleet.condition("c1", "Available").await, "True/WorkApplied: All objects are available.");
    let management = eventually("the add-on as a whole is done", async || {
        let found = hub.get(fleet.management_path()).await.json();
        (found["status"]["conditions"][0]["reason"] == "Completed").then_some(found)
    })
    .await;
    assert_eq!(management["status"]["supportedVersions"], json!(["v1"]));
    assert_eq!(management["status"]["defaultVersion"], "v1");
    assert_eq!(management["status"]["installProgressions"][0]["counts"]["succeeded"], 1);
}

pub(crate) async fn new_default_upgrades_clusters_without_requested_version(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    let before = fleet.work("c1").await["metadata"]["generation"].as_i64().unwrap();
    fleet.behaves("c1", Manner::Silent);
    fleet.publish("v2").await;
    fleet.until_said("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    eventually("the work is of the new version", async || {
        let work = fleet.work("c1").await;
        let label = &work["metadata"]["labels"]["open-cluster-management.io/addon-version"];
        (label == "v2" && work["metadata"]["generation"] == before + 1).then_some(())
    })
    .await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
}

pub(crate) async fn canary_upgrades_first_and_rolls_back(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1", "v2"]).await;
    fleet.choose("canary", &["c1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
    let others = [fleet.work("c2").await, fleet.work("c3").await];
    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([fleet.placed("global", "v1"), fleet.placed("canary", "v2")])).await;
    fleet.until_said("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
    assert_eq!([fleet.work("c2").await, fleet.work("c3").await], others, "the others are not touched");

    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([fleet.placed("global", "v1"), fleet.placed("canary", "v1")])).await;
    fleet.until_said("c1", "C=unknown L=v2 True/Rollingback: Rollingback addon to version v1.").await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v1 L=v2 {DONE}")).await;
}

pub(crate) async fn unknown_version_fails_and_changes_nothing(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    let work = fleet.work("c1").await;
    fleet.place(json!([fleet.placed("global", "v3")])).await;
    fleet.until_said("c1", "C=unknown L=v1 False/Failed: could not upgrade to invalid version v3").await;
    assert_eq!(
        fleet.condition("c1", "Configured").await,
        "False/InvalidVersion: version v3 does not exist; available versions: v1, v2"
    );
    assert_eq!(fleet.work("c1").await, work, "what runs stays");
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L=unknown {DONE}")).await;
    fleet.place(json!([fleet.placed("global", "v0")])).await;
    fleet.until_said("c1", "C=unknown L=v2 False/Failed: could not rollback to invalid version v0").await;
}

pub(crate) async fn failed_apply_is_reported_and_recovers(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    fleet.behaves("c1", Manner::Refuses("v2"));
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    let words = format!(
        "C=unknown L=v1 False/Failed: could not upgrade to version v2: work addon-{}-deploy-0: ConfigMap hello was refused",
        fleet.addon
    );
    fleet.until_said("c1", &words).await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
}

pub(crate) async fn report_on_older_generation_is_ignored(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    fleet.behaves("c1", Manner::Behind);
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    eventually("the work is at its second generation and the agent has spoken of the first", async || {
        let work = fleet.work("c1").await;
        (work["metadata"]["generation"] == 2 && work["status"]["conditions"][1]["observedGeneration"] == 1)
            .then_some(())
    })
    .await;
    fleet.until_said("c1", "C=unknown L=v1 True/Upgrading: Upgrading addon to version v2.").await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
}

pub(crate) async fn large_version_is_split_and_smaller_one_deletes_surplus_works(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    let map = |number: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": format!("large-{number}"), "namespace": "default"}, "data": {"x": "x".repeat(300 * 1024)}})
    };
    fleet.publish_with("v2", json!([map(0), map(1), map(2)])).await.expect(201);
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L= {DONE}")).await;
    hub.get(fleet.work_path("c1", 2)).await.expect(200);
    hub.get(fleet.work_path("c1", 3)).await.expect(404);
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L=v2 {DONE}")).await;
    hub.get(fleet.work_path("c1", 1)).await.expect(404);
}

pub(crate) async fn rendering_error_is_reported(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v1-levelled"]).await;
    fleet.place(json!([fleet.placed("global", "v1-levelled")])).await;
    let words = "C=unknown L= False/Failed: could not install version v1-levelled: manifest 0 (ConfigMap hello): the variable {{LEVEL}} has no value";
    fleet.until_said("c1", words).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
    // Another version of the same add-on is none the worse for it.
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L=v1-levelled {DONE}")).await;
}

pub(crate) async fn changed_configuration_starts_new_change(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1-levelled"]).await;
    let config = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnDeploymentConfig",
        "metadata": {"name": "level"}, "spec": {"agentInstallNamespace": "", "customizedVariables": [{"name": "LEVEL", "value": "info"}]}});
    let mut placed = fleet.placed("global", "v1-levelled");
    placed["addonTemplate"]["configs"] = json!([{"group": "addon.open-cluster-management.io", "resource": "addondeploymentconfigs", "name": "level"}]);
    fleet.place(json!([placed])).await;
    let missing = format!(
        "C=unknown L= False/Failed: could not install version v1-levelled: there is no AddOnDeploymentConfig {}/level",
        fleet.namespace
    );
    fleet.until_said("c1", &missing).await;
    hub.post(fleet.config_path(), &config).await.expect(201);
    fleet.until_said("c1", &format!("C=v1-levelled L= {DONE}")).await;
    fleet.behaves("c1", Manner::Silent);
    let louder = json!({"spec": {"customizedVariables": [{"name": "LEVEL", "value": "debug"}]}});
    hub.merge(format!("{}/level", fleet.config_path()), &louder).await.expect(200);
    fleet.until_said("c1", "C=unknown L= True/Installing: Installing addon to version v1-levelled.").await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_said("c1", &format!("C=v1-levelled L= {DONE}")).await;
    assert_eq!(fleet.work("c1").await["spec"]["workload"]["manifests"][0]["data"]["level"], "debug");
}

pub(crate) async fn removed_version_in_use_stays_installed(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L= {DONE}")).await;
    let work = fleet.work("c1").await;
    fleet.withdraw("v2").await;
    let words = "True/VersionUnsupported: version v2 is no longer supported: no AddOnTemplate provides it";
    fleet.until_condition("c1", "Degraded", words).await;
    assert_eq!(fleet.said("c1").await, format!("C=v2 L= {DONE}"));
    assert_eq!(fleet.work("c1").await, work);
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L=v2 {DONE}")).await;
    assert_eq!(fleet.condition("c1", "Degraded").await, "/: ", "it is said no more");
}

pub(crate) async fn foreign_work_with_addon_label_is_ignored_and_reported(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1", "v2"]).await;
    let stranger = json!({"apiVersion": "work.open-cluster-management.io/v1", "kind": "ManifestWork",
        "metadata": {"name": "theirs", "labels": {"open-cluster-management.io/addon-name": fleet.addon,
            "open-cluster-management.io/addon-version": "v0"}}, "spec": {}});
    let works = fleet.work_path("c1", 0).rsplit_once('/').unwrap().0.to_owned();
    hub.post(&works, &stranger).await.expect(201);
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    let words = "True/ConfigurationsConfigured: version v1 is requested; ManifestWork theirs has the label of the add-on but was not created for it, and is ignored";
    fleet.until_condition("c1", "Configured", words).await;
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    fleet.until_said("c1", &format!("C=v2 L=v1 {DONE}")).await;
    hub.delete(fleet.path("c1")).await.expect(200);
    fleet.until_gone(fleet.work_path("c1", 0)).await;
    let path = format!("{works}/theirs");
    assert_eq!(hub.get(&path).await.expect(200)["metadata"]["deletionTimestamp"], json!(null));
}
