//! Simulates the workloads of one cluster: watches say which of them changed, and a reconcile writes the status that a
//! workload should have by now. The index keeps a few fields of each; which status that is, is left to `decide`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bellwether_clock::{Clock, whole_seconds};
use bellwether_runtime::{
    BackoffPolicy, Context, DirtyKeys, DynamicWatches, IndexedReconciler, Next, ObjectName, ReconcileError,
    Watch, WatchHandle, Watches, run_indexed,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::behaviour::{Behaviour, Unreadable};
use crate::decide::Inputs;
use crate::workload::{Kind, Workload};

/// How many objects a page of a list has: only a few fields of each are kept.
const PAGE_SIZE: u32 = 100;

/// Simulates the workloads of one cluster.
pub struct Simulator {
    context: Context,
    delay: Duration,
}

impl Simulator {
    /// For the cluster of a context: rollouts take the delay, and what is written is dated by the clock.
    pub fn new(context: Context, delay: Duration) -> Self {
        Self { context, delay }
    }

    /// Simulates until it is dropped.
    pub async fn run(self) {
        let Self { context, delay } = self;
        let (client, index) = (context.client.clone(), Arc::default());
        let watches = Watches::new(Reconciler::NAME, &context, Arc::clone(&index))
            .with(watch::<Deployment>(&client))
            .with(watch::<StatefulSet>(&client))
            .with(watch::<DaemonSet>(&client))
            .with(watch::<Job>(&client));
        let clock = context.clock.clone();
        let (watch, nodes) = (watches.dynamic(), OnceLock::new());
        run_indexed(Reconciler { client, clock, delay, index, watch, nodes }, watches, context).await;
    }
}

/// Watches a kind of workload.
fn watch<W: Workload>(client: &Client) -> Watch<Index, W> {
    Watch::new(client, Api::<W>::all)
        .config(watcher::Config::default().page_size(PAGE_SIZE))
        .on_apply(|index: &mut Index, object: W| {
            let key = Key { kind: W::KIND, name: ObjectName::of(&object) };
            index.workloads.entry(key.clone()).or_insert_with(Tracked::new);
            index.dirty.enqueue(key);
        })
        .on_delete(|index, deleted| {
            let key = Key { kind: W::KIND, name: deleted.name };
            index.workloads.remove(&key);
            index.dirty.forget(key);
        })
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    kind: Kind,
    name: ObjectName,
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} {}", self.kind, self.name)
    }
}

/// The workloads of a cluster, and its nodes that accept pods.
#[derive(Default)]
struct Index {
    workloads: HashMap<Key, Tracked>,
    schedulable: HashSet<ObjectName>,
    dirty: DirtyKeys<Key>,
}

impl Index {
    /// Adds or removes a node. A change concerns every DaemonSet.
    fn set_schedulable(&mut self, node: ObjectName, is_schedulable: bool) {
        let changed =
            if is_schedulable { self.schedulable.insert(node) } else { self.schedulable.remove(&node) };
        if changed {
            let sets = self.workloads.keys().filter(|key| key.kind == Kind::DaemonSet);
            sets.for_each(|key| self.dirty.enqueue(key.clone()));
        }
    }
}

/// The tracked fields of a workload.
struct Tracked {
    rollout: Option<Rollout>,
    since: Instant,
    /// The invalid annotation that an event was written for.
    reported: Option<Unreadable>,
}

impl Tracked {
    fn new() -> Self {
        Self { rollout: None, since: Instant::now(), reported: None }
    }
}

/// The delay begins again when one of these changes.
#[derive(PartialEq, Eq)]
struct Rollout {
    uid: Option<String>,
    generation: Option<i64>,
    behaviour: Behaviour,
}

struct Reconciler {
    client: Client,
    clock: Arc<dyn Clock>,
    delay: Duration,
    index: Arc<Mutex<Index>>,
    watch: DynamicWatches<Index>,
    /// The watch of nodes. Most clusters have no DaemonSets and need none.
    nodes: OnceLock<WatchHandle>,
}

/// A request failed.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct SimulatorError(#[from] kube::Error);

impl ReconcileError for SimulatorError {
    fn label(&self) -> &'static str {
        "api"
    }
}

impl IndexedReconciler for Reconciler {
    type Key = Key;
    type Error = SimulatorError;
    const NAME: &'static str = "workload-simulator";
    const CONCURRENCY: usize = 4;
    const RETRY: BackoffPolicy =
        BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };

    fn take_dirty(&self) -> DirtyKeys<Key> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<Key> {
        self.index.lock().workloads.keys().cloned().collect()
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, SimulatorError> {
        match key.kind {
            Kind::Deployment => self.simulate::<Deployment>(key).await,
            Kind::StatefulSet => self.simulate::<StatefulSet>(key).await,
            Kind::DaemonSet => {
                self.nodes.get_or_init(|| self.watch_nodes());
                self.simulate::<DaemonSet>(key).await
            }
            Kind::Job => self.simulate::<Job>(key).await,
        }
    }
}

impl Reconciler {
    /// Writes the status that a workload should have by now.
    async fn simulate<W: Workload>(&self, key: &Key) -> Result<Next, SimulatorError> {
        let api = Api::<W>::namespaced(self.client.clone(), &key.name.namespace);
        let Some(object) = api.get_opt(&key.name.name).await? else { return Ok(Next::OnChange) };
        if object.meta().deletion_timestamp.is_some() {
            return Ok(Next::OnChange);
        }
        let template = object.template().and_then(|template| template.metadata.as_ref());
        let (behaviour, unreadable) = Behaviour::requested(
            object.meta().annotations.as_ref(),
            template.and_then(|template| template.annotations.as_ref()),
        );
        let now = Instant::now();
        let rollout = Rollout { uid: object.uid(), generation: object.meta().generation, behaviour };
        let Some(since) = self.rollout_start(key, rollout, now) else { return Ok(Next::OnChange) };
        self.report(key, &object, unreadable).await;
        let behaviour = if object.is_held() { Behaviour::Never } else { behaviour };
        let (stage, left) = behaviour.stage(self.delay, now.duration_since(since));
        if let Some(desired) = object.at_stage(stage, &self.inputs()) {
            match api.replace_status(&key.name.name, &PostParams::default(), &desired).await {
                Ok(_) => {}
                // It has changed or was deleted since it was read.
                Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                    return Ok(Next::Backoff);
                }
                Err(error) => return Err(error.into()),
            }
        }
        // An instant that cannot be represented never comes.
        let left = left.filter(|left| now.checked_add(*left).is_some());
        Ok(left.map_or(Next::OnChange, Next::After))
    }

    /// When a rollout was first seen; `None` if the workload was deleted.
    fn rollout_start(&self, key: &Key, rollout: Rollout, now: Instant) -> Option<Instant> {
        let mut index = self.index.lock();
        let tracked = index.workloads.get_mut(key)?;
        if tracked.rollout.as_ref() != Some(&rollout) {
            tracked.rollout = Some(rollout);
            tracked.since = now;
        }
        Some(tracked.since)
    }

    /// Writes an event about an invalid annotation, once.
    async fn report<W: Workload>(&self, key: &Key, object: &W, unreadable: Option<Unreadable>) {
        {
            let mut index = self.index.lock();
            let Some(tracked) = index.workloads.get_mut(key) else { return };
            if tracked.reported == unreadable {
                return;
            }
            tracked.reported.clone_from(&unreadable);
        }
        let Some(unreadable) = unreadable else { return };
        let reporter = Reporter { controller: "bellwether-simulator".into(), instance: None };
        let event = Event {
            type_: EventType::Warning,
            reason: "UnreadableAnnotation".into(),
            note: Some(unreadable.to_string()),
            action: "Simulate".into(),
            secondary: None,
        };
        let recorder = Recorder::new(self.client.clone(), reporter);
        if let Err(error) = recorder.publish(&event, &object.object_ref(&())).await {
            tracing::warn!("{key}: {unreadable} (no event could be written: {error})");
        }
    }

    fn watch_nodes(&self) -> WatchHandle {
        let nodes = Watch::new(&self.client, Api::<Node>::all)
            .config(watcher::Config::default().page_size(PAGE_SIZE))
            .on_apply(|index: &mut Index, node| {
                let is_cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
                index.set_schedulable(ObjectName::of(&node), !is_cordoned);
            })
            .on_delete(|index, deleted| index.set_schedulable(deleted.name, false));
        self.watch.start(nodes)
    }

    fn inputs(&self) -> Inputs {
        Inputs {
            now: Time(whole_seconds(self.clock.now())),
            nodes: i32::try_from(self.index.lock().schedulable.len()).unwrap_or(i32::MAX).max(1),
        }
    }
}
