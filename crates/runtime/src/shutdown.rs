//! Stopping so that what was begun is finished: tasks are told, and then waited for.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The end of a process, as its tasks see it. Clones are the same end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
}

impl Shutdown {
    /// Starts a task that is waited for at the end. It has to look out for [`begun`](Self::begun) by itself.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task);
    }

    /// Resolves when the end has begun: take up nothing new, and finish.
    pub fn begun(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.token.clone().cancelled_owned()
    }

    /// Whether the end has begun.
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Begins the end, and returns when every task has finished. How long that may take is for the caller to bound.
    pub async fn finish(&self) {
        self.token.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_begun_is_finished() {
        let shutdown = Shutdown::default();
        let finished = Arc::new(AtomicBool::new(false));
        shutdown.spawn({
            let (begun, finished) = (shutdown.begun(), finished.clone());
            async move {
                begun.await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                finished.store(true, Ordering::Relaxed);
            }
        });
        assert!(!shutdown.has_begun());
        shutdown.finish().await;
        assert!(finished.load(Ordering::Relaxed));
    }
}
