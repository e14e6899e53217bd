//! Deletion of add-ons with their ManifestWorks, and the number of writes of the controllers.

use std::time::Duration;

use bellwether_testkit::{Cluster, RecordedRequest, eventually};
use http::Method;
use serde_json::json;

use crate::fleet::{AgentBehaviour, Fleet};

const SUCCEEDED: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn addon_is_deleted_after_its_manifest_works(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    fleet.wait_for_status("c1", &format!("C=v1 L= {SUCCEEDED}")).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.select_clusters("global", &[]).await;
    let expected = format!(
        "True/WaitingForAgent: The agent of {} has to delete addon-{}-deploy-0.",
        fleet.cluster_name("c1"),
        fleet.addon_name
    );
    fleet.wait_for_condition("c1", "Deleting", &expected).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Healthy);
    fleet.restart_agent();
    fleet.wait_for_deletion(fleet.addon_path("c1")).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
}

pub(crate) async fn work_without_finalizer_is_deleted_once(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.set_agent_behaviour("c1", AgentBehaviour::Silent);
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    eventually("the ManifestWork exists", async || {
        fleet.get_work("c1").await["metadata"]["uid"].is_string().then_some(())
    })
    .await;
    let tap = fleet.start_controllers();
    hub.delete(fleet.management_addon_path()).await.expect(200);
    fleet.wait_for_deletion(fleet.addon_path("c1")).await;
    let is_work_deletion =
        |sent: &RecordedRequest| sent.method == Method::DELETE && sent.path.contains("/manifestworks/");
    let writes = tap.writes();
    assert_eq!(writes.iter().filter(|sent| is_work_deletion(sent)).count(), 1, "{writes:#?}");
}

pub(crate) async fn deleting_cluster_management_addon_deletes_all_addons(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    hub.delete(fleet.management_addon_path()).await.expect(200);
    for cluster in ["c1", "c2"] {
        fleet.wait_for_deletion(fleet.addon_path(cluster)).await;
        hub.get(fleet.work_path(cluster, 0)).await.expect(404);
    }
}

pub(crate) async fn idle_minute_and_restart_cause_no_writes(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1", "v2"]).await;
    let tap = fleet.start_controllers();
    fleet.set_placements(json!([fleet.placement_strategy("global", "v1")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v1 L= {SUCCEEDED}")).await;
    }
    // An install writes: create the add-on, report Installing, create the ManifestWork, report Succeed.
    for cluster in ["c1", "c2", "c3"] {
        let name = fleet.cluster_name(cluster);
        let writes = tap.writes().into_iter().filter(|sent| sent.path.contains(&name)).collect::<Vec<_>>();
        assert!(writes.len() <= 4, "{} writes for an install: {writes:#?}", writes.len());
    }
    fleet.set_placements(json!([fleet.placement_strategy("global", "v2")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.wait_for_status(cluster, &format!("C=v2 L=v1 {SUCCEEDED}")).await;
        let name = fleet.cluster_name(cluster);
        let writes = tap.writes().into_iter().filter(|sent| sent.path.contains(&name)).collect::<Vec<_>>();
        assert!(writes.len() <= 8, "{} writes for an install and an upgrade: {writes:#?}", writes.len());
    }
    fleet.sleep(Duration::from_secs(1)).await;
    let (idle_time, before) =
        (Duration::from_secs(if hub.is_kubernetes() { 3 } else { 60 }), tap.writes().len());
    fleet.sleep(idle_time).await;
    assert_eq!(tap.writes().len(), before, "{:#?}", tap.writes().get(before..));
    let restarted = fleet.start_controllers();
    fleet.sleep(idle_time).await;
    assert_eq!(restarted.writes().len(), 0, "{:#?}", restarted.writes());
}
