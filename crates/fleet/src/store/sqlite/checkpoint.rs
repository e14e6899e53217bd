//! Copies the write-ahead log into the database file on a thread of its own, so that no commit waits for it.
//!
//! SQLite starts the log anew only when all of it has been copied. Under constant writes that never happens by itself, hence the last
//! and short part is copied while the writer waits.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, MAIN_DB};
use tokio::sync::Mutex;

use super::write::Writer;

/// The length of the log, in pages of 4 KiB, from which it is copied.
const MAX_LOG_PAGES: i32 = 4_000;
/// The number of pages that may be left to copy while the writer waits.
const MAX_BLOCKING_PAGES: i32 = 400;
/// How often the log is copied beside the writer before the writer has to wait, if it writes as fast as pages are copied.
const MAX_PASSES: usize = 4;

/// Requests copies of the log.
pub(super) struct Checkpoints {
    log_pages: Arc<AtomicI32>,
    requests: Receiver<()>,
}

impl Checkpoints {
    /// Observes the commits of the connection that writes.
    pub(super) fn of(writer: &mut Connection) -> rusqlite::Result<Self> {
        let log_pages = Arc::new(AtomicI32::new(0));
        // One request waits while another one is served.
        let (sender, requests): (SyncSender<()>, _) = sync_channel(1);
        writer.pragma_update(None, "wal_autocheckpoint", 0)?;
        let pages_after_commit = Arc::clone(&log_pages);
        writer.wal_hook(Some(move |_: &mut Wal, pages: i32| {
            pages_after_commit.store(pages, Ordering::Relaxed);
            if pages >= MAX_LOG_PAGES {
                let _ = sender.try_send(());
            }
            Ok(())
        }))?;
        Ok(Self { log_pages, requests })
    }

    /// Serves requests until the connection that writes is closed.
    pub(super) fn serve(self, connection: Connection, writer: Weak<Mutex<Writer>>) -> std::io::Result<()> {
        let serve = move || {
            while self.requests.recv().is_ok() {
                if let Err(error) = self.copy(&connection, &writer) {
                    tracing::warn!(%error, "cannot copy the write-ahead log into the fleet database; the log grows until the next attempt");
                }
            }
        };
        std::thread::Builder::new().name("fleet-checkpoint".to_owned()).spawn(serve).map(drop)
    }

    fn copy(&self, connection: &Connection, writer: &Weak<Mutex<Writer>>) -> rusqlite::Result<()> {
        for _ in 0..MAX_PASSES {
            let (_, copied) = connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE)?;
            if self.log_pages.load(Ordering::Relaxed) - copied <= MAX_BLOCKING_PAGES {
                break;
            }
        }
        let Some(writer) = writer.upgrade() else { return Ok(()) };
        let _no_commits = writer.blocking_lock();
        connection.wal_checkpoint_v2(Some(MAIN_DB), CheckpointMode::PASSIVE).map(drop)
    }
}
