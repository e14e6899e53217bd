//! Migrates the schema. Replicas that start together are serialized by a lock.

use crate::store::StoreError;
use crate::store::open::{self, Migration, OpenError};

use super::connection::Connection;
use super::write;

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, sql: include_str!("migrations/001_resources.sql"), writes_keys: false },
    Migration { version: 2, sql: include_str!("migrations/002_computed_rules.sql"), writes_keys: false },
    Migration { version: 3, sql: include_str!("migrations/003_keys_and_states.sql"), writes_keys: true },
];
/// The advisory lock of the migration; the number is "fleet" in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(439922386292)";
const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS fleet_migrations \
    (version BIGINT PRIMARY KEY, applied_time TIMESTAMPTZ NOT NULL DEFAULT now())";

/// Migrates the database to the version of this program.
pub(super) async fn migrate(connection: &Connection) -> Result<(), OpenError> {
    connection.run("BEGIN").await.map_err(failed)?;
    connection
        .run("SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = '10min'")
        .await
        .map_err(failed)?;
    connection.run(LOCK).await.map_err(failed)?;
    connection.run(VERSIONS).await.map_err(failed)?;
    let rows = connection.query("SELECT COALESCE(max(version), 0) FROM fleet_migrations", &[]).await;
    let found = rows.map_err(failed)?.first().map_or(Ok(0), |row| row.try_get(0));
    let found: i64 = found.map_err(|error| OpenError::Failed(error.to_string()))?;
    for migration in open::missing(MIGRATIONS, found)? {
        connection.run(migration.sql).await.map_err(failed)?;
        if migration.writes_keys {
            write::write_all_keys(connection).await.map_err(failed)?;
        }
        let note = "INSERT INTO fleet_migrations (version) VALUES ($1)";
        connection.query(note, &[&migration.version]).await.map_err(failed)?;
    }
    connection.run("COMMIT").await.map_err(failed)
}

/// Converts an error of the migration.
pub(super) fn failed(error: StoreError) -> OpenError {
    match error {
        StoreError::Unavailable(why) => OpenError::Unreachable(why),
        StoreError::Conflict(why) | StoreError::Failed(why) => OpenError::Failed(why),
    }
}
