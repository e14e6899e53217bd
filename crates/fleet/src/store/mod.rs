//! Where the fleet is kept: one trait, [SQLite](sqlite) by default and PostgreSQL in production.
//!
//! A store knows rows and transactions and nothing of what they mean. Writers read what a batch of commands needs, decide
//! without the store, and write what changed, all in one transaction: [`Store::begin`], then [`Transaction::commit`].
//! Readers see only what was committed.

mod open;
mod plan;
#[cfg(feature = "postgres")]
pub mod postgres;
pub(crate) mod query;
mod rows;
pub mod sqlite;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::watch;

pub use open::OpenError;

use crate::resource::{AdapterRecord, AdapterStatus, Id, LogEntry, Resource, Tenancy};
use crate::search::Filter;

/// Counts every change of every resource, in the order of commits. 0 is before the first.
pub type Revision = i64;

/// Why a store could not do what was asked. Its words are for the log, never for a caller of the API.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another writer was in the way; the same may succeed now.
    #[error("another writer was in the way: {0}")]
    Conflict(String),
    /// The database does not answer, for now.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// The database refused, or holds what we cannot read.
    #[error("the database failed: {0}")]
    Failed(String),
}

/// Rows and transactions.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Opens a transaction, and reads what the writer needs. Nobody else changes what was read until it ends. One that is
    /// dropped changes nothing.
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError>;

    /// A resource by its id.
    async fn get(&self, id: Id) -> Result<Option<Resource>, StoreError>;

    /// One page of a list, with the count of all pages, and the revision at which both were true.
    async fn list(&self, query: &Query) -> Result<Listing, StoreError>;

    /// The accepted statuses of a resource, by the name of their adapters.
    async fn statuses(&self, id: Id, page: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError>;

    /// The status log of a resource, newest first, at most [`LOG_LENGTH`] entries.
    async fn log(&self, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError>;

    /// What changed after a revision, each resource once, in the order of revisions; at most `limit` changes.
    async fn changes(&self, since: Revision, limit: usize) -> Result<Changed, StoreError>;

    /// What there is whose last change was after one revision and not after another, in the order of revisions; at most
    /// `limit` resources, each as [`EventKind::Added`].
    async fn existing(
        &self,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError>;

    /// The latest revision, as it moves. Also moves when another process writes.
    fn revision(&self) -> watch::Receiver<Revision>;

    /// Whether the database answers.
    async fn ping(&self) -> Result<(), StoreError>;

    /// How many resources of each kind are not at their wanted state: the condition of this type is not True.
    async fn pending(&self, condition: &str) -> Result<Vec<Pending>, StoreError>;

    /// Forgets log entries that came in before an instant, and all but the newest `tombstones` removals. Slices, so that
    /// nobody waits for it; says whether there is more.
    async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError>;
}

/// How many entries of its status log a resource keeps.
pub const LOG_LENGTH: u64 = 1000;

/// What a batch of writes has to know.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Needs {
    /// These resources and their ancestors; and where one of these is being deleted, how many children each of them and of
    /// their ancestors has.
    pub lineages: BTreeSet<Id>,
    /// Also all descendants of these.
    pub descendants: BTreeSet<Id>,
    /// Whether these names are taken.
    pub names: BTreeSet<NameKey>,
}

/// What makes a name unique among the resources that are not being deleted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameKey {
    /// The kind.
    pub kind: String,
    /// The owner, of a child.
    pub owner: Option<Id>,
    /// Whose it is.
    pub tenancy: Tenancy,
    /// The name.
    pub name: String,
}

/// What was read for a batch of writes.
#[derive(Debug, Default, Clone)]
pub struct Loaded {
    /// The resources that there are.
    pub resources: HashMap<Id, Entry>,
    /// The children of every loaded resource that is being deleted or whose descendants were asked for.
    pub children: HashMap<Id, BTreeSet<Id>>,
    /// The names that are taken.
    pub taken: BTreeSet<NameKey>,
}

/// A resource and what its adapters said.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The resource.
    pub resource: Resource,
    /// By the name of the adapter.
    pub adapters: BTreeMap<String, AdapterRecord>,
}

/// What a batch of writes changed. Each resource is there once, as it was and as it is at the end of the batch.
#[derive(Debug, Default)]
pub struct Changes {
    /// In the order of their last change, which becomes that of their revisions.
    pub resources: Vec<Change>,
    /// Adapters that were heard, as they now are.
    pub adapters: Vec<(Id, AdapterRecord)>,
    /// What became of the reports, in order. Of resources that are removed nothing is kept.
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
    /// It is new.
    Created(Resource),
    /// It was one and is now the other. Only what differs is written.
    Updated {
        /// As it was read.
        before: Arc<Resource>,
        /// As it is.
        after: Resource,
    },
    /// It is gone, with its statuses and its log; this is what it last was.
    Removed(Resource),
}

/// An open transaction.
#[async_trait]
pub trait Transaction: Send {
    /// Writes the changes and makes them last. When this returns, they are on disk, and the revision is that of the last
    /// change.
    async fn commit(self: Box<Self>, changes: &Changes) -> Result<Revision, StoreError>;
}

/// Which resources to list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// Of this kind only.
    pub kind: Option<String>,
    /// Of this owner only.
    pub owner: Option<Id>,
    /// Of this tenant only; `None` is everybody's.
    pub tenancy: Option<Tenancy>,
    /// Those that match.
    pub search: Option<Filter>,
    /// In this order; what is equal by it, by id, newest first.
    pub order: Vec<Order>,
    /// Which part.
    pub page: Page,
}

/// One key of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// By what.
    pub column: Column,
    /// Which way.
    pub direction: Direction,
}

/// What resources can be ordered by.
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

/// Which way an order goes.
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
    /// How many at most.
    pub size: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { number: 1, size: 20 }
    }
}

impl Page {
    /// How many come before it.
    pub fn offset(self) -> u64 {
        u64::from(self.number.saturating_sub(1)) * u64::from(self.size)
    }
}

/// One page, and how much there is.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// The resources of the page.
    pub items: Vec<Resource>,
    /// How many match.
    pub total: u64,
    /// When that was so.
    pub revision: Revision,
}

/// What changed after a revision.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// These, and nothing else up to `through`.
    Since {
        /// In the order of revisions.
        events: Vec<Event>,
        /// Everything up to here has been told.
        through: Revision,
    },
    /// Removals after that revision have been forgotten: start from the beginning.
    Expired,
}

/// One change of the feed.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When.
    pub revision: Revision,
    /// What happened to it since the revision that was asked from.
    pub kind: EventKind,
    /// As it now is, or last was.
    pub resource: Arc<Resource>,
}

/// What happened to a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It came.
    Added,
    /// It changed.
    Modified,
    /// It went.
    Deleted,
}

/// Resources of a kind that are not as wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The kind.
    pub kind: String,
    /// Whether they are being deleted.
    pub deleting: bool,
    /// Since when each is so: its last transition, or its making.
    pub since: Vec<Timestamp>,
}

/// Moves the latest revision forward, never back: commits may be told of out of order.
fn advance(latest: &watch::Sender<Revision>, revision: Revision) {
    latest.send_if_modified(|latest| {
        let later = revision > *latest;
        *latest = revision.max(*latest);
        later
    });
}
