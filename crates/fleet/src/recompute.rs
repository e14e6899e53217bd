//! Computes the conditions of all stored resources again after a start with other rules: other required adapters, other names
//! of the combined conditions, or other conditions of the configuration. Until then they follow the rules of their last report.
//!
//! The pass goes through the writer in small batches, so that other commands wait for one batch at most. The store remembers the
//! rules only after a whole pass, so that a pass that is cut off begins again with the next start; what it has computed already
//! is not written twice.

use std::time::Duration;

use crate::fleet::Fleet;
use crate::store::{Revision, StoreError};
use crate::writer::{Command, WriteError};

/// How many resources are computed at a time.
const BATCH: usize = 100;
/// The delay before a pass that failed begins again; it doubles up to the maximum.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

/// Why the conditions of all resources could not be computed again. What was computed is kept.
#[derive(Debug, thiserror::Error)]
pub enum RecomputeError {
    /// A read failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Computes all conditions again if the rules differ from those of the last complete pass. Retries until it is done.
pub(crate) async fn retry_until_computed(fleet: Fleet) {
    let mut delay = MIN_RETRY_DELAY;
    loop {
        match fleet.recompute_if_rules_changed().await {
            Ok(0) => return,
            Ok(resources) => {
                tracing::info!(
                    resources,
                    "computed the conditions of all resources by the rules of the configuration"
                );
                return;
            }
            Err(error) => {
                tracing::warn!(%error, retry_after = ?delay, "cannot compute the conditions of all resources by the rules of the configuration");
                tokio::time::sleep(delay).await;
                delay = MAX_RETRY_DELAY.min(delay * 2);
            }
        }
    }
}

impl Fleet {
    /// Computes the conditions of all resources again if the rules differ from those of the last complete pass. Returns the number
    /// of resources that were computed.
    pub async fn recompute_if_rules_changed(&self) -> Result<usize, RecomputeError> {
        let rules = self.kinds().rules();
        if self.store().computed_rules().await?.as_deref() == Some(rules) {
            return Ok(0);
        }
        let last = *self.store().revision().borrow();
        let count = self.recompute_through(last).await?;
        self.store().set_computed_rules(rules).await?;
        Ok(count)
    }

    /// Computes the conditions of the resources that were last changed at or before a revision. Later changes followed the rules.
    async fn recompute_through(&self, last: Revision) -> Result<usize, RecomputeError> {
        let (mut after, mut count) = (0, 0);
        loop {
            let events = self.store().existing(after, last, BATCH).await?;
            let Some(newest) = events.last().map(|event| event.revision) else { return Ok(count) };
            let commands =
                events.iter().map(|event| self.write(Command::Recompute { id: event.resource.id }));
            for written in futures::future::join_all(commands).await {
                written?;
            }
            (after, count) = (newest, count + events.len());
        }
    }
}
