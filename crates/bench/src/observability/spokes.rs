//! The simulated clusters: each has an API of its own, which is a logical cluster of an API server in this process, and the
//! product's status controller with its own identity and connection on the hub.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bellwether_apiserver::{ApiServer, Controllers, Identity};
use bellwether_clock::SystemClock;
use bellwether_observability::decide::transition::Actor;
use bellwether_observability::reporter::{Reported, Reporter};
use bellwether_observability::status;
use bellwether_observability::vocabulary::{
    ADDON_NAME, ADDON_NAMESPACE, Component, ComponentReason, Vocabulary,
};
use bellwether_runtime::{Context, Loaded, Metrics, reloading};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, StatusCode};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::changes::message;
use crate::connection::{Connection, Content};
use crate::server::{Server, create_crds, create_namespace};

const API: &str = "/apis/observability.open-cluster-management.io/v1beta1";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
/// The ObservabilityAddons of all clusters on the hub.
pub(super) const HUB_ADDONS: &str =
    "/apis/observability.open-cluster-management.io/v1beta1/observabilityaddons";
/// The group of the clusters on the hub.
const SPOKES_GROUP: &str = "bench:spokes";
/// How many clusters are set up concurrently.
const CONCURRENT_SETUPS: usize = 16;
/// How long a new kind may take to be served.
const SERVED_TIMEOUT: Duration = Duration::from_secs(30);
const SERVED_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// As `bellwether run agent` connects to its hub.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The name of a cluster, and of its namespace on the hub.
fn spoke_name(number: usize) -> String {
    format!("spoke-{number:05}")
}

/// The number of the cluster with a name.
pub(super) fn spoke_number(name: &str) -> Option<usize> {
    name.strip_prefix("spoke-")?.parse().ok()
}

fn addon() -> Value {
    json!({"apiVersion": "observability.open-cluster-management.io/v1beta1", "kind": "ObservabilityAddon",
        "metadata": {"name": ADDON_NAME}, "spec": {}})
}

/// Creates the CRDs, the permissions of the clusters, and the ObservabilityAddon of each cluster on the hub.
pub(super) async fn prepare_hub(hub: &Server, spokes: usize) -> anyhow::Result<()> {
    let mut connection = hub.access.connect().await?;
    create_crds(&mut connection).await?;
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
    "metadata": {"name": SPOKES_GROUP}, "rules": [
        {"apiGroups": ["observability.open-cluster-management.io"],
         "resources": ["observabilityaddons"], "verbs": ["get"]},
        {"apiGroups": ["observability.open-cluster-management.io"],
         "resources": ["observabilityaddons/status"], "verbs": ["get", "update"]},
    ]});
    create_on_hub(&mut connection, &format!("{RBAC}/clusterroles"), &role).await?;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": SPOKES_GROUP},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": SPOKES_GROUP},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": SPOKES_GROUP}]});
    create_on_hub(&mut connection, &format!("{RBAC}/clusterrolebindings"), &binding).await?;
    let created = (0..spokes).map(|number| {
        // A stream of the same connection.
        let mut connection = connection.clone();
        async move {
            let name = spoke_name(number);
            create_namespace(&mut connection, &name).await?;
            let path = format!("{API}/namespaces/{name}/observabilityaddons");
            create_on_hub(&mut connection, &path, &addon()).await
        }
    });
    futures::stream::iter(created).buffer_unordered(CONCURRENT_SETUPS).try_collect::<()>().await
}

async fn create_on_hub(connection: &mut Connection, path: &str, object: &Value) -> anyhow::Result<()> {
    let content = || Content::Json(object.to_string().into_bytes());
    let begun = Instant::now();
    while let Err(error) = connection.send(Method::POST, path, content()).await {
        anyhow::ensure!(begun.elapsed() < SERVED_TIMEOUT, error);
        tokio::time::sleep(SERVED_POLL_INTERVAL).await;
    }
    Ok(())
}

/// The simulated clusters.
pub(super) struct Spokes {
    apis: ApiServer,
    reporters: Vec<Reporter>,
    controllers: JoinSet<()>,
}

impl Spokes {
    /// Creates the APIs of the clusters, each with an ObservabilityAddon. No controller runs yet.
    pub(super) async fn create(count: usize) -> anyhow::Result<Self> {
        let names = (0..count).map(spoke_name);
        let apis = ApiServer::in_memory().controllers(Controllers::none()).clusters(names).start().await?;
        let crd = bellwether_api::crds()
            .into_iter()
            .find(|definition| definition.name().starts_with("observabilityaddons."))
            .context("there is no CRD of ObservabilityAddon")?;
        let crd = json!(crd.crd);
        let prepared = (0..count).map(|number| prepare_spoke(spoke_client(&apis, number), &crd));
        futures::stream::iter(prepared)
            .buffer_unordered(CONCURRENT_SETUPS)
            .try_collect::<()>()
            .await
            .context("cannot prepare the API of a simulated cluster")?;
        let metrics = Metrics::default();
        let reporters = (0..count).map(|number| {
            Reporter::new(
                spoke_client(&apis, number),
                ADDON_NAMESPACE,
                Actor::Collector,
                Vocabulary::Seed,
                Arc::new(SystemClock),
                &metrics,
            )
        });
        let reporters = reporters.collect();
        Ok(Self { apis, reporters, controllers: JoinSet::new() })
    }

    pub(super) fn count(&self) -> usize {
        self.reporters.len()
    }

    /// Starts the status controller of every cluster, and waits until each watches its cluster.
    pub(super) async fn start_controllers(&mut self, hub: &Server) -> anyhow::Result<()> {
        let context = Context::standalone(spoke_client(&self.apis, 0));
        for number in 0..self.count() {
            let name = spoke_name(number);
            let kubeconfig = hub.write_kubeconfig_of_group(&name, SPOKES_GROUP)?;
            let settings = status::Settings {
                namespace: ADDON_NAMESPACE.to_owned(),
                hub: hub_client(kubeconfig).await?,
                hub_namespace: name.clone(),
                vocabulary: Vocabulary::Seed,
                resync_interval: status::RESYNC_INTERVAL,
            };
            let context = context.for_cluster(&name, spoke_client(&self.apis, number));
            self.controllers.spawn(status::run(settings, context));
        }
        let begun = Instant::now();
        while let Some((name, reason)) = context.health.not_ready().into_iter().next() {
            anyhow::ensure!(begun.elapsed() < SERVED_TIMEOUT, "{name} is not ready: {reason}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Reports another state of the collector of a cluster. Changes with odd numbers are failures, so that each change also
    /// changes the state of the add-on.
    pub(super) async fn change(&self, spoke: usize, number: u64) -> anyhow::Result<()> {
        let reporter = self.reporters.get(spoke).context("there is no such cluster")?;
        let reason = if number.is_multiple_of(2) {
            ComponentReason::ForwardSuccessful
        } else {
            ComponentReason::ForwardFailure
        };
        let reported = reporter.report(Component::Platform, reason, &message(number)).await?;
        anyhow::ensure!(reported == Reported::Updated, "change {number} of cluster {spoke}: {reported:?}");
        Ok(())
    }

    /// The revision of the store of all clusters, which every write increments by one.
    pub(super) async fn revision(&self) -> anyhow::Result<u64> {
        let path = format!("{API}/namespaces/{ADDON_NAMESPACE}/observabilityaddons");
        let list: Value = spoke_client(&self.apis, 0).request(Request::get(path).body(Vec::new())?).await?;
        parse_revision(&list)
    }
}

/// The revision of the store of the hub, which every write increments by one. The list has one object and no `limit`: after a
/// list that is not read to its end, the API server writes a mark into its store, which would be counted.
pub(super) async fn hub_revision(hub: &Server) -> anyhow::Result<u64> {
    let path = format!("{API}/namespaces/{}/observabilityaddons", spoke_name(0));
    parse_revision(&serde_json::from_slice(&hub.access.connect().await?.get(&path).await?)?)
}

fn parse_revision(list: &Value) -> anyhow::Result<u64> {
    let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
    revision.parse().context("the list has no resourceVersion")
}

fn spoke_client(apis: &ApiServer, number: usize) -> kube::Client {
    apis.client(&spoke_name(number), Identity::admin())
}

/// Creates the CRD, the namespace and the ObservabilityAddon of a cluster.
async fn prepare_spoke(client: kube::Client, crd: &Value) -> anyhow::Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": ADDON_NAMESPACE}});
    let addons = format!("{API}/namespaces/{ADDON_NAMESPACE}/observabilityaddons");
    for (path, object) in [(CRDS, crd), ("/api/v1/namespaces", &namespace), (addons.as_str(), &addon())] {
        let begun = Instant::now();
        loop {
            let request = Request::post(path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(object.to_string().into_bytes())?;
            match client.request::<Value>(request).await {
                Ok(_) => break,
                // A new kind may not be served yet.
                Err(kube::Error::Api(status))
                    if status.code == StatusCode::NOT_FOUND && begun.elapsed() < SERVED_TIMEOUT =>
                {
                    tokio::time::sleep(SERVED_POLL_INTERVAL).await;
                }
                Err(error) => return Err(error).with_context(|| format!("POST {path}")),
            }
        }
    }
    Ok(())
}

/// A client of the hub, as `bellwether run agent` creates it for its status controller.
async fn hub_client(kubeconfig: PathBuf) -> anyhow::Result<kube::Client> {
    reloading(move || {
        let path = kubeconfig.clone();
        async move {
            let config = Kubeconfig::read_from(&path)?;
            let mut config =
                kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await?;
            config.connect_timeout = Some(CONNECT_TIMEOUT);
            config.default_retry = false;
            let client = kube::Client::try_from(config)?;
            Ok::<_, anyhow::Error>(Loaded { client, files: vec![path] })
        }
    })
    .await
}
