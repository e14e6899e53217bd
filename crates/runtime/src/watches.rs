//! The watches that fill an index: list, watch, and list again after a gap, with one meaning for all controllers. What a
//! later list does not contain was deleted, also where the watch missed that. The index is synced when every watch has
//! delivered its first list; before that a missing object may only not have been listed yet.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::{self, Debug};
use std::sync::Arc;

use futures::stream::{self, AbortHandle, BoxStream, SelectAll};
use futures::{Stream, StreamExt as _};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch};

use crate::client::notify_on_success;
use crate::context::Context;
use crate::health::{Component, describe_watch_error};
use crate::shutdown::Shutdown;

/// The namespace and the name of an object; the namespace is empty for cluster-scoped objects. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

impl ObjectName {
    /// The name of an object in a namespace.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The name of an object.
    pub fn of(object: &impl Resource) -> Self {
        let meta = object.meta();
        Self::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.namespace {
            "" => formatter.write_str(&self.name),
            namespace => write!(formatter, "{namespace}/{}", self.name),
        }
    }
}

/// How an object came to an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// By a list: when it changed is not known.
    List,
    /// By an event of the watch: it has just changed.
    Watch,
}

/// An object that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deleted {
    /// Its name.
    pub name: ObjectName,
    /// Its uid, where a watch event reported the deletion; a list only lacks the name.
    pub uid: Option<String>,
}

type OnApply<I, K> = Arc<dyn Fn(&mut I, K, Origin) + Send + Sync>;
type OnDelete<I> = Arc<dyn Fn(&mut I, Deleted) + Send + Sync>;
type OnList<I> = Arc<dyn Fn(&mut I, Listing) + Send + Sync>;

/// The beginning and the end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// What the index knows may be outdated until the list is complete.
    Started,
    /// Every object was applied, and every object that is not in the list was deleted.
    Completed,
}

/// A watch of one kind, and what it does to an index.
pub struct Watch<I, K> {
    client: Client,
    api: Box<dyn FnOnce(Client) -> Api<K> + Send>,
    config: watcher::Config,
    on_apply: OnApply<I, K>,
    on_delete: OnDelete<I>,
    on_list: OnList<I>,
    if_served: bool,
}

impl<I, K> Watch<I, K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    /// A watch of what `api` selects, by a client.
    pub fn new(client: &Client, api: impl FnOnce(Client) -> Api<K> + Send + 'static) -> Self {
        Self {
            client: client.clone(),
            api: Box::new(api),
            config: watcher::Config::default(),
            on_apply: Arc::new(|_, _, _| {}),
            on_delete: Arc::new(|_, _| {}),
            on_list: Arc::new(|_, _| {}),
            if_served: false,
        }
    }

    /// The kind may not be served: then there are no objects of it, until it is served.
    #[must_use]
    pub fn if_served(self) -> Self {
        Self { if_served: true, ..self }
    }

    /// Selects objects, or sets the size of a page.
    #[must_use]
    pub fn config(self, config: watcher::Config) -> Self {
        Self { config, ..self }
    }

    /// Called for each object that is listed, created or changed.
    #[must_use]
    pub fn on_apply(self, on_apply: impl Fn(&mut I, K) + Send + Sync + 'static) -> Self {
        self.on_apply_from(move |index, object, _| on_apply(index, object))
    }

    /// The same, for an index that must know whether the object was listed or has just changed.
    #[must_use]
    pub fn on_apply_from(self, on_apply: impl Fn(&mut I, K, Origin) + Send + Sync + 'static) -> Self {
        Self { on_apply: Arc::new(on_apply), ..self }
    }

    /// Called for each object that was deleted.
    #[must_use]
    pub fn on_delete(self, on_delete: impl Fn(&mut I, Deleted) + Send + Sync + 'static) -> Self {
        Self { on_delete: Arc::new(on_delete), ..self }
    }

    /// Called when a list begins and when it is complete.
    #[must_use]
    pub fn on_list(self, on_list: impl Fn(&mut I, Listing) + Send + Sync + 'static) -> Self {
        Self { on_list: Arc::new(on_list), ..self }
    }
}

/// What happened to the watches.
enum Progress {
    /// The index may have changed.
    Changed,
    /// A watch has delivered its first list.
    Synced(usize),
}

type Events = BoxStream<'static, Progress>;

/// All watches of an index.
pub struct Watches<I> {
    controller: &'static str,
    cluster: Arc<str>,
    index: Arc<Mutex<I>>,
    health: Arc<WatchHealth>,
    streams: SelectAll<Events>,
    /// The watches that have not delivered their first list.
    unsynced: BTreeSet<usize>,
    added: mpsc::UnboundedReceiver<Events>,
    adder: mpsc::UnboundedSender<Events>,
}

impl<I: Send + 'static> Watches<I> {
    /// No watches yet, for the index of a controller. The controller is a health component from now on.
    pub fn new(controller: &'static str, context: &Context, index: Arc<Mutex<I>>) -> Self {
        let component = context.health.component(context.component_name(controller));
        let (adder, added) = mpsc::unbounded_channel();
        Self {
            controller,
            cluster: context.cluster.clone(),
            index,
            health: Arc::new(WatchHealth {
                components: Mutex::new(vec![component]),
                states: Mutex::default(),
            }),
            streams: SelectAll::new(),
            unsynced: BTreeSet::new(),
            added,
            adder,
        }
    }

    /// Adds a watch, which the index needs to be synced and the controller to be ready.
    #[must_use]
    pub fn with<K>(mut self, watch: Watch<I, K>) -> Self
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let id = self.health.add();
        self.unsynced.insert(id);
        let (answered, failed) = (self.health.clone(), self.health.clone());
        let api = (watch.api)(notify_on_success(
            &watch.client,
            Arc::new(move || answered.set(id, WatchState::Healthy)),
        ));
        let if_served = watch.if_served;
        let events = watcher(api, watch.config).default_backoff().flat_map(move |event| {
            let events = match event {
                Err(error) if if_served && is_not_served(&error) => {
                    failed.set(id, WatchState::Healthy);
                    [Some(Ok(watcher::Event::Init)), Some(Ok(watcher::Event::InitDone))]
                }
                Err(error) => {
                    failed.set(id, WatchState::Failing(describe_watch_error(&error)));
                    [Some(Err(error)), None]
                }
                event => [Some(event), None],
            };
            stream::iter(events.into_iter().flatten())
        });
        let log = self.log();
        self.streams.push(
            apply(events, self.index.clone(), watch.on_apply, watch.on_delete, watch.on_list, log, id)
                .boxed(),
        );
        self
    }

    /// Reports the health of the watches as another component too: that of a second controller that uses the index.
    #[must_use]
    pub fn reporting_to(self, component: Component) -> Self {
        self.health.components.lock().push(component);
        self
    }

    /// Adds watches while the controller runs, for an index whose kinds come and go.
    pub fn dynamic(&self) -> DynamicWatches<I> {
        DynamicWatches { index: self.index.clone(), adder: self.adder.clone(), log: self.log() }
    }

    /// Shares the index with several controllers: one task polls the watches, and each controller subscribes.
    pub fn share(self) -> SharedWatches<I> {
        let (state, _) = watch::channel(SourceState { changes: 0, is_synced: false });
        SharedWatches { watches: self, state }
    }

    /// The error of a watch that fails at the moment; it is retried.
    pub fn error(&self) -> Option<String> {
        self.health.states.lock().values().find_map(|state| match state {
            WatchState::Failing(error) => Some(error.clone()),
            WatchState::Starting | WatchState::Healthy => None,
        })
    }

    async fn next_change(&mut self) {
        loop {
            tokio::select! {
                Some(events) = self.added.recv() => self.streams.push(events),
                progress = self.streams.next(), if !self.streams.is_empty() => match progress {
                    Some(Progress::Synced(id)) => {
                        self.unsynced.remove(&id);
                        return;
                    }
                    Some(Progress::Changed) => return,
                    None => {}
                },
            }
        }
    }

    fn log(&self) -> LogContext {
        LogContext { controller: self.controller, cluster: self.cluster.clone() }
    }
}

/// Where a controller learns that its index changed: its own [`Watches`], or a [`Subscription`] to shared ones.
pub trait IndexSource: Send {
    /// Waits for the next change of the index. Cancel-safe.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Whether every watch has delivered its first list.
    fn is_synced(&self) -> bool;
}

impl<I: Send + 'static> IndexSource for Watches<I> {
    async fn changed(&mut self) {
        self.next_change().await;
    }

    fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }
}

/// Watches that fill one index for several controllers.
pub struct SharedWatches<I> {
    watches: Watches<I>,
    state: watch::Sender<SourceState>,
}

#[derive(Clone, Copy, Debug)]
struct SourceState {
    changes: u64,
    is_synced: bool,
}

/// The part of a controller in shared watches.
#[derive(Clone, Debug)]
pub struct Subscription(watch::Receiver<SourceState>);

impl<I: Send + 'static> SharedWatches<I> {
    /// Subscribes a controller.
    pub fn subscribe(&self) -> Subscription {
        Subscription(self.state.subscribe())
    }

    /// Polls the watches until the shutdown.
    pub async fn run(mut self, shutdown: Shutdown) {
        let mut requested = std::pin::pin!(shutdown.requested());
        loop {
            tokio::select! {
                () = &mut requested => return,
                () = self.watches.next_change() => {}
            }
            let is_synced = self.watches.is_synced();
            self.state.send_modify(|state| {
                state.changes = state.changes.wrapping_add(1);
                state.is_synced = is_synced;
            });
        }
    }
}

impl IndexSource for Subscription {
    async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The watches have ended with the shutdown, which the controller sees too.
            std::future::pending::<()>().await;
        }
    }

    fn is_synced(&self) -> bool {
        self.0.borrow().is_synced
    }
}

/// Starts watches of a running controller. They count neither for its sync nor for its readiness.
pub struct DynamicWatches<I> {
    index: Arc<Mutex<I>>,
    adder: mpsc::UnboundedSender<Events>,
    log: LogContext,
}

/// A watch that ends when this is dropped.
#[derive(Debug)]
pub struct WatchHandle(AbortHandle);

impl Drop for WatchHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<I: Send + 'static> DynamicWatches<I> {
    /// Starts a watch.
    pub fn start<K>(&self, watch: Watch<I, K>) -> WatchHandle
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let (events, handle) = stream::abortable(self.events(watch));
        // The controller has ended when nobody receives.
        let _ = self.adder.send(events.boxed());
        WatchHandle(handle)
    }

    fn events<K>(&self, watch: Watch<I, K>) -> impl Stream<Item = Progress> + Send + use<I, K>
    where
        K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let events = watcher((watch.api)(watch.client), watch.config).default_backoff();
        let (index, log) = (self.index.clone(), self.log.clone());
        apply(events, index, watch.on_apply, watch.on_delete, watch.on_list, log, usize::MAX)
    }
}

#[derive(Clone)]
struct LogContext {
    controller: &'static str,
    cluster: Arc<str>,
}

/// Applies watch events to an index.
fn apply<I, K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    index: Arc<Mutex<I>>,
    on_apply: OnApply<I, K>,
    on_delete: OnDelete<I>,
    on_list: OnList<I>,
    log: LogContext,
    id: usize,
) -> impl Stream<Item = Progress> + Send + 'static
where
    I: Send + 'static,
    K: Resource + Send + 'static,
{
    let (mut known, mut missing) = (HashSet::<ObjectName>::new(), HashSet::<ObjectName>::new());
    events.filter_map(move |event| {
        let progress = match event {
            Err(error) => {
                // The watcher tries again by itself, with backoff.
                let LogContext { controller, cluster } = &log;
                tracing::debug!("{controller} of {cluster}: {}", describe_watch_error(&error));
                None
            }
            Ok(watcher::Event::Init) => {
                missing.clone_from(&known);
                on_list(&mut index.lock(), Listing::Started);
                Some(Progress::Changed)
            }
            Ok(watcher::Event::InitApply(object)) => {
                let name = ObjectName::of(&object);
                missing.remove(&name);
                known.insert(name);
                on_apply(&mut index.lock(), object, Origin::List);
                Some(Progress::Changed)
            }
            Ok(watcher::Event::Apply(object)) => {
                known.insert(ObjectName::of(&object));
                on_apply(&mut index.lock(), object, Origin::Watch);
                Some(Progress::Changed)
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = ObjectName::of(&object);
                known.remove(&name);
                let uid = object.meta().uid.clone();
                on_delete(&mut index.lock(), Deleted { name, uid });
                Some(Progress::Changed)
            }
            Ok(watcher::Event::InitDone) => {
                let mut index = index.lock();
                for name in std::mem::take(&mut missing) {
                    known.remove(&name);
                    on_delete(&mut index, Deleted { name, uid: None });
                }
                on_list(&mut index, Listing::Completed);
                Some(Progress::Synced(id))
            }
        };
        std::future::ready(progress)
    })
}

/// Whether the API does not serve a kind: a list or watch of one that it serves is never answered with 404.
fn is_not_served(error: &watcher::Error) -> bool {
    use watcher::Error::{InitialListFailed, WatchStartFailed};
    let (InitialListFailed(error) | WatchStartFailed(error)) = error else { return false };
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API answers each watch of a controller.
struct WatchHealth {
    components: Mutex<Vec<Component>>,
    states: Mutex<BTreeMap<usize, WatchState>>,
}

enum WatchState {
    Starting,
    Healthy,
    Failing(String),
}

impl WatchHealth {
    fn add(&self) -> usize {
        let mut states = self.states.lock();
        let id = states.len();
        states.insert(id, WatchState::Starting);
        id
    }

    fn set(&self, id: usize, state: WatchState) {
        let mut states = self.states.lock();
        states.insert(id, state);
        let error = states.values().find_map(|state| match state {
            WatchState::Starting => Some("it has not started yet"),
            WatchState::Failing(error) => Some(error.as_str()),
            WatchState::Healthy => None,
        });
        for component in self.components.lock().iter() {
            match error {
                Some(error) => component.not_ready(error),
                None => component.ready(),
            }
        }
    }
}
