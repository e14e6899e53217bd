//! How add-ons go, and that nothing is written for nothing.

use std::time::Duration;

use bellwether_testkit::{Cluster, Sent, eventually};
use http::Method;
use serde_json::json;

use crate::fleet::{Fleet, Manner};

const DONE: &str = "False/Succeed: install completed with no errors.";

pub(crate) async fn addon_is_deleted_after_its_works(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    fleet.until_said("c1", &format!("C=v1 L= {DONE}")).await;
    fleet.behaves("c1", Manner::Silent);
    fleet.choose("global", &[]).await;
    let words = format!(
        "True/WaitingForAgent: The agent of {} has to delete addon-{}-deploy-0.",
        fleet.cluster("c1"),
        fleet.addon
    );
    fleet.until_condition("c1", "Deleting", &words).await;
    fleet.behaves("c1", Manner::Well);
    fleet.wake();
    fleet.until_gone(fleet.path("c1")).await;
    hub.get(fleet.work_path("c1", 0)).await.expect(404);
}

pub(crate) async fn work_without_finalizer_is_deleted_once(hub: &Cluster) {
    let fleet = Fleet::new(hub, 1, &["v1"]).await;
    fleet.behaves("c1", Manner::Silent);
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    eventually("there is a work", async || {
        fleet.work("c1").await["metadata"]["uid"].is_string().then_some(())
    })
    .await;
    let tap = fleet.start();
    hub.delete(fleet.management_path()).await.expect(200);
    fleet.until_gone(fleet.path("c1")).await;
    let deleted = |sent: &Sent| sent.method == Method::DELETE && sent.path.contains("/manifestworks/");
    let writes = tap.writes();
    assert_eq!(writes.iter().filter(|sent| deleted(sent)).count(), 1, "{writes:#?}");
}

pub(crate) async fn deleting_cluster_management_addon_deletes_all_addons(hub: &Cluster) {
    let fleet = Fleet::new(hub, 2, &["v1"]).await;
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for cluster in ["c1", "c2"] {
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
    hub.delete(fleet.management_path()).await.expect(200);
    for cluster in ["c1", "c2"] {
        fleet.until_gone(fleet.path(cluster)).await;
        hub.get(fleet.work_path(cluster, 0)).await.expect(404);
    }
}

pub(crate) async fn idle_minute_and_restart_cause_no_writes(hub: &Cluster) {
    let fleet = Fleet::new(hub, 3, &["v1", "v2"]).await;
    let tap = fleet.start();
    fleet.place(json!([fleet.placed("global", "v1")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v1 L= {DONE}")).await;
    }
    // One to make the add-on, one to begin, one work, one to end.
    for cluster in ["c1", "c2", "c3"] {
        let name = fleet.cluster(cluster);
        let writes = tap.writes().into_iter().filter(|sent| sent.path.contains(&name)).collect::<Vec<_>>();
        assert!(writes.len() <= 4, "{} writes for an install: {writes:#?}", writes.len());
    }
    fleet.place(json!([fleet.placed("global", "v2")])).await;
    for cluster in ["c1", "c2", "c3"] {
        fleet.until_said(cluster, &format!("C=v2 L=v1 {DONE}")).await;
        let name = fleet.cluster(cluster);
        let writes = tap.writes().into_iter().filter(|sent| sent.path.contains(&name)).collect::<Vec<_>>();
        assert!(writes.len() <= 8, "{} writes for an install and an upgrade: {writes:#?}", writes.len());
    }
    fleet.pass(Duration::from_secs(1)).await;
    let (time, before) = (Duration::from_secs(if hub.is_kubernetes() { 3 } else { 60 }), tap.writes().len());
    fleet.pass(time).await;
    assert_eq!(tap.writes().len(), before, "{:#?}", tap.writes().get(before..));
    let restarted = fleet.start();
    fleet.pass(time).await;
    assert_eq!(restarted.writes().len(), 0, "{:#?}", restarted.writes());
}
