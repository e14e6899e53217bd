//! The work agent: applies the objects of the cluster's ManifestWorks, reverts changes that other clients make to them,
//! deletes them with their ManifestWork, and reports their state to the hub.
//!
//! `decide` is pure. `reconcile` is one pass over a ManifestWork, and documents the order of its writes;
//! `manifest_state` is the state of one manifest during that pass; `deletion` deletes objects. `hub`, `spoke`,
//! `discovery` and `applied_work` make the requests. `works` is the index of ManifestWorks, and `objects` the index of
//! applied objects, built from watches of their metadata: a change is noticed at once, and an object that did not
//! change is not read again. As long as nothing changes, the agent sends no requests.

mod applied_work;
mod decide;
mod deletion;
mod discovery;
mod error;
mod hub;
mod manifest_state;
mod objects;
mod reconcile;
mod spoke;
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

use self::discovery::KindDiscovery;
use self::error::WorkError;
use self::hub::{HubClient, Work};
use self::objects::{ObjectMetadata, WatchedKind, WorkName};
use self::reconcile::WorkReconciler;
use self::spoke::SpokeClient;
use self::works::WorkIndex;
use crate::Agent;

/// The name of the controller, in logs, metrics and health, and as field manager.
pub const NAME: &str = "work-agent";

/// The maximum number of watched kinds. Objects of further kinds are read at intervals.
const MAX_WATCHED_KINDS: usize = 64;

/// Applies the ManifestWorks of a cluster until the shutdown. The context is that of the cluster.
///
/// It is a health component from this call on, not from when it is first polled.
pub fn run(agent: Agent, context: Context) -> impl Future<Output = ()> + Send {
    let index = Arc::new(Mutex::new(WorkIndex::default()));
    let cluster = agent.cluster.clone();
    let works = Watch::new(&agent.hub, move |client| HubClient::new(client, &cluster).works())
        .on_apply_from(|index: &mut WorkIndex, work, origin| {
            index.apply_work(Work::from_object(work), origin)
        })
        .on_delete(|index, deleted| index.delete_work(&deleted));
    let watches = Watches::new(NAME, &context, index.clone()).with(works);
    let agent = WorkAgent {
        reconciler: WorkReconciler {
            hub: HubClient::new(agent.hub.clone(), &agent.cluster),
            spoke: SpokeClient { client: context.client.clone() },
            discovery: KindDiscovery::new(context.client.clone()),
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

impl ReconcileError for WorkError {
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

/// The watches of the kinds that ManifestWorks have objects of.
#[derive(Default)]
struct WatchedKinds {
    is_leader: bool,
    handles: HashMap<ApiResource, (u64, WatchHandle)>,
}

impl IndexedReconciler for WorkAgent {
    type Key = WorkName;
    type Error = WorkError;
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

    async fn reconcile(&self, name: &WorkName) -> Result<Next, WorkError> {
        let Some(start) = self.index.lock().start(name) else { return Ok(Next::OnChange) };
        let _end = OnDrop(|| self.index.lock().end(&start.work));
        let mut cache = start.cache;
        let result = self.reconciler.reconcile(&start.work, &mut cache, start.scope, start.failures).await;
        self.index.lock().conclude(name, cache, start.failures, result)
    }
}

impl WorkAgent {
    /// Watches the kinds that ManifestWorks have objects of, and no others, while this process is leader.
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

/// Calls a function when it is dropped, also if a reconcile is cancelled or panics.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
