//! Assembles the fleet API in a process: its routes and its background tasks, started and stopped in order.
//!
//! At a shutdown, watches end, requests in flight are finished, and the writer stops last, when there can be no more commands.

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
use crate::recompute;
use crate::store::Store;

/// The interval and the timeout of database health checks.
const PING_INTERVAL: Duration = Duration::from_secs(2);
/// How often expired log entries and tombstones are removed.
const PRUNE_INTERVAL: Duration = Duration::from_secs(60);

/// Why the fleet API cannot be assembled.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum AssembleError {
    #[error(transparent)]
    Kinds(#[from] KindError),
    #[error(transparent)]
    Auth(#[from] AuthError),
}

/// A running fleet API.
pub struct Assembled {
    /// The routes below the base path of the API; health and metrics are those of
    /// [`bellwether_runtime::http::routes`].
    pub routes: Router,
    /// The fleet. Shutdown waits until every clone is dropped, including the one in the routes.
    pub fleet: Fleet,
}

/// Starts a fleet on a store: its writer, its change feed, the database health check, and the refresh of issuer keys. They stop with
/// `shutdown`; the caller must serve the routes in a task of `shutdown`.
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
    http::count_pending(metrics, Arc::downgrade(&store), vocabulary.counted(), clock.clone());

    let spawn_until_shutdown = |task: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        let requested = shutdown.requested();
        shutdown.spawn(async move {
            tokio::select! {
                () = requested => {}
                () = task => {}
            }
        });
    };
    spawn_until_shutdown(Box::pin(check_database(store.clone(), health.component("fleet database"))));
    spawn_until_shutdown(Box::pin(prune(store.clone(), clock.clone(), limits.clone())));
    if let Some(refresh) = access.keep_keys() {
        spawn_until_shutdown(Box::pin(refresh));
    }

    let (fleet, writing) = Fleet::open(store, kinds, clock);
    spawn_until_shutdown(Box::pin(recompute::retry_until_computed(fleet.clone())));
    shutdown.spawn_last(async move {
        if let Err(error) = writing.await {
            tracing::error!(%error, "the writer of the fleet has panicked");
        }
    });
    let stopping = CancellationToken::new();
    shutdown.spawn({
        let (requested, stopping) = (shutdown.requested(), stopping.clone());
        async move {
            requested.await;
            stopping.cancel();
        }
    });
    let routes = http::routes_with(fleet.clone(), access, limits, metrics, stopping);
    Ok(Assembled { routes, fleet })
}

/// Checks whether the database responds. Its error messages are only logged.
async fn check_database(store: Arc<dyn Store>, component: Component) {
    let mut failing = false;
    loop {
        let failure = match tokio::time::timeout(PING_INTERVAL, store.ping()).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some((error.to_string(), "requests to the database fail")),
            Err(_) => Some((
                format!("no response within {PING_INTERVAL:?}"),
                "the database does not respond in time",
            )),
        };
        match (&failure, failing) {
            (Some((error, _)), false) => tracing::warn!(%error, "the fleet database is not available"),
            (None, true) => tracing::info!("the fleet database is available again"),
            _ => {}
        }
        failing = failure.is_some();
        match failure {
            None => component.ready(),
            Some((_, message)) => component.not_ready(message),
        }
        tokio::time::sleep(PING_INTERVAL).await;
    }
}

/// Removes expired log entries and tombstones in batches.
async fn prune(store: Arc<dyn Store>, clock: Arc<dyn Clock>, limits: Limits) {
    let age = SignedDuration::from_hours(24 * i64::from(limits.status_log_days));
    loop {
        let before = clock.now().checked_sub(age).unwrap_or(Timestamp::MIN);
        loop {
            match store.prune(before, limits.tombstones).await {
                Ok(true) => tokio::task::yield_now().await,
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot remove expired entries from the fleet database; retrying in a minute");
                    break;
                }
            }
        }
        tokio::time::sleep(PRUNE_INTERVAL).await;
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

    /// A store whose behaviour the test sets.
    #[derive(Default)]
    struct FakeStore {
        behaviour: Mutex<Behaviour>,
        pruned: Mutex<Vec<(Timestamp, u64)>>,
    }

    #[derive(Clone, Copy, Default)]
    enum Behaviour {
        #[default]
        Succeeds,
        Fails,
        Hangs,
    }

    fn unavailable<T>() -> Result<T, StoreError> {
        Err(StoreError::Unavailable("password authentication failed for user fleet".to_owned()))
    }

    #[async_trait]
    impl Store for FakeStore {
        async fn ping(&self) -> Result<(), StoreError> {
            let behaviour = *self.behaviour.lock();
            match behaviour {
                Behaviour::Succeeds => Ok(()),
                Behaviour::Fails => unavailable(),
                Behaviour::Hangs => std::future::pending().await,
            }
        }

        /// Every other call reports that there is more to remove.
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

        async fn computed_rules(&self) -> Result<Option<String>, StoreError> {
            unavailable()
        }

        async fn set_computed_rules(&self, _: &str) -> Result<(), StoreError> {
            unavailable()
        }

        fn revision(&self) -> watch::Receiver<Revision> {
            watch::channel(0).1
        }

        async fn pending(&self, _: &str) -> Result<Vec<Pending>, StoreError> {
            let behaviour = *self.behaviour.lock();
            match behaviour {
                Behaviour::Hangs => std::future::pending().await,
                _ => unavailable(),
            }
        }
    }

    async fn advance(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn readiness_follows_the_database_without_its_error_messages() {
        let (store, health, shutdown) =
            (Arc::new(FakeStore::default()), Health::default(), Shutdown::default());
        let (clock, metrics) = (Arc::new(SystemClock), Metrics::default());
        let _fleet = assemble(store.clone(), Config::default(), clock, &metrics, &health, &shutdown);
        assert_eq!(health.not_ready().len(), 1);
        let rows = [
            (Behaviour::Succeeds, ""),
            (Behaviour::Fails, "requests to the database fail"),
            (Behaviour::Hangs, "the database does not respond in time"),
            (Behaviour::Succeeds, ""),
        ];
        for (behaviour, message) in rows {
            *store.behaviour.lock() = behaviour;
            advance(5).await;
            let not_ready: Vec<_> = health.not_ready();
            let expected = [("fleet database".to_owned(), message.to_owned())];
            assert_eq!(not_ready, if message.is_empty() { &[][..] } else { &expected[..] });
        }
        let text = metrics.text();
        assert!(text.contains("hyperfleet_db_errors_total{operation=\"ping\"}"), "{text}");
        assert!(!text.contains("password"));
    }

    #[tokio::test(start_paused = true)]
    async fn metrics_are_served_although_the_database_hangs() {
        let (store, metrics) = (Arc::new(FakeStore::default()), Metrics::default());
        let (health, shutdown) = (Health::default(), Shutdown::default());
        *store.behaviour.lock() = Behaviour::Hangs;
        let _fleet =
            assemble(store.clone(), Config::default(), Arc::new(SystemClock), &metrics, &health, &shutdown);
        let began = tokio::time::Instant::now();
        let text = metrics.fresh_text().await;
        assert!(text.contains("hyperfleet_api_build_info"), "{text}");
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn expired_entries_are_removed_every_minute_until_none_is_left() {
        let (store, limits) = (Arc::new(FakeStore::default()), Limits { tombstones: 7, ..Limits::default() });
        let pruning = tokio::spawn(prune(store.clone(), Arc::new(SystemClock), limits));
        advance(61).await;
        pruning.abort();
        let pruned = store.pruned.lock();
        assert_eq!(pruned.len(), 4);
        let age = Timestamp::now().duration_since(pruned.first().unwrap().0);
        assert_eq!((age.as_hours(), pruned.first().unwrap().1), (30 * 24, 7));
    }
}
