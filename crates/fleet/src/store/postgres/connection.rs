//! Connections: connecting, session settings, classification of errors, and pipelined requests.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, MaybeDone, maybe_done};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

use super::address::Address;
use crate::store::StoreError;

/// How long to wait for a free or a new connection.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of cached statements of a connection. Searches create new ones all the time.
const STATEMENTS: usize = 256;

/// A statement runs for at most 30 s, and a process that hangs in a transaction does not block others.
const SESSION: &str = "SET statement_timeout = '30s'; SET lock_timeout = '10s'; \
    SET idle_in_transaction_session_timeout = '30s'; SET default_transaction_isolation = 'read committed'; SET jit = off; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')";

/// A writer accesses rows only by key. A plan that was made while the tables were small must not keep scanning them.
pub(super) const BY_KEYS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; \
    SET plan_cache_mode = force_generic_plan";

pub(super) type Parameters<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection and its cached statements.
pub(super) struct Connection {
    client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Connection {
    /// Connects, with a timeout.
    pub(super) async fn open(address: &Address) -> Result<Self, StoreError> {
        let connecting = async {
            let (client, connection) = address.connect().await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection to PostgreSQL was closed");
                }
            });
            Self::set(client).await
        };
        tokio::time::timeout(CONNECT_TIMEOUT, connecting).await.map_err(late)?
    }

    /// Sets up a client whose connection is polled by the caller.
    pub(super) async fn set(client: Client) -> Result<Self, StoreError> {
        client.batch_execute(SESSION).await.map_err(store_error)?;
        Ok(Self { client, statements: Mutex::default() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements without parameters.
    pub(super) async fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.client.batch_execute(sql).await.map_err(store_error)
    }

    /// A prepared statement from the cache, or a new one.
    pub(super) async fn prepare(&self, sql: &str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.statements.lock().get(sql) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(sql).await.map_err(store_error)?;
        let mut statements = self.statements.lock();
        if statements.len() >= STATEMENTS {
            statements.clear();
        }
        statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Runs a prepared statement.
    pub(super) async fn send(
        &self,
        statement: &Statement,
        parameters: Parameters<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.client.query(statement, parameters).await.map_err(store_error)
    }

    /// Prepares a statement and runs it.
    pub(super) async fn query(&self, sql: &str, parameters: Parameters<'_>) -> Result<Vec<Row>, StoreError> {
        self.send(&self.prepare(sql).await?, parameters).await
    }
}

/// Sends requests without waiting for responses in between (pipelining); they run in this order. The error is that of the first failed
/// request, because later ones only report that the transaction is aborted.
pub(super) async fn pipelined<T>(
    requests: Vec<BoxFuture<'_, Result<T, StoreError>>>,
) -> Result<Vec<T>, StoreError> {
    let mut requests: Vec<MaybeDone<_>> = requests.into_iter().map(maybe_done).collect();
    std::future::poll_fn(|context| {
        // A request is sent when it is first polled, hence in the order of this loop.
        let mut answered = Poll::Ready(());
        for request in &mut requests {
            if Pin::new(request).poll(context).is_pending() {
                answered = Poll::Pending;
            }
        }
        answered
    })
    .await;
    requests.iter_mut().filter_map(|request| Pin::new(request).take_output()).collect()
}

/// Connections to one database.
pub(super) struct Pool {
    address: Address,
    /// The SQL that every connection of the pool runs first.
    settings: &'static str,
    idle: Mutex<Vec<Connection>>,
    free: Arc<Semaphore>,
}

/// A connection of the pool. It is returned when its user has finished. Otherwise its state is unknown, and it is closed.
pub(super) struct Lease {
    connection: Connection,
    pool: Arc<Pool>,
    _permit: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(address: Address, size: usize, settings: &'static str) -> Arc<Self> {
        Arc::new(Self { address, settings, idle: Mutex::default(), free: Arc::new(Semaphore::new(size)) })
    }

    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease, StoreError> {
        let free = tokio::time::timeout(CONNECT_TIMEOUT, Arc::clone(&self.free).acquire_owned())
            .await
            .map_err(late)?;
        let permit = free.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let connection = match self.idle() {
            Some(connection) => connection,
            None => self.open().await?,
        };
        Ok(Lease { connection, pool: Arc::clone(self), _permit: permit })
    }

    async fn open(&self) -> Result<Connection, StoreError> {
        let connection = Connection::open(&self.address).await?;
        if !self.settings.is_empty() {
            connection.run(self.settings).await?;
        }
        Ok(connection)
    }

    fn idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|connection| !connection.is_closed());
        idle.pop()
    }
}

impl Lease {
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn done(self) {
        self.pool.idle.lock().push(self.connection);
    }
}

fn late(_: tokio::time::error::Elapsed) -> StoreError {
    StoreError::Unavailable(format!("no connection within {CONNECT_TIMEOUT:?}"))
}

/// Classifies an error of PostgreSQL for the writer: retry, wait, or fail.
pub(super) fn store_error(error: tokio_postgres::Error) -> StoreError {
    let Some(database) = error.as_db_error() else {
        let why = with_cause(&error);
        return if is_ours(&error) { StoreError::Failed(why) } else { StoreError::Unavailable(why) };
    };
    let (code, why) = (database.code(), format!("{}: {}", database.code().code(), database.message()));
    let in_the_way = [
        SqlState::UNIQUE_VIOLATION,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::LOCK_NOT_AVAILABLE,
    ];
    // Classes: 08 connection, 53 insufficient resources, 57 operator intervention, 58 system error; 25006 is a server that became a replica.
    let class = code.code().get(..2).unwrap_or_default();
    if in_the_way.contains(code) {
        StoreError::Conflict(why)
    } else if ["08", "53", "57", "58"].contains(&class)
        || [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT].contains(code)
    {
        StoreError::Unavailable(why)
    } else {
        StoreError::Failed(why)
    }
}

/// Whether a value could not be encoded or decoded, which is not an error of the connection.
fn is_ours(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    let io = error.source().is_some_and(|source| source.is::<std::io::Error>());
    !error.is_closed() && !io && error.source().is_some()
}

fn with_cause(error: &tokio_postgres::Error) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}
