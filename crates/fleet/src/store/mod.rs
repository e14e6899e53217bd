//! The store of the fleet: one trait, implemented by [SQLite](sqlite) and by PostgreSQL for production.
//!
//! A store handles rows and transactions, and does not interpret them. A writer reads the rows that a batch of commands needs, decides
//! without the store, and writes the changes, all in one transaction: [`Store::begin`], then [`Transaction::commit`]. Readers see only
//! committed rows.

mod open;
mod plan;
#[cfg(feature = "postgres")]
pub mod postgres;
pub(crate) mod query;
pub(crate) mod rows;
pub mod sqlite;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

pub use open::OpenError;

use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource, Tenancy};
use crate::search::Filter;

/// The number of a change, over all resources, in the order of commits. 0 is before the first change.
pub type Revision = i64;

/// Why an operation of the store failed. The messages are logged, and never sent to a caller of the API.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A conflict with another writer; a retry may succeed.
    #[error("conflict with another writer: {0}")]
    Conflict(String),
    /// The database does not respond.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database rejected the operation, or has rows that cannot be read.
    #[error("the database failed: {0}")]
    Failed(String),
}

/// Rows and transactions.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Starts a transaction, and reads the rows that the writer needs. No other writer changes them until it ends. Dropping the
    /// transaction rolls it back.
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError>;

    /// The number of transactions that may be open at the same time. More than one is faster where the rows of one batch can be read
    /// while another one is synced to disk.
    fn concurrent_transactions(&self) -> usize {
        1
    }

    /// Reads a resource by ID.
    async fn get(&self, id: Id) -> Result<Option<Resource>, StoreError>;

    /// Reads a page of a list, with the total count and the revision of both.
    async fn list(&self, query: &Query) -> Result<Listing, StoreError>;

    /// The accepted statuses of a resource, by the name of their adapters.
    async fn statuses(&self, id: Id, page: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError>;

    /// The status log of a resource, newest first, at most [`LOG_LENGTH`] entries.
    async fn log(&self, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError>;

    /// Reads the changes after a revision, each resource once, in the order of revisions; at most `limit` changes.
    async fn changes(&self, since: Revision, limit: usize) -> Result<Changed, StoreError>;

    /// Reads the resources whose last change is after one revision and not after another, in the order of revisions; at most `limit`
    /// resources, each as [`EventKind::Added`].
    async fn existing(
        &self,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError>;

    /// The rules by which the conditions of all resources were computed, or `None` if no pass over them has ended yet.
    async fn computed_rules(&self) -> Result<Option<String>, StoreError>;

    /// Stores that the conditions of all resources were computed by these rules.
    async fn set_computed_rules(&self, rules: &str) -> Result<(), StoreError>;

    /// The latest revision. It also changes when another process writes.
    fn revision(&self) -> watch::Receiver<Revision>;

    /// Checks that the database responds.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Reads the resources of each kind whose condition of this type is not True.
    async fn pending(&self, condition: &str) -> Result<Vec<Pending>, StoreError>;

    /// Removes log entries that were received before a time, and all but the newest `tombstones` deletions. It removes a limited number,
    /// so that other operations do not wait; returns whether there are more.
    async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError>;
}

/// How many entries of its status log a resource keeps.
pub const LOG_LENGTH: u64 = 1000;

/// The rows that a batch of writes needs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Needs {
    /// These resources and their ancestors. If one of them is being deleted, also the children of each of them and of their ancestors.
    pub lineages: BTreeSet<Id>,
    /// These resources with all descendants.
    pub descendants: BTreeSet<Id>,
    /// Whether these names exist.
    pub names: BTreeSet<NameKey>,
}

/// The key by which names are unique among resources that are not being deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameKey {
    /// The kind.
    pub kind: String,
    /// The owner, for a child.
    pub owner: Option<Id>,
    /// The tenant.
    pub tenancy: Tenancy,
    /// The name.
    pub name: String,
}

/// The rows that were read for a batch of writes.
#[derive(Debug, Default, Clone)]
pub struct Loaded {
    /// The existing resources.
    pub resources: HashMap<Id, Entry>,
    /// The children of every loaded resource that is being deleted or whose descendants were requested.
    pub children: HashMap<Id, BTreeSet<Id>>,
    /// The existing names.
    pub taken: BTreeSet<NameKey>,
}

/// A resource and the records of its adapters.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The resource.
    pub resource: Resource,
    /// By the name of the adapter.
    pub adapters: BTreeMap<String, AdapterRecord>,
}

/// The changes of a batch of writes. Each resource is listed once, before and after the batch.
#[derive(Debug, Default)]
pub struct Changes {
    /// Ordered by their last change, which is also the order of their revisions.
    pub resources: Vec<Change>,
    /// The records of adapters that have reported.
    pub adapters: Vec<(Id, AdapterRecord)>,
    /// The log entries, in order. Removed resources have none.
    pub log: Vec<(Id, LogEntry)>,
}

impl Changes {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.adapters.is_empty() && self.log.is_empty()
    }
}

/// The change of one resource.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// The resource is new.
    Created(Resource),
    /// The resource changed. Only differences are written.
    Updated {
        /// The resource before the batch.
        before: Arc<Resource>,
        /// The resource after the batch.
        after: Resource,
    },
    /// The resource was removed, with its statuses and its log.
    Removed {
        /// The resource before the batch.
        before: Arc<Resource>,
        /// Its last state.
        last: Resource,
    },
}

/// An open transaction.
#[async_trait]
pub trait Transaction: Send {
    /// Writes and commits the changes. When this returns, they are on disk. It returns the revision of the last change.
    async fn commit(self: Box<Self>, changes: &Changes) -> Result<Revision, StoreError>;
}

/// Which resources to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Only this kind.
    pub kind: Option<String>,
    /// Only children of this owner.
    pub owner: Option<Id>,
    /// Only this tenant; `None` is all tenants.
    pub tenancy: Option<Tenancy>,
    /// Only resources that match.
    pub search: Option<Filter>,
    /// The order; equal resources are ordered by ID, newest first.
    pub order: Vec<Order>,
    /// The page.
    pub page: Page,
}

/// One key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// The column.
    pub column: Column,
    /// The direction.
    pub direction: Direction,
}

/// The columns by which resources can be ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Column {
    Id,
    Kind,
    Name,
    Href,
    Generation,
    CreatedTime,
    CreatedBy,
    UpdatedTime,
    UpdatedBy,
    DeletedTime,
    DeletedBy,
    OwnerId,
    OwnerKind,
}

/// The direction of an order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    #[default]
    Ascending,
    /// Greatest first.
    Descending,
}

/// One page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// From 1.
    pub number: u32,
    /// The maximum number of items.
    pub size: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { number: 1, size: 20 }
    }
}

impl Page {
    /// The number of items before the page.
    pub fn offset(self) -> u64 {
        u64::from(self.number.saturating_sub(1)) * u64::from(self.size)
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The resources of the page.
    pub items: Vec<Resource>,
    /// The number of matching resources.
    pub total: u64,
    /// The revision of the list.
    pub revision: Revision,
}

/// The changes after a revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// All changes up to `through`.
    Since {
        /// The changes in the order of revisions.
        events: Vec<Event>,
        /// The last revision that is covered.
        through: Revision,
    },
    /// Deletions after that revision have been removed: list again.
    Expired,
}

/// A change of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The revision of the change.
    pub revision: Revision,
    /// The change since the requested revision.
    pub kind: EventKind,
    /// The resource after the change, or before its removal.
    pub resource: Arc<Resource>,
}

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The resource was created.
    Added,
    /// The resource was changed.
    Modified,
    /// The resource was removed.
    Deleted,
}

/// Resources of a kind whose condition is not True.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The kind.
    pub kind: String,
    /// Whether they are being deleted.
    pub deleting: bool,
    /// Since when each is pending: its last transition, or its creation.
    pub since: Vec<Timestamp>,
}

/// Increases the latest revision, and never decreases it: notifications of commits may arrive out of order.
fn advance(latest: &watch::Sender<Revision>, revision: Revision) {
    latest.send_if_modified(|latest| {
        let later = revision > *latest;
        *latest = revision.max(*latest);
        later
    });
}
