//! The work agent: applies the objects of the cluster's ManifestWorks, repairs them when somebody changes them, deletes
//! them with their work, and reports their state to the hub.
//!
//! `decide` is pure; `reconcile` is one pass over a work, with the order of its writes; `farewell` is how objects are
//! deleted. `hub`, `spoke`, `kinds` and `ledger` make the requests. `works` is the index: the works, and in `objects` what
//! watches report of applied objects, by which a change is noticed at once and an object that did not change is not read
//! again. In steady state nothing is read or written.

mod decide;
mod farewell;
mod hub;
mod kinds;
mod ledger;
mod objects;
mod piece;
mod reconcile;
mod spoke;
mod trouble;
mod works;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bellwether_runtime::{
    Context, DirtyKeys, DynamicWatches, IndexedReconciler, Next, ReconcileError, Watch, WatchHandle, Watches,
    run_indexed,
};
use kube::Client;
use kube::api::{Api, ApiResource};
use parking_lot::Mutex;

use self::hub::{Hub, Work};
use self::kinds::Kinds;
use self::objects::{ObjectMetadata, WatchedKind, WorkName};
use self::reconcile::WorkReconciler;
use self::spoke::Spoke;
use self::trouble::Failure;
use self::works::WorkIndex;
use crate::Agent;

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "work-agent";

/// How many kinds are watched at most. Objects of others are read at intervals.
const MAX_WATCHED_KINDS: usize = 64;

/// Applies the works of a cluster until the shutdown. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(WorkIndex::default()));
    let cluster = agent.cluster.clone();
    let works = Watch::new(&agent.hub, move |client| Hub::new(client, &cluster).works())
        .on_apply_from(|index: &mut WorkIndex, work, origin| index.apply_work(Work::of(work), origin))
        .on_delete(|index, deleted| index.delete_work(&deleted));
    let watches = Watches::new(NAME, &context, index.clone()).with(works);
    let agent = WorkAgent {
        reconciler: WorkReconciler {
            hub: Hub::new(agent.hub.clone(), &agent.cluster),
            spoke: Spoke { client: context.client.clone() },
            kinds: Kinds::new(context.client.clone()),
            index: index.clone(),
            clock: context.clock.clone(),
            agent,
        },
        index,
        client: context.client.clone(),
        dynamic: watches.dynamic(),
        watched: Mutex::new(WatchedKinds::default()),
    };
    run_indexed(agent, watches, context)
}

impl ReconcileError for Failure {
    fn label(&self) -> &'static str {
        self.label()
    }
}

struct WorkAgent {
    reconciler: WorkReconciler,
    index: Arc<Mutex<WorkIndex>>,
    client: Client,
    dynamic: DynamicWatches<WorkIndex>,
    watched: Mutex<WatchedKinds>,
}

/// The watches of the kinds that works have objects of.
#[derive(Default)]
struct WatchedKinds {
    is_leader: bool,
    handles: HashMap<ApiResource, (u64, WatchHandle)>,
}

impl IndexedReconciler for WorkAgent {
    type Key = WorkName;
    type Error = Failure;
    const NAME: &'static str = NAME;
    const TIMEOUT: Duration = Duration::from_secs(120);
    const MIN_INTERVAL: Duration = Duration::from_millis(200);

    fn take_dirty(&self) -> DirtyKeys<WorkName> {
        let (dirty, kinds_changed) = {
            let mut index = self.index.lock();
            (index.dirty.take(), index.objects.take_kinds_changed())
        };
        if kinds_changed {
            self.watch_kinds();
        }
        dirty
    }

    fn initial_keys(&self) -> Vec<WorkName> {
        self.index.lock().resync_all()
    }

    fn on_leader_change(&self, leader: bool) {
        self.watched.lock().is_leader = leader;
        self.watch_kinds();
    }

    async fn reconcile(&self, name: &WorkName) -> Result<Next, Failure> {
        let Some(start) = self.index.lock().start(name) else { return Ok(Next::OnChange) };
        let _end = OnDrop(|| self.index.lock().end(&start.work));
        let mut memory = start.memory;
        let result = self.reconciler.reconcile(&start.work, &mut memory, start.extent, start.failures).await;
        self.index.lock().conclude(name, memory, start.failures, result)
    }
}

impl WorkAgent {
    /// Watches the kinds that works have objects of, and no others, while this process is leader.
    fn watch_kinds(&self) {
        let mut watched = self.watched.lock();
        let needed = if watched.is_leader { self.index.lock().objects.kinds() } else { HashMap::new() };
        watched.handles.retain(|resource, (serial, _)| {
            let is_needed = needed.get(resource) == Some(serial);
            if !is_needed {
                self.index.lock().objects.stop_watch(resource);
            }
            is_needed
        });
        for (resource, serial) in needed {
            if watched.handles.len() >= MAX_WATCHED_KINDS {
                return;
            }
            watched.handles.entry(resource).or_insert_with_key(|resource| {
                let kind = WatchedKind { resource: resource.clone(), serial };
                (serial, self.dynamic.start(self.watch(kind)))
            });
        }
    }

    fn watch(&self, kind: WatchedKind) -> Watch<WorkIndex, ObjectMetadata> {
        let resource = kind.resource.clone();
        let (applied, deleted, listed) = (kind.clone(), kind.clone(), kind);
        Watch::new(&self.client, move |client| Api::<ObjectMetadata>::all_with(client, &resource))
            .on_apply(move |index: &mut WorkIndex, object| index.apply_object(&applied, &object))
            .on_delete(move |index, object| index.delete_object(&deleted, &object.name))
            .on_list(move |index, listing| index.list_objects(&listed, listing))
    }
}

/// Calls a function when it is dropped, also where a reconcile is cut off.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
