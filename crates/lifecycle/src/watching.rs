//! The watches of the hub as one stream of facts: what is there, what is gone, and when a kind is known as a whole.
//! Nothing is to be decided before that: a template that has not been listed yet is not missing.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use bellwether_runtime::{Context, Part, heard, in_words};
use futures::stream::{BoxStream, SelectAll};
use futures::{Stream, StreamExt as _};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;

/// A namespace and a name.
pub(crate) type Named = (String, String);

/// What a watch of a kind has shown.
pub(crate) enum Change<K> {
    /// It is there, or has changed.
    Here(K),
    /// It is gone.
    Gone(Named),
}

/// All watches of a controller, as facts of type `F`.
pub(crate) struct Watches<F> {
    client: Client,
    part: Arc<Part>,
    streams: SelectAll<BoxStream<'static, Fact<F>>>,
    /// Kinds that have not been listed yet.
    awaited: BTreeSet<String>,
}

/// What a stream of facts holds.
enum Fact<F> {
    Changed(F),
    Listed(String),
}

impl<F: Send + 'static> Watches<F> {
    /// Of a controller that has no watch yet, as a part of the process.
    pub(crate) fn of(context: &Context, part: Arc<Part>) -> Self {
        let client = heard(&context.client, part.clone());
        Self { client, part, streams: SelectAll::new(), awaited: BTreeSet::new() }
    }

    /// Watches one more kind.
    #[must_use]
    pub(crate) fn with<K>(self, config: watcher::Config, fact: fn(Change<K>) -> F) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let api = Api::<K>::all(self.client.clone());
        self.with_api(api, config, fact)
    }

    fn with_api<K>(mut self, api: Api<K>, config: watcher::Config, fact: fn(Change<K>) -> F) -> Self
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
    {
        let kind = K::kind(&()).into_owned();
        self.awaited.insert(kind.clone());
        let part = self.part.clone();
        let events = watcher(api, config).default_backoff().inspect(move |event| {
            if let Err(error) = event {
                part.trouble(in_words(error));
            }
        });
        self.streams.push(facts(events, kind, fact).boxed());
        self
    }

    /// The next thing that has changed; nothing, when a kind became known as a whole.
    pub(crate) async fn next(&mut self) -> Option<F> {
        match self.streams.next().await {
            Some(Fact::Changed(fact)) => Some(fact),
            Some(Fact::Listed(kind)) => {
                self.awaited.remove(&kind);
                None
            }
            // There is always a watch, and none ends.
            None => std::future::pending().await,
        }
    }

    /// Whether all kinds are known as a whole.
    pub(crate) fn complete(&self) -> bool {
        self.awaited.is_empty()
    }
}

/// What is not in a list any more is gone, also where the watch missed that.
fn facts<K, F: Send + 'static>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    kind: String,
    fact: fn(Change<K>) -> F,
) -> impl Stream<Item = Fact<F>> + Send + 'static
where
    K: Resource<DynamicType = ()> + Send + 'static,
{
    let (mut known, mut unconfirmed) = (HashSet::<Named>::new(), HashSet::<Named>::new());
    events.flat_map(move |event| {
        let facts: Vec<Fact<F>> = match event {
            Err(_) => Vec::new(),
            Ok(watcher::Event::Init) => {
                unconfirmed.clone_from(&known);
                Vec::new()
            }
            Ok(watcher::Event::InitApply(object) | watcher::Event::Apply(object)) => {
                let name = named(&object);
                unconfirmed.remove(&name);
                known.insert(name);
                vec![Fact::Changed(fact(Change::Here(object)))]
            }
            Ok(watcher::Event::Delete(object)) => {
                let name = named(&object);
                known.remove(&name);
                vec![Fact::Changed(fact(Change::Gone(name)))]
            }
            Ok(watcher::Event::InitDone) => {
                let gone = std::mem::take(&mut unconfirmed);
                known.retain(|name| !gone.contains(name));
                let gone = gone.into_iter().map(|name| Fact::Changed(fact(Change::Gone(name))));
                gone.chain([Fact::Listed(kind.clone())]).collect()
            }
        };
        futures::stream::iter(facts)
    })
}

fn named<K: Resource<DynamicType = ()>>(object: &K) -> Named {
    (object.namespace().unwrap_or_default(), object.name_any())
}
