//! The change feed: who watches is told of every change from a revision on, and misses none. One reader follows the store
//! for all who are up to date; who is behind reads by itself until it has caught up.

use std::collections::HashSet;
use std::sync::Arc;

use futures::Stream;
use tokio::sync::broadcast;

use crate::resource::Id;
use crate::store::{Changed, Event, EventKind, Revision, Store, StoreError};

/// How many changes are read at once.
const SLICE: usize = 256;
/// How many slices those who watch may be behind before they read by themselves.
const BEHIND: usize = 16;

/// What changed between two revisions.
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
    /// What happened after that revision is no longer known: list, and watch from there.
    #[error("what happened after revision {0} is no longer known")]
    Expired(Revision),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Feed {
    /// Follows a store, for as long as the feed or one who watches is there.
    pub fn start(store: Arc<dyn Store>) -> Self {
        let (slices, _) = broadcast::channel(BEHIND);
        tokio::spawn(follow(store.clone(), slices.clone().downgrade()));
        Self { store, slices }
    }

    /// The latest revision.
    pub fn revision(&self) -> Revision {
        *self.store.revision().borrow()
    }

    /// Every change after a revision, without end; from revision 0: all that there is, and then every change. The first
    /// read is done when this returns, so that one who asks for what is forgotten learns it at once.
    pub async fn watch(
        &self,
        since: Revision,
    ) -> Result<impl Stream<Item = Result<Event, FeedError>> + Send + use<>, FeedError> {
        // Subscribed before the read, so that nothing falls between the two.
        let slices = self.slices.subscribe();
        let stage = match since {
            0 => Stage::Existing { through: self.revision() },
            _ => Stage::Behind,
        };
        let told = HashSet::new();
        let mut watcher = Watcher { store: self.store.clone(), slices, since, stage, told };
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

/// How far one who watches has come.
#[derive(Clone, Copy)]
enum Stage {
    /// It is being told what there is.
    Existing {
        /// What changed later comes as a change.
        through: Revision,
    },
    /// It is being told what changed meanwhile.
    CatchingUp,
    /// It reads by itself.
    Behind,
    /// It is told with all others.
    UpToDate,
}

struct Watcher {
    store: Arc<dyn Store>,
    slices: broadcast::Receiver<Arc<Slice>>,
    since: Revision,
    stage: Stage,
    /// Who has been told of, while it is being told what there is. What changes meanwhile may be met as a change first.
    told: HashSet<Id>,
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

    /// Reads one slice by itself.
    async fn read(&mut self) -> Result<Vec<Event>, FeedError> {
        match self.stage {
            Stage::Existing { through } => self.read_existing(through).await,
            Stage::CatchingUp => {
                let events = self.read_changes().await?;
                let events = events.into_iter().filter_map(|event| self.announce(event)).collect();
                if matches!(self.stage, Stage::UpToDate) {
                    self.told = HashSet::new();
                } else {
                    self.stage = Stage::CatchingUp;
                }
                Ok(events)
            }
            Stage::Behind | Stage::UpToDate => self.read_changes().await,
        }
    }

    async fn read_existing(&mut self, through: Revision) -> Result<Vec<Event>, FeedError> {
        let events = self.store.existing(self.since, through, SLICE).await?;
        self.told.extend(events.iter().map(|event| event.resource.id));
        match events.last() {
            Some(last) if events.len() == SLICE => self.since = last.revision,
            _ => (self.since, self.stage) = (through, Stage::CatchingUp),
        }
        Ok(events)
    }

    async fn read_changes(&mut self) -> Result<Vec<Event>, FeedError> {
        let Changed::Since { events, through } = self.store.changes(self.since, SLICE).await? else {
            return Err(FeedError::Expired(self.since));
        };
        self.stage = if events.len() < SLICE { Stage::UpToDate } else { Stage::Behind };
        self.since = through;
        Ok(events)
    }

    /// What was there and changed before its turn came is new to who hears of it first now; and what went before that is
    /// no news at all.
    fn announce(&mut self, mut event: Event) -> Option<Event> {
        let id = event.resource.id;
        match event.kind {
            EventKind::Deleted => self.told.remove(&id).then_some(event),
            EventKind::Added | EventKind::Modified => {
                if self.told.insert(id) {
                    event.kind = EventKind::Added;
                }
                Some(event)
            }
        }
    }
}

/// Reads what changes, and tells all who watch.
async fn follow(store: Arc<dyn Store>, slices: broadcast::WeakSender<Arc<Slice>>) {
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
            match store.changes(since, SLICE).await {
                Ok(Changed::Since { events, through }) => {
                    // Those who watch and find a gap read by themselves.
                    let _ = slices.send(Arc::new(Slice { since, through, events }));
                    since = through;
                }
                Ok(Changed::Expired) => since = newest,
                Err(error) => {
                    tracing::warn!(%error, "the change feed could not be read; it is tried again");
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                }
            }
        }
    }
}
