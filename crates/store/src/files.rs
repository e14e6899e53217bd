//! The data directory: which files there are, who may read them, and the lock that keeps others out.
//! It does not know what is in them.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::OpenError;

const OWNER_ONLY_FILE: u32 = 0o600;
const OWNER_ONLY_DIR: u32 = 0o700;

/// A locked data directory. The lock ends when this is dropped.
pub(crate) struct DataDir {
    dir: PathBuf,
    _lock: File,
}

impl DataDir {
    /// Creates the directory if need be, and keeps all other processes out of it.
    pub(crate) fn lock(dir: &Path) -> Result<Self, OpenError> {
        DirBuilder::new()
            .recursive(true)
            .mode(OWNER_ONLY_DIR)
            .create(dir)
            .map_err(failed("create the data directory", dir))?;
        let path = dir.join("lock");
        let lock = private().create(true).truncate(false).open(&path).map_err(failed("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir: dir.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: dir.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.dir.join("store.redb")
    }

    /// Where a database is made; it gets its name only once it is whole.
    pub(crate) fn unfinished_database(&self) -> PathBuf {
        self.dir.join("store.redb.new")
    }

    pub(crate) fn reserve(&self) -> PathBuf {
        self.dir.join("reserve")
    }

    /// Gives a finished database its name, durably.
    pub(crate) fn finish_database(&self) -> Result<(), OpenError> {
        let path = self.database();
        fs::rename(self.unfinished_database(), &path).map_err(failed("create", &path))?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(failed("sync", &self.dir))
    }
}

/// Creates a file, or empties it, for its owner only.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    private().create(true).truncate(true).open(path)
}

/// Opens a file that is there.
pub(crate) fn open_existing(path: &Path) -> io::Result<File> {
    private().open(path)
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(OWNER_ONLY_FILE);
    options
}

pub(crate) fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { attempt, path, source }
}
