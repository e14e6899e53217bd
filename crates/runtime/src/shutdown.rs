//! Stopping so that what was begun is finished: tasks are told, and then waited for; and what they need until their
//! end, such as the lease by which they act, is kept until then.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The end of a process, as its tasks see it. Clones are the same end.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: TaskTracker,
    last_token: CancellationToken,
    last_tasks: TaskTracker,
}

impl Shutdown {
    /// Starts a task that is waited for at the end. It has to look out for [`begun`](Self::begun) by itself.
    pub fn spawn<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task);
    }

    /// Starts a task that others need until they have finished. It has to look out for
    /// [`all_others_finished`](Self::all_others_finished) by itself.
    pub fn spawn_last<F>(&self, task: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.last_tasks.spawn(task);
    }

    /// Resolves when the end has begun and every task but the last ones has finished.
    pub fn all_others_finished(&self) -> impl Future<Output = ()> + Send + Sync + 'static {
        self.last_token.clone().cancelled_owned()
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
        self.last_token.cancel();
        self.last_tasks.close();
        self.last_tasks.wait().await;
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

    #[tokio::test(start_paused = true)]
    async fn what_others_need_ends_after_them() {
        let shutdown = Shutdown::default();
        let (finished, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        shutdown.spawn_last({
            let (end, finished, seen) = (shutdown.all_others_finished(), finished.clone(), seen.clone());
            async move {
                end.await;
                seen.store(finished.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        });
        shutdown.spawn({
            let (begun, finished) = (shutdown.begun(), finished.clone());
            async move {
                begun.await;
                tokio::time::sleep(Duration::from_secs(3)).await;
                finished.store(true, Ordering::Relaxed);
            }
        });
        shutdown.finish().await;
        assert!(seen.load(Ordering::Relaxed));
    }
}
