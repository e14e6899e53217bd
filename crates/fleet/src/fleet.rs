//! The fleet: kinds, a store, its single writer, and its change feed. The HTTP layer is built on it; it can also be used without HTTP.

use std::sync::Arc;

use bellwether_clock::Clock;
use jiff::Timestamp;
use tokio::task::JoinHandle;

use crate::feed::Feed;
use crate::kinds::Kinds;
use crate::store::Store;
use crate::writer::{Command, Done, WriteError, Writer, microseconds};

/// A fleet of resources. Clones share it.
#[derive(Clone)]
pub struct Fleet {
    kinds: Arc<Kinds>,
    store: Arc<dyn Store>,
    writer: Writer,
    feed: Feed,
    clock: Arc<dyn Clock>,
}

impl Fleet {
    /// Opens a fleet. The task ends when the last clone is dropped and all commands are committed.
    pub fn open(store: Arc<dyn Store>, kinds: Kinds, clock: Arc<dyn Clock>) -> (Self, JoinHandle<()>) {
        let kinds = Arc::new(kinds);
        let (writer, writing) = Writer::start(store.clone(), kinds.clone(), clock.clone());
        let feed = Feed::start(store.clone());
        (Self { kinds, store, writer, feed, clock }, writing)
    }

    /// The kinds.
    pub fn kinds(&self) -> &Kinds {
        &self.kinds
    }

    /// The store, for reads.
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// The change feed.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Executes a command, and returns after its commit.
    pub async fn write(&self, command: Command) -> Result<Done, WriteError> {
        self.writer.write(command).await
    }

    /// The current time, in microseconds.
    pub fn now(&self) -> Timestamp {
        microseconds(self.clock.now())
    }
}
