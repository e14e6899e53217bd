//! What every reconcile is run in: a time limit, and a panic that becomes a failure.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

use crate::reconciler::{ReconcileError, Retry};

/// Why a reconcile did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure<E: ReconcileError> {
    #[error(transparent)]
    Error(E),
    /// A request that is never answered must not block its key forever.
    #[error("the reconcile took longer than {0:?}")]
    TimedOut(Duration),
    #[error("the reconcile panicked: {0}")]
    Panicked(String),
}

impl<E: ReconcileError> Failure<E> {
    /// The kind of failure, for metrics.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Error(error) => error.label(),
            Self::TimedOut(_) => "timeout",
            Self::Panicked(_) => "panic",
        }
    }

    pub(crate) fn retry(&self) -> Retry {
        match self {
            Self::Error(error) => error.retry(),
            Self::TimedOut(_) | Self::Panicked(_) => Retry::Backoff,
        }
    }
}

/// Runs a reconcile for at most `limit`.
///
/// What it shared with others is as consistent as after an early return: an index is behind a lock that does not poison, and
/// a reconcile changes it in single steps.
pub(crate) async fn guarded<T, E: ReconcileError>(
    limit: Duration,
    reconcile: impl Future<Output = Result<T, E>>,
) -> Result<T, Failure<E>> {
    let caught = AssertUnwindSafe(reconcile).catch_unwind();
    match tokio::time::timeout(limit, caught).await {
        Ok(Ok(result)) => result.map_err(Failure::Error),
        Ok(Err(panic)) => Err(Failure::Panicked(panic_message(&*panic))),
        Err(_) => Err(Failure::TimedOut(limit)),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
