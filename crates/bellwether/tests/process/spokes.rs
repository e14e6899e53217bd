//! The spokes of `up` join its hub and are reachable; with the demo, each has the sample add-on.

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::ManagedCluster;
use bellwether_testkit::eventually;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};

use crate::server::{Server, get, up};

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// The clusters that have joined and are available.
async fn available_clusters(server: &Server) -> Vec<String> {
    let clusters: Api<ManagedCluster> = Api::all(server.client("hub").await);
    let all = clusters.list(&ListParams::default()).await.unwrap();
    let available = all.iter().filter(|cluster| {
        let conditions =
            cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"]
            .iter()
            .all(|type_| is_true(conditions, type_))
    });
    available.map(ManagedCluster::name_any).collect()
}

/// The clusters that have the sample add-on, with its version and whether it is available.
async fn sample_addons(server: &Server) -> Vec<(String, String, bool)> {
    let addons: Api<ManagedClusterAddOn> = Api::all(server.client("hub").await);
    let all = addons.list(&ListParams::default()).await.unwrap();
    let found = all.iter().map(|addon| {
        let status = addon.status.clone().unwrap_or_default();
        let available = is_true(&status.conditions, "Available");
        (addon.namespace().unwrap(), status.current_version, available)
    });
    found.collect()
}

#[tokio::test]
async fn spokes_join_without_the_demo() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--no-demo", "--spokes", "2"]));
    eventually("both spokes are available", async || {
        (available_clusters(&server).await == ["spoke-1", "spoke-2"]).then_some(())
    })
    .await;
    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    assert_eq!(addons.list(&ListParams::default()).await.unwrap().items, []);
}

#[tokio::test]
async fn demo_installs_the_sample_addon_on_every_spoke_and_does_not_restore_it_after_deletion() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let fast = ["--spokes", "2", "--simulate-delay", "100ms"];
    let mut server = Server::start(&dir, up(&dir).args(fast));
    let installed = |spoke: &str| (spoke.to_owned(), "v1".to_owned(), true);
    eventually("both spokes have the sample add-on", async || {
        (sample_addons(&server).await == [installed("spoke-1"), installed("spoke-2")]).then_some(())
    })
    .await;
    assert_all_controllers_lead(&server);

    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    addons.delete("helloworld", &DeleteParams::default()).await.unwrap();
    eventually("the sample add-on is deleted", async || {
        sample_addons(&server).await.is_empty().then_some(())
    })
    .await;
    assert!(server.terminate().success());

    let server = Server::start(&dir, up(&dir).args(fast));
    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    assert_eq!(addons.list(&ListParams::default()).await.unwrap().items, []);
    eventually("both spokes are available", async || {
        (available_clusters(&server).await == ["spoke-1", "spoke-2"]).then_some(())
    })
    .await;
}

fn assert_all_controllers_lead(server: &Server) {
    let (_, metrics) = get(server.address("http").strip_prefix("http://").unwrap(), "/metrics");
    let everywhere = ["addon-controller", "heartbeat-checker"];
    let for_the_hub = ["work-agent", "cluster-lease", "heartbeat-mirror"];
    let on_the_hub = [
        "cluster-controller",
        "cluster-set-controller",
        "cluster-set-binding-controller",
        "placement-controller",
        "addon-install-controller",
        "addon-lifecycle-controller",
    ];
    for (cluster, controllers) in [("hub", on_the_hub.as_slice()), ("spoke-2", &for_the_hub)] {
        for controller in everywhere.iter().chain(controllers) {
            let line = format!(r#"bellwether_leading{{cluster="{cluster}",controller="{controller}"}} 1"#);
            assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
        }
    }
}
