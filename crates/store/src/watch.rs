//! Follows the events of one space. A watch is a cursor into the history that all watches share: it has no
//! queue of its own, so a slow one costs nothing and, once the history moved past it, learns that it must list.

use std::{fmt, sync::Arc};

use tokio::sync::watch::Receiver;

use crate::{
    Compacted, Event, Revision,
    keyspace::{Gone, Keyspace},
    shared::Shared,
};

/// How many events one call returns at most.
const PAGE: usize = 1000;

/// The events of one space after a revision.
pub struct Watch<F> {
    shared: Arc<Shared<F>>,
    keyspace: Arc<Keyspace<F>>,
    changed: Receiver<Revision>,
    position: Revision,
}

impl<F> Watch<F> {
    pub(crate) fn new(shared: Arc<Shared<F>>, keyspace: Arc<Keyspace<F>>, after: Revision) -> Self {
        let changed = keyspace.subscribe();
        Self { shared, keyspace, changed, position: after }
    }

    /// Waits for the next events: at least one, in order, each exactly once. Safe to cancel.
    ///
    /// The watch may also end because history that it has not returned yet is gone.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event<F>>>, Compacted> {
        loop {
            // Marked as seen before looking, so that a change in between wakes us.
            self.changed.borrow_and_update();
            let events = self.try_next()?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.changed.changed().await.is_err() {
                // Cannot happen while we hold the keyspace, which holds the sender.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The events that are there already; none moves the position to the published revision.
    pub fn try_next(&mut self) -> Result<Vec<Arc<Event<F>>>, Compacted> {
        // Read before the space: it then holds at least all its events up to here.
        let published = self.shared.published();
        let page = self
            .keyspace
            .page(self.position, published, PAGE)
            .map_err(|Gone| Compacted { compacted: self.shared.compacted() })?;
        self.position = page.reaches;
        Ok(page.events)
    }

    /// Every event of the space at or below has been returned.
    pub fn position(&self) -> Revision {
        self.position
    }
}

impl<F> fmt::Debug for Watch<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("space", &self.keyspace.space)
            .field("position", &self.position)
            .finish()
    }
}
