//! Runs the metrics collectors of a spoke: a logical cluster has no nodes, so that the container of a collector's Deployment runs
//! as a task of this process, with the arguments and the ServiceAccount of its pod.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bellwether_apiserver::{ApiServer, Identity};
use bellwether_observability::collector::Environment;
use bellwether_observability::vocabulary::ADDON_NAMESPACE;
use bellwether_runtime::{
    Context, DirtyKeys, Health, IndexedReconciler, Metrics, Next, ReconcileError, Watch, Watches, run_indexed,
};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use kube::api::Api;
use kube::runtime::watcher;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument as _;

use crate::collector::CollectorArgs;

const NAME: &str = "collector-runner";
/// The label of the Deployments of collectors.
const LABEL: &str = "component in (metrics-collector,uwl-metrics-collector)";

/// Runs the collectors of a spoke until the shutdown. Their cycles take `interval`, or less if their arguments say so.
pub(crate) fn run(
    server: &ApiServer,
    spoke: &str,
    interval: Duration,
    context: Context,
) -> impl Future<Output = ()> + Send + use<> {
    let index = Arc::new(Mutex::new(Index::default()));
    let deployments =
        Watch::new(&context.client, |client| Api::<Deployment>::namespaced(client, ADDON_NAMESPACE))
            .config(watcher::Config::default().labels(LABEL))
            .on_apply(|index: &mut Index, deployment| index.apply(&deployment))
            .on_delete(|index, deleted| index.delete(&deleted.name.name));
    let watches = Watches::new(NAME, &context, index.clone()).with(deployments);
    let runner = Runner {
        server: server.clone(),
        spoke: spoke.to_owned(),
        interval,
        environment: Environment {
            clock: context.clock.clone(),
            // The metrics and the health of a collector are those of its own process.
            metrics: Metrics::default(),
            health: Health::default(),
            shutdown: context.shutdown.clone(),
        },
        index,
        running: Mutex::default(),
    };
    run_indexed(runner, watches, context)
}

/// The container of a collector.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Container {
    service_account: String,
    arguments: Vec<String>,
}

impl Container {
    /// The container of a Deployment that has replicas.
    fn of(deployment: &Deployment) -> Option<Self> {
        let spec = deployment.spec.as_ref().filter(|spec| spec.replicas.unwrap_or(1) > 0)?;
        let pod = spec.template.spec.as_ref()?;
        Some(Self {
            service_account: pod.service_account_name.clone()?,
            arguments: pod.containers.first()?.args.clone()?,
        })
    }
}

/// The containers that are to run, by the name of their Deployment.
#[derive(Default)]
struct Index {
    wanted: BTreeMap<String, Container>,
    dirty: DirtyKeys<String>,
}

impl Index {
    fn apply(&mut self, deployment: &Deployment) {
        let name = deployment.name_any();
        match Container::of(deployment) {
            Some(container) if self.wanted.get(&name) == Some(&container) => return,
            Some(container) => drop(self.wanted.insert(name.clone(), container)),
            None => drop(self.wanted.remove(&name)),
        }
        self.dirty.enqueue(name);
    }

    fn delete(&mut self, name: &str) {
        self.wanted.remove(name);
        self.dirty.enqueue(name.to_owned());
    }
}

/// A task that ends when this is dropped.
type Task = AbortOnDropHandle<()>;

struct Runner {
    server: ApiServer,
    spoke: String,
    interval: Duration,
    environment: Environment,
    index: Arc<Mutex<Index>>,
    running: Mutex<HashMap<String, (Container, Task)>>,
}

/// The arguments of a container are not those of a collector, or cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot run the collector of Deployment {name}: {source:#}")]
struct CannotRun {
    name: String,
    source: anyhow::Error,
}

impl ReconcileError for CannotRun {
    fn label(&self) -> &'static str {
        "start"
    }
}

impl Runner {
    fn start(&self, container: &Container) -> anyhow::Result<Task> {
        let identity = Identity::service_account(ADDON_NAMESPACE, &container.service_account);
        let client = self.server.client(&self.spoke, identity);
        let arguments = CollectorArgs::parse(&container.arguments)?;
        let mut config = arguments.config()?;
        config.interval = config.interval.min(self.interval);
        let collector = arguments.collector(config, Some(client), self.environment.clone())?;
        let span = tracing::info_span!("collector", cluster = self.spoke);
        Ok(AbortOnDropHandle::new(tokio::spawn(collector.instrument(span))))
    }
}

impl IndexedReconciler for Runner {
    type Key = String;
    type Error = CannotRun;
    const NAME: &'static str = NAME;

    fn take_dirty(&self) -> DirtyKeys<String> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<String> {
        self.index.lock().wanted.keys().cloned().collect()
    }

    async fn reconcile(&self, name: &String) -> Result<Next, CannotRun> {
        let wanted = self.index.lock().wanted.get(name).cloned();
        let mut running = self.running.lock();
        if running.get(name).map(|(container, _)| container) == wanted.as_ref() {
            return Ok(Next::OnChange);
        }
        // Also if the new one cannot start: a pod of the former Deployment would have ended.
        running.remove(name);
        if let Some(container) = wanted {
            let task = self.start(&container).map_err(|source| CannotRun { name: name.clone(), source })?;
            running.insert(name.clone(), (container, task));
        }
        Ok(Next::OnChange)
    }
}
