//! Simulates hundreds of clusters: joins them to the hub, reports the status of their ManifestWorks, and watches the versions of
//! their add-ons.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use http::Method;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::work_status::{FailedReports, ManifestWork, StatusReporter};
use crate::connection::{Access, Connection, Content, for_each_line};
use crate::server::{Server, create_crds};

const ADDON_API: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
const CLUSTER_API: &str = "/apis/cluster.open-cluster-management.io";
pub(super) const WORK_API: &str = "/apis/work.open-cluster-management.io/v1";
const ADDON: &str = "helloworld";
/// How often a condition is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a new kind may take to be served.
const SERVED_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a step may take before the benchmark fails.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// The simulated clusters.
pub(super) struct Fleet {
    access: Access,
    connection: Connection,
    size: usize,
    /// The version that each cluster reports, and when that was received.
    versions: Arc<Mutex<BTreeMap<String, (String, Instant)>>>,
    /// When the current version was requested.
    requested_at: Option<Instant>,
    failed_reports: Arc<Mutex<FailedReports>>,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Creates the CRDs, and starts to watch add-ons and to report the status of ManifestWorks.
    pub(super) async fn new(server: &Server, size: usize) -> anyhow::Result<Self> {
        let access = server.access.clone();
        let mut connection = access.connect().await?;
        create_crds(&mut connection).await?;
        let mut fleet = Self {
            access,
            connection,
            size,
            versions: Arc::default(),
            requested_at: None,
            failed_reports: Arc::default(),
            _tasks: JoinSet::new(),
        };
        fleet.watch_addons().await?;
        fleet.report_works().await?;
        Ok(fleet)
    }

    /// How many status reports of clusters failed so far. Each of them was retried.
    pub(super) fn failed_reports(&self) -> usize {
        self.failed_reports.lock().count
    }

    /// Joins the clusters, in one cluster set and one placement, and waits until the placement has selected all.
    pub(super) async fn join(&mut self) -> anyhow::Result<()> {
        let group = "cluster.open-cluster-management.io";
        let set = json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": "default"}});
        self.create(&format!("{CLUSTER_API}/v1beta2/managedclustersets"), &set).await?;
        let binding = json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "default"}, "spec": {"clusterSet": "default"}});
        let path = format!("{CLUSTER_API}/v1beta2/namespaces/default/managedclustersetbindings");
        self.create(&path, &binding).await?;
        for number in 0..self.size {
            let cluster = json!({"apiVersion": format!("{group}/v1"), "kind": "ManagedCluster",
                "metadata": {"name": format!("cluster-{number:05}"),
                    "labels": {"cluster.open-cluster-management.io/clusterset": "default"}},
                "spec": {"hubAcceptsClient": true}});
            self.create(&format!("{CLUSTER_API}/v1/managedclusters"), &cluster).await?;
            self.set_available(&format!("cluster-{number:05}")).await?;
        }
        for version in ["v1", "v2"] {
            let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ADDON, "namespace": "default"}, "data": {"version": version}});
            let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
                "metadata": {"name": format!("{ADDON}-{version}")},
                "spec": {"addonName": ADDON, "version": version, "agentSpec": {"workload": {"manifests": [config_map]}}}});
            self.create(&format!("{ADDON_API}/addontemplates"), &template).await?;
        }
        let placement = json!({"apiVersion": format!("{group}/v1beta1"), "kind": "Placement",
            "metadata": {"name": "all"}, "spec": {"clusterSets": ["default"]}});
        let path = format!("{CLUSTER_API}/v1beta1/namespaces/default/placements");
        self.create(&path, &placement).await?;
        let size = self.size;
        self.wait_for("all clusters have a namespace", "/api/v1/namespaces?limit=100000", move |list| {
            let items = list.get("items").and_then(Value::as_array);
            let names =
                items.into_iter().flatten().filter_map(|item| item.pointer("/metadata/name")?.as_str());
            names.filter(|name| name.starts_with("cluster-")).count() == size
        })
        .await?;
        self.wait_for("the placement has selected all clusters", &format!("{path}/all"), move |placement| {
            placement.pointer("/status/numberOfSelectedClusters").and_then(Value::as_u64) == Some(size as u64)
        })
        .await
    }

    /// Sets the conditions of a cluster as its agent would. Its Lease is not renewed: it stays valid for longer than the benchmark.
    async fn set_available(&mut self, cluster: &str) -> anyhow::Result<()> {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": "2024-05-01T10:00:00Z"})
        };
        let conditions = ["ManagedClusterJoined", "ManagedClusterConditionAvailable"].map(condition);
        let patch = json!({"status": {"conditions": conditions}}).to_string();
        let path = format!("{CLUSTER_API}/v1/managedclusters/{cluster}/status");
        self.connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await?;
        Ok(())
    }

    /// Requests a version for all clusters.
    pub(super) async fn request_version(&mut self, version: &str) -> anyhow::Result<()> {
        let strategy = json!({"type": "Placements", "placements": [
            {"namespace": "default", "name": "all", "addonTemplate": {"installVersion": version}},
        ]});
        let begun = Instant::now();
        if self.requested_at.is_none() {
            let addon = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1",
                "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": {"installStrategy": strategy}});
            self.create(&format!("{ADDON_API}/clustermanagementaddons"), &addon).await?;
        } else {
            let patch =
                Content::MergePatch(json!({"spec": {"installStrategy": strategy}}).to_string().into_bytes());
            let path = format!("{ADDON_API}/clustermanagementaddons/{ADDON}");
            self.connection.send(Method::PATCH, &path, patch).await?;
        }
        self.requested_at = Some(begun);
        Ok(())
    }

    /// Waits until all clusters run a version, and returns the time since it was requested.
    pub(super) async fn wait_until_all_run(&self, version: &str) -> anyhow::Result<Duration> {
        let requested_at = self.requested_at.context("no version was requested")?;
        loop {
            {
                let versions = self.versions.lock();
                let updated = versions.values().filter(|(runs, _)| runs == version);
                let count = updated.clone().count();
                if count == self.size {
                    let last = updated.map(|(_, since)| *since).max().unwrap_or(requested_at);
                    return Ok(last.saturating_duration_since(requested_at));
                }
                anyhow::ensure!(
                    requested_at.elapsed() < STEP_TIMEOUT,
                    "only {count} of {} clusters reported {version} within {STEP_TIMEOUT:?}{}",
                    self.size,
                    self.failed_reports.lock()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn create(&mut self, path: &str, object: &Value) -> anyhow::Result<()> {
        let content = || Content::Json(object.to_string().into_bytes());
        let begun = Instant::now();
        while let Err(error) = self.connection.send(Method::POST, path, content()).await {
            // A new kind may not be served yet.
            if begun.elapsed() > SERVED_TIMEOUT {
                return Err(error);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Polls an object until it meets a condition.
    async fn wait_for(
        &mut self,
        condition: &str,
        path: &str,
        is_met: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if let Ok(response) = self.connection.get(path).await
                && is_met(&serde_json::from_slice(&response)?)
            {
                return Ok(());
            }
            anyhow::ensure!(begun.elapsed() < STEP_TIMEOUT, "not within {STEP_TIMEOUT:?}: {condition}");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Records the version of each cluster after its rollout has succeeded.
    async fn watch_addons(&mut self) -> anyhow::Result<()> {
        let versions = self.versions.clone();
        let path = format!("{ADDON_API}/managedclusteraddons?watch=true");
        self.for_each_event(&path, move |object: Object| {
            let succeeded = object.status.conditions.iter().any(|condition| condition.reason == "Succeed");
            if succeeded {
                let version = object.status.current_version;
                let mut versions = versions.lock();
                let before = versions.get(&object.metadata.namespace);
                if before.is_none_or(|(runs, _)| *runs != version) {
                    versions.insert(object.metadata.namespace, (version, Instant::now()));
                }
            }
        })
        .await
    }

    /// Reports every ManifestWork as applied and available.
    async fn report_works(&mut self) -> anyhow::Result<()> {
        let mut reporter = StatusReporter::start(&self.access, &self.failed_reports, &mut self._tasks);
        self.for_each_event(&format!("{WORK_API}/manifestworks?watch=true"), move |work: ManifestWork| {
            reporter.enqueue(work)
        })
        .await
    }

    /// Calls `handle` for the object of every watch event. A server may end a watch at any time, as kube-apiserver does with a
    /// slow one; the next watch begins with all objects.
    async fn for_each_event<O: DeserializeOwned>(
        &mut self,
        path: &str,
        mut handle: impl FnMut(O) + Send + 'static,
    ) -> anyhow::Result<()> {
        let (access, path) = (self.access.clone(), path.to_owned());
        let (mut stream, mut connection) = start_watch(&access, &path).await?;
        self._tasks.spawn(async move {
            loop {
                for_each_line(stream, connection, |line| {
                    if let Ok(event) = serde_json::from_slice::<Event<O>>(line) {
                        handle(event.object);
                    }
                })
                .await;
                (stream, connection) = match start_watch(&access, &path).await {
                    Ok(started) => started,
                    // The step that waits for these events fails with its own message.
                    Err(_) => return,
                };
            }
        });
        Ok(())
    }
}

/// Starts a watch. It retries for a while, because a new kind may not be served yet, and the server may be overloaded.
async fn start_watch(access: &Access, path: &str) -> anyhow::Result<(Incoming, Connection)> {
    let begun = Instant::now();
    loop {
        let watch = async {
            let mut connection = access.connect().await?;
            let stream = connection.stream(Method::GET, path, Content::None).await?;
            anyhow::Ok((stream, connection))
        };
        match watch.await {
            Ok(started) => return Ok(started),
            Err(error) if begun.elapsed() > SERVED_TIMEOUT => return Err(error),
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }
}

/// The part of a watch event that is used.
#[derive(Deserialize)]
struct Event<O> {
    object: O,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    current_version: String,
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    reason: String,
}
