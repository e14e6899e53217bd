//! The change feed: a watcher gets every change from a revision on, without gaps. One task reads the store for all watchers that are
//! up to date; a watcher that is behind reads the store itself until it has caught up.

use std::collections::HashSet;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::broadcast;

use crate::resource::Id;
use crate::store::{Changed, Event, EventKind, Revision, Store, StoreError};

/// How many changes are read at once.
const SLICE_LENGTH: usize = 256;
/// How many slices a watcher may be behind before it reads the store itself.
const BUFFERED_SLICES: usize = 16;

/// The changes between two revisions.
#[derive(Debug)]
struct Slice {
    since: Revision,
    through: Revision,
    events: Vec<Event>,
}

/// The changes of a store. Clones are the same feed.
#[derive(Clone)]
pub struct Feed {
    store: Arc<dyn Store>,
    slices: broadcast::Sender<Arc<Slice>>,
}

/// Why a watch ends.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    /// The changes after that revision have been removed: list again, and watch from the revision of the list.
    #[error("the changes after revision {0} are no longer available")]
    Expired(Revision),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Feed {
    /// Starts to read the changes of a store. The task ends when the feed and all watchers are dropped.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let (slices, _) = broadcast::channel(BUFFERED_SLICES);
        tokio::spawn(read_changes(store.clone(), slices.clone().downgrade()));
        Self { store, slices }
    }

    /// The latest revision.
    pub fn revision(&self) -> Revision {
        *self.store.revision().borrow()
    }

    /// Watches all changes after a revision. From revision 0 it returns all resources, and then every change. The first read is done
    /// before this returns, so that an expired revision is an error at once.
    pub async fn watch(
        &self,
        since: Revision,
    ) -> Result<impl Stream<Item = Result<Event, FeedError>> + Send + use<>, FeedError> {
        // Subscribe before the read, so that no change is missed in between.
        let slices = self.slices.subscribe();
        let stage = match since {
            0 => Stage::Existing { through: self.revision() },
            _ => Stage::Behind,
        };
        let sent = HashSet::new();
        let mut watcher = Watcher { store: self.store.clone(), slices, since, stage, sent };
        let first = watcher.read().await?;
        let started = (watcher, first.into_iter());
        Ok(futures::stream::try_unfold(started, |(mut watcher, mut events)| async move {
            loop {
                if let Some(event) = events.next() {
                    return Ok(Some((event, (watcher, events))));
                }
                match watcher.next().await? {
                    Some(more) => events = more.into_iter(),
                    None => return Ok(None),
                }
            }
        }))
    }
}

/// The progress of a watcher.
#[derive(Clone, Copy)]
enum Stage {
    /// It reads existing resources.
    Existing {
        /// Later changes are sent as changes.
        through: Revision,
    },
    /// It reads the changes that happened meanwhile.
    CatchingUp,
    /// It reads the store itself.
    Behind,
    /// It receives the slices of the shared reader.
    UpToDate,
}

struct Watcher {
    store: Arc<dyn Store>,
    slices: broadcast::Receiver<Arc<Slice>>,
    since: Revision,
    stage: Stage,
    /// The resources that were sent, while existing resources are read. A resource that changes meanwhile may first appear as a change.
    sent: HashSet<Id>,
}

impl Watcher {
    /// The next changes; `None` when the feed has ended.
    async fn next(&mut self) -> Result<Option<Vec<Event>>, FeedError> {
        loop {
            if !matches!(self.stage, Stage::UpToDate) {
                return self.read().await.map(Some);
            }
            match self.slices.recv().await {
                Ok(slice) if slice.through <= self.since => {}
                Ok(slice) if slice.since == self.since => {
                    self.since = slice.through;
                    return Ok(Some(slice.events.clone()));
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => self.stage = Stage::Behind,
                Err(broadcast::error::RecvError::Closed) => return Ok(None),
            }
        }
    }

    /// Reads a slice from the store.
    async fn read(&mut self) -> Result<Vec<Event>, FeedError> {
        match self.stage {
            Stage::Existing { through } => self.read_existing(through).await,
            Stage::CatchingUp => {
                let events = self.read_changes().await?;
                let events = events.into_iter().filter_map(|event| self.translate(event)).collect();
                if matches!(self.stage, Stage::UpToDate) {
                    self.sent = HashSet::new();
                } else {
                    self.stage = Stage::CatchingUp;
                }
                Ok(events)
            }
            Stage::Behind | Stage::UpToDate => self.read_changes().await,
        }
    }

    async fn read_existing(&mut self, through: Revision) -> Result<Vec<Event>, FeedError> {
        let events = self.store.existing(self.since, through, SLICE_LENGTH).await?;
        self.sent.extend(events.iter().map(|event| event.resource.id));
        match events.last() {
            Some(last) if events.len() == SLICE_LENGTH => self.since = last.revision,
            _ => (self.since, self.stage) = (through, Stage::CatchingUp),
        }
        Ok(events)
    }

    async fn read_changes(&mut self) -> Result<Vec<Event>, FeedError> {
        let Changed::Since { events, through } = self.store.changes(self.since, SLICE_LENGTH).await? else {
            return Err(FeedError::Expired(self.since));
        };
        self.stage = if events.len() < SLICE_LENGTH { Stage::UpToDate } else { Stage::Behind };
        self.since = through;
        Ok(events)
    }

    /// A resource that changed before it was sent becomes ADDED; one that was removed before it was sent is left out.
    fn translate(&mut self, mut event: Event) -> Option<Event> {
        let id = event.resource.id;
        match event.kind {
            EventKind::Deleted => self.sent.remove(&id).then_some(event),
            EventKind::Added | EventKind::Modified => {
                if self.sent.insert(id) {
                    event.kind = EventKind::Added;
                }
                Some(event)
            }
        }
    }
}

/// Reads changes for all watchers that are up to date.
async fn read_changes(store: Arc<dyn Store>, slices: broadcast::WeakSender<Arc<Slice>>) {
    let mut revision = store.revision();
    let mut since = *revision.borrow_and_update();
    while revision.changed().await.is_ok() {
        let Some(slices) = slices.upgrade() else { return };
        let newest = *revision.borrow_and_update();
        if slices.receiver_count() == 0 {
            since = newest;
            continue;
        }
        while since < newest {
            match store.changes(since, SLICE_LENGTH).await {
                Ok(Changed::Since { events, through }) => {
                    // A watcher that detects a gap reads the store itself.
                    let _ = slices.send(Arc::new(Slice { since, through, events }));
                    since = through;
                }
                Ok(Changed::Expired) => since = newest,
                Err(error) => {
                    tracing::warn!(%error, "cannot read changes from the fleet database; retrying in a second");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            }
        }
    }
}
