//! The fleet, assembled: kinds, a store, its one writer, and its change feed. The HTTP layer is built on this, and so is
//! whoever wants the fleet without HTTP.

use std::sync::Arc;

use bellwether_clock::Clock;
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::feed::Feed;
use crate::kinds::Kinds;
use crate::store::Store;
use crate::writer::{Command, Done, WriteError, Writer, microseconds};

/// A fleet of resources. Clones are the same fleet.
#[derive(Clone)]
pub struct Fleet {
    kinds: Arc<Kinds>,
    store: Arc<dyn Store>,
    writer: Writer,
    feed: Feed,
    clock: Arc<dyn Clock>,
}

impl Fleet {
    /// Opens a fleet. The task ends when the last clone is gone and everything that was handed in is on disk.
    pub fn open(store: Arc<dyn Store>, kinds: Kinds, clock: Arc<dyn Clock>) -> (Self, JoinHandle<()>) {
        let kinds = Arc::new(kinds);
        let (writer, writing) = Writer::start(store.clone(), kinds.clone(), clock.clone());
        let feed = Feed::start(store.clone());
        (Self { kinds, store, writer, feed, clock }, writing)
    }

    /// The kinds there are.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// Where it is kept; to read.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Its changes.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Does a command, and returns when it is on disk.
    pub async fn write(&self, command: Command) -> Result<Done, WriteError> {
        self.writer.write(command).await
    }

    /// The present instant, as the fleet keeps time.
    pub fn now(&self) -> Timestamp {
        microseconds(self.clock.now())
    }
}
