//! Registers the spokes of `up` on its hub, in one cluster set, and creates the sample add-on of the demo.

use anyhow::Context as _;
use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::SET_LABEL;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::CONCURRENT_SETUPS;
use super::objects::{FIELD_MANAGER, Manifest, parse_manifests};

/// The cluster set of all spokes, with its binding, so that placements can select from it.
const CLUSTER_SET: &str = "default";
const CLUSTER_SET_MANIFESTS: &str = include_str!("../../../../deploy/examples/cluster-set.yaml");
/// The label of the first spoke, by which the demo's placements select it as the canary.
const CANARY_LABEL: &str = "bellwether.io/canary";
/// The sample add-on of the demo.
const SAMPLE_MANIFESTS: &str = include_str!("../../../../deploy/examples/helloworld.yaml");

/// Creates a ManagedCluster for each spoke, in a cluster set that placements can select from. Existing objects stay as they are.
pub(crate) async fn join_spokes(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(FIELD_MANAGER));
    let clusters = spokes.iter().map(|spoke| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": spoke, "labels": {SET_LABEL: CLUSTER_SET}}, "spec": {"hubAcceptsClient": true}})
    });
    create_all(&client, parse_manifests(CLUSTER_SET_MANIFESTS)?.into_iter().chain(clusters)).await
}

/// Creates the sample add-on once. If a user changes or deletes its objects later, they are not created again.
pub(crate) async fn create_samples(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(FIELD_MANAGER));
    let marker = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bellwether-demo", "namespace": "kube-system"},
        "data": {"samples": "created; delete this ConfigMap to create them again"}});
    let marker = Manifest::new(&client, &marker);
    if marker.metadata().await?.is_some() {
        return Ok(());
    }
    if let Some(first) = spokes.first() {
        let clusters: Api<ManagedCluster> = Api::all(client.clone());
        let label = Patch::Merge(json!({"metadata": {"labels": {CANARY_LABEL: "true"}}}));
        let labelled = clusters.patch(first, &PatchParams::default(), &label).await;
        labelled.with_context(|| format!("cannot label the ManagedCluster {first} as the canary"))?;
    }
    create_all(&client, parse_manifests(SAMPLE_MANIFESTS)?).await?;
    marker.create().await
}

async fn create_all(client: &Client, objects: impl IntoIterator<Item = Value>) -> anyhow::Result<()> {
    let objects: Vec<Value> = objects.into_iter().collect();
    let created = objects.iter().map(|object| async move { Manifest::new(client, object).create().await });
    stream::iter(created).buffer_unordered(CONCURRENT_SETUPS).try_collect().await
}
