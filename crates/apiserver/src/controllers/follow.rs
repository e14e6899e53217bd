//! Following a keyspace: everything that is there, then every change, and all over again should history have moved on.

use std::sync::Arc;

use bellwether_store::{Event, Space, Watch};

use super::Ground;
use crate::collection::Stored;
use crate::object::Head;

/// Something that happened to a keyspace.
pub(super) enum Seen {
    /// The object is there.
    Present(Stored),
    /// The object changed or went away.
    Changed(Arc<Event<Head>>),
}

/// A follower of one keyspace.
pub(super) struct Follower {
    ground: Ground,
    space: Space,
    watch: Option<Watch<Head>>,
}

impl Follower {
    pub(super) fn new(ground: &Ground, space: &str) -> Self {
        Self { ground: ground.clone(), space: ground.cluster.space(space), watch: None }
    }

    /// What is new; waits until there is something.
    pub(super) async fn next(&mut self) -> Vec<Seen> {
        loop {
            let Some(watch) = &mut self.watch else {
                let seen = self.begin();
                if seen.is_empty() {
                    continue;
                }
                return seen;
            };
            match watch.next().await {
                Ok(events) => return events.into_iter().map(Seen::Changed).collect(),
                Err(_) => self.watch = None,
            }
        }
    }

    fn begin(&mut self) -> Vec<Seen> {
        let store = &self.ground.server.store;
        let snapshot = store.snapshot(&self.space);
        self.watch = store.watch(&self.space, snapshot.revision()).ok();
        snapshot.iter().cloned().map(Seen::Present).collect()
    }
}
