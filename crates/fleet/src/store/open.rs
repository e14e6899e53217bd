//! Why a store could not be opened, in words for whoever starts the program.

use std::path::PathBuf;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or made.
    #[error("{path}: {why}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        why: std::io::Error,
    },
    /// Something else is in the file.
    #[error("{0} is not a database of the fleet API")]
    NotOurs(PathBuf),
    /// The file may only be read.
    #[error("{0} is not writable")]
    NotWritable(PathBuf),
    /// Another process has it open.
    #[error("{0} is in use by another process")]
    InUse(PathBuf),
    /// The database was written by a later version of this program.
    #[error(
        "the database is of version {found}, and this program knows versions up to {known}: use a newer program"
    )]
    Newer {
        /// The version of the database.
        found: i64,
        /// The latest that this program knows.
        known: i64,
    },
    /// The address of the database cannot be used.
    #[error("the address of the database: {0}")]
    Address(String),
    /// The database cannot be reached.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The database refused.
    #[error("the database cannot be prepared: {0}")]
    Failed(String),
}

/// One step of a schema: the statements that lead to a version from the one before.
pub(super) struct Migration {
    pub(super) version: i64,
    pub(super) sql: &'static str,
}

/// The steps that a database of this version lacks.
pub(super) fn missing(migrations: &[Migration], found: i64) -> Result<Vec<&Migration>, OpenError> {
    let known = migrations.iter().map(|migration| migration.version).max().unwrap_or_default();
    if found > known {
        return Err(OpenError::Newer { found, known });
    }
    Ok(migrations.iter().filter(|migration| migration.version > found).collect())
}
