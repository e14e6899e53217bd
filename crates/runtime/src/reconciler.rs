//! The plain controller: one kind, what else concerns it, and one function that is called for each object that changed.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use kube::runtime::controller::{Action, Config, Error};
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{Controller, WatchStreamExt as _, watcher};
use kube::{Api, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::backoff::{Backoff, BackoffPolicy};
use crate::client::notify_on_success;
use crate::context::Context;
use crate::guard::{Failure, guarded};
use crate::health::{Component, describe_watch_error};
use crate::metrics::ControllerMetrics;

/// How long one reconcile may take.
const RECONCILE_TIMEOUT: Duration = Duration::from_secs(120);

/// Why a reconcile failed.
pub trait ReconcileError: std::error::Error + Send + Sync + 'static {
    /// The kind of error, for metrics.
    fn label(&self) -> &'static str;

    /// How the key is retried.
    fn retry(&self) -> Retry {
        Retry::Backoff
    }
}

/// How a key is retried after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// After its backoff, or earlier when something changes.
    Backoff,
    /// After its backoff and not earlier, whatever changes: another writer undoes what this one writes.
    HoldOff,
}

/// When a key is reconciled again after a success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    OnChange,
    /// When something changes, and at the latest after this time.
    After(Duration),
    /// When something changes, and at the latest after the backoff of the key: the reconcile has reported by itself that it
    /// could not do everything.
    Backoff,
}

/// Reconciles the objects of a kind with their desired state.
///
/// `reconcile` reads, decides and writes what differs. It is called for every object at the start, and must be idempotent.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;
    /// Why a reconcile failed.
    type Error: ReconcileError;
    /// The name of the controller, in logs, metrics and health.
    const NAME: &'static str;
    /// How many objects are reconciled at the same time.
    const CONCURRENCY: u16 = 16;

    /// Adds watches of other kinds, and which objects they concern.
    fn watch(&self, controller: Controller<Self::Object>) -> Controller<Self::Object> {
        controller
    }

    /// Reconciles one object.
    fn reconcile(&self, object: Arc<Self::Object>) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// Runs a reconciler until the shutdown, whenever this process is leader; a running reconcile is finished.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run<R: Reconciler>(reconciler: R, context: Context) -> impl Future<Output = ()> + Send {
    let component = Arc::new(context.health.component(context.component_name(R::NAME)));
    let metrics = ControllerMetrics::new(&context.metrics, &context.cluster, R::NAME);
    let reconciler = Arc::new(reconciler);
    async move {
        loop {
            metrics.set_leader(false);
            if !context.leadership.is_leader() {
                component.ready();
            }
            tokio::select! {
                () = context.leadership.acquired() => {}
                () = context.shutdown.requested() => return,
            }
            metrics.set_leader(true);
            lead(&reconciler, &context, &metrics, &component).await;
            if context.shutdown.is_requested() {
                return;
            }
        }
    }
}

/// The reconciler, and what is kept beside it while this process is leader.
struct Leading<R: Reconciler> {
    reconciler: Arc<R>,
    backoff: Backoff<ObjectRef<R::Object>>,
    metrics: ControllerMetrics,
    cluster: Arc<str>,
}

async fn lead<R: Reconciler>(
    reconciler: &Arc<R>,
    context: &Context,
    metrics: &ControllerMetrics,
    component: &Arc<Component>,
) {
    let (leadership, shutdown) = (context.leadership.clone(), context.shutdown.requested());
    let stop = async move {
        tokio::select! {
            () = leadership.lost() => {}
            () = shutdown => {}
        }
    };
    let leading = Arc::new(Leading {
        reconciler: reconciler.clone(),
        backoff: Backoff::new(BackoffPolicy::DEFAULT),
        metrics: metrics.clone(),
        cluster: context.cluster.clone(),
    });
    let (objects, store) = watched::<R>(context, component.clone());
    let controller = reconciler
        .watch(Controller::for_stream(objects, store))
        .with_config(Config::default().concurrency(R::CONCURRENCY))
        .graceful_shutdown_on(stop);
    let mut results = std::pin::pin!(controller.run(reconcile, requeue, leading.clone()));
    while let Some(result) = results.next().await {
        match result {
            // `requeue` has logged and counted failures.
            Ok(_) | Err(Error::ReconcilerFailed(..)) => {}
            Err(Error::ObjectNotFound(deleted)) => {
                let mut key = ObjectRef::new(&deleted.name);
                key.namespace = deleted.namespace;
                leading.backoff.reset(&key);
            }
            Err(error) => tracing::debug!("{} of {}: {error}", R::NAME, context.cluster),
        }
    }
}

/// The objects as they change. The controller is ready while they can be watched.
fn watched<R: Reconciler>(
    context: &Context,
    component: Arc<Component>,
) -> (impl Stream<Item = Result<R::Object, watcher::Error>> + Send + 'static, Store<R::Object>) {
    let (store, writer) = reflector::store();
    let ready = component.clone();
    let api = Api::<R::Object>::all(notify_on_success(&context.client, Arc::new(move || ready.ready())));
    let objects = watcher(api, watcher::Config::default())
        .default_backoff()
        .inspect(move |event| {
            if let Err(error) = event {
                component.not_ready(describe_watch_error(error));
            }
        })
        // No controller reads them here, and they may be most of an object.
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects();
    (objects, store)
}

async fn reconcile<R: Reconciler>(
    object: Arc<R::Object>,
    leading: Arc<Leading<R>>,
) -> Result<Action, Arc<Failure<R::Error>>>
where
    ObjectRef<R::Object>: Hash + Eq,
{
    let key = ObjectRef::from_obj(object.as_ref());
    let start = Instant::now();
    let result = guarded(RECONCILE_TIMEOUT, leading.reconciler.reconcile(object)).await;
    leading.metrics.observe_reconcile(start.elapsed());
    let next = result.map_err(Arc::new)?;
    if next == Next::Backoff {
        return Ok(Action::requeue(leading.backoff.record_failure(key)));
    }
    leading.backoff.reset(&key);
    Ok(match next {
        Next::After(delay) => Action::requeue(delay),
        Next::OnChange | Next::Backoff => Action::await_change(),
    })
}

fn requeue<R: Reconciler>(
    object: Arc<R::Object>,
    failure: &Arc<Failure<R::Error>>,
    leading: Arc<Leading<R>>,
) -> Action {
    let key = ObjectRef::from_obj(object.as_ref());
    leading.metrics.count_error(failure.label());
    let delay = leading.backoff.record_failure(key.clone());
    tracing::warn!(
        "{} of {}: {}: {failure}; retry in {:.1} s",
        R::NAME,
        leading.cluster,
        crate::watches::ObjectName::of(object.as_ref()),
        delay.as_secs_f64()
    );
    Action::requeue(delay)
}
