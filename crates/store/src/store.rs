//! The store as its owner sees it: opening, committing, reading, watching, compacting, closing. Each does one
//! step here and leaves the work to the shared state (reads) or to the ledger and the writer (writes).

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use redb::{StorageBackend, backends::FileBackend};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use crate::{
    CommitError, Compacted, Entry, Facts, Health, OpenError, Options, Revision, Snapshot, SnapshotError,
    Space, VALUE_LIMIT, Watch, Write,
    disk::{Disk, DiskError, FORMAT},
    files::{DataDir, create_private, failed, open_existing},
    ledger::Ledger,
    medium::Medium,
    reserve::Reserve,
    shared::Shared,
    writer::{Goal, Outcome, Request, Writer},
};

/// How many requests wait for the writer before their senders do.
const QUEUE: usize = 1024;

/// An embedded, revisioned, watchable object store. Cheap to clone; see the crate's documentation.
pub struct Store<F> {
    inner: Arc<Inner<F>>,
}

struct Inner<F> {
    shared: Arc<Shared<F>>,
    committer: Committer<F>,
}

enum Committer<F> {
    /// In memory: whoever commits does the work. `None` once closed.
    Inline(Mutex<Option<Ledger<F>>>),
    /// Durable: the writer thread does.
    Thread(mpsc::Sender<Request<F>>),
}

impl<F: Facts> Store<F> {
    /// Opens the store in a directory, which is created if need be and locked until the store is closed.
    ///
    /// Blocks until all of it is read. [Close](Self::close) the store at the end: dropping its last clone ends
    /// the writer too, but does not wait for it, so that the directory stays locked for a moment.
    pub fn open(dir: &Path, options: Options) -> Result<Self, OpenError> {
        let data_dir = DataDir::lock(dir)?;
        let database = data_dir.database();
        let opened = if database.try_exists().map_err(failed("look for", &database))? {
            let file = open_existing(&database).map_err(failed("open", &database))?;
            let opening = Opening::new(file_backend(file, &database)?, &options, &database);
            if opening.medium.is_empty().map_err(failed("read", &database))? {
                return Err(OpenError::Corrupt { path: database, detail: "it is empty".to_owned() });
            }
            opening.replay(&options)?
        } else {
            let unfinished = data_dir.unfinished_database();
            let file = create_private(&unfinished).map_err(failed("create", &unfinished))?;
            let opening = Opening::new(file_backend(file, &unfinished)?, &options, &unfinished);
            let opened = opening.replay(&options)?;
            data_dir.finish_database()?;
            opened
        };
        let reserve = Reserve::new(data_dir.reserve(), options.reserve_bytes);
        opened.start(&options, |writer| writer.with_data_dir(data_dir, reserve))
    }

    /// Opens the store on something that behaves like a file. Locks nothing and reserves nothing.
    pub fn with_backend(backend: impl StorageBackend, options: Options) -> Result<Self, OpenError> {
        Opening::new(backend, &options, Path::new("the store"))
            .replay(&options)?
            .start(&options, |writer| writer)
    }

    /// A store that is gone with the process. It has no thread and no task: a commit is done where it is
    /// called and never waits.
    pub fn in_memory(options: Options) -> Self {
        let shared = Arc::new(Shared::new());
        let ledger = Ledger::new(shared.clone(), &options);
        let committer = Committer::Inline(Mutex::new(Some(ledger)));
        Self { inner: Arc::new(Inner { shared, committer }) }
    }

    /// The newest revision that all spaces show.
    pub fn revision(&self) -> Revision {
        self.inner.shared.published()
    }

    /// Events at or below are gone.
    pub fn compacted(&self) -> Revision {
        self.inner.shared.compacted()
    }

    /// Whether writes are taken.
    pub fn health(&self) -> Health {
        self.inner.shared.health()
    }

    /// Waits until the disk fails for any reason but being full, and says why. The process must then end: what
    /// the disk holds is unknown, and only opening the store again tells.
    pub async fn failed(&self) -> String {
        let mut changes = self.inner.shared.health_changes();
        loop {
            if let Health::Failed { reason } = &*changes.borrow_and_update() {
                return reason.clone();
            }
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Writes, and returns the entry once it is durable and visible; of a delete, its final state.
    ///
    /// Dropping the future does not take the write back.
    pub async fn commit(&self, write: Write) -> Result<Arc<Entry<F>>, CommitError<F>> {
        let size = write.change.draft().len().max(write.path.len()).max(write.space.as_str().len());
        if size > VALUE_LIMIT {
            return Err(CommitError::TooLarge { size, limit: VALUE_LIMIT });
        }
        match &self.inner.committer {
            Committer::Inline(ledger) => commit_inline(ledger, &write),
            Committer::Thread(requests) => {
                let outcome = ask(requests, |answer| Request::Write { write, answer }).await;
                outcome.unwrap_or_else(|| Err(self.gone()))
            }
        }
    }

    /// Why the writer does not answer.
    fn gone(&self) -> CommitError<F> {
        match self.health() {
            Health::Failed { reason } => CommitError::ReadOnly { reason },
            Health::Serving | Health::ReadOnly { .. } => CommitError::Closed,
        }
    }

    /// The newest event of a space; zero, if there never was one.
    pub fn last_change(&self, space: &Space) -> Revision {
        self.inner.shared.find(space).map(|keyspace| keyspace.last()).unwrap_or_default()
    }

    /// The entry at a path.
    pub fn get(&self, space: &Space, path: &str) -> Option<Arc<Entry<F>>> {
        self.inner.shared.find(space)?.get(path)
    }

    /// The present state of a space.
    pub fn snapshot(&self, space: &Space) -> Snapshot<F> {
        self.inner.shared.snapshot(space)
    }

    /// The state of a space at a revision of the recent past.
    pub fn snapshot_at(&self, space: &Space, at: Revision) -> Result<Snapshot<F>, SnapshotError> {
        self.inner.shared.snapshot_at(space, at)
    }

    /// Waits until [`revision`](Self::revision) is at least `at`; false if that takes longer than `within`.
    pub async fn reached(&self, at: Revision, within: Duration) -> bool {
        let mut publications = self.inner.shared.publications();
        timeout(within, publications.wait_for(|published| *published >= at))
            .await
            .is_ok_and(|found| found.is_ok())
    }

    /// Follows the events of a space after a revision, which may lie in the future.
    pub fn watch(&self, space: &Space, after: Revision) -> Result<Watch<F>, Compacted> {
        let shared = &self.inner.shared;
        let watch = Watch::new(shared.clone(), shared.find_or_create(space), after);
        let compacted = shared.compacted();
        if after < compacted { Err(Compacted { compacted }) } else { Ok(watch) }
    }

    /// The spaces with at least one entry, in the order of their names.
    pub fn spaces(&self) -> Vec<Space> {
        let all = self.inner.shared.all();
        let mut spaces: Vec<_> = all
            .iter()
            .filter(|keyspace| !keyspace.is_empty())
            .map(|keyspace| keyspace.space.clone())
            .collect();
        spaces.sort_unstable();
        spaces
    }

    /// Ends the history that is older than [`Options::history`]. The owner calls this regularly.
    pub async fn compact(&self) {
        self.end_history(Goal::Aged).await;
    }

    /// Ends the history up to a revision.
    pub async fn compact_to(&self, at: Revision) {
        self.end_history(Goal::To(at)).await;
    }

    async fn end_history(&self, goal: Goal) {
        match &self.inner.committer {
            Committer::Inline(ledger) => {
                if let Some(ledger) = ledger.lock().as_mut() {
                    let plan = ledger.plan(&[], goal.revision(ledger), usize::MAX);
                    ledger.apply(&plan);
                }
            }
            Committer::Thread(requests) => {
                // A closed store, or one that takes no writes, keeps its history.
                ask(requests, |answer| Request::Compact { goal, answer }).await;
            }
        }
    }

    /// Finishes what was asked for before, stops the writer and releases the lock. Reads go on, from memory.
    pub async fn close(&self) {
        match &self.inner.committer {
            Committer::Inline(ledger) => *ledger.lock() = None,
            Committer::Thread(requests) => {
                // Without an answer the writer had ended before.
                ask(requests, |answer| Request::Close { answer }).await;
            }
        }
    }
}

/// Sends a request to the writer and waits for its answer; `None` when the writer has ended.
async fn ask<F, T>(
    requests: &mpsc::Sender<Request<F>>,
    request: impl FnOnce(oneshot::Sender<T>) -> Request<F>,
) -> Option<T> {
    let (answer, answered) = oneshot::channel();
    requests.send(request(answer)).await.ok()?;
    answered.await.ok()
}

fn commit_inline<F>(ledger: &Mutex<Option<Ledger<F>>>, write: &Write) -> Outcome<F> {
    let mut ledger = ledger.lock();
    let ledger = ledger.as_mut().ok_or(CommitError::Closed)?;
    let mut plan = ledger.plan([write], Revision::default(), usize::MAX);
    ledger.apply(&plan);
    plan.outcomes.pop().unwrap_or(Err(CommitError::Closed))
}

fn file_backend(file: std::fs::File, path: &Path) -> Result<FileBackend, OpenError> {
    FileBackend::new(file)
        .map_err(|error| OpenError::Corrupt { path: path.to_owned(), detail: error.to_string() })
}

/// A medium whose log has not been read.
struct Opening<'a> {
    medium: Arc<Medium>,
    path: &'a Path,
}

/// A medium whose log is in memory.
struct Opened<F> {
    medium: Arc<Medium>,
    disk: Disk,
    ledger: Ledger<F>,
    shared: Arc<Shared<F>>,
}

impl<'a> Opening<'a> {
    fn new(backend: impl StorageBackend, options: &Options, path: &'a Path) -> Self {
        Self { medium: Medium::new(backend, options.durability), path }
    }

    fn replay<F: Facts>(self, options: &Options) -> Result<Opened<F>, OpenError> {
        let shared = Arc::new(Shared::new());
        let mut ledger = Ledger::new(shared.clone(), options);
        let path = self.path.to_owned();
        let disk =
            Disk::open(self.medium.clone(), options.quick_repair, &mut ledger).map_err(
                |error| match error {
                    DiskError::Corrupt(detail) => OpenError::Corrupt { path, detail },
                    DiskError::Format(found) => OpenError::Format { found, supported: FORMAT },
                    DiskError::Io(source) => OpenError::Io { attempt: "read", path, source },
                },
            )?;
        Ok(Opened { medium: self.medium, disk, ledger, shared })
    }
}

impl<F: Facts> Opened<F> {
    fn start(
        self,
        options: &Options,
        equip: impl FnOnce(Writer<F>) -> Writer<F>,
    ) -> Result<Store<F>, OpenError> {
        let Self { medium, disk, ledger, shared } = self;
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = equip(Writer::new(ledger, shared.clone(), disk, medium, queue, options));
        let watched = shared.clone();
        let run = move || {
            if catch_unwind(AssertUnwindSafe(|| writer.run())).is_err() {
                watched.set_health(Health::Failed { reason: "the writer of the store panicked".to_owned() });
            }
        };
        thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(run)
            .map_err(failed("start the writer of", Path::new("the store")))?;
        Ok(Store { inner: Arc::new(Inner { shared, committer: Committer::Thread(requests) }) })
    }
}

impl<F> Clone for Store<F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl<F> fmt::Debug for Store<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("revision", &self.inner.shared.published())
            .field("compacted", &self.inner.shared.compacted())
            .field("health", &self.inner.shared.health())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs, io,
        sync::atomic::{AtomicBool, Ordering},
    };

    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::{Change, Draft, Expect};

    /// A disk that is full on command.
    #[derive(Debug)]
    struct Fillable {
        disk: InMemoryBackend,
        full: Arc<AtomicBool>,
    }

    impl StorageBackend for Fillable {
        fn len(&self) -> io::Result<u64> {
            self.disk.len()
        }
        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.disk.read(offset, out)
        }
        fn set_len(&self, len: u64) -> io::Result<()> {
            self.disk.set_len(len)
        }
        fn sync_data(&self) -> io::Result<()> {
            self.disk.sync_data()
        }
        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            if self.full.load(Ordering::SeqCst) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.disk.write(offset, data)
        }
    }

    fn anything() -> Write {
        Write {
            space: Space::new("hub/a"),
            path: "a".into(),
            expect: Expect::Any,
            change: Change::Put(Draft::plain("value")),
        }
    }

    #[test]
    fn a_full_disk_gets_the_reserve_which_is_set_aside_again_when_there_is_room() {
        let dir = tempfile::tempdir().unwrap();
        let full = Arc::new(AtomicBool::new(false));
        let backend = Fillable { disk: InMemoryBackend::new(), full: full.clone() };
        let options = Options { reserve_bytes: 100_000, ..Options::default() };
        let data_dir = DataDir::lock(dir.path()).unwrap();
        let path = data_dir.reserve();
        let reserve = Reserve::new(path.clone(), options.reserve_bytes);
        let opened: Opened<()> = Opening::new(backend, &options, dir.path()).replay(&options).unwrap();
        let store = opened.start(&options, |writer| writer.with_data_dir(data_dir, reserve)).unwrap();
        let reserved = || fs::metadata(&path).map_or(0, |file| file.len());

        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
            store.commit(anything()).await.unwrap();
            assert_eq!(reserved(), 100_000);

            full.store(true, Ordering::SeqCst);
            assert!(matches!(store.commit(anything()).await, Err(CommitError::ReadOnly { .. })));
            assert_eq!(reserved(), 0);
            assert_eq!(store.get(&Space::new("hub/a"), "a").unwrap().revision(), Revision(1));

            full.store(false, Ordering::SeqCst);
            store.compact().await;
            assert_eq!(reserved(), 100_000);
            assert_eq!(store.health(), Health::Serving);
            assert_eq!(store.commit(anything()).await.unwrap().revision(), Revision(2));
        });
    }
}
