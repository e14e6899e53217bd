//! The store on PostgreSQL, for any number of processes. Each process has one connection that writes, a few that read, and one that
//! listens for notifications of other processes.
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
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio::task::AbortHandle;

use super::plan::plan;
use super::{
    Changed, Changes, Event, Listing, Loaded, Needs, OpenError, Page, Pending, Query, Revision, Store,
    StoreError, Transaction, advance,
};
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};
use address::Address;
use connection::{BY_KEYS, Connection, Pool};
use load::Trees;
use write::Untrimmed;

/// The number of connections for reads.
const READERS: usize = 6;
/// The notification channel for new revisions.
const LISTEN: &str = "fleet_revision";

/// The store on PostgreSQL.
pub struct Postgres {
    address: Address,
    writer: Arc<tokio::sync::Mutex<Option<Connection>>>,
    readers: Pool,
    untrimmed: Arc<Mutex<Untrimmed>>,
    revision: watch::Sender<Revision>,
    listener: AbortHandle,
}

impl Postgres {
    /// Connects to a database by its URL, such as `postgres://user:password@host/fleet`, and migrates its schema.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        let address = Address::parse(url)?;
        let writer = open_writer(&address).await.map_err(migrate::failed)?;
        migrate::migrate(&writer).await?;
        let latest = read::revision(&writer).await.map_err(migrate::failed)?;
        let revision = watch::Sender::new(latest);
        let listener = tokio::spawn(listen::follow(address.clone(), revision.clone())).abort_handle();
        Ok(Self {
            readers: Pool::new(address.clone(), READERS),
            writer: Arc::new(tokio::sync::Mutex::new(Some(writer))),
            untrimmed: Arc::default(),
            address,
            revision,
            listener,
        })
    }

    /// Waits for the connection that writes. If it was lost, a new one is opened.
    async fn writer(&self) -> Result<Open, StoreError> {
        let mut writer = Arc::clone(&self.writer).lock_owned().await;
        if writer.as_ref().is_none_or(Connection::is_closed) {
            *writer = None;
            *writer = Some(open_writer(&self.address).await?);
        }
        Ok(Open { writer: Some(writer) })
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

async fn open_writer(address: &Address) -> Result<Connection, StoreError> {
    let connection = Connection::open(address).await?;
    connection.run(BY_KEYS).await?;
    Ok(connection)
}

/// Exclusive use of the connection that writes. On drop, an open transaction is rolled back.
struct Open {
    writer: Option<OwnedMutexGuard<Option<Connection>>>,
}

impl Open {
    fn connection(&self) -> Result<&Connection, StoreError> {
        let connection = self.writer.as_ref().and_then(|writer| writer.as_ref());
        connection.ok_or_else(|| StoreError::Unavailable("there is no connection".into()))
    }

    /// There is no open transaction to roll back.
    fn done(mut self) {
        self.writer = None;
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            *writer = None;
            return;
        };
        runtime.spawn(async move {
            let undone = match writer.as_ref() {
                Some(connection) => connection.run("ROLLBACK").await,
                None => Ok(()),
            };
            if let Err(error) = undone {
                tracing::debug!(%error, "closing the connection that writes");
                *writer = None;
            }
        });
    }
}

/// A transaction with locked trees, after all required rows were read.
struct PostgresTransaction {
    open: Open,
    trees: Trees,
    untrimmed: Arc<Mutex<Untrimmed>>,
    revision: watch::Sender<Revision>,
}

#[async_trait]
impl Store for Postgres {
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError> {
        let open = self.writer().await?;
        let (loaded, trees) = load::begin(open.connection()?, needs).await?;
        let (untrimmed, revision) = (Arc::clone(&self.untrimmed), self.revision.clone());
        Ok((Box::new(PostgresTransaction { open, trees, untrimmed, revision }), loaded))
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
        let Self { open, trees, untrimmed, revision } = *self;
        let plan = plan(changes, &trees)?;
        let trim = untrimmed.lock().count(&plan);
        let committed = write::commit(open.connection()?, &plan, &trim).await?;
        open.done();
        advance(&revision, committed);
        Ok(committed)
    }
}
