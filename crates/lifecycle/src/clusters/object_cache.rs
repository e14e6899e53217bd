//! A cache of all objects of a kind, filled by a watch, so that a reconcile needs no list request. Also filters watch events
//! for relevant changes and debounces them. What a change means is left to the controllers.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, Stream, StreamExt as _};
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

/// A kind that can be cached.
pub(crate) trait CachedResource:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> CachedResource for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// The watch of a kind is not running, so the cache is not current.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} has ended")]
pub(crate) struct NotWatched(String);

/// A cache of the objects of a kind.
pub(crate) struct ObjectCache<K: CachedResource> {
    client: Client,
    config: watcher::Config,
    current: Mutex<Option<WatchedStore<K>>>,
}

/// The store that one watch fills.
#[derive(Clone)]
struct WatchedStore<K: CachedResource> {
    store: Store<K>,
    /// Whether the first list is complete. `Store::wait_until_ready` is not used, because it wakes only one waiting task.
    synced: watch::Receiver<bool>,
}

impl<K: CachedResource> ObjectCache<K> {
    /// Creates a cache of all objects.
    pub(crate) fn new(client: &Client) -> Self {
        Self::with_config(client, watcher::Config::default())
    }

    /// Creates a cache of the objects that a watch configuration selects.
    pub(crate) fn with_config(client: &Client, config: watcher::Config) -> Self {
        Self { client: client.clone(), config, current: Mutex::new(None) }
    }

    /// Starts a watch with an empty store: a replica that becomes leader again has missed events. The cache is updated only
    /// while the returned stream is polled.
    pub(crate) fn watch(&self) -> impl Stream<Item = Event<K>> + Send + 'static + use<K> {
        let (store, writer) = reflector::store();
        let (sender, synced) = watch::channel(false);
        *self.current.lock() = Some(WatchedStore { store, synced });
        watcher(Api::<K>::all(self.client.clone()), self.config.clone())
            .default_backoff()
            .modify(|object| object.managed_fields_mut().clear())
            .reflect(writer)
            .filter_map(|event| {
                // The watcher retries with backoff.
                let event = event.inspect_err(|error| {
                    tracing::debug!("watch of {} failed and will be retried: {error}", K::plural(&()));
                });
                std::future::ready(event.ok())
            })
            .inspect(move |event| {
                if matches!(event, Event::InitDone) {
                    sender.send_replace(true);
                }
            })
    }

    /// All objects. Waits until the first list is complete.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<K>>, NotWatched> {
        Ok(self.synced().await?.state())
    }

    /// The store with all objects. Waits until the first list is complete.
    pub(crate) async fn synced(&self) -> Result<Store<K>, NotWatched> {
        let ended = || NotWatched(K::plural(&()).into_owned());
        let WatchedStore { store, mut synced } = self.current.lock().clone().ok_or_else(ended)?;
        synced.wait_for(|synced| *synced).await.map_err(|_| ended())?;
        Ok(store)
    }
}

/// The events of a watch that are relevant: an object was created or deleted, its deletion started, or the part of it that
/// `relevant` feeds to the hasher changed.
pub(crate) fn relevant_changes<K: CachedResource>(
    events: impl Stream<Item = Event<K>> + Send + 'static,
    relevant: fn(&K, &mut DefaultHasher),
) -> impl Stream<Item = ()> + Send + 'static {
    let mut digests = Digests { seen: HashMap::new(), relevant };
    events.filter_map(move |event| std::future::ready(digests.is_relevant(&event).then_some(())))
}

/// A hash of the relevant part of every object.
struct Digests<K> {
    seen: HashMap<(Option<String>, String), u64>,
    relevant: fn(&K, &mut DefaultHasher),
}

impl<K: CachedResource> Digests<K> {
    fn is_relevant(&mut self, event: &Event<K>) -> bool {
        match event {
            Event::Init => {
                self.seen.clear();
                false
            }
            Event::InitApply(object) => {
                self.update(object);
                false
            }
            // The new list may contain changes that the watch missed.
            Event::InitDone => true,
            Event::Apply(object) => self.update(object),
            Event::Delete(object) => {
                self.seen.remove(&key(object));
                true
            }
        }
    }

    fn update(&mut self, object: &K) -> bool {
        let mut hasher = DefaultHasher::new();
        (object.meta().uid.as_ref(), object.meta().deletion_timestamp.is_some()).hash(&mut hasher);
        (self.relevant)(object, &mut hasher);
        let digest = hasher.finish();
        self.seen.insert(key(object), digest) != Some(digest)
    }
}

fn key(object: &impl Resource<DynamicType = ()>) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

/// Combines all changes within `delay` of the first into one, so that a thousand joining clusters do not cause a thousand
/// reconciles.
pub(crate) fn debounce(
    changes: impl Stream<Item = ()> + Send + 'static,
    delay: Duration,
) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(Box::pin(changes.fuse()), move |mut changes| async move {
        changes.next().await?;
        let mut end = std::pin::pin!(tokio::time::sleep(delay));
        loop {
            tokio::select! {
                () = &mut end => break,
                // Keep polling, because the cache is updated only by that.
                more = changes.next() => if more.is_none() { break },
            }
        }
        Some(((), changes))
    })
}

#[cfg(test)]
mod tests {
    use bellwether_api::cluster::ManagedCluster;
    use tokio::time::Instant;

    use super::*;

    fn cluster(name: &str, label: &str, capacity: &str) -> ManagedCluster {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name, "labels": {"a": label}}, "status": {"capacity": {"cpu": capacity}},
        }))
        .unwrap()
    }

    #[test]
    fn event_is_relevant_if_relevant_part_changes() {
        let relevant = |cluster: &ManagedCluster, hasher: &mut DefaultHasher| cluster.labels().hash(hasher);
        let mut digests = Digests { seen: HashMap::new(), relevant };
        let rows = [
            ("list starts", Event::Init, false),
            ("list continues", Event::InitApply(cluster("a", "1", "4")), false),
            ("list is complete", Event::InitDone, true),
            ("irrelevant field changes", Event::Apply(cluster("a", "1", "8")), false),
            ("relevant field changes", Event::Apply(cluster("a", "2", "8")), true),
            ("object created", Event::Apply(cluster("b", "2", "8")), true),
            ("object deleted", Event::Delete(cluster("b", "2", "8")), true),
            ("object created again", Event::Apply(cluster("b", "2", "8")), true),
        ];
        for (case, event, expected) in rows {
            assert_eq!(digests.is_relevant(&event), expected, "{case}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn debounce_combines_changes_and_keeps_the_last() {
        let begun = Instant::now();
        let second = Duration::from_secs(1);
        // At 0.0, 0.1 … 2.4 s, and at 10 s.
        let changes = stream::unfold(0_u32, |count| async move {
            let wait = match count {
                0 => 0,
                1..25 => 100,
                25 => 7_600,
                _ => return None,
            };
            tokio::time::sleep(Duration::from_millis(wait)).await;
            Some(((), count + 1))
        });
        let mut debounced = std::pin::pin!(debounce(changes, second));
        let mut at = Vec::new();
        while debounced.next().await.is_some() {
            at.push(begun.elapsed().as_millis() / 100);
        }
        assert_eq!(at.len(), 4, "{at:?}");
        assert!(at.is_sorted() && at[0] == 10 && at[3] >= 100, "{at:?}");
    }
}
