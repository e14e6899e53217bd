//! Clusters by the hundred, of which nothing is there but their answers to works; and a witness who watches how far their
//! add-ons are.

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

use super::answers::{Answers, Refused, Work};
use crate::bench::connection::{Access, Connection, Content, each_line};
use crate::bench::contestant::{Contender, define_all};

const ADDONS: &str = "/apis/addon.open-cluster-management.io/v1alpha1";
const CLUSTERS: &str = "/apis/cluster.open-cluster-management.io";
pub(super) const WORKS: &str = "/apis/work.open-cluster-management.io/v1";
const ADDON: &str = "helloworld";
/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(100);
/// How long a kind may take to be served.
const SERVED: Duration = Duration::from_secs(10);
/// How long anything may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// The clusters.
pub(super) struct Fleet {
    access: Access,
    connection: Connection,
    size: usize,
    /// The version that each cluster runs, and since when that is known.
    known: Arc<Mutex<BTreeMap<String, (String, Instant)>>>,
    placed: Option<Instant>,
    /// The answers of clusters that were not taken.
    refused: Arc<Mutex<Refused>>,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Defines the kinds and the versions, and begins to answer and to watch.
    pub(super) async fn new(server: &Contender, size: usize) -> anyhow::Result<Self> {
        let access = server.access.clone();
        let mut connection = access.connect().await?;
        define_all(&mut connection).await?;
        let mut fleet = Self {
            access,
            connection,
            size,
            known: Arc::default(),
            placed: None,
            refused: Arc::default(),
            _tasks: JoinSet::new(),
        };
        fleet.watch().await?;
        fleet.answer().await?;
        Ok(fleet)
    }

    /// How many answers of clusters were not taken so far. Each of them was given again.
    pub(super) fn answers_refused(&self) -> usize {
        self.refused.lock().count
    }

    /// Joins the clusters, in one set that one placement chooses, and waits until all are chosen.
    pub(super) async fn join(&mut self) -> anyhow::Result<()> {
        let group = "cluster.open-cluster-management.io";
        let set = json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSet",
            "metadata": {"name": "default"}});
        self.create(&format!("{CLUSTERS}/v1beta2/managedclustersets"), &set).await?;
        let binding = json!({"apiVersion": format!("{group}/v1beta2"), "kind": "ManagedClusterSetBinding",
            "metadata": {"name": "default"}, "spec": {"clusterSet": "default"}});
        let path = format!("{CLUSTERS}/v1beta2/namespaces/default/managedclustersetbindings");
        self.create(&path, &binding).await?;
        for number in 0..self.size {
            let cluster = json!({"apiVersion": format!("{group}/v1"), "kind": "ManagedCluster",
                "metadata": {"name": format!("cluster-{number:05}"),
                    "labels": {"cluster.open-cluster-management.io/clusterset": "default"}},
                "spec": {"hubAcceptsClient": true}});
            self.create(&format!("{CLUSTERS}/v1/managedclusters"), &cluster).await?;
            self.be_in_reach(&format!("cluster-{number:05}")).await?;
        }
        for version in ["v1", "v2"] {
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": ADDON, "namespace": "default"}, "data": {"version": version}});
            let template = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1", "kind": "AddOnTemplate",
                "metadata": {"name": format!("{ADDON}-{version}")},
                "spec": {"addonName": ADDON, "version": version, "agentSpec": {"workload": {"manifests": [map]}}}});
            self.create(&format!("{ADDONS}/addontemplates"), &template).await?;
        }
        let placement = json!({"apiVersion": format!("{group}/v1beta1"), "kind": "Placement",
            "metadata": {"name": "all"}, "spec": {"clusterSets": ["default"]}});
        let path = format!("{CLUSTERS}/v1beta1/namespaces/default/placements");
        self.create(&path, &placement).await?;
        let size = self.size;
        self.until("all clusters have a namespace", "/api/v1/namespaces?limit=100000", move |list| {
            let items = list.get("items").and_then(Value::as_array);
            let names =
                items.into_iter().flatten().filter_map(|item| item.pointer("/metadata/name")?.as_str());
            names.filter(|name| name.starts_with("cluster-")).count() == size
        })
        .await?;
        self.until("all clusters are chosen", &format!("{path}/all"), move |placement| {
            placement.pointer("/status/numberOfSelectedClusters").and_then(Value::as_u64) == Some(size as u64)
        })
        .await
    }

    /// Says of a cluster what its agent would. Its lease is not renewed: it counts for longer than the measurement lasts.
    async fn be_in_reach(&mut self, cluster: &str) -> anyhow::Result<()> {
        let condition = |type_: &str| {
            json!({"type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": "2024-05-01T10:00:00Z"})
        };
        let conditions = ["ManagedClusterJoined", "ManagedClusterConditionAvailable"].map(condition);
        let patch = json!({"status": {"conditions": conditions}}).to_string();
        let path = format!("{CLUSTERS}/v1/managedclusters/{cluster}/status");
        self.connection.send(Method::PATCH, &path, Content::MergePatch(patch.into_bytes())).await?;
        Ok(())
    }

    /// Asks for a version on all clusters.
    pub(super) async fn place(&mut self, version: &str) -> anyhow::Result<()> {
        let strategy = json!({"type": "Placements", "placements": [
            {"namespace": "default", "name": "all", "addonTemplate": {"installVersion": version}},
        ]});
        let begun = Instant::now();
        if self.placed.is_none() {
            let addon = json!({"apiVersion": "addon.open-cluster-management.io/v1alpha1",
                "kind": "ClusterManagementAddOn", "metadata": {"name": ADDON}, "spec": {"installStrategy": strategy}});
            self.create(&format!("{ADDONS}/clustermanagementaddons"), &addon).await?;
        } else {
            let patch =
                Content::MergePatch(json!({"spec": {"installStrategy": strategy}}).to_string().into_bytes());
            let path = format!("{ADDONS}/clustermanagementaddons/{ADDON}");
            self.connection.send(Method::PATCH, &path, patch).await?;
        }
        self.placed = Some(begun);
        Ok(())
    }

    /// Waits until all clusters run a version, and says how long after it was placed that was.
    pub(super) async fn until_all_run(&self, version: &str) -> anyhow::Result<Duration> {
        let placed = self.placed.context("nothing was placed")?;
        loop {
            {
                let known = self.known.lock();
                let there = known.values().filter(|(runs, _)| runs == version);
                let count = there.clone().count();
                if count == self.size {
                    let last = there.map(|(_, since)| *since).max().unwrap_or(placed);
                    return Ok(last.saturating_duration_since(placed));
                }
                anyhow::ensure!(
                    placed.elapsed() < PATIENCE,
                    "only {count} of {} clusters had {version} within {PATIENCE:?}{}",
                    self.size,
                    self.refused.lock()
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn create(&mut self, path: &str, object: &Value) -> anyhow::Result<()> {
        let content = || Content::Json(object.to_string().into_bytes());
        let begun = Instant::now();
        while let Err(error) = self.connection.send(Method::POST, path, content()).await {
            // A kind that was just defined may not be served yet.
            if begun.elapsed() > SERVED {
                return Err(error);
            }
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// Asks until the answer is as it should be.
    async fn until(
        &mut self,
        what: &str,
        path: &str,
        as_it_should_be: impl Fn(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if let Ok(answer) = self.connection.get(path).await
                && as_it_should_be(&serde_json::from_slice(&answer)?)
            {
                return Ok(());
            }
            anyhow::ensure!(begun.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Notes down which version each cluster has arrived at.
    async fn watch(&mut self) -> anyhow::Result<()> {
        let known = self.known.clone();
        let path = format!("{ADDONS}/managedclusteraddons?watch=true");
        self.each_event(&path, move |object: Object| {
            let succeeded = object.status.conditions.iter().any(|said| said.reason == "Succeed");
            if succeeded {
                let version = object.status.current_version;
                let mut known = known.lock();
                let before = known.get(&object.metadata.namespace);
                if before.is_none_or(|(runs, _)| *runs != version) {
                    known.insert(object.metadata.namespace, (version, Instant::now()));
                }
            }
        })
        .await
    }

    /// Says of every work that all of it is there.
    async fn answer(&mut self) -> anyhow::Result<()> {
        let mut answers = Answers::of(&self.access, &self.refused, &mut self._tasks);
        self.each_event(&format!("{WORKS}/manifestworks?watch=true"), move |work: Work| answers.give(work))
            .await
    }

    /// Notes every event. A server may end a watch at any time, as kube-apiserver does with one that falls behind; the
    /// next one begins with all that there is.
    async fn each_event<O: DeserializeOwned>(
        &mut self,
        path: &str,
        mut note: impl FnMut(O) + Send + 'static,
    ) -> anyhow::Result<()> {
        let (access, path) = (self.access.clone(), path.to_owned());
        let (mut stream, mut connection) = begin(&access, &path).await?;
        self._tasks.spawn(async move {
            loop {
                each_line(stream, connection, |line| {
                    if let Ok(event) = serde_json::from_slice::<Event<O>>(line) {
                        note(event.object);
                    }
                })
                .await;
                (stream, connection) = match begin(&access, &path).await {
                    Ok(begun) => begun,
                    // Whoever waits for what is not told says so.
                    Err(_) => return,
                };
            }
        });
        Ok(())
    }
}

/// Begins a watch. A kind that was just defined may not be served yet, and a server may be too busy for a moment.
async fn begin(access: &Access, path: &str) -> anyhow::Result<(Incoming, Connection)> {
    let begun = Instant::now();
    loop {
        let watch = async {
            let mut connection = access.connect().await?;
            let stream = connection.begin(Method::GET, path, Content::None).await?;
            anyhow::Ok((stream, connection))
        };
        match watch.await {
            Ok(begun) => return Ok(begun),
            Err(error) if begun.elapsed() > SERVED => return Err(error),
            Err(_) => tokio::time::sleep(GLANCE).await,
        }
    }
}

/// The part of an event that is looked at.
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
