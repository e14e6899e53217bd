//! Says on the hub which add-ons beat: carries the condition `Healthy` of AddonInstances on the cluster to the condition
//! `Heartbeat` of the add-on's ManagedClusterAddOn. Two watches and one task; a heartbeat costs a comparison, and the hub
//! is written to only when an add-on falls silent, comes back, or says that it is not well, and once after each change of
//! an add-on, to say that it has beaten since. What came after what is told by the order in which it was heard here, and
//! not by clocks.

mod decide;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bellwether_api::addon::ManagedClusterAddOn;
use bellwether_api::addons_managed::AddonInstance;
use bellwether_conditions::Condition;
use bellwether_runtime::metrics::Counts;
use bellwether_runtime::{Agenda, Backoff, Context, Growth, Part, heard, in_words};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::Value;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use self::decide::{Applied, Beats, Told, addon_of, beat_of, heartbeat_of, worst};
use crate::Agent;

/// The name of the controller, in logs, metrics and health, and of what it owns in objects.
pub const NAME: &str = "heartbeat-mirror";

/// How many add-ons are written at the same time.
const CONCURRENCY: usize = 4;
/// How long one write may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long to leave an add-on alone after a write failed.
const RETRY: Growth = Growth { first: Duration::from_millis(500), most: Duration::from_secs(30) };

/// Carries heartbeats to the hub until the shutdown, while this process leads. The context is that of the cluster.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(format!("{NAME} of {}", context.cluster)));
    async move { Mirror::new(agent, context, part).run().await }
}

type Name = Arc<str>;
type Place = (String, String);
/// An add-on, what was written of it, and the answer.
type Write = (Name, Value, Result<DynamicObject, kube::Error>);

struct Mirror {
    context: Context,
    part: Arc<Part>,
    addons: Api<DynamicObject>,
    cluster: crate::ClusterName,
    hub: kube::Client,
    /// What instances say, and of which add-on.
    instances: HashMap<Place, (Name, Condition)>,
    /// When instances last beat: what they say themselves, and after how many events that was heard.
    beats: HashMap<Place, (Option<String>, u64)>,
    /// How many events were heard.
    events: u64,
    /// What the hub says of add-ons.
    told: HashMap<Name, Told>,
    /// What was applied of add-ons, and after how many events that was heard.
    applied: HashMap<Name, (Applied, u64)>,
    /// Lists that are complete: until both are, nobody can tell what is missing.
    instances_are_known: bool,
    addons_are_known: bool,
    unconfirmed_instances: HashSet<Place>,
    unconfirmed_addons: HashSet<Name>,
    agenda: Agenda<Name>,
    writes: JoinSet<Write>,
    being_written: HashSet<Name>,
    backoff: Backoff<Name>,
    counts: Counts,
    leads: bool,
}

impl Mirror {
    fn new(agent: Agent, context: Context, part: Arc<Part>) -> Self {
        let resource = ApiResource::erase::<ManagedClusterAddOn>(&());
        let counts = Counts::of(&context.metrics, &context.cluster, NAME);
        counts.leading(false);
        Self {
            addons: Api::namespaced_with(agent.hub.clone(), agent.cluster.as_str(), &resource),
            context,
            part,
            cluster: agent.cluster,
            hub: agent.hub,
            instances: HashMap::new(),
            beats: HashMap::new(),
            events: 0,
            told: HashMap::new(),
            applied: HashMap::new(),
            instances_are_known: false,
            addons_are_known: false,
            unconfirmed_instances: HashSet::new(),
            unconfirmed_addons: HashSet::new(),
            agenda: Agenda::default(),
            writes: JoinSet::new(),
            being_written: HashSet::new(),
            backoff: Backoff::new(RETRY),
            counts,
            leads: false,
        }
    }

    async fn run(mut self) {
        let instances = Api::<DynamicObject>::all_with(
            self.context.client.clone(),
            &ApiResource::erase::<AddonInstance>(&()),
        );
        let instances = watcher(instances, watcher::Config::default()).default_backoff();
        let addons = Api::<DynamicObject>::namespaced_with(
            heard(&self.hub, self.part.clone()),
            self.cluster.as_str(),
            &ApiResource::erase::<ManagedClusterAddOn>(&()),
        );
        let addons = watcher(addons, watcher::Config::default()).default_backoff();
        let (mut instances, mut addons) = (std::pin::pin!(instances), std::pin::pin!(addons));
        let end = self.context.shutdown.begun();
        let mut end = std::pin::pin!(end);
        let leadership = self.context.leadership.clone();
        loop {
            tokio::select! {
                () = &mut end => break,
                Some(event) = instances.next() => match event {
                    Ok(event) => self.hear(event),
                    Err(error) => self.trouble(&error),
                },
                Some(event) = addons.next() => match event {
                    Ok(event) => self.learn(event),
                    Err(error) => self.trouble(&error),
                },
                name = self.agenda.next() => self.compare(name),
                Some(done) = self.writes.join_next() => self.conclude(done),
                () = leadership.held(), if !self.leads => self.lead(true),
                () = leadership.lost(), if self.leads => self.lead(false),
            }
        }
        // What was begun is finished.
        while self.writes.join_next().await.is_some() {}
    }

    fn lead(&mut self, leads: bool) {
        self.leads = leads;
        self.counts.leading(leads);
        if leads {
            self.compare_all();
        }
    }

    fn trouble(&self, error: &watcher::Error) {
        // The watch begins again by itself, after a while.
        tracing::debug!("{NAME} of {}: {}", self.context.cluster, in_words(error));
        self.part.trouble(in_words(error));
    }

    /// Takes in what happens to instances on the cluster.
    fn hear(&mut self, event: watcher::Event<DynamicObject>) {
        // Of what a list shows nobody knows when it came to be.
        let at = match &event {
            watcher::Event::Apply(_) => Some(self.event()),
            _ => None,
        };
        match event {
            watcher::Event::Init => self.unconfirmed_instances = self.beats.keys().cloned().collect(),
            watcher::Event::InitApply(instance) | watcher::Event::Apply(instance) => {
                let place = place(&instance);
                self.unconfirmed_instances.remove(&place);
                let said = addon_of(&instance).map(Name::from).zip(heartbeat_of(&instance));
                self.note_beat(&place, beat_of(&instance), at);
                if let Some((name, _)) = &said
                    && self.told.get(name).is_some_and(Told::waits_for_a_beat)
                {
                    self.compare_soon(name.clone());
                }
                self.note(place, said);
            }
            watcher::Event::Delete(instance) => self.lose(place(&instance)),
            watcher::Event::InitDone => {
                for place in std::mem::take(&mut self.unconfirmed_instances) {
                    self.lose(place);
                }
                if !std::mem::replace(&mut self.instances_are_known, true) {
                    self.compare_all();
                }
            }
        }
    }

    fn lose(&mut self, place: Place) {
        self.beats.remove(&place);
        self.note(place, None);
    }

    /// Counts what is heard.
    fn event(&mut self) -> u64 {
        self.events += 1;
        self.events
    }

    fn note_beat(&mut self, place: &Place, beat: Option<&str>, at: Option<u64>) {
        match self.beats.get_mut(place) {
            Some((held, _)) if held.as_deref() == beat => {}
            Some((held, heard)) => {
                *held = beat.map(str::to_owned);
                *heard = at.unwrap_or(*heard);
            }
            None => drop(self.beats.insert(place.clone(), (beat.map(str::to_owned), at.unwrap_or_default()))),
        }
    }

    fn note(&mut self, place: Place, said: Option<(Name, Condition)>) {
        if self.instances.get(&place) == said.as_ref() {
            return;
        }
        let before = match said.clone() {
            Some(said) => self.instances.insert(place, said),
            None => self.instances.remove(&place),
        };
        for (name, _) in before.into_iter().chain(said) {
            self.compare_soon(name);
        }
    }

    /// Takes in what the hub says.
    fn learn(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Init => self.unconfirmed_addons = self.told.keys().cloned().collect(),
            watcher::Event::InitApply(addon) | watcher::Event::Apply(addon) => {
                let name = Name::from(addon.name_any());
                self.unconfirmed_addons.remove(&name);
                self.note_addon(name.clone(), &addon);
                self.compare_soon(name);
            }
            watcher::Event::Delete(addon) => self.forget(addon.name_any().as_str()),
            watcher::Event::InitDone => {
                for name in std::mem::take(&mut self.unconfirmed_addons) {
                    self.forget(&name);
                }
                if !std::mem::replace(&mut self.addons_are_known, true) {
                    self.compare_all();
                }
            }
        }
    }

    fn note_addon(&mut self, name: Name, addon: &DynamicObject) {
        let told = Told::of(addon, NAME);
        match &told.applied {
            Some(applied) if self.applied.get(&name).is_none_or(|(held, _)| held != applied) => {
                let at = self.event();
                self.applied.insert(name.clone(), (applied.clone(), at));
            }
            Some(_) => {}
            None => drop(self.applied.remove(&name)),
        }
        self.told.insert(name, told);
    }

    fn forget(&mut self, addon: &str) {
        self.told.remove(addon);
        self.applied.remove(addon);
    }

    fn compare_all(&mut self) {
        let names: Vec<Name> = self.told.keys().cloned().collect();
        names.into_iter().for_each(|name| self.compare_soon(name));
    }

    fn compare_soon(&mut self, name: Name) {
        self.agenda.set(name, Instant::now());
    }

    /// Writes what the hub should say of an add-on, where it says something else.
    fn compare(&mut self, name: Name) {
        if !self.leads
            || !self.instances_are_known
            || !self.addons_are_known
            || self.being_written.contains(&name)
        {
            return;
        }
        let Some(body) = self.correction(&name) else { return self.backoff.succeeded(&name) };
        if self.writes.len() >= CONCURRENCY {
            return self.agenda.set(name, Instant::now() + RETRY.first);
        }
        self.being_written.insert(name.clone());
        let addons = self.addons.clone();
        // What is vouched for was judged by what the hub said then: if it says something else by now, it is judged again.
        let judged = self.told.get(&name).map(|told| told.revision.clone()).unwrap_or_default();
        self.writes.spawn(async move {
            let params = PatchParams::apply(NAME).force();
            let mut bound = body.clone();
            if let Some(metadata) = bound.get_mut("metadata").and_then(Value::as_object_mut)
                && body.pointer("/status/conditions/0/observedGeneration").is_some()
            {
                metadata.insert("resourceVersion".into(), judged.into());
            }
            let write = async { addons.patch_status(&name, &params, &Patch::Apply(&bound)).await };
            let late = || Err(kube::Error::Service(format!("no answer within {PATIENCE:?}").into()));
            let written = tokio::time::timeout(PATIENCE, write).await.unwrap_or_else(|_| late());
            (name, body, written)
        });
    }

    /// What is to be applied to an add-on; nothing, where the hub does not know it, or says what it should.
    fn correction(&self, name: &Name) -> Option<Value> {
        let of_it = || self.instances.iter().filter(|(_, (of, _))| of == name);
        let applied = self.applied.get(name).map(|(_, at)| *at);
        let since = |place: &Place| self.beats.get(place).map(|(_, at)| *at) > applied;
        let all = applied.is_some() && of_it().all(|(place, _)| since(place));
        let beats = if all { Beats::Since } else { Beats::Before };
        let said = of_it().map(|(_, (_, heartbeat))| heartbeat);
        self.told.get(name)?.correction(name, self.cluster.as_str(), worst(said), beats)
    }

    fn conclude(&mut self, done: Result<Write, JoinError>) {
        let (name, body, written) = match done {
            Ok(done) => done,
            Err(error) => {
                // Whose it was is not known; two writes of the same do no harm.
                self.being_written.clear();
                return tracing::error!("a write of {NAME} ended in a panic: {error}");
            }
        };
        self.being_written.remove(&name);
        let failure = match written {
            Ok(addon) => {
                self.note_addon(name.clone(), &addon);
                match self.correction(&name) {
                    // What was written and yet is not there would be written again and again.
                    Some(again) if again == body => Some("the hub does not keep what it was told".to_owned()),
                    Some(_) => return self.compare_soon(name),
                    None => None,
                }
            }
            // It comes again by the watch, if it does.
            Err(kube::Error::Api(status)) if status.code == 404 => {
                self.forget(&name);
                None
            }
            // What it says now comes by the watch, if it is not here yet.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                self.counts.failed("conflict");
                let wait = self.backoff.failed(name.clone());
                return self.agenda.set(name, Instant::now() + wait);
            }
            Err(error) => Some(crate::in_words(&error)),
        };
        match failure {
            None => {
                self.counts.reconciled(Duration::ZERO);
                self.backoff.succeeded(&name);
            }
            Some(words) => {
                self.counts.failed("write");
                let wait = self.backoff.failed(name.clone());
                tracing::warn!(
                    "{NAME} of {}: {name}: {words}; again in {:.1} s",
                    self.context.cluster,
                    wait.as_secs_f64()
                );
                self.agenda.set(name, Instant::now() + wait);
            }
        }
    }
}

fn place(instance: &DynamicObject) -> Place {
    (instance.namespace().unwrap_or_default(), instance.name_any())
}
