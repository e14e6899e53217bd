//! Opens the file of a queue, configures connections, migrates the schema, and classifies SQLite's errors.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::BrokerError;

/// The application ID in the header of the file; "bwq1" in ASCII.
const APPLICATION: i64 = 0x6277_7131;
const MIGRATIONS: &[&str] = &[include_str!("migrations/001_queue.sql")];
/// How long a connection waits for another process that writes.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of cached statements, above the number of our statements.
const STATEMENTS: usize = 64;

/// Where a queue is.
#[derive(Clone, Debug)]
pub(super) struct Location {
    path: PathBuf,
}

/// Whether a missing file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Fail,
}

impl Location {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// The address in errors.
    pub(super) fn address(&self) -> String {
        format!("sqlite:{}", self.path.display())
    }

    /// Opens a connection that reads and writes, and migrates the file to the version of this program.
    pub(super) fn open(&self, missing: Missing) -> Result<Connection, BrokerError> {
        if missing == Missing::Create {
            // SQLite would create the file with access for everybody.
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&self.path);
            file.map_err(|error| self.rejected("opening the file", &error.to_string()))?;
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = Connection::open_with_flags(&self.path, flags);
        let mut connection = opened.map_err(|error| self.rejected("opening the file", &error.to_string()))?;
        self.prepare(&mut connection)?;
        Ok(connection)
    }

    fn prepare(&self, connection: &mut Connection) -> Result<(), BrokerError> {
        let version =
            configure(connection).and_then(|()| migrate(connection)).map_err(|error| self.error(error))?;
        match version {
            Version::Current => Ok(()),
            Version::Newer(version) => {
                let cause = format!(
                    "its schema has version {version}, which is newer than this program; upgrade bellwether"
                );
                Err(self.rejected("opening the file", &cause))
            }
            Version::Foreign => {
                let cause = "it is a database of another program; choose another path";
                Err(self.rejected("opening the file", cause))
            }
        }
    }

    pub(super) fn rejected(&self, operation: &str, cause: &str) -> BrokerError {
        BrokerError::Rejected {
            address: self.address(),
            operation: operation.to_owned(),
            cause: cause.to_owned(),
        }
    }

    pub(super) fn full(&self, cause: String) -> BrokerError {
        BrokerError::Full { address: self.address(), cause }
    }

    pub(super) fn unreachable(&self, cause: impl std::fmt::Display) -> BrokerError {
        BrokerError::Unreachable { address: self.address(), cause: cause.to_string() }
    }

    /// Classifies an error of SQLite: free space, retry, or fail.
    pub(super) fn error(&self, error: rusqlite::Error) -> BrokerError {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => self.full(
                "the disk is full, or the file has its largest size; free space, let subscribers catch up, or raise max_file_bytes"
                    .to_owned(),
            ),
            Some(ErrorCode::NotADatabase) => {
                self.rejected("opening the file", "it is not an SQLite database; choose another path")
            }
            Some(ErrorCode::DatabaseCorrupt) => self.rejected(
                "an operation",
                "the file is damaged; stop the process, and restore or remove the file",
            ),
            Some(
                ErrorCode::CannotOpen
                | ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::OutOfMemory
                | ErrorCode::ReadOnly
                | ErrorCode::SystemIoFailure,
            ) => self.unreachable(error),
            _ => self.rejected("an operation", &error.to_string()),
        }
    }
}

/// What a file is.
enum Version {
    Current,
    Newer(usize),
    Foreign,
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<Version> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if tables > 0 && application != APPLICATION {
        return Ok(Version::Foreign);
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: u32 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let version = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(missing) = MIGRATIONS.get(version..) else { return Ok(Version::Newer(version)) };
    for migration in missing {
        transaction.execute_batch(migration)?;
    }
    if !missing.is_empty() {
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(
            None,
            "user_version",
            i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX),
        )?;
    }
    transaction.commit()?;
    Ok(Version::Current)
}

/// Bounds the size of the file.
pub(super) fn limit_size(connection: &Connection, max_bytes: u64) -> rusqlite::Result<()> {
    let page: i64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
    let pages = i64::try_from(max_bytes).unwrap_or(i64::MAX) / page.max(1);
    // SQLite reports the new value, which pragma_update does not expect.
    connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
}
