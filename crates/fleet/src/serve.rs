//! The fleet in a process: what has to run beside its routes, started and ended in order.
//!
//! At the end watches are told, requests in flight finish, and the writer goes last, when nobody can hand in any more.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use bellwether_clock::Clock;
use bellwether_runtime::{Component, Health, Metrics, Shutdown};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Limits};
use crate::fleet::Fleet;
use crate::http::{self, Access, AuthError};
use crate::kinds::{KindError, Kinds};
use crate::measured::Measured;
use crate::store::Store;

/// How often the database is asked whether it answers, and for how long.
const PING: Duration = Duration::from_secs(2);
/// How often what is old is removed.
const CLEAN: Duration = Duration::from_secs(60);

/// Why a fleet cannot be served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AssembleError {
    #[error(transparent)]
    Kinds(#[from] KindError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// A fleet that runs.
pub struct Assembled {
    /// Its routes below the base path of the API; health and metrics are those of
    /// [`bellwether_runtime::http::routes`].
    pub routes: Router,
    /// The fleet itself. The end waits until every clone is gone, the one in the routes included.
    pub fleet: Fleet,
}

/// Starts a fleet on a store: its writer and its feed, and what looks after the database and the keys of issuers. All of it
/// ends with the process; whoever serves the routes does so in a task of `shutdown`.
pub fn assemble(
    store: Arc<dyn Store>,
    config: Config,
    clock: Arc<dyn Clock>,
    metrics: &Metrics,
    health: &Health,
    shutdown: &Shutdown,
) -> Result<Assembled, AssembleError> {
    let Config { entities, auth, tenancy, limits, vocabulary } = config;
    let kinds = Kinds::new(entities, vocabulary)?;
    let access = Access::new(&auth, tenancy)?;
    let store: Arc<dyn Store> = Arc::new(Measured::new(store, metrics));
    http::count_pending(metrics, Arc::downgrade(&store), vocabulary.current(), clock.clone());

    let until_end = |work: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let begun = shutdown.requested();
        shutdown.spawn(async move {
            tokio::select! {
                () = begun => {}
                () = work => {}
            }
        });
    };
    until_end(Box::pin(look_after(store.clone(), health.component("fleet database"))));
    until_end(Box::pin(clean(store.clone(), clock.clone(), limits.clone())));
    if let Some(keeping) = access.keep_keys() {
        until_end(Box::pin(keeping));
    }

    let (fleet, writing) = Fleet::open(store, kinds, clock);
    shutdown.spawn_last(async move {
        if let Err(error) = writing.await {
            tracing::error!(%error, "the writer of the fleet did not end well");
        }
    });
    let stopping = CancellationToken::new();
    shutdown.spawn({
        let (begun, stopping) = (shutdown.requested(), stopping.clone());
        async move {
            begun.await;
            stopping.cancel();
        }
    });
    let routes = http::routes_with(fleet.clone(), access, limits, metrics, stopping);
    Ok(Assembled { routes, fleet })
}

/// Says whether the database answers. What it says itself is for the log.
async fn look_after(store: Arc<dyn Store>, component: Component) {
    let mut troubled = false;
    loop {
        let trouble = match tokio::time::timeout(PING, store.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some((error.to_string(), "it does not do what it is asked")),
            Err(_) => Some((format!("no answer within {PING:?}"), "it does not answer in time")),
        };
        match (&trouble, troubled) {
            (Some((error, _)), false) => tracing::warn!(%error, "the fleet database is in trouble"),
            (None, true) => tracing::info!("the fleet database answers again"),
            _ => {}
        }
        troubled = trouble.is_some();
        match trouble {
            None => component.ready(),
            Some((_, words)) => component.not_ready(words),
        }
        tokio::time::sleep(PING).await;
    }
}

/// Removes what is old, a slice at a time.
async fn clean(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: Limits) {
    let age = SignedDuration::from_hours(24 * i64::from(limits.status_log_days));
    loop {
        let before = clock.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        loop {
            match store.prune(before, limits.tombstones).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "what is old could not be removed from the fleet database");
                    break;
                }
            }
        }
        tokio::time::sleep(CLEAN).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use async_trait::async_trait;
    use bellwether_clock::SystemClock;
    use parking_lot::Mutex;
    use tokio::sync::watch;

    use super::*;
    use crate::resource::{AdapterStatus, Id, LogEntry, Resource};
    use crate::store::{
        Changed, Event, Listing, Loaded, Needs, Page, Pending, Query, Revision, StoreError, Transaction,
    };

    /// A database that does as the test says.
    #[derive(Default)]
    struct Moody {
        mood: Mutex<Mood>,
        pruned: Mutex<Vec<(Timestamp, u64)>>,
    }

    #[derive(Clone, Copy, Default)]
    enum Mood {
        #[default]
        Well,
        Failing,
        Silent,
    }

    fn unavailable<T>() -> Result<T, StoreError> {
        Err(StoreError::Unavailable("password authentication failed for user fleet".to_owned()))
    }

    #[async_trait]
    impl Store for Moody {
        async fn ping(&self) -> Result<(), StoreError> {
            let mood = *self.mood.lock();
            match mood {
                Mood::Well => Ok(()),
                Mood::Failing => unavailable(),
                Mood::Silent => std::future::pending().await,
            }
        }

        /// There is more to remove every other time.
        async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError> {
            let mut pruned = self.pruned.lock();
            pruned.push((log_before, tombstones));
            Ok(pruned.len() % 2 == 1)
        }

        async fn begin(&self, _: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError> {
            unavailable()
        }

        async fn get(&self, _: Id) -> Result<Option<Resource>, StoreError> {
            unavailable()
        }

        async fn list(&self, _: &Query) -> Result<Listing, StoreError> {
            unavailable()
        }

        async fn statuses(&self, _: Id, _: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
            unavailable()
        }

        async fn log(&self, _: Id, _: Page) -> Result<(Vec<LogEntry>, u64), StoreError> {
            unavailable()
        }

        async fn changes(&self, _: Revision, _: usize) -> Result<Changed, StoreError> {
            unavailable()
        }

        async fn existing(&self, _: Revision, _: Revision, _: usize) -> Result<Vec<Event>, StoreError> {
            unavailable()
        }

        fn revision(&self) -> watch::Receiver<Revision> {
            watch::channel(0).1
        }

        async fn pending(&self, _: &str) -> Result<Vec<Pending>, StoreError> {
            let mood = *self.mood.lock();
            match mood {
                Mood::Silent => std::future::pending().await,
                _ => unavailable(),
            }
        }
    }

    async fn passes(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_follows_the_database_and_does_not_tell_what_it_said() {
        let (store, health, shutdown) = (Arc::new(Moody::default()), Health::default(), Shutdown::default());
        let (clock, metrics) = (Arc::new(SystemClock), Metrics::default());
        let _fleet = assemble(store.clone(), Config::default(), clock, &metrics, &health, &shutdown);
        assert_eq!(health.not_ready().len(), 1);
        let rows = [
            (Mood::Well, ""),
            (Mood::Failing, "it does not do what it is asked"),
            (Mood::Silent, "it does not answer in time"),
            (Mood::Well, ""),
        ];
        for (mood, words) in rows {
            *store.mood.lock() = mood;
            passes(5).await;
            let troubles: Vec<_> = health.not_ready();
            let expected = [("fleet database".to_owned(), words.to_owned())];
            assert_eq!(troubles, if words.is_empty() { &[][..] } else { &expected[..] });
        }
        let text = metrics.text();
        assert!(text.contains("hyperfleet_db_errors_total{operation=\"ping\"}"), "{text}");
        assert!(!text.contains("password"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_does_not_count_does_not_keep_the_metrics_from_being_read() {
        let (store, metrics) = (Arc::new(Moody::default()), Metrics::default());
        let (health, shutdown) = (Health::default(), Shutdown::default());
        *store.mood.lock() = Mood::Silent;
        let _fleet =
            assemble(store.clone(), Config::default(), Arc::new(SystemClock), &metrics, &health, &shutdown);
        let began = tokio::time::Instant::now();
        let text = metrics.fresh_text().await;
        assert!(text.contains("hyperfleet_api_build_info"), "{text}");
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_old_is_removed_every_minute_until_nothing_is_left() {
        let (store, limits) = (Arc::new(Moody::default()), Limits { tombstones: 7, ..Limits::default() });
        let cleaning = tokio::spawn(clean(store.clone(), Arc::new(SystemClock), limits));
        passes(61).await;
        cleaning.abort();
        let pruned = store.pruned.lock();
        assert_eq!(pruned.len(), 4);
        let age = Timestamp::now().duration_since(pruned.first().unwrap().0);
        assert_eq!((age.as_hours(), pruned.first().unwrap().1), (30 * 24, 7));
    }
}
