//! The spokes of `up` as its hub knows them: joined, all in one set; and the add-on that the demonstration begins with.

use anyhow::Context as _;
use bellwether_api::cluster::ManagedCluster;
use bellwether_api::cluster::vocabulary::SET_LABEL;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::AT_ONCE;
use super::objects::{US, Wanted, read};

/// The set of all spokes, and that placements may choose from it.
const SET: &str = "default";
const SETS: &str = include_str!("../../../../deploy/examples/cluster-set.yaml");
/// What tells the first spoke from the others, in the demonstration.
const CANARY_LABEL: &str = "bellwether.io/canary";
/// The add-on of the demonstration.
const SAMPLES: &str = include_str!("../../../../deploy/examples/helloworld.yaml");

/// Joins the spokes, in a set that placements may choose from. What is there already is left as it is.
pub(crate) async fn join(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(US));
    let clusters = spokes.iter().map(|spoke| {
        json!({"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster",
            "metadata": {"name": spoke, "labels": {SET_LABEL: SET}}, "spec": {"hubAcceptsClient": true}})
    });
    create_all(&client, read(SETS)?.into_iter().chain(clusters)).await
}

/// Brings the add-on of the demonstration, once: what a person has changed or deleted since then stays so.
pub(crate) async fn bring_samples(server: &ApiServer, spokes: &[String]) -> anyhow::Result<()> {
    let client = server.client(HUB, Identity::master(US));
    let brought = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bellwether-demo", "namespace": "kube-system"},
        "data": {"samples": "were brought; delete this to have them brought again"}});
    let brought = Wanted::of(&client, &brought);
    if brought.found().await?.is_some() {
        return Ok(());
    }
    if let Some(first) = spokes.first() {
        let clusters: Api<ManagedCluster> = Api::all(client.clone());
        let label = Patch::Merge(json!({"metadata": {"labels": {CANARY_LABEL: "true"}}}));
        let labelled = clusters.patch(first, &PatchParams::default(), &label).await;
        labelled.with_context(|| format!("cannot make {first} the canary"))?;
    }
    create_all(&client, read(SAMPLES)?).await?;
    brought.create().await
}

async fn create_all(client: &Client, objects: impl IntoIterator<Item = Value>) -> anyhow::Result<()> {
    let objects: Vec<Value> = objects.into_iter().collect();
    let created = objects.iter().map(|object| async move { Wanted::of(client, object).create().await });
    stream::iter(created).buffer_unordered(AT_ONCE).try_collect().await
}
