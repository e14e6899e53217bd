//! A controller from a reconciler: every object is looked at when it or what belongs to it changes, a few at a time,
//! never one twice at the same time, with a growing wait after each failure, while this process leads.

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

use crate::backoff::{Backoff, Growth};
use crate::bound::heard;
use crate::context::Context;
use crate::health::{Part, in_words};
use crate::metrics::Counts;

/// How long one look at an object may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why a look at an object failed.
pub trait Failure: std::error::Error + Send + Sync + 'static {
    /// The kind of failure in a word, for metrics.
    fn label(&self) -> &'static str;
}

/// When to look at an object again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When it or what belongs to it changes.
    OnChange,
    /// Then, and also after a while.
    After(Duration),
}

/// Brings objects of a kind to where they should be.
///
/// `reconcile` reads, decides and writes what differs; it remembers nothing that matters. It is called for every object
/// at the start, and must be indifferent to how often it is called.
pub trait Reconciler: Send + Sync + 'static {
    /// What is looked at.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;
    /// How it can fail.
    type Failure: Failure;
    /// The name of the controller, in logs, metrics and health.
    const NAME: &'static str;
    /// How many objects are looked at at the same time.
    const CONCURRENCY: u16 = 16;

    /// What else to watch, and which objects it concerns.
    fn watch(&self, controller: Controller<Self::Object>) -> Controller<Self::Object> {
        controller
    }

    /// Looks at one object.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
    ) -> impl Future<Output = Result<Next, Self::Failure>> + Send;
}

/// Runs a reconciler until the shutdown, whenever this process leads. What was begun is finished.
///
/// It counts as a part of the process from this call on, not from when it is first polled.
pub fn run<R: Reconciler>(reconciler: R, context: Context) -> impl Future<Output = ()> + Send {
    let part = Arc::new(context.health.part(context.part_name(R::NAME)));
    let counts = Counts::of(&context.metrics, &context.cluster, R::NAME);
    let reconciler = Arc::new(reconciler);
    async move {
        loop {
            counts.leading(false);
            if !context.leadership.is_held() {
                // To stand by is no trouble.
                part.well();
            }
            tokio::select! {
                () = context.leadership.held() => {}
                () = context.shutdown.begun() => return,
            }
            counts.leading(true);
            lead(&reconciler, &context, &counts, &part).await;
            if context.shutdown.has_begun() {
                return;
            }
        }
    }
}

/// Why a look at an object came to nothing.
#[derive(Debug, thiserror::Error)]
enum Stumble<F: Failure> {
    #[error(transparent)]
    Failed(F),
    /// A request that is never answered must not keep an object for ever.
    #[error("it was not done within {PATIENCE:?}")]
    Late,
}

impl<F: Failure> Stumble<F> {
    fn label(&self) -> &'static str {
        match self {
            Self::Failed(failure) => failure.label(),
            Self::Late => "late",
        }
    }
}

/// The reconciler, and what is kept beside it while it leads.
struct Post<R: Reconciler> {
    reconciler: Arc<R>,
    backoff: Backoff<ObjectRef<R::Object>>,
    counts: Counts,
    cluster: Arc<str>,
}

async fn lead<R: Reconciler>(reconciler: &Arc<R>, context: &Context, counts: &Counts, part: &Arc<Part>) {
    let (leadership, end) = (context.leadership.clone(), context.shutdown.begun());
    let retire = async move {
        tokio::select! {
            () = leadership.lost() => {}
            () = end => {}
        }
    };
    let post = Arc::new(Post {
        reconciler: reconciler.clone(),
        backoff: Backoff::new(Growth::USUAL),
        counts: counts.clone(),
        cluster: context.cluster.clone(),
    });
    let (objects, store) = watched::<R>(context, part.clone());
    let controller = reconciler
        .watch(Controller::for_stream(objects, store))
        .with_config(Config::default().concurrency(R::CONCURRENCY))
        .graceful_shutdown_on(retire);
    let mut results = std::pin::pin!(controller.run(reconcile, wait_after, post.clone()));
    while let Some(result) = results.next().await {
        match result {
            // Failures have been told of.
            Ok(_) | Err(Error::ReconcilerFailed(..)) => {}
            Err(Error::ObjectNotFound(gone)) => {
                let mut key = ObjectRef::new(&gone.name);
                key.namespace = gone.namespace;
                post.backoff.succeeded(&key);
            }
            Err(error) => tracing::debug!("{} of {}: {error}", R::NAME, context.cluster),
        }
    }
}

/// The objects as they change. Whether they can be watched is what the health of the controller is about.
fn watched<R: Reconciler>(
    context: &Context,
    part: Arc<Part>,
) -> (impl Stream<Item = Result<R::Object, watcher::Error>> + Send + 'static, Store<R::Object>) {
    let (store, writer) = reflector::store();
    let api = Api::<R::Object>::all(heard(&context.client, part.clone()));
    let objects = watcher(api, watcher::Config::default())
        .default_backoff()
        .inspect(move |event| {
            if let Err(error) = event {
                part.trouble(in_words(error));
            }
        })
        // Nobody looks at it, and it may be most of an object.
        .modify(|object| object.managed_fields_mut().clear())
        .reflect(writer)
        .touched_objects();
    (objects, store)
}

async fn reconcile<R: Reconciler>(
    object: Arc<R::Object>,
    post: Arc<Post<R>>,
) -> Result<Action, Arc<Stumble<R::Failure>>>
where
    ObjectRef<R::Object>: Hash + Eq,
{
    let key = ObjectRef::from_obj(object.as_ref());
    let begun = Instant::now();
    let outcome = match tokio::time::timeout(PATIENCE, post.reconciler.reconcile(object)).await {
        Ok(outcome) => outcome.map_err(Stumble::Failed),
        Err(_) => Err(Stumble::Late),
    };
    post.counts.reconciled(begun.elapsed());
    let next = outcome.map_err(Arc::new)?;
    post.backoff.succeeded(&key);
    Ok(match next {
        Next::OnChange => Action::await_change(),
        Next::After(wait) => Action::requeue(wait),
    })
}

fn wait_after<R: Reconciler>(
    object: Arc<R::Object>,
    failure: &Arc<Stumble<R::Failure>>,
    post: Arc<Post<R>>,
) -> Action {
    let key = ObjectRef::from_obj(object.as_ref());
    post.counts.failed(failure.label());
    let wait = post.backoff.failed(key.clone());
    tracing::warn!(
        "{} of {}: {}: {failure}; again in {:.1} s",
        R::NAME,
        post.cluster,
        key.name,
        wait.as_secs_f64()
    );
    Action::requeue(wait)
}
