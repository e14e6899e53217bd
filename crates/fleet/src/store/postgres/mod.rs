//! The store on PostgreSQL, for any number of processes. Each process has a few connections that write, a few that read, and one
//! that listens for notifications of other processes.
//!
//! **Invariants.** A writer holds a lock on the row of the root of a tree of resources. Commits become visible in the order of their
//! revisions: the row of the feed is locked from the assignment of revisions until their commit.

mod address;
mod connection;
mod json;
mod listen;
mod load;
mod migrate;
mod read;
mod tls;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::plan::{StoredById, plan};
use super::{
    Changed, Changes, Event, Listing, Loaded, Needs, OpenError, Page, Pending, Query, Revision, Store,
    StoreError, Transaction, advance,
};
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};
use address::Address;
use connection::{BY_KEYS, Connection, Lease, Pool};

/// The number of connections for reads.
const READERS: usize = 6;
/// The number of batches that are written at the same time: the rows of one are read while another one is synced to disk.
const CONCURRENT_TRANSACTIONS: usize = 2;
/// The number of connections for writes: those of batches, and one that removes expired rows.
const WRITERS: usize = CONCURRENT_TRANSACTIONS + 1;
/// The notification channel for new revisions.
const LISTEN: &str = "fleet_revision";

/// The store on PostgreSQL.
pub struct Postgres {
    writers: Arc<Pool>,
    readers: Arc<Pool>,
    revision: watch::Sender<Revision>,
    listener: AbortHandle,
}

impl Postgres {
    /// Connects to a database by its URL, such as `postgres://user:password@host/fleet`, and migrates its schema.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let address = Address::parse(url)?;
        let writers = Pool::new(address.clone(), WRITERS, BY_KEYS);
        let writer = writers.lease().await.map_err(migrate::failed)?;
        migrate::migrate(writer.connection()).await?;
        let latest = read::revision(writer.connection()).await.map_err(migrate::failed)?;
        writer.done();
        let revision = watch::Sender::new(latest);
        let listener = tokio::spawn(listen::follow(address.clone(), revision.clone())).abort_handle();
        let readers = Pool::new(address, READERS, "");
        Ok(Self { writers, readers, revision, listener })
    }

    /// Waits for a connection that writes.
    async fn writer(&self) -> Result<Open, StoreError> {
        Ok(Open { lease: Some(self.writers.lease().await?) })
    }

    async fn read<T>(
        &self,
        read: impl for<'a> FnOnce(&'a Connection) -> BoxFuture<'a, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let lease = self.readers.lease().await?;
        let found = read(lease.connection()).await?;
        lease.done();
        Ok(found)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Exclusive use of a connection that writes. On drop, an open transaction is rolled back.
struct Open {
    lease: Option<Lease>,
}

impl Open {
    fn connection(&self) -> Result<&Connection, StoreError> {
        let connection = self.lease.as_ref().map(Lease::connection);
        connection.ok_or_else(|| StoreError::Unavailable("there is no connection".into()))
    }

    /// There is no open transaction to roll back.
    fn done(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.done();
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        // Without a runtime the connection is closed, which rolls back, too.
        let Some(lease) = self.lease.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            match lease.connection().run("ROLLBACK").await {
                Ok(_) => lease.done(),
                Err(error) => tracing::debug!(%error, "closing a connection that writes"),
            }
        });
    }
}

/// A transaction with locked trees, after all required rows were read.
struct PostgresTransaction {
    open: Open,
    stored: StoredById,
    revision: watch::Sender<Revision>,
}

#[async_trait]
impl Store for Postgres {
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError> {
        let open = self.writer().await?;
        let (loaded, stored) = load::begin(open.connection()?, needs).await?;
        let revision = self.revision.clone();
        Ok((Box::new(PostgresTransaction { open, stored, revision }), loaded))
    }

    fn concurrent_transactions(&self) -> usize {
        CONCURRENT_TRANSACTIONS
    }

    async fn get(&self, id: Id) -> Result<Option<Resource>, StoreError> {
        self.read(move |connection| Box::pin(read::get(connection, id))).await
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let query = query.clone();
        self.read(move |connection| Box::pin(async move { read::list(connection, &query).await })).await
    }

    async fn statuses(&self, id: Id, page: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
        self.read(move |connection| Box::pin(read::statuses(connection, id, page))).await
    }

    async fn log(&self, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError> {
        self.read(move |connection| Box::pin(read::log(connection, id, page))).await
    }

    async fn changes(&self, since: Revision, limit: usize) -> Result<Changed, StoreError> {
        self.read(move |connection| Box::pin(read::changes(connection, since, limit))).await
    }

    async fn existing(
        &self,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.read(move |connection| Box::pin(read::existing(connection, after, through, limit))).await
    }

    async fn computed_rules(&self) -> Result<Option<String>, StoreError> {
        self.read(|connection| Box::pin(read::computed_rules(connection))).await
    }

    async fn set_computed_rules(&self, rules: &str) -> Result<(), StoreError> {
        let open = self.writer().await?;
        let sql = "INSERT INTO computed_rules (one, rules) VALUES (1, $1) ON CONFLICT (one) DO UPDATE SET rules = $1";
        open.connection()?.query(sql, &[&rules]).await?;
        open.done();
        Ok(())
    }

    fn revision(&self) -> watch::Receiver<Revision> {
        self.revision.subscribe()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.read(|connection| Box::pin(async move { read::revision(connection).await.map(|_| ()) })).await
    }

    async fn pending(&self, condition: &str) -> Result<Vec<Pending>, StoreError> {
        let condition = condition.to_owned();
        self.read(move |connection| Box::pin(async move { read::pending(connection, &condition).await }))
            .await
    }

    async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError> {
        let open = self.writer().await?;
        let more = write::prune(open.connection()?, log_before, tombstones).await?;
        open.done();
        Ok(more)
    }
}

#[async_trait]
impl Transaction for PostgresTransaction {
    async fn commit(self: Box<Self>, changes: &Changes) -> Result<Revision, StoreError> {
        let Self { open, stored, revision } = *self;
        let plan = plan(changes, &stored)?;
        let committed = write::commit(open.connection()?, &plan).await?;
        open.done();
        advance(&revision, committed);
        Ok(committed)
    }
}
