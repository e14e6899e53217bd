//! The store on an SQLite file, for one process. One connection writes, a few read, and one copies the write-ahead log into the file; a
//! commit is on disk when it returns. SQLite runs on threads that may block.

mod checkpoint;
mod connection;
mod load;
mod read;
mod write;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{OwnedMutexGuard, Semaphore, watch};

use super::plan::StoredById;
use super::{
    Changed, Changes, Event, Listing, Loaded, Needs, OpenError, Page, Pending, Query, Revision, Store,
    StoreError, Transaction,
};
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};
use checkpoint::Checkpoints;
use connection::Durability;
use write::Writer;

/// The number of connections for reads.
const READERS: usize = 4;
/// How long a read may take, so that a full scan does not block other reads.
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// After how many steps of a read its timeout is checked.
const TIMEOUT_CHECK_STEPS: i32 = 10_000;

/// The store on an SQLite file.
pub struct Sqlite {
    writer: Arc<tokio::sync::Mutex<Writer>>,
    readers: Arc<Readers>,
    revision: watch::Sender<Revision>,
    /// The lock of the file.
    _lock: File,
    /// The directory of a temporary store.
    _temporary: Option<tempfile::TempDir>,
}

/// Connections for reads.
struct Readers {
    idle: Mutex<Vec<Connection>>,
    free: Arc<Semaphore>,
}

impl Sqlite {
    /// Opens a file, or creates it in an existing directory. No other process can open it meanwhile.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        Self::open_with(path, Durability::Durable, None)
    }

    /// A store that is removed on drop. It is a temporary file, so that reads do not wait for writes, as in a real store.
    pub fn in_memory() -> Result<Self, OpenError> {
        let directory =
            tempfile::tempdir().map_err(|why| OpenError::File { path: std::env::temp_dir(), why })?;
        let path = directory.path().join("fleet.db");
        Self::open_with(&path, Durability::Fleeting, Some(directory))
    }

    fn open_with(
        path: &Path,
        durability: Durability,
        temporary: Option<tempfile::TempDir>,
    ) -> Result<Self, OpenError> {
        let lock = connection::lock(path)?;
        let failed = |error: rusqlite::Error| OpenError::Failed(format!("{}: {error}", path.display()));
        let mut writer = connection::open_writer(path, durability)?;
        let checkpoints = Checkpoints::of(&mut writer).map_err(failed)?;
        let readers = (0..READERS).map(|_| connection::open_reader(path)).collect::<Result<Vec<_>, _>>()?;
        let revision = read::revision(&writer).map_err(|error| OpenError::Failed(error.to_string()))?;
        let writer = Arc::new(tokio::sync::Mutex::new(Writer::new(writer)));
        let copier = connection::open_copier(path, durability)?;
        let served = checkpoints.serve(copier, Arc::downgrade(&writer));
        served.map_err(|why| OpenError::File { path: path.to_owned(), why })?;
        Ok(Self {
            writer,
            readers: Arc::new(Readers { idle: Mutex::new(readers), free: Arc::new(Semaphore::new(READERS)) }),
            revision: watch::Sender::new(revision),
            _lock: lock,
            _temporary: temporary,
        })
    }

    /// Reads from one snapshot, on a thread that may block.
    async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let permit = Arc::clone(&self.readers.free).acquire_owned().await.map_err(closed)?;
        let readers = Arc::clone(&self.readers);
        blocking(move || {
            let connection = readers.idle.lock().pop();
            let mut connection = connection.ok_or_else(|| StoreError::Failed("no reader is idle".into()))?;
            let begun = Instant::now();
            let bounded = connection
                .progress_handler(TIMEOUT_CHECK_STEPS, Some(move || begun.elapsed() > READ_TIMEOUT));
            let result = bounded.map_err(store_error).and_then(|()| read::snapshot(&connection, read));
            readers.idle.lock().push(connection);
            drop(permit);
            result
        })
        .await
    }

    async fn open_transaction(&self) -> Open {
        Open { writer: Arc::clone(&self.writer).lock_owned().await }
    }
}

/// Exclusive use of the connection that writes. On drop, an open transaction is rolled back.
struct Open {
    writer: OwnedMutexGuard<Writer>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.writer.roll_back();
    }
}

/// A transaction, after all required rows were read.
struct SqliteTransaction {
    open: Open,
    stored: StoredById,
    revision: watch::Sender<Revision>,
}

#[async_trait]
impl Store for Sqlite {
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError> {
        let open = self.open_transaction().await;
        let needs = needs.clone();
        let (open, stored, loaded) = blocking(move || {
            open.writer.begin()?;
            let (loaded, stored) = load::load(open.writer.connection(), &needs)?;
            Ok((open, stored, loaded))
        })
        .await?;
        let transaction = SqliteTransaction { open, stored, revision: self.revision.clone() };
        Ok((Box::new(transaction), loaded))
    }

    async fn get(&self, id: Id) -> Result<Option<Resource>, StoreError> {
        self.read(move |connection| read::get(connection, id)).await
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let query = query.clone();
        self.read(move |connection| read::list(connection, &query)).await
    }

    async fn statuses(&self, id: Id, page: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
        self.read(move |connection| read::statuses(connection, id, page)).await
    }

    async fn log(&self, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError> {
        self.read(move |connection| read::log(connection, id, page)).await
    }

    async fn changes(&self, since: Revision, limit: usize) -> Result<Changed, StoreError> {
        self.read(move |connection| read::changes(connection, since, limit)).await
    }

    async fn existing(
        &self,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.read(move |connection| read::existing(connection, after, through, limit)).await
    }

    async fn computed_rules(&self) -> Result<Option<String>, StoreError> {
        self.read(|connection| read::first(connection, "SELECT rules FROM computed_rules", &[])).await
    }

    async fn set_computed_rules(&self, rules: &str) -> Result<(), StoreError> {
        let (open, rules) = (self.open_transaction().await, rules.to_owned());
        blocking(move || {
            let sql = "INSERT INTO computed_rules (one, rules) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET rules = ?1";
            open.writer.connection().execute(sql, [rules]).map(|_| ()).map_err(store_error)
        })
        .await
    }

    fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read(|connection| read::revision(connection).map(|_| ())).await
    }

    async fn pending(&self, condition: &str) -> Result<Vec<Pending>, StoreError> {
        let condition = condition.to_owned();
        self.read(move |connection| read::pending(connection, &condition)).await
    }

    async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError> {
        let mut open = self.open_transaction().await;
        blocking(move || open.writer.prune(log_before, tombstones)).await
    }
}

#[async_trait]
impl Transaction for SqliteTransaction {
    async fn commit(self: Box<Self>, changes: &Changes) -> Result<Revision, StoreError> {
        let Self { mut open, stored, revision } = *self;
        let rows = write::Rows::of(changes, &stored)?;
        let committed = blocking(move || open.writer.commit(rows)).await?;
        super::advance(&revision, committed);
        Ok(committed)
    }
}

/// Runs blocking code on a thread for it.
async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    tokio::task::spawn_blocking(work).await.map_err(closed)?
}

fn closed(error: impl std::fmt::Display) -> StoreError {
    StoreError::Unavailable(error.to_string())
}

/// Classifies an error of SQLite for the writer: retry, wait, or fail.
fn store_error(error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let why = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Conflict(why),
        Some(ErrorCode::ConstraintViolation) if is_unique(&error) => StoreError::Conflict(why),
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::DiskFull
            | ErrorCode::OperationInterrupted
            | ErrorCode::OutOfMemory
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure,
        ) => StoreError::Unavailable(why),
        _ => StoreError::Failed(why),
    }
}

fn is_unique(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_CONSTRAINT_PRIMARYKEY | SQLITE_CONSTRAINT_UNIQUE))
}
