//! All objects of a kind as a watch shows them, in memory, so that a look at one object lists nothing. And what is worth
//! a look: changes of what matters, gathered where they come by the hundred.

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

/// A kind that can be mirrored.
pub(crate) trait Mirrored:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

impl<K> Mirrored for K where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{
}

/// Nobody watches, so that nothing can be known.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} has ended")]
pub(crate) struct Unwatched(String);

/// The objects of a kind.
pub(crate) struct Mirror<K: Mirrored> {
    client: Client,
    config: watcher::Config,
    feed: Mutex<Option<Feed<K>>>,
}

/// What one watch fills.
#[derive(Clone)]
struct Feed<K: Mirrored> {
    store: Store<K>,
    /// Whether all have been listed. Not asked of the store, which wakes only one of those who wait for that.
    listed: watch::Receiver<bool>,
}

impl<K: Mirrored> Mirror<K> {
    /// Of all objects.
    pub(crate) fn new(client: &Client) -> Self {
        Self::with(client, watcher::Config::default())
    }

    /// Of those that a configuration selects.
    pub(crate) fn with(client: &Client, config: watcher::Config) -> Self {
        Self { client: client.clone(), config, feed: Mutex::new(None) }
    }

    /// Watches, and forgets what was watched before: a copy that leads again has not looked meanwhile. The mirror is kept
    /// up to date by whoever polls this.
    pub(crate) fn watch(&self) -> impl Stream<Item = Event<K>> + Send + 'static + use<K> {
        let (store, writer) = reflector::store();
        let (sender, listed) = watch::channel(false);
        *self.feed.lock() = Some(Feed { store, listed });
        watcher(Api::<K>::all(self.client.clone()), self.config.clone())
            .default_backoff()
            .modify(|object| object.managed_fields_mut().clear())
            .reflect(writer)
            .filter_map(|event| {
                // The watch begins again by itself, after a while.
                let event = event.inspect_err(|error| {
                    tracing::debug!("a watch of {} was interrupted: {error}", K::plural(&()));
                });
                std::future::ready(event.ok())
            })
            .inspect(move |event| {
                if matches!(event, Event::InitDone) {
                    sender.send_replace(true);
                }
            })
    }

    /// All objects, once they have been listed: before, there only seem to be none.
    pub(crate) async fn all(&self) -> Result<Vec<Arc<K>>, Unwatched> {
        Ok(self.listed().await?.state())
    }

    /// The objects, once they have been listed.
    pub(crate) async fn listed(&self) -> Result<Store<K>, Unwatched> {
        let ended = || Unwatched(K::plural(&()).into_owned());
        let Feed { store, mut listed } = self.feed.lock().clone().ok_or_else(ended)?;
        listed.wait_for(|listed| *listed).await.map_err(|_| ended())?;
        Ok(store)
    }
}

/// Of the events of a watch, those that change what matters of an object: that it comes and goes, begins to go, and what
/// is fed to the hasher.
pub(crate) fn that_matter<K: Mirrored>(
    events: impl Stream<Item = Event<K>> + Send + 'static,
    matters: fn(&K, &mut DefaultHasher),
) -> impl Stream<Item = ()> + Send + 'static {
    let mut digests = Digests { seen: HashMap::new(), matters };
    events.filter_map(move |event| std::future::ready(digests.change(&event).then_some(())))
}

/// What was last seen of every object, in a number each.
struct Digests<K> {
    seen: HashMap<(Option<String>, String), u64>,
    matters: fn(&K, &mut DefaultHasher),
}

impl<K: Mirrored> Digests<K> {
    fn change(&mut self, event: &Event<K>) -> bool {
        match event {
            Event::Init => {
                self.seen.clear();
                false
            }
            Event::InitApply(object) => {
                self.note(object);
                false
            }
            // Whatever was missed meanwhile is in the list.
            Event::InitDone => true,
            Event::Apply(object) => self.note(object),
            Event::Delete(object) => {
                self.seen.remove(&key(object));
                true
            }
        }
    }

    fn note(&mut self, object: &K) -> bool {
        let mut hasher = DefaultHasher::new();
        (object.meta().uid.as_ref(), object.meta().deletion_timestamp.is_some()).hash(&mut hasher);
        (self.matters)(object, &mut hasher);
        let digest = hasher.finish();
        self.seen.insert(key(object), digest) != Some(digest)
    }
}

fn key(object: &impl Resource<DynamicType = ()>) -> (Option<String>, String) {
    (object.namespace(), object.name_any())
}

/// One for all that come within a while of the first, so that a thousand clusters that join are not a thousand looks.
pub(crate) fn gathered(
    changes: impl Stream<Item = ()> + Send + 'static,
    pause: Duration,
) -> impl Stream<Item = ()> + Send + 'static {
    stream::unfold(Box::pin(changes.fuse()), move |mut changes| async move {
        changes.next().await?;
        let mut end = std::pin::pin!(tokio::time::sleep(pause));
        loop {
            tokio::select! {
                () = &mut end => break,
                // Polled all the while: the mirror behind it lives by that.
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
    fn an_event_matters_when_it_changes_what_does() {
        let matters = |cluster: &ManagedCluster, hasher: &mut DefaultHasher| cluster.labels().hash(hasher);
        let mut digests = Digests { seen: HashMap::new(), matters };
        let rows = [
            ("a list begins", Event::Init, false),
            ("and goes on", Event::InitApply(cluster("a", "1", "4")), false),
            ("and ends", Event::InitDone, true),
            ("what does not matter changes", Event::Apply(cluster("a", "1", "8")), false),
            ("what matters changes", Event::Apply(cluster("a", "2", "8")), true),
            ("another comes", Event::Apply(cluster("b", "2", "8")), true),
            ("one goes", Event::Delete(cluster("b", "2", "8")), true),
            ("it comes back as it was", Event::Apply(cluster("b", "2", "8")), true),
        ];
        for (sentence, event, wanted) in rows {
            assert_eq!(digests.change(&event), wanted, "{sentence}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn many_changes_are_one_look_and_the_last_is_not_lost() {
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
        let mut looks = std::pin::pin!(gathered(changes, second));
        let mut at = Vec::new();
        while looks.next().await.is_some() {
            at.push(begun.elapsed().as_millis() / 100);
        }
        assert_eq!(at.len(), 4, "{at:?}");
        assert!(at.is_sorted() && at[0] == 10 && at[3] >= 100, "{at:?}");
    }
}
