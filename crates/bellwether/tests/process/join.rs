//! The spokes of `up` as members of its fleet: joined and in reach, and with the demonstration, an add-on on each.

use bellwether_api::addon::{ClusterManagementAddOn, ManagedClusterAddOn};
use bellwether_api::cluster::ManagedCluster;
use bellwether_testkit::eventually;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams};

use crate::server::{Server, get, up};

fn is_true(conditions: &[Condition], type_: &str) -> bool {
    conditions.iter().any(|said| said.type_ == type_ && said.status == "True")
}

/// The clusters that have joined and are in reach.
async fn joined(server: &Server) -> Vec<String> {
    let clusters: Api<ManagedCluster> = Api::all(server.client("hub").await);
    let all = clusters.list(&ListParams::default()).await.unwrap();
    let well = all.iter().filter(|cluster| {
        let conditions =
            cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        ["HubAcceptedManagedCluster", "ManagedClusterJoined", "ManagedClusterConditionAvailable"]
            .iter()
            .all(|type_| is_true(conditions, type_))
    });
    well.map(ManagedCluster::name_any).collect()
}

/// Where the add-on of the demonstration is, in which version, and whether it is up.
async fn helloworld(server: &Server) -> Vec<(String, String, bool)> {
    let addons: Api<ManagedClusterAddOn> = Api::all(server.client("hub").await);
    let all = addons.list(&ListParams::default()).await.unwrap();
    let found = all.iter().map(|addon| {
        let status = addon.status.clone().unwrap_or_default();
        let up = is_true(&status.conditions, "Available");
        (addon.namespace().unwrap(), status.current_version, up)
    });
    found.collect()
}

#[tokio::test]
async fn spokes_are_joined_without_the_demonstration() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let server = Server::start(&dir, up(&dir).args(["--no-demo", "--spokes", "2"]));
    eventually("both are in reach", async || (joined(&server).await == ["spoke-1", "spoke-2"]).then_some(()))
        .await;
    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    assert_eq!(addons.list(&ListParams::default()).await.unwrap().items, []);
}

#[tokio::test]
async fn the_demonstration_has_an_addon_on_every_spoke_and_what_is_deleted_stays_so() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("data");
    let fast = ["--spokes", "2", "--simulate-delay", "100ms"];
    let mut server = Server::start(&dir, up(&dir).args(fast));
    let at = |spoke: &str| (spoke.to_owned(), "v1".to_owned(), true);
    eventually("both have it", async || {
        (helloworld(&server).await == [at("spoke-1"), at("spoke-2")]).then_some(())
    })
    .await;
    every_controller_leads(&server);

    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    addons.delete("helloworld", &DeleteParams::default()).await.unwrap();
    eventually("it is gone", async || helloworld(&server).await.is_empty().then_some(())).await;
    assert!(server.terminate().success());

    let server = Server::start(&dir, up(&dir).args(fast));
    let addons: Api<ClusterManagementAddOn> = Api::all(server.client("hub").await);
    assert_eq!(addons.list(&ListParams::default()).await.unwrap().items, []);
    eventually("both are in reach", async || (joined(&server).await == ["spoke-1", "spoke-2"]).then_some(()))
        .await;
}

fn every_controller_leads(server: &Server) {
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
