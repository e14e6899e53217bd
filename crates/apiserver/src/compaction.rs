//! History that is too old goes, and with it the pages of lists that nobody has read to the end. That needs something to
//! be newer: where nothing else is written, a list that was begun gets a mark in the store behind it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bellwether_store::{Change, Draft, Expect, Space, Write};

use crate::server::Server;

/// How often history that is too old is dropped.
const EVERY: Duration = Duration::from_secs(30);
/// Where the mark is. It is no kind that anybody could ask for.
const SPACE: &str = "compaction";

/// Whether a list was begun and not read to its end since the last mark.
#[derive(Default)]
pub(crate) struct Pages(AtomicBool);

impl Pages {
    /// Somebody has read a part of a list.
    pub(crate) fn begun(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// Drops history again and again, until the server closes.
pub(crate) async fn run(server: Arc<Server>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = server.closed() => return,
        }
        if server.pages.take() {
            mark(&server).await;
        }
        server.store.compact().await;
    }
}

/// Moves the newest revision on.
async fn mark(server: &Server) {
    let write = Write {
        space: Space::new(SPACE),
        path: "mark".into(),
        expect: Expect::Any,
        change: Change::Put(Draft::plain("")),
    };
    if server.store.commit(write).await.is_err() {
        // The disk is full: the list is still whole, and the next time will do.
        server.pages.begun();
    }
}
