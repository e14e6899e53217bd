//! Watches the workloads of one cluster, and writes their status when its time has come: one task, which keeps a few
//! words for each object and reads the object again when it is due.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether_clock::{Clock, whole_seconds};
use bellwether_runtime::{BackoffPolicy, Timers};
use futures::stream::{BoxStream, SelectAll, StreamExt as _, select_all};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, PostParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use tokio::time::Instant;

use crate::behaviour::{Behaviour, Unreadable};
use crate::decide::World;
use crate::workload::{Kind, Workload};

/// How long to wait after a failed write of an object.
const RETRY: BackoffPolicy = BackoffPolicy { initial: Duration::from_secs(1), max: Duration::from_secs(30) };
/// How many objects a page of a list has: each is decided as it comes, so that none needs to wait in memory.
const PAGE: u32 = 100;

/// Simulates the workloads of one cluster.
pub struct Simulator {
    client: Client,
    clock: Arc<dyn Clock>,
    delay: Duration,
    objects: HashMap<Key, Seen>,
    timers: Timers<Key>,
    /// What a list that is under way has not shown yet.
    unconfirmed: HashSet<Key>,
    schedulable: HashSet<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    kind: Kind,
    namespace: String,
    name: String,
}

/// What is remembered of an object.
struct Seen {
    rollout: Rollout,
    since: Instant,
    told: Option<Unreadable>,
    failures: u32,
}

/// What begins the delay anew when it changes.
#[derive(Clone, PartialEq, Eq)]
struct Rollout {
    uid: Option<String>,
    generation: Option<i64>,
    behaviour: Behaviour,
}

/// What a watch tells.
enum Sighting {
    Deployment(watcher::Event<Deployment>),
    StatefulSet(watcher::Event<StatefulSet>),
    DaemonSet(watcher::Event<DaemonSet>),
    Job(watcher::Event<Job>),
    Node(watcher::Event<Node>),
}

impl Sighting {
    fn is_of_a_daemon_set(&self) -> bool {
        matches!(self, Self::DaemonSet(watcher::Event::Apply(_) | watcher::Event::InitApply(_)))
    }
}

type Sightings = SelectAll<BoxStream<'static, watcher::Result<Sighting>>>;

impl Simulator {
    /// For the cluster behind a client: rollouts take the delay, and what is written is dated by the clock.
    pub fn new(client: Client, delay: Duration, clock: Arc<dyn Clock>) -> Self {
        Self {
            client,
            clock,
            delay,
            objects: HashMap::new(),
            timers: Timers::default(),
            unconfirmed: HashSet::new(),
            schedulable: HashSet::new(),
        }
    }

    /// Simulates until it is dropped.
    pub async fn run(mut self) {
        let mut sightings = self.sightings();
        // A cluster without DaemonSets, as most are, is spared one watch.
        let mut nodes = Some(watch(&self.client, Sighting::Node));
        loop {
            tokio::select! {
                Some(sighting) = sightings.next() => match sighting {
                    Ok(sighting) => {
                        if sighting.is_of_a_daemon_set() {
                            sightings.extend(nodes.take());
                        }
                        self.handle(sighting).await;
                    }
                    // The watch begins again by itself, after a while.
                    Err(error) => tracing::debug!("a watch of the workload simulator was interrupted: {error}"),
                },
                key = self.timers.next() => self.revisit(key).await,
            }
        }
    }

    fn sightings(&self) -> Sightings {
        let client = &self.client;
        select_all([
            watch(client, Sighting::Deployment),
            watch(client, Sighting::StatefulSet),
            watch(client, Sighting::DaemonSet),
            watch(client, Sighting::Job),
        ])
    }

    async fn handle(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::Deployment(event) => self.observe(event).await,
            Sighting::StatefulSet(event) => self.observe(event).await,
            Sighting::DaemonSet(event) => self.observe(event).await,
            Sighting::Job(event) => self.observe(event).await,
            Sighting::Node(event) => self.count_nodes(event),
        }
    }

    async fn observe<W: Workload>(&mut self, event: watcher::Event<W>) {
        match event {
            watcher::Event::Init => {
                let known = self.objects.keys().filter(|key| key.kind == W::KIND).cloned();
                self.unconfirmed.extend(known);
            }
            watcher::Event::InitApply(object) | watcher::Event::Apply(object) => {
                let key = key_of(&object);
                self.unconfirmed.remove(&key);
                self.consider(key, object).await;
            }
            watcher::Event::Delete(object) => self.forget(&key_of(&object)),
            watcher::Event::InitDone => {
                let gone: Vec<Key> = self.unconfirmed.extract_if(|key| key.kind == W::KIND).collect();
                gone.iter().for_each(|key| self.forget(key));
            }
        }
    }

    /// Nodes that take no pods count no more than those that are not there. A change concerns every DaemonSet.
    fn count_nodes(&mut self, event: watcher::Event<Node>) {
        let before = self.schedulable.len();
        match event {
            watcher::Event::Init => self.schedulable.clear(),
            watcher::Event::InitApply(node) | watcher::Event::Apply(node) => {
                let name = node.name_any();
                if node.spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
                    self.schedulable.remove(&name);
                } else {
                    self.schedulable.insert(name);
                }
            }
            watcher::Event::Delete(node) => {
                self.schedulable.remove(&node.name_any());
            }
            watcher::Event::InitDone => {}
        }
        if self.schedulable.len() != before {
            let now = Instant::now();
            let sets = self.objects.keys().filter(|key| key.kind == Kind::DaemonSet);
            sets.for_each(|key| self.timers.set(key.clone(), now));
        }
    }

    /// Looks at an object again whose time has come. It may have changed or gone since.
    async fn revisit(&mut self, key: Key) {
        match key.kind {
            Kind::Deployment => self.reread::<Deployment>(key).await,
            Kind::StatefulSet => self.reread::<StatefulSet>(key).await,
            Kind::DaemonSet => self.reread::<DaemonSet>(key).await,
            Kind::Job => self.reread::<Job>(key).await,
        }
    }

    async fn reread<W: Workload>(&mut self, key: Key) {
        match self.api::<W>(&key).get_opt(&key.name).await {
            Ok(Some(object)) => self.consider(key, object).await,
            Ok(None) => self.forget(&key),
            Err(error) => self.retry(key, &error),
        }
    }

    /// Brings the status of an object to where it should be by now, and notes down when to look again.
    async fn consider<W: Workload>(&mut self, key: Key, object: W) {
        if object.meta().deletion_timestamp.is_some() {
            return self.forget(&key);
        }
        let now = Instant::now();
        let since = self.note(&key, &object, now).await;
        let behaviour = if object.is_held() { Behaviour::Never } else { since.behaviour };
        let (stage, left) = behaviour.stage(self.delay, now.duration_since(since.instant));
        // A delay that ends after the end of time never does.
        if let Some(due) = left.and_then(|left| now.checked_add(left)) {
            self.timers.set(key.clone(), due);
        }
        let Some(wanted) = object.at_stage(stage, &self.world()) else {
            return;
        };
        let written = self.api::<W>(&key).replace_status(&key.name, &PostParams::default(), &wanted).await;
        match written {
            Ok(_) => {
                if let Some(seen) = self.objects.get_mut(&key) {
                    seen.failures = 0;
                }
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => self.forget(&key),
            Err(error) => self.retry(key, &error),
        }
    }

    /// Remembers an object, and since when it is as it is. What it asks for in vain is told once.
    async fn note<W: Workload>(&mut self, key: &Key, object: &W, now: Instant) -> Since {
        let template = object.template().and_then(|template| template.metadata.as_ref());
        let (behaviour, unreadable) = Behaviour::asked_for(
            object.meta().annotations.as_ref(),
            template.and_then(|template| template.annotations.as_ref()),
        );
        let rollout = Rollout { uid: object.uid(), generation: object.meta().generation, behaviour };
        let seen = self.objects.entry(key.clone()).or_insert_with(|| Seen {
            rollout: rollout.clone(),
            since: now,
            told: None,
            failures: 0,
        });
        if seen.rollout != rollout {
            seen.rollout = rollout;
            seen.since = now;
        }
        let since = Since { instant: seen.since, behaviour };
        if seen.told != unreadable {
            seen.told.clone_from(&unreadable);
            if let Some(unreadable) = unreadable {
                self.tell(object, &unreadable).await;
            }
        }
        since
    }

    async fn tell<W: Workload>(&self, object: &W, unreadable: &Unreadable) {
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
            tracing::warn!("{}: {unreadable} (no event could be written: {error})", object.name_any());
        }
    }

    fn forget(&mut self, key: &Key) {
        self.timers.cancel(key);
        self.objects.remove(key);
    }

    fn retry(&mut self, key: Key, error: &kube::Error) {
        let failures = self.objects.get_mut(&key).map_or(0, |seen| {
            seen.failures = seen.failures.saturating_add(1);
            seen.failures
        });
        tracing::debug!("the status of {} in {} is written later: {error}", key.name, key.namespace);
        self.timers.set(key, Instant::now() + RETRY.delay(failures, 0.0));
    }

    fn api<W: Workload>(&self, key: &Key) -> Api<W> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn world(&self) -> World {
        World {
            now: Time(whole_seconds(self.clock.now())),
            nodes: i32::try_from(self.schedulable.len()).unwrap_or(i32::MAX).max(1),
        }
    }
}

/// Since when an object is as it is, and how it behaves.
struct Since {
    instant: Instant,
    behaviour: Behaviour,
}

fn key_of<W: Workload>(object: &W) -> Key {
    Key { kind: W::KIND, namespace: object.namespace().unwrap_or_default(), name: object.name_any() }
}

fn watch<K>(
    client: &Client,
    sighting: fn(watcher::Event<K>) -> Sighting,
) -> BoxStream<'static, watcher::Result<Sighting>>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + 'static,
{
    let config = watcher::Config::default().page_size(PAGE);
    let events = watcher(Api::<K>::all(client.clone()), config).default_backoff();
    events.map(move |event| event.map(sighting)).boxed()
}
