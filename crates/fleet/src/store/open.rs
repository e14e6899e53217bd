//! Errors of opening a store, and the selection of schema migrations.

use std::path::PathBuf;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or created.
    #[error("{path}: {why}")]
    File {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        why: std::io::Error,
    },
    /// The file is not a database of the fleet API.
    #[error("{0} is not a database of the fleet API; use another path")]
    NotOurs(PathBuf),
    /// The file is read-only.
    #[error("{0} is not writable; check its permissions")]
    NotWritable(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The schema of the database is newer than this program supports.
    #[error(
        "the database has schema version {found}, and this version of bellwether supports versions up to {known}; use a newer bellwether"
    )]
    Newer {
        /// The schema version of the database.
        found: i64,
        /// The latest schema version that this program supports.
        known: i64,
    },
    /// The URL of the database is invalid.
    #[error("the URL of the database is invalid: {0}")]
    Address(String),
    /// The database cannot be reached.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The schema cannot be created or migrated.
    #[error("the schema of the database cannot be migrated: {0}")]
    Failed(String),
}

/// A schema migration: the statements that lead from the previous version to this one.
pub(super) struct Migration {
    pub(super) version: i64,
    pub(super) sql: &'static str,
    /// Whether the keys of all resources are then written.
    pub(super) writes_keys: bool,
}

/// The migrations that a database of this version lacks.
pub(super) fn missing(migrations: &[Migration], found: i64) -> Result<Vec<&Migration>, OpenError> {
    let known = migrations.iter().map(|migration| migration.version).max().unwrap_or_default();
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    Ok(migrations.iter().filter(|migration| migration.version > found).collect())
}
