//! The plain controller: one kind, what else concerns it, and one function that is called for each object that changed. It
//! is an indexed controller whose index has whole objects.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::dirty::DirtyKeys;
use crate::indexed::{IndexedReconciler, run_indexed};
use crate::objects::ObjectIndex;
use crate::watches::{ObjectName, Watch, Watches};

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
/// `reconcile` reads, decides and writes what differs. It is called for every object when this process becomes leader, and
/// must be idempotent.
pub trait Reconciler: Send + Sync + 'static {
    /// The kind.
    type Object: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static;
    /// What is kept of other kinds; `()` if none concerns the objects.
    type Related: Default + Send + 'static;
    /// Why a reconcile failed.
    type Error: ReconcileError;
    /// The name of the controller, in logs, metrics and health.
    const NAME: &'static str;
    /// How many objects are reconciled at the same time.
    const CONCURRENCY: usize = 16;

    /// Adds watches of other kinds. They update what is kept of them, and enqueue the objects that a change affects.
    fn watch(&self, watches: Watches<IndexOf<Self>>) -> Watches<IndexOf<Self>> {
        watches
    }

    /// This process became leader.
    fn on_leader(&self, _index: &mut IndexOf<Self>) {}

    /// Reconciles one object.
    fn reconcile(
        &self,
        object: Arc<Self::Object>,
        index: &Mutex<IndexOf<Self>>,
    ) -> impl Future<Output = Result<Next, Self::Error>> + Send;
}

/// The index of a reconciler.
pub type IndexOf<R> = ObjectIndex<<R as Reconciler>::Object, <R as Reconciler>::Related>;

/// Runs a reconciler until the shutdown, whenever this process is leader; a running reconcile is finished. A standby watches
/// too.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run<R: Reconciler>(reconciler: R, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(IndexOf::<R>::default()));
    let objects = Watch::new(&context.client, Api::<R::Object>::all)
        .on_apply(|index: &mut IndexOf<R>, object| index.apply(object))
        .on_delete(|index, deleted| index.delete(deleted.name));
    let watches = reconciler.watch(Watches::new(R::NAME, &context, index.clone()).with(objects));
    run_indexed(PlainController { reconciler, index }, watches, context)
}

struct PlainController<R: Reconciler> {
    reconciler: R,
    index: Arc<Mutex<IndexOf<R>>>,
}

impl<R: Reconciler> IndexedReconciler for PlainController<R> {
    type Key = ObjectName;
    type Error = R::Error;
    const NAME: &'static str = R::NAME;
    const CONCURRENCY: usize = R::CONCURRENCY;
    const TIMEOUT: Duration = RECONCILE_TIMEOUT;

    fn take_dirty(&self) -> DirtyKeys<ObjectName> {
        self.index.lock().dirty.take()
    }

    fn initial_keys(&self) -> Vec<ObjectName> {
        self.index.lock().names()
    }

    fn on_leader_change(&self, leader: bool) {
        if leader {
            self.reconciler.on_leader(&mut self.index.lock());
        }
    }

    async fn reconcile(&self, name: &ObjectName) -> Result<Next, R::Error> {
        let object = self.index.lock().objects.get(name).cloned();
        match object {
            Some(object) => self.reconciler.reconcile(object, &self.index).await,
            None => Ok(Next::OnChange),
        }
    }
}
