//! A store with metrics: durations and failures of operations, and the number of new generations.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bellwether_runtime::Metrics;
use jiff::Timestamp;
use tokio::sync::watch;

use crate::http::FleetMetrics;
use crate::resource::{AdapterStatus, Id, LogEntry, Resource};
use crate::store::{
    Change, Changed, Changes, Event, Listing, Loaded, Needs, Page, Pending, Query, Revision, Store,
    StoreError, Transaction,
};

/// A store that measures the operations of another store.
pub struct Measured {
    store: Arc<dyn Store>,
    metrics: FleetMetrics,
}

impl Measured {
    /// Measures the operations of a store.
    pub fn new(store: Arc<dyn Store>, metrics: &Metrics) -> Self {
        Self { store, metrics: metrics.group() }
    }
}

async fn measure<T>(
    metrics: &FleetMetrics,
    operation: &'static str,
    operation_future: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let started = Instant::now();
    let outcome = operation_future.await;
    metrics.record_query(operation, started.elapsed(), outcome.is_ok());
    outcome
}

#[async_trait]
impl Store for Measured {
    async fn begin(&self, needs: &Needs) -> Result<(Box<dyn Transaction>, Loaded), StoreError> {
        let (transaction, loaded) = measure(&self.metrics, "begin", self.store.begin(needs)).await?;
        Ok((Box::new(MeasuredTransaction { transaction, metrics: self.metrics.clone() }), loaded))
    }

    fn concurrent_transactions(&self) -> usize {
        self.store.concurrent_transactions()
    }

    async fn get(&self, id: Id) -> Result<Option<Resource>, StoreError> {
        measure(&self.metrics, "get", self.store.get(id)).await
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        measure(&self.metrics, "list", self.store.list(query)).await
    }

    async fn statuses(&self, id: Id, page: Page) -> Result<(Vec<AdapterStatus>, u64), StoreError> {
        measure(&self.metrics, "statuses", self.store.statuses(id, page)).await
    }

    async fn log(&self, id: Id, page: Page) -> Result<(Vec<LogEntry>, u64), StoreError> {
        measure(&self.metrics, "log", self.store.log(id, page)).await
    }

    async fn changes(&self, since: Revision, limit: usize) -> Result<Changed, StoreError> {
        measure(&self.metrics, "changes", self.store.changes(since, limit)).await
    }

    async fn existing(
        &self,
        after: Revision,
        through: Revision,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        measure(&self.metrics, "existing", self.store.existing(after, through, limit)).await
    }

    async fn computed_rules(&self) -> Result<Option<String>, StoreError> {
        measure(&self.metrics, "computed_rules", self.store.computed_rules()).await
    }

    async fn set_computed_rules(&self, rules: &str) -> Result<(), StoreError> {
        measure(&self.metrics, "set_computed_rules", self.store.set_computed_rules(rules)).await
    }

    fn revision(&self) -> watch::Receiver<Revision> {
        self.store.revision()
    }

    async fn ping(&self) -> Result<(), StoreError> {
        measure(&self.metrics, "ping", self.store.ping()).await
    }

    async fn pending(&self, condition: &str) -> Result<Vec<Pending>, StoreError> {
        measure(&self.metrics, "pending", self.store.pending(condition)).await
    }

    async fn prune(&self, log_before: Timestamp, tombstones: u64) -> Result<bool, StoreError> {
        measure(&self.metrics, "prune", self.store.prune(log_before, tombstones)).await
    }
}

struct MeasuredTransaction {
    transaction: Box<dyn Transaction>,
    metrics: FleetMetrics,
}

#[async_trait]
impl Transaction for MeasuredTransaction {
    async fn commit(self: Box<Self>, changes: &Changes) -> Result<Revision, StoreError> {
        let revision = measure(&self.metrics, "commit", self.transaction.commit(changes)).await?;
        for resource in changes.resources.iter().filter_map(with_new_generation) {
            self.metrics.record_generation(&resource.kind, resource.deleted_time.is_some());
        }
        Ok(revision)
    }
}

/// The resource of a change, if the change has a new generation.
fn with_new_generation(change: &Change) -> Option<&Resource> {
    match change {
        Change::Created(resource) => Some(resource),
        Change::Updated { before, after } => (before.generation != after.generation).then_some(after),
        Change::Removed { .. } => None,
    }
}
