//! Opens the file for one process, configures connections, and migrates the schema.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};

use super::write;
use crate::store::open::{self, Migration, OpenError};

/// The application ID in the header of the file; "flt1" in ASCII.
const APPLICATION: i64 = 0x666c_7431;
const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("migrations/001_resources.sql"), writes_keys: false },
    Migration { version: 2, sql: include_str!("migrations/002_computed_rules.sql"), writes_keys: false },
    Migration { version: 3, sql: include_str!("migrations/003_keys_and_states.sql"), writes_keys: true },
];
/// How long a connection waits for a lock, for example of a backup tool.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of cached statements, above the number of our statements.
const STATEMENTS: usize = 128;

/// Whether commits must survive a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Durability {
    Durable,
    Fleeting,
}

impl Durability {
    /// The value of the pragma.
    fn synchronous(self) -> &'static str {
        match self {
            Self::Durable => "FULL",
            Self::Fleeting => "OFF",
        }
    }
}

/// Locks the file against other processes, which would not see our latest revision.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let lock = make(&PathBuf::from(name))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse(path.to_owned())),
        Err(TryLockError::Error(why)) => Err(OpenError::File { path: path.to_owned(), why }),
    }
}

/// Opens a file with access only for its owner, and creates it if it does not exist.
fn make(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    file.map_err(|why| match why.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem if path.exists() => {
            OpenError::NotWritable(path.to_owned())
        }
        _ => OpenError::File { path: path.to_owned(), why },
    })
}

/// Opens the connection that writes, and migrates the database to the version of this program.
pub(super) fn open_writer(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    drop(make(path)?);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags).map_err(|error| failed(path, error))?;
    prepare_writer(&mut connection, path, durability).map_err(|error| failed(path, error))??;
    Ok(connection)
}

fn prepare_writer(
    connection: &mut Connection,
    path: &Path,
    durability: Durability,
) -> rusqlite::Result<Result<(), OpenError>> {
    prepare(connection)?;
    if !is_ours(connection)? {
        return Ok(Err(OpenError::NotOurs(path.to_owned())));
    }
    if connection.is_readonly(MAIN_DB)? {
        return Ok(Err(OpenError::NotWritable(path.to_owned())));
    }
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", durability.synchronous())?;
    connection.pragma_update(None, "cache_size", -65_536)?;
    migrate(connection)
}

/// Opens the connection that copies the write-ahead log into the file.
pub(super) fn open_copier(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failed(path, error))?;
    let prepared = prepare(&connection)
        .and_then(|()| connection.pragma_update(None, "synchronous", durability.synchronous()));
    prepared.map_err(|error| failed(path, error))?;
    Ok(connection)
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failed(path, error))?;
    let prepared = prepare(&connection).and_then(|()| connection.pragma_update(None, "cache_size", -8_192));
    prepared.map_err(|error| failed(path, error))?;
    Ok(connection)
}

/// The settings of every connection.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    crate::search::functions::register(connection)?;
    connection.pragma_update(None, "temp_store", "MEMORY")
}

/// Whether the file is empty, or a database of the fleet API.
fn is_ours(connection: &Connection) -> rusqlite::Result<bool> {
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))?;
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    Ok(tables == 0 || application == APPLICATION)
}

fn migrate(connection: &mut Connection) -> rusqlite::Result<Result<(), OpenError>> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let missing = match open::missing(MIGRATIONS, version) {
        Ok(missing) => missing,
        Err(error) => return Ok(Err(error)),
    };
    for migration in missing {
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        transaction.execute_batch(migration.sql)?;
        if migration.writes_keys
            && let Err(error) = write::write_all_keys(&transaction)
        {
            return Ok(Err(OpenError::Failed(error.to_string())));
        }
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", migration.version)?;
        transaction.commit()?;
    }
    Ok(Ok(()))
}

fn failed(path: &Path, error: rusqlite::Error) -> OpenError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => OpenError::NotOurs(path.to_owned()),
        Some(ErrorCode::ReadOnly) => OpenError::NotWritable(path.to_owned()),
        Some(ErrorCode::DatabaseBusy) => OpenError::InUse(path.to_owned()),
        _ => OpenError::Failed(format!("{}: {error}", path.display())),
    }
}
