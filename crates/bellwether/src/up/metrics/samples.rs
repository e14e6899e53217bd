//! The objects that turn metrics on in the demo: on every spoke a Prometheus to collect from and the address of the receiver, and
//! on the hub an ObservabilityAddon for each spoke.

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bellwether_apiserver::{ApiServer, HUB, Identity};
use bellwether_observability::vocabulary::{ADDON_NAME, ADDON_NAMESPACE};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use super::DemoMetrics;
use crate::up::CONCURRENT_SETUPS;
use crate::up::objects::{FIELD_MANAGER, Manifest, parse_manifests};

/// What every spoke has.
const SPOKE_MANIFESTS: &str = include_str!("../../../../../deploy/examples/platform-monitoring.yaml");
/// What one spoke has in addition.
const USER_WORKLOAD_MANIFESTS: &str =
    include_str!("../../../../../deploy/examples/user-workload-monitoring.yaml");
/// The interval of the ObservabilityAddons, in seconds: the shortest.
const INTERVAL_SECONDS: i32 = 15;

/// Creates the objects once for each spoke. If a user changes or deletes them later, they are not created again; only the address
/// of the receiver is updated, because it changes with the HTTP address.
pub(crate) async fn create(
    server: &ApiServer,
    spokes: &[String],
    metrics: &DemoMetrics,
) -> anyhow::Result<()> {
    let created = spokes.iter().enumerate().map(|(place, spoke)| async move {
        create_on(server, spoke, place == 0, metrics)
            .await
            .with_context(|| format!("cannot turn on the metrics of {spoke}"))
    });
    stream::iter(created).buffer_unordered(CONCURRENT_SETUPS).try_collect().await
}

async fn create_on(
    server: &ApiServer,
    spoke: &str,
    has_user_workloads: bool,
    metrics: &DemoMetrics,
) -> anyhow::Result<()> {
    let client = server.client(spoke, Identity::master(FIELD_MANAGER));
    let marker = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bellwether-demo", "namespace": "kube-system"},
        "data": {"metrics": "turned on; delete this ConfigMap to turn them on again"}});
    let marker = Manifest::new(&client, &marker);
    let hub_info = hub_info(metrics);
    let hub_info = Manifest::new(&client, &hub_info);
    if marker.metadata().await?.is_some() {
        if hub_info.metadata().await?.is_some() {
            hub_info.apply().await?;
        }
        return Ok(());
    }
    let mut objects = parse_manifests(SPOKE_MANIFESTS)?;
    if has_user_workloads {
        objects.extend(parse_manifests(USER_WORKLOAD_MANIFESTS)?);
    }
    for object in &objects {
        Manifest::new(&client, object).create().await?;
    }
    hub_info.apply().await?;
    let hub = server.client(HUB, Identity::master(FIELD_MANAGER));
    let addon = json!({
        "apiVersion": "observability.open-cluster-management.io/v1beta1",
        "kind": "ObservabilityAddon",
        "metadata": {"name": ADDON_NAME, "namespace": spoke},
        "spec": {"interval": INTERVAL_SECONDS},
    });
    Manifest::new(&hub, &addon).create().await?;
    marker.create().await
}

/// The Secret with the address of the receiver.
fn hub_info(metrics: &DemoMetrics) -> Value {
    let text = format!("observatorium-api-endpoint: {}\n", metrics.receiver());
    json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "hub-info-secret", "namespace": ADDON_NAMESPACE},
        "data": {"hub-info.yaml": STANDARD.encode(text)}})
}
